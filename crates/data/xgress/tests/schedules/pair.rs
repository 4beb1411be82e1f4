//! Two connected ends. Messages between them are delayed, lost, repeated and arrive in any order;
//! applications write and read pieces of any length, end their direction early or close.

use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_limits::Budget;
use weft_wire::payload::{Ack, Payload};
use weft_xgress::{CircuitCloseReason, Delivery, End, Options, Role, WindowKind};

/// The longest time-out. The end of a direction is sent for five seconds after everything else has
/// arrived, so that several copies have to fit.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(500);
/// The most time that passes by steps, and by one of them.
const MOST_TIME: Duration = Duration::from_secs(2);
const MOST_STEP: u16 = 250;
/// Most rounds after the last step until both ends are closed.
const ROUNDS: usize = 20_000;

#[derive(Clone)]
enum Sent {
    Payload(Payload),
    Ack(Ack),
}

struct Side {
    end: End,
    budget: Budget,
    /// Messages of the peer that have not arrived yet.
    coming: Vec<Sent>,
    /// Bytes that the application wrote.
    written: usize,
    /// Bytes that the application read, and the rest of the last delivery.
    read: usize,
    rest: Bytes,
    fin: bool,
    closed: Option<CircuitCloseReason>,
    /// True once the application is gone: it reads no more.
    left: bool,
}

struct Pair {
    now: Instant,
    passed: Duration,
    sides: [Side; 2],
}

/// Plays a schedule to its end: each application has to read exactly the data that the other one
/// wrote. Each step is a kind and a number, whose meaning depends on the kind.
pub(crate) fn play(options: u8, steps: &[(u8, u16)]) {
    let mut pair = Pair::new(&options_of(options));
    for (kind, number) in steps {
        pair.step(*kind, *number);
        pair.check();
    }
    pair.finish();
    for Side { end, budget, .. } in pair.sides {
        drop(end);
        assert_eq!(budget.used(), 0, "something is held still");
    }
}

fn options_of(bits: u8) -> Options {
    let window = match bits & 3 {
        0 => WindowKind::Fixed(64 << 10),
        1 => WindowKind::Original,
        _ => WindowKind::Adaptive,
    };
    let is_on = |bit: u8| bits & bit != 0;
    let defaults = Options::default();
    Options {
        window,
        mtu: if is_on(4) { 1400 } else { 0 },
        rx_buffer_size: if is_on(8) { 16 << 10 } else { defaults.rx_buffer_size },
        tx_max_size: if is_on(16) { 64 << 10 } else { defaults.tx_max_size },
        datagrams: is_on(32),
        retx_max: LONGEST_TIMEOUT,
        // An end that closes gives up at some time; here it is to arrive at the end.
        max_close_wait: Duration::from_secs(3600),
        ..defaults
    }
}

/// The byte at an index of a side's data.
fn byte(side: usize, at: usize) -> u8 {
    (at % 251) as u8 ^ (at / 251) as u8 ^ ((side as u8) << 7)
}

impl Pair {
    fn new(options: &Options) -> Self {
        let now = Instant::now();
        let sides = [Role::Initiator, Role::Terminator].map(|role| {
            let budget = Budget::unlimited();
            Side {
                end: End::new(role, options, &budget, now),
                budget,
                coming: Vec::new(),
                written: 0,
                read: 0,
                rest: Bytes::new(),
                fin: false,
                closed: None,
                left: false,
            }
        });
        Self { now, passed: Duration::ZERO, sides }
    }

    fn step(&mut self, kind: u8, number: u16) {
        let i = usize::from(number & 1);
        let (now, value) = (self.now, usize::from(number >> 1));
        let side = &mut self.sides[i];
        match kind % 32 {
            0..=2 => self.write(i, value % 64 + 1),
            3 => self.write(i, value),
            4 | 5 => {
                self.send(i, value % 4 + 1);
            }
            6 => self.acknowledge(i),
            7 | 8 => self.arrive(i, value),
            9 => {
                self.read(i, value % 2048 + 1);
            }
            10 => self.wait(number),
            11 => while self.send(i, 1) + self.arrive_first(i) > 0 {},
            // Seldom: one in twenty of the steps.
            12 | 13 => side.forget(value),
            14 | 15 => side.repeat(value),
            16 => side.end.path_changed(now),
            17 => side.end.finish(now),
            18 => {
                side.end.close(now);
                side.left = true;
            }
            // A clock that fires early.
            19 => side.end.on_timeout(now),
            other => self.step(other % 12, number),
        }
    }

    fn write(&mut self, i: usize, length: usize) {
        let side = &mut self.sides[i];
        if !side.end.can_write() {
            return;
        }
        let data: Vec<u8> = (side.written..side.written + length).map(|at| byte(i, at)).collect();
        side.end.write(data.into()).unwrap();
        side.written += length;
    }

