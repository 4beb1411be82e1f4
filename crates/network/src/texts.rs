//! Caches Prometheus' text of measured values, which is made at most once a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;

/// A text serves all requests within this time.
pub(crate) const FRESH: Duration = Duration::from_secs(1);

/// The last texts, without and with times.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) last: [tokio::sync::Mutex<Option<(Instant, Bytes)>>; 2],
    pub(crate) left_out: AtomicU64,
}

impl Texts {
    /// Values that were left out of the last text.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}
