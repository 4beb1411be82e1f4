//! The time that decides who makes room: that of tokio's clock, which tests can move.

use std::time::Instant;

/// The present time.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
