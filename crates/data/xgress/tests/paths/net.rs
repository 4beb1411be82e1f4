//! Circuits over a simulated network of queues: pure, deterministic, some minutes in a second.
//!
//! Each flow is a circuit with a busy application at one end and a quick reader at the other. Its
//! payloads cross the hops one after the other, its acks take the way back, which only takes time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_limits::Budget;
use weft_wire::payload::{Ack, Flags, Payload};
use weft_xgress::{Alarm, Crowd, Delivery, End, Options, PAYLOAD_SIZE, Role};

/// Bytes that a payload takes on the wire beyond its data.
const HEAD: u64 = 80;

/// The resolution of the clocks of programs.
const TICK: Duration = Duration::from_millis(1);

static ZEROS: [u8; PAYLOAD_SIZE] = [0; PAYLOAD_SIZE];

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A link with a queue before it: first in, first out; a payload that finds the queue full is
/// dropped.
#[derive(Debug, Clone)]
pub(crate) struct LossyLink {
    /// Bytes per second.
    pub(crate) rate: u64,
    /// The time that the link takes, beyond that in the queue.
    pub(crate) delay: Duration,
    /// Bytes that may wait.
    pub(crate) buffer: u64,
    /// Of 1000 payloads, this many are lost at random.
    pub(crate) loss: u64,
    /// True while no payload gets through.
    pub(crate) cut: bool,
}

impl LossyLink {
    pub(crate) fn new(rate: u64, delay: Duration) -> Self {
        Self { rate, delay, buffer: 64 << 20, loss: 0, cut: false }
    }
}

/// A circuit that sends as much as it may.
#[derive(Debug, Clone)]
pub(crate) struct Bulk {
    pub(crate) options: Options,
    pub(crate) payload: usize,
    /// Bytes of the first payload, as in a protocol that begins with a short request.
    pub(crate) first: usize,
    pub(crate) starts: Duration,
    /// The payloads that the application sends.
    pub(crate) count: u64,
    /// How long the receiver gathers acks; zero is one ack per payload.
    pub(crate) gathers: Duration,
    /// The most time that an ack takes longer, at random. No ack overtakes another: as between
    /// processes that wait for a processor.
    pub(crate) jitter: Duration,
}

impl Default for Bulk {
    fn default() -> Self {
        let options = Options::default();
        let none = Duration::ZERO;
        Self {
            options,
            payload: PAYLOAD_SIZE,
            first: PAYLOAD_SIZE,
            starts: none,
            count: u64::MAX,
            gathers: none,
            jitter: none,
        }
    }
}

/// A change of the network while circuits use it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    Rate(usize, u64),
    Delay(usize, Duration),
    /// The hop gets another delay; the ends are told.
    Exchanged(usize, Duration),
    Cut(usize, bool),
}

enum Event {
    Start(usize),
    Change(usize),
    Timer(usize, Instant),
    Arrive(usize, usize, Payload),
    Served(usize),
    Read(usize, Payload),
    Gathered(usize),
    Acked(usize, Ack),
    Look,
}

struct Flow {
    plan: Bulk,
    sender: End,
    receiver: End,
    alarm: Alarm,
    gathering: bool,
    /// No ack arrives before this.
    acked_until: Instant,
    running: bool,
    written: u64,
    /// Payloads that were read, and when the last one was.
    came: u64,
    ended: Option<Duration>,
    /// Bytes that were read in each slice of time.
    read: Vec<u64>,
    sent: u64,
    resent: u64,
}

struct Queue {
    link: LossyLink,
    waiting: VecDeque<(usize, Payload)>,
    bytes: u64,
    busy: bool,
}

pub(crate) struct Net {
    start: Instant,
    now: Instant,
    flows: Vec<Flow>,
    queues: Vec<Queue>,
    back: Duration,
    changes: Vec<(Duration, Change)>,
    events: BinaryHeap<Reverse<At>>,
    serial: u64,
    random: u64,
    /// The time that all queues together add, looked at regularly.
    waits: Vec<Duration>,
    /// Payloads dropped by full queues.
    pub(crate) dropped: u64,
}

struct At(Instant, u64, Event);

