//! The clock of doors, circuits and routers: that of tokio, which tests can move. The time of day moves along.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The present time.
#[must_use]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time since then.
#[must_use]
pub fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}

/// The time of day, for dates in tokens, certificates and reports: that of the machine, which may jump,
/// moved as far as tests move the clock.
#[must_use]
pub fn time_of_day() -> SystemTime {
    let (moved, real, day) = (now(), Instant::now(), SystemTime::now());
    // Outside of tests both are the same but for the time between two lines.
    let ahead = moved.saturating_duration_since(real);
    let behind = real.saturating_duration_since(moved);
    day.checked_add(ahead).and_then(|day| day.checked_sub(behind)).unwrap_or(day)
}

/// The time of day, as the time since the beginning of 1970 in UTC.
#[must_use]
pub fn since_1970() -> Duration {
    time_of_day().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_test_moves_the_time_of_day() {
        let (before, day) = (SystemTime::now(), Duration::from_secs(24 * 3600));
        crate::tests::support::later(day).await;
        let moved = time_of_day().duration_since(before).unwrap();
        assert!(moved.abs_diff(day) < day / 2, "{moved:?}");
        let since = since_1970() - before.duration_since(UNIX_EPOCH).unwrap();
        assert!(since.abs_diff(day) < day / 2, "{since:?}");
    }
}
