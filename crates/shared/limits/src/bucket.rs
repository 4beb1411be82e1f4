//! A token bucket: limits how often something may happen.

use std::time::{Duration, Instant};

/// A token bucket: `burst` events at once, and `rate` events per second in the long run.
///
/// A new bucket is full. A clock that goes backwards adds no tokens.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    /// Tokens per second.
    rate: f64,
    /// Tokens that the full bucket holds.
    burst: f64,
    /// Tokens in the bucket at `filled_at`.
    tokens: f64,
    /// Time at which `tokens` was last computed.
    filled_at: Instant,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens that gains `rate` tokens per second.
    ///
    /// A negative rate, or one that is not finite, counts as zero: the bucket gives out its burst
    /// and never refills.
    #[must_use]
    pub fn new(rate: f64, burst: u32, now: Instant) -> Self {
        let rate = if rate.is_finite() && rate > 0.0 { rate } else { 0.0 };
        Self { rate, burst: f64::from(burst), tokens: f64::from(burst), filled_at: now }
    }

    /// A bucket that allows one event per `interval`, `burst` of them at once.
    #[must_use]
    pub fn every(interval: Duration, burst: u32, now: Instant) -> Self {
        let seconds = interval.as_secs_f64();
        let rate = if seconds > 0.0 { 1.0 / seconds } else { f64::MAX };
        Self::new(rate, burst, now)
    }

    /// Takes `n` tokens. Returns false, and takes none, if the bucket holds fewer.
    pub fn try_take(&mut self, n: u32, now: Instant) -> bool {
        self.fill(now);
        let enough = self.tokens >= f64::from(n);
        if enough {
            self.tokens -= f64::from(n);
        }
        enough
    }

    /// Time until the bucket holds `n` tokens: zero if it does now, `None` if it never will.
    /// Refusals send it as `Retry-After`.
    pub fn wait_for(&self, n: u32, now: Instant) -> Option<Duration> {
        let missing = f64::from(n) - self.level(now);
        if missing <= 0.0 {
            return Some(Duration::ZERO);
        }
        if f64::from(n) > self.burst || self.rate == 0.0 {
            return None;
        }
        // Rounded up to a whole nanosecond, so that waiting this long is always enough.
        let nanos = (missing / self.rate * 1e9).ceil() + 1.0;
        Some(Duration::from_nanos(nanos as u64))
    }

    /// Takes a token that may come later, and returns the time until then; such tokens come in the order in which they
    /// were asked for. If it takes longer than `longest`, none is taken, and the time is the error.
    pub fn take_ahead(&mut self, longest: Duration, now: Instant) -> Result<Duration, Duration> {
        self.fill(now);
        let wait = self.wait_for(1, now).unwrap_or(Duration::MAX);
        if wait > longest {
            return Err(wait);
        }
        self.tokens -= 1.0;
        Ok(wait)
    }

    /// Puts a token back that was not used.
    pub fn put_back(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.burst);
    }

    /// Whole tokens in the bucket.
    pub fn available(&self, now: Instant) -> u32 {
        self.level(now) as u32
    }

    /// True if the bucket is full: a table of buckets may forget a full one.
    pub fn is_full(&self, now: Instant) -> bool {
        self.level(now) >= self.burst
    }

    fn fill(&mut self, now: Instant) {
        self.tokens = self.level(now);
        self.filled_at = self.filled_at.max(now);
    }

    /// Tokens at this time.
    fn level(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.filled_at);
        (self.tokens + elapsed.as_secs_f64() * self.rate).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gives_the_burst_then_the_rate() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(10.0, 3, start);
        assert!(bucket.try_take(3, start));
        assert!(!bucket.try_take(1, start));
        let wait = bucket.wait_for(1, start).unwrap();
        assert!(wait >= Duration::from_millis(100) && wait < Duration::from_millis(101));
        assert!(bucket.try_take(1, start + wait));
        assert!(!bucket.try_take(1, start + wait));
        assert!(bucket.is_full(start + Duration::from_secs(10)));
        assert_eq!(bucket.wait_for(4, start + Duration::from_secs(10)), None);
    }

    #[test]
    fn tokens_are_taken_ahead_of_their_time() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(10.0, 1, start);
        let mut ahead = |now| {
            let wait = bucket.take_ahead(Duration::from_millis(250), now);
            let whole = |wait: Duration| wait.as_millis();
            (wait.map(whole).map_err(whole), bucket.available(now))
        };
        assert_eq!(ahead(start), (Ok(0), 0));
        assert_eq!(ahead(start), (Ok(100), 0));
        assert_eq!(ahead(start), (Ok(200), 0));
        assert_eq!(ahead(start), (Err(300), 0));
        assert_eq!(ahead(start + Duration::from_millis(100)), (Ok(200), 0));
        bucket.put_back();
        let later = start + Duration::from_millis(301);
        assert_eq!(bucket.take_ahead(Duration::ZERO, later), Ok(Duration::ZERO));
        for _ in 0..3 {
            bucket.put_back();
        }
        assert!(bucket.is_full(later) && bucket.available(later) == 1);
        let mut never = TokenBucket::new(0.0, 0, start);
        assert_eq!(never.take_ahead(Duration::from_secs(9), start), Err(Duration::MAX));
    }

    #[test]
    fn odd_rates_are_harmless() {
        let start = Instant::now();
        for rate in [f64::NAN, -1.0, f64::INFINITY] {
            let mut bucket = TokenBucket::new(rate, 1, start);
            assert!(bucket.try_take(1, start));
            assert!(!bucket.try_take(1, start + Duration::from_secs(3600)));
            assert_eq!(bucket.wait_for(1, start), None);
        }
        let mut unlimited = TokenBucket::every(Duration::ZERO, 5, start);
        assert!(unlimited.try_take(5, start));
        assert!(unlimited.try_take(5, start + Duration::from_nanos(1)));
    }

    proptest! {
        #[test]
        fn never_more_than_burst_plus_rate_times_time(
            rate in 1u32..1000,
            burst in 1u32..50,
            steps in prop::collection::vec((0u64..200, 1u32..10), 1..200),
        ) {
            let start = Instant::now();
            let mut bucket = TokenBucket::new(f64::from(rate), burst, start);
            let (mut elapsed, mut taken) = (0u64, 0u64);
            for (ms, n) in steps {
                elapsed += ms;
                if bucket.try_take(n, start + Duration::from_millis(elapsed)) {
                    taken += u64::from(n);
                }
                let most = f64::from(burst) + f64::from(rate) * elapsed as f64 / 1000.0;
                prop_assert!(taken as f64 <= most + 1e-3);
            }
        }

        #[test]
        fn waiting_as_long_as_told_is_enough(rate in 0.01f64..1e6, burst in 1u32..50, n in 1u32..60) {
            let start = Instant::now();
            let mut bucket = TokenBucket::new(rate, burst, start);
            prop_assert!(bucket.try_take(burst, start));
            match bucket.wait_for(n, start) {
                Some(wait) => prop_assert!(bucket.try_take(n, start + wait)),
                None => prop_assert!(n > burst),
            }
        }
    }
}
