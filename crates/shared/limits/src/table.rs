//! A map with a limit on its entries, in all and for each source.
//!
//! Such tables hold state that strangers can create: pending hellos, half-open groups, unknown
//! ids, sessions of an identity, buckets of an address.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use crate::quota::{HolderId, Quota};

/// The rule for a new entry when the table, or the share of its source, is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// The new entry is refused.
    Refuse,
    /// The oldest entry is evicted: of the same source if that is at its limit, of the source with
    /// the most entries if the table is full. A source that floods displaces its own entries.
    EvictOldest,
    /// Like [`WhenFull::EvictOldest`], but only entries of at least this age are evicted; if there
    /// is none, the new entry is refused. For work that needs some time to make progress, so that a
    /// rush does not displace all of it.
    EvictOlderThan(Duration),
}

/// The limits of a [`BoundedTable`].
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// Most entries in all.
    pub total: usize,
    /// Most entries of one source.
    pub per_source: usize,
    /// Age at which an entry is gone. `None`: entries stay until they are removed.
    pub max_age: Option<Duration>,
    /// The rule for a new entry when there is no room.
    pub when_full: WhenFull,
}

/// Why an entry was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TableFull {
    /// The source has this many entries, which is its limit.
    #[error("this source already holds {0} entries, which is its limit")]
    Source(usize),
    /// The table has this many entries, which is its limit.
    #[error("the table already holds {0} entries, which is its limit")]
    Total(usize),
}

/// The effect of an insertion.
#[derive(Debug, PartialEq, Eq)]
pub enum Inserted<K, V> {
    /// The entry was added.
    New,
    /// The key was in the table with this value, which is replaced. The age of the entry starts
    /// anew.
    Replaced(V),
    /// The entry was added, and another one, given here, was evicted for it.
    Evicted(K, V),
    /// The key was in the table, with another source and the value `old`, which is replaced; another
    /// entry, `evicted`, was evicted because the new source was full.
    Moved {
        /// The replaced value.
        old: V,
        /// The key and the value of the evicted entry.
        evicted: (K, V),
    },
}

#[derive(Debug)]
struct Entry<S, V> {
    value: V,
    source: S,
    /// Position in the order of insertion.
    order: HolderId,
}

/// A map from `K` to `V` in which every entry belongs to a source `S`.
#[derive(Debug)]
pub struct BoundedTable<K, V, S> {
    caps: Caps,
    entries: HashMap<K, Entry<S, V>>,
    /// All entries, oldest first, with the time of their insertion.
    by_age: BTreeMap<HolderId, (K, Instant)>,
    /// The keys of each source, oldest first.
    sources: Quota<S, K>,
}

