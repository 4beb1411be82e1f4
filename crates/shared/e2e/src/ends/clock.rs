//! A clock that goes on while the machine sleeps. `Instant` stands still then on many systems, so that a statement that
//! ended during the sleep would be taken for good, and one of this program's own, too.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

/// The time by which the time of day may get ahead without a sleep: somebody set the clock a little.
const SLACK: Duration = Duration::from_secs(1);
/// The longest sleep that is added: the time of day may be set to any date.
const LONGEST_SLEEP: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

static CLOCK: LazyLock<Mutex<Clock>> = LazyLock::new(|| {
    Mutex::new(Clock { last: (Instant::now(), SystemTime::now()), slept: Duration::ZERO })
});

/// The present time, of this clock.
pub(super) fn now() -> Instant {
    let mut clock = CLOCK.lock();
    let now = clock.at(Instant::now(), SystemTime::now());
    #[cfg(test)]
    let now = now + testing::AHEAD.get();
    now
}

/// The time since a time of this clock.
pub(super) fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}

#[derive(Debug)]
struct Clock {
    /// The times of the last look.
    last: (Instant, SystemTime),
    /// How long the machine has slept.
    slept: Duration,
}

impl Clock {
    /// A time of day that got ahead since the last look means that the machine has slept, or that its clock was set: a
    /// statement ends too early then, and the controller is asked for another one.
    fn at(&mut self, now: Instant, day: SystemTime) -> Instant {
        let passed = now.saturating_duration_since(self.last.0);
        let of_day = day.duration_since(self.last.1).unwrap_or_default();
        self.last = (now, day);
        let slept = of_day.saturating_sub(passed);
        if slept > SLACK {
            self.slept = self.slept.saturating_add(slept).min(LONGEST_SLEEP);
        }
        now.checked_add(self.slept).unwrap_or(now)
    }
}

#[cfg(test)]
pub(super) mod testing {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        /// How far the clock of a test is ahead.
        pub(in super::super) static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_of_the_machine_counts_and_a_clock_that_is_set_back_does_not() {
        let (start, day) = (Instant::now(), SystemTime::now());
        let second = Duration::from_secs(1);
        let mut clock = Clock { last: (start, day), slept: Duration::ZERO };
        assert_eq!(clock.at(start + second, day + second), start + second);
        // It sleeps for an hour, of which the monotonic clock sees one second.
        let woken = clock.at(start + 2 * second, day + 3600 * second);
        assert_eq!(woken, start + 3600 * second);
        // The clock is set back, and forward by less than the slack.
        assert_eq!(clock.at(start + 3 * second, day), start + 3601 * second);
        assert_eq!(clock.at(start + 4 * second, day + 2 * second), start + 3602 * second);
        // It sleeps again, for less than the clock was set back.
        assert_eq!(clock.at(start + 4 * second, day + 62 * second), start + 3662 * second);
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(clock.at(start + 4 * second, far), start + 4 * second + LONGEST_SLEEP);
    }
}
