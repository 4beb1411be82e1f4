//! Circuits that ended lately. Payloads of these circuits may still be on their way; they are not
//! reported as faults.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// The time for which an ended circuit is remembered.
const KEPT: Duration = Duration::from_secs(30);
/// Most ended circuits that are remembered; beyond that the oldest one is forgotten.
const MOST: usize = 65_536;

/// Circuits that ended lately, in the order of their ends.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    /// The time of the last end of each circuit.
    ended: HashMap<Arc<str>, Instant>,
    /// All ends, the oldest first. An id that ended twice is here twice.
    order: VecDeque<(Instant, Arc<str>)>,
}

impl Tombstones {
    /// Remembers a circuit that ends now, and forgets those whose time is over.
    pub(super) fn bury(&mut self, id: &Arc<str>, now: Instant) {
        self.forget(now);
        if self.order.len() >= MOST {
            self.pop();
        }
        self.ended.insert(Arc::clone(id), now);
        self.order.push_back((now, Arc::clone(id)));
    }

    /// True if the circuit ended lately.
    pub(super) fn has(&self, id: &str, now: Instant) -> bool {
        self.ended.get(id).is_some_and(|at| now.saturating_duration_since(*at) < KEPT)
    }

    /// Forgets circuits whose time is over.
    pub(super) fn forget(&mut self, now: Instant) {
        let is_over = |at: &Instant| now.saturating_duration_since(*at) >= KEPT;
        while self.order.front().is_some_and(|(at, _)| is_over(at)) {
            self.pop();
        }
    }

    /// Forgets the oldest end.
    fn pop(&mut self) {
        let Some((at, id)) = self.order.pop_front() else { return };
        if self.ended.get(&id) == Some(&at) {
            self.ended.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> Arc<str> {
        format!("c{number}").into()
    }

    #[test]
    fn a_circuit_is_remembered_for_its_time() {
        let (mut tombstones, start) = (Tombstones::default(), Instant::now());
        tombstones.bury(&id(1), start);
        let nearly = start + KEPT - Duration::from_millis(1);
        assert!(tombstones.has("c1", nearly) && !tombstones.has("c2", nearly));
        // The circuit ended again: the last end counts.
        tombstones.bury(&id(1), nearly);
        tombstones.forget(start + KEPT);
        assert!(tombstones.has("c1", start + KEPT) && !tombstones.has("c1", nearly + KEPT));
        tombstones.bury(&id(2), nearly + KEPT);
        assert_eq!((tombstones.ended.len(), tombstones.order.len()), (1, 1));
    }

    #[test]
    fn of_too_many_circuits_the_oldest_is_forgotten() {
        let (mut tombstones, now) = (Tombstones::default(), Instant::now());
        (0..MOST + 10).for_each(|number| tombstones.bury(&id(number), now));
        assert_eq!((tombstones.ended.len(), tombstones.order.len()), (MOST, MOST));
        assert!(!tombstones.has("c9", now) && tombstones.has("c10", now));
        assert!(tombstones.has(&id(MOST + 9), now));
        // One id that ends again and again takes no more room either.
        (0..MOST + 10).for_each(|_| tombstones.bury(&id(0), now));
        assert_eq!((tombstones.ended.len(), tombstones.order.len()), (1, MOST));
        tombstones.forget(now + KEPT);
        assert!(tombstones.ended.is_empty() && tombstones.order.is_empty());
    }
}
