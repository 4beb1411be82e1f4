//! One end, whose peer sends anything at all and whose owner calls anything at any time.

use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_limits::Budget;
use weft_wire::payload::{Ack, Flags, Payload, payload_header};
use weft_xgress::{CircuitCloseReason, Delivery, End, Options, Role, WindowKind};

/// The budget of the end in bytes, and the bytes that it may take beyond: the next payload in order,
/// chunks that always fit, and a payload whose data had left the application.
const BUDGET: u64 = 256 << 10;
const BEYOND: u64 = 512 << 10;

/// One end, and the messages seen from it.
struct Watched {
    end: End,
    budget: Budget,
    now: Instant,
    closed: Option<CircuitCloseReason>,
    fin_read: bool,
    closed_read: bool,
    /// The sequence number of the next payload that is new.
    next: i32,
    /// The sequence number of the peer's next payload, if the peer keeps to the order.
    theirs: i32,
}

/// Plays a schedule: nothing the peer sends ends in a panic, holds more memory than allowed or makes
/// the end contradict itself. Each step is a kind and some bytes.
pub(crate) fn play(options: u8, steps: &[(u8, [u8; 6])]) {
    let mut watched = Watched::new(options);
    for (kind, bytes) in steps {
        watched.step(*kind, *bytes);
        watched.check();
    }
    watched.end.abort();
    while watched.read() {}
    watched.transmit();
    watched.check();
    assert!(watched.end.closed().is_some() && !watched.end.wants_transmit());
    drop(watched.end);
    assert_eq!(watched.budget.used(), 0);
}

impl Watched {
    fn new(bits: u8) -> Self {
        let (now, budget) = (Instant::now(), Budget::new(BUDGET));
        let is_on = |bit: u8| bits & bit != 0;
        let window = match bits & 3 {
            0 => WindowKind::Fixed(16 << 10),
            1 => WindowKind::Original,
            _ => WindowKind::Adaptive,
        };
        let options = Options {
            window,
            mtu: if is_on(4) { 600 } else { 0 },
            rx_buffer_size: if is_on(8) { 4 << 10 } else { 4 << 20 },
            datagrams: is_on(16),
            ..Options::default()
        };
        let role = if is_on(32) { Role::Initiator } else { Role::Terminator };
        Self {
            end: End::new(role, &options, &budget, now),
            budget,
            now,
            closed: None,
            fin_read: false,
            closed_read: false,
            next: 0,
            theirs: 0,
        }
    }

    fn step(&mut self, kind: u8, bytes: [u8; 6]) {
        let [a, b, c, d, e, f] = bytes;
        let now = self.now;
        match kind % 24 {
            0..=5 => self.arrives(bytes),
            6 | 7 => {
                let sequences = match a % 4 {
                    0 => vec![i32::from(b)],
                    1 => (0..self.next).collect(),
                    2 => vec![i32::from_le_bytes([a, b, c, d]), self.next, -1],
                    _ => Vec::new(),
                };
                let recv_buffer_size = u32::from_le_bytes([c, d, e, f]) >> (a % 32);
                let stamp = u16::from_le_bytes([e, f]);
                let ack = Ack { flags: Flags(u32::from(b)), recv_buffer_size, stamp, sequences };
                self.end.on_ack(&ack, now);
            }
            8 | 9 if self.end.can_write() => {
                let data = vec![a; usize::from(u16::from_le_bytes([b, c]))];
                let _ = self.end.write_with(headers(d), data.into());
            }
            8 | 9 => assert!(self.end.write(Bytes::new()).is_err() || !self.end.is_sending_over()),
            10 | 11 => {
                self.read();
            }
            12 | 13 => self.transmit(),
            14 => {
                let (wanted, ack) = (self.end.wants_ack(), self.end.poll_ack());
                assert_eq!(wanted, ack.is_some());
            }
            15 | 16 => self.wait(Duration::from_millis(u64::from(a) << (b % 9))),
            // A clock that fires early or twice.
            17 => self.end.on_timeout(now),
            18 => self.end.path_changed(now),
            19 if a.is_multiple_of(4) => self.end.finish(now),
            20 if a.is_multiple_of(8) => self.end.close(now),
            21 if a.is_multiple_of(8) => self.end.delivery_failed(now),
            22 if a.is_multiple_of(16) => self.end.abort(),
            23 if a.is_multiple_of(16) => self.end.unrouted(),
            _ => self.transmit(),
        }
    }

