//! Puts the fragments of messages together, in the order of their numbers.

use std::collections::BTreeMap;

use crate::messages;
use crate::reader::Reader;
use crate::record::Record;

/// Longest message, in bytes.
const MAX_MESSAGE: usize = 32 * 1024;
/// Most bytes of messages that are not complete, by their announced lengths.
const MAX_HELD: usize = 64 * 1024;
/// Messages are kept whose number is less than this above that of the next message.
const AHEAD: u16 = 8;
/// Most separate ranges of a message that have come. Fragments that would make more are dropped; the
/// peer sends them again.
const MAX_PARTS: usize = 64;

/// A complete message, with its head in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) kind: u8,
    pub(crate) message: Vec<u8>,
}

impl Whole {
    pub(crate) fn body(&self) -> &[u8] {
        self.message.get(messages::HEAD..).unwrap_or_default()
    }
}

/// The messages that are arriving.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// The number of the next message.
    next: u16,
    arriving: BTreeMap<u16, Partial>,
}

#[derive(Debug)]
struct Partial {
    kind: u8,
    body: Vec<u8>,
    /// The received parts: ranges in order, with gaps between them.
    parts: Vec<(usize, usize)>,
}

impl Assembly {
    pub(crate) fn from(next: u16) -> Self {
        Self { next, ..Self::default() }
    }

    /// Takes the fragments of a record. A Finished message must be sealed, all other messages must be
    /// unsealed; other fragments are dropped.
    pub(crate) fn take(&mut self, record: &Record<'_>, data: &[u8]) {
        let mut rest = Reader(data);
        while let Some(fragment) = Fragment::next(&mut rest) {
            let is_sealed = record.epoch > 0;
            if is_sealed != (fragment.kind == messages::kind::FINISHED) {
                continue;
            }
            // The difference wraps around: it is large for earlier messages, which are dropped.
            if fragment.number.wrapping_sub(self.next) < AHEAD {
                self.keep(&fragment);
            }
        }
    }

    fn keep(&mut self, fragment: &Fragment<'_>) {
        let held: usize = self.arriving.values().map(|partial| partial.body.len()).sum();
        let fits = fragment.length <= MAX_MESSAGE && held + fragment.length <= MAX_HELD;
        if !self.arriving.contains_key(&fragment.number) && !fits {
            return;
        }
        let new =
            || Partial { kind: fragment.kind, body: vec![0; fragment.length], parts: Vec::new() };
        self.arriving.entry(fragment.number).or_insert_with(new).add(fragment);
    }

    /// Frees the memory of messages; no more messages are expected.
    pub(crate) fn forget(&mut self) {
        self.arriving.clear();
    }

    /// The next message, if it is complete.
    pub(crate) fn next(&mut self) -> Option<Whole> {
        let number = self.next;
        if !self.arriving.get(&number)?.is_whole() {
            return None;
        }
        let Partial { kind, body, .. } = self.arriving.remove(&number)?;
        self.next = number.wrapping_add(1);
        Some(Whole { kind, message: messages::framed(kind, number, &body) })
    }
}

impl Partial {
    fn is_whole(&self) -> bool {
        self.body.is_empty() || self.parts == [(0, self.body.len())]
    }

    fn add(&mut self, fragment: &Fragment<'_>) {
        let (from, to) = (fragment.offset, fragment.offset + fragment.data.len());
        let fits = fragment.kind == self.kind && fragment.length == self.body.len();
        if !fits || from == to {
            return;
        }
        let mut parts = self.parts.clone();
        parts.push((from, to));
        parts.sort_unstable();
        let mut joined: Vec<(usize, usize)> = Vec::new();
        for (from, to) in parts {
            match joined.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        if joined.len() > MAX_PARTS {
            return;
        }
        if let Some(place) = self.body.get_mut(from..to) {
            place.copy_from_slice(fragment.data);
            self.parts = joined;
        }
    }
}

/// A piece of a message.
pub(crate) struct Fragment<'a> {
    pub(crate) kind: u8,
    pub(crate) length: usize,
    pub(crate) number: u16,
    pub(crate) offset: usize,
    pub(crate) data: &'a [u8],
}

impl<'a> Fragment<'a> {
    pub(crate) fn next(rest: &mut Reader<'a>) -> Option<Self> {
        let (kind, length, number) = (rest.u8()?, rest.u24()?, rest.u16()?);
        let (offset, here) = (rest.u24()?, rest.u24()?);
        let data = rest.take(here)?;
        (offset + here <= length).then_some(Self { kind, length, number, offset, data })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reader::Write;

    fn fragment(number: u16, length: usize, offset: usize, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![messages::kind::CERTIFICATE];
        bytes.u24(length);
        bytes.u16(number);
        bytes.u24(offset);
        bytes.u24(data.len());
        bytes.extend_from_slice(data);
        bytes
    }

    fn take(assembly: &mut Assembly, data: &[u8]) {
        assembly.take(&Record { kind: 22, epoch: 0, number: 0, fragment: &[] }, data);
    }

    proptest! {
        #[test]
        fn fragments_in_any_order_and_size_become_the_message(
            body in prop::collection::vec(any::<u8>(), 1..500), sizes in prop::collection::vec(1usize..60, 1..10),
            order in any::<u64>(),
        ) {
            let mut pieces = Vec::new();
            let (mut at, mut turn) = (0, 0);
            while at < body.len() {
                let to = (at + sizes[turn % sizes.len()]).min(body.len());
                // Each piece overlaps the one before.
                let from = at.saturating_sub(turn % 3);
                pieces.push(fragment(0, body.len(), from, &body[from..to]));
                (at, turn) = (to, turn + 1);
            }
            let few = pieces.len() <= MAX_PARTS;
            pieces.sort_by_key(|piece| piece.iter().fold(order, |a, b| a.wrapping_mul(31).wrapping_add(u64::from(*b))));
            let mut assembly = Assembly::default();
            for _ in 0..if few { 1 } else { 20 } {
                pieces.iter().for_each(|piece| { take(&mut assembly, piece); });
            }
            let whole = assembly.next().unwrap();
            prop_assert_eq!(whole.body(), &body[..]);
            prop_assert_eq!(assembly.next(), None);
            take(&mut assembly, &pieces[0]);
            prop_assert!(assembly.arriving.is_empty(), "what was complete is not kept again");
        }

        #[test]
        fn any_bytes_are_taken_and_little_is_held(
            all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..40),
        ) {
            let mut assembly = Assembly::default();
            for bytes in &all {
                take(&mut assembly, bytes);
                while assembly.next().is_some() {}
                let held: usize = assembly.arriving.values().map(|partial| partial.body.len()).sum();
                prop_assert!(held <= MAX_HELD && assembly.arriving.len() <= usize::from(AHEAD));
            }
        }
    }

    #[test]
    fn announced_messages_take_no_more_than_the_limit() {
        let mut assembly = Assembly::default();
        for number in 0..AHEAD {
            take(&mut assembly, &fragment(number, MAX_MESSAGE, 0, b"x"));
        }
        assert_eq!(assembly.arriving.len(), 2);
        take(&mut assembly, &fragment(5, MAX_MESSAGE + 1, 0, b"x"));
        assert_eq!(assembly.arriving.len(), 2);
    }
}
