//! Ordinals in the order of a key of their entities.
//!
//! An entry is the *head* of the key, its first eight bytes as a number, and the ordinal. Entries
//! with the same head are ordered by the whole keys, which are read from the entities: the index
//! holds no text and takes twelve bytes per entry.
//!
//! Entries are in chunks. A clone shares all chunks; a change copies the chunk that it touches,
//! once per clone. The rank of an entry is the sum of the lengths of the chunks before it, so that
//! a page deep in a list needs no walk.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use imbl::Vector;

/// Most entries of a chunk. Fewer in tests, so that small tables have many chunks.
const CHUNK: usize = if cfg!(test) { 16 } else { 256 };
/// Entries by which a chunk's capacity grows.
const ROOM: usize = CHUNK / 8;

#[derive(Debug, Clone)]
struct Chunk {
    heads: Vec<u64>,
    ordinals: Vec<u32>,
}

/// A chunk, with the values that the search for a chunk reads.
#[derive(Debug, Clone)]
struct Slot {
    /// Head of the first entry.
    first: u64,
    len: u32,
    chunk: Arc<Chunk>,
}

/// Ordinals in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranked {
    slots: Vector<Slot>,
    len: usize,
}

/// Order of an ordinal's entity to the wanted key. Only asked about entries with the same head.
pub(crate) type Compare<'c> = &'c dyn Fn(u32) -> Ordering;

/// A position in the list of chunks.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    slot: usize,
    at: usize,
}

/// The head of a text.
pub(crate) fn head(text: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(text) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}

/// A longer head of a text, whose upper half is the head.
pub(crate) fn wide_head(text: &[u8]) -> u128 {
    let low = text.get(8..).unwrap_or_default();
    u128::from(head(text)) << 64 | u128::from(head(low))
}

impl Ranked {
    /// Sorts ordinals by keys, which begin with the heads; `compare` orders those with the same
    /// key. `None` if two are equal.
    pub(crate) fn sorted(
        mut entries: Vec<(u128, u32)>,
        compare: impl Fn(u32, u32) -> Ordering,
    ) -> Option<Self> {
        let order = |(a, one): &(u128, u32), (b, other): &(u128, u32)| {
            a.cmp(b).then_with(|| compare(*one, *other))
        };
        entries.sort_unstable_by(order);
        if entries.windows(2).any(|pair| order(&pair[0], &pair[1]).is_eq()) {
            return None;
        }
        let slots = entries.chunks(CHUNK).map(|entries| {
            let heads: Vec<u64> = entries.iter().map(|(key, _)| (key >> 64) as u64).collect();
            let ordinals = entries.iter().map(|(_, ordinal)| *ordinal).collect();
            let first = heads.first().copied().unwrap_or_default();
            Slot { first, len: entries.len() as u32, chunk: Arc::new(Chunk { heads, ordinals }) }
        });
        Some(Self { slots: slots.collect(), len: entries.len() })
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The ordinal with exactly this key.
    pub(crate) fn find(&self, head: u64, compare: Compare<'_>) -> Option<u32> {
        let (cursor, found) = self.locate(head, compare);
        if found { self.at(cursor) } else { None }
    }

    /// Number of entries with smaller keys.
    pub(crate) fn rank(&self, head: u64, compare: Compare<'_>) -> usize {
        let (cursor, _) = self.locate(head, compare);
        let before = self.slots.iter().take(cursor.slot);
        before.map(|slot| slot.len as usize).sum::<usize>() + cursor.at
    }

    /// The first entry: head and ordinal.
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        let chunk = &self.slots.front()?.chunk;
        Some((*chunk.heads.first()?, *chunk.ordinals.first()?))
    }

    /// The last entry: head and ordinal.
    pub(crate) fn last(&self) -> Option<(u64, u32)> {
        let chunk = &self.slots.back()?.chunk;
        Some((*chunk.heads.last()?, *chunk.ordinals.last()?))
    }

