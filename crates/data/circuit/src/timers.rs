//! Deadlines of many ends in one task.
//!
//! An end has at most one armed deadline at a time (see `weft_xgress::Alarm`). When the time comes, it checks whether
//! anything is due and arms the next deadline. A deadline that moves with every ack therefore costs nothing, and an
//! idle circuit causes no wake-up. A deadline that moves before the armed one is armed in addition; the one that it
//! overtook fires without effect.
//!
//! An armed deadline keeps the memory of its end, also after the end is gone. A far deadline is therefore looked
//! at every [`STEP`], and forgotten if its end is gone.

use std::fmt;
use std::sync::Weak;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use tokio::runtime;
use tokio::sync::mpsc;
use tokio_util::time::DelayQueue;

use crate::clock::now;

/// The longest time for which the memory of an end that is gone is kept.
const STEP: Duration = Duration::from_secs(10);

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
                        Some((at, waiting)) => wait(&mut queue, at, waiting, now()),
                        None => return,
                    },
                    Some(due) = queue.next(), if !queue.is_empty() => {
                        let (at, waiting) = due.into_inner();
                        fire(&mut queue, at, waiting, now());
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

/// Waits for the deadline, for [`STEP`] at most.
fn wait<T>(
    queue: &mut DelayQueue<(Instant, Weak<T>)>,
    at: Instant,
    waiting: Weak<T>,
    now: Instant,
) {
    let next = at.min(now + STEP);
    queue.insert_at((at, waiting), next.into());
}

/// A wait is over. If that was only a step, it goes on, unless the end is gone.
fn fire<T: Timed>(
    queue: &mut DelayQueue<(Instant, Weak<T>)>,
    at: Instant,
    waiting: Weak<T>,
    now: Instant,
) {
    match waiting.upgrade() {
        Some(_) if now < at => wait(queue, at, waiting, now),
        Some(waiting) => waiting.on_timer(at, now),
        None => {}
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Notes the deadlines for which it was called.
    #[derive(Default)]
    struct Noted(Mutex<Vec<Instant>>);

    impl Timed for Noted {
        fn on_timer(&self, at: Instant, now: Instant) {
            assert!(now >= at);
            self.0.lock().unwrap().push(at);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_far_deadline_is_kept_as_long_as_its_end() {
        let start = now();
        let far = start + 18 * STEP;
        let (stays, goes) = (Arc::new(Noted::default()), Arc::new(Noted::default()));
        let mut queue = DelayQueue::new();
        wait(&mut queue, far, Arc::downgrade(&stays), start);
        wait(&mut queue, far, Arc::downgrade(&goes), start);
        drop(goes);
        let mut steps = 0;
        while let Some(due) = queue.next().await {
            let (at, waiting) = due.into_inner();
            fire(&mut queue, at, waiting, now());
            steps += 1;
        }
        assert_eq!(*stays.0.lock().unwrap(), [far]);
        assert!((18..22).contains(&steps), "{steps} steps, one of them for the end that is gone");
    }
}
