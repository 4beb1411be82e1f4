//! Deadlines.
//!
//! Who waits is armed at most once at a time (see `weft_xgress::Alarm`); when the time comes it looks again
//! whether anything is due and arms itself anew. So a deadline that moves with every ack costs nothing, and a
//! circuit that waits for nothing costs no wake-up. A deadline that comes to lie before the armed one is armed
//! too; the one that it overtook fires without effect.

use std::{fmt, sync::Weak, time::Instant};

use futures::StreamExt as _;
use tokio::{runtime, sync::mpsc};
use tokio_util::time::DelayQueue;

/// Somebody who waits for a time.
pub trait Timed: Send + Sync + 'static {
    /// The deadline that was armed for `at` has come; it is `now`.
    fn on_timer(&self, at: Instant, now: Instant);
}

/// The clock that arms those who wait. Clones share it.
pub struct Timers<T> {
    // Unbounded, but whoever waits has one entry that counts, and those that it overtook.
    arm: mpsc::UnboundedSender<(Instant, Weak<T>)>,
}

impl<T: Timed> Timers<T> {
    /// Starts the task that waits on `runtime`; it ends with the last clone.
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
                            waiting.on_timer(at, Instant::now());
                        }
                    }
                }
            }
        });
        timers
    }

    /// A clock that only notes what it is asked for, for tests that move time themselves.
    #[must_use]
    pub fn observed() -> (Self, mpsc::UnboundedReceiver<(Instant, Weak<T>)>) {
        let (arm, armed) = mpsc::unbounded_channel();
        (Self { arm }, armed)
    }

    /// Has somebody looked at when the time comes.
    pub fn arm(&self, at: Instant, waiting: Weak<T>) {
        // After the end of its runtime nobody waits any more.
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
