//! The outcome of making a circuit: it enters the table, or its failure is reported.

use std::sync::Arc;

use weft_kernel::events::{CircuitChange, CircuitEvent, Event};
use weft_model::Id;
use weft_model::entity::{Service, Terminator, TerminatorStrategy};
use weft_paths::queue::MoveReason;
use weft_wire::PeerData;
use weft_wire::ctrl::{RouteErrorCode, peer_data_key};

use super::machine::{Failure, Input};
use super::spec::{CircuitSpec, MadeCircuit};
use super::{DialTask, PendingRoutes};
use crate::circuits::{Circuit, EndAddresses};
use crate::failure::{CircuitFailure, FailureCause};
use crate::{clock, traced};

impl DialTask<'_> {
    /// Puts the circuit into the table.
    pub(super) fn enter(&mut self, told: PeerData) -> Input {
        self.attempt = None;
        let (Some(routes), Some(chosen)) = (self.routes.take(), self.dial.target().cloned()) else {
            return Input::Ended;
        };
        let PendingRoutes { sent_at, ingress, egress, tags, .. } = routes;
        let (network, terminator) = (self.network, &chosen.terminator);
        self.unroute_all_but(&chosen.path.nodes);
        let service = network.0.kernel.snapshot();
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
            created_at: network.0.kernel.now(),
            made_at: clock::now(),
            routed_at: clock::now(),
            tags,
            term: network.0.ownership.term(&self.id),
            is_whole: true,
            is_counted: chosen.is_counted,
            moving: Arc::default(),
            traffic: Arc::default(),
        });
        let took = clock::since(self.dial.started());
        let event = network.circuit_event(CircuitChange::Created, &circuit, took);
        let is_put = network.0.circuits.put_with(Arc::clone(&circuit), || {
            if chosen.is_counted {
                network.0.costs.created(&circuit.terminator);
            }
            network.0.used.dialed(&circuit.service, &circuit.terminator, true);
            network.tell_event(event);
        });
        if !is_put {
            return Input::Ended;
        }
        // A router that has connected since it was told its route may have restarted, and may have said already which
        // circuits it carries.
        let has_come = |router: &Id| {
            network.0.routers.get(router.as_str()).is_some_and(|live| live.since > sent_at)
        };
        if circuit.path.nodes.iter().any(has_come) {
            network.remove_circuit(&circuit.id, true);
            self.dial.take_told(&[]);
            return Input::Ended;
        }
        // The session may have ended before its circuit was in the table. The end of the session
        // did not find the circuit then.
        if circuit.is_of_session && !network.0.logins.has_session(&circuit.client) {
            network.remove_circuit(&circuit.id, true);
            self.dial.take_told(&[]);
            return Input::Ended;
        }
        // A link may have broken before the circuit was in the table. The report of the break did
        // not find the circuit then.
        if !network.is_usable(&circuit.path) {
            network.move_or_end(&circuit, MoveReason::Broken);
        }
        let tags = circuit.tags.to_map();
        self.made = Some(MadeCircuit { id: self.id.clone(), address: ingress, peer_data, tags });
        Input::Entered
    }

    /// Handles the end of a dial without a circuit.
    pub(super) fn fail(&mut self, is_repeated: bool) -> CircuitFailure {
        self.unroute_all_but(&[]);
        let (cause, circuit) = (FailureCause::Router(RouteErrorCode::Generic), self.id.clone());
        let failure = self.failure.take();
        let failure =
            failure.unwrap_or_else(|| CircuitFailure { cause, text: String::new(), circuit });
        if !is_repeated {
            return failure;
        }
        let attempts = self.network.0.options.create_circuit_retries;
        let CircuitFailure { text, circuit, .. } = &failure;
        let text = format!(
            "exceeded maximum [{attempts}] retries creating circuit [c/{circuit}] ({text})"
        );
        CircuitFailure { text, ..failure }
    }

    /// Ends the present attempt: notes its failure, and tells whoever listens to events.
    pub(super) fn attempt_failed(&mut self, failure: Failure) {
        let Failure { cause, text } = failure;
        let failure = CircuitFailure { cause, text, circuit: self.id.clone() };
        if let Some(mut span) = self.attempt.take() {
            traced::say_failure(&mut span, &failure);
        }
        self.routes = None;
        self.report_failure(&failure);
        self.failure = Some(failure);
    }

    fn report_failure(&self, failure: &CircuitFailure) {
        tracing::debug!(circuit = %self.id, service = %self.spec.service, %failure, "circuit not made");
        let chosen = self.dial.target();
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
            duration: clock::since(self.dial.started()),
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
