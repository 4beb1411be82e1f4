//! The messages that a router connection writes next: circuits with messages, served in turn.

use std::sync::Arc;
use std::time::Instant;

use weft_channel::UnderlayWaker;
use weft_circuit::{Carries, DataOutbox, Flow, LastPort};
use weft_limits::Budget;
use weft_wire::Message;
use weft_xgress::{Class, Crowd, FlowSource, Tally};

use crate::circuit::Circuit;

/// A listed circuit.
pub(crate) struct Listed(Arc<Circuit>);

impl FlowSource for Listed {
    type Frame = Message;

    fn pull(&self, class: Class, now: Instant) -> Option<(Message, u64)> {
        self.0.pull(class, now)
    }

    fn tally(&self) -> &Tally {
        self.0.tally()
    }

    fn is_near(&self) -> bool {
        self.0.is_near()
    }
}

impl Flow for Listed {
    // Nothing is noted: a circuit ends with its connection, and is listed nowhere after that.
    fn unlisted(&self, _: Class) {}
}

/// The circuits of one router connection that have messages to send.
#[derive(Debug)]
pub(crate) struct RouterOutlet {
    listed: Arc<weft_circuit::Outlet<Listed>>,
    waker: UnderlayWaker,
}

impl RouterOutlet {
    /// The outlet of the connection that this waker wakes, and the side that serves the connection.
    pub(crate) fn new(waker: UnderlayWaker) -> (Arc<Self>, DataOutbox<Listed>) {
        // The outlet itself holds no payloads: circuits hold them within their windows.
        let listed = weft_circuit::Outlet::new(Budget::unlimited());
        let outbox = listed.open(Carries::Payloads, waker.clone());
        (Arc::new(Self { listed, waker }), outbox)
    }

    /// Lists a circuit that has messages. The circuit itself notes that it is listed.
    pub(crate) fn list(&self, class: Class, circuit: Arc<Circuit>) {
        self.listed.list(class, &LastPort::default(), Listed(circuit));
    }

    /// The payloads that circuits have on their way over this connection and short paths.
    pub(crate) fn crowd(&self) -> &Arc<Crowd> {
        self.listed.crowd()
    }

    /// Lets the connection read again.
    pub(crate) fn resume_reading(&self) {
        self.waker.resume();
    }

    /// The connection is gone: nothing is listed any more.
    pub(crate) fn clear(&self) {
        self.listed.close();
    }
}
