//! The order in which posture data has changed, by which other controllers are told.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use weft_model::Id;

/// The owner of posture data.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PostureOwner {
    /// An identity with its device.
    Identity(Id),
    /// An API session, whose device wakes and is unlocked.
    Session(Id),
}

/// The owners of all posture data, by the numbers of their last changes: whoever has heard of the changes up to a number
/// takes those after it.
#[derive(Debug, Default)]
pub(super) struct Journal {
    last: u64,
    changes: BTreeMap<u64, PostureOwner>,
    numbers: HashMap<PostureOwner, u64>,
}

impl Journal {
    /// Notes a change, and returns its number.
    pub(super) fn note(&mut self, owner: PostureOwner) -> u64 {
        self.last += 1;
        if let Some(former) = self.numbers.insert(owner.clone(), self.last) {
            self.changes.remove(&former);
        }
        self.changes.insert(self.last, owner);
        self.last
    }

    /// Forgets an owner.
    pub(super) fn forget(&mut self, owner: &PostureOwner) {
        if let Some(number) = self.numbers.remove(owner) {
            self.changes.remove(&number);
        }
    }

    /// The owners with changes after a number, the first ones first.
    pub(super) fn after(&self, number: u64) -> impl Iterator<Item = (u64, &PostureOwner)> {
        self.changes.range(number.saturating_add(1)..).map(|(number, owner)| (*number, owner))
    }

    /// The number of the last change.
    pub(super) fn last(&self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> PostureOwner {
        PostureOwner::Identity(Id::new(name))
    }

    #[test]
    fn each_owner_has_the_place_of_its_last_change() {
        let mut journal = Journal::default();
        for name in ["a", "b", "a", "c", "b"] {
            journal.note(owner(name));
        }
        let after = |journal: &Journal, number| -> Vec<(u64, PostureOwner)> {
            journal.after(number).map(|(number, owner)| (number, owner.clone())).collect()
        };
        let [a, b, c] = ["a", "b", "c"].map(owner);
        assert_eq!(after(&journal, 0), [(3, a.clone()), (4, c.clone()), (5, b.clone())]);
        assert_eq!(after(&journal, 4), [(5, b.clone())]);
        assert!(after(&journal, journal.last()).is_empty() && after(&journal, u64::MAX).is_empty());
        journal.forget(&c);
        journal.forget(&c);
        assert_eq!(after(&journal, 3), [(5, b)]);
        assert_eq!(journal.note(c), 6);
        assert_eq!(after(&journal, 0).len(), 3);
    }
}
