//! The limit on the bytes that a connection sends in a second.

use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::Instant;

/// As many bytes as the limit allows in this time may be sent at once.
const BURST: Duration = Duration::from_secs(1);

/// The limit on the bytes that a connection sends in a second.
#[derive(Debug)]
pub(super) struct Pace {
    rate: NonZeroU64,
    /// The time at which everything sent so far would have left at the rate of the limit.
    sent_by: Instant,
}

impl Pace {
    pub(super) fn new(rate: NonZeroU64) -> Self {
        Self { rate, sent_by: Instant::now() }
    }

    /// The time before which nothing more may be sent; `None` if more may be sent now.
    pub(super) fn waits_until(&self, now: Instant) -> Option<Instant> {
        (self.sent_by > now + BURST).then(|| self.sent_by - BURST)
    }

    /// Notes sent bytes.
    pub(super) fn sent(&mut self, bytes: usize, now: Instant) {
        let nanos = (bytes as u128 * 1_000_000_000) / u128::from(self.rate.get());
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.sent_by = self.sent_by.max(now) + takes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_any_time_no_more_is_sent_than_the_rate_and_a_burst() {
        let mut now = Instant::now();
        let mut pace = Pace::new(NonZeroU64::new(100_000).unwrap());
        let (begin, mut sent) = (now, 0);
        while sent < 1_000_000 {
            match pace.waits_until(now) {
                Some(until) => now = until,
                None => {
                    pace.sent(1000, now);
                    sent += 1000;
                }
            }
        }
        let took = now - begin;
        assert!(
            took > Duration::from_millis(8900) && took < Duration::from_millis(9100),
            "{took:?}"
        );
    }
}
