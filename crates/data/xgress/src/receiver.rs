//! The receiving half of an end: payloads by sequence number until they are read in order, and acks
//! that are to be sent (docs/protocol/data-plane.md 7.6).

use std::collections::VecDeque;

use weft_limits::{Budget, Grant};
use weft_wire::payload::{Ack, Flags, Payload};

use crate::chunk::MAX_PAYLOAD;
use crate::{EndSnapshot, ITEM_COST, Options, payload_cost};

/// How far ahead of the next payload one is accepted, as a difference of sequence numbers. A
/// sender's window of the smallest payloads fits several times.
pub(crate) const MAX_AHEAD: usize = 65_536;

/// Most bytes of bookkeeping of small payloads; beyond that they are refused.
const BOOKKEEPING: u64 = (MAX_AHEAD * ITEM_COST) as u64;

/// The cost of an empty slot in bytes: a peer that leaves gaps pays for them.
const SLOT_COST: u64 = size_of::<Option<Payload>>() as u64;

/// Most sequence numbers in one ack: with 4 bytes each, it fits into the 2000 bytes of a datagram
/// (docs/protocol/channel.md 13).
const MAX_PER_ACK: usize = 400;

/// The window of an original sender in bytes: it stops when the report exceeds this.
const PEER_LIMIT: u64 = 4 << 20;

/// The next payload in order is taken without memory left if it costs no more bytes than this.
const ALWAYS: u64 = 2 * MAX_PAYLOAD as u64;

/// However little memory is left, this many bytes may be buffered before the peer should stop.
const MIN_WANTED: u64 = 64 * 1024;

/// Once the peer was told that more bytes than this are buffered, and reads have left less than half of
/// them, the peer is told in an ack of its own.
const SMALL_REPORT: u32 = 10_000;

/// The result for a payload that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The payload is new and kept.
    New,
    /// The payload arrived before; it is acknowledged once more.
    Duplicate,
    /// The payload has no room; it is not acknowledged, and is sent again.
    Refused,
}

/// Payloads that wait to be read, and acks that wait to be sent.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// A slot per sequence from `next` on.
    slots: VecDeque<Option<Payload>>,
    /// The sequence that is read next.
    next: i32,
    /// The highest sequence number so far.
    highest: i32,
    /// Bytes of data in the slots.
    buffered: u64,
    /// These bytes and those of bookkeeping, drawn from the budget.
    held: Grant,
    /// Payloads beyond this many bytes are refused.
    limit: u64,
    /// Sequences to acknowledge, in order of arrival.
    to_acknowledge: Vec<i32>,
    /// The stamp that the next ack returns: that of the oldest of its payloads that was sent once.
    stamp: Option<u16>,
    /// The bytes reported in the last ack.
    last_reported: u32,
    /// True if the buffered bytes have become so few that the peer is told in an ack of its own.
    report_due: bool,
}

impl Receiver {
    pub(crate) fn new(options: &Options, budget: &Budget) -> Self {
        Self {
            slots: VecDeque::new(),
            next: 0,
            highest: 0,
            buffered: 0,
            held: budget.empty(),
            limit: options.rx_buffer_size,
            to_acknowledge: Vec::new(),
            stamp: None,
            last_reported: 0,
            report_due: false,
        }
    }

    /// Takes a payload that arrived.
    pub(crate) fn take(&mut self, payload: Payload) -> Taken {
        let (sequence, stamp, flags) = (payload.sequence, payload.stamp, payload.flags);
        let taken = self.store(payload);
        if taken != Taken::Refused {
            self.acknowledge(sequence, stamp, flags);
        }
        taken
    }

    fn store(&mut self, payload: Payload) -> Taken {
        let sequence = payload.sequence;
        if sequence < self.next {
            return Taken::Duplicate;
        }
        let ahead = sequence.abs_diff(self.next) as usize;
        if self.slots.get(ahead).is_some_and(Option::is_some) {
            return Taken::Duplicate;
        }
        let full = self.buffered > self.limit || self.held.bytes() > self.limit + BOOKKEEPING;
        let over = full && sequence > self.highest;
        if ahead >= MAX_AHEAD || over {
            return Taken::Refused;
        }
        let gap = ahead.saturating_sub(self.slots.len()) as u64 * SLOT_COST;
        let bytes = cost_of(&payload) + gap;
        if !self.held.try_grow(bytes) {
            // The next payload in order is taken: a lack of memory slows a circuit and does not stop it. Only
            // a very large one waits for memory.
            if ahead > 0 || bytes > ALWAYS {
                return Taken::Refused;
            }
            self.held.grow_anyway(bytes);
        }
        self.buffered += payload.data.len() as u64;
        self.highest = self.highest.max(sequence);
        match self.slots.get_mut(ahead) {
            Some(slot) => {
                *slot = Some(payload);
                self.held.shrink(SLOT_COST);
            }
            None => {
                self.slots.resize_with(ahead, || None);
                self.slots.push_back(Some(payload));
            }
        }
        Taken::New
    }

