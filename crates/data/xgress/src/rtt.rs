//! The round-trip time by this end's clock, and the times that follow from it: when a payload
//! counts as lost, and how long to wait for an ack.

use std::time::{Duration, Instant};

use crate::Options;

/// How long the smallest round-trip time is remembered.
const MIN_MEMORY: Duration = Duration::from_secs(10);

/// The reorder time at the start, which is also the shortest.
const MIN_REORDER: Duration = Duration::from_millis(10);

/// The reorder time grows up to the round-trip time plus this.
const REORDER_SLACK: Duration = Duration::from_millis(200);

/// After this long without a needless copy, the reorder time returns to the shortest.
const REORDER_MEMORY: Duration = Duration::from_secs(16);

/// The shortest time-out.
const MIN_TIMEOUT: Duration = Duration::from_millis(200);

/// The unit of the time-out's factor: hundredths.
const HUNDRED: u32 = 100;

/// The largest factor of the time-out.
const MAX_FACTOR: u32 = 20 * HUNDRED;

/// The step by which duplicates raise the factor, and acknowledgements lower it.
const FACTOR_UP: u32 = 20;
const FACTOR_DOWN: u32 = 1;

/// The times of one circuit.
#[derive(Debug)]
pub(crate) struct Rtt {
    /// `retxStartMs`: the time-out before the first sample.
    start: Duration,
    /// `maxRttScale`: a sample counts at most this many times the smoothed one; 0 sets no limit.
    max_scale: u32,
    /// The factor of the time-out in hundredths of the round-trip time, and its smallest value,
    /// `retxScale`.
    factor: u32,
    min_factor: u32,
    /// `txPortalDupAckThresh` and `txPortalIncreaseThresh`: the number of duplicates that raise the
    /// factor, and of acknowledgements that lower it.
    duplicate_thresh: u32,
    acknowledged_thresh: u32,
    duplicates: u32,
    acknowledged: u64,
    /// Smoothed round-trip time; none before the first sample.
    smoothed: Option<Duration>,
    /// The smoothed difference between a sample and the smoothed round-trip time.
    variation: Duration,
    /// The smallest sample of the present half of [`MIN_MEMORY`], and that of the half before.
    min_now: Option<Duration>,
    min_before: Option<Duration>,
    /// The time at which the present half of [`MIN_MEMORY`] began.
    half_began: Option<Instant>,
    /// How many times the reorder time was doubled.
    doublings: u32,
    /// The time at which the reorder time was last doubled.
    doubled_at: Option<Instant>,
}

impl Rtt {
    pub(crate) fn new(options: &Options) -> Self {
        let factor = (options.retx_scale * f64::from(HUNDRED)) as u32;
        let factor = factor.min(MAX_FACTOR);
        Self {
            start: options.retx_start,
            max_scale: options.max_rtt_scale,
            factor,
            min_factor: factor,
            duplicate_thresh: options.tx_dup_ack_thresh,
            acknowledged_thresh: options.tx_increase_thresh,
            duplicates: 0,
            acknowledged: 0,
            smoothed: None,
            variation: Duration::ZERO,
            min_now: None,
            min_before: None,
            half_began: None,
            doublings: 0,
            doubled_at: None,
        }
    }

    /// Payloads were acknowledged: the time-out may become shorter.
    pub(crate) fn acknowledged(&mut self, payloads: u64) {
        self.acknowledged += payloads;
        if self.acknowledged >= u64::from(self.acknowledged_thresh) {
            self.acknowledged = 0;
            self.factor = (self.factor - FACTOR_DOWN.min(self.factor)).max(self.min_factor);
        }
    }

    /// A payload was acknowledged again: the time-out may be too short.
    pub(crate) fn duplicate(&mut self) {
        self.duplicates += 1;
        if self.duplicates >= self.duplicate_thresh {
            self.duplicates = 0;
            self.factor = (self.factor + FACTOR_UP).min(MAX_FACTOR);
        }
    }

    /// Takes a sample from a payload that was sent once only.
    pub(crate) fn sample(&mut self, rtt: Duration, now: Instant) {
        self.smoothed = Some(match self.smoothed {
            None => {
                self.variation = rtt / 2;
                rtt
            }
            Some(smoothed) => {
                let most = smoothed.saturating_mul(self.max_scale).max(MIN_REORDER);
                let rtt = if self.max_scale == 0 { rtt } else { rtt.min(most) };
                self.variation = (self.variation * 3 + rtt.abs_diff(smoothed)) / 4;
                (smoothed * 7 + rtt) / 8
            }
        });
        let began = *self.half_began.get_or_insert(now);
        if now.saturating_duration_since(began) > MIN_MEMORY / 2 {
            self.min_before = self.min_now.take();
            self.half_began = Some(now);
        }
        self.min_now = Some(self.min_now.map_or(rtt, |min| min.min(rtt)));
    }

    /// A copy of a payload came back after this time.
    pub(crate) fn shorter(&mut self, rtt: Duration, now: Instant) {
        self.half_began.get_or_insert(now);
        self.min_now = Some(self.min_now.map_or(rtt, |min| min.min(rtt)));
    }

