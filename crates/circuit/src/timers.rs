//! Deadlines of many ends in one task.
//!
//! An end has at most one armed deadline at a time (see `weft_xgress::Alarm`). When the time comes, it checks whether
//! anything is due and arms the next deadline. A deadline that moves with every ack therefore costs nothing, and an
//! idle circuit causes no wake-up. A deadline that moves before the armed one is armed in addition; the one that it
//! overtook fires without effect.

use std::{fmt, sync::Weak, time::Instant};

use futures::StreamExt as _;
use tokio::{runtime, sync::mpsc};
use tokio_util::time::DelayQueue;

use crate::clock::now;

/// An end that waits for a time.
pub trait Timed: Send + Sync + 'static {
    /// Called when the deadline armed for `at` has come; the time is `now`.
    fn on_timer(&self, at: Instant, now: Instant);
}

/// The clock that ends arm. Clones share it.
pub struct Timers<T> {
    // The channel is unbounded, but each end has one entry that counts and the few that it overtook.
    arm: mpsc::UnboundedSender<(Instant, Weak<T>)>,
}

impl<T: Timed> Timers<T> {
    /// Starts the clock's task on `runtime`; it ends with the last clone.
    #[must_use]
    pub fn start(runtime: &runtime::Handle) -> Self {
        let (timers, mut armed) = Self::observed();
        runtime.spawn(async move {
            let mut queue = DelayQueue::new();
            loop {
                tokio::select! {
                    entry = armed.recv() => match entry {
                        Some((at, waiting)) => { queue.insert_at((at, waiting), at.into()); }
                        None => return,
                    },
                    Some(due) = queue.next(), if !queue.is_empty() => {
                        let (at, waiting): (Instant, Weak<T>) = due.into_inner();
                        if let Some(waiting) = waiting.upgrade() {
                            waiting.on_timer(at, now());
                        }
                    }
                }
            }
        });
        timers
    }

    /// A clock that only hands out the armed deadlines, for tests that move time themselves.
    #[must_use]
    pub fn observed() -> (Self, mpsc::UnboundedReceiver<(Instant, Weak<T>)>) {
        let (arm, armed) = mpsc::unbounded_channel();
        (Self { arm }, armed)
    }

    /// Has `waiting` called at this time.
    pub fn arm(&self, at: Instant, waiting: Weak<T>) {
        // Sending fails only after the runtime has ended, when no deadline matters.
        let _ = self.arm.send((at, waiting));
    }
}

impl<T> Clone for Timers<T> {
    fn clone(&self) -> Self {
        Self { arm: self.arm.clone() }
    }
}

impl<T> fmt::Debug for Timers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").finish_non_exhaustive()
    }
}
