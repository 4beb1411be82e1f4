//! Congestion control by delivery rate and round-trip time of the empty path, with pacing.
//!
//! The model of the path is like that of BBR: the highest delivery rate of the last round trips, and the
//! smallest round-trip time of the last seconds. The limit on the queue is like that of delay-based
//! control: all circuits that share a queue see it at the same time, drain it at the same time, and
//! therefore see the empty path again.
//!
//! | phase | pace, of the highest rate | until |
//! |---|---|---|
//! | Startup | 2.77, the window grows by the acknowledged bytes | a round trip with a queue, or three, without a quarter more; losses |
//! | Drain | 0.75 | 13/16 of the bytes of the empty path are on their way, or the queue is gone; 5 round trips |
//! | Cruise | 0.98 | 4 to 8 round trips, at random |
//! | Probe | 1.25, up to 1.5 for a small share | two round trips, and as long as the rate grows |
//! | Look | 0.5, and half of the window | one round trip after so few bytes are on their way |
//!
//! *Queue*: every sample of a round trip was longer than the smallest one by an eighth of that,
//! more for a share of few payloads (up to seven eighths), at least 1 ms. As large shares give way
//! before small ones do, shares become equal. A queue leads to Drain and takes 1/16 of the rate in
//! each round trip, down to 1/64 for a small share. During a queue the path is busy, and its
//! deliveries are this circuit's share: if much less arrives than is sent, an earlier higher rate
//! is forgotten.
//!
//! A queue does not end Startup while the rate grows: a TCP connection below, which itself starts slowly, makes payloads
//! wait and carries twice as many in each round trip. With less to send, it would not.
//!
//! *Long payloads*: over a slow link a long payload takes longer than a short one, without any queue. On a path with pacing,
//! the first payload of more than twice the bytes of all before therefore raises the smallest round-trip time to its own.
//!
//! *Look*: begins when the smallest round-trip time was not seen again for 10 s, or after five round trips with a queue
//! (sixteen for a small share). Circuits of one connection with longer paths begin their looks of every 10 s together,
//! unless they saw the smallest time in the last 1.25 s: a circuit that began while the others filled a queue took that
//! for the path, and sees the empty path only while the others look, too. If the round-trip time stays the same although
//! less is sent, the path has become longer. Otherwise there is a queue, and a look raises the smallest round-trip time by
//! at most a 64th. After a larger step, circuits would take each other's queue for the path, one after the other.
//!
//! *Noise*: on hosts without a free processor, one round-trip time differs from the next by more
//! than a queue would add. Round trips are then judged by eight payloads, and only a delay longer
//! than the noise counts as a queue. The pace is never below one payload in four present round
//! trips: noise that is taken for a queue must not slow a circuit down for ever, and an end that
//! sends so little has no queue of its own to wait for.
//!
//! *Window*: rate times smallest round-trip time, times the gain of the phase, and a slack of 1 payload to 128 KiB for
//! clocks and batches, which grows slowly without a queue and shrinks quickly with one. A path below 1 ms is not paced,
//! because clocks are coarser than that: its window is 1.5 times the rate times the round-trip time and a slack of up to
//! 384 KiB, at least 64 KiB. A lone circuit then keeps the ends and all routers between them at work, each with several
//! payloads at a time, and circuits that share a connection shrink to little each when they make each other wait.
//!
//! *Losses* say little, because a bad line causes them, too. Only more than 12 % in a round trip, or more than 5 %
//! together with a queue, slow the circuit down: by an eighth in each round trip, to half of the pace at most.

mod phases;
mod rounds;

use std::time::{Duration, Instant};

use self::rounds::Round;
use super::control::{Acked, Congestion, SentMark};
use super::rate::{Highest, Rate, UNIT};
use crate::{Options, PAYLOAD_SIZE, PathState};

const MILLI: u64 = 1_000_000;

/// The bytes of a full payload.
const PAYLOAD: u64 = PAYLOAD_SIZE as u64 + 512;

