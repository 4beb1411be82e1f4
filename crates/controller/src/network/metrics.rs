//! What the network's programs measure, as operators get it: Prometheus' text and events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value as Json;
use weft_contract::Timestamp as TimeWord;
use weft_metrics::usage::WAYS;
use weft_metrics::{Exposition, Origin, Report, Value, names};
use weft_model::entity::Service;
use weft_model::{Id, Timestamp};
use weft_wire::metrics::MetricsMessage;

use super::Network;
use super::misreports::Misreport;
use super::reported::Kept;
use super::routers::LiveRouter;

/// A text that was made for one serves all who ask within this time.
const FRESH: Duration = Duration::from_secs(1);
/// Longest text.
const MAX_TEXT: usize = 64 << 20;
/// Labels of a link.
const LINK_ENDS: [&str; 2] = ["sourceRouterId", "targetRouterId"];

/// The text that was made last, without and with times.
#[derive(Debug, Default)]
pub(super) struct Texts([tokio::sync::Mutex<Option<(Instant, Bytes)>>; 2]);

impl Network {
    /// A router tells what it measured, and what its circuits carried.
    pub(super) fn keep_report(&self, router: &LiveRouter, report: &MetricsMessage) {
        let at = self.0.controller.now();
        let is_own = |link: &str| {
            self.0.links.get(link).is_some_and(|link| link.has_end(router.id.as_str()))
        };
        if !self.0.reported.keep(&router.id, report, at, is_own) {
            self.refuse(router, Misreport::TooManyMetrics, "");
        }
        // Another controller counts it.
        if report.do_not_propagate {
            return;
        }
        let snapshot = self.0.controller.snapshot();
        for (circuit, bucket) in report.usage_counters.iter().flat_map(|one| &one.buckets) {
            let service = match self.0.circuits.get(circuit) {
                Some(known) if !known.path.has_node(router.id.as_str()) => {
                    self.refuse(router, Misreport::Usage, circuit);
                    continue;
                }
                Some(known) => known.service.clone(),
                // It has ended since; the router says of which service it was.
                None => Id::new(bucket.tags.get("serviceId").map_or("", String::as_str)),
            };
            if snapshot.get::<Service>(&service).is_some() {
                let values = bucket.values.iter().map(|(name, bytes)| (name.as_str(), *bytes));
                self.0.used.carried(&service, values);
            }
        }
    }

    /// A router reports more than anybody can have to report; it is not read.
    pub(crate) fn refuse_metrics(&self, router: &LiveRouter) {
        self.refuse(router, Misreport::TooManyMetrics, "");
    }

    /// What this controller measures of itself.
    pub(super) fn own_report(&self) -> Report {
        let mut report = self.0.controller.measures().read();
        let counted = self.counted().into_iter();
        report.extend(counted.map(|(name, count)| {
            (name.to_owned(), Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
        }));
        report
    }

    /// What this controller and the routers measured, as Prometheus reads it.
    pub async fn prometheus(&self, with_times: bool) -> Bytes {
        let mut last = self.0.texts.0[usize::from(with_times)].lock().await;
        if let Some((_, text)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return text.clone();
        }
        let network = self.clone();
        // Of many routers this takes a while.
        let made = tokio::task::spawn_blocking(move || network.exposition(with_times).text());
        let text = Bytes::from(made.await.unwrap_or_default());
        *last = Some((Instant::now(), text.clone()));
        text
    }

    fn exposition(&self, with_times: bool) -> Exposition {
        let mut to = Exposition::new(MAX_TEXT);
        let id = self.0.controller.settings().id.clone();
        let now = self.0.controller.now();
        let time = |at: Timestamp| with_times.then(|| u64::try_from(at.0).unwrap_or_default());
        self.expose(&mut to, &id, &self.own_report(), time(now));
        self.expose_use(&mut to, &id, time(now));
        for Kept { router, at, values } in self.0.reported.all() {
            self.expose(&mut to, router.as_str(), &values, time(at));
        }
        to
    }

    /// Adds a report of somebody.
    fn expose(&self, to: &mut Exposition, source: &str, report: &Report, at: Option<u64>) {
        for (name, value) in report {
            let (metric, entity) = names::split(name);
            let ends = entity.filter(|_| metric.starts_with("link."));
            let ends = ends.and_then(|link| self.link_ends(link, source));
            let mut labels = Vec::with_capacity(4);
            if let Some(ends) = &ends {
                labels.extend(LINK_ENDS.iter().copied().zip(ends.iter().map(String::as_str)));
            }
            labels.push(("source_id", source));
            labels.extend(entity.map(|entity| ("source_entity_id", entity)));
            to.add(&metric, value, &labels, at);
        }
    }

    /// Adds how services are used.
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
            for (way, bytes) in WAYS.iter().zip(bytes) {
                let labels =
                    [("service_id", service.as_str()), ("direction", way), ("source_id", id)];
                to.count("service.bytes", bytes, &labels, at);
            }
        }
    }

    /// Both ends of a link, if one of them is the router that tells of it.
    fn link_ends(&self, link: &str, source: &str) -> Option<[String; 2]> {
        let link = self.0.links.get(link).filter(|link| link.has_end(source))?;
        Some([link.source.to_string(), link.destination.to_string()])
    }

    /// A report as events, for inspections.
    pub(super) fn metric_events(&self, source: &str, at: TimeWord, report: &Report) -> Json {
        let controller = &self.0.controller;
        let origin = Origin {
            teller: &controller.settings().id,
            source,
            at: at.to_string(),
            report: controller.ids().token().to_string(),
        };
        let tags = |link: &str| {
            let [one, other] = self.link_ends(link, source)?;
            Some([(LINK_ENDS[0], one), (LINK_ENDS[1], other)])
        };
        weft_metrics::events(&origin, report, &tags).collect()
    }

    /// The same as Prometheus reads it.
    pub(super) fn metric_text(&self, source: &str, report: &Report) -> Json {
        let mut to = Exposition::new(MAX_TEXT);
        self.expose(&mut to, source, report, None);
        Json::Array(vec![Json::String(to.text())])
    }

    /// What a router answered to a question for metrics, in the form that was asked for.
    pub(super) fn metrics_of(&self, router: &str, name: &str, told: Json) -> Option<Json> {
        let (at, report) = weft_metrics::from_json(told).ok()?;
        let at = at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let at = TimeWord::from_millis(i64::try_from(at.as_millis()).unwrap_or_default());
        Some(match name {
            "metrics:prometheus" => self.metric_text(router, &report),
            _ => self.metric_events(router, at, &report),
        })
    }

    /// Brings rates up to date, and forgets how services were used that are gone.
    pub(super) async fn measure(self) {
        let mut ticks = tokio::time::interval(weft_metrics::TICK);
        let mut count = 0_u32;
        loop {
            ticks.tick().await;
            self.0.controller.measures().tick();
            count = count.wrapping_add(1);
            if count.is_multiple_of(60) {
                let snapshot: Arc<_> = self.0.controller.snapshot();
                self.0.used.keep_services(|id| snapshot.get::<Service>(id).is_some());
            }
        }
    }
}
