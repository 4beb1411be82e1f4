//! Several fast circuits cross one slow link: each gets its share, the link stays full, queues stay
//! short and hardly anything is sent twice.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_limits::Budget;
use weft_wire::payload::{Ack, Flags, Payload};

use crate::{
    Alarm, Class, Delivery, End, FlowSource, Options, PAYLOAD_SIZE, Pushed, Role, Scheduler, Tally,
    TransitQueue, WindowKind, cost,
};

/// Bytes per second of the link that all share.
const RATE: u64 = 50_000_000;

/// From the senders to the router, and from the router to the receivers and back.
const NEAR: Duration = Duration::from_micros(100);
const FAR: Duration = Duration::from_millis(10);

/// A circuit: its ends, and its queue at the router between them.
struct Circuit {
    sender: End,
    receiver: End,
    alarm: Alarm,
    hop: Rc<RefCell<SimulatedHop>>,
    tally: Rc<Tally>,
    payload: usize,
    /// Bytes that were read, and payloads that were sent and resent.
    read: u64,
    sent: u64,
    resent: u64,
}

struct SimulatedHop {
    circuit: usize,
    queue: TransitQueue<Payload>,
    listed: bool,
    dropped: u64,
    longest: u64,
}

/// A hop as the router's scheduler sees it.
struct Listed(Rc<RefCell<SimulatedHop>>, Rc<Tally>);

impl FlowSource for Listed {
    type Frame = (usize, Payload);

    fn pull(&self, _: Class, _: Instant) -> Option<(Self::Frame, u64)> {
        let hop = &mut *self.0.borrow_mut();
        let waiting = hop.queue.pop();
        hop.listed = waiting.is_some();
        waiting.map(|w| ((hop.circuit, w.frame), cost(w.len)))
    }

    fn tally(&self) -> &Tally {
        &self.1
    }
}

enum Event {
    AtRouter(usize, Payload),
    AtReceiver(usize, Payload),
    AtSender(usize, Ack),
    LinkFree,
    Start(usize),
    Due(usize, Instant),
}

struct Crossing {
    now: Instant,
    circuits: Vec<Circuit>,
    scheduler: Scheduler<Listed>,
    link_busy: bool,
    events: BTreeMap<(Instant, u64), Event>,
    serial: u64,
}

impl Crossing {
    fn new(window: WindowKind, link_budget: u64, payloads: &[usize]) -> Self {
        let now = Instant::now();
        let link = Budget::new(link_budget);
        let options = Options { window, ..Options::default() };
        let circuits = payloads.iter().enumerate().map(|(circuit, payload)| {
            let hop = SimulatedHop {
                circuit,
                queue: TransitQueue::new(&link),
                listed: false,
                dropped: 0,
                longest: 0,
            };
            Circuit {
                sender: End::new(Role::Initiator, &options, &Budget::unlimited(), now),
                receiver: End::new(Role::Terminator, &options, &Budget::unlimited(), now),
                alarm: Alarm::default(),
                hop: Rc::new(RefCell::new(hop)),
                tally: Rc::default(),
                payload: *payload,
                read: 0,
                sent: 0,
                resent: 0,
            }
        });
        let mut crossing = Self {
            now,
            circuits: circuits.collect(),
            scheduler: Scheduler::new(),
            link_busy: false,
            events: BTreeMap::new(),
            serial: 0,
        };
        for circuit in 0..payloads.len() {
            crossing.after(Duration::from_millis(circuit as u64), Event::Start(circuit));
        }
        crossing
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.serial += 1;
        self.events.insert((self.now + delay, self.serial), event);
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(((at, _), event)) = self.events.pop_first() {
            if at >= end {
                return;
            }
            self.now = at;
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Start(i) => self.send(i),
            Event::Due(i, at) => {
                let circuit = &mut self.circuits[i];
                if circuit.alarm.fires(at) {
                    circuit.sender.on_timeout(now);
                    self.send(i);
                }
            }
            Event::AtSender(i, ack) => {
                self.circuits[i].sender.on_ack(&ack, now);
                self.send(i);
            }
            Event::AtRouter(i, payload) => {
                let hop = self.circuits[i].hop.clone();
                let mut held = hop.borrow_mut();
                let pushed = held.queue.push(payload.sequence, payload.data.len(), payload);
                held.dropped += u64::from(pushed == Pushed::Dropped);
                held.longest = held.longest.max(held.queue.bytes());
                if held.queue.has_payloads() && !std::mem::replace(&mut held.listed, true) {
                    let tally = self.circuits[i].tally.clone();
                    let listed = Listed(hop.clone(), tally);
                    self.scheduler.list(Class::Payload, listed);
                }
                drop(held);
                self.serve_link();
            }
            Event::LinkFree => {
                self.link_busy = false;
                self.serve_link();
            }
            Event::AtReceiver(i, payload) => {
                let circuit = &mut self.circuits[i];
                circuit.receiver.on_payload(payload, now);
                while let Some(delivery) = circuit.receiver.read() {
                    let Delivery::Data { data, .. } = delivery else { continue };
                    circuit.read += data.len() as u64;
                }
                while circuit.receiver.poll_transmit(now).is_some() {}
                if let Some(ack) = circuit.receiver.poll_ack() {
                    self.after(FAR + NEAR, Event::AtSender(i, ack));
                }
            }
        }
    }

