//! The revocations of the data model, by id and by the time at which they end. Those whose time is
//! over are found without a look at the others, however many there are.

use std::sync::Arc;

use weft_wire::edge_ctrl::data_model::Revocation;

type ById = imbl::HashMap<String, Arc<Revocation>>;

/// The revocations. A clone shares everything with its original until one of them changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Revocations {
    by_id: ById,
    /// The second since 1970 at which each revocation ends that ends at all, with its id.
    ends: imbl::OrdSet<(i64, String)>,
}

impl Revocations {
    /// The revocation of this id.
    pub(crate) fn get(&self, id: &str) -> Option<&Arc<Revocation>> {
        self.by_id.get(id)
    }

    /// All revocations, by id.
    pub(crate) fn by_id(&self) -> &ById {
        &self.by_id
    }

    /// Adds, changes or removes a revocation.
    pub(super) fn put(&mut self, one: Revocation, delete: bool) {
        let end = end_of(&one);
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
        }
        true
    }
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
}
