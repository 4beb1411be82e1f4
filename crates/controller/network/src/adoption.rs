//! Adopts circuits of an earlier run of this controller, so that a restart breaks none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weft_kernel::events::CircuitChange;
use weft_model::entity::Terminator;
use weft_model::{Id, Snapshot};
use weft_paths::path::Path;
use weft_paths::queue::MoveReason;
use weft_wire::ctrl::route::Egress;
use weft_wire::ctrl::{CarriedCircuits, Route};

use crate::adopt::{AssembledCircuit, MAX_NODES, is_id, put_together, size};
use crate::circuits::{Circuit, EndAddresses};
use crate::clock;
use crate::misreports::Misreport;
use crate::network::Network;
use crate::presence::machine::{Input, Source};
use crate::routers::LiveRouter;

/// Most circuits over one router; beyond them no reported circuit is adopted.
pub(crate) const MAX_AT_ROUTER: usize = 200_000;

impl Network {
    /// Handles a part of a router's report of the circuits that it carries. A router reports once
    /// for each connection.
    pub fn on_carried(&self, router: &Arc<LiveRouter>, part: CarriedCircuits) {
        if !self.take_report(router, Source::Report, part) {
            tracing::debug!(router = %router.id, "a router reports its circuits a second time; the report is ignored");
        }
    }

    /// Handles a part of the circuits that a router carries, which it reported or was asked for. False if the part does
    /// not count.
    pub(crate) fn take_report(
        &self,
        router: &Arc<LiveRouter>,
        source: Source,
        part: CarriedCircuits,
    ) -> bool {
        if !self.begin_part(router, source) {
            return false;
        }
        let snapshot = self.0.kernel.snapshot();
        let mut named = Vec::with_capacity(part.routes.len());
        for route in part.routes {
            let id = route.circuit_id.clone();
            if !is_id(&id) {
                self.refuse(router, Misreport::MalformedCircuit, &id);
                continue;
            }
            if !self.take_up(&snapshot, router, route) {
                self.unroute_unless_moved(&router.id, &id);
            }
            named.push(id);
        }
        let (connection, is_last) = (&router.connection, part.last);
        self.presence(Input::Named { connection, source, circuits: &named, is_last });
        true
    }

    /// Takes a circuit down at a router that is not on its path. A circuit that is being moved, or whose last move has
    /// failed halfway, is spared: payloads may go over the router, although the table does not say so.
    fn unroute_unless_moved(&self, router: &Id, circuit: &str) {
        // The lock on the queue keeps the circuit from moving meanwhile.
        let queue = self.0.moves.queue.lock();
        let now = self.0.circuits.get(circuit);
        let is_on = now.is_some_and(|it| it.path.nodes.contains(router));
        let is_moved = queue.is_under_way(circuit) || self.0.moves.is_unsettled(circuit);
        if !is_on && !is_moved {
            self.unroute(router, circuit);
        }
    }

    /// Handles the loss of a circuit at a router on its path. A router between the ends can be
    /// replaced: a whole circuit moves to another path, and a circuit known in part goes on without
    /// the piece of that router. True if the circuit has ended.
    pub(crate) fn not_carried(&self, circuit: &Circuit, router: &Id) -> bool {
        let _one_by_one = self.0.pieces.taking_up.lock();
        let Some(circuit) = self.0.circuits.get(&circuit.id) else { return true };
        if !circuit.path.has_node(router.as_str()) {
            return false;
        }
        if circuit.is_whole && !circuit.path.has_end(router) {
            self.move_or_end(&circuit, MoveReason::Lost);
            return false;
        }
        let others = self.0.pieces.without(&circuit.id, router);
        if let Some(others) = others.filter(|_| !circuit.is_whole) {
            self.keep(&self.0.kernel.snapshot(), &circuit.id, put_together(&others));
            return false;
        }
        self.remove_circuit(&circuit.id, true)
    }

