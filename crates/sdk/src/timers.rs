//! Deadlines of circuits.
//!
//! A circuit is armed at most once at a time; when its deadline fires it looks again whether
//! anything is due and arms itself anew. So a deadline that moves with every ack costs nothing, and
//! a circuit that waits for nothing costs no wake-up.

use crate::circuit::Circuit;
use futures::StreamExt as _;
use std::sync::Weak;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio_util::time::DelayQueue;

/// Arms circuits. Clones share the clock.
#[derive(Debug, Clone)]
pub(crate) struct Timers {
    // Unbounded, but a circuit has one entry that counts, and what that overtook (`Alarm`).
    arm: mpsc::UnboundedSender<(Instant, Weak<Circuit>)>,
}

impl Timers {
    /// Starts the task that waits; it ends with the last clone.
    pub(crate) fn start() -> Self {
        let (arm, mut armed) = mpsc::unbounded_channel::<(Instant, Weak<Circuit>)>();
        tokio::spawn(async move {
            let mut queue = DelayQueue::new();
            loop {
                tokio::select! {
                    entry = armed.recv() => match entry {
                        Some((at, circuit)) => { queue.insert_at((at, circuit), at.into()); }
                        None => return,
                    },
                    Some(due) = queue.next(), if !queue.is_empty() => {
                        let (at, circuit) = due.into_inner();
                        if let Some(circuit) = circuit.upgrade() {
                            circuit.on_timer(at, Instant::now());
                        }
                    }
                }
            }
        });
        Self { arm }
    }

    /// Has the circuit looked at when the time comes.
    pub(crate) fn arm(&self, at: Instant, circuit: Weak<Circuit>) {
        // The task ends with its runtime only; then nobody waits any more.
        let _ = self.arm.send((at, circuit));
    }
}
