//! The time of circuits and routers: that of tokio's clock, which tests can move.

use std::time::{Duration, Instant};

/// The present time.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time since then.
pub(crate) fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}