    /// Sends payloads: how many there were.
    fn send(&mut self, i: usize, most: usize) -> usize {
        let (now, mut count) = (self.now, 0);
        while count < most
            && let Some(payload) = self.sides[i].end.poll_transmit(now)
        {
            self.sides[1 - i].coming.push(Sent::Payload(payload));
            count += 1;
        }
        count
    }

    fn acknowledge(&mut self, i: usize) {
        if let Some(ack) = self.sides[i].end.poll_ack() {
            self.sides[1 - i].coming.push(Sent::Ack(ack));
        }
    }

    /// A message arrives, whichever it is.
    fn arrive(&mut self, i: usize, which: usize) {
        let (now, side) = (self.now, &mut self.sides[i]);
        if let Some(at) = which.checked_rem(side.coming.len()) {
            match side.coming.remove(at) {
                Sent::Payload(payload) => {
                    side.end.on_payload(payload, now);
                }
                Sent::Ack(ack) => side.end.on_ack(&ack, now),
            }
        }
    }

    /// The message arrives that was sent first: how many there were.
    fn arrive_first(&mut self, i: usize) -> usize {
        let any = !self.sides[i].coming.is_empty();
        self.arrive(i, 0);
        usize::from(any)
    }

    /// The application reads at most `most` bytes: true if it got any.
    fn read(&mut self, i: usize, most: usize) -> bool {
        let side = &mut self.sides[i];
        if side.rest.is_empty() {
            match side.end.read() {
                Some(Delivery::Data { data, .. }) => {
                    assert!(!side.fin && side.closed.is_none() && !side.left, "data after the end");
                    side.rest = data;
                }
                Some(Delivery::Fin { .. }) => {
                    assert!(!side.left && !std::mem::replace(&mut side.fin, true), "ended twice");
                }
                Some(Delivery::Closed(reason)) => {
                    assert_eq!(side.closed.replace(reason), None, "closed twice");
                }
                None => return false,
            }
        }
        let part = side.rest.split_to(most.min(side.rest.len()));
        for (at, read) in part.iter().enumerate() {
            assert_eq!(*read, byte(1 - i, side.read + at), "byte {} of {i}", side.read + at);
        }
        side.read += part.len();
        true
    }

    fn wait(&mut self, millis: u16) {
        let wait = Duration::from_millis(u64::from(millis % MOST_STEP));
        if self.passed + wait < MOST_TIME {
            self.passed += wait;
            self.pass(wait);
        }
    }

    fn pass(&mut self, wait: Duration) {
        self.now += wait;
        let now = self.now;
        for side in &mut self.sides {
            if side.end.deadline().is_some_and(|deadline| deadline <= now) {
                side.end.on_timeout(now);
            }
        }
    }

    /// Checks the invariants.
    fn check(&self) {
        for (side, peer) in self.sides.iter().zip(self.sides.iter().rev()) {
            assert!(side.read <= peer.written, "more than was written");
            assert!(!side.fin || side.read + side.rest.len() == peer.written, "ended too early");
            assert!(side.end.closed().is_none() || side.end.deadline().is_none());
        }
    }

    /// From now on everything arrives and is read, and both directions end.
    fn finish(&mut self) {
        for side in &mut self.sides {
            side.end.finish(self.now);
        }
        for _ in 0..ROUNDS {
            let mut moved = 0;
            for i in 0..2 {
                while self.read(i, usize::MAX) {
                    moved += 1;
                }
                self.acknowledge(i);
                self.send(i, usize::MAX);
                while self.arrive_first(1 - i) > 0 {
                    moved += 1;
                }
            }
            self.check();
            if self.sides.iter().all(|side| side.closed.is_some()) {
                return self.check_end();
            }
            let next = self.sides.iter().filter_map(|side| side.end.deadline()).min();
            match next {
                _ if moved > 0 => {}
                Some(next) => self.pass(next.saturating_duration_since(self.now)),
                None => panic!("both wait for ever: {:#?}", self.sides.each_ref().map(|s| &s.end)),
            }
        }
        panic!("no end is in sight: {:#?}", self.sides.each_ref().map(|side| &side.end));
    }

    fn check_end(&self) {
        for (side, peer) in self.sides.iter().zip(self.sides.iter().rev()) {
            let reason = side.closed;
            assert!(
                matches!(
                    reason,
                    Some(CircuitCloseReason::Finished | CircuitCloseReason::PeerClosed)
                ),
                "{reason:?}"
            );
            if !side.left {
                assert_eq!(side.read, peer.written, "not everything came: {reason:?}");
                assert!(
                    side.fin || reason == Some(CircuitCloseReason::PeerClosed),
                    "no end: {reason:?}"
                );
                assert_eq!(side.end.unread(), 0, "data is held still");
            }
        }
    }
}

impl Side {
    fn forget(&mut self, which: usize) {
        if let Some(at) = which.checked_rem(self.coming.len()) {
            self.coming.remove(at);
        }
    }

    fn repeat(&mut self, which: usize) {
        if let Some(at) = which.checked_rem(self.coming.len()) {
            self.coming.push(self.coming[at].clone());
        }
    }
}
