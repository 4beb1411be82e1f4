//! What a connection writes next: the flows that have something, served fairly.
//!
//! Anybody may list a flow; only the connection's own task serves them. Listing wakes it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;
use weft_channel::{Batch, Outbox, UnderlayWaker};
use weft_limits::Budget;
use weft_wire::Message;
use weft_xgress::{Class, Scheduler, Source};

use super::{local::LocalEnd, sdk::SdkCircuit};
use crate::bindings::edge::Nudge;

/// One direction of a circuit that ends at, or passes through, a connection.
#[derive(Debug, Clone)]
pub(crate) enum FlowRef {
    /// Payloads and acks for an SDK with flow control of its own.
    Sdk(Arc<SdkCircuit>),
    /// Payloads and acks that an end here sends to such an SDK.
    Fabric(Arc<LocalEnd>),
    /// Data that an end here delivers to an SDK without flow control of its own.
    App(Arc<LocalEnd>),
}

impl Source for FlowRef {
    type Frame = Message;

    fn pull(&self, class: Class, now: Instant) -> Option<(Message, u64)> {
        match self {
            Self::Sdk(circuit) => circuit.pull(class),
            Self::Fabric(end) => end.pull_fabric(class, now),
            Self::App(end) => end.pull_app(),
        }
    }
}

/// The ready list of one SDK connection.
#[derive(Debug)]
pub(crate) struct Outlet {
    ready: Mutex<Vec<(Class, FlowRef)>>,
    waker: UnderlayWaker,
    budget: Budget,
    /// The connection is gone: nobody serves the list any more.
    closed: AtomicBool,
}

impl Outlet {
    /// An outlet of the connection that this waker wakes; what queues for it is drawn from
    /// `budget`.
    pub(crate) fn new(waker: UnderlayWaker, budget: Budget) -> Arc<Self> {
        Arc::new(Self { ready: Mutex::default(), waker, budget, closed: AtomicBool::new(false) })
    }

    /// What queues for the connection is drawn from this.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// A flow has something. The flow keeps track of being listed.
    pub(crate) fn list(&self, class: Class, flow: FlowRef) {
        {
            let mut ready = self.ready.lock();
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            ready.push((class, flow));
        }
        self.waker.wake();
    }

    /// True once nobody serves the list any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The connection is gone: forgets what is listed and lists nothing more.
    pub(crate) fn close(&self) {
        let mut ready = self.ready.lock();
        self.closed.store(true, Ordering::Release);
        ready.clear();
    }

    /// The side that serves the list; one for each outlet.
    /// `nudge` counts what it writes to an SDK that needs that.
    pub(crate) fn outbox(self: &Arc<Self>, nudge: Option<Arc<Nudge>>) -> DataOutbox {
        let (scheduler, arrived) = (Scheduler::new(), Vec::new());
        DataOutbox { outlet: Arc::clone(self), scheduler, arrived, nudge }
    }
}

/// Serves an outlet, on the connection's task.
pub(crate) struct DataOutbox {
    outlet: Arc<Outlet>,
    scheduler: Scheduler<FlowRef>,
    /// Swapped with the ready list, so that both keep their memory.
    arrived: Vec<(Class, FlowRef)>,
    nudge: Option<Arc<Nudge>>,
}

impl DataOutbox {
    /// Fills a batch for a native SDK: no more than it has room for, and counted.
    fn fill_for(&mut self, nudge: &Nudge, batch: &mut Batch, now: Instant) {
        let room = nudge.room(now);
        let (mut written, mut paced) = (0, 0);
        while !batch.is_full()
            && paced < room
            && let Some(message) = self.pull(now)
        {
            written += 1;
            paced += u64::from(nudge.is_paced(&message.body));
            batch.push(message);
        }
        nudge.wrote(written, now);
        nudge.paced(paced, now);
    }

    /// The next message of what was noticed.
    pub(super) fn pull(&mut self, now: Instant) -> Option<Message> {
        self.scheduler.next(now)
    }
}

impl Outbox for DataOutbox {
    fn notice(&mut self) {
        std::mem::swap(&mut *self.outlet.ready.lock(), &mut self.arrived);
        for (class, flow) in self.arrived.drain(..) {
            self.scheduler.list(class, flow);
        }
    }

    fn fill(&mut self, batch: &mut Batch) {
        if self.scheduler.is_empty() {
            return;
        }
        let now = Instant::now();
        match self.nudge.clone() {
            Some(nudge) => self.fill_for(&nudge, batch, now),
            None => {
                while !batch.is_full()
                    && let Some(message) = self.pull(now)
                {
                    batch.push(message);
                }
            }
        }
    }

    // What was taken and not written is lost with the connection: it carries the ends of all its
    // circuits, which end with it.
}
