//! Keeps track of the terminators that routers have to be asked about.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_model::Id;
use weft_wire::ctrl::ValidateTerminatorsV2Response;

use crate::clock;

/// How long a router has to answer before it is asked again.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(180);

/// The open questions to routers.
#[derive(Debug, Default)]
pub(crate) struct Validations {
    pub(crate) state: Mutex<State>,
    pub(crate) wake: Notify,
}

/// Most repeated reports of terminators that are remembered.
const REPORTS: usize = 1024;

/// The state of a terminator when it was chosen for a dial: the connection of its router, and the newest marker of a
/// report at that time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) connection: u64,
    pub(crate) marker: u64,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    routers: HashMap<Id, Check>,
    /// The latest terminators that routers have reported once more, each with its marker.
    reports: VecDeque<(Id, u64)>,
    /// The marker of the last report that is not remembered any more.
    forgotten: u64,
    /// Routers that are asked at once, mostly because they have connected.
    pub(crate) connected: HashSet<Id>,
    last_marker: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Check {
    /// The terminators that their router has not confirmed yet, each with a marker.
    pending: HashMap<Id, u64>,
    /// When the unanswered question was sent.
    asked: Option<Instant>,
}

impl Validations {
    pub(crate) fn add(&self, router: &Id, terminators: impl Iterator<Item = Id>) {
        let mut state = self.state.lock();
        for terminator in terminators {
            state.last_marker += 1;
            let marker = state.last_marker;
            let check = state.routers.entry(router.clone()).or_default();
            check.pending.insert(terminator, marker);
        }
    }

    /// Notes that a router reports a terminator once more, and adds it.
    pub(crate) fn reported(&self, router: &Id, terminator: &Id) {
        self.add(router, std::iter::once(terminator.clone()));
        let state = &mut *self.state.lock();
        state.reports.push_back((terminator.clone(), state.last_marker));
        if state.reports.len() > REPORTS
            && let Some((_, marker)) = state.reports.pop_front()
        {
            state.forgotten = marker;
        }
    }

    /// The last marker so far.
    pub(crate) fn last_marker(&self) -> u64 {
        self.state.lock().last_marker
    }

    /// True if a terminator was, or may have been, reported once more after this marker.
    pub(crate) fn was_reported_since(&self, terminator: &Id, marker: u64) -> bool {
        let state = self.state.lock();
        let is_it = |(id, at): &(Id, u64)| *at > marker && id == terminator;
        state.forgotten > marker || state.reports.iter().any(is_it)
    }

    /// True if a router has not answered the latest question about a terminator.
    pub(crate) fn asks(&self, router: &Id, terminator: &Id) -> bool {
        let state = self.state.lock();
        state.routers.get(router).is_some_and(|check| check.pending.contains_key(terminator))
    }

    /// Forgets a router that disconnected; it is asked about all its terminators when it connects
    /// again.
    pub(crate) fn forget(&self, router: &Id) {
        let mut state = self.state.lock();
        state.routers.remove(router);
        state.connected.remove(router);
    }

    /// The routers that are to be asked at once since the last call.
    pub(crate) fn take_connected(&self) -> Vec<Id> {
        self.state.lock().connected.drain().collect()
    }

    /// The routers with terminators that are not confirmed.
    pub(crate) fn waiting(&self) -> Vec<Id> {
        let mut state = self.state.lock();
        state.routers.retain(|_, check| !check.pending.is_empty());
        state.routers.keys().cloned().collect()
    }

    /// The terminators to ask a router about now.
    pub(crate) fn due(&self, router: &Id, is_due: impl Fn(&Id) -> Due) -> Vec<(Id, u64)> {
        let mut state = self.state.lock();
        let Some(check) = state.routers.get_mut(router) else { return Vec::new() };
        if check.asked.is_some_and(|at| clock::since(at) < ANSWER_TIME) {
            return Vec::new();
        }
        let mut due = Vec::new();
        check.pending.retain(|id, marker| match is_due(id) {
            Due::Now => {
                due.push((id.clone(), *marker));
                true
            }
            Due::Later => true,
            Due::Never => false,
        });
        check.asked = (!due.is_empty()).then(clock::now);
        due
    }

    /// Handles an answer, and returns the terminators to be removed.
    pub(crate) fn answered(&self, router: &Id, answer: &ValidateTerminatorsV2Response) -> Vec<Id> {
        let mut state = self.state.lock();
        let Some(check) = state.routers.get_mut(router) else { return Vec::new() };
        check.asked = None;
        let mut gone = Vec::new();
        for (id, found) in &answer.states {
            let id = Id::new(id);
            let asked = check.pending.get(&id);
            if asked.is_none_or(|marker| found.marker != 0 && found.marker != *marker) {
                continue;
            }
            check.pending.remove(&id);
            if !found.valid {
                gone.push(id);
            }
        }
        gone
    }
}

/// Whether it is time to ask about a terminator.
pub(crate) enum Due {
    Now,
    Later,
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::ctrl::RouterTerminatorState;

    #[test]
    fn only_what_was_asked_is_removed() {
        let (validations, r1) = (Validations::default(), Id::new("r1"));
        validations.add(&r1, ["t1", "t2", "t3"].into_iter().map(Id::new));
        let due = validations.due(&r1, |id| match id.as_str() {
            "t3" => Due::Later,
            _ => Due::Now,
        });
        assert_eq!(due.len(), 2);
        assert!(validations.due(&r1, |_| Due::Now).is_empty(), "one question at a time");
        let state = |marker| RouterTerminatorState { marker, ..RouterTerminatorState::default() };
        let marker = |id: &str| due.iter().find(|(own, _)| own.as_str() == id).unwrap().1;
        let answer = ValidateTerminatorsV2Response {
            states: [
                ("t1".to_owned(), state(marker("t1"))),
                ("t2".to_owned(), state(marker("t2") + 77)),
                ("t9".to_owned(), state(0)),
            ]
            .into(),
        };
        assert_eq!(validations.answered(&r1, &answer), [Id::new("t1")]);
        let again: Vec<_> = validations.due(&r1, |_| Due::Now);
        assert_eq!(again.len(), 2, "t2 was not answered, t3 not asked yet");
        assert_eq!(validations.waiting(), std::slice::from_ref(&r1));
        validations.forget(&r1);
        assert!(validations.due(&r1, |_| Due::Now).is_empty());
        assert!(validations.waiting().is_empty(), "nobody else is looked at");
    }

    #[test]
    fn repeated_reports_are_remembered_and_when_they_are_too_many_all_count() {
        let (validations, r1) = (Validations::default(), Id::new("r1"));
        let [t1, t2] = ["t1", "t2"].map(Id::new);
        validations.add(&r1, std::iter::once(t1.clone()));
        let marker = validations.last_marker();
        validations.reported(&r1, &t1);
        assert!(validations.was_reported_since(&t1, marker) && validations.asks(&r1, &t1));
        assert!(!validations.was_reported_since(&t2, marker));
        assert!(!validations.was_reported_since(&t1, validations.last_marker()));
        (0..REPORTS + 1).for_each(|at| validations.reported(&r1, &Id::new(&format!("m{at}"))));
        assert!(validations.was_reported_since(&t2, marker));
        assert!(!validations.was_reported_since(&t2, validations.last_marker()));
        assert_eq!(validations.state.lock().reports.len(), REPORTS);
    }
}
