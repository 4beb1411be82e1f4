//! Reports of this router's measurements to every controller (docs/protocol/control-plane.md 19).
//!
//! Reports wait while no controller accepts them; beyond a number, the oldest is dropped. The first
//! controller that accepts a report makes events of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use weft_channel::clock::since_1970;
use weft_metrics::usage::{self, Interval};
use weft_metrics::{MetricValue, Report};
use weft_wire::ProtoBody;
use weft_wire::metrics::{
    Histogram, Meter, MetricsMessage, Timer, UsageCounter, link_latency_name, usage_counter,
};

use super::shared::Core;
use crate::seam::{LinkLatency, Measured};

/// Most circuits in one message.
const CIRCUITS: usize = 5_000;
/// Most circuits in all reports that wait. A hundred thousand circuits take about ten MiB.
const WAITING_CIRCUITS: usize = 500_000;

/// Makes and sends reports until the router stops.
pub(super) async fn run(core: Arc<Core>) {
    let options = core.options.reports;
    let mut waiting = Waiting::default();
    loop {
        tokio::time::sleep(options.interval.max(Duration::from_millis(100))).await;
        let Some(data) = core.data.get() else { continue };
        waiting.add(data.take_measured(options.age));
        send(&core, &mut waiting).await;
        let lost = waiting.trim(options.queue.max(1));
        if lost > 0 {
            data.reports_lost(lost);
            tracing::warn!(
                lost,
                "reports of metrics were dropped, because no controller accepts them"
            );
        }
    }
}

/// Sends waiting reports, oldest first, until no controller accepts one.
async fn send(core: &Core, waiting: &mut Waiting) {
    loop {
        let controllers = core.controllers.all();
        if controllers.is_empty() {
            return;
        }
        let Some(mut message) = waiting.next(&core.options.router_id) else { return };
        message.do_not_propagate = false;
        for controller in controllers {
            let sent = controller.channel.send_written(
                weft_channel::Lane::Default,
                message.to_message(),
                core.options.request_timeout,
            );
            match sent.await {
                Ok(()) => message.do_not_propagate = true,
                Err(problem) => {
                    tracing::debug!(controller = %controller.id, %problem, "metrics not reported");
                }
            }
        }
        if !message.do_not_propagate {
            return;
        }
        waiting.told();
    }
}

/// Reports that no controller has accepted, oldest first.
#[derive(Debug, Default)]
struct Waiting(VecDeque<Untold>);

/// The part of a report that was not sent yet. It becomes one message, or several for many
/// circuits.
#[derive(Debug)]
struct Untold {
    at: prost_types::Timestamp,
    /// The measurements, which are sent first.
    values: Option<MetricsMessage>,
    usage: VecDeque<Interval>,
}

impl Waiting {
    /// Adds a report.
    fn add(&mut self, measured: Measured) {
        let Measured { report, latencies, usage } = measured;
        let mut first = MetricsMessage::default();
        values(&mut first, report);
        for one in &latencies {
            // Paths are chosen by the latencies since the last report.
            let seen = first.histograms.entry(link_latency_name(&one.id)).or_default();
            *seen = latency(one, std::mem::take(seen));
        }
        let usage = usage.into_iter().flat_map(pieces).collect();
        self.0.push_back(Untold { at: now(), values: Some(first), usage });
    }

    /// The message to be sent next.
    fn next(&self, router: &str) -> Option<MetricsMessage> {
        let report = self.0.front()?;
        let mut message = MetricsMessage {
            event_id: uuid::Uuid::new_v4().to_string(),
            source_id: router.to_owned(),
            timestamp: Some(report.at),
            ..report.values.clone().unwrap_or_default()
        };
        message.usage_counters.extend(report.usage.front().map(counter));
        Some(message)
    }

    /// Notes that the message was sent.
    fn told(&mut self) {
        let Some(report) = self.0.front_mut() else { return };
        report.values = None;
        report.usage.pop_front();
        if report.usage.is_empty() {
            self.0.pop_front();
        }
    }

    /// Drops the oldest reports beyond `reports`, and the oldest usage of more circuits than may
    /// wait; the latest values are always kept. Returns the number of reports, and of parts of
    /// reports, that were dropped.
    fn trim(&mut self, reports: usize) -> u64 {
        let mut lost = 0;
        while self.0.len() > reports {
            self.0.pop_front();
            lost += 1;
        }
        let pieces = self.0.iter().flat_map(|report| &report.usage);
        let mut circuits: usize = pieces.map(|one| one.circuits.len()).sum();
        for report in &mut self.0 {
            while circuits > WAITING_CIRCUITS
                && let Some(given_up) = report.usage.pop_front()
            {
                circuits -= given_up.circuits.len();
                lost += 1;
            }
        }
        lost
    }
}

/// Splits an interval into parts that fit a message.
fn pieces(interval: Interval) -> impl Iterator<Item = Interval> {
    let Interval { start, length, circuits } = interval;
    let mut circuits = circuits.into_iter().peekable();
    std::iter::from_fn(move || {
        circuits.peek()?;
        Some(Interval { start, length, circuits: circuits.by_ref().take(CIRCUITS).collect() })
    })
}

