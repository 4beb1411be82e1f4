//! The time of day for access and renewals: that of the machine, moved as far as tests move tokio's clock.

use std::time::{Instant, SystemTime};

use weft_circuit::now;

/// The time of day, for dates in tokens and certificates. It follows the machine's, which may jump.
pub(crate) fn time_of_day() -> SystemTime {
    let (moved, real, day) = (now(), Instant::now(), SystemTime::now());
    // Outside of tests both are the same but for the time between two lines.
    let ahead = moved.saturating_duration_since(real);
    let behind = real.saturating_duration_since(moved);
    day.checked_add(ahead).and_then(|day| day.checked_sub(behind)).unwrap_or(day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_test_moves_the_time_of_day() {
        let before = SystemTime::now();
        let day = Duration::from_secs(24 * 3600);
        crate::tests::support::later(day).await;
        let moved = time_of_day().duration_since(before).unwrap();
        assert!(moved >= day && moved < 2 * day, "{moved:?}");
    }
}
