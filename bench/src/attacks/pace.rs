//! Rates, and the share of a processor that a thread may take.

use std::time::{Duration, Instant};

use tokio::time::{Interval, MissedTickBehavior, interval};

/// Ticks of this rate per second; those that are late come at once.
pub(super) fn ticks(rate: f64) -> Interval {
    let mut ticks = interval(Duration::from_secs_f64(1.0 / rate));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    ticks
}

/// Holds the attempts of a thread's tasks to a rate, and to a share of a processor.
pub(super) struct Pace {
    ticks: Interval,
    begun: Instant,
    used: Duration,
    share: f64,
}

impl Pace {
    /// To be made and used on the thread that is meant.
    pub(super) fn new(rate: f64, share: f64) -> Self {
        Self { ticks: ticks(rate), begun: Instant::now(), used: used(), share }
    }

    /// Waits for the next attempt.
    pub(super) async fn next(&mut self) {
        while used().saturating_sub(self.used) > self.begun.elapsed().mul_f64(self.share) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.ticks.tick().await;
    }
}

/// Processor time of this thread, as of its last turn or tick of the system.
fn used() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_ascii_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_that_takes_more_than_its_share_waits() {
        let mut pace = Pace::new(100_000.0, 0.1);
        let before = used();
        for _ in 0..5 {
            pace.next().await;
            let begun = used();
            while used() - begun < Duration::from_millis(5) {
                std::hint::spin_loop();
            }
        }
        pace.next().await;
        let (took, used) = (pace.begun.elapsed(), used() - before);
        assert!(took.mul_f64(0.1) >= Duration::from_millis(25), "{took:?} for {used:?}");
    }
}
