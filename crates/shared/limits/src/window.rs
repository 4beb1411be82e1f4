//! An adaptive window on work in flight: it grows while work succeeds and shrinks while work is
//! refused or times out (docs/protocol/config.md 4.9).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Settings of an [`AdaptiveWindow`] (docs/protocol/config.md 4.9 gives the defaults and bounds).
#[derive(Debug, Clone, PartialEq)]
pub struct WindowOptions {
    /// Smallest size of the window.
    pub min_size: u32,
    /// Largest size of the window, and its size at the start.
    pub max_size: u32,
    /// Time after which work without an outcome counts as failed and leaves the window.
    pub timeout: Duration,
    /// Share of successes, 0 to 1, above which the window may grow.
    pub success_threshold: f64,
    /// Factor by which the window grows.
    pub increase_factor: f64,
    /// Factor by which the window shrinks.
    pub decrease_factor: f64,
    /// Number of successes after which the window grows, if the share of successes is above the threshold.
    pub increase_check_interval: u32,
    /// Number of failures after which the window shrinks.
    pub decrease_check_interval: u32,
}

impl Default for WindowOptions {
    fn default() -> Self {
        Self {
            min_size: 5,
            max_size: 250,
            timeout: Duration::from_secs(30),
            success_threshold: 0.9,
            increase_factor: 1.02,
            decrease_factor: 0.9,
            increase_check_interval: 10,
            decrease_check_interval: 10,
        }
    }
}

/// One piece of work in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// How a piece of work ended, for the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkOutcome {
    /// The work was done; whether its result was good does not matter.
    Success,
    /// The work was refused because of load, or took too long.
    Backoff,
    /// The work ended for a reason that says nothing about load.
    Neutral,
}

/// A window: a limit on the pieces of work in flight.
#[derive(Debug)]
pub struct AdaptiveWindow {
    options: WindowOptions,
    /// Size of the window, with its fraction, so that small factors add up.
    size: f64,
    /// Work in flight with its start, oldest first.
    in_flight: BTreeMap<Ticket, Instant>,
    next: u64,
    /// Share of successes, as a moving average.
    success_rate: f64,
    successes: u32,
    failures: u32,
}

/// Weight of the newest outcome in `success_rate`.
const RATE_WEIGHT: f64 = 0.05;

impl AdaptiveWindow {
    /// A window of its largest size.
    #[must_use]
    pub fn new(options: WindowOptions) -> Self {
        let min_size = options.min_size.max(1);
        let max_size = options.max_size.max(min_size);
        let size = f64::from(max_size);
        Self {
            options: WindowOptions { min_size, max_size, ..options },
            size,
            in_flight: BTreeMap::new(),
            next: 0,
            success_rate: 1.0,
            successes: 0,
            failures: 0,
        }
    }

    /// Puts a piece of work in flight until [`finish`](Self::finish). `None` if the window is full.
    pub fn try_start(&mut self, now: Instant) -> Option<Ticket> {
        self.expire(now);
        if self.in_flight.len() >= self.size() as usize {
            return None;
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        self.in_flight.insert(ticket, now);
        Some(ticket)
    }

    /// Ends a piece of work. Returns false if the work timed out before, which has counted as a failure.
    pub fn finish(&mut self, ticket: Ticket, outcome: WorkOutcome) -> bool {
        if self.in_flight.remove(&ticket).is_none() {
            return false;
        }
        match outcome {
            WorkOutcome::Success => self.succeeded(),
            WorkOutcome::Backoff => self.failed(),
            WorkOutcome::Neutral => {}
        }
        true
    }

    /// Removes work that has timed out, counted as failed, and returns how many pieces it was.
    pub fn expire(&mut self, now: Instant) -> usize {
        let mut expired = 0;
        while let Some(first) = self.in_flight.first_entry() {
            if now.saturating_duration_since(*first.get()) < self.options.timeout {
                break;
            }
            first.remove();
            self.failed();
            expired += 1;
        }
        expired
    }

    /// When the oldest work in flight times out; `None` if nothing is in flight.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.in_flight.first_key_value().map(|(_, start)| *start + self.options.timeout)
    }

