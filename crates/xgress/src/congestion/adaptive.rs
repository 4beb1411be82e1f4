//! Congestion control after delivery rate and empty path, with pacing.
//!
//! In the manner of BBR (a model of the path: the highest delivery rate of the last round trips and
//! the smallest round-trip time of the last seconds), with a limit on the queue in the manner of
//! delay-based control (all who share a queue see it at the same time, drain it at the same time,
//! and so see the empty path again).
//!
//! | phase | pace, of the highest rate | until |
//! |---|---|---|
//! | Startup | 2.77, the window grows by what is acknowledged | three round trips without a quarter more, a queue, or losses |
//! | Drain | 0.75 | 13/16 of what the empty path holds is on its way, or the queue is gone; 5 round trips |
//! | Cruise | 0.98 | 4 to 8 round trips, at random |
//! | Probe | 1.25, up to 1.5 for a small share | two round trips, and as long as the rate grows |
//! | Look | 0.5, and half of the window | one round trip after that little is on its way |
//!
//! *Queue*: every sample of a round trip was longer than the smallest by an eighth of it, more for a
//! share of few payloads (up to three quarters), at least 1 ms. As large shares give way before small
//! ones do, shares become equal. A queue leads to Drain and takes 1/16
//! of the rate in each round trip, down to 1/64 of a small share. While there is
//! one, the path is busy and what it delivers is this circuit's share: where much less arrives than
//! is sent, a higher rate of before is forgotten.
//!
//! *Look*: when the smallest round-trip time was not seen again for 10 s, or after five round trips
//! with a queue, sixteen for a small share. If the round-trip time has stayed the same in spite of sending less, the path has
//! become longer. If not, there is a queue, and a larger round-trip time is believed by a 64th per
//! look only: else circuits would take each other's queue for the path, one after the other.
//!
//! *Noise*: where a round-trip time differs from the next by more than a queue would be long (hosts
//! without a free processor), round trips are judged by eight payloads, and only what is longer than
//! that noise is a queue. Whatever is seen, the pace is never below one payload in three round trips
//! as they are now: noise that is taken for a queue must not slow a circuit down for ever, and
//! whoever sends so little has no queue of its own to wait for.
//!
//! *Window*: rate x smallest round-trip time, times the gain of the phase, and a slack of 1 payload
//! to 128 KiB for clocks and batches, which grows slowly without and shrinks quickly with a queue. On
//! a path below 1 ms there is no pacing, for clocks are coarser than that: the window is 1.5 x rate x
//! round-trip time or 128 KiB, whichever is larger, as a small working set stays in the
//! cache.
//!
//! *Losses* say little (they may come from a bad line): only more than 12 % in a round trip, or more
//! than 5 % beside a queue, slow down, by an eighth each round trip, to the half.

use std::time::{Duration, Instant};

use super::control::{Acked, Congestion, SentMark};
use super::rate::{Highest, Rate, UNIT};
use crate::{Options, PAYLOAD_SIZE, Path};

const MILLI: u64 = 1_000_000;

/// A full payload.
const PAYLOAD: u64 = PAYLOAD_SIZE as u64 + 512;

/// The window at first.
const START: u64 = 4 * PAYLOAD;

/// The window beyond what the path holds, at most.
const MOST_SLACK: u64 = 128 * 1024;

/// The window on a path without pacing, at least: so much keeps both ends and the routers between
/// them at work while each waits for a processor.
const LEAST_SHORT: u64 = 128 * 1024;

/// On a path without pacing, a reader that has stopped makes its end hold no more: such a path is
/// filled again at once, and often both ends are in one process.
const SHORT_OUTSTANDING: u64 = 512 * 1024;

/// No pacing on a path that is shorter: nanoseconds.
const PACED_FROM: u64 = MILLI;

/// So much time that was not used for sending may be made up for: nanoseconds.
const CREDIT: u64 = 2 * MILLI;

/// The pace is never lower: one payload in so many nanoseconds.
const SLOWEST: u64 = 4_000 * MILLI;

/// The smallest round-trip time is to be seen again after this: nanoseconds.
const LOOK_AFTER: u64 = 10_000 * MILLI;

