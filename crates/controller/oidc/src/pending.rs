//! A table of what strangers begin, with places in all, a share of them for each source, and an end for each entry.
//!
//! An entry takes a place for each KiB, at least one. When a share is full, the oldest entries of its source go, those first
//! behind which nobody has shown a factor yet; when the table is full, those of the source that holds most. So a flood displaces itself first. The owner of a network of
//! IPv6 has as many sources as he likes: the networks around a source have shares, too ([`Network::shares`]), and of a
//! network that holds most, the part that holds most gives way. Every operation takes time that grows with the logarithm
//! of the table only, and removal by time touches what is removed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use hashbrown::HashMap;
use weft_limits::{Full, HolderId, Network, Quota};

/// The key of an entry: the hash of its secret.
pub(crate) type Key = [u8; 32];

/// Bytes of a place.
const PLACE: usize = 1024;

/// The places that a number of bytes takes.
pub(crate) fn places(bytes: usize) -> usize {
    bytes.div_ceil(PLACE).max(1)
}

#[derive(Debug)]
struct PendingEntry<V> {
    value: V,
    source: IpAddr,
    /// None: until it is taken out.
    end: Option<Instant>,
    /// Whether somebody has shown a factor, and the position in the order of insertion.
    id: HolderId,
}

impl<V> PendingEntry<V> {
    fn is_good(&self, now: Instant) -> bool {
        self.end.is_none_or(|end| now < end)
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct PendingTable<V> {
    per_source: usize,
    /// The places of the entries, by network.
    quota: Quota<Network, Key>,
    entries: HashMap<Key, PendingEntry<V>>,
    by_end: BTreeMap<(Instant, HolderId), Key>,
}

impl<V> PendingTable<V> {
    /// An empty table with this many places in all, and for each source.
    pub(crate) fn new(total: usize, per_source: usize) -> Self {
        let per_source = per_source.min(total);
        let quota = Quota::of_networks(total, per_source);
        Self { per_source, quota, entries: HashMap::new(), by_end: BTreeMap::new() }
    }

    /// Adds an entry until `end`, or until it is taken out; gives what went for it. `is_proven`: somebody has shown a factor.
    pub(crate) fn insert(
        &mut self,
        key: Key,
        value: V,
        (source, is_proven): (IpAddr, bool),
        bytes: usize,
        end: Option<Instant>,
    ) -> Vec<V> {
        let places = places(bytes).min(self.per_source);
        let network = Network::of(source);
        let mut gone: Vec<V> = self.remove(&key).into_iter().collect();
        while let Err(full) = self.quota.check(&network, places) {
            // The oldest entry of the source that holds most, in the network that is full or in all.
            let within = if let Full::Key(network) = &full { Some(network) } else { None };
            let greediest = self.quota.greediest_in(within);
            let oldest = greediest.and_then(|it| self.quota.holders_of(it).next());
            let Some(oldest) = oldest.map(|(_, key)| *key) else { break };
            gone.extend(self.remove(&oldest));
        }
        let id = self.quota.enter_as(is_proven, &network, places, key);
        self.by_end.extend(end.map(|end| ((end, id), key)));
        self.entries.insert(key, PendingEntry { value, source, end, id });
        gone
    }

    /// Changes the size of an entry, and whether somebody has shown a factor. Others go if there is no room, and it is itself
    /// the last that goes.
    pub(crate) fn update(&mut self, key: &Key, bytes: usize, is_proven: bool) -> Vec<V> {
        let new = places(bytes).min(self.per_source);
        let Some(entry) = self.entries.get(key) else { return Vec::new() };
        let places = self.quota.places_of(&Network::of(entry.source), entry.id);
        if (new, is_proven) == (places, entry.id.is_proven()) {
            return Vec::new();
        }
        // It becomes the youngest, so that it does not make room for itself.
        match self.take(key) {
            Some(PendingEntry { value, source, end, .. }) => {
                self.insert(*key, value, (source, is_proven), bytes, end)
            }
            None => Vec::new(),
        }
    }

    /// The entry of a key, if its end is not reached.
    pub(crate) fn get(&self, key: &Key, now: Instant) -> Option<&V> {
        self.entries.get(key).filter(|entry| entry.is_good(now)).map(|entry| &entry.value)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, key: &Key, now: Instant) -> Option<&mut V> {
        self.entries.get_mut(key).filter(|entry| entry.is_good(now)).map(|entry| &mut entry.value)
    }

    /// The source of an entry.
    pub(crate) fn source(&self, key: &Key) -> Option<IpAddr> {
        self.entries.get(key).map(|entry| entry.source)
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<V> {
        self.take(key).map(|entry| entry.value)
    }

    /// Takes out all whose end is reached.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<V> {
        let mut gone = Vec::new();
        while let Some((&(end, _), &key)) = self.by_end.first_key_value()
            && end <= now
        {
            gone.extend(self.remove(&key));
        }
        gone
    }

    /// Entries in all.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Places taken in all.
    pub(crate) fn used(&self) -> usize {
        self.quota.used()
    }

    fn take(&mut self, key: &Key) -> Option<PendingEntry<V>> {
        let entry = self.entries.remove(key)?;
        if let Some(end) = entry.end {
            self.by_end.remove(&(end, entry.id));
        }
        self.quota.leave(&Network::of(entry.source), entry.id);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use weft_limits::networks_of;

    use super::*;

    fn key(number: u8) -> Key {
        [number; 32]
    }

    fn source(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    /// A source of IPv6: two in each /56, and four in each /48.
    fn network(number: u16) -> IpAddr {
        [0x2001, 0xdb8, number / 4, number % 2 + (number % 4 / 2) * 0x100, 0, 0, 0, 1].into()
    }

    #[test]
    fn the_oldest_of_the_greediest_goes_first() {
        let end = Some(Instant::now() + Duration::from_secs(60));
        let mut table = PendingTable::new(6, 3);
        for number in 0..3 {
            assert!(table.insert(key(number), number, (source(1), false), 1, end).is_empty());
        }
        assert_eq!(table.insert(key(3), 3, (source(1), false), 1, end), [0], "its share is full");
        table.insert(key(4), 4, (source(2), false), 1, end);
        table.insert(key(5), 5, (source(2), false), 1, end);
        table.insert(key(6), 6, (source(3), false), 1, end);
        assert_eq!(table.insert(key(7), 7, (source(4), false), 1, end), [1], "the table is full");
        assert_eq!(
            table.insert(key(8), 8, (source(4), false), 1, end),
            [2],
            "among equals the oldest"
        );
        assert_eq!(table.insert(key(9), 9, (source(5), false), 2048, end), [4, 7]);
        assert_eq!((table.len(), table.used()), (5, 6));
    }

    #[test]
    fn nobody_without_a_factor_displaces_who_has_shown_one() {
        let mut table = PendingTable::new(100, 8);
        for number in 0..6 {
            table.insert(key(number), number, (source(1), number < 3), 1, None);
        }
        // One shows a factor later.
        assert!(table.update(&key(5), 1, true).is_empty());
        for number in 10..200 {
            table.insert(key(number), number, (source(1), false), 1, None);
        }
        assert_eq!(
            (table.used(), [0, 1, 2, 5].map(|it| table.entries.contains_key(&key(it)))),
            (8, [true; 4])
        );
        // Those with a factor displace each other when there is nobody else.
        for number in 200..205 {
            table.insert(key(number), number, (source(1), true), 1, None);
        }
        assert_eq!((table.used(), table.entries.contains_key(&key(0))), (8, false));
        assert!(table.entries.contains_key(&key(5)));
    }

    #[test]
    fn entries_end() {
        let start = Instant::now();
        let after = |secs| start + Duration::from_secs(secs);
        let mut table = PendingTable::new(9, 9);
        for (number, secs) in [(1, 60), (2, 10), (3, 30)] {
            table.insert(key(number), number, (source(1), false), 1, Some(after(secs)));
        }
        table.insert(key(4), 4, (source(2), false), 1, None);
        assert_eq!(table.get(&key(2), after(9)), Some(&2));
        assert_eq!(table.get(&key(2), after(10)), None);
        assert_eq!(table.expire(after(31)), [2, 3]);
        assert_eq!(table.get_mut(&key(1), after(31)), Some(&mut 1));
        assert_eq!((table.len(), table.used()), (2, 2));
        assert_eq!(table.get(&key(4), after(1_000_000)), Some(&4), "one without an end stays");
    }

    #[test]
    fn the_owner_of_a_large_network_of_ipv6_crowds_nobody_out() {
        let end = Some(Instant::now() + Duration::from_secs(60));
        let mut table = PendingTable::new(64, 8);
        let own = |number: u16| {
            let mut key = [0xff; 32];
            key[..2].copy_from_slice(&number.to_be_bytes());
            key
        };
        let of = |number: u16| [0x2001, 0xdb8, 7, number, 0, 0, 0, 1].into();
        let modest: Vec<u8> = (200..240).collect();
        for number in &modest {
            table.insert(key(*number), u16::from(*number), (source(*number), false), 1, end);
        }
        // A new source each time.
        for number in 0..1000 {
            table.insert(own(number), number, (of(number), false), 1, end);
        }
        assert_eq!(table.len(), 40 + 24, "three shares");
        assert!(modest.iter().all(|number| table.entries.contains_key(&key(*number))));
        table.insert(key(250), 250, (of(0x1000), false), 1, end);
        table.insert(key(251), 251, (source(1), false), 1, end);
        assert!([250, 251].iter().all(|number| table.entries.contains_key(&key(*number))));
        let mut table = PendingTable::new(64, 8);
        for number in 0..199 {
            table.insert(own(number), number, (of(number), false), 1, end);
        }
        assert_eq!(table.len(), 16, "a /56 has two shares");
    }

    #[test]
    fn an_entry_that_grows_displaces_older_ones() {
        let end = Some(Instant::now() + Duration::from_secs(60));
        let mut table = PendingTable::new(9, 3);
        for number in 0..3 {
            table.insert(key(number), number, (source(1), false), 1, end);
        }
        assert_eq!(table.update(&key(0), 2048, false), [1]);
        assert_eq!(table.update(&key(0), 1 << 20, false), [2], "it never takes more than a share");
        assert_eq!((table.len(), table.used()), (1, 3));
        assert!(table.update(&key(0), 1, false).is_empty() && table.used() == 1);
    }

    proptest! {
        /// After any steps, the table holds what it says, within its limits.
        #[test]
        fn the_books_are_right(steps in prop::collection::vec((0u8..5, any::<u8>(), 0u8..6, 1usize..5000), 0..200)) {
            let start = Instant::now();
            let mut now = start;
            let mut table = PendingTable::new(16, 8);
            for (step, number, from, bytes) in steps {
                match step {
                    0 => drop(table.remove(&key(number))),
                    1 => {
                        now += Duration::from_secs(1);
                        table.expire(now);
                    }
                    2 => drop(table.update(&key(number), bytes, from > 2)),
                    _ => {
                        let end = Some(now + Duration::from_secs(u64::from(number % 7)));
                        let from = if from < 3 { source(from) } else { network(u16::from(from) + u16::from(number % 3)) };
                        table.insert(key(number), number, (from, number % 2 == 0), bytes, end);
                        prop_assert!(table.entries.contains_key(&key(number)));
                    }
                }
                prop_assert!(table.used() <= 16);
                prop_assert_eq!(table.by_end.len(), table.entries.len());
                let of = |network| table.entries.values().filter(move |it| networks_of(it.source).any(|of| of == network));
                for network in table.entries.values().flat_map(|entry| networks_of(entry.source)) {
                    let places = of(network).map(|it| table.quota.places_of(&Network::of(it.source), it.id));
                    prop_assert_eq!(places.sum::<usize>(), table.quota.used_by(&network));
                    prop_assert!(table.quota.used_by(&network) <= (8 * network.shares()).min(16));
                }
                prop_assert_eq!(table.quota.is_empty(), table.entries.is_empty());
            }
        }
    }
}
