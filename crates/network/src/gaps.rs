//! Adopted circuits whose path has a gap: a router on it did not report them, or a link of it is gone.
//!
//! A router or a link can be lost while no controller is there. Once the routers at both ends have reported such
//! a circuit, it moves to another path. It does not move at once, because the other routers are connecting, too.
//! Until all routers have had the time to connect, a circuit without a path waits for one.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_paths::queue::Why;

use crate::{clock, network::Network};

/// The time from a report of a circuit until its path is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// Circuits that are looked at before the task yields.
const TURN: usize = 64;

/// Adopted circuits that are to be looked at.
#[derive(Debug)]
pub(crate) struct Gaps {
    /// The start of the controller.
    since: Instant,
    due: Mutex<Due>,
    wake: Notify,
}

/// Circuits by the time at which they are looked at, each at most once.
#[derive(Debug, Default)]
struct Due {
    order: VecDeque<(Instant, Arc<str>)>,
    listed: HashSet<Arc<str>>,
}

impl Gaps {
    /// No circuits; the controller starts now.
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, due: Mutex::default(), wake: Notify::new() }
    }

    /// Has a circuit looked at.
    pub(crate) fn push(&self, circuit: &str) {
        let mut due = self.due.lock();
        if due.listed.contains(circuit) {
            return;
        }
        let circuit: Arc<str> = circuit.into();
        due.listed.insert(Arc::clone(&circuit));
        due.order.push_back((clock::now() + LOOK, circuit));
        if due.order.len() == 1 {
            self.wake.notify_one();
        }
    }

    /// The next circuit whose time has come.
    fn pop(&self) -> Option<Arc<str>> {
        let mut due = self.due.lock();
        let (at, _) = due.order.front()?;
        if *at > clock::now() {
            return None;
        }
        let (_, circuit) = due.order.pop_front()?;
        due.listed.remove(&circuit);
        Some(circuit)
    }

    /// Waits until a circuit is to be looked at.
    async fn wait(&self) {
        let next = self.due.lock().order.front().map(|(at, _)| *at);
        match next {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => self.wake.notified().await,
        }
    }
}

impl Network {
    /// Moves adopted circuits whose path has a gap, until the network stops.
    pub(crate) async fn close_gaps(self) {
        loop {
            self.0.gaps.wait().await;
            let mut looked = 0;
            while let Some(circuit) = self.0.gaps.pop() {
                if self.close_gap(&circuit) {
                    self.0.gaps.push(&circuit);
                }
                looked += 1;
                if looked % TURN == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Moves an adopted circuit if its path has a gap. True if the circuit is to be looked at again.
    fn close_gap(&self, id: &str) -> bool {
        let Some(circuit) = self.0.circuits.get(id) else { return false };
        if circuit.is_whole && self.is_usable(&circuit.path) {
            return false;
        }
        let are_returning = self.awaits_routers(id);
        if !circuit.has_ends() {
            return are_returning;
        }
        let ends = circuit.path.first().zip(circuit.path.last());
        let has_path = ends.is_some_and(|(first, last)| self.ways(first).cost(last).is_some());
        if has_path || !are_returning {
            self.move_or_end(&circuit, if circuit.is_whole { Why::Broken } else { Why::Lost });
        }
        are_returning
    }

    /// True while routers may not have connected since the start of the controller, for a circuit of
    /// an earlier run.
    pub(crate) fn awaits_routers(&self, circuit: &str) -> bool {
        let is_early = clock::since(self.0.gaps.since) < self.0.options.return_time;
        is_early && !self.is_of_this_run(circuit)
    }
}
