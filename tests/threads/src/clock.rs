//! The clock of the scenes. No scene waits for time to pass.

use std::time::Instant;

/// The present time.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}
