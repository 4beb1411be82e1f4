use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::rounds::LEAST_SHARE;
use super::*;

const MS: u64 = MILLI;

/// A path that one circuit has for itself: payloads wait for a link of `rate` bytes per second, and
/// are acknowledged `rtt` after they have left the queue.
struct Bench {
    control: Adaptive,
    start: Instant,
    now: u64,
    /// The time at which the link is free. Circuits that share the link share this value.
    free: Rc<Cell<u64>>,
    rate: u64,
    rtt: u64,
    in_flight: u64,
    sent: VecDeque<(u64, SentMark)>,
    /// The longest wait of a payload, in nanoseconds, since the test has reset it.
    wait: u64,
}

impl Bench {
    fn new(options: &Options, rate: u64, rtt: u64) -> Self {
        let start = Instant::now();
        Self {
            control: Adaptive::new(options, start),
            start,
            now: 0,
            free: Rc::default(),
            rate,
            rtt,
            in_flight: 0,
            sent: VecDeque::new(),
            wait: 0,
        }
    }

    fn at(&self, t: u64) -> Instant {
        self.start + Duration::from_nanos(t)
    }

    fn send(&mut self) {
        let mark = self.control.on_sent(PAYLOAD, self.in_flight, false, self.at(self.now));
        let free = self.free.get();
        self.wait = self.wait.max(free.saturating_sub(self.now));
        let sent = free.max(self.now) + PAYLOAD * 1_000_000_000 / self.rate;
        self.free.set(sent);
        self.in_flight += PAYLOAD;
        self.sent.push_back((sent + self.rtt, mark));
    }

    /// The time of the next step.
    fn next(&self) -> u64 {
        let acked = self.sent.front().map(|(acked, _)| *acked);
        if self.in_flight > 0 && self.in_flight + PAYLOAD > self.control.window() {
            return acked.unwrap_or(self.now);
        }
        let sends = self.control.next_send().map_or(self.now, |at| {
            (at.saturating_duration_since(self.start).as_nanos() as u64).max(self.now)
        });
        acked.map_or(sends, |acked| acked.min(sends))
    }

    /// Makes the next step: a payload is sent or acknowledged.
    fn step(&mut self) {
        let room = self.in_flight == 0 || self.in_flight + PAYLOAD <= self.control.window();
        let sends = self.control.next_send().map_or(self.now, |at| {
            (at.saturating_duration_since(self.start).as_nanos() as u64).max(self.now)
        });
        match self.sent.front() {
            Some((acked, _)) if !room || sends > *acked => self.ack(),
            _ => {
                self.now = sends;
                self.send();
            }
        }
    }

    fn ack(&mut self) {
        let Some((acked, newest)) = self.sent.pop_front() else { return };
        self.now = acked;
        self.in_flight -= PAYLOAD;
        let rtt = Some(Duration::from_nanos(self.now - newest.sent_at));
        let acked = Acked { payloads: 1, bytes: PAYLOAD, newest, rtt, in_flight: self.in_flight };
        self.control.on_acked(&acked, self.at(self.now));
    }

    /// Runs for this many milliseconds; there is always data to send. Returns the part of the rate
    /// that was used.
    fn run(&mut self, millis: u64) -> f64 {
        let (from, delivered) = (self.now, self.control.delivered);
        self.wait = 0;
        while self.now < from + millis * MS {
            self.step();
        }
        let used = (self.control.delivered - delivered) as f64;
        used / (self.rate as f64 * (self.now - from) as f64 / 1e9)
    }
}

#[test]
fn it_uses_what_there_is_and_keeps_the_queue_short() {
    for (rate, rtt) in [(20_000_000, 50), (50_000_000, 20), (10_000_000, 40), (1_000_000, 100)] {
        let mut bench = Bench::new(&Options::default(), rate, rtt * MS);
        bench.run(5_000);
        let used = bench.run(60_000);
        assert!(used > 0.93, "{used} of {rate}");
        let payload = PAYLOAD * 1_000_000_000 / rate;
        assert!(bench.wait < rtt * MS / 2 + 2 * payload, "{} ns at {rate}", bench.wait);
        assert!(bench.control.min_rtt.is_some_and(|min| min < rtt * MS + 2 * payload));
    }
}

#[test]
fn a_short_path_has_no_pace_and_a_window_for_every_hop() {
    let mut bench = Bench::new(&Options::default(), 1_000_000_000, MS / 10);
    bench.run(200);
    let used = bench.run(1_000);
    assert!(used > 0.95, "{used}");
    assert!(bench.control.next_send().is_none());
    let window = bench.control.window();
    assert!((400 << 10..=640 << 10).contains(&window), "{window}");
}

#[test]
fn a_slow_short_path_has_a_short_queue() {
    for rate in [50_000_000, 100_000_000, 200_000_000] {
        let mut bench = Bench::new(&Options::default(), rate, MS / 10);
        bench.run(500);
        let used = bench.run(5_000);
        assert!(used > 0.95, "{used} of {rate}");
        assert!(bench.wait < 2 * MS, "{} ns at {rate}", bench.wait);
    }
}

