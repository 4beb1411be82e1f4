//! The wait before the next attempt to reach a controller.
//!
//! The first attempts follow each other fast, so that a restart of a controller or of this router costs
//! only a moment. A controller that stays away is dialed at least once a second for two minutes, then
//! less and less often. Each wait is random, between half of its length and all of it, so that the
//! routers of a controller that was away do not come at the same time (docs/protocol/control-plane.md 7).

use std::time::Duration;

/// Longest wait after the first failure.
const FIRST: Duration = Duration::from_millis(50);
/// The factor between one wait and the next.
const FACTOR: f64 = 1.5;
/// Longest wait while the controller has been away for less than [`SOON`].
const MAX_SOON: Duration = Duration::from_millis(900);
/// See [`MAX_SOON`].
const SOON: Duration = Duration::from_secs(120);
/// A connection that ends sooner counts as a failure: the controller may close each one at once.
const LASTING: Duration = Duration::from_secs(5);
/// Longest wait: dials fail until the router is back at a controller that was away.
const MAX: Duration = Duration::from_secs(15);

/// The waits of one controller.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backoff {
    failures: u32,
    /// Sum of all waits since the last connection that lasted.
    away: Duration,
}

impl Backoff {
    /// The wait after one more failure; `chance` is between 0 and 1.
    pub(crate) fn after_failure(&mut self, chance: f64) -> Duration {
        let most = if self.away < SOON { MAX_SOON } else { MAX };
        let grown = FIRST.as_secs_f64() * FACTOR.powi(self.failures.min(40).cast_signed());
        // The random factor comes after the bound, or else all waits at the bound would be equal.
        let factor = 0.5 + chance.clamp(0.0, 1.0) / 2.0;
        let wait = Duration::from_secs_f64(grown.min(most.as_secs_f64()) * factor);
        self.failures = self.failures.saturating_add(1);
        self.away = self.away.saturating_add(wait);
        wait
    }

    /// Notes that a connection to the controller ended after this time.
    pub(crate) fn ended_after(&mut self, time: Duration) {
        if time >= LASTING {
            *self = Self::default();
        }
    }

    /// The number of failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_at_first_then_once_a_second_then_seldom() {
        let mut backoff = Backoff::default();
        let first: Vec<u128> = (0..4).map(|_| backoff.after_failure(1.0).as_millis()).collect();
        assert_eq!(first, [50, 75, 112, 168]);
        while backoff.away < SOON {
            assert!(backoff.after_failure(1.0) <= MAX_SOON);
        }
        assert_eq!(backoff.after_failure(1.0), MAX);
        backoff.ended_after(LASTING);
        assert_eq!(backoff.after_failure(0.0), Duration::from_millis(25));
    }

    #[test]
    fn connections_that_end_at_once_make_the_waits_longer() {
        let mut backoff = Backoff::default();
        let mut wait = Duration::ZERO;
        for _ in 0..1000 {
            wait = backoff.after_failure(1.0);
            backoff.ended_after(Duration::from_millis(1));
        }
        assert_eq!(wait, MAX);
    }

    #[test]
    fn routers_of_a_controller_that_is_away_long_do_not_come_together() {
        for failures in [0, 1, 10, 60, 1000] {
            let mut early = Backoff { failures, ..Backoff::default() };
            for away in [Duration::ZERO, SOON] {
                early.away = away;
                let mut late = early.clone();
                let (early, late) = (early.clone().after_failure(0.0), late.after_failure(1.0));
                let half = late / 2 + Duration::from_nanos(1);
                assert!(early <= half, "{failures} failures: {early:?} to {late:?}");
            }
        }
    }
}
