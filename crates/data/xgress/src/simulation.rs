//! Two ends with slow readers, joined by a simulated link that loses, reorders, delays and repeats
//! payloads: all data arrives once and in order, memory stays bounded, and the circuit ends.

mod crossing;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use weft_limits::Budget;
use weft_wire::payload::{Ack, Flags, Payload};

use crate::{
    CircuitCloseReason, Delivery, End, ITEM_COST, Options, Role, SEND_SLACK, WindowKind, cost,
};

/// The properties of a simulated link.
#[derive(Debug, Clone)]
struct Link {
    /// Bytes per second.
    rate: u64,
    delay: Duration,
    /// The most delay that is added at random.
    jitter: Duration,
    /// Of 1000 payloads or acks, the number that is lost, and the number that arrives twice.
    loss: u32,
    twice: u32,
    /// Payloads that find more than this many bytes queued are dropped.
    queue: u64,
}

/// How a peer of the original behaves that is older than the newest.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    Weft,
    /// One sequence per ack; the end-of-data flag is neither announced nor used.
    Old,
}

/// The behaviour of one side of the circuit.
#[derive(Debug, Clone)]
struct Plan {
    manner: Manner,
    /// Lengths of the payloads that the side writes before it ends its direction.
    writes: Vec<usize>,
    /// The time between two deliveries that the side reads.
    read_every: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Crossing {
    Payload(i32, u32, u16, Vec<(u8, Bytes)>, Bytes),
    Ack(u32, u32, u16, Vec<i32>),
}

struct Side {
    end: End,
    plan: Plan,
    budget: Budget,
    written: usize,
    finished: bool,
    /// Bytes and payloads read so far.
    read: Vec<usize>,
    fin: bool,
    closed: Option<CircuitCloseReason>,
    next_read: Instant,
    /// True if there may be data to read.
    curious: bool,
    /// The time at which the link towards the peer is free again.
    link_free: Instant,
    /// Highest memory seen.
    most: u64,
    transmitted: u64,
    resent: u64,
}

struct World {
    now: Instant,
    start: Instant,
    sides: [Side; 2],
    link: Link,
    /// Arrival time, tie-breaker, receiving side.
    crossing: BinaryHeap<Reverse<(Instant, u64, usize, Crossing)>>,
    serial: u64,
    random: u64,
    options: Options,
}

impl World {
    fn new(options: &Options, link: Link, plans: [Plan; 2], seed: u64) -> Self {
        let now = Instant::now();
        let mut roles = [Role::Initiator, Role::Terminator].into_iter();
        let sides = plans.map(|plan| {
            let budget = Budget::unlimited();
            let role = roles.next().unwrap();
            Side {
                end: End::new(role, options, &budget, now),
                plan,
                budget,
                written: 0,
                finished: false,
                read: Vec::new(),
                fin: false,
                closed: None,
                next_read: now,
                curious: true,
                link_free: now,
                most: 0,
                transmitted: 0,
                resent: 0,
            }
        });
        Self {
            now,
            start: now,
            sides,
            link,
            crossing: BinaryHeap::new(),
            serial: 0,
            random: seed | 1,
            options: options.clone(),
        }
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Runs until both are closed and have read everything, or time is up.
    fn run(&mut self, limit: Duration) {
        while self.now < self.start + limit {
            (0..2).for_each(|i| self.act(i));
            if self.sides.iter().all(|side| side.closed.is_some()) {
                return;
            }
            let Some(next) = self.next_event() else { return };
            self.now = next.max(self.now + Duration::from_nanos(1));
            self.arrive();
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let arrival = self.crossing.peek().map(|Reverse((at, ..))| *at);
        let sides = self.sides.iter().filter(|side| side.closed.is_none()).flat_map(|side| {
            let reads = (side.curious && side.next_read > self.now).then_some(side.next_read);
            let link =
                (side.end.wants_transmit() && side.link_free > self.now).then_some(side.link_free);
            [side.end.deadline(), reads, link]
        });
        sides.flatten().chain(arrival).min()
    }

    fn act(&mut self, i: usize) {
        let now = self.now;
        let side = &mut self.sides[i];
        if side.end.deadline().is_some_and(|deadline| deadline <= now) {
            side.end.on_timeout(now);
            side.curious = true;
        }
        while side.end.can_write() && side.written < side.plan.writes.len() {
            let len = side.plan.writes[side.written];
            let fill = (side.written % 251) as u8;
            side.end.write(Bytes::from(vec![fill; len])).unwrap();
            side.written += 1;
        }
        if side.written == side.plan.writes.len() && !side.finished && side.end.can_write() {
            side.finished = true;
            side.end.finish(now);
        }
        if side.curious && side.next_read <= now {
            side.next_read = now + side.plan.read_every;
            match side.end.read() {
                Some(Delivery::Data { data, .. }) => {
                    let expected = (side.read.len() % 251) as u8;
                    assert!(!side.fin && data.iter().all(|b| *b == expected), "out of order");
                    side.read.push(data.len());
                }
                Some(Delivery::Fin { .. }) => assert!(!std::mem::replace(&mut side.fin, true)),
                Some(Delivery::Closed(reason)) => side.closed = Some(reason),
                None => side.curious = false,
            }
        }
        self.send(i);
        let side = &mut self.sides[i];
        side.most = side.most.max(side.budget.used());
    }

    fn send(&mut self, i: usize) {
        let now = self.now;
        let old = self.sides[i].plan.manner == Manner::Old;
        while let Some(ack) = self.sides[i].end.poll_ack() {
            let Ack { flags, recv_buffer_size, stamp, sequences } = ack;
            let each: Vec<Vec<i32>> = match old && !sequences.is_empty() {
                true => sequences.iter().map(|s| vec![*s]).collect(),
                false => vec![sequences],
            };
            for sequences in each {
                let ack = Crossing::Ack(flags.0, recv_buffer_size, stamp, sequences);
                self.cross(i, now, ack);
            }
        }
        // Nothing is taken from the end before the link has room.
        while self.sides[i].link_free <= now {
            let side = &mut self.sides[i];
            let Some(payload) = side.end.poll_transmit(now) else { break };
            side.transmitted += 1;
            side.resent += u64::from(payload.flags.has(Flags::RETRANSMIT));
            let len = payload.data.len() as u64 + 80;
            let busy = Duration::from_nanos(len * 1_000_000_000 / self.link.rate);
            // A little is queued below, as in a socket.
            let slack = Duration::from_nanos(self.link.queue * 1_000_000_000 / self.link.rate);
            let leaves = side.link_free.max(now) + busy;
            side.link_free = if leaves > now + slack { leaves } else { side.link_free.max(now) };
            let Payload { sequence, mut flags, stamp, mut headers, data } = payload;
            if old {
                headers.retain(|(key, _)| *key != 1);
                if flags.has(Flags::EOF) {
                    flags = flags.without(Flags::EOF) | Flags::CIRCUIT_END;
                }
            }
            let payload = Crossing::Payload(sequence, flags.0, stamp, headers, data);
            self.cross(i, leaves, payload);
        }
    }

    fn cross(&mut self, from: usize, leaves: Instant, what: Crossing) {
        let times = match (self.random() % 1000) as u32 {
            n if n < self.link.loss => 0,
            n if n < self.link.loss + self.link.twice => 2,
            _ => 1,
        };
        for _ in 0..times {
            let jitter = self.random() % (self.link.jitter.as_nanos() as u64 + 1);
            let at = leaves + self.link.delay + Duration::from_nanos(jitter);
            self.serial += 1;
            self.crossing.push(Reverse((at, self.serial, 1 - from, what.clone())));
        }
    }

    fn arrive(&mut self) {
        while self.crossing.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
            let Some(Reverse((_, _, to, what))) = self.crossing.pop() else { return };
            let end = &mut self.sides[to].end;
            match what {
                Crossing::Payload(sequence, flags, stamp, headers, data) => {
                    let flags = Flags(flags);
                    let payload = Payload { sequence, flags, stamp, headers, data };
                    end.on_payload(payload, self.now);
                }
                Crossing::Ack(flags, recv_buffer_size, stamp, sequences) => {
                    let flags = Flags(flags);
                    let ack = Ack { flags, recv_buffer_size, stamp, sequences };
                    end.on_ack(&ack, self.now);
                }
            }
            let side = &mut self.sides[to];
            side.curious = true;
            side.most = side.most.max(side.budget.used());
        }
    }

    /// Checks that each side has read all that the other one wrote, that both have ended, and that no
    /// memory is held.
    fn check(&self) {
        for (i, side) in self.sides.iter().enumerate() {
            let peer = &self.sides[1 - i];
            assert_eq!(side.written, side.plan.writes.len(), "side {i} wrote everything");
            assert_eq!(peer.read, side.plan.writes, "all that side {i} wrote was read");
            assert!(side.fin, "side {i} saw the end of data");
            assert!(
                matches!(
                    side.closed,
                    Some(CircuitCloseReason::Finished | CircuitCloseReason::PeerClosed)
                ),
                "side {i}: {:?}",
                side.closed
            );
            assert_eq!(side.budget.used(), 0);
            let largest = side.plan.writes.iter().copied().max().unwrap_or(0) as u64;
            let sends = self.options.tx_max_size + SEND_SLACK as u64 + 4 * cost(0) + largest;
            // Bookkeeping of small payloads comes on top of the receive buffer's bytes.
            let receives = (self.options.rx_buffer_size + largest) * (ITEM_COST as u64 + 1);
            assert!(side.most <= sends + receives.min(40 << 20), "side {i} held {}", side.most);
        }
    }
}

fn any_link() -> impl Strategy<Value = Link> {
    (100_000u64..100_000_000, 0u64..80, 0u64..40, 0u32..150, 0u32..100, 10_000u64..500_000)
        .prop_map(|(rate, delay, jitter, loss, twice, queue)| Link {
            rate,
            delay: Duration::from_millis(delay),
            jitter: Duration::from_millis(jitter),
            loss,
            twice,
            queue,
        })
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let len = prop_oneof![1usize..200, 1usize..40_000, Just(32 * 1024)];
    let manner = prop_oneof![Just(Manner::Weft), Just(Manner::Old)];
    (manner, prop::collection::vec(len, 0..60), 1u64..5_000).prop_map(|(manner, writes, micros)| {
        Plan { manner, writes, read_every: Duration::from_micros(micros) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// An end that closes gives up after a while without acks; on links this bad that would happen
    /// now and then, so it waits longer here.
    #[test]
    fn everything_arrives_once_and_in_order(
        link in any_link(), a in any_plan(), b in any_plan(), seed in any::<u64>(),
        small in any::<bool>(), adaptive in any::<bool>(),
    ) {
        let window = if adaptive { WindowKind::Adaptive } else { WindowKind::Fixed(512 << 10) };
        let max_close_wait = Duration::from_secs(300);
        let mut options = Options { window, max_close_wait, ..Options::default() };
        if small {
            options.rx_buffer_size = 64 << 10;
            options.tx_max_size = 128 << 10;
        }
        let mut world = World::new(&options, link, [a, b], seed);
        world.run(Duration::from_secs(900));
        world.check();
    }
}

fn plan(payloads: usize, len: usize, read_every: Duration) -> Plan {
    Plan { manner: Manner::Weft, writes: vec![len; payloads], read_every }
}

const LAN: Link = Link {
    rate: 100_000_000,
    delay: Duration::from_micros(200),
    jitter: Duration::ZERO,
    loss: 0,
    twice: 0,
    queue: 128 << 10,
};

#[test]
fn a_clean_link_is_used_fully_without_copies() {
    for delay in [200, 5_000, 10_000] {
        let delay = Duration::from_micros(delay);
        let link = Link { delay, ..LAN };
        let quick = Duration::from_micros(10);
        let plans = [plan(2000, 32 * 1024, quick), plan(0, 0, quick)];
        let mut world = World::new(&Options::default(), link, plans, 1);
        world.run(Duration::from_secs(60));
        world.check();
        let took = (world.now - world.start).as_secs_f64();
        let ideal = 2000.0 * 32_848.0 / 100e6;
        assert!(took < ideal * 1.25 + 0.2, "{took} s instead of {ideal} at {delay:?}");
        assert_eq!(world.sides[0].resent, 0);
    }
}

#[test]
fn one_percent_lost_costs_little() {
    let link = Link { loss: 10, delay: Duration::from_millis(10), ..LAN };
    let quick = Duration::from_micros(10);
    let plans = [plan(2000, 32 * 1024, quick), plan(0, 0, quick)];
    let mut world = World::new(&Options::default(), link, plans, 7);
    world.run(Duration::from_secs(60));
    world.check();
    let took = (world.now - world.start).as_secs_f64();
    assert!(took < 2.0, "{took} s");
    let side = &world.sides[0];
    assert!(side.resent < side.transmitted / 20, "{} of {}", side.resent, side.transmitted);
}

#[test]
fn a_slow_reader_slows_the_writer_and_bounds_memory() {
    let options = Options { rx_buffer_size: 256 << 10, ..Options::default() };
    let slow = Duration::from_millis(5);
    let plans = [plan(600, 32 * 1024, slow), plan(0, 0, slow)];
    let mut world = World::new(&options, LAN, plans, 3);
    world.run(Duration::from_secs(60));
    world.check();
    // The reader's buffer, and the payloads on their way before the reader first reported that it is slow.
    let most = world.sides[1].most;
    assert!(most < (256 << 10) * 5 / 2, "the reader's side held {most}");
    // The window of a short path is larger than this buffer: payloads that did not fit were sent again.
    assert!(world.sides[0].resent < 60, "{} copies", world.sides[0].resent);
}

#[test]
fn an_idle_circuit_waits_for_nothing() {
    let quick = Duration::from_micros(100);
    let mut world =
        World::new(&Options::default(), LAN, [plan(3, 10, quick), plan(3, 10, quick)], 1);
    world.sides.iter_mut().for_each(|side| side.finished = true);
    world.run(Duration::from_secs(5));
    for side in &world.sides {
        assert_eq!(side.read.len(), 3);
        assert_eq!((side.end.deadline(), side.closed), (None, None));
    }
}
