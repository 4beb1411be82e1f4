//! Messages of a circuit that pass through this router, until the next connection takes them.
//!
//! A router never stops reading a link, so that a full queue drops messages. The limit of a queue is half
//! of the free bytes in the link's budget: only the circuit that overloads the link loses payloads. A
//! copy of a payload that is still queued is always dropped; otherwise such copies would fill the queue
//! until nothing else got through.

use std::collections::{HashSet, VecDeque};

use weft_limits::{Budget, Grant};

use crate::cost;

/// Most bytes of a circuit's payloads for one link.
const MAX_BYTES: u64 = 8 << 20;

/// An empty queue accepts a payload of up to this many bytes even if the link's budget has none left,
/// so that every circuit goes on. It accepts a larger payload if the link's budget has any bytes left and
/// the budget of all links has twice as many: SDKs with flow control send each write as one payload.
const ALWAYS: u64 = 64 << 10;

/// Most bytes of a circuit's acks and control messages. Honest peers stay far below, because the
/// payloads in flight bound their acks.
const MAX_ACK_BYTES: u64 = 1 << 20;

/// Bytes of acks and control messages that are accepted even if the link's budget has none left.
/// More acks are dropped like payloads, so that many circuits together cannot hold more than one
/// circuit may.
const SPARE_ACK_BYTES: u64 = 16 << 10;

/// A queued message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedFrame<T> {
    /// The sequence number of its payload.
    pub sequence: i32,
    /// The length on the wire, in bytes.
    pub len: usize,
    /// The message.
    pub frame: T,
}

/// The result of queueing a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// The message is queued.
    Queued,
    /// The same payload is queued already; this copy was dropped.
    Duplicate,
    /// There is no room; the message was dropped.
    Dropped,
}

/// Messages that were taken out of a queue, in their order.
#[derive(Debug)]
pub struct TakenOut<T> {
    payloads: Vec<QueuedFrame<T>>,
    /// Acks and control messages, with their lengths.
    acks: Vec<(usize, T)>,
}

impl<T: Clone> TakenOut<T> {
    /// Those of the messages that `is` names.
    #[must_use]
    pub fn select(&self, is: impl Fn(&T) -> bool) -> Self {
        let payloads = self.payloads.iter().filter(|one| is(&one.frame)).cloned().collect();
        let acks = self.acks.iter().filter(|(_, frame)| is(frame)).cloned().collect();
        Self { payloads, acks }
    }
}

/// The messages of one direction of a circuit that wait for one connection.
#[derive(Debug)]
pub struct TransitQueue<T> {
    payloads: VecDeque<(usize, T)>,
    /// The sequence numbers of `payloads`, in a list of their own, so that a search is quick.
    sequences: VecDeque<i32>,
    /// The highest sequence number in the queue.
    highest: i32,
    /// The cost of the payloads, drawn from the link's budget.
    held: Grant,
    /// Acks and control messages, with their lengths.
    acks: VecDeque<(usize, T)>,
    held_by_acks: Grant,
}

impl<T> TransitQueue<T> {
    /// An empty queue that draws from the budget of a link.
    #[must_use]
    pub fn new(budget: &Budget) -> Self {
        Self {
            payloads: VecDeque::new(),
            sequences: VecDeque::new(),
            highest: i32::MIN,
            held: budget.empty(),
            acks: VecDeque::new(),
            held_by_acks: budget.empty(),
        }
    }

    /// Takes a payload of `len` bytes.
    pub fn push(&mut self, sequence: i32, len: usize, frame: T) -> Pushed {
        if sequence <= self.highest && self.is_waiting(sequence) {
            return Pushed::Duplicate;
        }
        let bytes = cost(len);
        if self.payloads.is_empty() && self.fits_alone(bytes) {
            self.held.grow_anyway(bytes);
        } else {
            // The queue may hold half of the bytes that would be free if it were empty.
            let share = MAX_BYTES.min((self.held.budget().free() + self.held.bytes()) / 2);
            if self.held.bytes() + bytes > share || !self.held.try_grow(bytes) {
                return Pushed::Dropped;
            }
        }
        self.highest = self.highest.max(sequence);
        self.payloads.push_back((len, frame));
        self.sequences.push_back(sequence);
        Pushed::Queued
    }

