//! A quota: a number of places that many keys share. Each key (a source of addresses, an identity) has a limit of its
//! own, so that none of them takes all places.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

use hashbrown::HashMap;

/// Places that keys share.
///
/// Places are either only counted ([`hold`](Self::hold), [`free`](Self::free)), or they belong to a holder, which can
/// be [displaced](Self::displace) when a key needs a place and none is free. Keys may lie in wider keys, as addresses
/// lie in networks ([`nested`](Self::nested)): a place counts for all of them.
///
/// Every operation takes time that grows with the logarithm of the number of keys and holders. The choice of a holder
/// that is displaced looks at the holders of the keys that hold most, until one of them has a holder that may be.
#[derive(Debug)]
pub struct Quota<K, H = ()> {
    total: usize,
    each: usize,
    wider: fn(&K) -> Option<K>,
    room: KeyLimit<K>,
    used: usize,
    by_key: HashMap<K, Share<K, H>>,
    /// The keys with holders that lie in no wider key.
    ranks: BTreeSet<Rank<K>>,
    next: u64,
}

/// How many places a key may have: of the key, the number that the narrowest key in it may have, and the number that this
/// one has.
pub type KeyLimit<K> = fn(&K, usize, usize) -> usize;

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full<K> {
    /// This key has all places that it may have.
    #[error("one source has all places that it may have")]
    Key(K),
    /// All places are taken.
    #[error("all places are taken")]
    Total,
}

/// The number of a holder. Holders that nobody vouches for come first, and of those the ones that came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId {
    is_proven: bool,
    order: u64,
}

impl HolderId {
    /// Whether somebody vouches for the holder.
    #[must_use]
    pub fn is_proven(self) -> bool {
        self.is_proven
    }
}

/// A holder, and the number of its places.
#[derive(Debug, PartialEq, Eq)]
pub struct Held<H> {
    /// The number of its places.
    pub places: usize,
    /// The holder.
    pub holder: H,
}

/// The holders among which one is displaced.
#[derive(Debug, Clone, Copy)]
pub enum Among<'a, K> {
    /// The holders of this key.
    Key(&'a K),
    /// The holders of the keys with most places, if these are at least so many.
    Greediest(usize),
}

/// The order of keys: those with more places are greater, and among equals those that have held places for longer.
type Rank<K> = (usize, Reverse<u64>, K);

type Holders<H> = BTreeMap<HolderId, Held<H>>;

/// What a key holds.
#[derive(Debug)]
struct Share<K, H> {
    used: usize,
    since: u64,
    holders: Holders<H>,
    /// The keys with holders that lie in this one.
    parts: BTreeSet<Rank<K>>,
}

/// The former and the present rank of a key.
struct Moved<K>(Option<Rank<K>>, Option<Rank<K>>);

impl<K: Hash + Ord + Clone, H> Quota<K, H> {
    /// A quota of so many places, of which each key has at most `each`.
    #[must_use]
    pub fn new(total: usize, each: usize) -> Self {
        Self::nested(total, each, |_| None, |_, each, _| each)
    }

    /// A quota whose keys lie in wider ones. `room` tells how many places each of these may have.
    #[must_use]
    pub fn nested(
        total: usize,
        each: usize,
        wider: fn(&K) -> Option<K>,
        room: KeyLimit<K>,
    ) -> Self {
        let (by_key, ranks) = (HashMap::new(), BTreeSet::new());
        Self { total, each, wider, room, used: 0, by_key, ranks, next: 0 }
    }

    /// Whether a key may have so many more places.
    pub fn check(&self, key: &K, places: usize) -> Result<(), Full<K>> {
        self.check_with(key, places, self.each)
    }

    /// Whether a key that may have `each` places in all may have so many more.
    pub fn check_with(&self, key: &K, places: usize, each: usize) -> Result<(), Full<K>> {
        let (mut at, own) = (Some(key.clone()), self.used_by(key));
        while let Some(key) = at {
            let most = (self.room)(&key, each, own);
            if most.saturating_sub(self.used_by(&key)) < places {
                return Err(Full::Key(key));
            }
            at = (self.wider)(&key);
        }
        if self.total.saturating_sub(self.used) < places { Err(Full::Total) } else { Ok(()) }
    }

    /// Counts places of a key, whether or not it may have them.
    pub fn hold(&mut self, key: &K, places: usize) {
        self.change(key, |used| used.saturating_add(places), |_| ());
    }

    /// Takes back places of a key that were only counted.
    pub fn free(&mut self, key: &K, places: usize) {
        self.change(key, |used| used.saturating_sub(places), |_| ());
    }