impl PartialEq for At {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for At {}
impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for At {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// Slices in which results are kept.
pub(crate) const SLICE: Duration = ms(20);

impl Net {
    /// Flows over hops; acks take `back`.
    pub(crate) fn new(links: Vec<LossyLink>, back: Duration, flows: Vec<Bulk>) -> Self {
        let now = Instant::now();
        let flows = flows.into_iter().map(|plan| Flow {
            sender: End::new(Role::Initiator, &plan.options, &Budget::unlimited(), now),
            receiver: End::new(Role::Terminator, &plan.options, &Budget::unlimited(), now),
            plan,
            alarm: Alarm::default(),
            gathering: false,
            acked_until: now,
            running: false,
            written: 0,
            came: 0,
            ended: None,
            read: Vec::new(),
            sent: 0,
            resent: 0,
        });
        let queues = links.into_iter().map(|link| Queue {
            link,
            waiting: VecDeque::new(),
            bytes: 0,
            busy: false,
        });
        Self {
            start: now,
            now,
            flows: flows.collect(),
            queues: queues.collect(),
            back,
            changes: Vec::new(),
            events: BinaryHeap::new(),
            serial: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            waits: Vec::new(),
            dropped: 0,
        }
    }

    /// `count` equal flows over one hop, which start within a second of each other; half of the
    /// delay is the way back.
    pub(crate) fn shared(count: usize, rate: u64, rtt: Duration) -> Self {
        let flow = |i| Bulk { starts: ms(1000 * i as u64 / count as u64), ..Bulk::default() };
        Self::new(vec![LossyLink::new(rate, rtt / 2)], rtt / 2, (0..count).map(flow).collect())
    }

    /// Has all flows send over one connection.
    pub(crate) fn joined(mut self) -> Self {
        let crowd = Arc::new(Crowd::new(self.start, || {}));
        self.flows.iter_mut().for_each(|flow| flow.sender.join(&crowd));
        self
    }

    pub(crate) fn link(&mut self, at: usize) -> &mut LossyLink {
        &mut self.queues[at].link
    }

    pub(crate) fn change(mut self, at: Duration, change: Change) -> Self {
        self.changes.push((at, change));
        self
    }

    /// Runs the network from the start.
    pub(crate) fn run(mut self, time: Duration) -> Self {
        for i in 0..self.flows.len() {
            self.after(self.flows[i].plan.starts, Event::Start(i));
        }
        for i in 0..self.changes.len() {
            self.after(self.changes[i].0, Event::Change(i));
        }
        self.after(SLICE, Event::Look);
        let end = self.start + time;
        while let Some(Reverse(At(at, _, event))) = self.events.pop() {
            if at >= end {
                break;
            }
            self.now = at;
            self.happen(event);
        }
        self
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.serial += 1;
        self.events.push(Reverse(At(self.now + delay, self.serial, event)));
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Start(i) => {
                self.flows[i].running = true;
                self.send(i);
            }
            Event::Change(i) => self.apply(self.changes[i].1),
            Event::Timer(i, at) => {
                let flow = &mut self.flows[i];
                if flow.alarm.fires(at) && flow.sender.deadline().is_some_and(|at| at <= now) {
                    flow.sender.on_timeout(now);
                }
                self.send(i);
            }
            Event::Arrive(link, i, payload) => self.enqueue(link, i, payload),
            Event::Served(link) => {
                self.queues[link].busy = false;
                self.serve(link);
            }
            Event::Read(i, payload) => self.receive(i, payload),
            Event::Gathered(i) => {
                self.flows[i].gathering = false;
                self.acknowledge(i);
            }
            Event::Acked(i, ack) => {
                self.flows[i].sender.on_ack(&ack, now);
                self.send(i);
            }
            Event::Look => {
                let wait = |q: &Queue| Duration::from_nanos(q.bytes * 1_000_000_000 / q.link.rate);
                self.waits.push(self.queues.iter().map(wait).sum());
                self.after(SLICE, Event::Look);
            }
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Rate(link, rate) => self.queues[link].link.rate = rate,
            Change::Delay(link, delay) => self.queues[link].link.delay = delay,
            Change::Exchanged(link, delay) => {
                self.queues[link].link.delay = delay;
                for i in 0..self.flows.len() {
                    self.flows[i].sender.path_changed(self.now);
                    self.send(i);
                }
            }
            Change::Cut(link, cut) => self.queues[link].link.cut = cut,
        }
    }

    fn send(&mut self, i: usize) {
        let flow = &mut self.flows[i];
        if !flow.running {
            return;
        }
        let mut out = Vec::new();
        loop {
            while flow.written < flow.plan.count && flow.sender.can_write() {
                let len = if flow.written == 0 { flow.plan.first } else { flow.plan.payload };
                flow.written += 1;
                flow.sender.write(Bytes::from_static(&ZEROS[..len])).unwrap();
            }
            if !flow.sender.wants_transmit() {
                break;
            }
            let Some(payload) = flow.sender.poll_transmit(self.now) else { continue };
            flow.sent += 1;
            flow.resent += u64::from(payload.flags.has(Flags::RETRANSMIT));
            out.push(payload);
        }
        if let Some(at) = flow.sender.deadline().and_then(|at| flow.alarm.want(at)) {
            let late = TICK.as_nanos() - (at - self.start).as_nanos() % TICK.as_nanos();
            let delay = at.saturating_duration_since(self.now);
            self.after(delay + Duration::from_nanos(late as u64), Event::Timer(i, at));
        }
        for payload in out {
            self.after(Duration::ZERO, Event::Arrive(0, i, payload));
        }
    }

    fn enqueue(&mut self, link: usize, i: usize, payload: Payload) {
        let lost = self.random() % 1000 < self.queues[link].link.loss;
        let queue = &mut self.queues[link];
        let len = payload.data.len() as u64 + HEAD;
        if lost || queue.link.cut {
            return;
        }
        if queue.bytes + len > queue.link.buffer {
            self.dropped += 1;
            return;
        }
        queue.bytes += len;
        queue.waiting.push_back((i, payload));
        self.serve(link);
    }

    fn serve(&mut self, link: usize) {
        let last = link + 1 == self.queues.len();
        let queue = &mut self.queues[link];
        if queue.busy {
            return;
        }
        let Some((i, payload)) = queue.waiting.pop_front() else { return };
        let len = payload.data.len() as u64 + HEAD;
        queue.bytes -= len;
        queue.busy = true;
        let busy = Duration::from_nanos(len * 1_000_000_000 / queue.link.rate);
        let arrives = busy + queue.link.delay;
        self.after(busy, Event::Served(link));
        let next = if last { Event::Read(i, payload) } else { Event::Arrive(link + 1, i, payload) };
        self.after(arrives, next);
    }

    fn receive(&mut self, i: usize, payload: Payload) {
        let slice = ((self.now - self.start).as_nanos() / SLICE.as_nanos()) as usize;
        let flow = &mut self.flows[i];
        flow.receiver.on_payload(payload, self.now);
        flow.read.resize(flow.read.len().max(slice + 1), 0);
        while let Some(delivery) = flow.receiver.read() {
            let Delivery::Data { data, .. } = delivery else { continue };
            flow.read[slice] += data.len() as u64 + HEAD;
            flow.came += 1;
            if flow.came == flow.plan.count {
                flow.ended = Some(self.now - self.start);
            }
        }
        while flow.receiver.poll_transmit(self.now).is_some() {}
        let gathers = flow.plan.gathers;
        if gathers.is_zero() {
            self.acknowledge(i);
        } else if !std::mem::replace(&mut flow.gathering, true) {
            self.after(gathers, Event::Gathered(i));
        }
    }

    fn acknowledge(&mut self, i: usize) {
        while let Some(ack) = self.flows[i].receiver.poll_ack() {
            let jitter = self.flows[i].plan.jitter.as_micros() as u64;
            let late = Duration::from_micros(self.random() % (jitter + 1));
            let at = (self.now + self.back + late).max(self.flows[i].acked_until);
            self.flows[i].acked_until = at;
            self.after(at - self.now, Event::Acked(i, ack));
        }
    }
}

/// The results of a run.
impl Net {
    /// When each flow had arrived as a whole; `None` for one that had not.
    pub(crate) fn ended(&self) -> Vec<Option<Duration>> {
        self.flows.iter().map(|flow| flow.ended).collect()
    }

