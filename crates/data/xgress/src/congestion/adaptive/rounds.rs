//! The end of a round trip: its samples tell of queues and losses, and change the rate and the window.

use super::{Adaptive, LOOK_AFTER, MILLI, MOST_SLACK, PACED_FROM, PAYLOAD, Phase, SMALL_SHARE};
use crate::congestion::control::Congestion as _;
use crate::congestion::rate::{Rate, UNIT};

/// Most bytes of the window beyond the capacity of a path without pacing. These bytes keep both ends and the
/// routers between them at work while each waits for a processor.
const MOST_SHORT_SLACK: u64 = 384 * 1024;

/// A circuit that has seen the smallest round-trip time within this time, in nanoseconds, does not look.
const SEEN_LATELY: u64 = LOOK_AFTER / 8;

/// The part of the rate that each round trip with a queue takes: the least, for a tiny share, and the most,
/// for a share that is not small.
const LEAST_LESS: u64 = UNIT / 64;
const MOST_LESS: u64 = UNIT / 16;

/// Smallest part of the pace that losses leave.
pub(super) const LEAST_SHARE: u64 = UNIT / 2;

/// The samples of a round trip.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The highest rate that counts.
    pub(super) best: Rate,
    /// True if a rate was among them that the application did not limit.
    pub(super) busy: bool,
    /// True if the window was full.
    pub(super) full: bool,
    /// The smallest round-trip time.
    pub(super) rtt: Option<u64>,
    /// Payloads that arrived and that were lost.
    pub(super) arrived: u64,
    pub(super) lost: u64,
}

impl Adaptive {
    /// Judges the round trip that has ended, and begins the next one.
    pub(super) fn end_round(&mut self, idle: bool, min_rtt: u64, t: u64) {
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
        if self.phase != Phase::Look && self.look_is_due(t) {
            let seen = round.rtt.unwrap_or(min_rtt);
            if idle {
                // Few bytes were on their way already.
                (self.min_rtt, self.min_seen) = (Some(seen), t);
            } else if self.phase != Phase::Startup {
                self.enter_look(seen, t);
            }
        }
    }

    /// True if the smallest round-trip time has to be seen again.
    pub(super) fn look_is_due(&self, t: u64) -> bool {
        let unseen = t.saturating_sub(self.min_seen);
        let turns = self.turns.filter(|_| !self.is_near());
        let Some(from) = turns else { return unseen > LOOK_AFTER };
        let turn = |t: u64| t.saturating_add(from) / LOOK_AFTER;
        turn(t) > turn(self.min_seen) && unseen > SEEN_LATELY
    }

    /// The delay that does not count as a queue yet, in nanoseconds.
    pub(super) fn dare(&mut self, min_rtt: u64) -> u64 {
        let payloads = PAYLOAD * UNIT / 2 / self.path().max(1);
        self.daring = (UNIT / 8 + payloads).min(UNIT * 7 / 8);
        (min_rtt * self.daring / UNIT).max(MILLI)
    }

    fn judge_rate(&mut self, round: &Round, queued: bool) {
        let least = self.gains[0].min(self.gains[1]);
        self.gains = [self.gain(), self.gains[0]];
        let full = std::mem::replace(&mut self.was_full, round.full) || round.full;
        if !queued || matches!(self.phase, Phase::Startup | Phase::Look) {
            return self.rates.end_round();
        }
        // The rate of a full window is a limit of the window, not of the path, unless the window is
        // as small as possible.
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
            MOST_SHORT_SLACK
        } else {
            (PAYLOAD + self.rates.get().bytes_in(2 * MILLI + self.noise)).min(MOST_SLACK)
        };
        let slack = if queued { self.slack - self.slack / 8 } else { self.slack + PAYLOAD / 8 };
        self.slack = slack.clamp(PAYLOAD, most);
    }

    /// True if the losses are so many that the queue of some router must be full.
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
}
