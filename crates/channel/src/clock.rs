//! The clock of doors, circuits and routers: that of tokio, which tests can move.

use std::time::{Duration, Instant};

/// The present time.
#[must_use]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time since then.
#[must_use]
pub fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}