    /// Bytes per second of each flow in this time.
    pub(crate) fn rates(&self, from: Duration, to: Duration) -> Vec<f64> {
        let slices = slice(from)..slice(to);
        let seconds = (to - from).as_secs_f64();
        let read = |flow: &Flow| slices.clone().filter_map(|i| flow.read.get(i)).sum::<u64>();
        self.flows.iter().map(|flow| read(flow) as f64 / seconds).collect()
    }

    /// The part of a rate that all flows together carried.
    pub(crate) fn carried(&self, rate: u64, from: Duration, to: Duration) -> f64 {
        self.rates(from, to).iter().sum::<f64>() / rate as f64
    }

    /// Jain's index of fairness: 1 if all flows have the same rate.
    pub(crate) fn jain(&self, from: Duration, to: Duration) -> f64 {
        let rates = self.rates(from, to);
        let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
        sum * sum / (squares * rates.len() as f64)
    }

    /// The time that queues add: the mean, and the 95th percentile.
    pub(crate) fn queue(&self, from: Duration, to: Duration) -> (Duration, Duration) {
        let mut waits = self.waits[slice(from)..slice(to).min(self.waits.len())].to_vec();
        waits.sort_unstable();
        let mean = waits.iter().sum::<Duration>() / waits.len() as u32;
        (mean, waits[waits.len() * 95 / 100])
    }

    /// The part of the payloads sent that were sent again.
    pub(crate) fn twice(&self) -> f64 {
        let sum = |of: fn(&Flow) -> u64| self.flows.iter().map(of).sum::<u64>() as f64;
        sum(|flow| flow.resent) / sum(|flow| flow.sent)
    }

    /// The first time after `from` at which all flows together carry this many bytes per second for
    /// 100 ms.
    pub(crate) fn reaches(&self, rate: u64, from: Duration) -> Option<Duration> {
        const SLICES: usize = 5;
        let last = self.flows.iter().map(|flow| flow.read.len()).max().unwrap_or(0);
        let fast = |at: &usize| {
            let all = self.flows.iter().flat_map(|flow| flow.read.iter().skip(*at).take(SLICES));
            all.sum::<u64>() as f64 >= rate as f64 * SLICE.as_secs_f64() * SLICES as f64
        };
        let found = (slice(from)..last).find(fast)?;
        Some((SLICE * (found + SLICES) as u32).saturating_sub(from))
    }

    /// The largest window of all flows now.
    pub(crate) fn window(&self) -> u64 {
        self.flows.iter().map(|flow| flow.sender.window().size()).max().unwrap_or(0)
    }
}

fn slice(time: Duration) -> usize {
    (time.as_nanos() / SLICE.as_nanos()) as usize
}