    /// Adds a holder of places of a key, whether or not the key may have them.
    pub fn enter(&mut self, key: &K, places: usize, holder: H) -> HolderId {
        self.enter_as(false, key, places, holder)
    }

    /// The same. Holders that are proven come behind all others.
    pub fn enter_as(&mut self, is_proven: bool, key: &K, places: usize, holder: H) -> HolderId {
        let id = HolderId { is_proven, order: self.number() };
        let held = Held { places, holder };
        self.change(key, |used| used.saturating_add(places), |holders| holders.insert(id, held));
        id
    }

    /// Adds places to those of a holder, whether or not its key may have them. False if there is no such holder.
    pub fn grow(&mut self, key: &K, id: HolderId, places: usize) -> bool {
        let Some(held) = self.held_mut(key, id) else { return false };
        held.places = held.places.saturating_add(places);
        self.hold(key, places);
        true
    }

    /// Removes a holder, and takes its places back.
    pub fn leave(&mut self, key: &K, id: HolderId) -> Option<Held<H>> {
        let places = self.held_mut(key, id)?.places;
        self.change(key, |used| used.saturating_sub(places), |holders| holders.remove(&id))
    }

    /// The places of a holder of a key.
    #[must_use]
    pub fn places_of(&self, key: &K, id: HolderId) -> usize {
        self.by_key.get(key).and_then(|share| share.holders.get(&id)).map_or(0, |held| held.places)
    }

    /// A holder of a key.
    pub fn holder_mut(&mut self, key: &K, id: HolderId) -> Option<&mut H> {
        self.held_mut(key, id).map(|held| &mut held.holder)
    }

    /// Removes the holder of the least rank and takes its places back. Holders without a rank keep theirs. For keys that
    /// lie in wider ones, [`greediest_in`](Self::greediest_in) finds the key whose holder goes.
    pub fn displace<R: Ord>(
        &mut self,
        among: Among<'_, K>,
        rank: impl Fn(HolderId, &Held<H>) -> Option<R>,
    ) -> Option<(K, Held<H>)> {
        let least_of = |key: &K| {
            let holders = self.by_key.get(key)?.holders.iter();
            holders.filter_map(|(id, held)| Some((rank(*id, held)?, *id))).min()
        };
        let (key, id) = match among {
            Among::Key(key) => (key.clone(), least_of(key)?.1),
            Among::Greediest(least) => {
                let mut found: Option<(usize, R, &K, HolderId)> = None;
                for (used, key) in self.greediest().take_while(|(used, _)| *used >= least) {
                    if found.as_ref().is_some_and(|(most, ..)| *most > used) {
                        break;
                    }
                    if let Some((rank, id)) = least_of(key)
                        && found.as_ref().is_none_or(|(_, best, ..)| rank < *best)
                    {
                        found = Some((used, rank, key, id));
                    }
                }
                let (.., key, id) = found?;
                (key.clone(), id)
            }
        };
        let held = self.leave(&key, id)?;
        Some((key, held))
    }

    /// The keys with holders that lie in no wider one, and the numbers of their places, those with most first.
    pub fn greediest(&self) -> impl Iterator<Item = (usize, &K)> {
        self.ranks.iter().rev().map(|(used, _, key)| (*used, key))
    }

    /// The narrowest key with most places in a key, or in all: that of the wider ones with most, and so on.
    #[must_use]
    pub fn greediest_in<'a>(&'a self, within: Option<&'a K>) -> Option<&'a K> {
        let (mut key, mut parts) = match within {
            Some(key) => (Some(key), &self.by_key.get(key)?.parts),
            None => (None, &self.ranks),
        };
        while let Some((.., part)) = parts.last() {
            (key, parts) = (Some(part), &self.by_key.get(part)?.parts);
        }
        key
    }

    /// The holders of a key, in the order of their numbers.
    pub fn holders_of(&self, key: &K) -> impl Iterator<Item = (HolderId, &H)> {
        let holders = self.by_key.get(key).into_iter().flat_map(|share| &share.holders);
        holders.map(|(id, held)| (*id, &held.holder))
    }