    /// True if an empty queue accepts a payload of this cost.
    fn fits_alone(&self, bytes: u64) -> bool {
        let budget = self.held.budget();
        bytes <= ALWAYS || (budget.free() > 0 && bytes <= budget.whole().free() / 2)
    }

    /// Takes an ack or a control message of `len` bytes.
    pub fn push_ack(&mut self, len: usize, frame: T) -> Pushed {
        let bytes = cost(len);
        let all = self.held_by_acks.bytes() + bytes;
        if all > MAX_ACK_BYTES {
            return Pushed::Dropped;
        }
        if all <= SPARE_ACK_BYTES {
            self.held_by_acks.grow_anyway(bytes);
        } else if !self.held_by_acks.try_grow(bytes) {
            return Pushed::Dropped;
        }
        self.acks.push_back((len, frame));
        Pushed::Queued
    }

    /// The next payload.
    pub fn pop(&mut self) -> Option<QueuedFrame<T>> {
        let (len, frame) = self.payloads.pop_front()?;
        let sequence = self.sequences.pop_front().unwrap_or(i32::MIN);
        self.held.shrink(cost(len));
        if self.payloads.is_empty() {
            self.highest = i32::MIN;
        }
        Some(QueuedFrame { sequence, len, frame })
    }

    /// The next ack or control message, with its length.
    pub fn pop_ack(&mut self) -> Option<(usize, T)> {
        let (len, frame) = self.acks.pop_front()?;
        self.held_by_acks.shrink(cost(len));
        Some((len, frame))
    }

    /// Puts a payload that a closing connection took and did not write back in front.
    pub fn put_back(&mut self, waiting: QueuedFrame<T>) {
        self.held.grow_anyway(cost(waiting.len));
        self.highest = self.highest.max(waiting.sequence);
        self.payloads.push_front((waiting.len, waiting.frame));
        self.sequences.push_front(waiting.sequence);
    }

    /// Takes out the messages that `goes` names; the others stay in their order.
    pub fn take_out(&mut self, goes: impl Fn(&T) -> bool) -> TakenOut<T> {
        let mut taken = TakenOut { payloads: Vec::new(), acks: Vec::new() };
        for _ in 0..self.payloads.len() {
            let Some(waiting) = self.pop() else { break };
            if goes(&waiting.frame) {
                taken.payloads.push(waiting);
                continue;
            }
            self.held.grow_anyway(cost(waiting.len));
            self.highest = self.highest.max(waiting.sequence);
            self.payloads.push_back((waiting.len, waiting.frame));
            self.sequences.push_back(waiting.sequence);
        }
        for _ in 0..self.acks.len() {
            let Some((len, frame)) = self.pop_ack() else { break };
            if goes(&frame) {
                taken.acks.push((len, frame));
                continue;
            }
            self.held_by_acks.grow_anyway(cost(len));
            self.acks.push_back((len, frame));
        }
        taken
    }

    /// Puts payloads of another queue before those that wait, with or without room. Acks and control messages for
    /// which there is no room are dropped.
    pub fn put_first(&mut self, taken: TakenOut<T>) {
        let known: HashSet<i32> = self.sequences.iter().copied().collect();
        for waiting in taken.payloads.into_iter().rev() {
            if !known.contains(&waiting.sequence) {
                self.put_back(waiting);
            }
        }
        for (len, frame) in taken.acks {
            self.push_ack(len, frame);
        }
    }

    /// Draws from the budget of another link from now on, because the circuit was rerouted.
    pub fn move_to(&mut self, budget: &Budget) {
        for held in [&mut self.held, &mut self.held_by_acks] {
            let mut moved = budget.empty();
            moved.grow_anyway(held.bytes());
            *held = moved;
        }
    }

    /// Drops everything. Returns the number of dropped payloads.
    pub fn clear(&mut self) -> usize {
        let dropped = self.payloads.len();
        *self = Self::new(&self.held.budget().clone());
        dropped
    }

