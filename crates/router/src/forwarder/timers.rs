//! Deadlines of circuit ends.
//!
//! An end is armed at most once at a time; when it fires the end looks again whether anything is
//! due and arms itself anew. So a deadline that moves with every ack costs nothing, and an end that
//! waits for nothing costs no wake-up. One that comes to lie before the armed one is armed too; what
//! it overtook fires without effect.

use std::{sync::Weak, time::Instant};

use futures::StreamExt;
use tokio::sync::mpsc;
use tokio_util::time::DelayQueue;

use super::local::LocalEnd;

/// Arms ends. Clones share the clock.
#[derive(Debug, Clone)]
pub(crate) struct Timers {
    // Unbounded, but an end has one entry that counts, and what that overtook (`Alarm`).
    arm: mpsc::UnboundedSender<(Instant, Weak<LocalEnd>)>,
}

impl Timers {
    /// Starts the task that waits; it ends with the last clone.
    pub(crate) fn start(runtime: &tokio::runtime::Handle) -> Self {
        let (arm, mut armed) = mpsc::unbounded_channel::<(Instant, Weak<LocalEnd>)>();
        runtime.spawn(async move {
            let mut queue = DelayQueue::new();
            loop {
                tokio::select! {
                    entry = armed.recv() => match entry {
                        Some((at, end)) => { queue.insert_at((at, end), at.into()); }
                        None => return,
                    },
                    Some(due) = queue.next(), if !queue.is_empty() => {
                        let (at, end) = due.into_inner();
                        if let Some(end) = end.upgrade() {
                            end.on_timer(at, Instant::now());
                        }
                    }
                }
            }
        });
        Self { arm }
    }

    /// A clock that only notes what it is asked for.
    #[cfg(test)]
    pub(super) fn observed() -> (Self, mpsc::UnboundedReceiver<(Instant, Weak<LocalEnd>)>) {
        let (arm, armed) = mpsc::unbounded_channel();
        (Self { arm }, armed)
    }

    /// Has the end looked at when the time comes.
    pub(crate) fn arm(&self, at: Instant, end: Weak<LocalEnd>) {
        // After shutdown nobody waits any more.
        let _ = self.arm.send((at, end));
    }
}
