//! Datagrams of one peer that wait to be read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Most datagrams that wait before the hello of the peer is accepted.
pub(super) const FEW: usize = 32;
/// Most datagrams that wait after that.
const MANY: usize = 512;

/// Datagrams of one peer that wait to be read; more than it holds are dropped.
#[derive(Debug)]
pub(super) struct Inbox {
    waiting: Mutex<VecDeque<Vec<u8>>>,
    most: AtomicUsize,
    arrived: Notify,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { waiting: Mutex::default(), most: AtomicUsize::new(FEW), arrived: Notify::new() }
    }
}

impl Inbox {
    /// Keeps a datagram if there is room.
    pub(super) fn push(&self, datagram: &[u8]) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < self.most.load(Ordering::Relaxed) {
            waiting.push_back(datagram.to_vec());
            drop(waiting);
            self.arrived.notify_one();
        }
    }

    /// The next datagram.
    pub(super) fn pop(&self) -> Option<Vec<u8>> {
        self.waiting.lock().pop_front()
    }

    /// The peer is admitted: more of its datagrams may wait.
    pub(super) fn widen(&self) {
        self.most.store(MANY, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Waits until there is a datagram. For one waiting task.
    pub(super) async fn arrived(&self) {
        while self.waiting.lock().is_empty() {
            self.arrived.notified().await;
        }
    }
}
