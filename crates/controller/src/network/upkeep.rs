//! The life of a circuit after it was made: faults, moves to another path, idle confirmations, its
//! end (protocol: control-plane 14).
//!
//! A router is heard only about circuits that go over it and links that end at it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use weft_channel::Lane;
use weft_model::Id;
use weft_model::entity::Service;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{
    CircuitConfirmation, Fault, FaultSubject, REROUTE_ATTEMPT, RouteResult, RouterLinks, Unroute,
};

use super::Network;
use super::circuits::Circuit;
use super::links::{Link, Report};
use super::path::Path;
use super::routers::LiveRouter;
use super::routes::{Delivered, RouteSpec};
use crate::events::{CircuitChange, CircuitEvent, Event, LinkChange, LinkEvent};

/// Limit of moving a circuit.
const REROUTE_TIMEOUT: Duration = Duration::from_secs(10);
/// Tries at moving a circuit before it is removed.
const REROUTE_TRIES: u32 = 2;
/// Most circuits one message may name.
const MAX_NAMED: usize = 100_000;

/// Why a circuit could not be moved.
#[derive(Debug, thiserror::Error)]
enum NotMoved {
    #[error("not all of its path is known")]
    NotWhole,
    #[error("there is no other path")]
    NoPath,
    #[error("router {0}: {1}")]
    Router(Id, String),
}

impl Network {
    /// Tells of a circuit.
    pub(crate) fn tell_circuit(&self, change: CircuitChange, circuit: &Circuit, took: Duration) {
        self.0.events.tell(Event::Circuit(Arc::new(CircuitEvent {
            at: self.0.controller.now(),
            change,
            circuit: circuit.id.clone(),
            client: circuit.client.clone(),
            service: circuit.service.clone(),
            terminator: circuit.terminator.clone(),
            instance: circuit.instance.clone(),
            nodes: circuit.path.nodes.clone(),
            links: circuit.path.links.clone(),
            path_cost: circuit.path.cost,
            duration: took,
            failure: None,
            tags: circuit.tags.clone(),
        })));
    }

    /// Ends a circuit: at once, or when what is on its way has arrived. False if there is none.
    pub fn remove_circuit(&self, id: &str, now: bool) -> bool {
        let Some(circuit) = self.0.circuits.remove(id) else { return false };
        if !circuit.is_whole {
            self.0.pieces.done(id);
        }
        let unroute = Unroute { circuit_id: circuit.id.clone(), now };
        for router in &circuit.path.nodes {
            self.tell(router.as_str(), Lane::High, unroute.to_message());
        }
        self.0.costs.removed(&circuit.terminator);
        let lasted = self.0.controller.now().since(circuit.created_at);
        self.tell_circuit(CircuitChange::Deleted, &circuit, lasted);
        true
    }

    /// Ends the circuits that a test picks.
    pub(crate) fn remove_circuits_where(&self, pick: impl Fn(&Circuit) -> bool) {
        for circuit in self.0.circuits.matching(pick) {
            self.remove_circuit(&circuit.id, true);
        }
    }

    /// Ends the circuits that a test of client and routers picks, those in the making too.
    pub(crate) fn end_circuits(&self, pick: impl Fn(&str, &[Id]) -> bool) {
        // In this order: what is put in between is found among those that are up.
        self.0.circuits.end_in_making(&pick);
        self.remove_circuits_where(|circuit| pick(&circuit.client, &circuit.path.nodes));
    }

    fn unroute(&self, router: &Id, circuit: &str) {
        let unroute = Unroute { circuit_id: circuit.to_owned(), now: true };
        self.tell(router.as_str(), Lane::High, unroute.to_message());
    }

