//! Hellos of other routers that were refused: their number, and a bounded number of log lines.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use weft_circuit::now;
use weft_limits::TokenBucket;

/// Log lines at once, and the interval of further ones. Strangers have lines of their own, so that they
/// hide no refused router.
const LINES: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(10);

/// The refused hellos since the start.
#[derive(Debug)]
pub(super) struct Refused {
    count: AtomicU64,
    routers: Mutex<Lines>,
    strangers: Mutex<Lines>,
}

#[derive(Debug)]
struct Lines {
    bucket: TokenBucket,
    left_out: u64,
}

impl Default for Refused {
    fn default() -> Self {
        let lines = || {
            Mutex::new(Lines { bucket: TokenBucket::every(INTERVAL, LINES, now()), left_out: 0 })
        };
        Self { count: AtomicU64::new(0), routers: lines(), strangers: lines() }
    }
}

impl Refused {
    /// Counts a hello. Returns the number of log lines that were left out before, if this hello is to be
    /// logged. A stranger has shown no certificate of the network.
    pub(super) fn count(&self, is_stranger: bool) -> Option<u64> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut lines = if is_stranger { &self.strangers } else { &self.routers }.lock();
        if lines.bucket.try_take(1, now()) {
            return Some(std::mem::take(&mut lines.left_out));
        }
        lines.left_out += 1;
        None
    }

    pub(super) fn seen(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refused_links_fill_no_log() {
        let refused = Refused::default();
        let lines = |is_stranger| (0..1_000).filter_map(|_| refused.count(is_stranger)).count();
        assert_eq!((lines(true), lines(false)), (LINES as usize, LINES as usize));
        tokio::time::advance(INTERVAL).await;
        assert_eq!((refused.count(false), refused.count(false)), (Some(990), None));
        assert_eq!(refused.seen(), 2_002);
    }
}
