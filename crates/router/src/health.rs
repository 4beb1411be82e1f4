//! Health checks of a router (docs/protocol/operations.md 6): answers of controllers, and the
//! number of links.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use weft_channel::clock::time_of_day;
use weft_config::router::HealthChecks;
use weft_metrics::{MetricValue as Measured, Report};
use weft_web::health::{HealthCheck, HealthOutcome};
use weft_wire::metrics::link_latency_name;
use weft_wire::{Message, content_type};

use crate::controllers::Controllers;
use crate::data::DataHalf;

/// The health checks of a router.
#[derive(Debug)]
pub(crate) struct Health {
    controllers: HealthCheck,
    links: HealthCheck,
}

impl Health {
    /// Checks until the router stops.
    pub(crate) fn start(
        options: HealthChecks,
        controllers: Arc<Controllers>,
        data: &Arc<DataHalf>,
        runtime: &tokio::runtime::Handle,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let now = time_of_day();
        let health = Arc::new(Self {
            controllers: HealthCheck::new("controllerPing", false, now),
            links: HealthCheck::new("link.health", options.min_links == 0, now),
        });
        let (of_links, until) = (Arc::clone(&health), stop.clone());
        let (limits, data) = (options.clone(), Arc::downgrade(data));
        runtime.spawn(async move {
            let links = || data.upgrade().map(|data| data.link_details());
            let looking = of_links.look_at_links(&limits, links);
            let _ = until.run_until_cancelled(looking).await;
        });
        let of_controllers = Arc::clone(&health);
        runtime.spawn(async move {
            let pinging = of_controllers.ping(&options, &controllers);
            let _ = stop.run_until_cancelled(pinging).await;
        });
        health
    }

    /// The last outcome of each check.
    pub(crate) fn seen(&self) -> [(&'static str, HealthOutcome); 2] {
        [self.controllers.seen(), self.links.seen()]
    }

    async fn ping(&self, options: &HealthChecks, controllers: &Controllers) {
        tokio::time::sleep(options.ctrl_ping_initial_delay).await;
        loop {
            let begun = Instant::now();
            let problem = ping_all(controllers, options.ctrl_ping_timeout).await.err();
            let found = HealthOutcome::new(time_of_day(), begun.elapsed(), problem, Value::Null);
            self.controllers.found(found);
            tokio::time::sleep(options.ctrl_ping_interval.max(LEAST)).await;
        }
    }

    /// Counts the links at intervals. Returns once `links` gives `None`, because the router is gone.
    async fn look_at_links(
        &self,
        options: &HealthChecks,
        links: impl Fn() -> Option<Vec<Value>> + Send,
    ) {
        tokio::time::sleep(options.link_initial_delay).await;
        loop {
            let begun = Instant::now();
            let Some(links) = links() else { return };
            let (count, wanted) = (links.len(), options.min_links as usize);
            let problem = (count < wanted)
                .then(|| format!("link count {count} less than configured minimum of {wanted}"));
            // The original shows `null` if there is no link.
            let details = if links.is_empty() { Value::Null } else { Value::Array(links) };
            self.links.found(HealthOutcome::new(time_of_day(), begun.elapsed(), problem, details));
            tokio::time::sleep(options.link_interval.max(LEAST)).await;
        }
    }
}

/// Shortest interval between two runs of a check.
const LEAST: Duration = Duration::from_millis(100);

/// Pings every controller; one answer is enough.
async fn ping_all(controllers: &Controllers, timeout: Duration) -> Result<(), String> {
    let all = controllers.all();
    if all.is_empty() {
        return Err("no control channels established yet".to_owned());
    }
    let ping = |channel: weft_channel::ChannelHandle| async move {
        let ping = Message::new(content_type::PING, "ping");
        channel.request(ping, timeout).await.is_ok()
    };
    let mut pings: FuturesUnordered<_> = all.iter().map(|one| ping(one.channel.clone())).collect();
    while let Some(answered) = pings.next().await {
        if answered {
            return Ok(());
        }
    }
    Err("control channels are slow".to_owned())
}

/// A link as the check shows it.
pub(crate) fn link_detail(link: &crate::seam::LinkReport, measured: &Report) -> Value {
    let mut addresses = Map::new();
    for one in &link.connections {
        let ends = json!({"localAddr": one.local, "remoteAddr": one.remote});
        addresses.insert(one.kind.clone(), ends);
    }
    let mut detail = json!({"linkId": link.id, "destRouterId": link.peer});
    let latency = measured.get(&link_latency_name(&link.id));
    if let Some(Measured::Histogram(seen)) = latency.filter(|_| detail.is_object()) {
        detail["latency"] = json!(seen.mean);
    }
    detail["addresses"] = Value::Object(addresses);
    detail
}

#[cfg(test)]
pub(crate) mod tests {
    use weft_metrics::Distribution;

