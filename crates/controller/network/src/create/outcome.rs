//! The outcome of making a circuit: it enters the table, or its failure is reported.

use std::sync::Arc;

use weft_kernel::events::{CircuitChange, CircuitEvent, Event};
use weft_model::entity::{Service, Terminator, TerminatorStrategy};
use weft_paths::queue::MoveReason;
use weft_wire::PeerData;
use weft_wire::ctrl::{RouteErrorCode, peer_data_key};

use super::chosen::DialTarget;
use super::{Attempt, CircuitSpec, MadeCircuit, Making};
use crate::circuits::{Circuit, EndAddresses};
use crate::clock;
use crate::failure::{CircuitFailure, FailureCause};

impl Making<'_> {
    /// Puts the circuit into the table.
    pub(super) fn finish(self, attempt: Attempt) -> Result<MadeCircuit, CircuitFailure> {
        let Attempt { chosen, ingress, egress, tags, peer_data: told } = attempt;
        let terminator = &chosen.terminator;
        self.unroute_all_but(&chosen.path.nodes);
        let service = self.network.0.kernel.snapshot();
        let service = service.get::<Service>(&self.spec.service).cloned();
        let (addresses, peer_data) = peer_data(self.spec, terminator, told, service.as_deref());
        let circuit = Arc::new(Circuit {
            id: self.id.clone(),
            client: self.spec.client.clone(),
            is_of_session: self.spec.is_of_session,
            dialer_proves: self.spec.dialer_proves,
            service: self.spec.service.clone(),
            terminator: terminator.base.id.clone(),
            instance: self.spec.instance.clone(),
            path: chosen.path.clone(),
            ingress: ingress.clone(),
            egress,
            addresses,
            created_at: self.network.0.kernel.now(),
            made_at: clock::now(),
            routed_at: clock::now(),
            tags,
            term: 0,
            is_whole: true,
            is_counted: chosen.is_counted,
            moving: Arc::default(),
            traffic: Arc::default(),
        });
        let took = clock::since(self.started);
        let event = self.network.circuit_event(CircuitChange::Created, &circuit, took);
        let is_put = self.network.0.circuits.put_with(Arc::clone(&circuit), || {
            if chosen.is_counted {
                self.network.0.costs.created(&circuit.terminator);
            }
            self.network.0.used.dialed(&circuit.service, &circuit.terminator, true);
            self.network.tell_event(event);
        });
        if !is_put {
            self.unroute_all_but(&[]);
            return Err(self.ended(&chosen));
        }
        // The session may have ended before its circuit was in the table. The end of the session
        // did not find the circuit then.
        if circuit.is_of_session && !self.network.0.logins.has_session(&circuit.client) {
            self.network.remove_circuit(&circuit.id, true);
            return Err(self.ended(&chosen));
        }
        // A link may have broken before the circuit was in the table. The report of the break did
        // not find the circuit then.
        if !self.network.is_usable(&circuit.path) {
            self.network.move_or_end(&circuit, MoveReason::Broken);
        }
        let tags = circuit.tags.to_map();
        Ok(MadeCircuit { id: self.id.clone(), address: ingress, peer_data, tags })
    }

    /// The failure of a circuit that a router reported as ended, or that was dropped.
    pub(super) fn ended(&self, chosen: &DialTarget) -> CircuitFailure {
        let cause = FailureCause::Router(RouteErrorCode::Generic);
        let failure = self.failure(cause, "the circuit ended while it was made");
        self.report_failure(Some(chosen), &failure);
        failure
    }

    /// Notes a failure, and tells whoever listens to events. `chosen` is none if no terminator was chosen.
    pub(super) fn report_failure(&self, chosen: Option<&DialTarget>, failure: &CircuitFailure) {
        tracing::debug!(circuit = %self.id, service = %self.spec.service, %failure, "circuit not made");
        if let Some(chosen) = chosen {
            let terminator = &chosen.terminator.base.id;
            self.network.0.used.dialed(&self.spec.service, terminator, false);
        }
        if !self.network.0.events.has_listeners() {
            return;
        }
        let path = chosen.map(|chosen| chosen.path.clone()).unwrap_or_default();
        self.network.0.events.tell(Event::Circuit(Arc::new(CircuitEvent {
            at: self.network.0.kernel.now(),
            change: CircuitChange::Failed,
            circuit: self.id.clone(),
            client: self.spec.client.clone(),
            service: self.spec.service.clone(),
            terminator: chosen.map(|one| one.terminator.base.id.clone()).unwrap_or_default(),
            instance: self.spec.instance.clone(),
            nodes: path.nodes,
            links: path.links,
            path_cost: path.cost,
            duration: clock::since(self.started),
            failure: Some(failure.cause.as_str()),
            tags: self.spec.tags.to_map(),
        })));
    }
}

/// The data for the initiating side: static data of the terminator, overlaid by the host's data,
/// without the addresses, which the circuit keeps (docs/protocol/control-plane.md 12.2).
fn peer_data(
    spec: &CircuitSpec,
    terminator: &Terminator,
    told: PeerData,
    service: Option<&Service>,
) -> (EndAddresses, PeerData) {
    use peer_data_key as key;
    let text = |data: &PeerData, key: u32| {
        data.get(&key).map(|value| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
    };
    let addresses = EndAddresses {
        initiator_local: text(&spec.peer_data, key::INITIATOR_LOCAL_ADDRESS),
        initiator_remote: text(&spec.peer_data, key::INITIATOR_REMOTE_ADDRESS),
        terminator_local: text(&told, key::TERMINATOR_LOCAL_ADDRESS),
        terminator_remote: text(&told, key::TERMINATOR_REMOTE_ADDRESS),
    };
    let mut data: PeerData = terminator.peer_data.clone();
    data.extend(told);
    let of_ends = key::TERMINATOR_LOCAL_ADDRESS..=key::INITIATOR_REMOTE_ADDRESS;
    data.retain(|key, _| !of_ends.contains(key));
    if service.is_some_and(|it| it.terminator_strategy == TerminatorStrategy::Sticky) {
        let token = terminator.base.id.as_str().to_owned();
        data.insert(key::STICKINESS_TOKEN, token.into());
    }
    (addresses, data)
}