/// The window at the start, in bytes.
const START: u64 = 4 * PAYLOAD;

/// Most bytes of the window beyond the capacity of the path.
const MOST_SLACK: u64 = 128 * 1024;

/// Smallest window on a path without pacing, in bytes: one payload on its way while another is worked on.
const LEAST_SHORT: u64 = 64 * 1024;

/// Most unread bytes on a path without pacing when the reader has stopped: such a path fills again at once, and often
/// both ends are in one process.
const SHORT_OUTSTANDING: u64 = 512 * 1024;

/// The round-trip time from which paths are paced, in nanoseconds.
const PACED_FROM: u64 = MILLI;

/// Most time without sending that later payloads may make up for, in nanoseconds.
const CREDIT: u64 = 2 * MILLI;

/// The longest time for one payload, which is the slowest pace, in nanoseconds.
const SLOWEST: u64 = 4_000 * MILLI;

/// The time after which the smallest round-trip time has to be seen again, in nanoseconds: the length of a turn of the
/// circuits of one connection.
const LOOK_AFTER: u64 = 10_000 * MILLI;

/// Round trips with a queue before a look, for a usual and for a small share, and the shortest time between
/// two such looks, in nanoseconds.
const LOOK_ROUNDS: u32 = 5;
const SMALL_LOOK_ROUNDS: u32 = 16;
const LOOK_PAUSE: u64 = 1_000 * MILLI;

/// Startup ends after this many round trips in which the rate did not grow by a quarter.
const FLAT_ROUNDS: u32 = 3;

/// The pace in each phase, as a part of the highest rate ([`UNIT`] is all of it).
const STARTUP_GAIN: u64 = 709;
const DRAIN_GAIN: u64 = UNIT * 3 / 4;
const CRUISE_GAIN: u64 = 252;
const LOOK_GAIN: u64 = UNIT / 2;

/// A share of the path below this many bytes is small: single payloads change it by much.
const SMALL_SHARE: u64 = 4 * PAYLOAD;

/// The pace is never lower than one payload in this many present round trips: an end that sends less has no queue of
/// its own to wait for.
const FLOOR_ROUNDS: u64 = 4;

/// Fewest payloads by which a round trip is judged, unless one of them met no queue; several round trips are judged
/// together otherwise, because one payload may be late by chance.
const LEAST_SAMPLES: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Startup,
    Drain,
    Cruise,
    Probe,
    Look,
}

/// A look at the empty path, with little on its way.
#[derive(Debug, Default)]
struct Look {
    /// The count of deliveries at which little enough was on its way; `None` before that.
    low: Option<u64>,
    /// The smallest round-trip time and the highest rate since the look began.
    rtt: Option<u64>,
    best: Rate,
    /// The smallest round-trip time before the look.
    before: u64,
}

/// The congestion control of one circuit, as the comment of the module describes it.
#[derive(Debug)]
pub(super) struct Adaptive {
    epoch: Instant,
    min: u64,
    max: u64,
    phase: Phase,
    /// Busy round trips in this phase.
    rounds: u32,
    /// Length of the present Cruise, in round trips.
    cruise: u32,
    /// The window before losses and bounds, and after them.
    size: u64,
    window: u64,
    slack: u64,
    /// The part of the pace that losses leave, of [`UNIT`].
    share: u64,
    /// The time at which the next payload may be sent.
    pace_at: u64,

    /// Bytes delivered, the time of the last delivery, and the time at which the latest of its payloads had been sent.
    delivered: u64,
    delivered_at: u64,
    delivered_sent_at: u64,
    /// Deliveries up to this count are limited by the application.
    idle_until: Option<u64>,

