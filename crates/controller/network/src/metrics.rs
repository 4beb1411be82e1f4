//! Values that controllers and routers measure, as Prometheus' text and as events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde_json::Value as Json;
use weft_contract::Timestamp as TimeWord;
use weft_metrics::usage::{USAGE_DIRECTIONS, UsageDirection};
use weft_metrics::{Exposition, MetricValue, Report, ReportOrigin, names};
use weft_model::entity::{Service, Terminator};
use weft_model::{Id, Timestamp};
use weft_paths::links::Link;
use weft_wire::metrics::{MetricsMessage, UsageCounter};

use super::circuits::Circuit;
use super::misreports::Misreport;
use super::reported::Kept;
use super::routers::LiveRouter;
use super::traffic::{ClockReading, TrafficTotals};
use super::used;
use crate::clock;
use crate::network::Network;

/// Longest text, in bytes.
const MAX_TEXT: usize = 64 << 20;
/// Most metrics of a router in an inspection: as events each takes more than 1 KiB.
const MAX_INSPECTED: usize = 50_000;
/// Labels of a link.
const LINK_ENDS: [&str; 2] = ["sourceRouterId", "targetRouterId"];

impl Network {
    /// Keeps the values that a router measured, and the bytes of its circuits.
    pub(super) fn keep_report(&self, router: &LiveRouter, report: &MetricsMessage) {
        let at = self.0.kernel.now();
        let now = (clock::now(), at);
        for counter in &report.usage_counters {
            for (circuit, bucket) in &counter.buckets {
                self.note_traffic(router, counter, circuit, &bucket.values, now);
                // Every controller gets the report; one of them counts services and terminators.
                if !report.do_not_propagate {
                    self.count_usage(router, counter.interval_length, circuit, &bucket.values);
                }
            }
        }
        let is_own = |link: &str| {
            self.0.links.get(link).is_some_and(|link| link.has_end(router.id.as_str()))
        };
        let registered = self.0.routers.get(router.id.as_str());
        // A report that arrives after its connection ended is not kept.
        if registered.is_some_and(|one| one.connection == router.connection) {
            self.0.reported.keep(&router.id, report, at, is_own);
        }
    }

    /// Notes the bytes of a circuit that begins at the router.
    fn note_traffic(
        &self,
        router: &LiveRouter,
        counter: &UsageCounter,
        circuit: &str,
        values: &BTreeMap<String, u64>,
        now: ClockReading,
    ) {
        let seconds = counter.interval_length;
        let begins_there =
            |circuit: &Arc<Circuit>| circuit.is_whole && circuit.path.first() == Some(&router.id);
        let Some(circuit) = self.0.circuits.get(circuit).filter(begins_there) else { return };
        let bytes = [UsageDirection::IngressRx, UsageDirection::IngressTx].map(|direction| {
            let bytes = USAGE_DIRECTIONS.get(direction as usize).and_then(|name| values.get(*name));
            bytes.copied().unwrap_or_default()
        });
        if bytes.iter().all(|bytes| used::is_possible(*bytes, seconds)) {
            circuit.traffic.note(counter.interval_start_utc, seconds, bytes, now);
        }
    }

    /// The data of a circuit, as the router of its dialer reported it; `None` if it did not yet.
    pub fn traffic_of(&self, circuit: &Circuit) -> Option<TrafficTotals> {
        let heard = circuit.path.first().and_then(|router| self.0.reported.heard(router));
        circuit.traffic.shown(clock::now(), heard)
    }

    /// Bytes per second over a link, as its routers reported them last: those that the dialing
    /// router sends, and those that the dialed router sends. `None` if unknown.
    pub fn rates_of(&self, link: &Link) -> [Option<u64>; 2] {
        let [source, destination] = [&link.source, &link.destination]
            .map(|router| self.0.reported.rates_of_link(router, &link.id));
        [source.sent.or(destination.received), destination.sent.or(source.received)]
    }

