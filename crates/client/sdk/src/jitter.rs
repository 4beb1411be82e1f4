//! Random intervals, so that many programs do not act at the same time.

use std::time::Duration;

/// The interval, up to a tenth shorter or longer at random.
pub(crate) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(spread())
}

/// A random factor for intervals: up to a tenth below or above 1.
pub(crate) fn spread() -> f64 {
    rand::random_range(0.9..1.1)
}
