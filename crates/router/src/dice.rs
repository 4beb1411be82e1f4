//! Random numbers from a seed, for simulators.

use std::ops::Range;
use std::time::Duration;

/// The generator SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Another generator.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.next())
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    /// True once in so many calls.
    pub(crate) fn once_in(&mut self, calls: usize) -> bool {
        self.below(calls) == 0
    }

    /// A time of so many milliseconds.
    pub(crate) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.next() % (range.end - range.start))
    }
}
