//! Whether the clock of this controller agrees with those of the others.
//!
//! Tokens and certificates say when they begin and end, and a revocation says which tokens it ends. A controller whose
//! clock is wrong would sign what the others and routers take for ended, or for good for too long: it says so, and signs
//! nothing while its clock is far off. Most controllers are right; of two nobody can say which one is wrong.
//!
//! ```text
//!          more than 2 s            more than 10 s
//!  right -----------------> off ---------------------> far off: nothing is signed
//!    ^                     |   ^                          |
//!    +-- at most 1.5 s ----+   +----- at most 8 s --------+
//! ```

use std::sync::atomic::{AtomicU8, Ordering};

use weft_kernel::{Failure, Result};
use weft_store::Alive;

use crate::handle::Auth;

/// Milliseconds of difference to which a clock counts as wrong and as far off, and below which it does not any more.
const OFF: (u64, u64) = (2_000, 1_500);
const FAR_OFF: (u64, u64) = (10_000, 8_000);

/// How the clock stands to those of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Clock {
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

    fn of(number: u8) -> Self {
        [Self::Right, Self::Off, Self::FarOff]
            .get(usize::from(number))
            .copied()
            .unwrap_or(Self::FarOff)
    }
}

/// What was seen of the clocks.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    own: AtomicU8,
    others: AtomicU8,
}

/// Keeps a judgement; returns the new one if it has changed.
fn judge(kept: &AtomicU8, difference: i64) -> Option<Clock> {
    let before = Clock::of(kept.load(Ordering::Acquire));
    let now = before.after(difference.unsigned_abs());
    kept.store(now as u8, Ordering::Release);
    (now != before).then_some(now)
}

impl Auth {
    /// Compares the clock of this controller with those of the others. To be called at intervals.
    pub fn compare_clock(&self) {
        let Some(alive) = self.kernel().settings().store.alive() else { return };
        let alive = alive.borrow().clone();
        // What was known last stays while nobody is heard of.
        if !alive.is_heard {
            return;
        }
        let error = alive.clocks.own_error();
        match judge(&self.0.clock.own, error) {
            Some(Clock::FarOff) => tracing::error!(
                ahead_by_seconds = seconds(error),
                "the clock of this controller differs from those of the others: it signs no tokens and certificates until \
                 its clock is right. Have the machine get the time from a time server"
            ),
            Some(Clock::Off) => tracing::warn!(
                ahead_by_seconds = seconds(error),
                "the clock of this controller differs from those of the others: tokens may end too early or too late. Have \
                 the machine get the time from a time server"
            ),
            Some(Clock::Right) => {
                tracing::info!("the clock of this controller agrees with the others again")
            }
            None => {}
        }
        self.compare_clocks_of_others(&alive);
    }

    fn compare_clocks_of_others(&self, alive: &Alive) {
        let Some((run, ahead)) = alive.clocks.farthest() else { return };
        let controller =
            alive.controllers.iter().find(|it| it.run == run).map(|it| it.name.as_str());
        let changed = judge(&self.0.clock.others, ahead);
        let Some(controller) = controller.filter(|_| changed.is_some_and(|it| it != Clock::Right))
        else {
            return;
        };
        tracing::warn!(
            controller,
            ahead_by_seconds = seconds(ahead),
            "the clock of another controller differs from the one of this controller"
        );
    }

    /// Whether the clock of this controller is so wrong that it signs nothing.
    pub fn is_clock_far_off(&self) -> bool {
        Clock::of(self.0.clock.own.load(Ordering::Acquire)) == Clock::FarOff
    }

    /// # Errors
    /// If the clock of this controller is so wrong that nothing may be signed with its time.
    pub(crate) fn may_sign(&self) -> Result<()> {
        match self.is_clock_far_off() {
            true => Err(Failure::unwritable(
                "the clock of this controller is wrong, so that it signs nothing: ask another one",
            )),
            false => Ok(()),
        }
    }
}

fn seconds(millis: i64) -> f64 {
    millis as f64 / 1e3
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
