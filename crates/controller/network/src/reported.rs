//! Keeps the last report of measured values of each connected router, for Prometheus and
//! inspections (docs/protocol/operations.md 5).
//!
//! Only known metrics are kept, with values of their kind; those of links only if the link ends at
//! the router. A value is kept in the form in which it is shown. The links of one router and the
//! values of all routers are limited. Values above a limit are left out and counted; the same links
//! find room in every report. The report belongs to the router of the connection; a router named in the
//! report is ignored.

mod values;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
pub(crate) use values::KeptValue;
use values::Values;
use weft_model::{Id, Timestamp};
use weft_wire::metrics::MetricsMessage;

use crate::clock;

/// Most values of all routers: those of both ends of 200,000 links, some 280 MiB.
const MAX_IN_ALL: usize = 4_500_000;
/// Rates of links from this one on, in bytes per second, are not shown, because no link carries so
/// much.
const MAX_RATE: f64 = 1e12;
/// A report is forgotten if none followed for this time, and for twice the time between the last
/// two.
const KEPT: Duration = Duration::from_secs(600);
/// The first report of a router is forgotten if none followed for this time.
const FIRST_KEPT: Duration = Duration::from_secs(3600);

/// Reports by router.
#[derive(Debug)]
pub(crate) struct Reported {
    inner: Mutex<Inner>,
    limit: usize,
}

impl Default for Reported {
    fn default() -> Self {
        Self { inner: Mutex::default(), limit: MAX_IN_ALL }
    }
}

#[derive(Debug, Default)]
struct Inner {
    routers: HashMap<Id, FromRouter>,
    /// Number of kept values of all routers.
    values: usize,
    /// The number of values since the start that were refused: they were no metrics of a router, or
    /// found no room.
    refused: u64,
}

#[derive(Debug)]
struct FromRouter {
    at: Timestamp,
    /// The time at which the last complete report arrived.
    since: Instant,
    keep_for: Duration,
    values: Arc<Values>,
}

/// Bytes per second over a link, at one of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rates {
    pub(super) received: Option<u64>,
    pub(super) sent: Option<u64>,
}

/// A report, as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// The router.
    pub(crate) router: Id,
    /// When the report arrived.
    pub(crate) at: Timestamp,
    /// Its values.
    pub(crate) values: Arc<Values>,
}

impl Reported {
    /// Keeps a report of a router in the place of its former one. A report with round trips alone
    /// is added to the former one. `is_own` says which links end at the router.
    pub(crate) fn keep(
        &self,
        router: &Id,
        report: &MetricsMessage,
        at: Timestamp,
        is_own: impl Fn(&str) -> bool,
    ) {
        let is_whole = !report.int_values.is_empty() || !report.meters.is_empty();
        let (new, mut refused) = Values::of(report, is_own);
        // The report was read before the lock is taken.
        let (inner, now) = (&mut *self.inner.lock(), clock::now());
        let known = inner.take(router);
        let (mut since, mut keep_for) = (now, FIRST_KEPT);
        let values = match known {
            Some(known) if is_whole => {
                keep_for = KEPT.max(2 * now.saturating_duration_since(known.since));
                Arc::new(new)
            }
            Some(known) => {
                (since, keep_for) = (known.since, known.keep_for);
                let mut values = known.values;
                refused += Arc::make_mut(&mut values).add(new);
                values
            }
            None => Arc::new(new),
        };
        let mut from = FromRouter { at, since, keep_for, values };
        let room = self.limit.saturating_sub(inner.values);
        if from.values.len() > room {
            refused += Arc::make_mut(&mut from.values).fit(room);
        }
        inner.refused += refused as u64;
        inner.put(router, from);
    }

    /// All kept reports.
    pub(crate) fn all(&self) -> Vec<Kept> {
        let inner = self.inner.lock();
        let of = |(router, known): (&Id, &FromRouter)| Kept {
            router: router.clone(),
            at: known.at,
            values: Arc::clone(&known.values),
        };
        let mut all: Vec<Kept> = inner.routers.iter().map(of).collect();
        drop(inner);
        all.sort_unstable_by(|one, other| one.router.cmp(&other.router));
        all
    }

    /// When the last whole report of a router arrived; `None` if no report is kept.
    pub(super) fn heard(&self, router: &Id) -> Option<Instant> {
        self.inner.lock().routers.get(router).map(|known| known.since)
    }

