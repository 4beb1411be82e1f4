//! Hellos of other routers that were refused: their number, and a bounded number of log lines.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use weft_circuit::now;
use weft_limits::LogLines;

/// The refused hellos since the start. Strangers have log lines of their own, so that they hide no refused
/// router.
#[derive(Debug)]
pub(super) struct Refused {
    count: AtomicU64,
    routers: Mutex<LogLines>,
    strangers: Mutex<LogLines>,
}

impl Default for Refused {
    fn default() -> Self {
        let lines = || Mutex::new(LogLines::new(now()));
        Self { count: AtomicU64::new(0), routers: lines(), strangers: lines() }
    }
}

impl Refused {
    /// Counts a hello. Returns the number of log lines that were left out before, if this hello is to be
    /// logged. A stranger has shown no certificate of the network.
    pub(super) fn count(&self, is_stranger: bool) -> Option<u64> {
        self.count.fetch_add(1, Ordering::Relaxed);
        if is_stranger { &self.strangers } else { &self.routers }.lock().due(now())
    }

    pub(super) fn seen(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_links_fill_no_log() {
        let refused = Refused::default();
        let lines = |is_stranger| (0..1_000).filter_map(|_| refused.count(is_stranger)).count();
        assert!(lines(true) < 100);
        assert_eq!(refused.count(false), Some(0), "strangers hide no router");
        assert_eq!(refused.seen(), 1_001);
    }
}
