//! The sessions of each identity that have every factor, apart from those that lack one: somebody who has only the first
//! factor of an identity makes any number of the latter, which must cost its owner nothing.

use hashbrown::{HashMap, HashSet};
use weft_model::Id;

/// Sessions with every factor, by identity. One that lacks a factor by now, because more are asked for, stays until it is
/// looked at.
#[derive(Default)]
pub(super) struct Whole(HashMap<Id, HashSet<Id>>);

impl Whole {
    /// A session of an identity has every factor.
    pub(super) fn add(&mut self, identity: &Id, session: &Id) {
        self.0.entry(identity.clone()).or_default().insert(session.clone());
    }

    /// A session of an identity has ended, or lacks a factor.
    pub(super) fn remove(&mut self, identity: &Id, session: &Id) {
        let Some(own) = self.0.get_mut(identity) else { return };
        own.remove(session);
        if own.is_empty() {
            self.0.remove(identity);
        }
    }

    /// Their number.
    pub(super) fn count(&self, identity: &Id) -> usize {
        self.0.get(identity).map_or(0, HashSet::len)
    }

    /// The sessions of an identity.
    pub(super) fn of(&self, identity: &Id) -> impl Iterator<Item = &Id> {
        self.0.get(identity).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_without_sessions_takes_no_room() {
        let (mut whole, [ann, bob]) = (Whole::default(), ["ann", "bob"].map(Id::new));
        let sessions = ["s1", "s2"].map(Id::new);
        sessions.iter().chain(&sessions).for_each(|session| whole.add(&ann, session));
        assert_eq!((whole.count(&ann), whole.count(&bob), whole.of(&ann).count()), (2, 0, 2));
        whole.remove(&bob, &sessions[0]);
        sessions.iter().for_each(|session| whole.remove(&ann, session));
        assert_eq!((whole.count(&ann), whole.0.len()), (0, 0));
    }
}
