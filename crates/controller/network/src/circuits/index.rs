//! An index of circuits: their ids by client, link, router or terminator.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use weft_model::Id;

/// Ids of circuits by key, each list in order.
#[derive(Debug)]
pub(super) struct Index<K>(HashMap<K, Ids>);

/// The ids of one key. A single id takes no set.
#[derive(Debug)]
enum Ids {
    One(Arc<str>),
    Many(BTreeSet<Arc<str>>),
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash + Clone> Index<K> {
    pub(super) fn insert(&mut self, key: &K, id: &Arc<str>) {
        let Some(known) = self.0.get_mut(key) else {
            self.0.insert(key.clone(), Ids::One(Arc::clone(id)));
            return;
        };
        match known {
            Ids::Many(ids) => {
                ids.insert(Arc::clone(id));
            }
            Ids::One(one) if one == id => {}
            Ids::One(one) => *known = Ids::Many([Arc::clone(one), Arc::clone(id)].into()),
        }
    }

    pub(super) fn remove<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q, id: &str) {
        let is_empty = match self.0.get_mut(key) {
            Some(Ids::One(one)) => **one == *id,
            Some(Ids::Many(ids)) => {
                ids.remove(id);
                ids.is_empty()
            }
            None => false,
        };
        if is_empty {
            self.0.remove(key);
        }
    }

    /// All keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }

    /// The number of circuits with a key.
    pub(super) fn count<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> usize {
        match self.0.get(key) {
            Some(Ids::One(_)) => 1,
            Some(Ids::Many(ids)) => ids.len(),
            None => 0,
        }
    }

    /// The first circuits with a key, after the id `after`.
    pub(super) fn some<Q: Hash + Equivalent<K> + ?Sized>(
        &self,
        key: &Q,
        after: Option<&str>,
        most: usize,
    ) -> Vec<Arc<str>> {
        match self.0.get(key) {
            Some(Ids::One(one)) if after.is_none_or(|after| **one > *after) => {
                vec![Arc::clone(one)]
            }
            Some(Ids::Many(ids)) => {
                let from = after.map_or(Bound::Unbounded, Bound::Excluded);
                let behind = ids.range::<str, _>((from, Bound::Unbounded));
                behind.take(most).map(Arc::clone).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// How many circuits there are of each dialing identity.
#[derive(Debug, Default)]
pub(super) struct Counts(HashMap<Id, u64>);

impl Counts {
    pub(super) fn add(&mut self, dialer: Option<&Id>) {
        let Some(dialer) = dialer else { return };
        match self.0.get_mut(dialer) {
            Some(count) => *count += 1,
            None => drop(self.0.insert(dialer.clone(), 1)),
        }
    }

    pub(super) fn remove(&mut self, dialer: Option<&Id>) {
        let Some(dialer) = dialer else { return };
        if let Some(count) = self.0.get_mut(dialer) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(dialer);
            }
        }
    }

    pub(super) fn of(&self, dialer: &Id) -> u64 {
        self.0.get(dialer).copied().unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circuits_are_found_in_parts_and_leave_nothing() {
        let mut index: Index<Arc<str>> = Index::default();
        let key: Arc<str> = "link".into();
        let id = |number: usize| -> Arc<str> { format!("c{number}").into() };
        index.insert(&key, &id(3));
        index.insert(&key, &id(3));
        assert_eq!((index.count("link"), index.some("link", None, 9)), (1, vec![id(3)]));
        assert!(index.some("link", Some("c3"), 9).is_empty());
        for number in [1, 5, 2, 4] {
            index.insert(&key, &id(number));
        }
        assert_eq!(index.some("link", None, 2), [id(1), id(2)]);
        assert_eq!(index.some("link", Some("c2"), 2), [id(3), id(4)]);
        assert_eq!(index.some("link", Some("c4"), 2), [id(5)]);
        index.remove("link", "c9");
        index.remove("other", "c1");
        (1..6).for_each(|number| index.remove("link", &id(number)));
        assert_eq!((index.count("link"), index.keys().count()), (0, 0));
    }
}
