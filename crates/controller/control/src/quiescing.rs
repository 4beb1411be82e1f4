//! Changes of all terminators of a router: it quiesces, or ends that.
//!
//! A change has many steps. A newer one takes the place of an older one: the steps that the older one has left do
//! nothing, so that two of them never undo each other. How often a router begins a change has a limit, because a small
//! message causes a write for each of its terminators.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_limits::TokenBucket;

/// Changes of one router at once, and the interval of further ones.
const AT_ONCE: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(10);

/// The changes of all terminators of one router.
#[derive(Debug)]
pub(crate) struct Quiescing {
    begun: Mutex<TokenBucket>,
    newest: Arc<AtomicU64>,
}

/// A change that has begun.
#[derive(Debug, Clone)]
pub(crate) struct QuiesceTurn {
    number: u64,
    newest: Arc<AtomicU64>,
}

impl Quiescing {
    pub(crate) fn new(now: Instant) -> Self {
        let begun = Mutex::new(TokenBucket::every(INTERVAL, AT_ONCE, now));
        Self { begun, newest: Arc::default() }
    }

    /// Begins a change, which ends the one before it. `None` if the router begins them too often.
    pub(crate) fn begin(&self, now: Instant) -> Option<QuiesceTurn> {
        if !self.begun.lock().try_take(1, now) {
            return None;
        }
        let number = self.newest.fetch_add(1, Ordering::SeqCst) + 1;
        Some(QuiesceTurn { number, newest: Arc::clone(&self.newest) })
    }
}

impl QuiesceTurn {
    /// Whether no newer change has begun.
    pub(crate) fn is_newest(&self) -> bool {
        self.newest.load(Ordering::SeqCst) == self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_change_ends_the_older_one_and_their_number_has_a_limit() {
        let start = Instant::now();
        let quiescing = Quiescing::new(start);
        let older = quiescing.begin(start).unwrap();
        assert!(older.is_newest());
        let newer = quiescing.begin(start).unwrap();
        assert!(newer.is_newest() && !older.is_newest());
        assert_eq!((2..100).filter_map(|_| quiescing.begin(start)).count(), AT_ONCE as usize - 2);
        assert!(quiescing.begin(start + INTERVAL).is_some());
    }
}
