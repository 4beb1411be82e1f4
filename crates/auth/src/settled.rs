//! The time by which something may be forgotten for good: the earliest time that the clock's readings
//! of the last hours suggest. A clock that jumps forward for a moment deletes nothing by that, and a
//! program that has just started deletes nothing at all.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_model::Timestamp;

use crate::handle::Auth;

/// A jump of the clock counts after this time, measured without the clock.
pub const AFTER: Duration = Duration::from_secs(6 * 3600);

/// The readings of the clock in the last hours.
#[derive(Debug, Default)]
pub struct SettledClock(Mutex<Readings>);

#[derive(Debug, Default)]
struct Readings {
    /// The first reading.
    first: Option<Instant>,
    /// Readings of the last hours: when, and by how many milliseconds the clock was ahead of the time
    /// since the first reading. Only readings that are less ahead than all later ones are kept, so
    /// that the first one is the least.
    ahead: VecDeque<(Instant, i64)>,
}

impl SettledClock {
    /// Notes a reading of the clock. Returns the settled time; none in the first hours.
    pub fn read(&self, shown: Timestamp, at: Instant) -> Option<Timestamp> {
        let mut readings = self.0.lock();
        let first = *readings.first.get_or_insert(at);
        let run = at.saturating_duration_since(first);
        let millis = i64::try_from(run.as_millis()).unwrap_or(i64::MAX);
        let ahead = shown.0.saturating_sub(millis);
        let readings = &mut readings.ahead;
        while readings.pop_back_if(|(_, other)| *other >= ahead).is_some() {}
        readings.push_back((at, ahead));
        let is_old = |then: Instant| at.saturating_duration_since(then) > AFTER;
        while readings.pop_front_if(|(then, _)| is_old(*then)).is_some() {}
        let least = readings.front().map(|(_, ahead)| *ahead).filter(|_| run >= AFTER);
        least.map(|ahead| Timestamp(ahead.saturating_add(millis)))
    }
}

impl Auth {
    /// The time by which something may be forgotten for good; none in the first hours of a run.
    pub fn settled_now(&self) -> Option<Timestamp> {
        self.0.settled.read(self.now(), Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const START: Timestamp = Timestamp(1_000_000);

    /// Reads a right clock every minute, up to `minutes` after the start.
    fn run(clock: &SettledClock, start: Instant, minutes: std::ops::Range<u32>) {
        for minute in minutes {
            clock.read(START.plus(MINUTE * minute), start + MINUTE * minute);
        }
    }

    #[test]
    fn a_clock_that_jumps_for_a_moment_moves_nothing() {
        let (clock, start) = (SettledClock::default(), Instant::now());
        let far = START.plus(MINUTE * 1_000_000);
        assert_eq!(clock.read(far, start), None, "a clock that is wrong at the start");
        run(&clock, start, 1..360);
        let right = |minutes: u32| (START.plus(MINUTE * minutes), start + MINUTE * minutes);
        assert_eq!(clock.read(far, right(359).1), None);
        for minutes in [360, 400, 5000] {
            run(&clock, start, minutes..minutes + 1);
            assert_eq!(clock.read(far, right(minutes).1), Some(right(minutes).0));
            assert_eq!(clock.read(right(minutes).0, right(minutes).1), Some(right(minutes).0));
        }
    }

    #[test]
    fn a_clock_that_was_set_counts_after_hours() {
        let (clock, start) = (SettledClock::default(), Instant::now());
        run(&clock, start, 0..400);
        let set = |minutes: u32| {
            clock.read(START.plus(MINUTE * (minutes + 5000)), start + MINUTE * minutes)
        };
        let settled: Vec<_> = (400..=760).map(set).collect();
        assert_eq!(settled[0], Some(START.plus(MINUTE * 400)));
        assert_eq!(settled[359], Some(START.plus(MINUTE * 759)), "the last right one is not old");
        assert_eq!(settled[360], Some(START.plus(MINUTE * 5760)));
        // A clock that is set back counts at once.
        let back = clock.read(START, start + MINUTE * 761);
        assert_eq!(back, Some(START));
    }

    #[test]
    fn few_readings_are_kept() {
        let (clock, start) = (SettledClock::default(), Instant::now());
        run(&clock, start, 0..10_000);
        assert_eq!(clock.0.lock().ahead.len(), 1);
    }
}
