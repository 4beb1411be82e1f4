//! Payloads in flight: they were sent and are not acknowledged.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use super::outgoing::Outgoing;
use crate::congestion::SentMark;
use crate::receiver::MAX_AHEAD;

/// A payload in flight.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) payload: Outgoing,
    /// The times at which the payload was sent first and last, with the stamps of both times.
    pub(super) first_sent: Instant,
    pub(super) first_stamp: u16,
    pub(super) last_sent: Instant,
    pub(super) last_stamp: u16,
    /// The number of times that the payload was sent.
    pub(super) sends: u32,
    /// The mark of the congestion control.
    pub(super) mark: SentMark,
}

/// Payloads in flight. A payload that is known to be lost is not on its way.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// A slot for each sequence number from `base` on; empty once acknowledged.
    slots: VecDeque<Option<Sent>>,
    base: i32,
    /// The number of slots with a payload.
    count: usize,
    /// Bytes of data of all payloads in flight, without and with bookkeeping.
    data: u64,
    bytes: u64,
    /// Bytes, with bookkeeping, of the payloads that are on their way.
    on_the_way: u64,
    /// Lost payloads, which are sent again before new ones.
    lost: BTreeSet<i32>,
}

impl Flight {
    /// Bytes of all payloads in flight, with bookkeeping.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of data of all payloads in flight.
    pub(super) fn data(&self) -> u64 {
        self.data
    }

    /// Bytes, with bookkeeping, of the payloads that are not known to be lost.
    pub(super) fn on_the_way(&self) -> u64 {
        self.on_the_way
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The number of payloads.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// True if another payload can be sent for the first time. A peer that never acknowledges the oldest
    /// payload gets no more than `MAX_AHEAD` from there on; it would refuse more.
    pub(super) fn has_slot(&self) -> bool {
        self.slots.len() < MAX_AHEAD
    }

    /// The sequence number of the oldest payload, if there is one.
    pub(super) fn oldest(&self) -> i32 {
        self.base
    }

    /// The sequence number of the next payload that is sent for the first time.
    pub(super) fn next_sequence(&self) -> i32 {
        self.base.saturating_add_unsigned(self.slots.len() as u32)
    }

    pub(super) fn get(&self, sequence: i32) -> Option<&Sent> {
        let at = usize::try_from(sequence.checked_sub(self.base)?).ok()?;
        self.slots.get(at)?.as_ref()
    }

    fn get_mut(&mut self, sequence: i32) -> Option<&mut Sent> {
        let at = usize::try_from(sequence.checked_sub(self.base)?).ok()?;
        self.slots.get_mut(at)?.as_mut()
    }

    /// The number of lost payloads.
    pub(super) fn lost(&self) -> usize {
        self.lost.len()
    }

    /// The sequence number of the first lost payload.
    pub(super) fn first_lost(&self) -> Option<i32> {
        self.lost.first().copied()
    }

    /// Adds a payload, which has the next sequence number.
    pub(super) fn push(&mut self, sent: Sent) {
        let bytes = sent.payload.cost();
        self.bytes += bytes;
        self.on_the_way += bytes;
        self.data += sent.payload.data.len() as u64;
        self.slots.push_back(Some(sent));
        self.count += 1;
    }

    /// Notes that a payload is sent again.
    pub(super) fn again(
        &mut self,
        sequence: i32,
        stamp: u16,
        mark: SentMark,
        now: Instant,
    ) -> Option<&Sent> {
        if self.lost.remove(&sequence) {
            self.on_the_way += self.get(sequence)?.payload.cost();
        }
        let sent = self.get_mut(sequence)?;
        sent.last_sent = now;
        sent.last_stamp = stamp;
        sent.sends += 1;
        sent.mark = mark;
        Some(sent)
    }

    /// Takes out an acknowledged payload.
    pub(super) fn take(&mut self, sequence: i32) -> Option<Sent> {
        let at = usize::try_from(sequence.checked_sub(self.base)?).ok()?;
        let sent = self.slots.get_mut(at)?.take()?;
        self.count -= 1;
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.base += 1;
        }
        let bytes = sent.payload.cost();
        if !self.lost.remove(&sequence) {
            self.on_the_way -= bytes;
        }
        self.bytes -= bytes;
        self.data -= sent.payload.data.len() as u64;
        Some(sent)
    }

    /// Marks a payload as lost. True if it was on its way until now.
    pub(super) fn mark_lost(&mut self, sequence: i32) -> bool {
        let Some(bytes) = self.get(sequence).map(|sent| sent.payload.cost()) else { return false };
        let new = self.lost.insert(sequence);
        if new {
            self.on_the_way -= bytes;
        }
        new
    }

    /// Marks all payloads as lost.
    pub(super) fn mark_all_lost(&mut self) {
        for at in 0..self.slots.len() {
            self.mark_lost(self.base + at as i32);
        }
    }

    /// Frees the memory that no payload is in.
    pub(super) fn trim(&mut self) {
        self.slots.shrink_to_fit();
    }

    /// The number of payloads for which there is memory.
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Drops all payloads.
    pub(super) fn clear(&mut self) {
        *self = Self { base: self.next_sequence(), ..Self::default() };
    }
}