#[test]
fn circuits_of_one_short_path_shrink_to_little_each() {
    const RATE: u64 = 500_000_000;
    let mut circuits: Vec<_> =
        (0..50).map(|_| Bench::new(&Options::default(), RATE, MS / 5)).collect();
    let free = circuits[0].free.clone();
    circuits.iter_mut().for_each(|circuit| circuit.free = free.clone());
    let mut run = |until: u64| {
        while let Some(next) = circuits.iter_mut().min_by_key(|circuit| circuit.next()) {
            if next.next() > until {
                break;
            }
            next.step();
        }
        let in_flight: u64 = circuits.iter().map(|circuit| circuit.in_flight).sum();
        let delivered: Vec<_> = circuits.iter().map(|circuit| circuit.control.delivered).collect();
        (in_flight, delivered)
    };
    let (_, before) = run(2_000 * MS);
    let (in_flight, after) = run(12_000 * MS);
    let shares: Vec<_> = after.iter().zip(before).map(|(a, b)| (a - b) as f64).collect();
    let sum: f64 = shares.iter().sum();
    let jain = sum * sum / (50.0 * shares.iter().map(|share| share * share).sum::<f64>());
    assert!(in_flight <= 50 * LEAST_SHORT, "{in_flight} bytes in flight");
    assert!(sum > 0.95 * 10.0 * RATE as f64, "{sum} bytes in 10 s");
    // The queue is first in, first out: only the windows make shares equal.
    assert!(jain > 0.75, "Jain {jain}");
}

#[test]
fn what_was_sent_without_a_pace_is_not_waited_for_later() {
    let mut bench = Bench::new(&Options::default(), 1_000_000_000, MS / 10);
    bench.run(1_000);
    assert_eq!(bench.control.next_send(), None);
    // Many payloads at once, as when the rate that was measured last is far below that of the path.
    (0..1_000).for_each(|_| bench.send());
    bench.control.enter(Phase::Look);
    let next = bench.control.next_send().unwrap();
    assert!(next <= bench.at(bench.now), "{:?}", next - bench.at(bench.now));
}

#[test]
fn the_bounds_are_kept_whatever_the_path() {
    let tiny = Options { tx_min_size: 1, tx_max_size: 20_000, ..Options::default() };
    let mut bench = Bench::new(&tiny, 50_000_000, 20 * MS);
    assert_eq!(bench.control.window(), 20_000);
    bench.run(3_000);
    assert_eq!(bench.control.window(), 20_000);
    let large = Options { tx_min_size: 4 << 20, ..Options::default() };
    let mut bench = Bench::new(&large, 1_000_000, 20 * MS);
    assert_eq!(bench.control.window(), 4 << 20);
    bench.run(1_000);
    assert_eq!(bench.control.window(), 4 << 20);
    let mut bench = Bench::new(&Options::default(), 1_000_000_000, 100 * MS);
    bench.run(5_000);
    assert_eq!(bench.control.window(), 4 << 20);
    // A minimum above the maximum does not make the window panic.
    let odd = Options { tx_min_size: 9, tx_max_size: 0, ..Options::default() };
    assert_eq!(Bench::new(&odd, 1, 1).control.window(), 1);
}

#[test]
fn an_idle_application_lowers_no_estimate() {
    let mut bench = Bench::new(&Options::default(), 10_000_000, 20 * MS);
    bench.run(3_000);
    let before = bench.control.rates.get();
    for _ in 0..300 {
        while !bench.sent.is_empty() {
            bench.ack();
        }
        bench.now += 100 * MS;
        bench.control.on_idle(0);
        bench.send();
        bench.control.on_idle(bench.in_flight);
    }
    assert_eq!(bench.control.rates.get(), before);
    assert_ne!(bench.control.phase, Phase::Look, "the path was empty all the time");
}

#[test]
fn few_losses_change_nothing_many_halve_at_most() {
    let mut bench = Bench::new(&Options::default(), 10_000_000, 20 * MS);
    bench.run(3_000);
    let lossy = |bench: &mut Bench, percent: u64| {
        for step in 0..2_000 {
            bench.step();
            if step * 37 % 100 < percent {
                bench.control.on_lost(1);
            }
        }
        bench.control.share
    };
    assert_eq!(lossy(&mut bench, 0), UNIT);
    assert_eq!(lossy(&mut bench, 60), LEAST_SHARE);
    assert_eq!(lossy(&mut bench, 0), UNIT);
}

#[test]
fn circuits_of_one_connection_look_at_the_same_time() {
    let begins = Instant::now();
    let at = |seconds: u64| begins + Duration::from_secs(seconds);
    // The connection begins after 23 s: circuits are older and younger.
    let looks = |epoch: u64| {
        let mut control = Adaptive::new(&Options::default(), at(epoch));
        control.on_joined(at(23));
        let due = (26_u64..60).filter(|now| {
            control.min_seen = (now - 2).saturating_sub(epoch) * 1_000 * MS;
            control.look_is_due((now - epoch) * 1_000 * MS)
        });
        due.collect::<Vec<_>>()
    };
    for epoch in [0, 3, 22, 23, 24] {
        assert_eq!(looks(epoch), [33, 34, 43, 44, 53, 54], "{epoch}");
    }
    let mut control = Adaptive::new(&Options::default(), at(3));
    control.on_joined(at(23));
    control.on_path_changed(at(24));
    control.min_seen = 28_500 * MS;
    assert!(control.look_is_due(30_000 * MS), "after another path, too");
    control.min_seen = 29_500 * MS;
    assert!(!control.look_is_due(30_000 * MS), "it was seen just now");
}

/// The first long payload of a circuit on a short path meets the queue of others. The circuit stays in the crowd, which
/// counts short paths alone.
#[test]
fn a_queue_at_the_first_long_payload_makes_no_short_path_long() {
    let begins = Instant::now();
    let mut control = Adaptive::new(&Options::default(), begins);
    let mut now = begins;
    for (bytes, rtt) in [(600, 200 * MS / 1_000), (PAYLOAD, 5 * MS)] {
        let rtt = Duration::from_nanos(rtt);
        let newest = control.on_sent(bytes, 0, false, now);
        now += rtt;
        let acked = Acked { payloads: 1, bytes, newest, rtt: Some(rtt), in_flight: 0 };
        control.on_acked(&acked, now);
        assert!(control.is_near(), "after {bytes} bytes");
    }
}