    /// Counts the bytes that a circuit carried in an interval of so many seconds. The service and
    /// the terminator are looked up by the circuit; those in the report are ignored.
    fn count_usage(
        &self,
        router: &LiveRouter,
        seconds: u64,
        circuit: &str,
        values: &BTreeMap<String, u64>,
    ) {
        let is_possible = values.values().all(|bytes| used::is_possible(*bytes, seconds));
        let used = self.0.circuits.used_over(circuit, router.id.as_str());
        let Some([service, terminator]) = used.filter(|_| is_possible) else {
            // A circuit of an earlier run may have gone over the router then, or may be known in part.
            let is_foreign = !is_possible || self.is_of_this_run(circuit);
            let kind = if is_foreign { Misreport::Usage } else { Misreport::UnknownUsage };
            return self.refuse(router, kind, circuit);
        };
        let snapshot = self.0.kernel.with_held();
        let values = || values.iter().map(|(name, bytes)| (name.as_str(), *bytes));
        if snapshot.get::<Service>(&service).is_some() {
            self.0.used.carried(&service, values());
        }
        if snapshot.get::<Terminator>(&terminator).is_some() {
            self.0.used.carried_to(&terminator, values());
        }
    }

    /// The bytes of all circuits of a service so far.
    #[cfg(any(test, feature = "testing"))]
    pub fn used_by(&self, service: &weft_model::Id) -> [u64; USAGE_DIRECTIONS.len()] {
        let all = self.0.used.bytes();
        all.into_iter().find(|(id, _)| id == service).map(|(_, bytes)| bytes).unwrap_or_default()
    }

    /// Counts a report that is dropped unread because the router reports too much.
    pub fn refuse_metrics(&self, router: &LiveRouter) {
        self.refuse(router, Misreport::TooManyMetrics, "");
    }

    /// The values that this controller measured.
    pub(super) fn own_report(&self) -> Report {
        let mut report = self.0.kernel.measures().read();
        let counted = self.counted().into_iter();
        report.extend(counted.map(|(name, count)| {
            (name.to_owned(), MetricValue::Int(i64::try_from(count).unwrap_or(i64::MAX)))
        }));
        report
    }

    /// The values of this controller and the routers in the text format of Prometheus.
    pub async fn prometheus(&self, with_times: bool) -> Bytes {
        let network = self.clone();
        let make = move || {
            let made = network.exposition(with_times);
            network.0.texts.left_out.store(made.left_out(), Ordering::Relaxed);
            Bytes::from(made.text())
        };
        self.0.texts.get(with_times, make).await
    }

    fn exposition(&self, with_times: bool) -> Exposition {
        let mut to = Exposition::new(MAX_TEXT);
        let id = self.0.kernel.settings().id.clone();
        let now = self.0.kernel.now();
        let time = |at: Timestamp| with_times.then(|| u64::try_from(at.0).unwrap_or_default());
        self.expose(&mut to, &id, &self.own_report(), time(now));
        self.expose_use(&mut to, &id, time(now));
        let kept = self.0.reported.all();
        for Kept { router, at, values } in &kept {
            for (pattern, held) in &values.own {
                let one = (pattern.metric(), None);
                self.expose_one(&mut to, router.as_str(), one, &held.value(), time(*at));
            }
        }
        // Values of links are the most: they come last, and are left out when the text is full.
        for Kept { router, at, values } in &kept {
            for (link, of) in &values.links {
                for (pattern, held) in of {
                    let one = (pattern.metric(), Some(&**link));
                    self.expose_one(&mut to, router.as_str(), one, &held.value(), time(*at));
                }
            }
        }
        to
    }

    /// Adds the report of a program to the text.
    fn expose(&self, to: &mut Exposition, source: &str, report: &Report, at: Option<u64>) {
        for (name, value) in report {
            self.expose_one(to, source, names::split(name), value, at);
        }
    }

    /// Adds a value, with labels for the link or the router that it belongs to.
    fn expose_one(
        &self,
        to: &mut Exposition,
        source: &str,
        (metric, entity): (&str, Option<&str>),
        value: &MetricValue,
        at: Option<u64>,
    ) {
        let ends = entity.filter(|_| metric.starts_with("link."));
        let ends = ends.and_then(|link| self.link_ends(link, source));
        let mut labels = Vec::with_capacity(4);
        if let Some(ends) = &ends {
            labels.extend(LINK_ENDS.iter().copied().zip(ends.iter().map(String::as_str)));
        }
        labels.push(("source_id", source));
        labels.extend(entity.map(|entity| ("source_entity_id", entity)));
        to.add(metric, value, &labels, at);
    }

