//! Opaque API sessions, as controllers announce them, and their full synchronisation
//! (docs/protocol/edge-control-plane.md 10).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use weft_wire::edge_ctrl::{ApiSession, SyncState};

use crate::seam::ControllerId;

/// A full synchronisation of which no part comes for this long is given up, and asked for again.
const SYNC_TIMEOUT: Duration = Duration::from_secs(20);
/// The pause before the first request for another synchronisation. It doubles with each request and
/// with each synchronisation that is given up, until one is complete. A random factor from 0.5 to 1.5 keeps many routers from asking together.
const FIRST_PAUSE: Duration = Duration::from_secs(4);
/// Longest pause, without the random factor.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Most parts of one synchronisation.
const MAX_PARTS: usize = 100_000;

/// An opaque API session.
#[derive(Debug, Clone)]
pub(crate) struct LegacySession {
    /// Id of the API session.
    pub(crate) id: String,
    /// Id of the identity.
    pub(crate) identity: String,
    /// Fingerprints of the certificates that the session may be used with.
    pub(crate) fingerprints: Vec<String>,
    /// The controller that announced the session; no other controller knows it.
    pub(crate) controller: ControllerId,
    /// The number of the session in the order of arrival.
    arrival: u64,
}

/// The opaque API sessions that controllers have announced.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_token: HashMap<String, LegacySession>,
    tokens: HashMap<String, String>,
    runs: HashMap<ControllerId, Run>,
    ended: HashMap<ControllerId, Ended>,
    arrivals: u64,
}

/// A full synchronisation under way.
#[derive(Debug)]
struct Run {
    id: String,
    parts: BTreeMap<u64, Vec<String>>,
    last: Option<u64>,
    /// When the last new part came.
    heard: Instant,
    /// Sessions with lower numbers arrived before the synchronisation began.
    arrivals_before: u64,
}

/// The last synchronisation that was completed or given up.
#[derive(Debug)]
struct Ended {
    /// The id of the synchronisation: its parts that come late begin no other one.
    id: String,
    /// The number of synchronisations that were given up since the last complete one.
    failures: u32,
    /// The time of the request for another synchronisation.
    ask_at: Option<Instant>,
}

impl Ended {
    /// Notes one more failure; `chance` is between 0 and 1.
    fn failed(&mut self, now: Instant, wait: Duration, chance: f64) {
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16));
        let pause = doubled.min(LONGEST_PAUSE).mul_f64(0.5 + chance.clamp(0.0, 1.0));
        self.failures = self.failures.saturating_add(1);
        self.ask_at = Some(now + wait + pause);
    }
}

impl Run {
    fn is_complete(&self) -> bool {
        let Some(last) = self.last else { return false };
        let parts = self.parts.range(..=last).count() as u64;
        parts == last.saturating_add(1)
    }
}

impl Sessions {
    /// The session of a token.
    pub(crate) fn of_token(&self, token: &str) -> Option<&LegacySession> {
        self.by_token.get(token)
    }