    fn send(&mut self, i: usize) {
        let circuit = &mut self.circuits[i];
        let mut out = Vec::new();
        loop {
            while circuit.sender.can_write() {
                circuit.sender.write(Bytes::from(vec![0; circuit.payload])).unwrap();
            }
            if !circuit.sender.wants_transmit() {
                break;
            }
            let Some(payload) = circuit.sender.poll_transmit(self.now) else { continue };
            circuit.sent += 1;
            circuit.resent += u64::from(payload.flags.has(Flags::RETRANSMIT));
            out.push(payload);
        }
        let due = circuit.sender.deadline().and_then(|at| circuit.alarm.want(at));
        for payload in out {
            self.after(NEAR, Event::AtRouter(i, payload));
        }
        if let Some(at) = due {
            self.after(at.saturating_duration_since(self.now), Event::Due(i, at));
        }
    }

    fn serve_link(&mut self) {
        if self.link_busy {
            return;
        }
        let Some((i, payload)) = self.scheduler.next(self.now) else { return };
        self.link_busy = true;
        let busy = cost(payload.data.len()) * 1_000_000_000 / RATE;
        let busy = Duration::from_nanos(busy);
        self.after(busy, Event::LinkFree);
        self.after(busy + FAR, Event::AtReceiver(i, payload));
    }

    /// The part of the link's rate that was used, and the smallest rate of a circuit as a part of
    /// an equal share.
    fn result(&self, time: Duration) -> (f64, f64) {
        let costs = self
            .circuits
            .iter()
            .map(|c| (c.read as f64) * cost(c.payload) as f64 / c.payload as f64);
        let costs: Vec<f64> = costs.collect();
        let could = RATE as f64 * time.as_secs_f64();
        let least = costs.iter().copied().fold(f64::MAX, f64::min);
        (costs.iter().sum::<f64>() / could, least * costs.len() as f64 / could)
    }

    fn sent_twice(&self) -> f64 {
        let (sent, resent) =
            self.circuits.iter().fold((0, 0), |(s, r), c| (s + c.sent, r + c.resent));
        resent as f64 / sent as f64
    }

    fn longest_queue(&self) -> u64 {
        self.circuits.iter().map(|c| c.hop.borrow().longest).max().unwrap_or(0)
    }

    fn dropped(&self) -> u64 {
        self.circuits.iter().map(|c| c.hop.borrow().dropped).sum()
    }
}

const TIME: Duration = Duration::from_secs(5);

#[test]
fn fast_circuits_share_a_slow_link() {
    for window in [WindowKind::Adaptive, WindowKind::Fixed(512 << 10)] {
        let payloads = [PAYLOAD_SIZE, PAYLOAD_SIZE, 10_240, PAYLOAD_SIZE, 1_400, PAYLOAD_SIZE];
        let mut crossing = Crossing::new(window, 64 << 20, &payloads);
        crossing.run(TIME);
        let (carried, least) = crossing.result(TIME);
        assert!(carried > 0.93, "{window:?}: the link carried {carried:.2}");
        assert!(least > 0.8, "{window:?}: the smallest share is {least:.2} of an equal one");
        assert_eq!((crossing.dropped(), crossing.sent_twice()), (0, 0.0), "{window:?}");
    }
}

#[test]
fn the_adaptive_window_keeps_the_queue_of_a_lone_circuit_short() {
    let mut crossing = Crossing::new(WindowKind::Adaptive, 64 << 20, &[PAYLOAD_SIZE]);
    crossing.run(TIME);
    let (carried, _) = crossing.result(TIME);
    assert!(carried > 0.93, "the link carried {carried:.2}");
    let on_the_way = RATE / 50;
    let window = crossing.circuits[0].sender.window().size();
    assert!(window < on_the_way * 5 / 2, "a window of {window}, {on_the_way} are on their way");
}

#[test]
fn a_short_budget_loses_some_and_does_not_collapse() {
    let payloads = [PAYLOAD_SIZE; 8];
    let mut crossing = Crossing::new(WindowKind::Adaptive, 1 << 20, &payloads);
    crossing.run(TIME);
    let (carried, least) = crossing.result(TIME);
    let twice = crossing.sent_twice();
    assert!(crossing.dropped() > 0 && crossing.longest_queue() <= 512 << 10);
    assert!(carried > 0.85, "the link carried {carried:.2}, {twice:.2} sent twice");
    assert!(least > 0.4, "the smallest share is {least:.2} of an equal one");
    assert!(twice < 0.2, "{twice:.2} sent twice");
}
