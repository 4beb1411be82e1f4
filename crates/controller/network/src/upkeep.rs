//! The life of a circuit after it was made: faults, confirmations of idle circuits, its end
//! (docs/protocol/control-plane.md 14). Moves are in `network::moves`.
//!
//! A router's messages count only for circuits that go over it.

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use weft_kernel::events::{CircuitChange, CircuitEvent, Event, LinkChange};
use weft_model::Id;
use weft_model::entity::Service;
use weft_paths::queue::MoveReason;
use weft_wire::ctrl::{
    CircuitConfirmation, Fault, FaultSubject, REROUTE_ATTEMPT, RouteResult, Unroute,
};

use super::circuits::{Circuit, FaultInMaking};
use super::misreports::Misreport;
use super::routers::LiveRouter;
use super::routes::AnswerDelivery;
use crate::adoption::machine::{Input as OfAdoption, is_id};
use crate::clock;
use crate::network::Network;
use crate::presence::machine::Input as Presence;
use crate::standing::machine::Input;

/// Most circuits one message may name.
const MAX_NAMED: usize = 100_000;

impl Network {
    /// The event of a change of a circuit; none if nobody listens.
    pub(crate) fn circuit_event(
        &self,
        change: CircuitChange,
        circuit: &Circuit,
        took: Duration,
    ) -> Option<Event> {
        if !self.0.events.has_listeners() {
            return None;
        }
        Some(Event::Circuit(Arc::new(CircuitEvent {
            at: self.0.kernel.now(),
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
            tags: circuit.tags.to_map(),
        })))
    }

    /// Sends an event, if there is one.
    pub(super) fn tell_event(&self, event: Option<Event>) {
        event.into_iter().for_each(|event| self.0.events.tell(event));
    }

    /// Ends a circuit: at once, or after the data on its way has arrived. False if there is no such
    /// circuit.
    pub fn remove_circuit(&self, id: &str, now: bool) -> bool {
        let Some(circuit) = self.0.circuits.remove(id) else { return false };
        let beside = self.0.moves.forget(id, &circuit.path);
        if !self.is_of_this_run(id) {
            self.adoption(OfAdoption::Ended(id));
        }
        let unroute = Unroute { circuit_id: circuit.id.clone(), now, term: circuit.term };
        for router in circuit.path.nodes.iter().chain(&beside) {
            self.tell_over(router.as_str(), &unroute);
        }
        if circuit.is_counted {
            self.0.costs.removed(&circuit.terminator);
        }
        let lasted = self.0.kernel.now().since(circuit.created_at);
        self.tell_event(self.circuit_event(CircuitChange::Deleted, &circuit, lasted));
        true
    }

    /// Ends the circuits that begin or end at a router, those in the making included.
    pub fn end_circuits_at(&self, router: &Id) {
        // Circuits in the making are dropped first: a circuit that enters the table between the two
        // steps is among those that are up.
        let ends_there = |nodes: &[Id]| [nodes.first(), nodes.last()].contains(&Some(router));
        self.0.circuits.end_in_making_at(router).iter().for_each(|id| self.0.waiting.end(id, None));
        let mut circuits = self.0.circuits.at(router);
        circuits.retain(|circuit| ends_there(&circuit.path.nodes));
        self.remove_circuits(&circuits);
    }

    /// Ends the circuits of some clients that begin at a router, those in the making included.
    pub fn end_circuits_of(&self, clients: &HashSet<&str>, router: &Id) {
        for client in clients {
            // As above, circuits in the making are dropped first.
            let in_making = self.0.circuits.end_in_making_of(client, router);
            in_making.iter().for_each(|id| self.0.waiting.end(id, None));
            let mut circuits = self.0.circuits.of_client(client);
            circuits.retain(|circuit| circuit.path.first() == Some(router));
            self.remove_circuits(&circuits);
        }
    }

    /// Ends the circuits to a terminator.
    pub fn end_circuits_to(&self, terminator: &Id) {
        self.remove_circuits(&self.0.circuits.to_terminator(terminator));
    }