    /// The rates of a link, as this router reported them last.
    pub(super) fn rates_of_link(&self, router: &Id, link: &str) -> Rates {
        let known = self.inner.lock().routers.get(router).map(|it| Arc::clone(&it.values));
        let of = known.as_ref().and_then(|values| values.links.get(link));
        let rate = |metric: &str| {
            let held = of?.iter().find(|(pattern, _)| pattern.metric() == metric);
            match held {
                Some((_, KeptValue::Rate(rate))) if (0.0..MAX_RATE).contains(rate) => {
                    Some(rate.round() as u64)
                }
                _ => None,
            }
        };
        Rates { received: rate("link.rx.bytesrate"), sent: rate("link.tx.bytesrate") }
    }

    /// Number of kept values, and of values refused so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let inner = self.inner.lock();
        (inner.values as u64, inner.refused)
    }

    /// Forgets the report of a router that was deleted or disconnected.
    pub(crate) fn forget(&self, router: &Id) {
        self.inner.lock().take(router);
    }

    /// Forgets reports whose time is over; to be called at intervals.
    pub(super) fn expire(&self, now: Instant) {
        let inner = &mut *self.inner.lock();
        let values = &mut inner.values;
        inner.routers.retain(|_, known| {
            let is_kept = now.saturating_duration_since(known.since) < known.keep_for;
            if !is_kept {
                *values -= known.values.len();
            }
            is_kept
        });
    }
}

impl Inner {
    fn take(&mut self, router: &Id) -> Option<FromRouter> {
        let known = self.routers.remove(router)?;
        self.values -= known.values.len();
        Some(known)
    }

