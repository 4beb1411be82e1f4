//! The change from one phase to the next.

use super::rounds::Round;
use super::{
    Adaptive, FLAT_ROUNDS, LOOK_PAUSE, LOOK_ROUNDS, Look, Phase, SMALL_LOOK_ROUNDS, SMALL_SHARE,
};
use crate::congestion::control::Acked;
use crate::congestion::rate::{Rate, UNIT};

impl Adaptive {
    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.rounds = 0;
        self.gains[0] = self.gains[0].min(self.gain());
    }

    fn enter_cruise(&mut self) {
        // Circuits that began at the same time must not probe at the same time.
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

    pub(super) fn enter_look(&mut self, before: u64, t: u64) {
        self.look = Look { before, ..Look::default() };
        self.looked = t;
        if self.path() < SMALL_SHARE {
            // A window of one payload cannot shrink: sending is paused instead.
            self.pace_at = self.pace_at.max(t) + before;
        }
        self.enter(Phase::Look);
    }

    /// Goes on to the next phase at the end of a round trip.
    pub(super) fn next_phase(
        &mut self,
        round: &Round,
        queued: bool,
        congested: bool,
        min_rtt: u64,
        t: u64,
    ) {
        self.rounds += u32::from(round.busy);
        let grown_by = |parts: u64| self.rates.get() >= self.beat.scaled(UNIT + UNIT / parts);
        // Many small shares drain slowly, because none of them sends less than one payload.
        let small = self.path() < SMALL_SHARE;
        let patience = if small { SMALL_LOOK_ROUNDS } else { LOOK_ROUNDS };
        let look_again = self.looked + LOOK_PAUSE.max(20 * min_rtt);
        match self.phase {
            Phase::Look => {}
            Phase::Startup => {
                let grows = grown_by(4);
                if grows {
                    (self.beat, self.flat) = (self.rates.get(), 0);
                } else {
                    self.flat += u32::from(round.busy);
                }
                if (queued && !grows) || congested || self.flat >= FLAT_ROUNDS {
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

    /// Checks the bytes on their way, by which some phases end.
    pub(super) fn watch(&mut self, acked: &Acked, min_rtt: u64, t: u64) {
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
        // A look of this length shortens every queue on the path, whichever circuits fill it. A
        // round-trip time that stayed the same is therefore that of the empty path.
        let steady = seen.abs_diff(self.queued_rtt) <= self.queued_rtt / 8;
        if had_queue && steady {
            self.min_rtt = Some(seen);
            return self.enter_probe();
        }
        let was_ours = seen < look.before - look.before / 8;
        // An application with little to send has shown no rate meanwhile.
        let is_shown = look.best > Rate::default();
        if was_ours && is_shown && look.best < self.rates.get() {
            self.rates.set(look.best);
        }
        // Other circuits may not look at the same time: small steps limit the error.
        self.min_rtt = Some(seen.min(min_rtt + min_rtt / 64));
        let queue = min_rtt * self.daring / UNIT;
        if seen > min_rtt + queue {
            // The path may just have become longer: the next look comes soon.
            self.looked = 0;
            self.enter(Phase::Drain);
        } else {
            self.enter_cruise();
        }
    }
}
