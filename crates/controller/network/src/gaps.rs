//! Adopted circuits whose paths are looked at, because they may have gaps.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock;

/// The time from the last report of a circuit until its path is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// The longest time from the first report of a circuit until its path is looked at.
const LOOK_AT_LATEST: Duration = Duration::from_secs(30);

/// Adopted circuits that are to be looked at.
#[derive(Debug)]
pub(crate) struct PathChecks {
    /// The start of the controller.
    since: Instant,
    due: Mutex<CheckSchedule>,
    /// Whether all circuits that are known in part are to be looked at.
    all: AtomicBool,
    wake: Notify,
}

/// Circuits by the time at which they are looked at, each at most once.
#[derive(Debug, Default)]
struct CheckSchedule {
    order: BTreeSet<(Instant, Arc<str>)>,
    listed: HashMap<Arc<str>, ScheduledCheck>,
}

/// A circuit that is to be looked at.
#[derive(Debug, Clone, Copy)]
struct ScheduledCheck {
    at: Instant,
    /// The time after which no report delays the look.
    at_latest: Instant,
    /// Whether the routers are told their routes again, even if the path works.
    sends_again: bool,
}

impl CheckSchedule {
    fn push(&mut self, circuit: &str, sends_again: bool, now: Instant) {
        let known = self.listed.remove_entry(circuit);
        let (circuit, before) = match known {
            Some((circuit, before)) => {
                self.order.remove(&(before.at, Arc::clone(&circuit)));
                (circuit, Some(before))
            }
            None => (circuit.into(), None),
        };
        let at_latest = before.map_or(now + LOOK_AT_LATEST, |it| it.at_latest);
        let sends_again = sends_again || before.is_some_and(|it| it.sends_again);
        let at = (now + LOOK).min(at_latest);
        self.order.insert((at, Arc::clone(&circuit)));
        self.listed.insert(circuit, ScheduledCheck { at, at_latest, sends_again });
    }

    fn pop(&mut self, now: Instant) -> Option<(Arc<str>, bool)> {
        let (at, _) = self.order.first()?;
        if *at > now {
            return None;
        }
        let (_, circuit) = self.order.pop_first()?;
        let listed = self.listed.remove(&circuit)?;
        Some((circuit, listed.sends_again))
    }
}

impl PathChecks {
    /// No circuits; the controller starts now.
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, due: Mutex::default(), all: AtomicBool::new(false), wake: Notify::new() }
    }

    /// The time since the start of the controller.
    pub(crate) fn since_start(&self) -> Duration {
        clock::since(self.since)
    }

    /// Puts a circuit into the queue of those whose paths are checked for gaps. With `sends_again`, its routers are
    /// sent their routes again even if the path has none.
    pub(crate) fn push(&self, circuit: &str, sends_again: bool) {
        let mut due = self.due.lock();
        let was_empty = due.order.is_empty();
        due.push(circuit, sends_again, clock::now());
        if was_empty {
            self.wake.notify_one();
        }
    }

    /// Has all circuits that are known in part looked at, later than those that are listed.
    pub(crate) fn look_at_all(&self) {
        if !self.all.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    /// Whether all circuits that are known in part are to be looked at now.
    pub(crate) fn takes_all(&self) -> bool {
        self.due.lock().order.is_empty() && self.all.swap(false, Ordering::AcqRel)
    }

    /// The next circuit whose time has come, and whether its routers are told their routes again.
    pub(crate) fn pop(&self) -> Option<(Arc<str>, bool)> {
        self.due.lock().pop(clock::now())
    }

    /// Waits until a circuit is to be looked at.
    pub(crate) async fn wait(&self) {
        let next = self.due.lock().order.first().map(|(at, _)| *at);
        match next {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None if self.all.load(Ordering::Acquire) => tokio::time::sleep(LOOK).await,
            None => self.wake.notified().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_report_delays_the_look_for_a_limited_time() {
        let (mut due, start) = (CheckSchedule::default(), Instant::now());
        let second = |number: u32| start + Duration::from_secs(u64::from(number));
        due.push("a", false, start);
        due.push("b", true, second(1));
        due.push("a", false, second(4));
        assert_eq!(due.pop(second(5)), None, "a router has just reported it");
        assert_eq!(due.pop(second(6)), Some(("b".into(), true)));
        (5..100).for_each(|at| due.push("a", false, second(at)));
        assert_eq!(due.pop(second(29)), None);
        assert_eq!(due.pop(second(30)), Some(("a".into(), false)));
        assert!(due.order.is_empty() && due.listed.is_empty());
    }

    #[test]
    fn routers_are_told_again_if_one_report_asks_for_it() {
        let (mut due, start) = (CheckSchedule::default(), Instant::now());
        for sends_again in [false, true, false] {
            due.push("a", sends_again, start);
        }
        assert_eq!(due.pop(start + LOOK), Some(("a".into(), true)));
        due.push("a", false, start);
        assert_eq!(due.pop(start + LOOK), Some(("a".into(), false)), "it was told");
    }
}
