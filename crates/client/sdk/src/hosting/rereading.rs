//! The times at which a listener reads its routers again.

use std::time::Duration;

use tokio::time::Instant;

/// The longest time between two readings (docs/protocol/sdk.md 15.1, row 10).
const LONGEST: Duration = Duration::from_secs(3600);
/// The longest time while a slot is free and a router is missing.
const LONGEST_MISSING: Duration = Duration::from_secs(300);
/// The longest time until the first reading after the loss of the last router.
const LONGEST_NONE: Duration = Duration::from_secs(15);

/// What a listener needs further routers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Every slot is taken.
    Nothing,
    /// A slot is free, although every router is taken.
    More,
    /// A slot is free, because a router is not connected, or refuses.
    Missing,
    /// No slot is taken: the listener cannot be dialed.
    Any,
}

/// The times of the readings. A listener on all its slots hardly ever reads; the others read less and
/// less often: a network has many listeners, and their routers rarely change.
#[derive(Debug)]
pub(super) struct Rereading {
    shortest: Duration,
    /// The last reading.
    read: Instant,
    /// The last reading, or the last loss of a router, if that was later.
    lost: Instant,
    /// Readings with the need [`Need::More`] of the same list.
    more: u32,
    /// Readings with the need [`Need::Missing`] of the same list since the last loss.
    missing: u32,
    /// A factor about 1, by which many listeners do not read together.
    spread: f64,
    /// The time of a reading that does not depend on the need.
    fixed: Option<Instant>,
}

impl Rereading {
    /// The first reading is due at once.
    pub(super) fn new(shortest: Duration, now: Instant) -> Self {
        let fixed = Some(now);
        Self { shortest, read: now, lost: now, more: 0, missing: 0, spread: 1.0, fixed }
    }

    /// The time of the next reading.
    pub(super) fn due(&self, need: Need) -> Instant {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let (from, wait) = match need {
            Need::Nothing => (self.read, LONGEST),
            Need::More => (self.read, grown(self.shortest, self.more, LONGEST)),
            Need::Missing => (self.lost, grown(self.shortest, self.missing, LONGEST_MISSING)),
            Need::Any => {
                let shortest = self.shortest.min(LONGEST_NONE);
                (self.lost, grown(shortest, self.missing, LONGEST_MISSING))
            }
        };
        from + wait.mul_f64(self.spread)
    }

    /// The routers were read. `are_others` if the list has changed: one that was left out, because it drains,
    /// may be listed again soon. `spread` is about 1.
    pub(super) fn was_read(&mut self, need: Need, are_others: bool, now: Instant, spread: f64) {
        (self.read, self.lost, self.spread, self.fixed) = (now, now, spread, None);
        if are_others {
            (self.more, self.missing) = (0, 0);
        }
        match need {
            Need::Nothing => {}
            Need::More => self.more = self.more.saturating_add(1),
            Need::Missing | Need::Any => self.missing = self.missing.saturating_add(1),
        }
    }

    /// A router of the listener was lost. The next reading is soon, if no other takes its slot.
    pub(super) fn was_lost(&mut self, now: Instant) {
        (self.lost, self.missing) = (now, 0);
    }

    /// The next reading is due at this time, whatever the listener needs.
    pub(super) fn read_at(&mut self, at: Instant) {
        self.fixed = Some(self.fixed.map_or(at, |fixed| fixed.min(at)));
    }

    /// A reading begins: no other is due before it has ended.
    pub(super) fn begins(&mut self) {
        self.fixed = None;
    }
}

/// The time until the next reading, after so many.
fn grown(shortest: Duration, readings: u32, most: Duration) -> Duration {
    shortest.saturating_mul(1 << readings.saturating_sub(1).min(16)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// The readings in a day with this need.
    fn readings(rereading: &mut Rereading, need: Need, start: Instant) -> Vec<Duration> {
        let mut at = Vec::new();
        loop {
            let due = rereading.due(need);
            if due >= start + MINUTE * 60 * 24 {
                return at;
            }
            at.push(due - start);
            rereading.was_read(need, false, due, 1.0);
        }
    }

    #[test]
    fn a_listener_reads_at_once_and_hardly_again_on_all_its_slots() {
        let start = Instant::now();
        let mut rereading = Rereading::new(MINUTE, start);
        let at = readings(&mut rereading, Need::Nothing, start);
        assert_eq!((at[0], at[1], at.len()), (Duration::ZERO, LONGEST, 24));
    }

    #[test]
    fn a_listener_that_could_be_on_more_routers_reads_less_and_less_often() {
        let start = Instant::now();
        let more = readings(&mut Rereading::new(MINUTE, start), Need::More, start);
        assert_eq!(more[..4], [0, 1, 3, 7].map(|minutes| MINUTE * minutes));
        assert!(more.windows(2).all(|pair| pair[1] - pair[0] <= LONGEST) && more.len() < 32);
        let missing = readings(&mut Rereading::new(MINUTE, start), Need::Missing, start);
        assert_eq!(missing[..4], [0, 1, 3, 7].map(|minutes| MINUTE * minutes));
        assert_eq!(missing[6] - missing[5], LONGEST_MISSING);
    }

    #[test]
    fn another_list_is_followed_by_readings_as_at_the_beginning() {
        let start = Instant::now();
        let mut rereading = Rereading::new(MINUTE, start);
        for need in [Need::More, Need::Missing] {
            readings(&mut rereading, need, start);
            rereading.was_read(need, true, start, 1.0);
            assert_eq!(rereading.due(need), start + MINUTE);
        }
    }

    #[test]
    fn a_loss_is_followed_by_a_reading_unless_another_router_takes_the_place() {
        let start = Instant::now();
        let mut rereading = Rereading::new(MINUTE, start);
        readings(&mut rereading, Need::Missing, start);
        rereading.was_read(Need::Nothing, false, start, 1.1);
        let lost = start + MINUTE * 10;
        rereading.was_lost(lost);
        assert_eq!(rereading.due(Need::Missing), lost + MINUTE.mul_f64(1.1));
        assert_eq!(rereading.due(Need::Any), lost + LONGEST_NONE.mul_f64(1.1));
        assert_eq!(rereading.due(Need::Nothing), start + LONGEST.mul_f64(1.1));
        rereading.read_at(lost + MINUTE * 2);
        rereading.read_at(lost);
        assert_eq!(rereading.due(Need::Nothing), lost);
        rereading.begins();
        assert!(rereading.due(Need::Nothing) > lost + MINUTE);
    }
}
