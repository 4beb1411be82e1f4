//! The circuits to be moved, and counts of the moves.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use weft_model::Id;
use weft_paths::path::Path;
use weft_paths::queue::Queue;

use super::known::KnownRoutes;
use super::left::{EndedCircuits, FormerRouters};
use crate::clock;

/// The circuits to be moved, and counts of the moves.
#[derive(Debug)]
pub(crate) struct Moves {
    pub(crate) queue: Mutex<Queue>,
    pub(crate) wake: Notify,
    /// Number of circuits that are being moved and do not wait for a slow router.
    pub(crate) active: AtomicUsize,
    /// Number of circuits that are being moved, those that wait for slow routers included.
    pub(crate) under_way: AtomicUsize,
    /// Routers that circuits have left since the mover last looked.
    pub(crate) left: Mutex<Vec<FormerRouters>>,
    /// Circuits whose end a router has reported lately.
    pub(crate) ended: EndedCircuits,
    /// What is known of circuits that wait, and over several paths of which payloads may go.
    unsettled: Mutex<HashMap<Arc<str>, KnownRoutes>>,
    /// Permits to look for paths. They are half of the processors, so that the others are left for
    /// dials.
    pub(crate) searching: Semaphore,
    /// Routers that are left alone, and the end of that time.
    pub(crate) resting: Mutex<VecDeque<(Instant, Id)>>,
}

impl Moves {
    /// An empty list. A circuit may be without a path for `without_path`.
    pub(crate) fn new(without_path: Duration) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            queue: Mutex::new(Queue::new(without_path)),
            wake: Notify::new(),
            active: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            left: Mutex::default(),
            ended: EndedCircuits::default(),
            unsettled: Mutex::default(),
            searching: Semaphore::new((processors / 2).max(1)),
            resting: Mutex::default(),
        }
    }

    /// Has a circuit taken down at a router that it has left, once it is not being moved.
    pub(crate) fn leave(&self, circuit: Arc<str>, router: Id) {
        let (at, routers) = (clock::now(), vec![router]);
        self.left.lock().push(FormerRouters { at, circuit, routers, for_loss_of: None });
        self.wake.notify_one();
    }

    /// Keeps what is known of a circuit that waits for its next move.
    pub(super) fn keep(&self, circuit: &Arc<str>, known: KnownRoutes) {
        self.unsettled.lock().insert(Arc::clone(circuit), known);
    }

    /// Whether payloads of a circuit, which waits for its next move, may go over several paths.
    pub(crate) fn is_unsettled(&self, circuit: &str) -> bool {
        self.unsettled.lock().contains_key(circuit)
    }

    /// Takes what was kept of a circuit.
    pub(super) fn take_known(&self, circuit: &str) -> Option<KnownRoutes> {
        self.unsettled.lock().remove(circuit)
    }

    /// Removes a circuit from the list. Returns the routers that may have routes of it and are not on its path.
    pub(crate) fn forget(&self, circuit: &str, path: &Path) -> Vec<Id> {
        if self.queue.lock().forget(circuit) {
            self.wake.notify_one();
        }
        self.take_known(circuit).map(|known| known.beside(path)).unwrap_or_default()
    }
}
