//! Periodic reports to controllers: circuits whose payloads have no next place or wait for a link that is away, and
//! idle circuits.
//!
//! A controller answers for circuits that it does not know by unrouting them. These answers clean
//! up after lost messages (docs/protocol/data-plane.md 8.3 and 8.4).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Forwarder;
use super::circuit::coarse_now;
use super::destination::Destination;
use super::flow::Circuit;
use crate::seam::{ControllerId, Dropped};

/// Most circuits without a next place that are remembered for one report, and as many unknown circuits.
const MAX_FAULTS: usize = 10_000;

/// Most circuits in one message to a controller.
const FAULTS_AT_ONCE: usize = 1_000;

/// How often the log names the counts of dropped messages.
const DROPS_LOGGED: Duration = Duration::from_secs(60);

/// The intervals of the reports to controllers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportIntervals {
    /// The interval for circuits without a next place, or whose link is away; zero is never.
    pub(crate) faults: Duration,
    /// The interval for idle circuits; zero is never.
    pub(crate) idle: Duration,
    /// The time after which a circuit counts as idle.
    pub(crate) idle_after: Duration,
}

impl Forwarder {
    /// Notes that a payload of this circuit has no next place.
    pub(crate) fn no_way_on(&self, circuit: &Arc<Circuit>) {
        self.drops.no_way();
        let is_noted = {
            let faults = self.faults.lock();
            faults.len() >= MAX_FAULTS || faults.contains(&circuit.id)
        };
        if !is_noted && self.is_fault(&circuit.id) {
            self.faults.lock().insert(Arc::clone(&circuit.id));
        }
    }

    /// Notes that a message for a circuit unknown here came over a link.
    pub(super) fn unknown_circuit(&self, id: &str) {
        self.drops.no_way();
        // A neighbour that sends more and more of them takes the lock of all circuits no more often than that.
        let is_noted =
            |unknown: &HashSet<Arc<str>>| unknown.len() >= MAX_FAULTS || unknown.contains(id);
        if !is_noted(&self.unknown.lock()) && self.is_fault(id) {
            self.unknown.lock().insert(id.into());
        }
    }

    /// Reports until cancelled.
    pub(crate) async fn report(
        self: Arc<Self>,
        intervals: ReportIntervals,
        stop: CancellationToken,
    ) {
        let mut faults = ticker(intervals.faults);
        let mut idle = ticker(intervals.idle);
        let mut drops = ticker(DROPS_LOGGED);
        let mut logged = Dropped::default();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = drops.tick() => self.log_drops(&mut logged),
                _ = faults.tick(), if !intervals.faults.is_zero() => self.report_faults(),
                _ = idle.tick(), if !intervals.idle.is_zero() => {
                    self.report_idle(intervals.idle_after);
                }
            }
        }
    }

    /// Logs the messages dropped since the last time, if there are any.
    fn log_drops(&self, logged: &mut Dropped) {
        let seen = self.drops.seen();
        if seen != *logged {
            let since = |of: fn(&Dropped) -> u64| of(&seen) - of(logged);
            tracing::info!(
                full = since(|seen| seen.full),
                repeated = since(|seen| seen.repeated),
                malformed = since(|seen| seen.malformed),
                no_way = since(|seen| seen.no_way),
                foreign = since(|seen| seen.foreign),
                stuck = since(|seen| seen.stuck),
                "messages of circuits were dropped in the last minute"
            );
            *logged = seen;
        }
    }

    /// Adds the circuits that have something to send over a link that is away.
    fn note_waiting(&self, faults: &mut HashSet<Arc<str>>) {
        let away = self.circuits_by_link.lock().over_links(|link| self.destination(link).is_none());
        let waiting = away.into_iter().filter(|(link, circuit)| self.has_to_send(circuit, link));
        let room = MAX_FAULTS.saturating_sub(faults.len());
        faults.extend(waiting.take(room).map(|(_, circuit)| Arc::clone(&circuit.id)));
    }

    /// True if messages of a circuit wait for a link, or an end here has data to send over it.
    fn has_to_send(&self, circuit: &Circuit, link: &str) -> bool {
        let to_link = |source: &&Arc<str>| circuit.next(source).is_some_and(|next| *next == *link);
        let sends = |source: &Arc<str>| match self.destination(source) {
            Some(Destination::Local(end)) => end.has_to_send(),
            _ => false,
        };
        circuit.hop(link).is_some_and(|hop| hop.has_messages())
            || circuit.addresses().iter().filter(to_link).any(sends)
    }

    pub(super) fn report_faults(&self) {
        let mut faults = std::mem::take(&mut *self.faults.lock());
        self.note_waiting(&mut faults);
        let unknown = std::mem::take(&mut *self.unknown.lock());
        self.report_strays(faults.into_iter().chain(unknown).collect());
    }

    /// Tells the owner of circuits, or all controllers, that they have messages without a next place.
    pub(super) fn tell_faults(&self, owner: Option<&ControllerId>, circuits: &[String]) {
        tracing::debug!(
            circuits = circuits.len(),
            controller = owner.map(ToString::to_string),
            "circuits without a next place, or whose messages wait for a link that is away, are reported"
        );
        for some in circuits.chunks(FAULTS_AT_ONCE) {
            self.control.forward_faults(owner, some.to_vec());
        }
    }

    /// Reports circuits without messages for this time, but for those that controllers have ended, and frees the
    /// memory that their queues have kept. Entries that circuits have left are forgotten.
    pub(super) fn report_idle(&self, after: Duration) {
        let now = coarse_now();
        let mut idle_circuits = Vec::new();
        for shard in &self.circuits {
            let idle_for = |circuit: &Arc<Circuit>| {
                let idle = circuit.idle();
                let is_found = idle > after || circuit.may_forget(now);
                is_found.then(|| (idle, Arc::clone(circuit)))
            };
            let found: Vec<_> = shard.read().values().filter_map(idle_for).collect();
            for (idle, circuit) in found {
                let links = circuit.links();
                circuit.forget(now);
                self.goes_over(&circuit, &links, &[]);
                if idle <= after {
                    continue;
                }
                self.trim_circuit(&circuit);
                idle_circuits.push((Arc::clone(&circuit.id), idle));
            }
        }
        self.report_idle_circuits(idle_circuits);
    }
}

/// An interval whose first tick comes after the first period.
fn ticker(period: Duration) -> tokio::time::Interval {
    let period = period.max(Duration::from_millis(1));
    let mut ticker = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticker
}
