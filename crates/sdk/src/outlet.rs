//! What a router connection writes next: the circuits that have something, served fairly.
//!
//! Anybody may list a circuit; only the connection's own task serves them. Listing wakes it.

use crate::circuit::Circuit;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;
use weft_channel::{Batch, Outbox, UnderlayWaker};
use weft_wire::Message;
use weft_xgress::{Class, Scheduler, Source};

/// A circuit that is listed.
struct Listed(Arc<Circuit>);

impl Source for Listed {
    type Frame = Message;

    fn pull(&self, class: Class, now: Instant) -> Option<(Message, u64)> {
        self.0.pull(class, now)
    }
}

/// The ready list of one router connection.
#[derive(Debug)]
pub(crate) struct Outlet {
    ready: Mutex<Vec<(Class, Arc<Circuit>)>>,
    waker: UnderlayWaker,
}

impl Outlet {
    /// The outlet of the connection that this waker wakes.
    pub(crate) fn new(waker: UnderlayWaker) -> Arc<Self> {
        Arc::new(Self { ready: Mutex::default(), waker })
    }

    /// A circuit has something. The circuit keeps track of being listed.
    pub(crate) fn list(&self, class: Class, circuit: Arc<Circuit>) {
        self.ready.lock().push((class, circuit));
        self.waker.wake();
    }

    /// Lets the connection read again.
    pub(crate) fn resume_reading(&self) {
        self.waker.resume();
    }

    /// Forgets what is listed: the connection is gone.
    pub(crate) fn clear(&self) {
        let listed = std::mem::take(&mut *self.ready.lock());
        // Dropped outside the lock: a circuit may end with its last handle.
        drop(listed);
    }

    /// The side that serves the list; one for each outlet.
    pub(crate) fn outbox(self: &Arc<Self>) -> DataOutbox {
        DataOutbox { outlet: Arc::clone(self), scheduler: Scheduler::new(), arrived: Vec::new() }
    }
}

/// Serves an outlet, on the connection's task.
pub(crate) struct DataOutbox {
    outlet: Arc<Outlet>,
    scheduler: Scheduler<Listed>,
    /// Swapped with the ready list, so that both keep their memory.
    arrived: Vec<(Class, Arc<Circuit>)>,
}

impl Outbox for DataOutbox {
    fn notice(&mut self) {
        std::mem::swap(&mut *self.outlet.ready.lock(), &mut self.arrived);
        for (class, circuit) in self.arrived.drain(..) {
            self.scheduler.list(class, Listed(circuit));
        }
    }

    fn fill(&mut self, batch: &mut Batch) {
        if self.scheduler.is_empty() {
            return;
        }
        let now = Instant::now();
        while !batch.is_full() {
            let Some(message) = self.scheduler.next(now) else { break };
            batch.push(message);
        }
    }

    // What was taken and not written is lost with the connection: circuits end with it.
}
