//! Which flow a connection serves next.
//!
//! Flows that have something stand in a ready list. Payload flows are served round robin, a
//! [`QUANTUM`] of bytes each; a flow that overdraws its quantum pays in its next turn, so in the
//! long run all get the same, whatever the size of their payloads. Acks go first, but while
//! payloads wait they get at most a quarter of the bytes.
//!
//! The scheduler belongs to the writer of one connection. Others tell the writer that a flow has
//! become ready; it lists the flow here by [`Scheduler::list`].

use std::collections::VecDeque;
use std::time::Instant;

use crate::Class;

/// Bytes a flow is served before the next one.
pub const QUANTUM: i64 = 32 * 1024;

/// Acks may run ahead of their share by this much.
const ACK_CREDIT: i64 = 16 * 1024;

/// A flow as the scheduler sees it: usually a handle with a lock inside.
pub trait Source {
    /// What is pulled.
    type Frame;

    /// The next of a class, with what it costs. `None` means that the scheduler forgets the flow:
    /// in the same step, under the same lock, the flow notes that it is listed no more, so that
    /// whoever gives it something next lists it again.
    fn pull(&self, class: Class, now: Instant) -> Option<(Self::Frame, u64)>;
}

/// The ready list of one connection.
#[derive(Debug)]
pub struct Scheduler<S> {
    acks: VecDeque<S>,
    payloads: VecDeque<Listed<S>>,
    /// What acks may cost while payloads wait; a third of what payloads cost comes in.
    ack_credit: i64,
}

#[derive(Debug)]
struct Listed<S> {
    source: S,
    /// What it may still cost in its turn; negative: what it owes.
    deficit: i64,
}

impl<S> Default for Scheduler<S> {
    fn default() -> Self {
        Self { acks: VecDeque::new(), payloads: VecDeque::new(), ack_credit: ACK_CREDIT }
    }
}

impl<S: Source> Scheduler<S> {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists a flow that has something of a class. Each is listed once per class: the flow keeps
    /// track of it (see [`Source::pull`]).
    pub fn list(&mut self, class: Class, source: S) {
        match class {
            Class::Ack => self.acks.push_back(source),
            Class::Payload => self.payloads.push_back(Listed { source, deficit: 0 }),
        }
    }

    /// The next frame to write. `None` if nothing is ready.
    pub fn next(&mut self, now: Instant) -> Option<S::Frame> {
        if (self.ack_credit > 0 || self.payloads.is_empty())
            && let Some(frame) = self.next_ack(now)
        {
            return Some(frame);
        }
        self.next_payload(now).or_else(|| self.next_ack(now))
    }

    /// The next ack alone, for a connection that carries nothing else.
    pub fn next_ack(&mut self, now: Instant) -> Option<S::Frame> {
        while let Some(source) = self.acks.pop_front() {
            let Some((frame, cost)) = source.pull(Class::Ack, now) else { continue };
            if !self.payloads.is_empty() {
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
        self.acks.is_empty() && self.payloads.is_empty()
    }

    /// Flows with payloads.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.payloads.len()
    }

    /// Takes all flows out, when the connection closes.
    pub fn drain(&mut self) -> impl Iterator<Item = (Class, S)> + '_ {
        let payloads = self.payloads.drain(..).map(|listed| (Class::Payload, listed.source));
        self.acks.drain(..).map(|source| (Class::Ack, source)).chain(payloads)
    }

    fn next_payload(&mut self, now: Instant) -> Option<S::Frame> {
        loop {
            let flow = self.payloads.front_mut()?;
            if flow.deficit <= 0 {
                // Its turn begins, or it still owes more than a turn gives.
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
            flow.deficit -= cost as i64;
            let over = flow.deficit <= 0;
            if over {
                self.payloads.rotate_left(1);
            }
            self.ack_credit = (self.ack_credit + cost as i64 / 3).min(ACK_CREDIT);
            return Some(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// A flow with so many frames of each class, all of one cost.
    struct Fake {
        name: usize,
        cost: u64,
        left: RefCell<[usize; 2]>,
    }

    impl Source for Rc<Fake> {
        type Frame = (usize, Class, u64);

        fn pull(&self, class: Class, _: Instant) -> Option<(Self::Frame, u64)> {
            let left = &mut self.left.borrow_mut()[(class == Class::Payload) as usize];
            *left = left.checked_sub(1)?;
            Some(((self.name, class, self.cost), self.cost))
        }
    }

    fn fake(name: usize, cost: u64, acks: usize, payloads: usize) -> Rc<Fake> {
        Rc::new(Fake { name, cost, left: RefCell::new([acks, payloads]) })
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