/// Round trips with a queue until the path is looked at, and the least time between two such looks.
const LOOK_ROUNDS: u32 = 5;
const SMALL_LOOK_ROUNDS: u32 = 16;
const LOOK_PAUSE: u64 = 1_000 * MILLI;

/// Startup ends after so many round trips in which the rate did not grow by a quarter.
const FLAT_ROUNDS: u32 = 3;

const STARTUP_GAIN: u64 = 709;
const DRAIN_GAIN: u64 = UNIT * 3 / 4;
const CRUISE_GAIN: u64 = 252;
const LOOK_GAIN: u64 = UNIT / 2;

/// How much less the rate is after each round trip with a queue: at least for a tiny share, at most
/// for one that is not small.
const LEAST_LESS: u64 = UNIT / 64;
const MOST_LESS: u64 = UNIT / 16;

/// A share of the path below some payloads is small: what is on its way jumps.
const SMALL_SHARE: u64 = 4 * PAYLOAD;

/// The pace is never lower than one payload in so many round trips as they are now: whoever sends
/// less than that has no queue of its own to wait for.
const FLOOR_ROUNDS: u64 = 3;

/// A round trip is judged by no fewer payloads, else by several round trips together: one that was
/// late says nothing.
const LEAST_SAMPLES: u64 = 8;

/// What losses leave of the pace, at least.
const LEAST_SHARE: u64 = UNIT / 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Startup,
    Drain,
    Cruise,
    Probe,
    Look,
}

/// What a round trip showed.
#[derive(Debug, Default)]
struct Round {
    /// The highest rate that counts.
    best: Rate,
    /// A rate that the application did not limit was among them.
    busy: bool,
    /// The window was full.
    full: bool,
    /// The smallest round-trip time.
    rtt: Option<u64>,
    /// Payloads that arrived and that were lost.
    arrived: u64,
    lost: u64,
}

/// A look at the empty path.
#[derive(Debug, Default)]
struct Look {
    /// Deliveries when little enough was on its way.
    low: Option<u64>,
    /// The smallest round-trip time and the highest rate since it began.
    rtt: Option<u64>,
    best: Rate,
    /// The round-trip time before.
    before: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Adaptive {
    epoch: Instant,
    min: u64,
    max: u64,
    phase: Phase,
    /// Busy round trips in this phase.
    rounds: u32,
    /// Round trips of this Cruise.
    cruise: u32,
    /// Before losses and bounds, and after.
    size: u64,
    window: u64,
    slack: u64,
    /// What losses leave, of [`UNIT`].
    share: u64,
    /// When the next payload may go.
    pace_at: u64,

    /// Bytes delivered, when the last were, and when the latest of them had been sent.
    delivered: u64,
    delivered_at: u64,
    delivered_sent_at: u64,
    /// Deliveries up to here are limited by the application.
    idle_until: Option<u64>,

    /// The round trip ends when a payload is acknowledged that was sent at or after this delivery.
    round_ends: u64,
    round: Round,
    rates: Highest,
    /// The lowest gain of this round trip and of the one before.
    gains: [u64; 2],
    /// The rate to beat in Startup and Probe, and round trips of Startup that did not.
    beat: Rate,
    flat: u32,
    /// How much more a probe sends, and how much of the round-trip time the queue may add, of
    /// [`UNIT`]: more for smaller shares, so that shares become equal.
    daring: u64,
    /// Consecutive round trips with a queue, and whether the window was full in the last.
    queued: u32,
    was_full: bool,
    /// The round-trip time in the second of them; the first may have begun before.
    queued_rtt: u64,

    /// The round-trip time as it is now, smoothed.
    usual_rtt: u64,
    /// The last round-trip time, and by how much one differs from the next, smoothed.
    last_rtt: u64,
    noise: u64,
    /// Smallest round-trip time, and when it was seen last.
    min_rtt: Option<u64>,
    min_seen: u64,
    look: Look,
    looked: u64,
    /// When the path was exchanged: what was sent earlier tells nothing of the present one.
    since: u64,
}

impl Adaptive {
    pub(super) fn new(options: &Options, now: Instant) -> Self {
        let max = options.tx_max_size.max(1);
        Self::with(now, options.tx_min_size.min(max), max)
    }

