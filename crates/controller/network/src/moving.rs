//! The time at which a circuit was moved.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock;

/// The time at which a circuit was last moved.
#[derive(Debug, Default)]
pub struct Moving {
    last: Mutex<Option<Instant>>,
}

impl Moving {
    /// The time since the last move; none if the circuit was never moved.
    pub fn since_last(&self) -> Option<Duration> {
        self.last.lock().map(clock::since)
    }

    pub(crate) fn end(&self) {
        *self.last.lock() = Some(clock::now());
    }
}
