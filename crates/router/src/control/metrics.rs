//! Reports of what this router measures, to every controller (protocol: control-plane 19).
//!
//! A report that no controller takes waits for one, up to a number; then the oldest is given up.
//! The first controller that takes a report is the one that makes events of it.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use weft_metrics::{Report, Value, usage};
use weft_wire::{
    ProtoBody,
    metrics::{
        Histogram, Meter, MetricsMessage, Timer, UsageCounter, link_latency_name, usage_counter,
    },
};

use super::Core;
use crate::seam::{LinkLatency, Measured};

/// Circuits in one message, at most.
const CIRCUITS: usize = 5_000;

/// When and how reports are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportOptions {
    /// How often.
    pub(crate) interval: Duration,
    /// How many may wait.
    pub(crate) queue: usize,
    /// Age at which an interval of usage is told.
    pub(crate) age: Duration,
}

/// Reports until the router stops.
pub(super) async fn run(core: Arc<Core>) {
    let options = core.options.reports;
    let mut waiting = VecDeque::new();
    loop {
        tokio::time::sleep(options.interval.max(Duration::from_millis(100))).await;
        let Some(data) = core.data.get() else { continue };
        waiting.extend(messages(&core.options.router_id, data.take_measured(options.age)));
        let mut lost = 0;
        while waiting.len() > options.queue.max(1) {
            // What a message holds beyond the figures of its moment is the usage.
            waiting.pop_front();
            lost += 1;
        }
        if lost > 0 {
            data.reports_lost(lost);
            tracing::warn!(lost, "reports of metrics were given up: no controller takes them");
        }
        send(&core, &mut waiting).await;
    }
}

/// Sends what waits, oldest first, until nobody takes it.
async fn send(core: &Core, waiting: &mut VecDeque<MetricsMessage>) {
    while let Some(message) = waiting.front_mut() {
        message.do_not_propagate = false;
        for controller in core.controllers.all() {
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
        waiting.pop_front();
    }
}

/// The messages of a report: one, and more for many circuits.
fn messages(router: &str, measured: Measured) -> Vec<MetricsMessage> {
    let Measured { report, latencies, usage } = measured;
    let new = || MetricsMessage {
        event_id: uuid::Uuid::new_v4().to_string(),
        source_id: router.to_owned(),
        timestamp: Some(now()),
        ..MetricsMessage::default()
    };
    let mut first = new();
    values(&mut first, report);
    // What paths are chosen by is what came since the last report.
    first.histograms.extend(latencies.iter().map(|one| (link_latency_name(&one.id), latency(one))));
    let mut all = vec![first];
    for interval in usage {
        let (start, length) = (interval.start, interval.length);
        let mut circuits = interval.circuits.into_iter().peekable();
        while circuits.peek().is_some() {
            let part = circuits
                .by_ref()
                .take(CIRCUITS)
                .map(|(id, (bytes, tags))| (id.to_string(), bucket(bytes, &tags)));
            let counter = UsageCounter {
                interval_start_utc: i64::try_from(start).unwrap_or(i64::MAX),
                interval_length: length,
                buckets: part.collect(),
            };
            let is_full = |message: &MetricsMessage| !message.usage_counters.is_empty();
            if all.last().is_none_or(is_full) {
                all.push(new());
            }
            all.last_mut().into_iter().for_each(|last| last.usage_counters.push(counter.clone()));
        }
    }
    all
}

fn bucket(bytes: usage::Bytes, tags: &usage::Tags) -> usage_counter::Bucket {
    let named = usage::WAYS.iter().zip(bytes).filter(|(_, bytes)| *bytes > 0);
    usage_counter::Bucket {
        values: named.map(|(name, bytes)| ((*name).to_owned(), bytes)).collect(),
        tags: tags.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
    }
}

/// A report of round trips alone, for the path over a new link.
pub(super) fn of_latencies(router: &str, latencies: Vec<LinkLatency>) -> MetricsMessage {
    let measured = Measured { latencies, ..Measured::default() };
    messages(router, measured).into_iter().next().unwrap_or_default()
}

fn now() -> prost_types::Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    prost_types::Timestamp {
        seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(now.subsec_nanos()).unwrap_or(0),
    }
}

fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn values(to: &mut MetricsMessage, report: Report) {
    for (name, value) in report {
        match value {
            Value::Int(value) => drop(to.int_values.insert(name, value)),
            Value::Float(value) => drop(to.float_values.insert(name, value)),
            Value::Meter(rate) => {
                let meter = Meter {
                    count: int(rate.count),
                    m1_rate: rate.m1,
                    m5_rate: rate.m5,
                    m15_rate: rate.m15,
                    mean_rate: rate.mean,
                };
                to.meters.insert(name, meter);
            }
            Value::Histogram(seen) => drop(to.histograms.insert(name, histogram(&seen))),
            Value::Timer(timer) => {
                let (seen, rate) = *timer;
                let Histogram {
                    count,
                    max,
                    mean,
                    min,
                    std_dev,
                    variance,
                    p50,
                    p75,
                    p95,
                    p99,
                    p999,
                    p9999,
                } = histogram(&seen);
                let timer = Timer {
                    count,
                    max,
                    mean,
                    min,
                    std_dev,
                    variance,
                    p50,
                    p75,
                    p95,
                    p99,
                    p999,
                    p9999,
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

fn latency(link: &LinkLatency) -> Histogram {
    Histogram {
        count: int(link.count),
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

    use weft_metrics::{Distribution, Rate, usage::Interval};

    use super::*;

    #[test]
    fn a_report_keeps_its_values_and_takes_the_latest_round_trips() {
        let seen = Distribution { count: 4, mean: 7.0, ..Distribution::default() };
        let rate = Rate { count: 4, m1: 2.0, ..Rate::default() };
        let report = Report::from([
            ("edge.connections".to_owned(), Value::Int(3)),
            ("fabric.rx.msgrate".to_owned(), Value::Meter(rate)),
            ("link.l1.latency".to_owned(), Value::histogram(seen)),
            ("link.l2.latency".to_owned(), Value::histogram(seen)),
            ("pool.route.handler.work_timer".to_owned(), Value::timer(seen, rate)),
        ]);
        let latencies = vec![LinkLatency { id: "l1".into(), count: 1, mean: 9.0, min: 9, max: 9 }];
        let all = messages("r1", Measured { report, latencies, usage: Vec::new() });
        let [message] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(message.source_id, "r1");
        assert_eq!(message.int_values["edge.connections"], 3);
        assert_eq!(message.meters["fabric.rx.msgrate"].m1_rate, 2.0);
        assert_eq!(message.timers["pool.route.handler.work_timer"].mean, 7.0);
        assert_eq!((message.link_latency("l1"), message.link_latency("l2")), (Some(9), Some(7)));
    }

    #[test]
    fn many_circuits_are_several_messages() {
        let circuits: HashMap<Arc<str>, _> = (0..CIRCUITS + 1)
            .map(|at| (Arc::from(at.to_string()), ([1, 0, 0, 0, 0, 2], usage::Tags::default())))
            .collect();
        let usage = vec![Interval { start: 120, length: 60, circuits }];
        let all = messages("r1", Measured { usage, ..Measured::default() });
        let told: Vec<usize> =
            all.iter().flat_map(|one| &one.usage_counters).map(|one| one.buckets.len()).collect();
        assert_eq!((all.len(), told), (2, vec![CIRCUITS, 1]));
        let counter = &all[1].usage_counters[0];
        assert_eq!((counter.interval_start_utc, counter.interval_length), (120, 60));
        let bucket = counter.buckets.values().next().unwrap();
        let named: std::collections::BTreeMap<_, _> = bucket.values.clone().into_iter().collect();
        assert_eq!(named, [("fabric.tx".to_owned(), 2), ("ingress.rx".to_owned(), 1)].into());
    }
}
