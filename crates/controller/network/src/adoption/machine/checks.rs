//! When the paths of circuits of an earlier run are looked at.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::table::{Event, State};

/// The time from the last report of a circuit until its path is looked at, and from news until paths that rest are.
pub(super) const LOOK: Duration = Duration::from_secs(5);
/// The longest time from the first report of a circuit until its path is looked at.
pub(super) const LOOK_AT_LATEST: Duration = Duration::from_secs(30);

/// The check of one path.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) state: State,
    /// When it is due, and the time after which no report delays it.
    pub(super) due: Option<(Instant, Instant)>,
    /// Whether the routers are sent their routes again, even if the path works.
    pub(super) sends_again: bool,
}

impl Default for Check {
    fn default() -> Self {
        Self { state: State::Calm, due: None, sends_again: false }
    }
}

/// The paths that are to be looked at.
#[derive(Debug, Default)]
pub(super) struct Checks {
    due: BTreeSet<(Instant, Arc<str>)>,
    /// The paths that rest, and those of them whose turn has come.
    resting: BTreeSet<Arc<str>>,
    stirred: BTreeSet<Arc<str>>,
    /// When it is the turn of the paths that rest.
    news_at: Option<Instant>,
}

impl Checks {
    /// Has a path looked at in a while. Each report delays the look, for a limited time.
    pub(super) fn schedule(&mut self, circuit: &Arc<str>, check: &mut Check, now: Instant) {
        let at_latest = check.due.map_or(now + LOOK_AT_LATEST, |(_, at_latest)| at_latest);
        self.remove(circuit, check);
        let at = (now + LOOK).min(at_latest);
        check.due = Some((at, at_latest));
        self.due.insert((at, Arc::clone(circuit)));
    }

    /// Lets a path rest until there is news.
    pub(super) fn rest(&mut self, circuit: &Arc<str>) {
        self.resting.insert(Arc::clone(circuit));
    }

    /// Forgets when a path is to be looked at.
    pub(super) fn remove(&mut self, circuit: &Arc<str>, check: &mut Check) {
        if let Some((at, _)) = check.due.take() {
            self.due.remove(&(at, Arc::clone(circuit)));
        }
        if check.state == State::Resting {
            self.resting.remove(circuit);
            self.stirred.remove(circuit);
        }
    }

    /// Notes that there is news; paths that rest are looked at some time later, and not before `at_least`.
    pub(super) fn news(&mut self, now: Instant, at_least: Instant) {
        self.news_at.get_or_insert((now + LOOK).max(at_least));
    }

    /// The next path that is due, and why.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Arc<str>, Event)> {
        if self.due.first().is_some_and(|(at, _)| *at <= now) {
            return self.due.pop_first().map(|(_, circuit)| (circuit, Event::Timeout));
        }
        if self.stirred.is_empty() && self.news_at.is_some_and(|at| at <= now) {
            self.news_at = None;
            self.stirred = std::mem::take(&mut self.resting);
        }
        self.stirred.pop_first().map(|circuit| (circuit, Event::News))
    }

    /// When [`pop`](Self::pop) has the next path; `now` if it has one at once.
    pub(super) fn next_due(&self, at_once: Instant) -> Option<Instant> {
        let stirred = (!self.stirred.is_empty()).then_some(at_once);
        let due = self.due.first().map(|(at, _)| *at);
        stirred.into_iter().chain(due).chain(self.news_at).min()
    }

    /// How many paths are due and rest.
    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.due.len(), self.resting.len() + self.stirred.len()]
    }
}
