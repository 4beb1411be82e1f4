//! Circuits that are to be moved.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use weft_model::Id;
use weft_paths::queue::Queue;

use super::left::Left;

/// Circuits that are to be moved.
#[derive(Debug)]
pub(crate) struct Moves {
    pub(crate) queue: Mutex<Queue>,
    pub(crate) wake: Notify,
    /// Circuits that are being moved and do not wait for a slow router.
    pub(crate) active: AtomicUsize,
    /// The same, with those that wait for a slow router.
    pub(crate) under_way: AtomicUsize,
    /// Routers that circuits have left since the mover last looked.
    pub(crate) left: Mutex<Vec<Left>>,
    /// Looking for paths keeps processors busy: some of them are for dials.
    pub(crate) searching: Semaphore,
    /// Routers that are left alone, and until when.
    pub(crate) resting: Mutex<VecDeque<(Instant, Id)>>,
}

impl Moves {
    /// None yet. A circuit may have no path for so long.
    pub(crate) fn new(without_path: Duration) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            queue: Mutex::new(Queue::new(without_path)),
            wake: Notify::new(),
            active: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            left: Mutex::default(),
            searching: Semaphore::new((processors / 2).max(1)),
            resting: Mutex::default(),
        }
    }

    /// A circuit was removed.
    pub(crate) fn forget(&self, circuit: &str) {
        self.queue.lock().forget(circuit);
    }
}
