//! How long a circuit stays that its controller has ended, for messages that wait here or are on their way.

use std::time::{Duration, Instant};

use super::messages::Sight;

/// The shortest time without messages after which a circuit counts as quiet.
const LEAST: Duration = Duration::from_millis(10);
/// The first look at a circuit comes after one part in this many of the time after which it counts
/// as quiet, because the other side of a circuit mostly closes its end soon after the first side.
const FIRST_LOOK: u32 = 32;

/// A circuit is taken down after this many times the time after which it counts as quiet, and after this time at the
/// soonest, whatever its ends still send: its data has arrived by then. The time begins anew whenever fewer bytes wait
/// for neighbours than ever before, as over a slow link, for ten times as long in all.
const LONGEST: u32 = 12;
const LONGEST_LEAST: Duration = Duration::from_secs(60);
const LONGEST_SHRINKING: u32 = 10;

/// A circuit that is to be taken down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    since: Instant,
    /// The fewest bytes that have waited for neighbours whenever the circuit was looked at.
    fewest: u64,
    /// When fewer bytes waited than ever before: `fewest` was noted at that time.
    shrunk: Instant,
    /// The time until the circuit is looked at again.
    wait: Duration,
}

impl Leaving {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, fewest: u64::MAX, shrunk: now, wait: Duration::ZERO }
    }

    /// Judges a circuit by what it looks like: it is over once it is done, or once it has had no message of its other
    /// end for the time `quiet` and its queues for neighbours do not become shorter. A circuit whose queues do not
    /// become shorter for [`LONGEST`] times that time, and for a minute at least, is over whatever its ends send.
    /// Returns the time until the next look; none if the circuit is over.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        sight: Sight,
        quiet: Duration,
    ) -> Option<Duration> {
        let quiet = quiet.max(LEAST);
        let longest = quiet.saturating_mul(LONGEST).max(LONGEST_LEAST);
        if sight.is_done {
            return None;
        }
        if sight.waiting < self.fewest {
            (self.fewest, self.shrunk) = (sight.waiting, now);
        }
        let passed = |since: Instant| now.saturating_duration_since(since);
        let in_all = longest.saturating_mul(LONGEST_SHRINKING);
        let over = longest.saturating_sub(passed(self.shrunk));
        let over = over.min(in_all.saturating_sub(passed(self.since)));
        let counts_from = if sight.waiting > 0 { self.shrunk } else { self.since };
        let left = match quiet.saturating_sub(passed(counts_from)) {
            Duration::ZERO => quiet.saturating_sub(sight.unheard),
            left => left,
        };
        if over.is_zero() || left.is_zero() {
            return None;
        }
        // No later than the circuit may be quiet.
        let longer = if self.wait.is_zero() { quiet / FIRST_LOOK } else { self.wait * 2 };
        self.wait = longer.min(left.max(LEAST)).min(over);
        Some(self.wait)
    }
}
