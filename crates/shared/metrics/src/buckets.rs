//! Counts of values by size class: four classes to each power of two, so that a percentile is off
//! by an eighth at most.

use crate::report::Distribution;

/// Classes for message sizes, up to 16 MiB.
pub const SIZES: usize = 4 * 22 + 4;
/// Classes for times in nanoseconds, up to about 39 hours.
pub const TIMES: usize = 4 * 45 + 4;

/// Class of a value. Values above the largest class belong to the last.
pub(crate) fn class(value: u64, classes: usize) -> usize {
    let at = match value {
        0..4 => value as usize,
        _ => {
            let power = value.ilog2() as usize;
            (power - 1) * 4 + ((value >> (power - 2)) & 3) as usize
        }
    };
    at.min(classes.saturating_sub(1))
}

/// The smallest value of a class.
fn lowest(class: usize) -> u64 {
    match class {
        0..4 => class as u64,
        _ => {
            let power = class / 4 + 1;
            let sub = (class % 4) as u64;
            (4 + sub).checked_shl(power as u32 - 2).unwrap_or(u64::MAX)
        }
    }
}

/// Counts of values by class, and the sum of the values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    counts: Vec<u64>,
    sum: u64,
}

impl Buckets {
    /// Adds `count` values of a class.
    pub fn add(&mut self, class: usize, count: u64) {
        if count == 0 {
            return;
        }
        if self.counts.len() <= class {
            self.counts.resize(class + 1, 0);
        }
        if let Some(known) = self.counts.get_mut(class) {
            *known = known.wrapping_add(count);
        }
    }

    /// Adds to the sum of all values.
    pub fn add_sum(&mut self, sum: u64) {
        self.sum = self.sum.wrapping_add(sum);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |all, count| all.wrapping_add(*count))
    }

    /// Sum of the values.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The values that were added since an earlier state of the same buckets.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let before = |class: usize| earlier.counts.get(class).copied().unwrap_or(0);
        let counts = self.counts.iter().enumerate();
        Self {
            counts: counts.map(|(class, count)| count.saturating_sub(before(class))).collect(),
            sum: self.sum.saturating_sub(earlier.sum),
        }
    }

    /// The distribution of these values; `count` is the number of values since the start.
    pub(crate) fn distribution(&self, count: u64) -> Distribution {
        let recent = self.count();
        if recent == 0 {
            return Distribution { count, ..Distribution::default() };
        }
        let filled = || self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let smallest = filled().next().map_or(0, |(class, _)| lowest(class));
        let largest = filled().next_back().map_or(0, |(class, _)| lowest(class + 1) - 1);
        let mean = self.sum as f64 / recent as f64;
        let variance = filled()
            .map(|(class, count)| (middle(class) - mean).powi(2) * *count as f64)
            .sum::<f64>()
            / recent as f64;
        let variance = if recent == 1 { 0.0 } else { variance };
        let percentile = |share: f64| self.percentile(share, recent);
        Distribution {
            count,
            min: smallest.min(mean as u64),
            max: largest.max(mean.ceil() as u64),
            mean,
            std_dev: variance.sqrt(),
            variance,
            p50: percentile(0.5),
            p75: percentile(0.75),
            p95: percentile(0.95),
            p99: percentile(0.99),
            p999: percentile(0.999),
            p9999: percentile(0.9999),
        }
    }

    /// The percentile of `share` (0 to 1): the middle of its class.
    fn percentile(&self, share: f64, count: u64) -> f64 {
        let rank = (share * count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(class);
            }
        }
        0.0
    }
}

fn middle(class: usize) -> f64 {
    let (low, next) = (lowest(class), lowest(class + 1));
    (low as f64 + (next - 1).max(low) as f64) / 2.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Buckets {
        let mut buckets = Buckets::default();
        for value in values {
            buckets.add(class(*value, TIMES), 1);
            buckets.add_sum(*value);
        }
        buckets
    }

    #[test]
    fn classes_follow_each_other() {
        for at in 0..TIMES {
            assert_eq!(class(lowest(at), TIMES), at);
            assert_eq!(class(lowest(at + 1) - 1, TIMES), at, "{at}");
        }
        assert_eq!(class(u64::MAX, TIMES), TIMES - 1);
        assert_eq!(class(u64::MAX, SIZES), SIZES - 1);
        assert!(lowest(SIZES - 1) < 16 << 20 && lowest(SIZES) >= 16 << 20);
    }

    #[test]
    fn nothing_is_all_zero() {
        let nothing = Buckets::default().distribution(7);
        assert_eq!(nothing, Distribution { count: 7, ..Distribution::default() });
    }

    #[test]
    fn a_window_is_what_came_since() {
        let (mut all, old) = (of(&[5, 1_000]), of(&[5, 1_000]));
        all.add(class(300, TIMES), 2);
        all.add_sum(600);
        let recent = all.since(&old);
        assert_eq!((recent.count(), recent.sum()), (2, 600));
        assert_eq!(recent.distribution(4).mean, 300.0);
    }

    proptest! {
        #[test]
        fn percentiles_are_near(mut values in prop::collection::vec(0_u64..1 << 40, 1..300)) {
            let seen = of(&values).distribution(values.len() as u64);
            values.sort_unstable();
            let exact = |share: f64| {
                let rank = (share * values.len() as f64).ceil().max(1.0) as usize;
                values[rank - 1] as f64
            };
            for (share, found) in [(0.5, seen.p50), (0.95, seen.p95), (0.9999, seen.p9999)] {
                let exact = exact(share);
                prop_assert!((found - exact).abs() <= exact / 8.0 + 1.0, "{found} {exact}");
            }
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((seen.mean - mean).abs() < 1.0);
            prop_assert!(seen.min <= values[0] && seen.max >= *values.last().unwrap());
        }
    }
}