    use super::*;
    use crate::seam::{LinkConnection, LinkReport};

    /// Checks that are made at most once in a test.
    pub(crate) fn rare() -> HealthChecks {
        let week = Duration::from_secs(7 * 24 * 3600);
        HealthChecks {
            ctrl_ping_interval: week,
            ctrl_ping_timeout: week,
            ctrl_ping_initial_delay: week,
            link_interval: week,
            link_initial_delay: week,
            min_links: 0,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_says_when_it_was_made() {
        let (hour, begun) = (Duration::from_secs(3600), time_of_day());
        let options = HealthChecks { ctrl_ping_initial_delay: hour, ..rare() };
        let health = Health {
            controllers: HealthCheck::new("controllerPing", false, begun),
            links: HealthCheck::new("link.health", true, begun),
        };
        let controllers = Controllers::new(Duration::from_secs(5));
        let pinging = health.ping(&options, &controllers);
        tokio::time::timeout(hour + LEAST / 2, pinging).await.unwrap_err();
        let [(_, found), _] = health.seen();
        let after = found.at.duration_since(begun).unwrap();
        assert!(found.details.is_some() && after.abs_diff(hour) < hour / 2, "{found:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn links_are_counted_after_a_delay_and_then_at_the_interval() {
        let (delay, every) = (Duration::from_secs(120), Duration::from_secs(60));
        let options = HealthChecks {
            link_initial_delay: delay,
            link_interval: every,
            min_links: 2,
            ..rare()
        };
        let begun = time_of_day();
        let health = Health {
            controllers: HealthCheck::new("controllerPing", false, begun),
            links: HealthCheck::new("link.health", false, begun),
        };
        let looks = std::sync::atomic::AtomicU64::new(0);
        let links = || {
            let looks = looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // A second link is there at the second look, and the router is gone at the third.
            let links = vec![Value::Null; 1 + looks.min(1) as usize];
            (looks < 2).then_some(links)
        };
        let start = tokio::time::Instant::now();
        let mut looking = std::pin::pin!(health.look_at_links(&options, links));
        let first_look = tokio::time::timeout_at(start + delay + every / 2, &mut looking).await;
        assert!(first_look.is_err());
        let [_, (_, first)] = health.seen();
        let problem = first.problem.as_deref().unwrap_or_default();
        assert_eq!(problem, "link count 1 less than configured minimum of 2");
        assert!(first.at.duration_since(begun).unwrap().abs_diff(delay) < every);
        tokio::time::timeout_at(start + delay + 3 * every, &mut looking).await.unwrap();
        let [_, (_, second)] = health.seen();
        assert_eq!(second.problem, None, "{second:?}");
        assert_eq!(looks.load(std::sync::atomic::Ordering::Relaxed), 3);
        assert_eq!(start.elapsed(), delay + 2 * every);
    }

    #[test]
    fn a_link_is_told_with_its_latency_and_addresses() {
        let connection = LinkConnection {
            kind: "single".into(),
            local: "tcp:10.0.0.1:1".into(),
            remote: "tcp:10.0.0.2:2".into(),
        };
        let link = LinkReport {
            id: "l1".into(),
            peer: "r2".into(),
            protocol: "tls".into(),
            address: String::new(),
            iteration: 1,
            state: 1,
            connections: vec![connection],
        };
        let seen = Distribution { count: 1, mean: 2.5, ..Distribution::default() };
        let measured = Report::from([("link.l1.latency".to_owned(), Measured::histogram(seen))]);
        let expected = r#"{"linkId":"l1","destRouterId":"r2","latency":2.5,"addresses":{"single":{"localAddr":"tcp:10.0.0.1:1","remoteAddr":"tcp:10.0.0.2:2"}}}"#;
        assert_eq!(link_detail(&link, &measured).to_string(), expected);
        assert!(link_detail(&link, &Report::new()).get("latency").is_none());
    }
}