    /// The smallest round-trip time of the last seconds; none before the first sample.
    pub(crate) fn min(&self) -> Option<Duration> {
        match (self.min_now, self.min_before) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The path has changed: the new one may be shorter than the smallest round-trip time of the
    /// former one.
    pub(crate) fn path_changed(&mut self) {
        (self.min_now, self.min_before, self.half_began) = (None, None, None);
    }

    /// The smoothed round-trip time.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The reorder time: a payload counts as lost if it was sent more than this time before another
    /// one that has arrived.
    pub(crate) fn reorder_time(&self) -> Duration {
        let rtt = self.smoothed.unwrap_or_default();
        let first = (rtt / 4).max(MIN_REORDER);
        first.saturating_mul(1 << self.doublings.min(16)).min(rtt + REORDER_SLACK)
    }

    /// Both copies of a payload arrived: it was late, not lost.
    pub(crate) fn was_only_late(&mut self, now: Instant) {
        // At most once per round trip, because all copies of one burst show the same.
        let rtt = self.smoothed.unwrap_or_default();
        if self.doubled_at.is_none_or(|at| now.saturating_duration_since(at) >= rtt) {
            self.doublings = (self.doublings + 1).min(16);
            self.doubled_at = Some(now);
        }
    }

    /// Returns to the shortest reorder time when reordering was long ago.
    pub(crate) fn forget_reordering(&mut self, now: Instant) {
        if self.doubled_at.is_some_and(|at| now.saturating_duration_since(at) > REORDER_MEMORY) {
            self.doublings = 0;
            self.doubled_at = None;
        }
    }

    /// How long to wait for an ack before a copy is sent.
    pub(crate) fn timeout(&self) -> Duration {
        match self.smoothed {
            None => self.start.max(MIN_TIMEOUT),
            Some(smoothed) => (smoothed + self.variation * 4)
                .max(smoothed * self.factor / HUNDRED)
                .max(MIN_TIMEOUT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_smallest_is_forgotten_after_a_while() {
        let start = Instant::now();
        let mut rtt = Rtt::new(&Options::default());
        rtt.sample(2 * MS, start);
        rtt.sample(50 * MS, start + 1000 * MS);
        assert_eq!(rtt.min(), Some(2 * MS));
        for second in 2..14 {
            rtt.sample(30 * MS, start + second * 1000 * MS);
        }
        assert_eq!(rtt.min(), Some(30 * MS));
    }

    #[test]
    fn reorder_time_doubles_up_to_its_bound_and_falls_back() {
        let start = Instant::now();
        let mut rtt = Rtt::new(&Options::default());
        assert_eq!(rtt.reorder_time(), 10 * MS);
        rtt.sample(80 * MS, start);
        assert_eq!(rtt.reorder_time(), 20 * MS);
        rtt.was_only_late(start);
        rtt.was_only_late(start + MS);
        assert_eq!(rtt.reorder_time(), 40 * MS, "once per round trip");
        for i in 1..20 {
            rtt.was_only_late(start + i * 100 * MS);
        }
        assert_eq!(rtt.reorder_time(), 280 * MS);
        rtt.forget_reordering(start + 30_000 * MS);
        assert_eq!(rtt.reorder_time(), 20 * MS);
    }

    #[test]
    fn the_time_out_follows_the_samples() {
        let start = Instant::now();
        let mut rtt = Rtt::new(&Options::default());
        assert_eq!(rtt.timeout(), 200 * MS);
        rtt.sample(200 * MS, start);
        assert_eq!(rtt.timeout(), 600 * MS);
        assert_eq!(rtt.smoothed(), Some(200 * MS));
    }

    #[test]
    fn the_time_out_before_the_first_sample_and_its_factor_are_options() {
        let options = Options {
            retx_start: 700 * MS,
            retx_scale: 3.0,
            max_rtt_scale: 0,
            ..Options::default()
        };
        let mut rtt = Rtt::new(&options);
        assert_eq!(rtt.timeout(), 700 * MS);
        let start = Instant::now();
        (0..40).for_each(|_| rtt.sample(400 * MS, start));
        assert_eq!(rtt.timeout(), 1200 * MS);
        // Many duplicates lengthen the time-out; many acknowledgements shorten it again.
        (0..64).for_each(|_| rtt.duplicate());
        assert_eq!(rtt.timeout(), 1280 * MS);
        (0..19).for_each(|_| rtt.acknowledged(28));
        assert_eq!(rtt.timeout(), 1204 * MS);
        (0..9).for_each(|_| rtt.acknowledged(28));
        assert_eq!(rtt.timeout(), 1200 * MS);
        let endless = Options { retx_scale: f64::MAX, ..options };
        assert_eq!(Rtt::new(&endless).factor, MAX_FACTOR);
    }

    #[test]
    fn one_sample_counts_no_more_than_some_times_the_last() {
        let start = Instant::now();
        let after = |max_rtt_scale| {
            let mut rtt = Rtt::new(&Options { max_rtt_scale, ..Options::default() });
            rtt.sample(80 * MS, start);
            rtt.sample(3280 * MS, start);
            rtt.smoothed()
        };
        assert_eq!(after(4), Some(110 * MS));
        assert_eq!(after(2), Some(90 * MS));
        assert_eq!(after(0), Some(480 * MS));
    }
}
