//! The number of wrong passwords that are left for a name or an address.

use std::time::Duration;

use tokio::time::Instant;
use weft_limits::TokenBucket;

use crate::guesses::verdict::Verdict;

/// The wrong passwords that are left, and the passwords that are being checked.
#[derive(Debug)]
pub(super) struct GuessBudget {
    /// The tokens; none if there is no limit.
    tokens: Option<TokenBucket>,
    /// The time until one token comes back.
    interval: Duration,
    pub(super) pending: u32,
}

impl GuessBudget {
    /// Allows `per_minute` wrong passwords: some at once, and the rest spread over the minute.
    pub(super) fn new(per_minute: u32, now: Instant) -> Self {
        let burst = (per_minute.saturating_mul(2) / 5).max(1);
        let rate = f64::from(per_minute.saturating_sub(burst) + 1) / 60.0;
        let tokens = (per_minute > 0).then(|| TokenBucket::new(rate, burst, now.into_std()));
        Self { tokens, interval: Duration::from_secs_f64(1.0 / rate), pending: 0 }
    }

    fn available(&self, now: Instant) -> u32 {
        self.tokens.as_ref().map_or(u32::MAX, |tokens| tokens.available(now.into_std()))
    }

    /// Whether one more password may be checked; those being checked count as wrong.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.available(now) > self.pending
    }

    /// The time until a token is left; zero if there is one.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let wait = self.tokens.as_ref().and_then(|tokens| tokens.wait_for(1, now.into_std()));
        wait.unwrap_or_default()
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    pub(super) fn end(&mut self, verdict: Verdict, now: Instant) {
        self.pending = self.pending.saturating_sub(1);
        if let Some(tokens) = self.tokens.as_mut().filter(|_| verdict == Verdict::Wrong) {
            tokens.try_take(1, now.into_std());
        }
    }

    pub(super) fn is_like_new(&self, now: Instant) -> bool {
        let is_full = self.tokens.as_ref().is_none_or(|tokens| tokens.is_full(now.into_std()));
        self.pending == 0 && is_full
    }
}
