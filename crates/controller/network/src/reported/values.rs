//! The values of one router's report: those of known metrics, within bounds.

use std::collections::BTreeMap;

use weft_metrics::names::{self, MetricKind, Pattern};
use weft_metrics::{Distribution, MetricValue, Rate};
use weft_wire::metrics::{Histogram, MetricsMessage, Timer};

/// Links of one router whose values are kept.
pub(super) const MAX_LINKS: usize = 2_500;

/// Values of a router or a link, by metric.
type MetricValues = Vec<(&'static Pattern, KeptValue)>;

/// The values of a report.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values {
    /// Values of the router itself.
    pub(crate) own: MetricValues,
    /// Values of links, by id of the link.
    pub(crate) links: BTreeMap<Box<str>, MetricValues>,
}

/// A kept value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum KeptValue {
    /// A whole number.
    Int(i64),
    /// Any number.
    Float(f64),
    /// Events per second, over a minute.
    Rate(f64),
    /// A summary of a distribution.
    Seen(Box<Seen>),
}

/// Count and percentiles of a distribution.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    count: u64,
    percentiles: [f64; 6],
}

impl Values {
    /// Reads a report: the values that belong to the router, and the number of others.
    pub(super) fn of(report: &MetricsMessage, is_own: impl Fn(&str) -> bool) -> (Self, usize) {
        let (mut values, mut refused) = (Self::default(), 0);
        for (name, held) in values_of(report) {
            match names::of_router(name).filter(|(pattern, _)| held.is(pattern.kind())) {
                Some((pattern, None)) => put(&mut values.own, pattern, held),
                Some((pattern, Some(link))) if is_own(link) => {
                    match values.links.get_mut(link) {
                        Some(known) => put(known, pattern, held),
                        None => drop(values.links.insert(link.into(), vec![(pattern, held)])),
                    }
                    refused += values.within(MAX_LINKS);
                }
                _ => refused += 1,
            }
        }
        (values, refused)
    }

    /// Removes the last links above a limit, and returns the number of their values.
    fn within(&mut self, links: usize) -> usize {
        let mut left_out = 0;
        while self.links.len() > links {
            left_out += self.links.pop_last().map_or(0, |(_, of)| of.len());
        }
        left_out
    }

    /// Removes the last links until no more than `most` values are left; the router's own values
    /// are always kept.
    pub(super) fn fit(&mut self, most: usize) -> usize {
        let (before, mut len) = (self.len(), self.len());
        while len > most
            && let Some((_, of)) = self.links.pop_last()
        {
            len -= of.len();
        }
        before - len
    }

    /// Adds values of the same router, which replace those of the same metrics. Returns the number
    /// of values that found no room.
    pub(super) fn add(&mut self, more: Self) -> usize {
        for (pattern, held) in more.own {
            put(&mut self.own, pattern, held);
        }
        for (link, of) in more.links {
            let known = self.links.entry(link).or_default();
            of.into_iter().for_each(|(pattern, held)| put(known, pattern, held));
        }
        self.within(MAX_LINKS)
    }

    pub(super) fn len(&self) -> usize {
        self.own.len() + self.links.values().map(Vec::len).sum::<usize>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.links.is_empty()
    }
}

/// Puts a value in the place of the former one of its metric.
fn put(known: &mut MetricValues, pattern: &'static Pattern, held: KeptValue) {
    match known.iter_mut().find(|(one, _)| std::ptr::eq(*one, pattern)) {
        Some((_, place)) => *place = held,
        None => known.push((pattern, held)),
    }
}

impl KeptValue {
    fn seen(distribution: &Histogram) -> Self {
        let Histogram { count, p50, p75, p95, p99, p999, p9999, .. } = *distribution;
        let percentiles = [p50, p75, p95, p99, p999, p9999];
        Self::Seen(Box::new(Seen { count: count.max(0).unsigned_abs(), percentiles }))
    }

    fn timed(timer: &Timer) -> Self {
        let Timer { count, p50, p75, p95, p99, p999, p9999, .. } = *timer;
        Self::seen(&Histogram { count, p50, p75, p95, p99, p999, p9999, ..Histogram::default() })
    }

    /// Whether a value fits a metric of this kind.
    fn is(&self, kind: MetricKind) -> bool {
        matches!(
            (self, kind),
            (Self::Int(_) | Self::Float(_), MetricKind::Gauge)
                | (Self::Rate(_), MetricKind::Meter)
                | (Self::Seen(_), MetricKind::Histogram | MetricKind::Timer)
        )
    }

    /// The value in the form in which it is shown.
    pub(crate) fn value(&self) -> MetricValue {
        match self {
            Self::Int(value) => MetricValue::Int(*value),
            Self::Float(value) => MetricValue::Float(*value),
            Self::Rate(m1) => MetricValue::Meter(Rate { m1: *m1, ..Rate::default() }),
            Self::Seen(seen) => {
                let [p50, p75, p95, p99, p999, p9999] = seen.percentiles;
                let count = seen.count;
                let seen = Distribution {
                    count,
                    p50,
                    p75,
                    p95,
                    p99,
                    p999,
                    p9999,
                    ..Distribution::default()
                };
                MetricValue::histogram(seen)
            }
        }
    }
}

/// The values of a report, with their names.
fn values_of(report: &MetricsMessage) -> impl Iterator<Item = (&str, KeptValue)> {
    let ints = report.int_values.iter().map(|(name, value)| (name, KeptValue::Int(*value)));
    let floats = report.float_values.iter().map(|(name, value)| (name, KeptValue::Float(*value)));
    let meters = report.meters.iter().map(|(name, meter)| (name, KeptValue::Rate(meter.m1_rate)));
    let histograms = report.histograms.iter().map(|(name, seen)| (name, KeptValue::seen(seen)));
    let timers = report.timers.iter().map(|(name, timer)| (name, KeptValue::timed(timer)));
    let all = ints.chain(floats).chain(meters).chain(histograms).chain(timers);
    all.map(|(name, value)| (name.as_str(), value))
}
