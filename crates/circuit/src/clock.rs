//! The time of circuits: that of tokio's clock, which tests can move.

use std::time::Instant;

/// The present time.
#[must_use]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
