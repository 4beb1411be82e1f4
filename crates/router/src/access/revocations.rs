//! The revocations of the data model, by id and by the time at which they end. Those whose time is
//! over are found without a look at the others, however many there are. A revocation may name many
//! sessions in a list.

use std::sync::Arc;

use weft_model::session_list;
use weft_wire::edge_ctrl::data_model::{Revocation, revocation_type};

type ById = imbl::HashMap<String, Arc<Revocation>>;

/// The revocations. A clone shares everything with its original until one of them changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Revocations {
    by_id: ById,
    /// The second since 1970 at which each revocation ends that ends at all, with its id.
    ends: imbl::OrdSet<(i64, String)>,
    /// The ids of revocations with a list of sessions. They are few: each is of many sessions.
    lists: imbl::OrdSet<String>,
}

impl Revocations {
    /// The revocation of this id.
    pub(crate) fn get(&self, id: &str) -> Option<&Arc<Revocation>> {
        self.by_id.get(id)
    }

    /// Whether a session was revoked, by itself or in a list.
    pub(crate) fn has_session(&self, session: &str) -> bool {
        let is_one = |one: &Arc<Revocation>| one.r#type == revocation_type::API_SESSION;
        if self.get(session).is_some_and(is_one) {
            return true;
        }
        if self.lists.is_empty() {
            return false;
        }
        let Some(key) = session_list::key(session) else { return false };
        let mut lists = self.lists.iter().filter_map(|id| self.get(id));
        lists.any(|list| session_list::contains(&list.sessions, &key))
    }

    /// The sessions in the list of a revocation; none if it has no list.
    pub(crate) fn listed(&self, id: &str) -> impl Iterator<Item = String> + '_ {
        let list = self.lists.get(id).and_then(|id| self.get(id));
        let keys = list.map(|list| session_list::keys(&list.sessions)).unwrap_or_default();
        keys.iter().map(session_list::id)
    }

    /// All revocations, by id.
    pub(crate) fn by_id(&self) -> &ById {
        &self.by_id
    }

    /// Adds, changes or removes a revocation.
    pub(super) fn put(&mut self, one: Revocation, delete: bool) {
        let end = end_of(&one);
        match has_list(&one) && !delete {
            true => self.lists.insert(one.id.clone()),
            false => self.lists.remove(&one.id),
        };
        let before = match delete {
            true => self.by_id.remove(&one.id),
            false => self.by_id.insert(one.id.clone(), Arc::new(one)),
        };
        if let Some(end) = before.and_then(|before| end_of(&before)) {
            self.ends.remove(&end);
        }
        if !delete {
            self.ends.extend(end);
        }
    }

    /// Whether revocations have ended before `now` (seconds since 1970).
    pub(crate) fn has_ended(&self, now: i64) -> bool {
        self.ends.get_min().is_some_and(|(end, _)| *end < now)
    }

    /// Removes up to `most` revocations that ended before `now`. True if there may be more of them.
    pub(crate) fn expire(&mut self, now: i64, most: usize) -> bool {
        for _ in 0..most {
            if !self.has_ended(now) {
                return false;
            }
            let Some((_, id)) = self.ends.remove_min() else { return false };
            self.by_id.remove(&id);
            self.lists.remove(&id);
        }
        true
    }
}

fn has_list(one: &Revocation) -> bool {
    !one.sessions.is_empty() && one.r#type == revocation_type::API_SESSION
}

fn end_of(one: &Revocation) -> Option<(i64, String)> {
    one.expires_at.as_ref().map(|at| (at.seconds, one.id.clone()))
}

#[cfg(test)]
mod tests {
    use weft_wire::edge_ctrl::data_model::Timestamp;

    use super::*;

    fn revocation(id: &str, end: Option<i64>) -> Revocation {
        let expires_at = end.map(|seconds| Timestamp { seconds, nanos: 0 });
        Revocation { id: id.into(), expires_at, ..Revocation::default() }
    }

    #[test]
    fn the_revocations_that_ended_go_and_no_others() {
        let mut all = Revocations::default();
        for (id, end) in [("a", Some(5)), ("b", Some(5)), ("c", Some(9)), ("d", None)] {
            all.put(revocation(id, end), false);
        }
        // A later end counts, and a revocation that was removed does not.
        all.put(revocation("b", Some(20)), false);
        all.put(revocation("e", Some(1)), false);
        all.put(revocation("e", None), true);
        let ids = |all: &Revocations| {
            let mut ids: Vec<_> = all.by_id().keys().cloned().collect();
            ids.sort_unstable();
            ids.concat()
        };
        let before = all.clone();
        assert!(!all.has_ended(5) && !all.expire(5, 10), "the second has to be over");
        assert_eq!(ids(&all), "abcd");
        assert!(all.has_ended(6) && !all.expire(6, 10));
        assert_eq!(ids(&all), "bcd");
        assert!(all.expire(100, 1), "there is one more");
        assert!(!all.expire(100, 10));
        assert_eq!(ids(&all), "d");
        assert!(all.ends.is_empty());
        assert_eq!((ids(&before), before.ends.len()), ("abcd".to_owned(), 3));
    }

    #[test]
    fn a_list_revokes_its_sessions_until_it_goes() {
        let name = |number: u32| format!("00000000-0000-4000-8000-{number:012}");
        let keys = (0..100).map(|number| session_list::key(&name(number)).unwrap()).collect();
        let list = Revocation {
            r#type: revocation_type::API_SESSION.into(),
            sessions: session_list::pack(keys),
            ..revocation("list", Some(5))
        };
        let mut all = Revocations::default();
        all.put(list.clone(), false);
        all.put(Revocation { r#type: "JTI".into(), ..list.clone() }, false);
        assert!(!all.has_session(&name(7)), "another kind");
        all.put(list.clone(), false);
        assert!(all.has_session(&name(0)) && all.has_session(&name(99)));
        assert!(
            !all.has_session(&name(100)) && !all.has_session("s1") && !all.has_session("list2")
        );
        assert_eq!(all.listed("list").nth(3), Some(name(3)));
        assert_eq!(all.listed("other").count(), 0);
        all.put(list.clone(), true);
        assert!(!all.has_session(&name(7)));
        all.put(list, false);
        all.expire(6, 10);
        assert!(!all.has_session(&name(7)) && all.lists.is_empty());
    }
}
