//! The controller's clock, given from outside so that tests move time instead of sleeping.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weft_model::Timestamp;

/// What time it is.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(0).plus(since)
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.0))
    }

    /// Moves on by `step`.
    pub fn advance(&self, step: Duration) {
        self.0.fetch_add(step.as_millis() as i64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// A point in time of the certificate code; times before 1970 are 1970.
pub fn timestamp(at: SystemTime) -> Timestamp {
    Timestamp(0).plus(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// A point in time as the certificate code takes it.
pub fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}
