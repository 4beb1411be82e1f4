//! Prometheus' text of what was measured, made at most once a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;

/// A text that was made for one serves all who ask within this time.
pub(crate) const FRESH: Duration = Duration::from_secs(1);

/// The text that was made last, without and with times.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) last: [tokio::sync::Mutex<Option<(Instant, Bytes)>>; 2],
    pub(crate) left_out: AtomicU64,
}

impl Texts {
    /// Values that found no place in the last text.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}