    /// Adds the use of services.
    fn expose_use(&self, to: &mut Exposition, id: &str, at: Option<u64>) {
        for ((service, terminator), dials) in self.0.used.dials() {
            let labels = [
                ("service_id", service.as_str()),
                ("terminator_id", terminator.as_str()),
                ("source_id", id),
            ];
            to.count("service.dial.success", dials.good, &labels, at);
            to.count("service.dial.fail", dials.bad, &labels, at);
        }
        for (service, bytes) in self.0.used.bytes() {
            for (direction, bytes) in USAGE_DIRECTIONS.iter().zip(bytes) {
                let labels =
                    [("service_id", service.as_str()), ("direction", direction), ("source_id", id)];
                to.count("service.bytes", bytes, &labels, at);
            }
        }
        for (terminator, bytes) in self.0.used.bytes_to() {
            for (direction, bytes) in used::OF_HOST.iter().zip(bytes) {
                let direction =
                    USAGE_DIRECTIONS.get(*direction as usize).copied().unwrap_or_default();
                let labels = [
                    ("terminator_id", terminator.as_str()),
                    ("direction", direction),
                    ("source_id", id),
                ];
                to.count("terminator.bytes", bytes, &labels, at);
            }
        }
    }

    /// Both ends of a link, if `source` is one of them.
    fn link_ends(&self, link: &str, source: &str) -> Option<[String; 2]> {
        let link = self.0.links.get(link).filter(|link| link.has_end(source))?;
        Some([link.source.to_string(), link.destination.to_string()])
    }

    /// A report as events, for inspections.
    pub(super) fn metric_events(&self, source: &str, at: TimeWord, report: &Report) -> Json {
        let kernel = &self.0.kernel;
        let origin = ReportOrigin {
            teller: &kernel.settings().id,
            source,
            at: at.to_string(),
            report: kernel.ids().token().to_string(),
        };
        let tags = |link: &str| {
            let [one, other] = self.link_ends(link, source)?;
            Some([(LINK_ENDS[0], one), (LINK_ENDS[1], other)])
        };
        weft_metrics::events(&origin, report, &tags).collect()
    }

    /// A report as Prometheus' text.
    pub(super) fn metric_text(&self, source: &str, report: &Report) -> Json {
        let mut to = Exposition::new(MAX_TEXT);
        self.expose(&mut to, source, report, None);
        Json::Array(vec![Json::String(to.text())])
    }

    /// A value that a router answered: metrics in the form that the inspection asked for, others as they are.
    pub(super) fn in_wanted_form(
        &self,
        router: &Id,
        name: &str,
        told: Json,
    ) -> Result<Json, String> {
        if !name.starts_with("metrics") {
            return Ok(told);
        }
        let Ok((at, report)) = weft_metrics::from_json(&told) else { return Ok(told) };
        if report.len() > MAX_INSPECTED {
            return Err(format!("it has {} metrics, more than {MAX_INSPECTED}", report.len()));
        }
        let at = at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let at = TimeWord::from_millis(i64::try_from(at.as_millis()).unwrap_or_default());
        Ok(match name {
            "metrics:prometheus" => self.metric_text(router.as_str(), &report),
            _ => self.metric_events(router.as_str(), at, &report),
        })
    }

    /// Updates rates, and forgets the use of services that were deleted.
    pub async fn measure(self) {
        let mut ticks = tokio::time::interval(weft_metrics::TICK);
        let mut count = 0_u32;
        loop {
            ticks.tick().await;
            self.0.kernel.measures().tick();
            count = count.wrapping_add(1);
            if count.is_multiple_of(60) {
                let snapshot: Arc<_> = self.0.kernel.with_held();
                self.0.used.keep(
                    |id| snapshot.get::<Service>(id).is_some(),
                    |id| snapshot.get::<Terminator>(id).is_some(),
                );
            }
            if count.is_multiple_of(12) {
                self.0.reported.expire(clock::now());
            }
        }
    }
}