fn counter(interval: &Interval) -> UsageCounter {
    let circuits = interval.circuits.iter();
    let buckets = circuits.map(|(id, (bytes, tags))| (id.to_string(), bucket(*bytes, tags)));
    UsageCounter {
        interval_start_utc: i64::try_from(interval.start).unwrap_or(i64::MAX),
        interval_length: interval.length,
        buckets: buckets.collect(),
    }
}

fn bucket(bytes: usage::Bytes, tags: &usage::Tags) -> usage_counter::Bucket {
    let named = usage::USAGE_DIRECTIONS.iter().zip(bytes).filter(|(_, bytes)| *bytes > 0);
    usage_counter::Bucket {
        values: named.map(|(name, bytes)| ((*name).to_owned(), bytes)).collect(),
        tags: tags.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
    }
}

/// A report with latencies only, from which controllers choose paths over a new link.
pub(super) fn of_latencies(router: &str, latencies: Vec<LinkLatency>) -> MetricsMessage {
    let mut alone = Waiting::default();
    alone.add(Measured { latencies, ..Measured::default() });
    alone.next(router).unwrap_or_default()
}

fn now() -> prost_types::Timestamp {
    let now = since_1970();
    prost_types::Timestamp {
        seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(now.subsec_nanos()).unwrap_or(0),
    }
}

fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn is_link_latency(name: &str) -> bool {
    name.starts_with("link.") && name.ends_with(".latency")
}

fn values(to: &mut MetricsMessage, report: Report) {
    for (name, value) in report {
        match value {
            MetricValue::Int(value) => drop(to.int_values.insert(name, value)),
            MetricValue::Float(value) => drop(to.float_values.insert(name, value)),
            MetricValue::Meter(rate) => {
                let meter = Meter {
                    count: int(rate.count),
                    m1_rate: rate.m1,
                    m5_rate: rate.m5,
                    m15_rate: rate.m15,
                    mean_rate: rate.mean,
                };
                to.meters.insert(name, meter);
            }
            // A link without measured round trips has no latency; it must not be reported as 0.
            MetricValue::Histogram(seen) if seen.max == 0 && is_link_latency(&name) => {}
            MetricValue::Histogram(seen) => drop(to.histograms.insert(name, histogram(&seen))),
            MetricValue::Timer(timer) => {
                let (seen, rate) = *timer;
                let seen = histogram(&seen);
                let timer = Timer {
                    count: seen.count,
                    max: seen.max,
                    mean: seen.mean,
                    min: seen.min,
                    std_dev: seen.std_dev,
                    variance: seen.variance,
                    p50: seen.p50,
                    p75: seen.p75,
                    p95: seen.p95,
                    p99: seen.p99,
                    p999: seen.p999,
                    p9999: seen.p9999,
                    m1_rate: rate.m1,
                    m5_rate: rate.m5,
                    m15_rate: rate.m15,
                    mean_rate: rate.mean,
                };
                to.timers.insert(name, timer);
            }
        }
    }
}

fn histogram(seen: &weft_metrics::Distribution) -> Histogram {
    Histogram {
        count: int(seen.count),
        max: int(seen.max),
        mean: seen.mean,
        min: int(seen.min),
        std_dev: seen.std_dev,
        variance: seen.variance,
        p50: seen.p50,
        p75: seen.p75,
        p95: seen.p95,
        p99: seen.p99,
        p999: seen.p999,
        p9999: seen.p9999,
    }
}

