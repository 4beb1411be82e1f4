//! How the clocks of controllers that share a store differ.
//!
//! Each controller says with its announcements what its clock shows. A reading is that minus what the clock of the
//! reader shows, less than the difference of the clocks by the age of the announcement. So the highest of a few readings
//! is the best one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use weft_model::Timestamp;

use super::Presence;

/// What the clock of a machine shows.
pub type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Readings of a clock that count: those of some ten seconds.
const KEPT: usize = 6;
/// A run whose announcement was read so often without another one has died: nobody waits for its clock.
const SILENT: u32 = 8;
/// Readings that differ by more milliseconds than an announcement can be old are of a clock that was set meanwhile.
const SET: i64 = 5_000;

/// The clocks of other controllers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClockOffsets {
    by_run: HashMap<u128, i64>,
    is_complete: bool,
}

impl ClockOffsets {
    /// Offsets of runs in milliseconds, positive for clocks that are ahead of the own one.
    #[must_use]
    pub fn new(offsets: impl IntoIterator<Item = (u128, i64)>) -> Self {
        Self { by_run: offsets.into_iter().collect(), is_complete: true }
    }

    /// By how many milliseconds the clock of a run is ahead of the own one.
    #[must_use]
    pub fn of(&self, run: u128) -> Option<i64> {
        self.by_run.get(&run).copied()
    }

    /// By how many milliseconds the own clock is ahead of the clock in the middle, that of all controllers which as many
    /// others are ahead of as behind. 0 if it cannot be said which of two clocks is wrong.
    #[must_use]
    pub fn own_error(&self) -> i64 {
        let (lower, upper) = self.middle();
        if lower.unsigned_abs() < upper.unsigned_abs() { lower } else { upper }
    }

    /// By how many milliseconds the own clock is ahead of the clock in the middle, or of the slower one of two in the middle;
    /// at least 0. What ends by that clock has ended for most controllers.
    #[must_use]
    pub fn own_lead(&self) -> i64 {
        self.middle().1.max(0)
    }

    /// By how many milliseconds the clock that is farthest ahead is ahead of the own one; at least 0.
    #[must_use]
    pub fn lead_of_others(&self) -> u64 {
        self.by_run.values().copied().max().unwrap_or_default().max(0).unsigned_abs()
    }

    /// By how many milliseconds the own clock is ahead of the two clocks in the middle of all.
    fn middle(&self) -> (i64, i64) {
        let mut all: Vec<i64> = self.by_run.values().map(|ahead| ahead.saturating_neg()).collect();
        all.push(0);
        all.sort_unstable();
        (all[(all.len() - 1) / 2], all[all.len() / 2])
    }

    /// Whether there are two clocks that differ by more milliseconds than this, so that nobody can say which one is wrong.
    #[must_use]
    pub fn is_disputed(&self, difference: u64) -> bool {
        self.by_run.len() == 1 && self.by_run.values().any(|it| it.unsigned_abs() > difference)
    }

    /// Whether the clocks of all others that still speak are known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The run whose clock differs most from the own one, and by how many milliseconds it is ahead.
    #[must_use]
    pub fn farthest(&self) -> Option<(u128, i64)> {
        let most = self.by_run.iter().max_by_key(|(run, ahead)| (ahead.unsigned_abs(), **run))?;
        Some((*most.0, *most.1))
    }
}

/// Readings of the clocks of others, the newest last.
#[derive(Debug, Default)]
pub(crate) struct ClockReadings(HashMap<u128, Readings>);

#[derive(Debug, Default)]
struct Readings {
    said_at: Timestamp,
    /// How often the same announcement was read again.
    again: u32,
    ahead: VecDeque<i64>,
}

impl ClockReadings {
    /// Reads the announcements of all controllers, at the time `now` of the own clock.
    pub(crate) fn read(&mut self, now: Timestamp, own: u128, all: &[Presence]) {
        self.0.retain(|run, _| all.iter().any(|it| it.run == *run));
        for other in all.iter().filter(|it| it.run != own) {
            let known = self.0.entry(other.run).or_default();
            known.add(now, other.said_at);
        }
    }

    /// Whether a run has said nothing for so long that it has died.
    pub(crate) fn is_silent(&self, run: u128) -> bool {
        self.0.get(&run).is_some_and(|known| known.again > SILENT)
    }

    /// The differences as they are known.
    pub(crate) fn offsets(&self) -> ClockOffsets {
        // One announcement may be old: of a controller that has died, or from before etcd stood still.
        let has_spoken_again = |(_, known): &(&u128, &Readings)| known.ahead.len() > 1;
        let highest = |(run, known): (&u128, &Readings)| Some((*run, *known.ahead.iter().max()?));
        let is_silent = |known: &Readings| known.again > SILENT;
        ClockOffsets {
            by_run: self.0.iter().filter(has_spoken_again).filter_map(highest).collect(),
            is_complete: self.0.values().all(|known| known.ahead.len() > 1 || is_silent(known)),
        }
    }
}