    /// The keys that hold places, wider ones included.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.by_key.keys()
    }

    /// Places that are taken in all.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Places that are free.
    #[must_use]
    pub fn free_places(&self) -> usize {
        self.total.saturating_sub(self.used)
    }

    /// Places of a key.
    #[must_use]
    pub fn used_by(&self, key: &K) -> usize {
        self.by_key.get(key).map_or(0, |share| share.used)
    }

    /// Whether no key holds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn held_mut(&mut self, key: &K, id: HolderId) -> Option<&mut Held<H>> {
        self.by_key.get_mut(key)?.holders.get_mut(&id)
    }

    /// Changes the counts of a key and of the wider ones around it, the holders of the key, and the ranks.
    fn change<R>(
        &mut self,
        key: &K,
        count: impl Fn(usize) -> usize,
        holders: impl FnOnce(&mut Holders<H>) -> R,
    ) -> R {
        self.used = count(self.used);
        let (mut moved, result) = self.update(key, |share| {
            share.used = count(share.used);
            holders(&mut share.holders)
        });
        let mut around = (self.wider)(key);
        while let Some(wider) = around {
            (moved, ()) = self.update(&wider, |share| {
                share.used = count(share.used);
                moved.apply(&mut share.parts);
            });
            around = (self.wider)(&wider);
        }
        moved.apply(&mut self.ranks);
        result
    }

    fn update<R>(&mut self, key: &K, change: impl FnOnce(&mut Share<K, H>) -> R) -> (Moved<K>, R) {
        let since = self.number();
        let share = self.by_key.entry(key.clone()).or_insert_with(|| Share::new(since));
        let before = share.rank(key);
        let result = change(share);
        let after = share.rank(key);
        if share.used == 0 && after.is_none() {
            self.by_key.remove(key);
        }
        (Moved(before, after), result)
    }
}

impl<K: Ord + Clone, H> Share<K, H> {
    fn new(since: u64) -> Self {
        Self { used: 0, since, holders: BTreeMap::new(), parts: BTreeSet::new() }
    }

    /// The rank of the key; none if nobody in it can be displaced.
    fn rank(&self, key: &K) -> Option<Rank<K>> {
        let has_holders = !(self.holders.is_empty() && self.parts.is_empty());
        has_holders.then(|| (self.used, Reverse(self.since), key.clone()))
    }
}