    fn remove_circuits(&self, circuits: &[Arc<Circuit>]) {
        for circuit in circuits {
            self.remove_circuit(&circuit.id, true);
        }
    }

    /// Circuits without a connected router.
    fn without_routers(&self) -> Vec<Arc<Circuit>> {
        let is_gone = |router: &Id| self.0.routers.get(router.as_str()).is_none();
        let mut routers = self.0.circuits.routers();
        routers.retain(is_gone);
        let circuits = routers.iter().flat_map(|router| {
            let mut circuits = self.0.circuits.at(router);
            circuits
                .retain(|it| it.path.first() == Some(router) && it.path.nodes.iter().all(is_gone));
            circuits
        });
        circuits.collect()
    }

    /// Tells a router to forget a circuit.
    pub(crate) fn unroute(&self, router: &Id, circuit: &str) {
        self.try_unroute(router, circuit);
    }

    /// Tells a router to forget a circuit, unless that is another controller's, or may be adopted in a moment. False if too
    /// many unroutes wait for the router.
    pub(crate) fn try_unroute(&self, router: &Id, circuit: &str) -> bool {
        if self.0.ownership.is_elsewhere(circuit) || self.may_be_named(router, circuit) {
            return true;
        }
        let unroute = Unroute { circuit_id: circuit.to_owned(), now: true, term: 0 };
        self.tell_over(router.as_str(), &unroute)
    }

    /// Whether a circuit that is not known may be one of those that a router is about to name, because they were claimed.
    fn may_be_named(&self, router: &Id, circuit: &str) -> bool {
        let live = self.0.routers.get(router.as_str());
        live.is_some_and(|live| live.claims.is_awaited(clock::now()))
            && !self.0.circuits.is_known(circuit)
            && !self.is_over(circuit)
    }

    /// Handles a router's answer to a route.
    pub fn on_route_result(&self, router: &Id, result: RouteResult) {
        let (circuit, attempt, done) =
            (result.circuit_id.clone(), result.attempt, result.result.is_ok());
        if self.0.waiting.deliver(router, result) == AnswerDelivery::Yes {
            return;
        }
        self.answered_late(router);
        let over = self.0.circuits.get(&circuit);
        let is_over_it = over.is_some_and(|circuit| circuit.path.has_node(router.as_str()));
        if !done || attempt == REROUTE_ATTEMPT || is_over_it {
            return;
        }
        // A router that the current attempt goes over replaces the old route by the new one, and is
        // not unrouted.
        self.0.waiting.unless_asked(&circuit, router, || {
            tracing::debug!(%router, circuit, "a router answered a route too late; the route is removed");
            self.unroute(router, &circuit);
        });
    }

    /// Handles a router's fault.
    pub fn on_fault(&self, router: &Arc<LiveRouter>, fault: &Fault) {
        match fault.subject() {
            FaultSubject::Ingress | FaultSubject::Egress => {
                // An end can be gone before the other routers have answered their routes.
                let (id, attempt) = (&fault.id, fault.attempt());
                match self.0.circuits.fault_in_making(id, &router.id, attempt) {
                    FaultInMaking::Ends { attempt } => {
                        return self.0.waiting.end(id, Some(attempt));
                    }
                    FaultInMaking::Ignored => return,
                    FaultInMaking::NotInMaking => {}
                }
                let Some(circuit) = self.0.circuits.get(&fault.id) else {
                    // No earlier answer of the router counts.
                    if is_id(&fault.id) {
                        self.presence(Presence::CircuitEnded(&router.connection, &fault.id));
                        router.claims.note_ended(&fault.id);
                    }
                    return;
                };
                let is_over_it = circuit.path.has_node(router.id.as_str());
                // Of a circuit that is known in part, the router may have the end that is not known.
                if is_over_it || (!circuit.is_whole && !self.has_named_all(&router.id)) {
                    self.0.moves.ended.note(&circuit, &router.id, clock::now());
                    self.remove_circuit(&fault.id, false);
                } else {
                    self.refuse(router, Misreport::CircuitFault, &fault.id);
                }
            }
            FaultSubject::Forward => self.forward_failed(router, fault, true),
            FaultSubject::UnknownOwnerForward => self.forward_failed(router, fault, false),
            FaultSubject::Link => self.on_link_fault(router, fault, LinkChange::Fault),
            FaultSubject::LinkDuplicate => self.on_link_fault(router, fault, LinkChange::Duplicate),
        }
    }

