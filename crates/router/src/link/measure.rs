//! The measurements of open links: round trips, and how long messages wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_circuit::now;
use weft_wire::{Message, content_type};

use super::Links;
use super::live::LiveLink;
use crate::seam::{LinkConnection, LinkLatency};

/// The number of round trips measured at once on a new link.
const FIRST_PROBES: usize = 3;
/// Longest wait for the answer to one of the first round trips.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

impl Links {
    /// Measures a new link, then reports its connections whenever they change; `told` are the
    /// connections of the first report.
    pub(super) async fn follow(
        self: Arc<Self>,
        live: Arc<LiveLink>,
        mut told: Vec<LinkConnection>,
    ) {
        for _ in 0..FIRST_PROBES {
            self.measure(&live).await;
        }
        self.control.link_latencies(live.take_latency().into_iter().collect());
        let Some(channel) = live.channel().filter(|_| live.is_dialed()) else { return };
        let mut changes = channel.underlay_changes();
        while !live.is_closed() {
            if live.connections() != told {
                live.connections_changed();
                let report = live.report();
                told.clone_from(&report.connections);
                self.control.link_connections(report);
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Measures one round trip.
    async fn measure(&self, live: &LiveLink) {
        let Some(channel) = live.channel() else { return };
        let (probe, sent) = (Message::new(content_type::LATENCY, ""), now());
        if channel.request(probe, PROBE_TIMEOUT).await.is_ok() {
            live.measured(now().saturating_duration_since(sent));
        }
    }

    /// Measures all links again and again.
    pub(super) async fn probe(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let all = self.all();
            let measured = all.iter().map(|live| self.measure(live));
            futures::future::join_all(measured).await;
        }
    }

    /// The latencies measured since the last call.
    pub(crate) fn latencies(&self) -> Vec<LinkLatency> {
        let all = self.all();
        all.iter().filter_map(|live| live.take_latency()).collect()
    }

    /// Records how long messages have waited for links.
    pub(crate) fn look_at_queues(&self, now: Instant) {
        let all = self.all();
        all.iter().for_each(|live| live.look_at_queue(now));
    }
}