    /// A router answered a route.
    pub(crate) fn on_route_result(&self, router: &Id, result: RouteResult) {
        let (circuit, attempt, done) =
            (result.circuit_id.clone(), result.attempt, result.result.is_ok());
        if self.0.waiting.deliver(router, result) == Delivered::Yes {
            return;
        }
        let over = self.0.circuits.get(&circuit);
        let is_over_it = over.is_some_and(|circuit| circuit.path.has_node(router.as_str()));
        if !done || attempt == REROUTE_ATTEMPT || is_over_it {
            return;
        }
        // One that the attempt under way goes over puts the new route in the place of the old one.
        self.0.waiting.unless_asked(&circuit, router, || {
            tracing::debug!(%router, circuit, "late answer to a route, taken down");
            self.unroute(router, &circuit);
        });
    }

    /// Something broke.
    pub(crate) fn on_fault(&self, router: &Arc<LiveRouter>, fault: &Fault) {
        match fault.subject() {
            FaultSubject::Ingress | FaultSubject::Egress => {
                // An end can be gone before the other routers have answered their routes.
                if self.0.circuits.fault_in_making(&fault.id, &router.id) {
                    return;
                }
                let circuit = self.0.circuits.get(&fault.id);
                if circuit.is_some_and(|circuit| circuit.path.has_node(router.id.as_str())) {
                    self.remove_circuit(&fault.id, false);
                }
            }
            FaultSubject::Forward => self.forward_failed(router, fault, true),
            FaultSubject::UnknownOwnerForward => self.forward_failed(router, fault, false),
            FaultSubject::Link => self.on_link_fault(router, fault, LinkChange::Fault),
            FaultSubject::LinkDuplicate => self.on_link_fault(router, fault, LinkChange::Duplicate),
        }
    }

    fn forward_failed(&self, router: &Arc<LiveRouter>, fault: &Fault, is_owner: bool) {
        for id in fault.ids().take(MAX_NAMED) {
            match self.0.circuits.get(id) {
                Some(circuit) if circuit.path.has_node(router.id.as_str()) => {
                    self.move_or_end(circuit);
                }
                Some(_) => self.unroute(&router.id, id),
                None if is_owner && !self.0.circuits.is_known(id) => self.unroute(&router.id, id),
                None => {}
            }
        }
    }

    fn on_link_fault(&self, router: &Arc<LiveRouter>, fault: &Fault, change: LinkChange) {
        let known = self.0.links.get(&fault.id);
        if !known.is_some_and(|link| link.has_end(router.id.as_str())) {
            return;
        }
        let Some(link) = self.0.links.fault(&fault.id, fault.iteration) else { return };
        let forward = Fault::link(link.id.clone(), link.iteration).to_message();
        self.tell(link.other_end(router.id.as_str()).as_str(), Lane::Default, forward);
        self.link_lost(&link, change);
    }

    /// A link is gone from the table: circuits over it are moved.
    fn link_lost(&self, link: &Link, change: LinkChange) {
        self.tell_link(link, change);
        for circuit in self.0.circuits.over_link(&link.id) {
            self.move_or_end(circuit);
        }
    }

    fn tell_link(&self, link: &Link, change: LinkChange) {
        self.0.events.tell(Event::Link(LinkEvent {
            at: self.0.controller.now(),
            link: link.id.clone(),
            source: link.source.clone(),
            destination: link.destination.clone(),
            change,
        }));
    }

    /// A router reports links that it dialed (protocol: control-plane 9.5).
    pub(crate) fn on_links(&self, router: &Arc<LiveRouter>, report: &RouterLinks) {
        if !self.0.routers.is_current(router) {
            return;
        }
        if report.full_refresh {
            for gone in self.0.links.missing(&router.id, &report.links) {
                if let Some(link) = self.0.links.fault(&gone, 0) {
                    self.link_lost(&link, LinkChange::Fault);
                }
            }
        }
        let now = self.0.controller.now();
        for reported in &report.links {
            let initial = self.0.options.initial_link_latency;
            let change = match self.0.links.report(&router.id, reported, initial, now) {
                Report::New => LinkChange::New,
                Report::Known => LinkChange::Known,
                Report::Refused => {
                    tracing::warn!(router = %router.id, link = %reported.id, "link refused: another router's, or too many");
                    continue;
                }
            };
            let Some(link) = self.0.links.get(&reported.id) else { continue };
            self.tell_link(&link, change);
            let is_there = self.0.routers.get(link.destination.as_str()).is_some();
            if change == LinkChange::New && !is_there {
                self.tell_link(&link, LinkChange::DisconnectedDestination);
            }
        }
    }