    /// The round trip ends with the ack of a payload that was sent at or after this count of deliveries.
    round_ends: u64,
    round: Round,
    rates: Highest,
    /// The lowest gain of this round trip and of the last one.
    gains: [u64; 2],
    /// The rate to beat in Startup and Probe, and the round trips of Startup that did not beat it.
    beat: Rate,
    flat: u32,
    /// The extra rate of a probe, and the part of the round-trip time that the queue may add, of [`UNIT`]: more for
    /// smaller shares, so that shares become equal.
    daring: u64,
    /// Consecutive round trips with a queue, and whether the window was full in the last one.
    queued: u32,
    was_full: bool,
    /// The round-trip time in the second round trip with a queue; the first one may have begun before the
    /// queue.
    queued_rtt: u64,

    /// The present round-trip time, smoothed.
    usual_rtt: u64,
    /// The last round-trip time, and its difference from one sample to the next, smoothed.
    last_rtt: u64,
    noise: u64,
    /// The smallest round-trip time, and when it was seen last.
    min_rtt: Option<u64>,
    min_seen: u64,
    /// The bytes of a payload that counts for the smallest round-trip time on a path with pacing. Payloads of less than
    /// half of these bytes do not lower that time.
    min_bytes: u64,
    /// The time from the beginning of a turn of looks of the connection until the epoch; `None` for a circuit of no
    /// connection.
    turns: Option<u64>,
    look: Look,
    looked: u64,
    /// The time at which the path changed: payloads sent earlier say nothing about the present path.
    since: u64,
}

impl Adaptive {
    pub(super) fn new(options: &Options, now: Instant) -> Self {
        let max = options.tx_max_size.max(1);
        Self::with(now, options.tx_min_size.min(max), max)
    }

    /// The state at the beginning of a path, with a window within these bounds.
    fn with(epoch: Instant, min: u64, max: u64) -> Self {
        Self {
            epoch,
            min,
            max,
            phase: Phase::Startup,
            rounds: 0,
            cruise: 0,
            size: START,
            window: START.clamp(min, max),
            slack: MOST_SLACK,
            share: UNIT,
            pace_at: 0,
            delivered: 0,
            delivered_at: 0,
            delivered_sent_at: 0,
            idle_until: None,
            round_ends: 0,
            round: Round::default(),
            rates: Highest::default(),
            gains: [STARTUP_GAIN; 2],
            beat: Rate::default(),
            flat: 0,
            daring: UNIT / 4,
            queued: 0,
            was_full: false,
            queued_rtt: 0,
            usual_rtt: 0,
            last_rtt: 0,
            noise: 0,
            min_rtt: None,
            min_seen: 0,
            min_bytes: 0,
            turns: None,
            look: Look::default(),
            looked: 0,
            since: 0,
        }
    }