    /// Frees the memory that nothing waits in.
    pub fn trim(&mut self) {
        self.payloads.shrink_to_fit();
        self.sequences.shrink_to_fit();
        self.acks.shrink_to_fit();
    }

    /// The number of messages for which there is memory, whether they wait or not.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.payloads.capacity().max(self.sequences.capacity()) + self.acks.capacity()
    }

    /// True if payloads wait.
    #[must_use]
    pub fn has_payloads(&self) -> bool {
        !self.payloads.is_empty()
    }

    /// True if acks or control messages wait.
    #[must_use]
    pub fn has_acks(&self) -> bool {
        !self.acks.is_empty()
    }

    /// The cost of the queued payloads.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.held.bytes()
    }

    fn is_waiting(&self, sequence: i32) -> bool {
        let (front, back) = self.sequences.as_slices();
        front.contains(&sequence) || back.contains(&sequence)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn copies_of_what_waits_are_dropped() {
        let mut queue = TransitQueue::new(&Budget::unlimited());
        for sequence in [3, 1, 2] {
            assert_eq!(queue.push(sequence, 10, ()), Pushed::Queued);
        }
        assert_eq!(queue.push(1, 10, ()), Pushed::Duplicate);
        assert_eq!(queue.pop().unwrap().sequence, 3);
        assert_eq!(queue.push(3, 10, ()), Pushed::Queued, "it no longer waits");
        let taken = queue.pop().unwrap();
        queue.put_back(taken);
        assert_eq!(queue.push(1, 10, ()), Pushed::Duplicate);
        assert_eq!(queue.pop().unwrap().sequence, 1);
    }

    #[test]
    fn takes_half_of_what_is_free_and_at_least_one() {
        let link = Budget::new(1_000_000);
        let (mut hog, mut calm) = (TransitQueue::new(&link), TransitQueue::new(&link));
        let pushed = (0..100).filter(|n| hog.push(*n, 9_744, ()) == Pushed::Queued).count();
        assert_eq!(pushed, 50);
        let pushed = (0..100).filter(|n| calm.push(*n, 9_744, ()) == Pushed::Queued).count();
        assert_eq!(pushed, 25);
        let mut last = TransitQueue::new(&link);
        let held = link.try_take(link.free()).unwrap();
        assert_eq!(last.push(0, 60_000, ()), Pushed::Queued, "one always fits");
        assert_eq!(last.push(1, 10, ()), Pushed::Dropped);
        assert_eq!(hog.clear(), 50);
        drop((held, calm, last));
        assert_eq!(link.used(), 0);
    }

    #[test]
    fn a_payload_that_is_larger_than_any_share_goes_alone() {
        let all = Budget::new(100 << 20);
        let link = all.child(8 << 20);
        let (mut large, mut other) = (TransitQueue::new(&link), TransitQueue::new(&link));
        assert_eq!(large.push(0, 40 << 20, ()), Pushed::Queued);
        assert_eq!(large.push(1, 100, ()), Pushed::Dropped);
        assert_eq!(other.push(0, 9 << 20, ()), Pushed::Dropped, "one at a time for a link");
        assert_eq!(other.push(0, 60_000, ()), Pushed::Queued);
        large.pop();
        assert_eq!(large.push(1, 51 << 20, ()), Pushed::Dropped, "more than half of everything");
        assert_eq!(large.push(1, 9 << 20, ()), Pushed::Queued);
    }

    #[test]
    fn what_is_trimmed_keeps_what_waits() {
        let mut queue = TransitQueue::new(&Budget::unlimited());
        for sequence in 0..1000 {
            queue.push(sequence, 10, [sequence]);
            queue.push_ack(10, [sequence]);
        }
        for _ in 0..998 {
            queue.pop();
            queue.pop_ack();
        }
        assert!(queue.capacity() >= 2000);
        queue.trim();
        assert_eq!(queue.capacity(), 4);
        assert_eq!(queue.push(998, 10, [0]), Pushed::Duplicate);
        let left: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|one| one.sequence).collect();
        assert_eq!((left, queue.pop_ack()), (vec![998, 999], Some((10, [998]))));
        queue.pop_ack();
        queue.trim();
        assert_eq!(queue.capacity(), 0);
        assert_eq!(queue.push(1000, 10, [0]), Pushed::Queued);
    }

    #[test]
    fn acks_are_bounded_and_apart() {
        let link = Budget::new(10_000_000);
        let mut queue = TransitQueue::new(&link);
        let pushed = (0..10_000).filter(|_| queue.push_ack(80, ()) == Pushed::Queued).count();
        assert_eq!(pushed, (1 << 20) / (80 + 256));
        assert!(queue.has_acks() && !queue.has_payloads());
        let other = Budget::new(10);
        queue.move_to(&other);
        assert_eq!((link.used(), other.used() > 0), (0, true));
        while queue.pop_ack().is_some() {}
        assert_eq!(other.used(), 0);
    }

    #[test]
    fn acks_of_many_circuits_share_what_is_left() {
        let link = Budget::new(1_000_000);
        let mut queues: Vec<_> = (0..40).map(|_| TransitQueue::new(&link)).collect();
        let cost = 80 + 256;
        for queue in &mut queues {
            for _ in 0..10_000 {
                queue.push_ack(80, ());
            }
        }
        let spare = SPARE_ACK_BYTES / cost * cost;
        assert!(link.used() <= 1_000_000 + 40 * spare, "{}", link.used());
        let held = |queue: &TransitQueue<()>| queue.held_by_acks.bytes();
        assert_eq!(queues.iter().map(held).min(), Some(spare), "some always fit");
    }

    #[test]
    fn what_goes_to_another_queue_keeps_its_order_and_its_budget() {
        let (one, other) = (Budget::new(1_000_000), Budget::new(1_000_000));
        let (mut from, mut to) = (TransitQueue::new(&one), TransitQueue::new(&other));
        for sequence in 0..6 {
            from.push(sequence, 10, sequence);
            from.push_ack(10, sequence);
        }
        for sequence in [2, 7] {
            to.push(sequence, 10, sequence);
        }
        let taken = from.take_out(|sequence| *sequence < 4);
        assert_eq!(one.used(), 4 * cost(10));
        to.put_first(taken.select(|sequence| *sequence != 1));
        let sequences = |queue: &mut TransitQueue<i32>| -> (Vec<i32>, Vec<i32>) {
            let acks = std::iter::from_fn(|| queue.pop_ack()).map(|(_, ack)| ack).collect();
            (std::iter::from_fn(|| queue.pop()).map(|one| one.sequence).collect(), acks)
        };
        assert_eq!(sequences(&mut to), (vec![0, 3, 2, 7], vec![0, 2, 3]));
        assert_eq!(sequences(&mut from), (vec![4, 5], vec![4, 5]));
        assert_eq!((one.used(), other.used()), (0, 0));
    }

    proptest! {
        #[test]
        fn order_and_bytes_are_kept(
            ops in prop::collection::vec((0u8..4, 0i32..30, 0usize..4000), 1..200)
        ) {
            let link = Budget::new(60_000);
            let mut queue = TransitQueue::new(&link);
            let mut model: VecDeque<(i32, usize)> = VecDeque::new();
            for (op, sequence, len) in ops {
                if op == 0 {
                    let popped = queue.pop().map(|w| (w.sequence, w.len));
                    prop_assert_eq!(popped, model.pop_front());
                } else {
                    let there = model.iter().any(|(s, _)| *s == sequence);
                    let pushed = queue.push(sequence, len, ());
                    prop_assert_eq!(pushed == Pushed::Duplicate, there);
                    if pushed == Pushed::Queued {
                        model.push_back((sequence, len));
                    }
                }
                let sum: u64 = model.iter().map(|(_, len)| cost(*len)).sum();
                prop_assert_eq!(link.used(), sum);
                prop_assert!(sum <= 30_000 || model.len() == 1);
            }
        }
    }
}