    fn acknowledge(&mut self, sequence: i32, stamp: u16, flags: Flags) {
        // A peer that repeats payloads faster than acks leave gets fewer acks.
        if self.to_acknowledge.len() < MAX_AHEAD {
            self.to_acknowledge.push(sequence);
        }
        if stamp != 0 && !flags.has(Flags::RETRANSMIT) {
            self.stamp.get_or_insert(stamp);
        }
    }

    /// The next payload in order, if it is there.
    pub(crate) fn pop(&mut self) -> Option<Payload> {
        let payload = self.slots.front_mut()?.take()?;
        self.slots.pop_front();
        self.next = self.next.saturating_add(1);
        self.buffered -= payload.data.len() as u64;
        self.held.shrink(cost_of(&payload));
        let report = self.report();
        self.report_due |= self.last_reported > SMALL_REPORT && self.last_reported / 2 > report;
        Some(payload)
    }

    /// The next payload in order, left where it is.
    pub(crate) fn peek(&self) -> Option<&Payload> {
        self.slots.front()?.as_ref()
    }

    /// True if an ack is to be sent.
    pub(crate) fn owes_ack(&self) -> bool {
        self.report_due || !self.to_acknowledge.is_empty()
    }

    /// The ack that is owed: all that was taken since the last one.
    pub(crate) fn ack(&mut self, role: Flags) -> Option<Ack> {
        if !self.owes_ack() {
            return None;
        }
        let rest = self.to_acknowledge.split_off(self.to_acknowledge.len().min(MAX_PER_ACK));
        let sequences = std::mem::replace(&mut self.to_acknowledge, rest);
        self.report_due = false;
        self.last_reported = self.report();
        Some(Ack {
            flags: role,
            recv_buffer_size: self.last_reported,
            stamp: self.stamp.take().unwrap_or(0),
            sequences,
        })
    }

    /// Drops the acks that are to be sent, because the peer is gone.
    pub(crate) fn forget_acks(&mut self) {
        self.to_acknowledge = Vec::new();
        self.report_due = false;
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.forget_acks();
        self.slots = VecDeque::new();
        self.buffered = 0;
        self.held.shrink(u64::MAX);
    }

    /// Frees the memory that nothing is in.
    pub(crate) fn trim(&mut self) {
        self.slots.shrink_to_fit();
        self.to_acknowledge.shrink_to_fit();
    }

    /// The number of payloads and notes for which there is memory.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.capacity() + self.to_acknowledge.capacity()
    }

    /// The budget of buffered payloads.
    pub(crate) fn budget(&self) -> &Budget {
        self.held.budget()
    }

    /// Bytes of data that wait to be read.
    pub(crate) fn buffered(&self) -> u64 {
        self.buffered
    }

    /// Adds its state to `out`.
    pub(crate) fn describe(&self, out: &mut EndSnapshot) {
        out.unread = self.buffered;
        out.unread_payloads = self.slots.iter().flatten().count();
        (out.next_read, out.highest_read) = (self.next, self.highest);
    }

    /// The bytes that the peer is told are buffered: the real number, raised if this side wants
    /// less, so that a sender with the usual limit stops in time. An empty buffer is always
    /// reported as 0.
    fn report(&self) -> u32 {
        if self.buffered == 0 {
            return 0;
        }
        let raised = self.buffered + PEER_LIMIT.saturating_sub(self.wanted());
        u32::try_from(raised).unwrap_or(u32::MAX - 1)
    }

    /// Bytes that may be buffered before the peer should stop: the whole buffer while the budget
    /// has plenty, less and less as its last quarter is used.
    fn wanted(&self) -> u64 {
        let budget = self.held.budget();
        let (free, quarter) = (budget.free(), budget.limit() / 4);
        if free >= quarter {
            return self.limit;
        }
        let share = u128::from(self.limit) * u128::from(free) / u128::from(quarter.max(1));
        (share as u64).max(MIN_WANTED.min(self.limit))
    }
}

fn cost_of(payload: &Payload) -> u64 {
    payload_cost(&payload.headers, &payload.data)
}

#[cfg(test)]
#[path = "receiver/tests.rs"]
mod tests;
