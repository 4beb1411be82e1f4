//! The controller's clock. Tests pass one that they move instead of sleeping.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weft_model::Timestamp;

/// A source of the time.
pub trait Clock: Send + Sync + 'static {
    /// The current time.
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

/// A clock that moves only when it is told to.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock at the time `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.0))
    }

    /// Moves the clock forward by `step`.
    pub fn advance(&self, step: Duration) {
        self.0.fetch_add(step.as_millis() as i64, Ordering::SeqCst);
    }

    /// Sets the clock back by `step`.
    pub fn turn_back(&self, step: Duration) {
        self.0.fetch_sub(step.as_millis() as i64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// A time of the certificate code as a timestamp; times before 1970 become 1970.
pub fn timestamp(at: SystemTime) -> Timestamp {
    Timestamp(0).plus(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// A timestamp as a time of the certificate code.
pub fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}