impl<K: Ord> Moved<K> {
    fn apply(self, ranks: &mut BTreeSet<Rank<K>>) {
        let Self(before, after) = self;
        if before != after {
            if let Some(before) = before {
                ranks.remove(&before);
            }
            ranks.extend(after);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two numbers lie in each number of the tens, and these in nothing.
    fn nested(total: usize, each: usize) -> Quota<u8, u32> {
        Quota::nested(
            total,
            each,
            |key| (*key < 100).then_some(100 + key / 2),
            |key, each, _| each * (1 + usize::from(*key / 100)),
        )
    }

    #[test]
    fn nobody_takes_all_places_and_they_come_back() {
        let mut quota: Quota<&str> = Quota::new(3, 2);
        let take = |quota: &mut Quota<_>, key| {
            quota.check(&key, 1)?;
            quota.hold(&key, 1);
            Ok(())
        };
        assert_eq!((take(&mut quota, "a"), take(&mut quota, "a")), (Ok(()), Ok(())));
        assert_eq!(take(&mut quota, "a"), Err(Full::Key("a")));
        assert_eq!(
            (quota.check_with(&"a", 1, 3), quota.check_with(&"a", 2, 9)),
            (Ok(()), Err(Full::Total))
        );
        assert_eq!((take(&mut quota, "b"), take(&mut quota, "c")), (Ok(()), Err(Full::Total)));
        quota.free(&"a", 1);
        assert_eq!((take(&mut quota, "c"), quota.free_places()), (Ok(()), 0));
        ["a", "b", "c"].iter().for_each(|key| quota.free(key, 1));
        assert!(quota.is_empty() && quota.used() == 0);
    }

    #[test]
    fn places_count_in_the_keys_around() {
        let mut quota = nested(100, 2);
        quota.enter(&1, 2, 0);
        assert_eq!(quota.check(&1, 1), Err(Full::Key(1)));
        quota.enter(&0, 2, 0);
        assert_eq!((quota.used_by(&100), quota.used()), (4, 4));
        assert_eq!(quota.check_with(&0, 1, 3), Ok(()));
        quota.enter(&0, 2, 0);
        quota.enter(&7, 1, 0);
        assert_eq!(quota.check_with(&1, 1, 3), Err(Full::Key(100)));
        assert_eq!(
            (quota.greediest_in(None), quota.greediest_in(Some(&103))),
            (Some(&0), Some(&7))
        );
        assert_eq!(quota.greediest().collect::<Vec<_>>(), [(6, &100), (1, &103)]);
    }

    #[test]
    fn the_holder_of_least_rank_of_the_greediest_key_is_displaced() {
        let mut quota: Quota<char, u32> = Quota::new(9, 9);
        for (key, rank) in [('a', 5), ('a', 3), ('b', 1), ('b', 9), ('c', 0)] {
            quota.enter(&key, 1, rank);
        }
        let least = |_: HolderId, held: &Held<u32>| (held.holder > 1).then_some(held.holder);
        let held = |holder| Held { places: 1, holder };
        assert_eq!(quota.displace(Among::Greediest(3), least), None, "nobody has three");
        assert_eq!(quota.displace(Among::Key(&'c'), least), None, "it stays");
        assert_eq!(
            quota.displace(Among::Greediest(0), least),
            Some(('a', held(3))),
            "of equals the least"
        );
        assert_eq!(quota.displace(Among::Greediest(0), least), Some(('b', held(9))));
        assert_eq!(
            quota.displace(Among::Greediest(0), least),
            Some(('a', held(5))),
            "others may not go"
        );
        assert_eq!(quota.displace(Among::Greediest(0), least), None);
        assert_eq!(quota.used(), 2);
    }

    #[test]
    fn who_is_proven_comes_behind_the_others_and_places_grow() {
        let mut quota: Quota<char, u32> = Quota::new(9, 9);
        let proven = quota.enter_as(true, &'a', 1, 1);
        let other = quota.enter(&'a', 1, 2);
        assert_eq!(quota.holders_of(&'a').next(), Some((other, &2)));
        assert!(quota.grow(&'a', proven, 4) && quota.used_by(&'a') == 6);
        *quota.holder_mut(&'a', proven).unwrap() = 7;
        assert_eq!(quota.leave(&'a', proven), Some(Held { places: 5, holder: 7 }));
        assert!(!quota.grow(&'a', proven, 1) && quota.leave(&'a', proven).is_none());
        assert_eq!(quota.used(), 1);
    }

    proptest! {
        /// After any steps the counts and the ranks are those of a list of all holders.
        #[test]
        fn the_books_are_right(steps in prop::collection::vec((0u8..6, 0u8..8, 0usize..4, any::<u8>()), 0..200)) {
            let mut quota = nested(20, 4);
            let mut all: Vec<(u8, usize, Option<HolderId>)> = Vec::new();
            for (step, key, places, pick) in steps {
                let at = (!all.is_empty()).then(|| usize::from(pick) % all.len().max(1));
                match (step, at) {
                    (0, Some(at)) => {
                        let (key, places, id) = all.swap_remove(at);
                        match id {
                            Some(id) => prop_assert_eq!(quota.leave(&key, id).unwrap().places, places),
                            None => quota.free(&key, places),
                        }
                    }
                    (1, Some(at)) => {
                        if let (key, held, Some(id)) = &mut all[at] && quota.check(key, places).is_ok() {
                            prop_assert!(quota.grow(key, *id, places));
                            *held += places;
                        }
                    }
                    (2, _) => {
                        if let Some((key, held)) = quota.displace(Among::Greediest(0), |id, _| Some(id)) {
                            let at = all.iter().position(|it| it.0 == key && it.1 == held.places && it.2.is_some());
                            all.swap_remove(at.unwrap());
                        }
                    }
                    (3, _) if quota.check(&key, places).is_ok() => {
                        quota.hold(&key, places);
                        all.push((key, places, None));
                    }
                    _ if quota.check(&key, places).is_ok() => {
                        let id = quota.enter_as(pick % 2 == 0, &key, places, 0);
                        all.push((key, places, Some(id)));
                    }
                    _ => {}
                }
                let of = |within: u8| all.iter().filter(move |it| it.0 == within || 100 + it.0 / 2 == within);
                let used = |it: &mut dyn Iterator<Item = &(u8, usize, Option<HolderId>)>| it.map(|it| it.1).sum::<usize>();
                prop_assert_eq!(used(&mut all.iter()), quota.used());
                prop_assert!(quota.used() <= 20);
                for key in (0..8).chain(100..104) {
                    prop_assert_eq!(used(&mut of(key)), quota.used_by(&key));
                    let most = if key < 100 { 4 } else { 8 };
                    prop_assert!(quota.used_by(&key) <= most);
                    let has_holders = of(key).any(|it| it.2.is_some());
                    let share = quota.by_key.get(&key);
                    prop_assert_eq!(share.and_then(|it| it.rank(&key)).is_some(), has_holders);
                    let ranks = if key < 100 { quota.by_key.get(&(100 + key / 2)).map(|it| &it.parts) } else { Some(&quota.ranks) };
                    let is_ranked = ranks.is_some_and(|ranks| ranks.iter().any(|it| it.2 == key && it.0 == quota.used_by(&key)));
                    prop_assert_eq!(is_ranked, has_holders);
                }
            }
        }
    }
}