    /// The connections of a link changed.
    pub(crate) fn on_link_state(
        &self,
        router: &Arc<LiveRouter>,
        update: weft_wire::ctrl::LinkStateUpdate,
    ) {
        let Some(link) = self.0.links.get(&update.link_id) else { return };
        let state = update.conn_state.unwrap_or_default();
        if link.has_end(router.id.as_str())
            && self.0.links.connections_changed(&update.link_id, update.link_iteration, state)
        {
            self.tell_link(&link, LinkChange::Connections);
        }
    }

    /// An operator changes a link; circuits over it look for a better way. False if there is none.
    pub fn change_link(&self, id: &str, static_cost: Option<i32>, down: Option<bool>) -> bool {
        if self.0.links.change(id, static_cost, down).is_none() {
            return false;
        }
        self.0.circuits.over_link(id).into_iter().for_each(|circuit| self.move_or_end(circuit));
        true
    }

    /// An operator removes a link. False if there is none.
    pub fn remove_link(&self, id: &str) -> bool {
        let Some(link) = self.0.links.fault(id, 0) else { return false };
        let fault = Fault::link(link.id.clone(), link.iteration).to_message();
        for end in [&link.source, &link.destination] {
            self.tell(end.as_str(), Lane::Default, fault.clone());
        }
        self.link_lost(&link, LinkChange::Fault);
        true
    }

    /// A router is gone: its own links go, circuits over any of its links are moved. Circuits that
    /// stay on this one router are kept, they live on without us (protocol: control-plane 14).
    pub(super) fn lost(&self, router: &Arc<LiveRouter>) {
        let mut circuits: HashMap<String, Arc<Circuit>> = HashMap::new();
        let mut over = |link: &str| {
            for circuit in self.0.circuits.over_link(link) {
                circuits.insert(circuit.id.clone(), circuit);
            }
        };
        let mut at_it = Vec::new();
        self.0.links.each(|link| {
            if link.has_end(router.id.as_str()) {
                at_it.push(link.id.clone());
            }
        });
        at_it.iter().for_each(|link| over(link));
        self.0.links.take_of(&router.id).iter().for_each(|link| {
            self.tell_link(link, LinkChange::Fault);
        });
        circuits.into_values().for_each(|circuit| self.move_or_end(circuit));
    }

    /// Moves a circuit to another path on a task of its own, or removes it.
    pub(crate) fn move_or_end(&self, circuit: Arc<Circuit>) {
        if circuit.moving.swap(true, Ordering::AcqRel) {
            return;
        }
        let network = self.clone();
        self.spawn(async move {
            let mut last = None;
            for _ in 0..REROUTE_TRIES {
                match network.reroute(&circuit).await {
                    Ok(()) => return,
                    Err(problem) => last = Some(problem),
                }
            }
            if let Some(problem) = last {
                tracing::info!(circuit = %circuit.id, %problem, "circuit removed: it cannot be moved");
            }
            network.remove_circuit(&circuit.id, true);
        });
    }

    async fn reroute(&self, circuit: &Arc<Circuit>) -> Result<(), NotMoved> {
        let (Some(first), Some(last)) = (circuit.path.first(), circuit.path.last()) else {
            return Err(NotMoved::NotWhole);
        };
        if !circuit.is_whole {
            return Err(NotMoved::NotWhole);
        }
        let graph = self.graph(&self.0.controller.snapshot());
        let path = graph.path(first, last).ok_or(NotMoved::NoPath)?;
        self.set_path(circuit, &path).await?;
        let moved = circuit.moved(path);
        moved.moving.store(false, Ordering::Release);
        let moved = Arc::new(moved);
        if !self.0.circuits.put(Arc::clone(&moved)) {
            // Removed while it was moved: the new routers have to hear of it too.
            moved.path.nodes.iter().for_each(|router| self.unroute(router, &moved.id));
            return Ok(());
        }
        for router in circuit.path.nodes.iter().filter(|node| !moved.path.nodes.contains(node)) {
            self.unroute(router, &moved.id);
        }
        self.tell_circuit(CircuitChange::PathUpdated, &moved, Duration::ZERO);
        Ok(())
    }

