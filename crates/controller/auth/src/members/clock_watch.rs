//! Judges by how much a clock differs from others.
//!
//! ```text
//!          more than 2 s            more than 10 s
//!  right -----------------> off ---------------------> far off: nothing is signed
//!    ^                     |   ^                          |
//!    +-- at most 1.5 s ----+   +----- at most 8 s --------+
//! ```

use std::sync::atomic::{AtomicU8, Ordering};

/// Milliseconds of difference up to which a clock is right.
pub(super) const RIGHT: u64 = 1_500;
/// Milliseconds of difference to which a clock counts as wrong and as far off, and below which it does not any more.
const OFF: (u64, u64) = (2_000, RIGHT);
const FAR_OFF: (u64, u64) = (10_000, 8_000);

/// How the clock stands to those of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Clock {
    Right,
    Off,
    FarOff,
}

impl Clock {
    /// Judges a difference in milliseconds.
    fn after(self, difference: u64) -> Self {
        let is_over =
            |of: Self, (enters, stays)| difference > if self >= of { stays } else { enters };
        match (is_over(Self::FarOff, FAR_OFF), is_over(Self::Off, OFF)) {
            (true, _) => Self::FarOff,
            (false, true) => Self::Off,
            (false, false) => Self::Right,
        }
    }

    pub(super) fn of(number: u8) -> Self {
        [Self::Right, Self::Off, Self::FarOff]
            .get(usize::from(number))
            .copied()
            .unwrap_or(Self::FarOff)
    }
}

/// What was seen of the clocks.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    pub(super) own: AtomicU8,
    pub(super) others: AtomicU8,
}

/// Keeps a judgement; returns the new one if it has changed.
pub(super) fn judge(kept: &AtomicU8, difference: i64) -> Option<Clock> {
    let before = Clock::of(kept.load(Ordering::Acquire));
    let now = before.after(difference.unsigned_abs());
    kept.store(now as u8, Ordering::Release);
    (now != before).then_some(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_near_a_limit_is_not_judged_anew_each_time() {
        use Clock::{FarOff, Off, Right};
        let mut clock = Right;
        for (difference, expected) in [
            (0, Right),
            (2_000, Right),
            (2_001, Off),
            (1_600, Off),
            (1_500, Right),
            (30_000, FarOff),
            (9_000, FarOff),
            (8_000, Off),
            (10_000, Off),
            (10_001, FarOff),
            (1_000, Right),
            (u64::MAX, FarOff),
        ] {
            clock = clock.after(difference);
            assert_eq!(clock, expected, "{difference}");
        }
    }
}
