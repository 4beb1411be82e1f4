//! The order in which a connection serves its flows.
//!
//! Flows with messages are in a ready list. Payload flows are served round robin, a [`QUANTUM`] of
//! bytes each; a flow that overdraws its quantum pays in its next turn, so that in the long run all
//! flows get the same, whatever the size of their payloads. A flow that was served little of late
//! (`SPARSE`) goes before these, so that a ping does not wait while fifty transfers have their
//! turn. Acks go first, but while payloads wait they get at most a quarter of the bytes.
//!
//! The scheduler belongs to the writer of one connection. Other threads tell the writer that a flow has
//! become ready; the writer lists the flow here by [`Scheduler::list`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The class of a message: acks go ahead of payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Acks and control messages.
    Ack,
    /// Payloads.
    Payload,
}

/// Bytes that a flow is served in its turn.
pub const QUANTUM: i64 = 32 * 1024;

/// Most bytes in this round and the last one with which a flow counts as sending little.
const SPARSE: u64 = 8 * 1024;

/// Most bytes of acks that may be served ahead of their share.
const ACK_CREDIT: i64 = 16 * 1024;

/// A flow as the scheduler sees it: usually a handle with a lock inside.
pub trait Source {
    /// The message type.
    type Frame;

    /// The next message of a class, with its cost in bytes. With `None` the scheduler forgets the
    /// flow: in the same step, under the same lock, the flow notes that it is not listed any more, so
    /// that the next message for the flow lists it again.
    fn pull(&self, class: Class, now: Instant) -> Option<(Self::Frame, u64)>;

    /// The bytes of payloads that the flow was served. It outlives the listing.
    fn tally(&self) -> &Tally;
}

/// The bytes that a flow was served in this round of its scheduler and in the last one. Written by the
/// one connection that serves the flow.
#[derive(Debug, Default)]
pub struct Tally {
    round: AtomicU64,
    bytes: AtomicU64,
    before: AtomicU64,
}

impl Tally {
    /// The bytes of this round and the last one.
    fn served(&self, round: u64) -> u64 {
        let bytes = self.bytes.load(Ordering::Relaxed);
        match round.wrapping_sub(self.round.load(Ordering::Relaxed)) {
            0 => bytes.saturating_add(self.before.load(Ordering::Relaxed)),
            1 => bytes,
            _ => 0,
        }
    }

    fn add(&self, round: u64, bytes: u64) {
        let known = self.round.load(Ordering::Relaxed);
        if known == round {
            self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
            return;
        }
        let is_next = round.wrapping_sub(known) == 1;
        let before = if is_next { self.bytes.load(Ordering::Relaxed) } else { 0 };
        self.before.store(before, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.round.store(round, Ordering::Relaxed);
    }
}

/// The ready list of one connection.
#[derive(Debug)]
pub struct Scheduler<S> {
    acks: VecDeque<S>,
    /// Flows with payloads that were served little of late.
    sparse: VecDeque<S>,
    payloads: VecDeque<Listed<S>>,
    /// A number that goes up when all listed flows could have had a turn.
    round: u64,
    /// Bytes of payloads served in this round.
    served: u64,
    /// Bytes of acks that may be served while payloads wait; each byte of payloads adds a third of a
    /// byte.
    ack_credit: i64,
}

#[derive(Debug)]
struct Listed<S> {
    source: S,
    /// Bytes that the flow may still be served in its turn; negative if it owes bytes.
    deficit: i64,
}

impl<S> Default for Scheduler<S> {
    fn default() -> Self {
        Self {
            acks: VecDeque::new(),
            sparse: VecDeque::new(),
            payloads: VecDeque::new(),
            round: 2,
            served: 0,
            ack_credit: ACK_CREDIT,
        }
    }
}

impl<S: Source> Scheduler<S> {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists a flow that has messages of a class. A flow is listed once per class, and keeps track of
    /// that itself (see [`Source::pull`]).
    pub fn list(&mut self, class: Class, source: S) {
        match class {
            Class::Ack => self.acks.push_back(source),
            Class::Payload if source.tally().served(self.round) < SPARSE => {
                self.sparse.push_back(source);
            }
            Class::Payload => self.payloads.push_back(Listed { source, deficit: 0 }),
        }
    }

    /// The next message to write. `None` if no flow is ready.
    pub fn next(&mut self, now: Instant) -> Option<S::Frame> {
        if (self.ack_credit > 0 || !self.has_payloads())
            && let Some(frame) = self.next_ack(now)
        {
            return Some(frame);
        }
        self.next_payload(now).or_else(|| self.next_ack(now))
    }

    /// The next ack, for a connection that carries nothing else.
    pub fn next_ack(&mut self, now: Instant) -> Option<S::Frame> {
        while let Some(source) = self.acks.pop_front() {
            let Some((frame, cost)) = source.pull(Class::Ack, now) else { continue };
            if self.has_payloads() {
                self.ack_credit -= cost as i64;
            }
            self.acks.push_back(source);
            return Some(frame);
        }
        None
    }

