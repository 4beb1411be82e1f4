//! When a circuit was moved.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock;

/// When a circuit was moved.
#[derive(Debug, Default)]
pub struct Moving {
    last: Mutex<Option<Instant>>,
}

impl Moving {
    /// How long ago it was moved; none if never.
    pub fn since_last(&self) -> Option<Duration> {
        self.last.lock().map(clock::since)
    }

    pub(crate) fn end(&self) {
        *self.last.lock() = Some(clock::now());
    }
}