    fn put(&mut self, router: &Id, known: FromRouter) {
        if !known.values.is_empty() {
            self.values += known.values.len();
            self.routers.insert(router.clone(), known);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_metrics::names;
    use weft_wire::metrics::{Histogram, Meter, Timer};

    use super::values::MAX_LINKS;
    use super::*;

    fn with_ints(names: &[&str]) -> MetricsMessage {
        let int_values = names.iter().map(|name| ((*name).to_owned(), 1)).collect();
        MetricsMessage { int_values, ..MetricsMessage::default() }
    }

    /// A report with latencies of links and one value of the router.
    fn of_links(links: std::ops::Range<usize>) -> MetricsMessage {
        let histograms = links.map(|at| (format!("link.l{at:06}.latency"), Histogram::default()));
        MetricsMessage { histograms: histograms.collect(), ..with_ints(&["weft.links"]) }
    }

    fn names_of(reported: &Reported, at: usize) -> Vec<String> {
        let values = Arc::clone(&reported.all()[at].values);
        let mut names: Vec<_> = values.own.iter().map(|(one, _)| one.metric().to_owned()).collect();
        names.sort();
        for (link, of) in &values.links {
            names.extend(of.iter().map(|(pattern, _)| format!("{link} {}", pattern.metric())));
        }
        names
    }

    fn all_own(_: &str) -> bool {
        true
    }

    #[test]
    fn the_last_report_counts_and_round_trips_are_added() {
        let (reported, r1) = (Reported::default(), Id::new("r1"));
        let (a, b, c) = ("weft.circuits", "weft.links", "weft.threads");
        reported.keep(&r1, &with_ints(&[a, b]), Timestamp(1), all_own);
        reported.keep(&r1, &with_ints(&[b, c]), Timestamp(2), all_own);
        let latency = MetricsMessage { int_values: [].into(), ..of_links(1..2) };
        for _ in 0..2 {
            reported.keep(&r1, &latency, Timestamp(3), all_own);
        }
        assert_eq!(names_of(&reported, 0), [b, c, "l000001 link.latency"]);
        assert_eq!((reported.all()[0].at.0, reported.counts()), (3, (3, 0)));
        reported.forget(&r1);
        assert_eq!((reported.all().len(), reported.counts().0), (0, 0));
    }

    #[test]
    fn a_metric_has_one_value_however_often_it_is_told() {
        let (reported, r1) = (Reported::default(), Id::new("r1"));
        let mut report = MetricsMessage::default();
        let name = "pool.route.handler.work_timer";
        report.histograms.insert(name.to_owned(), Histogram::default());
        report.timers.insert(name.to_owned(), Timer::default());
        report.float_values.insert("weft.links".to_owned(), 1.5);
        report.int_values.insert("weft.links".to_owned(), 1);
        reported.keep(&r1, &report, Timestamp(1), all_own);
        assert_eq!(names_of(&reported, 0), [name, "weft.links"]);
    }

    #[test]
    fn rates_of_a_link_are_those_of_the_last_report_and_can_be_true() {
        let (reported, r1) = (Reported::default(), Id::new("r1"));
        let rates = || {
            let Rates { received, sent } = reported.rates_of_link(&r1, "l1");
            [received, sent]
        };
        assert_eq!((rates(), reported.heard(&r1)), ([None; 2], None));
        let mut report = with_ints(&["weft.links"]);
        let mut tell = |way: &str, m1_rate: f64| {
            let meter = Meter { m1_rate, ..Meter::default() };
            report.meters.insert(format!("link.l1.{way}.bytesrate"), meter);
            reported.keep(&r1, &report, Timestamp(1), all_own);
        };
        tell("tx", 1234.6);
        assert_eq!(rates(), [None, Some(1235)]);
        tell("rx", 0.0);
        assert_eq!(rates(), [Some(0), Some(1235)]);
        for lie in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            tell("rx", lie);
            assert_eq!(rates(), [None, Some(1235)], "{lie}");
        }
        assert!(reported.heard(&r1).is_some());
        reported.forget(&r1);
        assert_eq!((rates(), reported.heard(&r1)), ([None; 2], None));
    }

    #[test]
    fn what_is_no_routers_or_not_of_its_kind_is_refused() {
        let (reported, evil) = (Reported::default(), Id::new("evil"));
        let mut lies = with_ints(&[
            "weft.links",
            "evil",
            "",
            "ctrl.latency:r1",
            "edge.connect.failures",
            "link.l1.latency",
            "link.evil:l1.latency",
        ]);
        lies.meters.insert("edge.connections".to_owned(), Meter::default());
        lies.histograms.insert("link.l1.tx.bytesrate".to_owned(), Histogram::default());
        lies.histograms.insert("link.l1.tx.msgsize".to_owned(), Histogram::default());
        lies.histograms.insert("link.of_others.tx.msgsize".to_owned(), Histogram::default());
        reported.keep(&evil, &lies, Timestamp(1), |link| link == "l1");
        assert_eq!(names_of(&reported, 0), ["weft.links", "l1 link.tx.msgsize"]);
        assert_eq!(reported.counts(), (2, 9));
    }

    #[test]
    fn the_same_links_find_room_every_time() {
        let (reported, r1) = (Reported::default(), Id::new("r1"));
        for _ in 0..3 {
            reported.keep(&r1, &of_links(0..MAX_LINKS + 100), Timestamp(1), all_own);
            let values = Arc::clone(&reported.all()[0].values);
            let last = values.links.keys().next_back().unwrap();
            assert_eq!(&**last, format!("l{:06}", MAX_LINKS - 1));
        }
        assert_eq!(reported.counts(), (MAX_LINKS as u64 + 1, 300));
    }

    #[test]
    fn all_routers_together_are_bounded_and_each_keeps_its_own_values() {
        let reported = Reported { limit: 100, ..Reported::default() };
        for at in 0..4 {
            let router = Id::new(&format!("r{at}"));
            reported.keep(&router, &of_links(0..40), Timestamp(1), all_own);
        }
        let kept: Vec<usize> = reported.all().iter().map(|one| one.values.len()).collect();
        assert_eq!(kept, [41, 41, 18, 1]);
        assert_eq!(reported.counts(), (101, 63));
    }

    #[test]
    fn two_hundred_thousand_links_of_two_thousand_routers_fit() {
        let routers = 2_000;
        let per_end = names::ROUTER.iter().filter(|named| named.name.starts_with("link.")).count();
        let own = names::ROUTER.len() - per_end;
        assert!(2 * 200_000 * per_end + routers * own <= MAX_IN_ALL);
        // Each router of this mesh has a link to each other one.
        assert!(routers <= MAX_LINKS);
    }

    #[test]
    fn a_report_is_kept_until_the_next_is_long_overdue() {
        let (reported, r1) = (Reported::default(), Id::new("r1"));
        let begun = Instant::now();
        reported.keep(&r1, &with_ints(&["weft.links"]), Timestamp(1), all_own);
        reported.expire(begun + FIRST_KEPT - Duration::from_secs(1));
        assert_eq!(reported.all().len(), 1, "nobody knows yet how often it reports");
        let quarter = Duration::from_secs(900);
        if let Some(known) = reported.inner.lock().routers.get_mut(&r1) {
            known.since -= quarter;
        }
        reported.keep(&r1, &with_ints(&["weft.links"]), Timestamp(1), all_own);
        reported.expire(begun + 2 * quarter - Duration::from_secs(1));
        assert_eq!(reported.all().len(), 1, "every quarter of an hour");
        reported.keep(&r1, &with_ints(&["weft.links"]), Timestamp(1), all_own);
        reported.expire(Instant::now() + KEPT);
        assert_eq!((reported.all().len(), reported.counts().0), (0, 0));
    }
}
