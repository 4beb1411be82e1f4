//! Intervals of many programs that shall not meet.

use std::time::Duration;

/// A tenth more or less, so that many programs do not ask at once.
pub(crate) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(rand::random_range(0.9..1.1))
}