/// The latency of a link: the distribution of the last minutes, and the mean of the latest round
/// trips.
fn latency(link: &LinkLatency, seen: Histogram) -> Histogram {
    if seen.p50 > 0.0 {
        return Histogram { mean: link.mean, ..seen };
    }
    Histogram {
        count: seen.count.max(int(link.count)),
        mean: link.mean,
        min: int(link.min),
        max: int(link.max),
        p50: link.mean,
        p75: link.mean,
        p95: link.max as f64,
        p99: link.max as f64,
        p999: link.max as f64,
        p9999: link.max as f64,
        ..Histogram::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use weft_metrics::usage::Interval;
    use weft_metrics::{Distribution, Rate};

    use super::*;
    use crate::tests::support::later;

    fn of(report: Report, latencies: Vec<LinkLatency>) -> MetricsMessage {
        let mut waiting = Waiting::default();
        waiting.add(Measured { report, latencies, usage: Vec::new() });
        let message = waiting.next("r1").unwrap();
        waiting.told();
        assert!(waiting.next("r1").is_none());
        message
    }

    fn usage(circuits: usize) -> Measured {
        let circuits: HashMap<Arc<str>, _> = (0..circuits)
            .map(|at| (Arc::from(at.to_string()), ([1, 0, 0, 0, 0, 2], usage::Tags::default())))
            .collect();
        let usage = vec![Interval { start: 120, length: 60, circuits }];
        let report = Report::from([("weft.links".to_owned(), MetricValue::Int(3))]);
        Measured { report, usage, ..Measured::default() }
    }

    /// The messages for all reports that wait.
    fn told(waiting: &mut Waiting) -> Vec<MetricsMessage> {
        let next = || {
            let message = waiting.next("r1");
            waiting.told();
            message
        };
        std::iter::from_fn(next).collect()
    }

    #[tokio::test]
    async fn a_report_says_when_it_was_made() {
        let (day, mut waiting) = (Duration::from_secs(24 * 3600), Waiting::default());
        let before = since_1970();
        later(day).await;
        waiting.add(Measured::default());
        later(day).await;
        let at = waiting.next("r1").unwrap().timestamp.unwrap().seconds as u64;
        let after = Duration::from_secs(at).saturating_sub(before);
        assert!(after.abs_diff(day) < day / 2, "{after:?}");
    }

    #[test]
    fn a_report_keeps_its_values_and_takes_the_mean_of_the_latest_round_trips() {
        let seen =
            Distribution { count: 4, mean: 7.0, p50: 6.0, max: 9, ..Distribution::default() };
        let rate = Rate { count: 4, m1: 2.0, ..Rate::default() };
        let report = Report::from([
            ("edge.connections".to_owned(), MetricValue::Int(3)),
            ("fabric.rx.msgrate".to_owned(), MetricValue::Meter(rate)),
            ("link.l1.latency".to_owned(), MetricValue::histogram(seen)),
            ("link.l2.latency".to_owned(), MetricValue::histogram(seen)),
            ("pool.route.handler.work_timer".to_owned(), MetricValue::timer(seen, rate)),
        ]);
        let latency = |id: &str| LinkLatency { id: id.into(), count: 1, mean: 8.0, min: 8, max: 8 };
        let message = of(report, vec![latency("l1"), latency("new")]);
        assert_eq!(message.source_id, "r1");
        assert_eq!(message.int_values["edge.connections"], 3);
        assert_eq!(message.meters["fabric.rx.msgrate"].m1_rate, 2.0);
        assert_eq!(message.timers["pool.route.handler.work_timer"].mean, 7.0);
        assert_eq!((message.link_latency("l1"), message.link_latency("l2")), (Some(8), Some(7)));
        assert_eq!(message.link_latency("new"), Some(8));
        // The distribution for charts keeps the measured values.
        let charted = &message.histograms["link.l1.latency"];
        assert_eq!((charted.count, charted.p50, charted.max), (4, 6.0, 9));
    }

    #[test]
    fn a_link_that_was_not_measured_is_not_told_as_one_without_latency() {
        let nothing = Distribution { count: 9, ..Distribution::default() };
        let report = Report::from([
            ("link.l1.latency".to_owned(), MetricValue::histogram(nothing)),
            ("link.l1.queue_time".to_owned(), MetricValue::histogram(nothing)),
        ]);
        let message = of(report, Vec::new());
        assert_eq!(message.link_latency("l1"), None);
        assert_eq!(message.histograms["link.l1.queue_time"].count, 9);
    }

    #[test]
    fn many_circuits_are_several_messages() {
        let mut waiting = Waiting::default();
        waiting.add(usage(CIRCUITS + 1));
        let all = told(&mut waiting);
        let told: Vec<usize> =
            all.iter().flat_map(|one| &one.usage_counters).map(|one| one.buckets.len()).collect();
        assert_eq!((all.len(), told), (2, vec![CIRCUITS, 1]));
        assert_eq!((all[0].int_values["weft.links"], all[1].int_values.len()), (3, 0));
        assert_eq!(all[0].timestamp, all[1].timestamp);
        let counter = &all[1].usage_counters[0];
        assert_eq!((counter.interval_start_utc, counter.interval_length), (120, 60));
        let bucket = counter.buckets.values().next().unwrap();
        let named: std::collections::BTreeMap<_, _> = bucket.values.clone().into_iter().collect();
        assert_eq!(named, [("fabric.tx".to_owned(), 2), ("ingress.rx".to_owned(), 1)].into());
    }

    #[test]
    fn a_report_of_many_circuits_is_one_report_and_its_values_are_never_given_up_for_usage() {
        let mut waiting = Waiting::default();
        waiting.add(usage(10 * CIRCUITS + 1));
        assert_eq!(waiting.trim(1), 0);
        assert_eq!(told(&mut waiting).len(), 11);
        // More circuits than may wait in all.
        for _ in 0..4 {
            waiting.add(usage(200_000));
        }
        assert_eq!(waiting.trim(3), 1 + 100_000 / CIRCUITS as u64);
        let all = told(&mut waiting);
        assert_eq!(all.iter().filter(|one| !one.int_values.is_empty()).count(), 3);
        let circuits = all.iter().flat_map(|one| &one.usage_counters).map(|one| one.buckets.len());
        assert_eq!(circuits.sum::<usize>(), WAITING_CIRCUITS);
    }
}
