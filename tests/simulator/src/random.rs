//! The random numbers of a run: the same seed gives the same numbers.

use std::time::Duration;

use parking_lot::Mutex;

/// A generator of random numbers with a seed.
#[derive(Debug)]
pub(crate) struct Random(Mutex<u64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    /// Any number.
    pub(crate) fn any(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = *state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&self, limit: u64) -> u64 {
        self.any() % limit
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A time between two others, in milliseconds.
    pub(crate) fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from + 1))
    }

    /// Numbers for one event.
    pub(crate) fn draw(&self) -> Draw {
        Draw { which: self.any(), at: self.any(), time: self.any(), kind: self.any() }
    }
}

/// The numbers that say what happens in one event. Each event takes the same number of them, so that the events of a
/// seed do not depend on how the network fares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draw {
    /// The event, in percent.
    pub(crate) kind: u64,
    which: u64,
    at: u64,
    time: u64,
}

impl Draw {
    /// One of several things; none of none.
    pub(crate) fn one<'t, T>(&self, of: &'t [T]) -> Option<&'t T> {
        of.get((self.which.checked_rem(of.len() as u64)?) as usize)
    }

    /// A second choice.
    pub(crate) fn other<'t, T>(&self, of: &'t [T]) -> Option<&'t T> {
        of.get((self.at.checked_rem(of.len() as u64)?) as usize)
    }

    /// A third choice: a number below `limit`, or 0.
    pub(crate) fn below(&self, limit: usize) -> usize {
        ((self.kind / 100) % limit.max(1) as u64) as usize
    }

    /// True in `percent` of 100 cases, for an event that takes no time.
    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.time % 100 < percent
    }

    /// A time between two others, in milliseconds.
    pub(crate) fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.time % (to - from + 1))
    }
}
