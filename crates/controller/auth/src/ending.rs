//! Schedules the ends of sessions and of grants: idle sessions, expired certificates, timeouts of
//! second factors and of unlocked devices.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use weft_model::{Id, Timestamp};

/// Times at which sessions have to be judged again; one time for each session.
#[derive(Default)]
pub struct EndTimes {
    by_time: BTreeSet<(Timestamp, Id)>,
    by_id: HashMap<Id, Timestamp>,
}

impl EndTimes {
    /// Schedules a session. The earliest time counts: when it comes, the session is judged, and its
    /// next time is known.
    pub fn put(&mut self, session: &Id, at: Timestamp) {
        if self.by_id.get(session).is_some_and(|known| *known <= at) {
            return;
        }
        self.remove(session);
        self.by_id.insert(session.clone(), at);
        self.by_time.insert((at, session.clone()));
    }

    /// Removes a session that has ended.
    pub fn remove(&mut self, session: &Id) {
        if let Some(at) = self.by_id.remove(session) {
            self.by_time.remove(&(at, session.clone()));
        }
    }

    /// Whether the time of a session has come.
    pub fn has_due(&self, now: Timestamp) -> bool {
        self.by_time.first().is_some_and(|(at, _)| *at < now)
    }

    /// Takes out the sessions whose time has come, in order.
    pub fn take(&mut self, now: Timestamp) -> Vec<Id> {
        let later = self.by_time.split_off(&(now, Id::default()));
        let over = std::mem::replace(&mut self.by_time, later);
        let over: Vec<Id> = over.into_iter().map(|(_, id)| id).collect();
        for id in &over {
            self.by_id.remove(id);
        }
        over
    }

    /// Whether a session is scheduled.
    pub fn contains(&self, session: &Id) -> bool {
        self.by_id.contains_key(session)
    }

    /// All scheduled sessions.
    pub fn sessions(&self) -> impl Iterator<Item = &Id> {
        self.by_id.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_end_in_order() {
        let mut ending = EndTimes::default();
        let at = Timestamp::from_secs;
        for (id, secs) in [("a", 30), ("b", 10), ("c", 20)] {
            ending.put(&Id::new(id), at(secs));
        }
        assert_eq!(ending.take(at(10)), Vec::<Id>::new());
        assert_eq!(ending.take(at(21)), [Id::new("b"), Id::new("c")]);
        assert_eq!(ending.take(at(21)), Vec::<Id>::new());
    }

    #[test]
    fn a_session_is_in_it_once_and_ends_at_first() {
        let mut ending = EndTimes::default();
        let (one, other) = (Id::new("one"), Id::new("other"));
        ending.put(&other, Timestamp(5_000));
        (0..1000).rev().for_each(|later| ending.put(&one, Timestamp(2_000 + later)));
        (0..1000).for_each(|later| ending.put(&one, Timestamp(2_000 + later)));
        let counts = |ending: &EndTimes| (ending.by_time.len(), ending.by_id.len());
        assert_eq!(counts(&ending), (2, 2));
        assert_eq!(ending.take(Timestamp(2_001)), [one]);
        assert_eq!(counts(&ending), (1, 1));
        ending.remove(&other);
        assert_eq!(counts(&ending), (0, 0));
    }
}