    /// True if a session is known.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.tokens.contains_key(id)
    }

    /// Adds a session, in place of the one with its id.
    pub(crate) fn add(&mut self, from: &ControllerId, session: ApiSession) {
        self.arrivals += 1;
        if let Some(former) = self.tokens.insert(session.id.clone(), session.token.clone())
            && former != session.token
        {
            self.by_token.remove(&former);
        }
        let known = LegacySession {
            id: session.id,
            identity: session.identity_id,
            fingerprints: session.cert_fingerprints,
            controller: from.clone(),
            arrival: self.arrivals,
        };
        self.by_token.insert(session.token, known);
    }

    /// Removes the session of a token that ended; its id, if it was known.
    pub(crate) fn remove_token(&mut self, token: &str) -> Option<String> {
        let session = self.by_token.remove(token)?;
        self.tokens.remove(&session.id);
        Some(session.id)
    }

    /// Removes a session that ended; true if it was known.
    pub(crate) fn remove(&mut self, id: &str) -> bool {
        let token = self.tokens.remove(id);
        token.is_some_and(|token| self.by_token.remove(&token).is_some())
    }

    /// Takes one part of a full synchronisation. The last part returns the ids of the sessions that
    /// the controller no longer has; every other part returns `None`.
    pub(crate) fn add_part(
        &mut self,
        from: &ControllerId,
        state: SyncState,
        sessions: Vec<ApiSession>,
        now: Instant,
    ) -> Option<Vec<String>> {
        let arrivals_before = self.arrivals;
        let ids: Vec<String> = sessions.iter().map(|session| session.id.clone()).collect();
        for session in sessions {
            self.add(from, session);
        }
        if self.ended.get(from).is_some_and(|ended| ended.id == state.id) {
            return None;
        }
        let begin = |id: String| Run {
            id,
            parts: BTreeMap::new(),
            last: None,
            heard: now,
            arrivals_before,
        };
        let run = self.runs.entry(from.clone()).or_insert_with(|| begin(state.id.clone()));
        if state.id > run.id {
            *run = begin(state.id.clone());
        }
        if state.id < run.id || run.parts.len() >= MAX_PARTS {
            return None;
        }
        if run.parts.insert(state.sequence, ids).is_none() {
            run.heard = now;
        }
        if state.is_last {
            run.last = Some(state.sequence);
        }
        if let Some(ended) = self.ended.get_mut(from) {
            ended.ask_at = None;
        }
        if !run.is_complete() {
            return None;
        }
        let run = self.runs.remove(from)?;
        let ended = Ended { id: run.id.clone(), failures: 0, ask_at: None };
        self.ended.insert(from.clone(), ended);
        Some(self.finish(from, &run))
    }

    /// Removes the sessions that a controller no longer has; sessions that came during the
    /// synchronisation stay.
    fn finish(&mut self, from: &ControllerId, run: &Run) -> Vec<String> {
        let told: HashSet<&String> = run.parts.values().flatten().collect();
        let gone = self.by_token.values().filter(|session| {
            session.controller == *from
                && session.arrival <= run.arrivals_before
                && !told.contains(&session.id)
        });
        let gone: Vec<String> = gone.map(|session| session.id.clone()).collect();
        for id in &gone {
            self.remove(id);
        }
        gone
    }

    /// Gives up synchronisations that have stopped. Returns the controllers to ask for another one
    /// now; `chance` is between 0 and 1.
    pub(crate) fn overdue(&mut self, now: Instant, chance: f64) -> Vec<ControllerId> {
        let late = |run: &Run| now.saturating_duration_since(run.heard) > SYNC_TIMEOUT;
        for (from, run) in self.runs.extract_if(|_, run| late(run)) {
            let ended = self.ended.entry(from).or_insert(Ended {
                id: String::new(),
                failures: 0,
                ask_at: None,
            });
            ended.id = run.id;
            ended.failed(now, Duration::ZERO, chance);
        }
        let mut ask = Vec::new();
        for (from, ended) in &mut self.ended {
            if ended.ask_at.is_some_and(|at| at <= now) {
                ask.push(from.clone());
                // Without an answer the request is repeated.
                ended.failed(now, SYNC_TIMEOUT, chance);
            }
        }
        ask
    }

    /// A controller has connected or disconnected: its synchronisation is given up.
    pub(crate) fn disconnected(&mut self, controller: &str) {
        self.runs.remove(controller);
        self.ended.remove(controller);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str) -> ApiSession {
        ApiSession {
            token: format!("token-{id}"),
            id: id.to_owned(),
            identity_id: "i".into(),
            ..ApiSession::default()
        }
    }

    fn state(id: &str, sequence: u64, is_last: bool) -> SyncState {
        SyncState { id: id.into(), is_last, sequence }
    }

    #[test]
    fn parts_in_any_order_remove_what_is_not_told() {
        let mut sessions = Sessions::default();
        let (from, other): (ControllerId, ControllerId) = ("c".into(), "d".into());
        let now = Instant::now();
        sessions.add(&from, session("a1"));
        sessions.add(&from, session("a2"));
        sessions.add(&other, session("b1"));
        assert!(sessions.add_part(&from, state("s2", 1, true), vec![session("a3")], now).is_none());
        sessions.add(&from, session("a4"));
        assert!(sessions.add_part(&from, state("s1", 0, true), vec![], now).is_none(), "older run");
        let gone = sessions.add_part(&from, state("s2", 0, false), vec![session("a2")], now);
        assert_eq!(gone.unwrap(), ["a1"]);
        for id in ["a2", "a3", "a4", "b1"] {
            assert!(sessions.contains(id), "{id}");
            assert!(sessions.of_token(&format!("token-{id}")).is_some(), "{id}");
        }
        assert!(sessions.of_token("token-a1").is_none());
    }

    #[test]
    fn an_empty_full_state_removes_everything_of_its_controller() {
        let mut sessions = Sessions::default();
        let (from, other): (ControllerId, ControllerId) = ("c".into(), "d".into());
        sessions.add(&from, session("a1"));
        sessions.add(&other, session("b1"));
        let gone = sessions.add_part(&from, state("s", 0, true), vec![], Instant::now());
        assert_eq!(gone.unwrap(), ["a1"]);
        assert!(sessions.contains("b1"));
    }

    #[test]
    fn a_later_run_replaces_an_earlier_one_and_a_run_that_stops_is_given_up() {
        let mut sessions = Sessions::default();
        let from: ControllerId = "c".into();
        let now = Instant::now();
        sessions.add_part(&from, state("s1", 0, false), vec![session("a1")], now);
        sessions.add_part(&from, state("s2", 1, true), vec![session("a2")], now);
        assert!(sessions.overdue(now + SYNC_TIMEOUT, 0.5).is_empty());
        let late = now + SYNC_TIMEOUT + Duration::from_secs(1);
        assert!(sessions.overdue(late, 0.5).is_empty());
        assert_eq!(sessions.overdue(late + FIRST_PAUSE, 0.5), [from]);
        assert!(sessions.overdue(late + FIRST_PAUSE, 0.5).is_empty());
    }

    #[test]
    fn a_run_may_take_long_while_parts_come() {
        let mut sessions = Sessions::default();
        let from: ControllerId = "c".into();
        let mut now = Instant::now();
        sessions.add(&from, session("gone"));
        for sequence in 0..10 {
            let part = vec![session(&format!("a{sequence}"))];
            let done = sessions.add_part(&from, state("s1", sequence, sequence == 9), part, now);
            assert_eq!(done, (sequence == 9).then(|| vec!["gone".to_owned()]), "{sequence}");
            now += SYNC_TIMEOUT - Duration::from_secs(1);
            assert!(sessions.overdue(now, 0.0).is_empty());
        }
        // A part that is told twice begins nothing.
        sessions.add_part(&from, state("s1", 3, false), vec![session("a3")], now);
        assert!(sessions.overdue(now + LONGEST_PAUSE * 2, 0.0).is_empty());
    }

    #[test]
    fn the_rest_of_a_run_that_was_given_up_begins_none_and_requests_become_rare() {
        let mut sessions = Sessions::default();
        let from: ControllerId = "c".into();
        let mut now = Instant::now();
        let second = Duration::from_secs(1);
        let mut pauses = Vec::new();
        for run in 0..9 {
            let id = format!("s{run}");
            sessions.add_part(&from, state(&id, 0, false), vec![session("a0")], now);
            now += SYNC_TIMEOUT + second;
            let mut asked = sessions.overdue(now, 0.5);
            let given_up = now;
            // The rest comes too late.
            let rest = vec![session("a1")];
            assert!(sessions.add_part(&from, state(&id, 1, true), rest, now).is_none());
            assert!(sessions.contains("a1"), "its sessions count");
            while asked.is_empty() {
                now += second;
                asked = sessions.overdue(now, 0.5);
            }
            pauses.push((now - given_up).as_secs());
        }
        assert!(pauses.is_sorted() && pauses[0] <= 5, "{pauses:?}");
        assert_eq!(pauses.last(), Some(&LONGEST_PAUSE.as_secs()));
        // A request without an answer is repeated; a complete run ends that.
        now += SYNC_TIMEOUT + LONGEST_PAUSE;
        assert_eq!(sessions.overdue(now, 0.5), std::slice::from_ref(&from));
        assert!(sessions.add_part(&from, state("s9", 0, true), vec![], now).is_some());
        assert!(sessions.overdue(now + LONGEST_PAUSE * 2, 1.0).is_empty());
        sessions.add_part(&from, state("t", 0, false), vec![], now);
        now += SYNC_TIMEOUT + second;
        assert!(sessions.overdue(now, 0.5).is_empty());
        assert_eq!(sessions.overdue(now + FIRST_PAUSE, 0.5), [from], "soon again");
    }

    #[test]
    fn a_last_part_far_out_is_never_complete() {
        let mut sessions = Sessions::default();
        let from: ControllerId = "c".into();
        let gone = sessions.add_part(&from, state("s", u64::MAX, true), vec![], Instant::now());
        assert!(gone.is_none());
    }
}