    /// True if nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.acks.is_empty() && !self.has_payloads()
    }

    /// The number of flows with payloads.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.sparse.len() + self.payloads.len()
    }

    fn has_payloads(&self) -> bool {
        !self.sparse.is_empty() || !self.payloads.is_empty()
    }

    /// Takes all flows out, when the connection closes.
    pub fn drain(&mut self) -> impl Iterator<Item = (Class, S)> + '_ {
        let payloads = self.payloads.drain(..).map(|listed| listed.source);
        let payloads = self.sparse.drain(..).chain(payloads).map(|source| (Class::Payload, source));
        self.acks.drain(..).map(|source| (Class::Ack, source)).chain(payloads)
    }

    fn next_payload(&mut self, now: Instant) -> Option<S::Frame> {
        if let Some(frame) = self.next_sparse(now) {
            return Some(frame);
        }
        loop {
            let flow = self.payloads.front_mut()?;
            if flow.deficit <= 0 {
                // The turn begins, or the flow owes more than a turn gives.
                flow.deficit += QUANTUM;
                if flow.deficit <= 0 {
                    self.payloads.rotate_left(1);
                    continue;
                }
            }
            let Some((frame, cost)) = flow.source.pull(Class::Payload, now) else {
                self.payloads.pop_front();
                continue;
            };
            flow.source.tally().add(self.round, cost);
            flow.deficit -= cost as i64;
            let over = flow.deficit <= 0;
            if over {
                self.payloads.rotate_left(1);
            }
            self.count(cost);
            return Some(frame);
        }
    }

    /// The next payload of a flow that sends little. A flow that sends more takes turns with the
    /// others from then on.
    fn next_sparse(&mut self, now: Instant) -> Option<S::Frame> {
        while let Some(source) = self.sparse.pop_front() {
            let Some((frame, cost)) = source.pull(Class::Payload, now) else { continue };
            source.tally().add(self.round, cost);
            let served = source.tally().served(self.round);
            if served < SPARSE {
                self.sparse.push_back(source);
            } else {
                // The flow has used this much of its turn.
                self.payloads.push_back(Listed { source, deficit: QUANTUM - served as i64 });
            }
            self.count(cost);
            return Some(frame);
        }
        None
    }

    fn count(&mut self, cost: u64) {
        self.ack_credit = (self.ack_credit + cost as i64 / 3).min(ACK_CREDIT);
        self.served += cost;
        // A round counts all listed flows: if many small flows could end it, they would never count as
        // busy.
        if self.served >= QUANTUM as u64 * self.flows().max(1) as u64 {
            self.served = 0;
            self.round += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    /// A flow with a number of frames of each class, all of one cost.
    struct Fake {
        name: usize,
        cost: u64,
        left: RefCell<[usize; 2]>,
        listed: Cell<bool>,
        tally: Tally,
    }

    impl Source for Rc<Fake> {
        type Frame = (usize, Class, u64);

        fn pull(&self, class: Class, _: Instant) -> Option<(Self::Frame, u64)> {
            let left = &mut self.left.borrow_mut()[(class == Class::Payload) as usize];
            let Some(less) = left.checked_sub(1) else {
                self.listed.set(self.listed.get() && class == Class::Ack);
                return None;
            };
            *left = less;
            Some(((self.name, class, self.cost), self.cost))
        }

        fn tally(&self) -> &Tally {
            &self.tally
        }
    }

    fn fake(name: usize, cost: u64, acks: usize, payloads: usize) -> Rc<Fake> {
        Rc::new(Fake {
            name,
            cost,
            left: RefCell::new([acks, payloads]),
            listed: Cell::new(payloads > 0),
            tally: Tally::default(),
        })
    }

    /// Gives a flow one more payload.
    fn give(scheduler: &mut Scheduler<Rc<Fake>>, flow: &Rc<Fake>) {
        flow.left.borrow_mut()[1] += 1;
        if !flow.listed.replace(true) {
            scheduler.list(Class::Payload, Rc::clone(flow));
        }
    }

    fn listed(flows: &[Rc<Fake>]) -> Scheduler<Rc<Fake>> {
        let mut scheduler = Scheduler::new();
        for flow in flows {
            let [acks, payloads] = *flow.left.borrow();
            if acks > 0 {
                scheduler.list(Class::Ack, flow.clone());
            }
            if payloads > 0 {
                scheduler.list(Class::Payload, flow.clone());
            }
        }
        scheduler
    }

    #[test]
    fn large_and_small_payloads_get_the_same_bytes() {
        let flows = [fake(0, 33_024, 0, 9999), fake(1, 300, 0, 9999), fake(2, 10_496, 0, 9999)];
        let mut scheduler = listed(&flows);
        let mut bytes = [0u64; 3];
        while bytes.iter().sum::<u64>() < 3_000_000 {
            let (name, _, cost) = scheduler.next(Instant::now()).unwrap();
            bytes[name] += cost;
        }
        let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
        assert!(most - least <= 2 * QUANTUM as u64 + 33_024, "{bytes:?}");
    }

    #[test]
    fn acks_go_first_and_take_a_quarter_while_payloads_wait() {
        let flows = [fake(0, 1000, 99_999, 0), fake(1, 1000, 0, 999)];
        let mut scheduler = listed(&flows);
        assert_eq!(scheduler.next(Instant::now()).unwrap().1, Class::Ack);
        let (mut acks, mut payloads) = (0, 0);
        while payloads < 999 {
            match scheduler.next(Instant::now()).unwrap().1 {
                Class::Ack => acks += 1,
                Class::Payload => payloads += 1,
            }
        }
        assert!((300..370).contains(&acks), "{acks} acks beside {payloads} payloads");
        assert_eq!(scheduler.next(Instant::now()).unwrap().1, Class::Ack);
        assert_eq!(scheduler.flows(), 1, "that it is empty shows when it is asked");
    }

    #[test]
    fn a_frame_far_over_the_quantum_waits_out_its_debt() {
        let flows = [fake(0, 5 * QUANTUM as u64, 0, 2), fake(1, QUANTUM as u64, 0, 20)];
        let mut scheduler = listed(&flows);
        let order: Vec<_> = (0..7).map(|_| scheduler.next(Instant::now()).unwrap().0).collect();
        assert_eq!(order, [0, 1, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn a_flow_that_sends_little_does_not_wait_for_those_that_send_much() {
        let mut flows: Vec<_> = (1..=50).map(|name| fake(name, 33_024, 0, 9999)).collect();
        let mut scheduler = listed(&flows);
        // Everybody has had several turns.
        (0..500).for_each(|_| assert!(scheduler.next(Instant::now()).is_some()));
        flows.push(fake(0, 356, 0, 0));
        let ping = flows.last().unwrap();
        for _ in 0..100 {
            give(&mut scheduler, ping);
            let waited = (0..).find(|_| scheduler.next(Instant::now()).unwrap().0 == 0).unwrap();
            assert!(waited <= 1, "{waited}");
            (0..50).for_each(|_| assert!(scheduler.next(Instant::now()).is_some()));
        }
    }

    #[test]
    fn who_lists_anew_for_each_payload_gets_no_more_than_the_others() {
        let steady = fake(1, 4_000, 0, 99_999);
        let sly = fake(0, 4_000, 0, 0);
        let mut scheduler = listed(std::slice::from_ref(&steady));
        let mut served = [0_u64; 2];
        for _ in 0..20_000 {
            if sly.left.borrow()[1] == 0 {
                give(&mut scheduler, &sly);
            }
            let (name, _, cost) = scheduler.next(Instant::now()).unwrap();
            served[name] += cost;
        }
        assert!(served[0] <= served[1] * 11 / 10, "{served:?}");
    }

    #[test]
    fn many_busy_flows_of_small_payloads_leave_others_their_share() {
        for small in [8, 9, 12, 50, 300] {
            let mut flows = vec![fake(0, 33_024, 0, 99_999)];
            flows.extend((1..=small).map(|name| fake(name, 1_300, 0, 99_999)));
            let mut scheduler = listed(&flows);
            let (mut bytes, mut changes, mut last) = (vec![0u64; small + 1], 0, 0);
            for _ in 0..100_000 {
                let (name, _, cost) = scheduler.next(Instant::now()).unwrap();
                bytes[name] += cost;
                changes += usize::from(name != last);
                last = name;
            }
            let share = bytes.iter().sum::<u64>() / (small as u64 + 1);
            assert!(bytes[0] >= share / 2, "{} of {share} beside {small}", bytes[0]);
            // Frames of one flow go together, which is cheaper for everybody behind.
            assert!(changes <= 20_000, "{changes} changes of flow beside {small}");
        }
    }

    proptest! {
        #[test]
        fn everything_is_served_and_nobody_waits_long(
            sizes in prop::collection::vec((1u64..70_000, 0usize..20, 0usize..40), 1..12)
        ) {
            let flows: Vec<_> = sizes.iter().enumerate()
                .map(|(name, (cost, acks, payloads))| fake(name, *cost, *acks, *payloads)).collect();
            let total: usize = sizes.iter().map(|(_, acks, payloads)| acks + payloads).sum();
            let mut scheduler = listed(&flows);
            let mut served = 0;
            while scheduler.next(Instant::now()).is_some() {
                served += 1;
            }
            prop_assert_eq!(served, total);
            prop_assert!(scheduler.is_empty());
        }
    }
}
