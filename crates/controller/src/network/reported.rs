//! What routers report of themselves, kept for whoever charts it (protocol: operations 5).
//!
//! The last report of each router is kept for a while: metrics that routers have, those of links only
//! if the link ends at the router. A router may have so many names, all together so many: what finds
//! no room is counted. Whose report it is says the connection that it came over, not the report.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_metrics::{Distribution, Rate, Report, Value, names};
use weft_model::{Id, Timestamp};
use weft_wire::metrics::{Histogram, MetricsMessage};

/// Names that are kept of one router: some five hundred links.
const MAX_NAMES: usize = 5_000;
/// The same of all routers: some hundred MiB at worst.
const MAX_IN_ALL: usize = 200_000;
/// Longest name, in bytes.
const MAX_NAME: usize = 256;
/// A report that no other one followed is forgotten after this.
const KEPT: Duration = Duration::from_secs(600);

/// Reports by router.
#[derive(Debug, Default)]
pub(super) struct Reported(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    routers: HashMap<Id, FromRouter>,
    /// Names of all routers.
    names: usize,
    /// Names that found no room, since the start.
    refused: u64,
}

#[derive(Debug)]
struct FromRouter {
    at: Timestamp,
    since: Instant,
    values: Report,
}

/// A report as it is kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    /// The router.
    pub(super) router: Id,
    /// When it came.
    pub(super) at: Timestamp,
    /// What it says.
    pub(super) values: Report,
}

impl Reported {
    /// A report of a router has come, which takes the place of the one before. True if there was
    /// room for all of it that is a router's. One that tells of round trips alone is added to what
    /// is known. `is_own` says which links end at the router.
    pub(super) fn keep(
        &self,
        router: &Id,
        report: &MetricsMessage,
        at: Timestamp,
        is_own: impl Fn(&str) -> bool,
    ) -> bool {
        let is_whole = !report.int_values.is_empty() || !report.meters.is_empty();
        let inner = &mut *self.0.lock();
        inner.expire();
        let known = inner.routers.remove(router).map(|known| known.values).unwrap_or_default();
        inner.names -= known.len();
        let mut values = if is_whole { Report::new() } else { known };
        let room = MAX_NAMES.min(MAX_IN_ALL.saturating_sub(inner.names));
        let (mut unknown, mut refused) = (0, 0);
        for (name, value) in values_of(report) {
            let is_own = || names::split(name).1.is_none_or(&is_own);
            if name.len() > MAX_NAME || !names::is_of_router(name) || !is_own() {
                unknown += 1;
            } else if values.len() < room || values.contains_key(name) {
                values.insert(name.to_owned(), value);
            } else {
                refused += 1;
            }
        }
        inner.names += values.len();
        inner.refused += unknown + refused;
        if !values.is_empty() {
            let kept = FromRouter { at, since: Instant::now(), values };
            inner.routers.insert(router.clone(), kept);
        }
        refused == 0
    }

    /// All that is kept, by router.
    pub(super) fn all(&self) -> Vec<Kept> {
        let inner = &mut *self.0.lock();
        inner.expire();
        let mut all: Vec<Kept> = inner
            .routers
            .iter()
            .map(|(router, known)| Kept {
                router: router.clone(),
                at: known.at,
                values: known.values.clone(),
            })
            .collect();
        all.sort_unstable_by(|one, other| one.router.cmp(&other.router));
        all
    }

    /// How many names are kept, and how many found no room so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        let inner = self.0.lock();
        (inner.names as u64, inner.refused)
    }

    /// A router was deleted.
    pub(super) fn forget(&self, router: &Id) {
        let inner = &mut *self.0.lock();
        if let Some(known) = inner.routers.remove(router) {
            inner.names -= known.values.len();
        }
    }
}

impl Inner {
    fn expire(&mut self) {
        self.routers.retain(|_, known| {
            let is_kept = known.since.elapsed() < KEPT;
            if !is_kept {
                self.names -= known.values.len();
            }
            is_kept
        });
    }
}

