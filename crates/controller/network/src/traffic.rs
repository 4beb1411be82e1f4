//! The data of a circuit: bytes so far, and rates of the last interval that the router of the dialer
//! reported.
//!
//! A router reports an interval some time after it is over, and leaves circuits out that carried
//! nothing in it. A later report without the circuit therefore says that its rates are 0; where such
//! a report is overdue or the router is gone, the rates are unknown.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_model::Timestamp;

/// Longest interval that counts, in seconds.
const LONGEST: u64 = 3600;
/// A report is overdue after this many intervals.
const OVERDUE: u32 = 4;

/// The data of one circuit.
#[derive(Debug, Default)]
pub struct Traffic(Mutex<Option<TrafficReading>>);

/// Bytes from the dialer, and to the dialer.
pub type TrafficBytes = [u64; 2];

#[derive(Debug, Clone, Copy)]
struct TrafficReading {
    total: TrafficBytes,
    /// The bytes of the last interval.
    last: TrafficBytes,
    /// Begin of the last interval, by the clock of the router.
    start: i64,
    /// Length of the last interval, in seconds.
    seconds: u64,
    /// When the report of the last interval came.
    at: Instant,
    reported_at: Timestamp,
}

/// The data of a circuit, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrafficTotals {
    /// Bytes since this controller knows the circuit.
    pub bytes: TrafficBytes,
    /// Bytes per second in the last interval; `None` if unknown.
    pub rates: Option<TrafficBytes>,
    /// Length of an interval, in seconds.
    pub seconds: u64,
    /// The time at which bytes of the circuit were reported last.
    pub reported_at: Timestamp,
}

/// The present time, by both clocks.
pub(super) type ClockReading = (Instant, Timestamp);

impl Traffic {
    /// Adds the bytes of an interval, which began at `start` and has so many seconds.
    pub(super) fn note(
        &self,
        start: i64,
        seconds: u64,
        bytes: TrafficBytes,
        (at, reported_at): ClockReading,
    ) {
        let seconds = seconds.clamp(1, LONGEST);
        let mut seen = self.0.lock();
        let former = seen.unwrap_or(TrafficReading {
            total: [0; 2],
            last: [0; 2],
            start,
            seconds,
            at,
            reported_at,
        });
        let total = sum(former.total, bytes);
        // An interval may come in two reports.
        let last = if former.start == start { sum(former.last, bytes) } else { bytes };
        *seen = Some(TrafficReading { total, last, start, seconds, at, reported_at });
    }

    /// The data so far; `None` if no report said anything about the circuit. `heard` is the time of
    /// the router's last report, whatever it said.
    pub(super) fn shown(&self, now: Instant, heard: Option<Instant>) -> Option<TrafficTotals> {
        let seen = (*self.0.lock())?;
        let interval = Duration::from_secs(seen.seconds);
        let rates = heard.and_then(|heard| {
            let is_left_out = heard.saturating_duration_since(seen.at) >= interval * 19 / 20;
            let is_overdue = now.saturating_duration_since(seen.at) > interval * OVERDUE;
            match (is_left_out, is_overdue) {
                (true, _) => Some([0; 2]),
                (false, true) => None,
                (false, false) => Some(seen.last.map(|bytes| bytes / seen.seconds)),
            }
        });
        let TrafficReading { total: bytes, seconds, reported_at, .. } = seen;
        Some(TrafficTotals { bytes, rates, seconds, reported_at })
    }
}

fn sum([one, other]: TrafficBytes, more: TrafficBytes) -> TrafficBytes {
    [one.saturating_add(more[0]), other.saturating_add(more[1])]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> ClockReading {
        (start + Duration::from_secs(seconds), Timestamp(seconds.cast_signed()))
    }

    #[test]
    fn rates_are_those_of_the_last_interval() {
        let (traffic, start) = (Traffic::default(), Instant::now());
        let rates = |now: u64, heard: u64| {
            let shown = traffic.shown(after(start, now).0, Some(after(start, heard).0)).unwrap();
            (shown.bytes, shown.rates)
        };
        assert_eq!(traffic.shown(start, Some(start)), None, "nothing is known");
        traffic.note(60, 60, [600, 6], after(start, 140));
        traffic.note(60, 60, [600, 0], after(start, 141));
        assert_eq!(rates(150, 141), ([1200, 6], Some([20, 0])));
        traffic.note(120, 60, [60, 120], after(start, 200));
        assert_eq!(rates(210, 200), ([1260, 126], Some([1, 2])));
        assert_eq!(traffic.shown(start, Some(start)).unwrap().reported_at, Timestamp(200));
        assert_eq!(rates(265, 259), ([1260, 126], Some([0, 0])), "a later report left it out");
    }

    #[test]
    fn what_no_router_tells_any_more_is_unknown() {
        let (traffic, start) = (Traffic::default(), Instant::now());
        traffic.note(0, 5, [50, 50], (start, Timestamp(0)));
        let rates = |now: u64, heard: Option<u64>| {
            let heard = heard.map(|heard| after(start, heard).0);
            traffic.shown(after(start, now).0, heard).unwrap().rates
        };
        assert_eq!(rates(20, Some(0)), Some([10, 10]));
        assert_eq!((rates(21, Some(0)), rates(1, None)), (None, None));
    }

    #[test]
    fn any_report_is_bearable() {
        let (traffic, now) = (Traffic::default(), (Instant::now(), Timestamp(0)));
        traffic.note(i64::MIN, 0, [u64::MAX; 2], now);
        traffic.note(i64::MAX, u64::MAX, [u64::MAX; 2], now);
        let shown = traffic.shown(now.0, Some(now.0)).unwrap();
        assert_eq!((shown.bytes, shown.seconds), ([u64::MAX; 2], LONGEST));
    }
}