    /// Puts a circuit known in part into the table as whole, after a move from `from`. Returns the
    /// routers that have reported or confirmed the circuit, with the routes that they reported; none
    /// if the circuit has ended. Routers may have reported the circuit since the move began.
    pub(crate) fn complete(&self, from: &Circuit, path: Path) -> Option<BTreeMap<Id, Route>> {
        let _one_by_one = self.0.pieces.taking_up.lock();
        let now = self.0.circuits.get(&from.id)?;
        let mut reporters = self.0.pieces.of(&now.id).unwrap_or_default();
        for router in &now.path.nodes {
            reporters.entry(router.clone()).or_default();
        }
        let (ingress, egress) = (from.ingress.clone(), from.egress.clone());
        let circuit = Arc::new(Circuit { is_whole: true, ingress, egress, ..now.moved(path) });
        let bytes = size(&circuit.path, [&circuit.ingress, &circuit.egress], &circuit.tags);
        self.0.pieces.put_whole(&circuit.id, circuit.id.len() + bytes);
        let event = self.circuit_event(CircuitChange::PathUpdated, &circuit, Duration::ZERO);
        let is_put = self.0.circuits.put_with(circuit, || self.tell_event(event));
        is_put.then_some(reporters)
    }

    /// Adopts a reported route; false if its circuit has ended.
    fn take_up(&self, snapshot: &Snapshot, router: &Arc<LiveRouter>, route: Route) -> bool {
        let id = route.circuit_id.clone();
        let _one_by_one = self.0.pieces.taking_up.lock();
        match self.0.circuits.get(&id) {
            Some(circuit) if circuit.is_whole => {
                return circuit.path.has_node(router.id.as_str());
            }
            Some(_) => {}
            None if self.0.circuits.is_known(&id) => return true,
            None if self.is_over(&id) => return false,
            None if self.0.circuits.count_at(&router.id) >= MAX_AT_ROUTER => {
                tracing::warn!(circuit = %id, router = %router.id, "a circuit of an earlier run is not adopted: too many go over its router");
                return true;
            }
            None => {}
        }
        let Some(pieces) = self.0.pieces.add(&router.id, route) else {
            tracing::warn!(circuit = %id, "a circuit of an earlier run is not adopted: too many circuits are incomplete");
            return true;
        };
        let assembled = put_together(&pieces);
        if assembled.is_whole && !self.0.pieces.put_whole(&id, id.len() + assembled.bytes()) {
            tracing::warn!(circuit = %id, router = %router.id, "a circuit of an earlier run is not adopted: its router reports too many");
            if self.0.circuits.get(&id).is_none() {
                self.0.pieces.over(&id);
            }
            return true;
        }
        if assembled.is_whole {
            // The circuit moved away from these routers, and the controller stopped before it assembled them.
            let beside = pieces.keys().filter(|router| !assembled.path.nodes.contains(router));
            beside.for_each(|router| self.unroute(router, &id));
        }
        self.keep(snapshot, &id, assembled);
        true
    }

    /// Whether a circuit that is not known has ended for certain.
    pub(crate) fn is_over(&self, id: &str) -> bool {
        self.is_of_this_run(id) || self.0.circuits.has_ended(id)
    }

    /// Puts a circuit into the table, in place of the part that was known of it.
    fn keep(&self, snapshot: &Snapshot, id: &str, assembled: AssembledCircuit) {
        let mut assembled = assembled;
        // The tag shows operators on whose report the circuit exists.
        let by: Vec<&str> = assembled.path.nodes.iter().map(Id::as_str).collect();
        assembled.tags.reported_by = Some(Id::new(&by.join(",")));
        let target = assembled.tags.service.clone().unwrap_or_default();
        let target = target.as_str();
        let (instance, service) = target.split_once('@').unwrap_or(("", target));
        let service = Id::new(service);
        let terminator = assembled.dialed.as_ref();
        let terminator = terminator
            .and_then(|(router, egress)| find_terminator(snapshot, &service, router, egress));
        let before = self.0.circuits.get(id);
        let was_counted = before.as_ref().is_some_and(|before| before.is_counted);
        let terminator = terminator.unwrap_or_default();
        let circuit = Arc::new(Circuit {
            id: id.to_owned(),
            // The dialing identity: routers do not report the session.
            client: assembled.tags.client.as_ref().map(Id::to_string).unwrap_or_default(),
            is_of_session: false,
            dialer_proves: true,
            instance: instance.to_owned(),
            service,
            is_counted: was_counted || !terminator.is_empty(),
            terminator,
            path: assembled.path,
            ingress: assembled.ingress,
            egress: assembled.egress,
            addresses: EndAddresses::default(),
            created_at: self.0.kernel.now(),
            made_at: before.as_ref().map_or_else(clock::now, |before| before.made_at),
            routed_at: clock::now(),
            tags: assembled.tags,
            term: assembled.term,
            is_whole: assembled.is_whole,
            moving: Arc::default(),
            traffic: before.as_ref().map(|it| Arc::clone(&it.traffic)).unwrap_or_default(),
        });
        let event = match circuit.is_whole {
            true => self.circuit_event(CircuitChange::Adopted, &circuit, Duration::ZERO),
            false => None,
        };
        let with = || {
            if circuit.is_counted && !was_counted {
                self.0.costs.created(&circuit.terminator);
            }
            self.tell_event(event);
        };
        let is_kept = match before {
            Some(_) => self.0.circuits.put_with(Arc::clone(&circuit), with),
            None => self.0.circuits.adopt(Arc::clone(&circuit), with),
        };
        match is_kept {
            true => self.0.gaps.push(id, false),
            false => self.0.pieces.over(id),
        }
    }