/// The values of a report by name.
fn values_of(report: &MetricsMessage) -> impl Iterator<Item = (&str, Value)> {
    let ints = report.int_values.iter().map(|(name, value)| (name, Value::Int(*value)));
    let floats = report.float_values.iter().map(|(name, value)| (name, Value::Float(*value)));
    let meters = report.meters.iter().map(|(name, meter)| {
        let rate = Rate {
            count: meter.count.max(0).unsigned_abs(),
            m1: meter.m1_rate,
            m5: meter.m5_rate,
            m15: meter.m15_rate,
            mean: meter.mean_rate,
        };
        (name, Value::Meter(rate))
    });
    let histograms = report
        .histograms
        .iter()
        .map(|(name, histogram)| (name, Value::histogram(distribution(histogram))));
    let timers = report.timers.iter().map(|(name, timer)| {
        let seen = Distribution {
            count: timer.count.max(0).unsigned_abs(),
            max: timer.max.max(0).unsigned_abs(),
            mean: timer.mean,
            min: timer.min.max(0).unsigned_abs(),
            std_dev: timer.std_dev,
            variance: timer.variance,
            p50: timer.p50,
            p75: timer.p75,
            p95: timer.p95,
            p99: timer.p99,
            p999: timer.p999,
            p9999: timer.p9999,
        };
        let rate = Rate {
            count: seen.count,
            m1: timer.m1_rate,
            m5: timer.m5_rate,
            m15: timer.m15_rate,
            mean: timer.mean_rate,
        };
        (name, Value::timer(seen, rate))
    });
    let all = ints.chain(floats).chain(meters).chain(histograms).chain(timers);
    all.map(|(name, value)| (name.as_str(), value))
}

fn distribution(histogram: &Histogram) -> Distribution {
    Distribution {
        count: histogram.count.max(0).unsigned_abs(),
        max: histogram.max.max(0).unsigned_abs(),
        mean: histogram.mean,
        min: histogram.min.max(0).unsigned_abs(),
        std_dev: histogram.std_dev,
        variance: histogram.variance,
        p50: histogram.p50,
        p75: histogram.p75,
        p95: histogram.p95,
        p99: histogram.p99,
        p999: histogram.p999,
        p9999: histogram.p9999,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_ints(names: impl Iterator<Item = String>) -> MetricsMessage {
        let int_values = names.map(|name| (name, 1)).collect();
        MetricsMessage { int_values, ..MetricsMessage::default() }
    }

    fn all_own(_: &str) -> bool {
        true
    }

    #[test]
    fn the_last_report_counts_and_round_trips_are_added() {
        let (reported, r1) = (Reported::default(), Id::new("r1"));
        let of = |names: &[&str]| with_ints(names.iter().map(|name| (*name).to_owned()));
        let (a, b, c) = ("weft.circuits", "weft.links", "weft.threads");
        assert!(reported.keep(&r1, &of(&[a, b]), Timestamp(1), all_own));
        assert!(reported.keep(&r1, &of(&[b, c]), Timestamp(2), all_own));
        let latency = MetricsMessage {
            histograms: [("link.l1.latency".to_owned(), Histogram::default())].into(),
            ..MetricsMessage::default()
        };
        assert!(reported.keep(&r1, &latency, Timestamp(3), all_own));
        let all = reported.all();
        let names: Vec<&str> = all[0].values.keys().map(String::as_str).collect();
        assert_eq!((names, all[0].at.0), (vec!["link.l1.latency", b, c], 3));
        assert_eq!(reported.counts(), (3, 0));
        reported.forget(&r1);
        assert_eq!((reported.all().len(), reported.counts().0), (0, 0));
    }

    #[test]
    fn a_router_with_a_million_names_takes_no_more_than_its_share() {
        let (reported, evil, good) = (Reported::default(), Id::new("evil"), Id::new("good"));
        let many = with_ints((0..50_000).map(|at| format!("link.{at}.latency")));
        for _ in 0..3 {
            assert!(!reported.keep(&evil, &many, Timestamp(1), all_own));
        }
        assert_eq!(reported.counts(), (MAX_NAMES as u64, 3 * 45_000));
        // Links of others, names that no router has, and names without end.
        assert!(reported.keep(&evil, &many, Timestamp(1), |_| false));
        let long = "x".repeat(MAX_NAME);
        let names = ["evil".to_owned(), String::new(), format!("link.{long}.latency")];
        assert!(reported.keep(&evil, &with_ints(names.into_iter()), Timestamp(1), all_own));
        assert_eq!(reported.counts().0, 0);
        let few = with_ints(["weft.links".to_owned()].into_iter());
        assert!(reported.keep(&good, &few, Timestamp(1), all_own));
        assert_eq!(reported.counts().0, 1);
    }

    #[test]
    fn all_routers_together_are_bounded() {
        let reported = Reported::default();
        let many = with_ints((0..MAX_NAMES).map(|at| format!("link.{at}.latency")));
        for at in 0..50 {
            reported.keep(&Id::new(&format!("r{at}")), &many, Timestamp(1), all_own);
        }
        assert_eq!(reported.counts().0, MAX_IN_ALL as u64);
    }
}
