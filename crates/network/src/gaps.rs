//! Adopted circuits whose paths are looked at, because they may have gaps.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock;

/// The time from a report of a circuit until its path is looked at.
const LOOK: Duration = Duration::from_secs(5);

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

    /// The time since the start of the controller.
    pub(crate) fn since_start(&self) -> Duration {
        clock::since(self.since)
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
    pub(crate) fn pop(&self) -> Option<Arc<str>> {
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
    pub(crate) async fn wait(&self) {
        let next = self.due.lock().order.front().map(|(at, _)| *at);
        match next {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => self.wake.notified().await,
        }
    }
}