    /// Keeps an unknown idle circuit as known in part, because a router that does not report its circuits asks for its
    /// confirmation. The number of circuits that are kept for one router in this way is limited. False if the circuit
    /// has ended.
    pub(crate) fn adopt_confirmed(&self, router: &Arc<LiveRouter>, id: &str) -> bool {
        if !is_id(id) || self.is_over(id) || self.has_told(&router.id) {
            return false;
        }
        let _one_by_one = self.0.pieces.taking_up.lock();
        if self.0.circuits.is_known(id) || !self.0.pieces.begin(&router.id, id) {
            return true;
        }
        let path = Path::of_one(router.id.clone());
        let snapshot = self.0.kernel.snapshot();
        self.keep(&snapshot, id, AssembledCircuit { path, ..AssembledCircuit::default() });
        true
    }

    /// Adds a router that asks for confirmation to a circuit that is known in part. False if the
    /// circuit is whole or has too many routers, or if the router has reported all circuits that it
    /// carries.
    pub(crate) fn confirm_member(&self, router: &Arc<LiveRouter>, id: &str) -> bool {
        if self.has_told(&router.id) {
            return false;
        }
        let _one_by_one = self.0.pieces.taking_up.lock();
        let Some(circuit) = self.0.circuits.get(id) else { return false };
        if circuit.path.has_node(router.id.as_str()) {
            return true;
        }
        if circuit.is_whole || circuit.path.nodes.len() >= MAX_NODES {
            return false;
        }
        let path = with_member(&circuit, &router.id);
        self.0.circuits.put(Arc::new(circuit.moved(path)))
    }

    /// Number of circuits that are known in part.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_part(&self) -> usize {
        let state = self.0.pieces.state.lock();
        state.first.len().max(state.circuits.len())
    }
}

/// The path of a circuit known in part, with one more router. Routers at known ends stay first and
/// last.
fn with_member(circuit: &Circuit, router: &Id) -> Path {
    let mut path = circuit.path.clone();
    let behind = usize::from(circuit.has_ends());
    path.nodes.insert(path.nodes.len().saturating_sub(behind), router.clone());
    path
}

/// Whether the path of a circuit used a router before the router connected. Only such circuits have to be in the
/// router's report. A move leads a circuit to routers between its ends anew; the routers at its ends have carried the
/// circuit since it was made, also if it has moved since one of them restarted and connected.
pub(crate) fn is_of_before(circuit: &Circuit, router: &LiveRouter) -> bool {
    let is_at_end = circuit.has_ends() && circuit.path.has_end(&router.id);
    let since = if is_at_end { circuit.made_at } else { circuit.routed_at };
    circuit.path.nodes.contains(&router.id) && since < router.since
}

/// The terminator that an end was dialed for, if it still exists.
pub(crate) fn find_terminator(
    snapshot: &Snapshot,
    service: &Id,
    router: &Id,
    egress: &Egress,
) -> Option<Id> {
    let mut found = snapshot.referring::<Terminator>(Terminator::SERVICE, service);
    let same = |one: &&Arc<Terminator>| {
        one.router_id == *router
            && *one.binding == *egress.binding
            && *one.address == *egress.destination
    };
    found.find(same).map(|terminator| terminator.base.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuits::sample;

    #[test]
    fn a_router_that_confirms_a_circuit_takes_the_place_of_no_end() {
        let nodes_with = |circuit: &Circuit| {
            let nodes = with_member(circuit, &Id::new("x")).nodes;
            nodes.iter().map(|id| id.as_str().to_owned()).collect::<Vec<_>>()
        };
        let circuit = Circuit { is_whole: false, ..sample("c", &["a", "b"], &[]) };
        assert_eq!(nodes_with(&circuit), ["a", "x", "b"]);
        let without_end = Circuit { egress: String::new(), ..circuit };
        assert_eq!(nodes_with(&without_end), ["a", "b", "x"]);
    }
}
