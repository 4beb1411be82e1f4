//! The time of the scenes, in which no time has to pass.

use std::time::Instant;

/// The present time.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}
