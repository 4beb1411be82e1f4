//! Limits of rates for each source.

use std::net::IpAddr;
use std::time::Instant;

use parking_lot::Mutex;
use weft_limits::{BoundedTable, Caps, TokenBucket, WhenFull, source_of};

/// Most sources whose rates are kept.
const MOST_SOURCES: usize = 4_096;

/// A rate for each source.
pub(crate) struct Rates {
    /// How many a source may have in a second, and how many at once.
    each: (f64, u32),
    known: Mutex<BoundedTable<IpAddr, TokenBucket, ()>>,
}

impl Rates {
    pub(crate) fn new(each: (f64, u32)) -> Self {
        let caps = Caps {
            total: MOST_SOURCES,
            per_source: MOST_SOURCES,
            max_age: None,
            when_full: WhenFull::EvictOldest,
        };
        Self { each, known: Mutex::new(BoundedTable::new(caps)) }
    }

    /// True if the client's rate allows one more now; it is then counted.
    pub(crate) fn may(&self, client: IpAddr, now: Instant) -> bool {
        let source = source_of(client);
        let mut known = self.known.lock();
        if let Some(rate) = known.get_mut(&source, now) {
            return rate.try_take(1, now);
        }
        let mut rate = TokenBucket::new(self.each.0, self.each.1, now);
        let may = rate.try_take(1, now);
        let _ = known.insert(source, rate, (), now);
        may
    }
}

impl std::fmt::Debug for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rates").field("each", &self.each).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_takes_nothing_from_another() {
        let (rates, now) = (Rates::new((1.0, 3)), Instant::now());
        let may = |last: u8| rates.may([10, 0, 0, last].into(), now);
        assert_eq!([may(1), may(1), may(1), may(1)], [true, true, true, false]);
        assert!(may(2));
    }
}