    fn arrives(&mut self, [a, b, c, d, e, f]: [u8; 6]) {
        let sequence = match a % 8 {
            0 => i32::from_le_bytes([b, c, d, e]),
            1 => self.theirs.saturating_add(i32::from(b)),
            2 => self.theirs.saturating_sub(i32::from(b)),
            _ => self.theirs,
        };
        if sequence == self.theirs {
            self.theirs = self.theirs.saturating_add(1);
        }
        let peer = if self.end.role() == Role::Initiator { Flags::ORIGINATOR } else { Flags::NONE };
        let flags = match b % 8 {
            0 => Flags(u32::from(c)),
            1 => Flags(1 << (c % 8)) | peer,
            2 => Flags::CHUNK | peer,
            3 => Flags::CIRCUIT_START.without(Flags::ORIGINATOR) | peer,
            _ => peer,
        };
        let length = usize::from(d) << (e % 9);
        // The first bytes of chunks announce a length.
        let data =
            (0..length).map(|at| if at < 3 { f.rotate_left(at as u32) } else { f }).collect();
        let stamp = u16::from_le_bytes([c, f]);
        let payload = Payload { sequence, flags, stamp, headers: headers(a >> 4), data };
        self.end.on_payload(payload, self.now);
    }

    fn read(&mut self) -> bool {
        let wanted = self.end.wants_read();
        let delivery = self.end.read();
        assert!(wanted || delivery.is_none(), "a delivery that was not announced");
        match &delivery {
            Some(Delivery::Data { .. }) => {
                assert!(!self.fin_read && !self.closed_read, "data after the end");
            }
            Some(Delivery::Fin { .. }) => {
                assert!(!self.closed_read && !std::mem::replace(&mut self.fin_read, true));
            }
            Some(Delivery::Closed(reason)) => {
                assert_eq!(self.end.closed(), Some(*reason));
                assert!(!std::mem::replace(&mut self.closed_read, true), "closed twice");
            }
            None => {}
        }
        delivery.is_some()
    }

    fn transmit(&mut self) {
        loop {
            let (wanted, over) = (self.end.wants_transmit(), self.end.closed().is_some());
            let Some(payload) = self.end.poll_transmit(self.now) else { return };
            assert!(wanted, "a payload that was not announced");
            if over {
                assert!(payload.flags.has(Flags::CIRCUIT_END));
            } else if payload.sequence == self.next {
                self.next += 1;
            } else {
                let again = payload.flags.has(Flags::RETRANSMIT) && payload.sequence < self.next;
                assert!(again, "{} where {} is next", payload.sequence, self.next);
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        if self.end.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.end.on_timeout(self.now);
            self.transmit();
            let next = self.end.deadline();
            assert!(next.is_none_or(|next| next > self.now), "the clock would fire without end");
        }
    }

    fn check(&mut self) {
        let closed = self.end.closed();
        assert!(self.closed.is_none() || self.closed == closed, "closed again");
        self.closed = closed;
        if closed.is_some() {
            assert!(self.end.deadline().is_none() && !self.end.can_write());
        }
        assert!(!self.end.can_write() || !self.end.is_sending_over());
        assert!(self.budget.used() <= BUDGET + BEYOND, "{} bytes are held", self.budget.used());
        let _ = self.end.standing(self.now);
    }
}

fn headers(bits: u8) -> Vec<(u8, Bytes)> {
    let known = [
        (payload_header::CAPABILITIES, vec![0, 1, 0, 0]),
        (payload_header::EDGE_FLAGS, vec![1, 0, 0, 0]),
        (payload_header::UUID, vec![7; 16]),
        (99, vec![1; 300]),
    ];
    let wanted =
        known.into_iter().enumerate().filter(|(at, _)| bits >> 4 == 0 && bits & (1 << at) != 0);
    wanted.map(|(_, (key, value))| (key, value.into())).collect()
}