    /// Every ordinal, in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.slots.iter().flat_map(|slot| slot.chunk.ordinals.iter().copied())
    }

    /// The entries at these ranks, in order: head and ordinal.
    pub(crate) fn ranks(
        &self,
        ranks: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (u64, u32)> + '_ {
        let mut parts = Vec::new();
        let mut before = 0;
        for slot in &self.slots {
            let len = slot.len as usize;
            let from = ranks.start.saturating_sub(before).min(len);
            let to = ranks.end.saturating_sub(before).min(len);
            if from < to {
                let Chunk { heads, ordinals } = &*slot.chunk;
                parts.push(heads[from..to].iter().copied().zip(ordinals[from..to].iter().copied()));
            }
            before += len;
            if before >= ranks.end {
                break;
            }
        }
        parts.into_iter().flatten()
    }

    /// Adds an entry. Its key must not exist.
    pub(crate) fn insert(&mut self, head: u64, ordinal: u32, compare: Compare<'_>) {
        let (cursor, _) = self.locate(head, compare);
        let cursor = self.make_room(cursor);
        self.len += 1;
        let Some(slot) = self.slots.get_mut(cursor.slot) else {
            let chunk = Arc::new(Chunk { heads: vec![head], ordinals: vec![ordinal] });
            self.slots.push_back(Slot { first: head, len: 1, chunk });
            return;
        };
        let chunk = Arc::make_mut(&mut slot.chunk);
        if chunk.heads.len() == chunk.heads.capacity() {
            chunk.heads.reserve_exact(ROOM);
            chunk.ordinals.reserve_exact(ROOM);
        }
        chunk.heads.insert(cursor.at, head);
        chunk.ordinals.insert(cursor.at, ordinal);
        slot.len += 1;
        if cursor.at == 0 {
            slot.first = head;
        }
    }

    /// Removes the entry with this key.
    pub(crate) fn remove(&mut self, head: u64, compare: Compare<'_>) -> Option<u32> {
        let (cursor, found) = self.locate(head, compare);
        let slot = self.slots.get_mut(cursor.slot).filter(|_| found)?;
        let chunk = Arc::make_mut(&mut slot.chunk);
        chunk.heads.remove(cursor.at);
        let ordinal = chunk.ordinals.remove(cursor.at);
        slot.len -= 1;
        self.len -= 1;
        match chunk.heads.first() {
            Some(first) => slot.first = *first,
            None => drop(self.slots.remove(cursor.slot)),
        }
        self.merge(cursor.slot);
        Some(ordinal)
    }

    fn at(&self, cursor: Cursor) -> Option<u32> {
        self.slots.get(cursor.slot)?.chunk.ordinals.get(cursor.at).copied()
    }

    /// The position of a key, and true if it exists.
    fn locate(&self, head: u64, compare: Compare<'_>) -> (Cursor, bool) {
        // The last chunk whose first key is not larger than the wanted one.
        let (mut low, mut high) = (0, self.slots.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let larger = self.slots.get(middle).is_some_and(|slot| match slot.first.cmp(&head) {
                Ordering::Equal => {
                    slot.chunk.ordinals.first().is_some_and(|first| compare(*first).is_gt())
                }
                order => order.is_gt(),
            });
            if larger { high = middle } else { low = middle + 1 }
        }
        let index = low.saturating_sub(1);
        let Some(slot) = self.slots.get(index) else {
            return (Cursor { slot: index, at: 0 }, false);
        };
        let Chunk { heads, ordinals } = &*slot.chunk;
        let from = heads.partition_point(|own| *own < head);
        let same = heads[from..].partition_point(|own| *own == head);
        let same = ordinals.get(from..from + same).unwrap_or_default();
        match same.binary_search_by(|ordinal| compare(*ordinal)) {
            Ok(at) => (Cursor { slot: index, at: from + at }, true),
            Err(at) => (Cursor { slot: index, at: from + at }, false),
        }
    }

    /// Splits a full chunk. One that is filled at its end stays full, so that entries that come in
    /// order are packed tightly.
    fn make_room(&mut self, cursor: Cursor) -> Cursor {
        const HALF: usize = CHUNK / 2;
        let last = cursor.slot + 1 == self.slots.len();
        let Some(slot) = self.slots.get_mut(cursor.slot) else { return cursor };
        if (slot.len as usize) < CHUNK {
            return cursor;
        }
        if cursor.at == CHUNK && last {
            return Cursor { slot: cursor.slot + 1, at: 0 };
        }
        let chunk = Arc::make_mut(&mut slot.chunk);
        let half =
            Chunk { heads: chunk.heads.split_off(HALF), ordinals: chunk.ordinals.split_off(HALF) };
        chunk.heads.shrink_to(HALF + ROOM);
        chunk.ordinals.shrink_to(HALF + ROOM);
        slot.len = HALF as u32;
        let first = half.heads.first().copied().unwrap_or_default();
        let new = Slot { first, len: half.heads.len() as u32, chunk: Arc::new(half) };
        self.slots.insert(cursor.slot + 1, new);
        match cursor.at.checked_sub(HALF) {
            Some(at) if at > 0 => Cursor { slot: cursor.slot + 1, at },
            _ => cursor,
        }
    }

    /// Merges a chunk with the next if both are small.
    fn merge(&mut self, index: usize) {
        let len = |at: usize| self.slots.get(at).map(|slot| slot.len as usize);
        let (Some(own), Some(next)) = (len(index), len(index + 1)) else { return };
        if own + next > CHUNK / 4 {
            return;
        }
        let next = self.slots.remove(index + 1);
        if let Some(slot) = self.slots.get_mut(index) {
            let chunk = Arc::make_mut(&mut slot.chunk);
            chunk.heads.extend_from_slice(&next.chunk.heads);
            chunk.ordinals.extend_from_slice(&next.chunk.ordinals);
            slot.len += next.len;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Keys by ordinal, in place of entities.
    #[derive(Default)]
    struct Bed {
        keys: Vec<String>,
        ranked: Ranked,
        naive: BTreeMap<String, u32>,
    }

    fn compare<'b>(keys: &'b [String], key: &'b str) -> impl Fn(u32) -> Ordering + 'b {
        move |ordinal| keys[ordinal as usize].as_str().cmp(key)
    }

    impl Bed {
        fn toggle(&mut self, key: String) {
            let head = head(key.as_bytes());
            let Self { keys, ranked, naive } = self;
            let known = ranked.find(head, &compare(keys, &key));
            assert_eq!(known, naive.get(&key).copied());
            match known {
                Some(ordinal) => {
                    assert_eq!(ranked.remove(head, &compare(keys, &key)), Some(ordinal));
                    naive.remove(&key);
                }
                None => {
                    let ordinal = keys.len() as u32;
                    ranked.insert(head, ordinal, &compare(keys, &key));
                    keys.push(key.clone());
                    naive.insert(key, ordinal);
                }
            }
        }

        fn check(&self) {
            let expected: Vec<u32> = self.naive.values().copied().collect();
            assert_eq!(self.ranked.len(), expected.len());
            assert_eq!(self.ranked.iter().collect::<Vec<_>>(), expected);
            assert!(self.ranked.iter().rev().eq(expected.iter().rev().copied()));
            for (rank, (key, _)) in self.naive.iter().enumerate().step_by(7) {
                let head = head(key.as_bytes());
                assert_eq!(self.ranked.rank(head, &compare(&self.keys, key)), rank);
            }
            let end = |end: Option<(u64, u32)>| end.map(|(_, ordinal)| ordinal);
            assert_eq!(end(self.ranked.first()), expected.first().copied());
            assert_eq!(end(self.ranked.last()), expected.last().copied());
            let ranks = expected.len() / 3..expected.len() / 3 + 300;
            let part = self.ranked.ranks(ranks.clone()).map(|(_, ordinal)| ordinal);
            let wanted = expected.iter().copied().skip(ranks.start).take(300);
            assert_eq!(part.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
            assert!(self.ranked.slots.iter().all(|slot| {
                slot.len as usize == slot.chunk.ordinals.len()
                    && (1..=CHUNK).contains(&slot.chunk.heads.len())
                    && slot.first == slot.chunk.heads[0]
            }));
        }
    }

    #[test]
    fn entries_that_come_in_order_lie_tightly() {
        let mut bed = Bed::default();
        (0..5 * CHUNK).for_each(|n| bed.toggle(format!("{n:06}")));
        bed.check();
        assert_eq!(bed.ranked.slots.len(), 5);
    }

    #[test]
    fn a_clone_is_left_as_it_is() {
        let mut bed = Bed::default();
        (0..1000).for_each(|n| bed.toggle(format!("{}", n * 7919 % 1000)));
        let before: Vec<u32> = bed.ranked.iter().collect();
        let kept = bed.ranked.clone();
        (0..1000).for_each(|n| bed.toggle(format!("{}", n * 31 % 1500)));
        assert_eq!(kept.iter().collect::<Vec<_>>(), before);
        bed.check();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn it_is_a_sorted_map(
            keys in prop::collection::vec(
                ("[ab]{0,3}|commonprefix[0-9]{1,2}", 0u16..3000), 0..1500,
            ),
        ) {
            let mut bed = Bed::default();
            for (text, number) in keys {
                bed.toggle(format!("{text}{}", number % 700));
            }
            bed.check();
            let all: Vec<String> = bed.naive.keys().cloned().collect();
            all.into_iter().step_by(2).for_each(|key| bed.toggle(key));
            bed.check();
        }
    }
}
