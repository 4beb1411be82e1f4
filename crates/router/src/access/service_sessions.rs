//! The service sessions that SDKs of this router use, and those that ended lately. The end of one costs
//! as much as it concerns, however many ended before it and however many SDKs are connected.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a service session that ended is remembered, to refuse late binds.
const ENDED_FOR: Duration = Duration::from_secs(300);
/// Most service sessions in use of one API session.
const MOST_IN_USE: usize = 65_536;

/// The service sessions in use, and those that ended lately.
#[derive(Debug, Default)]
pub(super) struct ServiceSessions {
    /// The API session of each service session in use.
    api_session_of: HashMap<Arc<str>, Arc<str>>,
    /// The service sessions in use, by API session.
    of_api_session: HashMap<Arc<str>, HashSet<Arc<str>>>,
    ended: Ended,
}

impl ServiceSessions {
    /// Notes that an API session uses a service session from now on. The error says why it must not.
    pub(super) fn use_one(&mut self, id: &str, api_session: &str) -> Result<(), &'static str> {
        if self.ended.has(id) {
            return Err("the service session has ended");
        }
        if self.api_session_of.contains_key(id) {
            return Ok(());
        }
        let known = self.of_api_session.get_key_value(api_session);
        let api_session = known.map_or_else(|| api_session.into(), |(known, _)| Arc::clone(known));
        let used = self.of_api_session.entry(Arc::clone(&api_session)).or_default();
        if used.len() >= MOST_IN_USE {
            return Err("the API session uses too many service sessions");
        }
        let id: Arc<str> = id.into();
        used.insert(Arc::clone(&id));
        self.api_session_of.insert(id, api_session);
        Ok(())
    }

    /// Ends service sessions. Those that were in use are returned, by API session.
    pub(super) fn end<'a>(
        &mut self,
        ids: impl IntoIterator<Item = &'a str>,
        now: Instant,
    ) -> BTreeMap<String, BTreeSet<String>> {
        let mut used = BTreeMap::<String, BTreeSet<String>>::new();
        for id in ids.into_iter().filter(|id| !id.is_empty()) {
            self.ended.note(id, now);
            let Some(api_session) = self.api_session_of.remove(id) else { continue };
            if let Some(of_api_session) = self.of_api_session.get_mut(&api_session) {
                of_api_session.remove(id);
                if of_api_session.is_empty() {
                    self.of_api_session.remove(&api_session);
                }
            }
            used.entry(api_session.to_string()).or_default().insert(id.to_owned());
        }
        used
    }

    /// Forgets the service sessions in use of an API session.
    pub(super) fn forget(&mut self, api_session: &str) {
        for id in self.of_api_session.remove(api_session).into_iter().flatten() {
            self.api_session_of.remove(&id);
        }
    }
}

/// The service sessions that ended lately.
#[derive(Debug, Default)]
struct Ended {
    ids: HashSet<Arc<str>>,
    /// The ends, the oldest first.
    order: VecDeque<(Instant, Arc<str>)>,
}

impl Ended {
    fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Remembers an end, unless it is known, and forgets those whose time is over. Returns how many
    /// ends were looked at.
    fn note(&mut self, id: &str, now: Instant) -> usize {
        let mut looked_at = 0;
        while let Some((at, oldest)) = self.order.front() {
            looked_at += 1;
            if now.saturating_duration_since(*at) < ENDED_FOR {
                break;
            }
            self.ids.remove(oldest);
            self.order.pop_front();
        }
        if !self.ids.contains(id) {
            let id: Arc<str> = id.into();
            self.ids.insert(Arc::clone(&id));
            self.order.push_back((now, id));
        }
        looked_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_looks_at_the_ends_whose_time_is_over_and_at_one_more() {
        let (mut ended, start) = (Ended::default(), Instant::now());
        let second = Duration::from_secs(1);
        for n in 0..1000 {
            assert!(ended.note(&format!("old{n}"), start) <= 1);
        }
        for n in 0..1000 {
            assert!(ended.note(&format!("new{n}"), start + second) <= 1);
        }
        assert!(ended.has("old0") && ended.has("new0"));
        assert_eq!(ended.note("last", start + ENDED_FOR), 1001);
        assert!(!ended.has("old999") && ended.has("new0") && ended.has("last"));
        // An end that is told again and again takes no more room.
        for _ in 0..1000 {
            ended.note("last", start + ENDED_FOR);
        }
        assert_eq!((ended.ids.len(), ended.order.len()), (1001, 1001));
        ended.note("", start + ENDED_FOR * 3);
        assert_eq!((ended.ids.len(), ended.order.len()), (1, 1));
    }

    #[test]
    fn only_service_sessions_in_use_are_told_with_their_api_session() {
        let (mut sessions, now) = (ServiceSessions::default(), Instant::now());
        for id in ["a1", "a2", "a3"] {
            sessions.use_one(id, "a").unwrap();
        }
        sessions.use_one("b1", "b").unwrap();
        let set = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect::<BTreeSet<_>>();
        let ended = sessions.end(["a1", "", "foreign", "b1", "a2"], now);
        let expected = [("a".to_owned(), set(&["a1", "a2"])), ("b".to_owned(), set(&["b1"]))];
        assert_eq!(ended, expected.into());
        assert_eq!(sessions.use_one("a1", "a"), Err("the service session has ended"));
        assert_eq!(
            sessions.use_one("foreign", "a"),
            Err("the service session has ended"),
            "in use or not"
        );
        assert!(sessions.end(["a1", "b1"], now).is_empty(), "told once");
        sessions.forget("a");
        sessions.forget("unknown");
        assert!(sessions.end(["a3"], now).is_empty(), "nobody uses it any more");
        assert!(sessions.of_api_session.is_empty() && sessions.api_session_of.is_empty());
    }

    #[test]
    fn one_api_session_uses_a_limited_number() {
        let mut sessions = ServiceSessions::default();
        for n in 0..MOST_IN_USE {
            sessions.use_one(&n.to_string(), "a").unwrap();
        }
        sessions.use_one("0", "a").unwrap();
        assert!(sessions.use_one("more", "a").is_err());
        sessions.use_one("more", "b").unwrap();
        sessions.end(["0"], Instant::now());
        sessions.use_one("again", "a").unwrap();
    }
}