    /// Pieces of work that may be in flight.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size as u32
    }

    /// Pieces of work that are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn succeeded(&mut self) {
        self.success_rate += RATE_WEIGHT * (1.0 - self.success_rate);
        self.successes += 1;
        if self.successes < self.options.increase_check_interval {
            return;
        }
        self.successes = 0;
        if self.success_rate > self.options.success_threshold {
            self.resize(self.options.increase_factor);
        }
    }

    fn failed(&mut self) {
        self.success_rate -= RATE_WEIGHT * self.success_rate;
        self.failures += 1;
        if self.failures < self.options.decrease_check_interval {
            return;
        }
        self.failures = 0;
        self.resize(self.options.decrease_factor);
    }

    fn resize(&mut self, factor: f64) {
        let (min, max) = (f64::from(self.options.min_size), f64::from(self.options.max_size));
        let size = self.size * factor;
        self.size = if size.is_finite() { size.clamp(min, max) } else { min };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small() -> WindowOptions {
        WindowOptions { min_size: 2, max_size: 10, ..WindowOptions::default() }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let now = Instant::now();
        let mut window = AdaptiveWindow::new(small());
        let tickets: Vec<_> = (0..10).map(|_| window.try_start(now).unwrap()).collect();
        assert_eq!(window.try_start(now), None);
        assert!(window.finish(tickets[3], WorkOutcome::Success));
        assert!(!window.finish(tickets[3], WorkOutcome::Success), "only once");
        assert!(window.try_start(now).is_some());
    }

    #[test]
    fn time_out_frees_the_place_and_shrinks() {
        let start = Instant::now();
        let mut window = AdaptiveWindow::new(small());
        let first = window.try_start(start).unwrap();
        for _ in 1..10 {
            window.try_start(start).unwrap();
        }
        assert_eq!(window.deadline(), Some(start + Duration::from_secs(30)));
        let late = start + Duration::from_secs(30);
        assert_eq!(window.expire(late), 10);
        assert_eq!((window.in_flight(), window.size(), window.deadline()), (0, 9, None));
        assert!(!window.finish(first, WorkOutcome::Success));
    }

    #[test]
    fn grows_back_when_work_succeeds_again() {
        let now = Instant::now();
        let mut window = AdaptiveWindow::new(small());
        for _ in 0..300 {
            let ticket = window.try_start(now).unwrap();
            window.finish(ticket, WorkOutcome::Backoff);
        }
        assert_eq!(window.size(), 2);
        for _ in 0..2000 {
            let ticket = window.try_start(now).unwrap();
            window.finish(ticket, WorkOutcome::Success);
        }
        assert_eq!(window.size(), 10);
    }

    proptest! {
        #[test]
        fn stays_within_its_bounds(
            min in 0u32..20, max in 0u32..40,
            ops in prop::collection::vec((0u8..4, 0u64..5000), 1..300),
        ) {
            let start = Instant::now();
            let mut now = start;
            let mut window = AdaptiveWindow::new(WindowOptions {
                min_size: min, max_size: max, increase_check_interval: 1,
                decrease_check_interval: 1, increase_factor: 1.5, decrease_factor: 0.5,
                ..WindowOptions::default()
            });
            let mut open = Vec::new();
            for (op, ms) in ops {
                now += Duration::from_millis(ms);
                match op {
                    0 | 1 => open.extend(window.try_start(now)),
                    2 => { open.pop().map(|t| window.finish(t, WorkOutcome::Success)); }
                    _ => { open.pop().map(|t| window.finish(t, WorkOutcome::Backoff)); }
                }
                prop_assert!(window.size() >= min.max(1));
                prop_assert!(window.size() <= max.max(min.max(1)));
                prop_assert!(window.in_flight() <= max.max(min.max(1)) as usize);
            }
        }
    }
}
