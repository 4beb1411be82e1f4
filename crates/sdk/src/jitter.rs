//! Random intervals, so that many programs do not act at the same time.

use std::time::Duration;

/// The interval, up to a tenth shorter or longer at random.
pub(crate) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(rand::random_range(0.9..1.1))
}