impl Readings {
    fn add(&mut self, now: Timestamp, said_at: Timestamp) {
        // The same announcement again is only older.
        if !self.ahead.is_empty() && self.said_at == said_at {
            self.again = self.again.saturating_add(1);
            return;
        }
        self.again = 0;
        let reading = said_at.0.saturating_sub(now.0);
        let last = self.ahead.back();
        if last.is_some_and(|last| last.abs_diff(reading) > SET.unsigned_abs()) {
            self.ahead.clear();
        }
        self.said_at = said_at;
        self.ahead.push_back(reading);
        if self.ahead.len() > KEPT {
            self.ahead.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    fn said(run: u128, said_at: i64) -> Presence {
        Presence { run, said_at: Timestamp(said_at), ..Presence::default() }
    }

    #[test]
    fn the_clock_that_is_farthest_ahead_has_a_lead() {
        for (offsets, lead) in [
            (&[][..], 0),
            (&[-5_000], 0),
            (&[-5_000, 300, 1_200], 1_200),
            (&[i64::MIN, i64::MAX], i64::MAX.unsigned_abs()),
        ] {
            let offsets = offsets.iter().enumerate().map(|(run, ahead)| (run as u128, *ahead));
            assert_eq!(ClockOffsets::new(offsets).lead_of_others(), lead);
        }
    }

    #[test]
    fn the_youngest_announcement_tells_the_difference() {
        let mut readings = ClockReadings::default();
        let mut read = |now: i64, said_at: i64| {
            let all = [said(1, now), said(2, said_at)];
            readings.read(Timestamp(now), 1, &all);
            readings.offsets().of(2)
        };
        // The other clock is 300 ms ahead. It counts from the second announcement on.
        for (now, age, expected) in [
            (0, 1_500, None),
            (1_600, 700, Some(-400)),
            (3_000, 20, Some(280)),
            (4_600, 1_600, Some(280)),
        ] {
            assert_eq!(read(NOW + now, NOW + now + 300 - age), expected);
        }
        // The same announcement again says nothing.
        assert_eq!(read(NOW + 6_000, NOW + 3_300), Some(280));
        // The reading of 280 is forgotten at last.
        for step in 0..6 {
            let now = NOW + 8_000 + step * 1_600;
            read(now, now + 300 - 500);
        }
        assert_eq!(read(NOW + 20_000, NOW + 19_800), Some(-200));
        // The other clock is set back, then this one.
        assert_eq!(read(NOW + 21_000, NOW - 10_000), None);
        assert_eq!(read(NOW + 22_000, NOW - 9_000), Some(-31_000));
        assert_eq!(read(NOW - 9_000, NOW - 9_500), None);
        assert_eq!(read(NOW - 8_000, NOW - 8_400), Some(-400));
        readings.read(Timestamp(NOW), 1, &[said(1, NOW)]);
        assert_eq!(readings.offsets(), ClockOffsets::new([]));
        for at in 0..2 {
            let extreme = [said(2, i64::MIN + at), said(3, i64::MAX - at)];
            readings.read(Timestamp(NOW), 1, &extreme);
        }
        assert_eq!(readings.offsets().of(2), Some(i64::MIN));
        assert_eq!(readings.offsets().own_error(), 0);
    }

    #[test]
    fn the_clocks_are_known_when_all_that_live_have_spoken_twice() {
        let mut readings = ClockReadings::default();
        assert!(readings.offsets().is_complete(), "there is nobody else");
        let mut read = |second: i64| {
            let now = NOW + second * 1_300;
            let all = [said(1, now), said(2, now - 100), said(3, NOW - 4_000)];
            readings.read(Timestamp(now), 1, &all);
            readings.offsets().is_complete()
        };
        assert!((0..9).map(&mut read).all(|is_complete| !is_complete), "the third may speak again");
        assert!(read(9));
    }

    #[test]
    fn a_clock_is_wrong_if_most_others_are_on_one_side_of_it() {
        for (others, expected) in [
            (&[][..], 0),
            // Nobody can say which of two is wrong.
            (&[30_000], 0),
            (&[30_000, 31_000], -30_000),
            (&[-30_000, -31_000], 30_000),
            (&[0, 30_000], 0),
            (&[-5, 30_000], 0),
            (&[30_000, -30_000], 0),
            // Two against two.
            (&[30_000, 30_000, 10], -10),
            (&[30_000, 30_000, 30_000], -30_000),
            (&[3, 30_000, 30_000, 30_000], -30_000),
        ] {
            let offsets = ClockOffsets::new((1..).zip(others.iter().copied()));
            assert_eq!(offsets.own_error(), expected, "{others:?}");
        }
        // What is ended by a clock that is ahead of most, or of one of two, waits.
        for (others, expected) in [
            (&[][..], 0),
            (&[30_000], 0),
            (&[-30_000], 30_000),
            (&[-30_000, -31_000], 30_000),
            (&[-30_000, 1], 0),
            (&[-30_000, -20_000, 10], 20_000),
            (&[30_000, 30_000, 10], 0),
        ] {
            let offsets = ClockOffsets::new((1..).zip(others.iter().copied()));
            assert_eq!(offsets.own_lead(), expected, "{others:?}");
        }
        let offsets = ClockOffsets::new([(1, 5), (2, -40), (3, 30)]);
        assert_eq!((offsets.farthest(), offsets.of(3)), (Some((2, -40)), Some(30)));
    }
}