    fn nanos(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.epoch).as_nanos() as u64
    }

    /// The bytes that the empty path holds at this rate.
    fn path(&self) -> u64 {
        self.rates.get().bytes_in(self.min_rtt.unwrap_or(0))
    }

    fn gain(&self) -> u64 {
        match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => DRAIN_GAIN,
            Phase::Cruise => CRUISE_GAIN,
            Phase::Probe => UNIT + self.daring.clamp(UNIT / 4, UNIT / 2),
            Phase::Look => LOOK_GAIN,
        }
    }

    fn is_paced(&self) -> bool {
        self.phase == Phase::Look || self.min_rtt.is_some_and(|rtt| rtt >= PACED_FROM)
    }

    fn pace(&self) -> Rate {
        let mut rate = self.rates.get();
        if self.phase == Phase::Startup {
            rate = rate.max(Rate::of(START, self.min_rtt.unwrap_or(0)));
        }
        rate.scaled(self.gain() * self.share / UNIT).max(self.floor())
    }

    /// The slowest pace.
    fn floor(&self) -> Rate {
        let rounds = FLOOR_ROUNDS.saturating_mul(self.usual_rtt).clamp(1, SLOWEST);
        let known = if self.usual_rtt == 0 { SLOWEST } else { rounds };
        Rate::of(PAYLOAD, known)
    }

    fn take_rtt(&mut self, rtt: u64, bytes: u64, t: u64) {
        if bytes > 2 * self.min_bytes && !self.is_near() {
            // The time of shorter payloads would make the time that a slow link needs for a long one look like a queue.
            // A short path stays short: its first long payload may have met the queue of other circuits.
            self.min_bytes = bytes;
            self.min_rtt = self.min_rtt.map(|min| min.max(rtt));
        }
        let is_short = 2 * bytes < self.min_bytes;
        let least = |before: Option<u64>| Some(before.map_or(rtt, |before| before.min(rtt)));
        self.round.rtt = least(self.round.rtt);
        if self.phase == Phase::Look {
            self.look.rtt = least(self.look.rtt);
        }
        let change = rtt.abs_diff(std::mem::replace(&mut self.last_rtt, rtt));
        self.noise = self.noise - self.noise / 16 + change / 16;
        let is_empty = self.is_of_empty_path(rtt);
        self.usual_rtt = match self.usual_rtt {
            0 => rtt,
            // With few payloads on their way, a queue that is gone must not be remembered for long.
            usual if is_empty && rtt < usual => usual.midpoint(rtt),
            usual => usual - usual / 8 + rtt / 8,
        };
        let near = self.min_rtt.is_some_and(|min| rtt <= min + min / 128);
        if self.min_rtt.is_none_or(|min| rtt < min) || near {
            self.min_rtt = if is_short { self.min_rtt } else { least(self.min_rtt) };
            self.min_seen = t;
        }
    }

    /// True if the payload with this round-trip time met hardly any queue.
    fn is_of_empty_path(&self, rtt: u64) -> bool {
        self.min_rtt.is_some_and(|min| rtt <= min + min / 8)
    }

    fn take_rate(&mut self, newest: &SentMark, min_rtt: u64, t: u64) {
        // Acks that arrive together cannot mean a rate above that of sending their payloads, nor above the path's.
        let acked_in = t.saturating_sub(newest.delivered_at);
        let sent_in = newest.sent_at.saturating_sub(newest.delivered_sent_at);
        let took = acked_in.max(sent_in).max(min_rtt);
        let rate = Rate::of(self.delivered.saturating_sub(newest.delivered), took);
        // An idle application may show a higher rate, but not a lower one.
        if newest.idle && rate <= self.rates.get() {
            return;
        }
        self.round.busy |= !newest.idle;
        self.round.best = self.round.best.max(rate);
        self.look.best = self.look.best.max(rate);
        self.rates.take(rate);
    }

    fn resize(&mut self, acked: &Acked, min_rtt: u64) {
        let path = self.path();
        let gained = |gain: u64| path.saturating_mul(gain) / UNIT;
        let gain = match self.phase {
            Phase::Cruise => UNIT,
            _ => self.gain(),
        };
        self.size = match self.phase {
            Phase::Startup => {
                let used = (acked.in_flight + acked.bytes) * 2 >= self.window;
                if used { (self.size + acked.bytes).min(self.max) } else { self.size }
            }
            Phase::Look => (path / 2).max(PAYLOAD),
            // Phases on such paths are shorter than clocks and processors are exact.
            _ if min_rtt < PACED_FROM => (path + path / 2 + self.slack).max(LEAST_SHORT),
            _ => gained(gain) + self.slack,
        };
        self.window = (self.size * self.share / UNIT).clamp(self.min, self.max);
    }
}

impl Congestion for Adaptive {
    fn window(&self) -> u64 {
        self.window
    }

    fn outstanding(&self) -> u64 {
        if self.is_near() { SHORT_OUTSTANDING.max(self.window) } else { u64::MAX }
    }

    fn is_near(&self) -> bool {
        self.min_rtt.is_some_and(|rtt| rtt < PACED_FROM)
    }

