use std::cell::{Cell, RefCell};
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

/// A flow with a number of frames of each class, all of one cost.
struct Fake {
    name: usize,
    cost: u64,
    left: RefCell<[usize; 2]>,
    listed: Cell<bool>,
    near: bool,
    tally: Tally,
}

impl FlowSource for Rc<Fake> {
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

    fn is_near(&self) -> bool {
        self.near
    }
}

fn fake(name: usize, cost: u64, acks: usize, payloads: usize) -> Rc<Fake> {
    flow(name, cost, acks, payloads, false)
}

fn flow(name: usize, cost: u64, acks: usize, payloads: usize, near: bool) -> Rc<Fake> {
    Rc::new(Fake {
        name,
        cost,
        left: RefCell::new([acks, payloads]),
        listed: Cell::new(payloads > 0),
        near,
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

/// The names of the flows of the payloads that are served at `now`, which take their place in the crowd.
fn served(scheduler: &mut Scheduler<Rc<Fake>>, crowd: &Crowd, now: Instant) -> Vec<usize> {
    let names = std::iter::from_fn(|| {
        let (name, _, cost) = scheduler.next(now)?;
        crowd.sent(cost, now);
        Some(name)
    });
    names.take(1000).collect()
}

#[test]
fn flows_with_short_paths_wait_in_turn_while_the_crowd_is_full() {
    let now = Instant::now();
    let crowd = Arc::new(Crowd::new(now, || {}));
    let mut scheduler = Scheduler::with_crowd(Arc::clone(&crowd));
    let flows: Vec<_> = (0..50).map(|name| flow(name, 33_024, 0, 99, true)).collect();
    flows.iter().for_each(|flow| scheduler.list(Class::Payload, Rc::clone(flow)));
    // A flow that was not served yet may send one payload: it could be one that sends little.
    assert_eq!(served(&mut scheduler, &crowd, now), Vec::from_iter(0..50));
    (0..50).for_each(|_| crowd.arrived(33_024, now, now));
    assert_eq!(served(&mut scheduler, &crowd, now), Vec::from_iter(0..16), "half a MiB");
    assert!(scheduler.held_until(now).is_some_and(|at| at > now) && !scheduler.is_empty());
    // Flows with long paths go on.
    scheduler.list(Class::Payload, flow(100, 33_024, 0, 3, false));
    assert_eq!(served(&mut scheduler, &crowd, now), [100, 100, 100]);
    // Each ack makes room for the next one in turn.
    let mut order = Vec::new();
    for _ in 0..103 {
        crowd.arrived(33_024, now, now);
        order.extend(served(&mut scheduler, &crowd, now));
    }
    let next: Vec<_> = (16..50).chain(0..50).chain(0..50).take(order.len()).collect();
    assert_eq!(order, next);
    assert!(order.len() >= 90, "{}", order.len());
    // A flow that sends little goes on, too. Half as much is on the way beside it.
    scheduler.list(Class::Payload, flow(101, 300, 0, 1, true));
    assert_eq!(served(&mut scheduler, &crowd, now), [101]);
    for round in 0..16 {
        crowd.arrived(33_024, now, now);
        let count = served(&mut scheduler, &crowd, now).len();
        assert!((round > 7) == (count > 0), "{round}: {count}");
    }
}

#[test]
fn a_flow_that_waits_in_its_turn_has_the_rest_of_it_later() {
    let now = Instant::now();
    let crowd = Arc::new(Crowd::new(now, || {}));
    let mut scheduler = Scheduler::with_crowd(Arc::clone(&crowd));
    let flows = [flow(0, 1_300, 0, 9999, true), flow(1, 1_300, 0, 9999, true)];
    flows.iter().for_each(|flow| scheduler.list(Class::Payload, Rc::clone(flow)));
    let mut served_of = [0_u64; 2];
    for _ in 0..5000 {
        let names = served(&mut scheduler, &crowd, now);
        names.iter().for_each(|name| served_of[*name] += 1);
        // Acks of an odd number of bytes end the wait in the middle of turns.
        crowd.arrived(7_777, now, now);
    }
    let (least, most) = (served_of[0].min(served_of[1]), served_of[0].max(served_of[1]));
    assert!(most - least <= 60 && most > 1000, "{served_of:?}");
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
