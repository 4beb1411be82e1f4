//! Rates without floating point, and the highest of the last round trips.

/// Round trips whose delivery rate is remembered: those of one cycle of probing.
const MEMORY: usize = 10;

/// A rate is stored as bytes per this power of two of nanoseconds, which is some 17 ms.
const SHIFT: u32 = 24;

/// Largest count of bytes in a rate: 512 GiB.
const MOST_BYTES: u64 = 1 << 39;

/// Gains are fractions of this.
pub(super) const UNIT: u64 = 256;

/// Bytes per time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rate(u64);

impl Rate {
    /// The rate of `bytes` in `nanos` nanoseconds; zero only for no bytes.
    pub(super) fn of(bytes: u64, nanos: u64) -> Self {
        let rate = (bytes.min(MOST_BYTES) << SHIFT) / nanos.max(1);
        Self(rate.max(u64::from(bytes > 0)))
    }

    /// The bytes that pass in `nanos` nanoseconds.
    pub(super) fn bytes_in(self, nanos: u64) -> u64 {
        u64::try_from((u128::from(self.0) * u128::from(nanos)) >> SHIFT).unwrap_or(u64::MAX)
    }

    /// The nanoseconds that `bytes` take.
    pub(super) fn time_for(self, bytes: u64) -> u64 {
        (bytes.min(MOST_BYTES) << SHIFT) / self.0.max(1)
    }

    /// The rate times `gain` / [`UNIT`].
    pub(super) fn scaled(self, gain: u64) -> Self {
        Self(self.0.saturating_mul(gain) / UNIT)
    }
}

/// The highest rate of the last round trips.
#[derive(Debug, Default)]
pub(super) struct Highest {
    rounds: [Rate; MEMORY],
    highest: Rate,
}

impl Highest {
    pub(super) fn get(&self) -> Rate {
        self.highest
    }

    /// Adds a sample of this round trip.
    pub(super) fn take(&mut self, rate: Rate) {
        self.rounds[0] = self.rounds[0].max(rate);
        self.highest = self.highest.max(rate);
    }

    /// Ends a round trip: the oldest one is forgotten. The highest rate stays until one more round
    /// trip is over, so that it does not vanish before the next sample.
    pub(super) fn end_round(&mut self) {
        self.highest = self.rounds.iter().copied().max().unwrap_or_default();
        self.rounds.rotate_right(1);
        self.rounds[0] = Rate::default();
    }

    /// Multiplies all rates by `gain` / [`UNIT`], because they were too high.
    pub(super) fn lower(&mut self, gain: u64) {
        self.rounds.iter_mut().for_each(|rate| *rate = rate.scaled(gain));
        self.highest = self.highest.scaled(gain);
    }

    /// Replaces all rates, because they were wrong.
    pub(super) fn set(&mut self, rate: Rate) {
        self.rounds = [Rate::default(); MEMORY];
        self.rounds[0] = rate;
        self.highest = rate;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_highest_is_forgotten_after_a_cycle() {
        let mut highest = Highest::default();
        highest.take(Rate::of(1000, 1000));
        for _ in 0..MEMORY {
            highest.end_round();
            highest.take(Rate::of(10, 1000));
            assert_eq!(highest.get(), Rate::of(1000, 1000));
        }
        highest.end_round();
        assert_eq!(highest.get(), Rate::of(10, 1000));
    }

    proptest! {
        /// From the rate of a modem to more than any machine's, a rate gives back the bytes and the
        /// time that it was made of.
        #[test]
        fn rates_are_exact_enough(per_second in 10_000_u64..20_000_000_000, nanos in 1_000_u64..8_000_000_000) {
            let bytes = (u128::from(per_second) * u128::from(nanos) / 1_000_000_000) as u64;
            prop_assume!(bytes > 1_000);
            let rate = Rate::of(bytes, nanos);
            let near = |a: u64, b: u64| a.abs_diff(b) <= b / 100 + 1;
            prop_assert!(near(rate.bytes_in(nanos), bytes), "{} of {bytes}", rate.bytes_in(nanos));
            prop_assert!(near(rate.time_for(bytes), nanos), "{} of {nanos}", rate.time_for(bytes));
        }

        #[test]
        fn any_figures_are_taken(bytes: u64, nanos: u64, gain in 0_u64..2000) {
            let rate = Rate::of(bytes, nanos).scaled(gain);
            rate.bytes_in(nanos);
            rate.time_for(bytes);
        }
    }
}
