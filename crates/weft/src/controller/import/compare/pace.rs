//! How often the original is asked.

use std::time::Duration;

use tokio::time::Instant;

/// Most requests to the original in a second.
const RATE: u32 = 20;

/// Spreads requests evenly.
#[derive(Debug)]
pub(super) struct Pace {
    next: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { next: Instant::now() }
    }

    /// Waits for the turn of the next request.
    pub(super) async fn turn(&mut self) {
        let now = Instant::now();
        let at = self.next.max(now);
        self.next = at + Duration::from_secs(1) / RATE;
        tokio::time::sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_original_is_asked_twenty_times_a_second_and_no_pause_is_made_up_for() {
        let mut pace = Pace::new();
        let begin = Instant::now();
        for _ in 0..=100 {
            pace.turn().await;
        }
        assert_eq!(begin.elapsed().as_secs(), 5);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let begin = Instant::now();
        for _ in 0..=20 {
            pace.turn().await;
        }
        assert_eq!(begin.elapsed().as_secs(), 1);
    }
}