    fn forward_failed(&self, router: &Arc<LiveRouter>, fault: &Fault, is_owner: bool) {
        let neighbours = LazyCell::new(|| self.0.links.neighbours(&router.id));
        for id in fault.ids().take(MAX_NAMED).filter(|id| is_id(id)) {
            match self.0.circuits.get(id) {
                Some(circuit) if circuit.path.has_node(router.id.as_str()) => {
                    self.move_or_end(&circuit, MoveReason::Faulty);
                }
                // The router may be one of those that are not known, or may have lost the circuit.
                Some(circuit) if !circuit.is_whole => {
                    self.confirm_unknown(router, id);
                    self.move_or_end(&circuit, MoveReason::Faulty);
                }
                // While the circuit is being moved, payloads may go over the router, although the table does not say so.
                Some(_) => self.unroute_unless_moved(&router.id, id),
                // Its routers may be about to report it.
                None if self.0.circuits.is_known(id) || self.may_be_adopted(id) => {}
                None if router.claims.is_awaited(clock::now())
                    || self.0.ownership.is_elsewhere(id) => {}
                // It may be the circuit of another controller.
                None if !is_owner && !self.is_over(id) => {}
                None => {
                    if is_owner {
                        self.unroute(&router.id, id);
                    }
                    self.end_at_neighbours(router, &neighbours, id);
                }
            }
        }
    }

    /// Takes an ended circuit down at the neighbours of a router that reports it, as often as the limit allows: its
    /// payloads come from a neighbour that was away when the circuit ended.
    fn end_at_neighbours(&self, router: &LiveRouter, neighbours: &[Id], circuit: &str) {
        if router.may_tell_neighbours(neighbours.len()) {
            neighbours.iter().for_each(|neighbour| self.unroute(neighbour, circuit));
        }
    }

    /// Handles a router's question whether idle circuits are still wanted.
    pub fn on_confirmation(&self, router: &Arc<LiveRouter>, asked: &CircuitConfirmation) {
        let snapshot = self.0.kernel.snapshot();
        for id in asked.circuit_ids.iter().take(MAX_NAMED) {
            let circuit = self.0.circuits.get(id);
            let Some(circuit) = circuit.filter(|it| it.path.has_node(router.id.as_str())) else {
                self.confirm_unknown(router, id);
                continue;
            };
            let Some(service) = snapshot.get::<Service>(&circuit.service) else {
                if circuit.is_whole {
                    self.remove_circuit(id, true);
                }
                continue;
            };
            let idle = asked.idle_times.get(id).copied().unwrap_or(0) / 1_000_000;
            let is_end = circuit.path.has_end(&router.id);
            if service.max_idle_millis > 0 && idle >= service.max_idle_millis && is_end {
                self.remove_circuit(id, true);
            }
        }
    }

    /// Looks over all circuits at intervals: ends those without a connected router, and moves some
    /// to much cheaper paths. Removes terminators whose hosts have lost the right to host.
    pub(super) async fn look_over(self) {
        let mut ticks = tokio::time::interval(self.0.options.cycle.max(Duration::from_millis(10)));
        let mut lost: HashMap<String, Instant> = HashMap::new();
        loop {
            ticks.tick().await;
            let now = clock::now();
            let circuits = self.without_routers();
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
            self.improve().await;
            self.note(Input::Expire);
        }
    }
}