    /// At the beginning of a path, with a window in these bounds.
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
            look: Look::default(),
            looked: 0,
            since: 0,
        }
    }

    fn nanos(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.epoch).as_nanos() as u64
    }

    /// What the empty path holds at this rate.
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

    /// The lowest pace.
    fn floor(&self) -> Rate {
        let rounds = FLOOR_ROUNDS.saturating_mul(self.usual_rtt).clamp(1, SLOWEST);
        let known = if self.usual_rtt == 0 { SLOWEST } else { rounds };
        Rate::of(PAYLOAD, known)
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.rounds = 0;
        self.gains[0] = self.gains[0].min(self.gain());
    }

    fn enter_cruise(&mut self) {
        // Circuits that began together shall not probe together.
        let mut mixed = (self.delivered ^ self.delivered_at) | 1;
        mixed ^= mixed << 13;
        mixed ^= mixed >> 7;
        mixed ^= mixed << 17;
        self.cruise = 4 + (mixed >> 20) as u32 % 5;
        self.enter(Phase::Cruise);
    }

    fn enter_probe(&mut self) {
        self.beat = self.rates.get();
        self.enter(Phase::Probe);
    }

    fn enter_look(&mut self, before: u64, t: u64) {
        self.look = Look { before, ..Look::default() };
        self.looked = t;
        if self.path() < SMALL_SHARE {
            // A payload at a time cannot become less: it is paused.
            self.pace_at = self.pace_at.max(t) + before;
        }
        self.enter(Phase::Look);
    }

    fn take_rtt(&mut self, rtt: u64, t: u64) {
        let least = |before: Option<u64>| Some(before.map_or(rtt, |before| before.min(rtt)));
        self.round.rtt = least(self.round.rtt);
        if self.phase == Phase::Look {
            self.look.rtt = least(self.look.rtt);
        }
        let change = rtt.abs_diff(std::mem::replace(&mut self.last_rtt, rtt));
        self.noise = self.noise - self.noise / 16 + change / 16;
        self.usual_rtt = match self.usual_rtt {
            0 => rtt,
            usual => usual - usual / 8 + rtt / 8,
        };
        let near = self.min_rtt.is_some_and(|min| rtt <= min + min / 128);
        if self.min_rtt.is_none_or(|min| rtt < min) || near {
            self.min_rtt = least(self.min_rtt);
            self.min_seen = t;
        }
    }

    fn take_rate(&mut self, newest: &SentMark, min_rtt: u64, t: u64) {
        // Acks that come in a clump are not faster than what they acknowledge was sent, nor than
        // the path.
        let acked_in = t.saturating_sub(newest.delivered_at);
        let sent_in = newest.sent_at.saturating_sub(newest.delivered_sent_at);
        let took = acked_in.max(sent_in).max(min_rtt);
        let rate = Rate::of(self.delivered.saturating_sub(newest.delivered), took);
        // An idle application may show a higher rate, never a lower one.
        if newest.idle && rate <= self.rates.get() {
            return;
        }
        self.round.busy |= !newest.idle;
        self.round.best = self.round.best.max(rate);
        self.look.best = self.look.best.max(rate);
        self.rates.take(rate);
    }

    fn end_round(&mut self, idle: bool, min_rtt: u64, t: u64) {
        self.round_ends = self.delivered;
        let round = std::mem::take(&mut self.round);
        let queue = self.dare(min_rtt).max(self.noise);
        let queued = round.rtt.is_some_and(|rtt| rtt > min_rtt + queue);
        let congested = self.judge_losses(&round, min_rtt + queue / 2);
        self.queued = if queued { self.queued + 1 } else { 0 };
        if self.queued == 2 {
            self.queued_rtt = round.rtt.unwrap_or(0);
        }
        if round.busy {
            self.judge_rate(&round, queued);
            self.size_slack(queued, min_rtt);
        }
        self.next_phase(&round, queued, congested, min_rtt, t);
        if self.phase != Phase::Look && t.saturating_sub(self.min_seen) > LOOK_AFTER {
            let seen = round.rtt.unwrap_or(min_rtt);
            if idle {
                // Little was on its way anyhow.
                (self.min_rtt, self.min_seen) = (Some(seen), t);
            } else if self.phase != Phase::Startup {
                self.enter_look(seen, t);
            }
        }
    }

    /// The queue that is still none: nanoseconds.
    fn dare(&mut self, min_rtt: u64) -> u64 {
        let payloads = PAYLOAD * UNIT / 2 / self.path().max(1);
        self.daring = (UNIT / 8 + payloads).min(UNIT * 3 / 4);
        (min_rtt * self.daring / UNIT).max(MILLI)
    }

    fn judge_rate(&mut self, round: &Round, queued: bool) {
        let least = self.gains[0].min(self.gains[1]);
        self.gains = [self.gain(), self.gains[0]];
        let full = std::mem::replace(&mut self.was_full, round.full) || round.full;
        if !queued || matches!(self.phase, Phase::Startup | Phase::Look) {
            return self.rates.end_round();
        }
        // A window that is full tells nothing, unless it is as small as it can be.
        let tells = !full || round.best.bytes_in(self.min_rtt.unwrap_or(0)) < PAYLOAD;
        if self.queued > 1 && tells && round.best < self.rates.get().scaled(least * 15 / 16) {
            self.rates.set(round.best);
        } else {
            self.rates.end_round();
            // Large shares give way by more than small ones, so that shares become equal.
            let less = self.path().saturating_mul(MOST_LESS) / SMALL_SHARE;
            self.rates.lower(UNIT - less.clamp(LEAST_LESS, MOST_LESS));
        }
    }

    fn size_slack(&mut self, queued: bool, min_rtt: u64) {
        let most = if min_rtt < PACED_FROM {
            MOST_SLACK
        } else {
            (PAYLOAD + self.rates.get().bytes_in(2 * MILLI + self.noise)).min(MOST_SLACK)
        };
        let slack = if queued { self.slack - self.slack / 8 } else { self.slack + PAYLOAD / 8 };
        self.slack = slack.clamp(PAYLOAD, most);
    }

    /// True if so much was lost that somebody's queue must be full.
    fn judge_losses(&mut self, round: &Round, high: u64) -> bool {
        let (lost, all) = (round.lost, round.arrived + round.lost);
        let queue = round.rtt.is_some_and(|rtt| rtt > high);
        let congested = lost * 8 > all || (lost * 20 > all && queue);
        self.share = if congested {
            (self.share - self.share / 8).max(LEAST_SHARE)
        } else {
            (self.share + UNIT / 16).min(UNIT)
        };
        congested
    }

    fn next_phase(&mut self, round: &Round, queued: bool, congested: bool, min_rtt: u64, t: u64) {
        self.rounds += u32::from(round.busy);
        let grown_by = |parts: u64| self.rates.get() >= self.beat.scaled(UNIT + UNIT / parts);
        // Many small shares drain slowly, for none of them sends less than a payload.
        let small = self.path() < SMALL_SHARE;
        let patience = if small { SMALL_LOOK_ROUNDS } else { LOOK_ROUNDS };
        let look_again = self.looked + LOOK_PAUSE.max(20 * min_rtt);
        match self.phase {
            Phase::Look => {}
            Phase::Startup => {
                if grown_by(4) {
                    (self.beat, self.flat) = (self.rates.get(), 0);
                } else {
                    self.flat += u32::from(round.busy);
                }
                if queued || congested || self.flat >= FLAT_ROUNDS {
                    self.enter(Phase::Drain);
                }
            }
            _ if self.queued >= patience && t >= look_again => {
                self.enter_look(round.rtt.unwrap_or(min_rtt), t);
            }
            Phase::Drain => {
                let gone = round.rtt.is_some_and(|rtt| rtt <= min_rtt + min_rtt / 64);
                if gone || self.rounds >= LOOK_ROUNDS {
                    self.enter_cruise();
                }
            }
            Phase::Cruise if queued => self.enter(Phase::Drain),
            Phase::Cruise => {
                if self.rounds >= self.cruise {
                    self.enter_probe();
                }
            }
            Phase::Probe if queued || congested => self.enter(Phase::Drain),
            Phase::Probe => {
                if self.rounds >= 2 && grown_by(10) {
                    (self.beat, self.rounds) = (self.rates.get(), 1);
                } else if self.rounds >= 2 || !round.busy {
                    self.enter(Phase::Drain);
                }
            }
        }
    }

    /// What is on its way has changed: some phases end by that.
    fn watch(&mut self, acked: &Acked, min_rtt: u64, t: u64) {
        let path = self.path();
        match self.phase {
            Phase::Drain if path >= SMALL_SHARE && acked.in_flight <= path * 13 / 16 => {
                self.enter_cruise();
            }
            Phase::Look => match self.look.low {
                None if acked.in_flight <= self.window => self.look.low = Some(self.delivered),
                Some(low) if acked.newest.delivered >= low => self.end_look(min_rtt, t),
                _ => {}
            },
            _ => {}
        }
    }

    fn end_look(&mut self, min_rtt: u64, t: u64) {
        let look = std::mem::take(&mut self.look);
        let had_queue = std::mem::take(&mut self.queued) >= LOOK_ROUNDS;
        self.min_seen = t;
        let Some(seen) = look.rtt else { return self.enter_cruise() };
        // Sending less for so long would have changed a queue, whoever fills it.
        let steady = seen.abs_diff(self.queued_rtt) <= self.queued_rtt / 8;
        if had_queue && steady {
            self.min_rtt = Some(seen);
            return self.enter_probe();
        }
        let was_ours = seen < look.before - look.before / 8;
        // An application that had little to send meanwhile has shown no rate.
        let is_shown = look.best > Rate::default();
        if was_ours && is_shown && look.best < self.rates.get() {
            self.rates.set(look.best);
        }
        // Others may not look at the same time: what is seen is believed little by little only.
        self.min_rtt = Some(seen.min(min_rtt + min_rtt / 64));
        let queue = min_rtt * self.daring / UNIT;
        if seen > min_rtt + queue {
            // The path may have become longer just now: soon looked at again.
            self.looked = 0;
            self.enter(Phase::Drain);
        } else {
            self.enter_cruise();
        }
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
            // Phases are shorter there than clocks and processors are exact.
            _ if min_rtt < PACED_FROM => (path + path / 2).max(LEAST_SHORT),
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
        let short = self.min_rtt.is_some_and(|rtt| rtt < PACED_FROM);
        if short { SHORT_OUTSTANDING.max(self.window) } else { u64::MAX }
    }

    fn path(&self) -> Path {
        Path {
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
            // Time in which the application had nothing says nothing about the path.
            (self.delivered_at, self.delivered_sent_at) = (t, t);
        }
        // What is sent without a pace leaves no debt for when there is one.
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
            self.take_rtt((rtt.as_nanos() as u64).max(1), t);
        }
        let Some(min_rtt) = self.min_rtt else { return };
        self.take_rate(&acked.newest, min_rtt, t);
        let enough = self.round.arrived >= LEAST_SAMPLES || self.noise * 2 < self.dare(min_rtt);
        if acked.newest.delivered >= self.round_ends && enough {
            self.end_round(acked.newest.idle, min_rtt, t);
        }
        self.watch(acked, min_rtt, t);
        self.resize(acked, min_rtt);
        if self.phase != Phase::Look {
            // What was sent at a lower pace than the present one is not waited for.
            self.pace_at = self.pace_at.min(t + self.pace().time_for(PAYLOAD));
        }
    }

    fn on_lost(&mut self, payloads: u64) {
        self.round.lost += payloads;
    }

    fn on_path_changed(&mut self, now: Instant) {
        // As on a new circuit; only the counts go on, for marks of payloads refer to them.
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
            ..Self::with(self.epoch, self.min, self.max)
        };
    }

    fn on_idle(&mut self, in_flight: u64) {
        self.idle_until = Some(self.delivered + in_flight);
    }
}

#[cfg(test)]
#[path = "adaptive/tests.rs"]
mod tests;