impl<K, V, S> BoundedTable<K, V, S>
where
    K: Hash + Eq + Clone,
    S: Hash + Ord + Clone,
{
    /// An empty table. Memory is allocated as entries come.
    #[must_use]
    pub fn new(caps: Caps) -> Self {
        Self {
            caps,
            entries: HashMap::new(),
            by_age: BTreeMap::new(),
            sources: Quota::new(caps.total, caps.per_source),
        }
    }

    /// Adds an entry. The value of a key that is in the table is replaced, and the entry belongs to
    /// the new source.
    pub fn insert(
        &mut self,
        key: K,
        value: V,
        source: S,
        now: Instant,
    ) -> Result<Inserted<K, V>, TableFull> {
        self.expire(now);
        // A key that moves to another source needs room there before it is taken out here.
        let known = self.entries.get(&key).map(|entry| entry.source == source);
        let source_full = self.held_by(&source) >= self.caps.per_source && known != Some(true);
        let table_full = self.entries.len() >= self.caps.total && known.is_none();
        let evicted = match (source_full, table_full) {
            (false, false) => None,
            (true, _) => Some(self.make_room(Some(&source), now)?),
            (false, true) => Some(self.make_room(None, now)?),
        };
        let replaced = self.remove(&key);
        self.put(key, value, source, now);
        Ok(match (replaced, evicted) {
            (Some(old), None) => Inserted::Replaced(old),
            (Some(old), Some(evicted)) => Inserted::Moved { old, evicted },
            (None, Some((key, value))) => Inserted::Evicted(key, value),
            (None, None) => Inserted::New,
        })
    }

    /// The value of a key; `None` if the key is not in the table or its entry is too old.
    pub fn get<Q>(&self, key: &Q, now: Instant) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let entry = self.entries.get(key)?;
        self.is_fresh(entry.order, now).then_some(&entry.value)
    }

    /// The value of a key, mutable; `None` if the key is not in the table or its entry is too old.
    pub fn get_mut<Q>(&mut self, key: &Q, now: Instant) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let order = self.entries.get(key)?.order;
        if !self.is_fresh(order, now) {
            return None;
        }
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Removes an entry and returns its value.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let entry = self.entries.remove(key)?;
        self.by_age.remove(&entry.order);
        self.sources.leave(&entry.source, entry.order);
        Some(entry.value)
    }

    /// Removes all entries that are too old and returns them.
    pub fn expire(&mut self, now: Instant) -> Vec<(K, V)> {
        let mut expired = Vec::new();
        while let Some((order, (key, _))) = self.by_age.first_key_value() {
            if self.is_fresh(*order, now) {
                break;
            }
            let key = key.clone();
            if let Some(value) = self.remove(&key) {
                expired.push((key, value));
            }
        }
        expired
    }

    /// When the oldest entry becomes too old; `None` if no entry does.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let max_age = self.caps.max_age?;
        self.by_age.first_key_value().map(|(_, (_, since))| *since + max_age)
    }

    /// Entries in all. Entries that are too old count until [`expire`](Self::expire) removes them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the table has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries of one source.
    #[must_use]
    pub fn held_by(&self, source: &S) -> usize {
        self.sources.used_by(source)
    }

    fn is_fresh(&self, order: HolderId, now: Instant) -> bool {
        let age = self.age(order, now);
        self.caps.max_age.is_none_or(|most| age.is_none_or(|age| age < most))
    }

    /// Evicts the oldest entry of `source`, or of the source with the most entries if `source` is
    /// `None`.
    fn make_room(&mut self, source: Option<&S>, now: Instant) -> Result<(K, V), TableFull> {
        let refusal = match source {
            Some(_) => TableFull::Source(self.caps.per_source),
            None => TableFull::Total(self.caps.total),
        };
        let min_age = match self.caps.when_full {
            WhenFull::Refuse => return Err(refusal),
            WhenFull::EvictOldest => Duration::ZERO,
            WhenFull::EvictOlderThan(age) => age,
        };
        let source_or_greediest = source.or_else(|| self.sources.greediest_in(None));
        let of_source =
            source_or_greediest.and_then(|it| self.first_of(it)).map(|(order, _)| order);
        // The source with the most entries has none that is old enough: the oldest of all is tried.
        let oldest = self.by_age.keys().next().copied().filter(|_| source.is_none());
        let is_old = |order: &HolderId| self.age(*order, now).is_some_and(|age| age >= min_age);
        let order = of_source.into_iter().chain(oldest).find(is_old).ok_or(refusal)?;
        self.take(order).ok_or(refusal)
    }

    /// The oldest entry.
    #[must_use]
    pub fn oldest(&self) -> Option<(&K, &V)> {
        let (key, _) = self.by_age.values().next()?;
        self.entries.get(key).map(|entry| (key, &entry.value))
    }

    /// Removes the oldest entry and returns it.
    pub fn pop_oldest(&mut self) -> Option<(K, V)> {
        let order = *self.by_age.keys().next()?;
        self.take(order)
    }

    /// The sources that have entries.
    pub fn sources(&self) -> impl Iterator<Item = &S> {
        self.sources.keys()
    }

    /// The oldest entry of a source.
    #[must_use]
    pub fn oldest_of(&self, source: &S) -> Option<(&K, &V)> {
        let (_, key) = self.first_of(source)?;
        self.entries.get(key).map(|entry| (key, &entry.value))
    }

    /// Removes one entry of a source that has at least this age and returns it. `pick` gets the
    /// number of such entries and returns the index of one, counted from the oldest.
    pub fn take_of(
        &mut self,
        source: &S,
        min_age: Duration,
        now: Instant,
        pick: impl FnOnce(usize) -> usize,
    ) -> Option<(K, V)> {
        let is_old = |order: &HolderId| self.age(*order, now).is_some_and(|age| age >= min_age);
        let own = || self.sources.holders_of(source).map(|(order, _)| order).take_while(is_old);
        let order = own().nth(pick(own().count()))?;
        self.take(order)
    }

    fn first_of(&self, source: &S) -> Option<(HolderId, &K)> {
        self.sources.holders_of(source).next()
    }

    fn age(&self, order: HolderId, now: Instant) -> Option<Duration> {
        self.by_age.get(&order).map(|(_, since)| now.saturating_duration_since(*since))
    }

    fn take(&mut self, order: HolderId) -> Option<(K, V)> {
        let (key, _) = self.by_age.get(&order)?.clone();
        let value = self.remove(&key)?;
        Some((key, value))
    }

    fn put(&mut self, key: K, value: V, source: S, now: Instant) {
        let order = self.sources.enter(&source, 1, key.clone());
        self.by_age.insert(order, (key.clone(), now));
        self.entries.insert(key, Entry { value, source, order });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn caps(when_full: WhenFull) -> Caps {
        Caps { total: 4, per_source: 2, max_age: None, when_full }
    }

    #[test]
    fn refuses_over_the_caps() {
        let now = Instant::now();
        let mut table = BoundedTable::new(caps(WhenFull::Refuse));
        assert_eq!(table.insert(1, 'a', "x", now), Ok(Inserted::New));
        assert_eq!(table.insert(2, 'b', "x", now), Ok(Inserted::New));
        assert_eq!(table.insert(3, 'c', "x", now), Err(TableFull::Source(2)));
        assert_eq!(table.insert(2, 'B', "x", now), Ok(Inserted::Replaced('b')));
        table.insert(3, 'c', "y", now).unwrap();
        table.insert(4, 'd', "y", now).unwrap();
        assert_eq!(table.insert(5, 'e', "z", now), Err(TableFull::Total(4)));
        assert_eq!(table.insert(3, 'C', "x", now), Err(TableFull::Source(2)));
        assert_eq!(table.get(&3, now), Some(&'c'));
        assert_eq!((table.remove(&1), table.remove(&2)), (Some('a'), Some('B')));
        assert_eq!(table.held_by(&"x"), 0);
        assert_eq!(table.insert(3, 'C', "x", now), Ok(Inserted::Replaced('c')));
    }

    #[test]
    fn evicts_from_whoever_floods() {
        let now = Instant::now();
        let mut table = BoundedTable::new(Caps { per_source: 3, ..caps(WhenFull::EvictOldest) });
        for key in 0..3 {
            table.insert(key, (), "flood", now).unwrap();
        }
        table.insert(10, (), "calm", now).unwrap();
        assert_eq!(table.insert(11, (), "calm", now), Ok(Inserted::Evicted(0, ())));
        assert_eq!(table.insert(12, (), "other", now), Ok(Inserted::Evicted(1, ())));
        assert_eq!((table.len(), table.held_by(&"calm")), (4, 2));
    }

    #[test]
    fn a_key_that_moves_to_a_full_source_evicts_another() {
        let now = Instant::now();
        let mut table = BoundedTable::new(caps(WhenFull::EvictOldest));
        for (key, value, source) in [(1, 'a', "x"), (2, 'b', "x"), (3, 'c', "y")] {
            table.insert(key, value, source, now).unwrap();
        }
        let moved = table.insert(3, 'C', "x", now);
        assert_eq!(moved, Ok(Inserted::Moved { old: 'c', evicted: (1, 'a') }));
        assert_eq!((table.len(), table.held_by(&"x"), table.held_by(&"y")), (2, 2, 0));
    }

    #[test]
    fn a_rush_does_not_displace_what_is_young() {
        let start = Instant::now();
        let when_full = WhenFull::EvictOlderThan(Duration::from_secs(1));
        let mut table = BoundedTable::new(Caps { per_source: 3, ..caps(when_full) });
        for key in 0..3 {
            table.insert(key, (), "flood", start).unwrap();
        }
        let soon = start + Duration::from_millis(900);
        table.insert(3, (), "calm", soon).unwrap();
        assert_eq!(table.insert(4, (), "flood", soon), Err(TableFull::Source(3)));
        assert_eq!(table.insert(4, (), "other", soon), Err(TableFull::Total(4)));
        let later = start + Duration::from_secs(1);
        assert_eq!(table.insert(4, (), "other", later), Ok(Inserted::Evicted(0, ())));
        // Keys 1 and 2 of the flood, then 3 and 4. The flood gets younger than the others.
        table.insert(1, (), "flood", later + Duration::from_millis(600)).unwrap();
        table.insert(2, (), "flood", later + Duration::from_millis(600)).unwrap();
        let at = later + Duration::from_millis(1000);
        assert_eq!(table.insert(6, (), "late", at), Ok(Inserted::Evicted(3, ())));
        assert_eq!(table.pop_oldest(), Some((4, ())));
    }

    #[test]
    fn old_entries_are_gone() {
        let start = Instant::now();
        let max_age = Some(Duration::from_secs(10));
        let mut table = BoundedTable::new(Caps { max_age, ..caps(WhenFull::Refuse) });
        table.insert(1, 'a', (), start).unwrap();
        table.insert(2, 'b', (), start + Duration::from_secs(5)).unwrap();
        assert_eq!(table.deadline(), Some(start + Duration::from_secs(10)));
        let now = start + Duration::from_secs(10);
        assert_eq!(table.get(&1, now), None);
        assert_eq!(table.get_mut(&2, now), Some(&mut 'b'));
        assert_eq!(table.insert(3, 'c', (), now), Ok(Inserted::New), "the old one left its place");
        assert_eq!(table.expire(now + Duration::from_secs(60)).len(), 2);
        assert!(table.is_empty());
    }

    #[test]
    fn no_room_at_all_refuses() {
        let now = Instant::now();
        for when_full in [WhenFull::Refuse, WhenFull::EvictOldest] {
            let none = Caps { total: 0, per_source: 0, max_age: None, when_full };
            let mut table = BoundedTable::new(none);
            assert!(table.insert(1, (), (), now).is_err());
        }
    }

    #[test]
    fn one_of_a_source_that_is_old_enough_is_taken_out() {
        let mut table = BoundedTable::new(Caps { per_source: 4, ..caps(WhenFull::Refuse) });
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        for (at, source) in [(0, "x"), (1, "y"), (2, "x"), (3, "x")] {
            table.insert(at, at, source, after(at)).unwrap();
        }
        let age = Duration::from_secs(2);
        assert_eq!(table.oldest_of(&"x"), Some((&0, &0)));
        assert_eq!(
            table.take_of(&"x", age, after(4), |of| of - 1),
            Some((2, 2)),
            "0 and 2 are old"
        );
        assert_eq!(table.take_of(&"x", age, after(1), |of| of), None);
        assert_eq!(table.take_of(&"z", age, after(9), |_| 0), None);
        assert_eq!(table.take_of(&"x", age, after(9), |of| of), None, "no such one");
        assert_eq!(table.sources().count(), 2);
        assert_eq!(table.take_of(&"y", age, after(3), |_| 0), Some((1, 1)));
        assert_eq!(table.sources().collect::<Vec<_>>(), [&"x"]);
    }

    proptest! {
        #[test]
        fn caps_hold_and_indexes_agree(
            evict in any::<bool>(),
            ops in prop::collection::vec((0u8..5, 0u8..20, 0u8..4, 0u64..400), 1..300),
        ) {
            let when_full = if evict { WhenFull::EvictOldest } else { WhenFull::Refuse };
            let max_age = Some(Duration::from_secs(3));
            let mut table = BoundedTable::new(Caps { total: 8, per_source: 3, max_age, when_full });
            let mut now = Instant::now();
            for (op, key, source, ms) in ops {
                now += Duration::from_millis(ms);
                match op {
                    0..=2 => {
                        let done = table.insert(key, source, source, now).is_ok();
                        prop_assert!(done || !evict);
                        prop_assert!(!done || table.get(&key, now) == Some(&source));
                    }
                    _ => { table.remove(&key); }
                }
                prop_assert!(table.len() <= 8);
                prop_assert_eq!(table.len(), table.by_age.len());
                let held: Vec<usize> = (0..4).map(|s| table.held_by(&s)).collect();
                prop_assert!(held.iter().all(|n| *n <= 3));
                prop_assert_eq!(held.iter().sum::<usize>(), table.len());
            }
        }
    }
}
