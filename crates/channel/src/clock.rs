//! The clock by which connections are judged at the door: tokio's, which tests can move.

use std::time::Instant;

/// The present time.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
