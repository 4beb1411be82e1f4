//! The time by which something may be forgotten for good: the earliest time that the clock's readings
//! of the last hours suggest. A clock that jumps forward for a moment deletes nothing by that, and a
//! program that has just started deletes nothing at all.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A jump of the clock counts after this time, measured without the clock.
const AFTER: Duration = Duration::from_secs(6 * 3600);

/// The readings of the clock in the last hours.
#[derive(Debug, Default)]
pub struct SettledClock {
    /// The first reading.
    first: Option<Instant>,
    /// Readings of the last hours: the instant, and how many milliseconds the clock showed beyond the time since the
    /// first reading. A reading is dropped when a later one shows no more than it. So the readings ascend, and the
    /// first one is the smallest of the last hours.
    ahead: VecDeque<(Instant, i64)>,
}

impl SettledClock {
    /// Notes a reading of the clock, in milliseconds since a fixed time. Returns the settled time in
    /// the same form; none in the first hours.
    pub fn read(&mut self, shown: i64, at: Instant) -> Option<i64> {
        let first = *self.first.get_or_insert(at);
        let run = at.saturating_duration_since(first);
        let millis = i64::try_from(run.as_millis()).unwrap_or(i64::MAX);
        let ahead = shown.saturating_sub(millis);
        while self.ahead.pop_back_if(|(_, other)| *other >= ahead).is_some() {}
        self.ahead.push_back((at, ahead));
        let is_old = |then: Instant| at.saturating_duration_since(then) > AFTER;
        while self.ahead.pop_front_if(|(then, _)| is_old(*then)).is_some() {}
        let least = self.ahead.front().map(|(_, ahead)| *ahead).filter(|_| run >= AFTER);
        least.map(|ahead| ahead.saturating_add(millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// The time so many minutes after the start, in milliseconds.
    fn time(minutes: u32) -> i64 {
        1_000_000 + i64::from(minutes) * 60_000
    }

    /// Reads a right clock every minute, up to `minutes` after the start.
    fn run(clock: &mut SettledClock, start: Instant, minutes: std::ops::Range<u32>) {
        for minute in minutes {
            clock.read(time(minute), start + MINUTE * minute);
        }
    }

    #[test]
    fn a_clock_that_jumps_for_a_moment_moves_nothing() {
        let (mut clock, start) = (SettledClock::default(), Instant::now());
        let far = time(1_000_000);
        assert_eq!(clock.read(far, start), None, "a clock that is wrong at the start");
        run(&mut clock, start, 1..360);
        assert_eq!(clock.read(far, start + MINUTE * 359), None);
        for minutes in [360, 400, 5000] {
            let at = start + MINUTE * minutes;
            run(&mut clock, start, minutes..minutes + 1);
            assert_eq!(clock.read(far, at), Some(time(minutes)));
            assert_eq!(clock.read(time(minutes), at), Some(time(minutes)));
        }
    }

    #[test]
    fn a_clock_that_was_set_counts_after_hours() {
        let (mut clock, start) = (SettledClock::default(), Instant::now());
        run(&mut clock, start, 0..400);
        let set = |minutes: u32| clock.read(time(minutes + 5000), start + MINUTE * minutes);
        let settled: Vec<_> = (400..=760).map(set).collect();
        assert_eq!(settled[0], Some(time(400)));
        assert_eq!(settled[359], Some(time(759)), "the last right reading is not old");
        assert_eq!(settled[360], Some(time(5760)));
        // A clock that is set back counts at once.
        assert_eq!(clock.read(time(0), start + MINUTE * 761), Some(time(0)));
    }

    #[test]
    fn few_readings_are_kept() {
        let (mut clock, start) = (SettledClock::default(), Instant::now());
        run(&mut clock, start, 0..10_000);
        assert_eq!(clock.ahead.len(), 1);
    }
}
