//! The pauses after which a router is sent all sessions again.
//!
//! A router of the original gives a report of all sessions up 20 s after it began, and asks for
//! another one. Over a slow line no report is ever complete by then, and the reports to thousands of
//! routers would leave no room for anything else. Each report after the second one therefore comes
//! after a longer pause. A router also uses the sessions of a report that it gave up, and only keeps
//! those that ended while it was away.

use std::time::Duration;

use tokio::time::Instant;

/// The pause after two reports in a row that a router gave up; it doubles with each further one.
const FIRST: Duration = Duration::from_secs(4);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(300);

/// The time of the next report, and the reports in a row that the router gave up.
#[derive(Debug, Default)]
pub(super) struct ReportBackoff {
    at: Option<Instant>,
    given_up: u32,
}

impl ReportBackoff {
    /// Handles a router's request for all sessions. `is_soon` says that the last report was under
    /// way, or has just ended, so that the router has given it up.
    pub(super) fn asked(&mut self, is_soon: bool) {
        if self.at.is_some() {
            return;
        }
        if !is_soon {
            return self.at_once();
        }
        let longest = match self.given_up.checked_sub(1) {
            Some(before) => FIRST.saturating_mul(1 << before.min(8)).min(LONGEST),
            None => Duration::ZERO,
        };
        self.given_up = self.given_up.saturating_add(1);
        // Routers that gave up together do not wait for the same moment.
        let pause = longest.mul_f64(rand::random_range(0.5..=1.0));
        self.at = Some(Instant::now() + pause);
    }

    /// The next report is sent now.
    pub(super) fn at_once(&mut self) {
        self.at = Some(Instant::now());
    }

    /// Waits for the time of the next report.
    pub(super) async fn due(&self) {
        match self.at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Notes that a report begins.
    pub(super) fn begun(&mut self) {
        self.at = None;
    }

    /// Notes that the time is over in which the router could give up the last report.
    pub(super) fn settled(&mut self) {
        if self.at.is_none() {
            self.given_up = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds until the next report.
    async fn pause(backoff: &ReportBackoff) -> f64 {
        let began = Instant::now();
        backoff.due().await;
        began.elapsed().as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn reports_that_are_given_up_come_less_and_less_often() {
        let mut backoff = ReportBackoff::default();
        for longest in [0.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0] {
            backoff.asked(true);
            // A repeated request changes nothing.
            backoff.asked(true);
            backoff.settled();
            let pause = pause(&backoff).await;
            assert!((longest / 2.0..longest + 0.01).contains(&pause), "{pause} of {longest}");
            backoff.begun();
        }
        backoff.settled();
        backoff.asked(true);
        assert!(pause(&backoff).await < 0.01, "a report was complete");
    }

    #[tokio::test(start_paused = true)]
    async fn a_router_that_asks_long_after_a_report_gets_another_one_at_once() {
        let mut backoff = ReportBackoff::default();
        backoff.asked(false);
        assert!(pause(&backoff).await < 0.01);
    }
}
