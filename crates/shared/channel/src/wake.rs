//! Waking the task of a connection from other threads.

use std::sync::Arc;

use crate::sync::Notify;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Wakes the task of one connection: when an outbox has messages again, or to resume reading.
#[derive(Debug, Clone, Default)]
pub struct UnderlayWaker(Arc<State>);

#[derive(Debug, Default)]
struct State {
    notify: Notify,
    resume: AtomicBool,
}

impl UnderlayWaker {
    /// Wakes the connection; to be called when its outbox has messages to write.
    pub fn wake(&self) {
        self.0.notify.notify_one();
    }

    /// To be called when a paused handler can take messages again.
    pub fn resume(&self) {
        self.0.resume.store(true, Ordering::Release);
        self.0.notify.notify_one();
    }

    /// True once per [`resume`](Self::resume).
    pub(crate) fn take_resume(&self) -> bool {
        self.0.resume.swap(false, Ordering::Acquire)
    }

    pub(crate) async fn woken(&self) {
        self.0.notify.notified().await;
    }
}