    /// Tells the routers of a path one after the other, each after the one before has answered.
    async fn set_path(&self, circuit: &Circuit, path: &Path) -> Result<(), NotMoved> {
        let deadline = Instant::now() + REROUTE_TIMEOUT;
        let spec = RouteSpec {
            circuit: &circuit.id,
            attempt: REROUTE_ATTEMPT,
            path,
            ingress: &circuit.ingress,
            egress: &circuit.egress,
            dial: None,
            timeout: REROUTE_TIMEOUT,
            tags: &circuit.tags,
        };
        for (router, route) in spec.routes() {
            let failed = |text: String| NotMoved::Router(router.clone(), text);
            let live = self.0.routers.get(router.as_str());
            let live = live.ok_or_else(|| failed("not connected".to_owned()))?;
            let left = deadline.saturating_duration_since(Instant::now());
            let reply = live.channel.request_on(Lane::High, route.to_message(), left).await;
            let reply = reply.map_err(|problem| failed(problem.to_string()))?;
            let answer = RouteResult::from_message(&reply);
            let answer = answer.map_err(|problem| failed(problem.to_string()))?;
            answer.result.map_err(|error| failed(error.text))?;
        }
        Ok(())
    }

    /// A router asks whether circuits that carry nothing are still wanted.
    pub(crate) fn on_confirmation(&self, router: &Arc<LiveRouter>, asked: &CircuitConfirmation) {
        let snapshot = self.0.controller.snapshot();
        for id in asked.circuit_ids.iter().take(MAX_NAMED) {
            let Some(circuit) = self.0.circuits.get(id) else {
                if !self.0.circuits.is_known(id) && !self.adopt_confirmed(router, id) {
                    self.unroute(&router.id, id);
                }
                continue;
            };
            if !circuit.path.has_node(router.id.as_str()) {
                if !self.confirm_member(router, &circuit) {
                    self.unroute(&router.id, id);
                }
                continue;
            }
            let Some(service) = snapshot.get::<Service>(&circuit.service) else {
                if circuit.is_whole {
                    self.remove_circuit(id, true);
                }
                continue;
            };
            let idle = asked.idle_times.get(id).copied().unwrap_or(0) / 1_000_000;
            let ends = [circuit.path.first(), circuit.path.last()];
            let is_end = ends.contains(&Some(&router.id));
            if service.max_idle_millis > 0 && idle >= service.max_idle_millis && is_end {
                self.remove_circuit(id, true);
            }
        }
    }

    /// Now and then: forgets circuits that no connected router can end any more.
    pub(super) async fn look_over(self) {
        let mut ticks = tokio::time::interval(self.0.options.cycle.max(Duration::from_millis(10)));
        let mut lost: HashMap<String, Instant> = HashMap::new();
        loop {
            ticks.tick().await;
            let is_lost = |circuit: &Circuit| {
                let mut nodes = circuit.path.nodes.iter();
                nodes.all(|node| self.0.routers.get(node.as_str()).is_none())
            };
            let now = Instant::now();
            let circuits = self.0.circuits.matching(is_lost);
            let mut still = HashMap::new();
            for circuit in circuits {
                let since = lost.get(&circuit.id).copied().unwrap_or(now);
                if now.duration_since(since) >= self.0.options.lost_circuit_life {
                    self.remove_circuit(&circuit.id, true);
                } else {
                    still.insert(circuit.id.clone(), since);
                }
            }
            lost = still;
        }
    }
}
