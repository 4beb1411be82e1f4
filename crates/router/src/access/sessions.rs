//! Opaque API sessions, as controllers announce them, and their full synchronisation
//! (docs/protocol/edge-control-plane.md 10).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use weft_wire::edge_ctrl::{ApiSession, SyncState};

use crate::seam::ControllerId;

/// A full synchronisation that takes longer is started again.
const SYNC_TIMEOUT: Duration = Duration::from_secs(20);
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
    arrivals: u64,
}

/// A full synchronisation under way.
#[derive(Debug)]
struct Run {
    id: String,
    parts: BTreeMap<u64, Vec<String>>,
    last: Option<u64>,
    began: Instant,
    /// Sessions with lower numbers arrived before the synchronisation began.
    arrivals_before: u64,
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

    /// Takes one part of a full synchronisation. When it is the last one: the ids of sessions that
    /// the controller no longer has; else `None`.
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
        let begin = |id: String| Run {
            id,
            parts: BTreeMap::new(),
            last: None,
            began: now,
            arrivals_before,
        };
        let run = self.runs.entry(from.clone()).or_insert_with(|| begin(state.id.clone()));
        if state.id > run.id {
            *run = begin(state.id.clone());
        }
        if state.id < run.id || run.parts.len() >= MAX_PARTS {
            return None;
        }
        run.parts.insert(state.sequence, ids);
        if state.is_last {
            run.last = Some(state.sequence);
        }
        if !run.is_complete() {
            return None;
        }
        let run = self.runs.remove(from)?;
        Some(self.finish(from, &run))
    }

    /// Removes the sessions that a controller no longer has; those that came during the
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

    /// Controllers whose synchronisation took too long and is given up.
    pub(crate) fn overdue(&mut self, now: Instant) -> Vec<ControllerId> {
        let late = |run: &Run| now.saturating_duration_since(run.began) > SYNC_TIMEOUT;
        let overdue: Vec<ControllerId> =
            self.runs.iter().filter(|(_, run)| late(run)).map(|(id, _)| id.clone()).collect();
        for id in &overdue {
            self.runs.remove(id);
        }
        overdue
    }

    /// A controller has disconnected: its synchronisation is given up.
    pub(crate) fn disconnected(&mut self, controller: &str) {
        self.runs.remove(controller);
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
    fn a_later_run_replaces_an_earlier_one_and_a_slow_one_is_given_up() {
        let mut sessions = Sessions::default();
        let from: ControllerId = "c".into();
        let now = Instant::now();
        sessions.add_part(&from, state("s1", 0, false), vec![session("a1")], now);
        sessions.add_part(&from, state("s2", 1, true), vec![session("a2")], now);
        assert!(sessions.overdue(now + SYNC_TIMEOUT).is_empty());
        let late = now + SYNC_TIMEOUT + Duration::from_secs(1);
        assert_eq!(sessions.overdue(late), [from]);
        assert!(sessions.overdue(late).is_empty());
    }

    #[test]
    fn a_last_part_far_out_is_never_complete() {
        let mut sessions = Sessions::default();
        let from: ControllerId = "c".into();
        let gone = sessions.add_part(&from, state("s", u64::MAX, true), vec![], Instant::now());
        assert!(gone.is_none());
    }
}