    fn path(&self) -> PathState {
        PathState {
            phase: match self.phase {
                Phase::Startup => "startup",
                Phase::Drain => "drain",
                Phase::Cruise => "cruise",
                Phase::Probe => "probe",
                Phase::Look => "look",
            },
            rate: Some(self.rates.get().bytes_in(1_000 * MILLI)),
            empty_rtt: self.min_rtt.map(Duration::from_nanos),
        }
    }

    fn next_send(&self) -> Option<Instant> {
        self.is_paced().then(|| self.epoch + Duration::from_nanos(self.pace_at))
    }

    fn on_sent(&mut self, bytes: u64, in_flight: u64, _again: bool, now: Instant) -> SentMark {
        let t = self.nanos(now);
        self.round.full |= in_flight + 2 * bytes > self.window;
        let was_idle = self.idle_until.is_some_and(|until| self.delivered <= until);
        if in_flight == 0 && (was_idle || self.delivered == 0) {
            // Time in which the application had nothing to send says nothing about the path.
            (self.delivered_at, self.delivered_sent_at) = (t, t);
        }
        // Sending without a pace leaves no debt for a later pace.
        self.pace_at = if self.is_paced() {
            let from = self.pace_at.max(t.saturating_sub(CREDIT));
            from + self.pace().time_for(bytes)
        } else {
            t
        };
        SentMark {
            sent_at: t,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            delivered_sent_at: self.delivered_sent_at,
            bytes,
            idle: was_idle,
        }
    }

    fn on_acked(&mut self, acked: &Acked, now: Instant) {
        let t = self.nanos(now);
        self.delivered += acked.bytes;
        self.delivered_at = t;
        self.delivered_sent_at = self.delivered_sent_at.max(acked.newest.sent_at);
        if acked.newest.sent_at < self.since {
            return;
        }
        self.round.arrived += acked.payloads;
        if let Some(rtt) = acked.rtt {
            self.take_rtt((rtt.as_nanos() as u64).max(1), acked.newest.bytes, t);
        }
        let Some(min_rtt) = self.min_rtt else { return };
        self.take_rate(&acked.newest, min_rtt, t);
        let found_empty =
            !self.is_near() && self.round.rtt.is_some_and(|rtt| self.is_of_empty_path(rtt));
        let enough = self.round.arrived >= LEAST_SAMPLES
            || self.noise * 2 < self.dare(min_rtt)
            || found_empty;
        if acked.newest.delivered >= self.round_ends && enough {
            self.end_round(acked.newest.idle, min_rtt, t);
        }
        self.watch(acked, min_rtt, t);
        self.resize(acked, min_rtt);
        if self.phase != Phase::Look {
            // Payloads sent at a slower pace than the present one do not delay the next.
            self.pace_at = self.pace_at.min(t + self.pace().time_for(PAYLOAD));
        }
    }

    fn on_lost(&mut self, payloads: u64) {
        self.round.lost += payloads;
    }

    fn on_path_changed(&mut self, now: Instant) {
        // The state is that of a new circuit, except for the counts, to which the marks of payloads refer.
        let t = self.nanos(now);
        *self = Self {
            delivered: self.delivered,
            delivered_at: t,
            delivered_sent_at: t,
            idle_until: self.idle_until,
            round_ends: self.delivered,
            pace_at: t,
            min_seen: t,
            looked: t,
            since: t,
            turns: self.turns,
            ..Self::with(self.epoch, self.min, self.max)
        };
    }

    fn on_joined(&mut self, began: Instant) {
        let nanos =
            |from: Instant, to: Instant| to.saturating_duration_since(from).as_nanos() as u64;
        // A circuit that is older than the connection counts turns from before that.
        let before = nanos(self.epoch, began);
        let until = before.next_multiple_of(LOOK_AFTER) - before;
        self.turns = Some(nanos(began, self.epoch) + until);
    }

    fn on_idle(&mut self, in_flight: u64) {
        self.idle_until = Some(self.delivered + in_flight);
    }
}

#[cfg(test)]
#[path = "adaptive/tests.rs"]
mod tests;
