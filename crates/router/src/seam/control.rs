//! The requests of bindings to controllers: circuits, terminators, and reports.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use weft_e2e::ends::StatementReply;
use weft_wire::ctrl::TerminatorPrecedence;
use weft_wire::{PeerData, TraceContext};
use weft_xgress::Role;

use super::access::{AccessGrant, ApiSession};
use super::refusal::{ControllerId, Refusal};

/// The request of an SDK for a circuit.
#[derive(Clone, Debug)]
pub struct CircuitRequest {
    /// The session of the SDK.
    pub session: Arc<ApiSession>,
    /// The grant of the dial.
    pub grant: AccessGrant,
    /// The instance of the service; empty for any.
    pub instance: String,
    /// Headers for the host.
    pub peer_data: PeerData,
    /// Longest wait for the controller.
    pub timeout: Duration,
    /// The span of the dial, parent of the controller's spans.
    pub trace: Option<TraceContext>,
}

/// The question for a statement about the router's own tunneler as an end of connections.
#[derive(Clone, Debug)]
pub struct EndRequest {
    /// Its public key.
    pub key: Bytes,
    /// Id of the service.
    pub service: String,
    /// True if it hosts the service, false if it dials.
    pub hosts: bool,
    /// The instance that it hosts; empty for none.
    pub instance: String,
    /// Longest wait for the controller.
    pub timeout: Duration,
}

/// The request of the router's own tunneler for a circuit.
#[derive(Clone, Debug)]
pub struct TunnelCircuitRequest {
    /// Name or id of the service.
    pub service: String,
    /// The instance of the service; empty for any.
    pub instance: String,
    /// Headers for the host.
    pub peer_data: PeerData,
    /// The key that proves the dialer to the host; empty for none.
    pub end_key: Bytes,
    /// Longest wait for the controller.
    pub timeout: Duration,
}

/// The request of a listener other than `edge` for a circuit. There is no session, so that the
/// controller decides on the rights of the router itself.
#[derive(Clone, Debug)]
pub struct BindingCircuitRequest {
    /// The client's name for itself; may be empty.
    pub client: String,
    /// Name or id of the service, or `instance@service`.
    pub service: String,
    /// Headers for the host.
    pub peer_data: PeerData,
    /// Longest wait for the controller.
    pub timeout: Duration,
}

/// A circuit that a controller made.
#[derive(Clone, Debug)]
pub struct NewCircuit {
    /// Id of the circuit.
    pub id: String,
    /// The address under which the initiator's end registers with the forwarder.
    pub address: String,
    /// Headers from the host.
    pub peer_data: PeerData,
    /// The controller that owns the circuit.
    pub controller: ControllerId,
}

/// The host of a terminator.
#[derive(Clone, Debug)]
pub enum TerminatorHost {
    /// An SDK.
    Sdk {
        /// Its session.
        session: Arc<ApiSession>,
        /// The bind session.
        grant: AccessGrant,
    },
    /// The router's own tunneler.
    Tunnel {
        /// Id of the service.
        service: String,
        /// The key that proves the host to dialers; empty for none.
        end_key: Bytes,
    },
}

impl TerminatorHost {
    /// The identity that hosts; empty for the router's own.
    pub(crate) fn identity(&self) -> &str {
        match self {
            Self::Sdk { session, .. } => &session.identity,
            Self::Tunnel { .. } => "",
        }
    }
}

/// The request for a terminator.
#[derive(Clone, Debug)]
pub struct TerminatorRequest {
    /// Id and address of the terminator, chosen by the router.
    pub id: String,
    /// The host.
    pub host: TerminatorHost,
    /// The instance that the host offers; empty for none.
    pub instance: String,
    /// A secret that shows that hosts of one instance are the same.
    pub instance_secret: Bytes,
    /// Headers for dialers, for instance the host's public key.
    pub peer_data: PeerData,
    /// The cost, 0 to 65535.
    pub cost: u16,
    /// The precedence.
    pub precedence: TerminatorPrecedence,
}

/// A change of a terminator; `None` leaves a value as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminatorUpdate {
    /// The new cost.
    pub cost: Option<u16>,
    /// The new precedence.
    pub precedence: Option<TerminatorPrecedence>,
}

/// Requests of bindings to the controllers.
pub trait Control: Send + Sync + 'static {
    /// Asks for a circuit for an SDK.
    fn create_circuit(
        &self,
        request: CircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>>;

    /// Asks for a circuit for the router's own tunneler.
    fn create_tunnel_circuit(
        &self,
        request: TunnelCircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>>;

    /// Asks for a statement about the router's own tunneler. Controllers other than weft's give none.
    fn state_end(&self, _request: EndRequest) -> BoxFuture<'static, StatementReply> {
        Box::pin(std::future::ready(StatementReply::Refused))
    }

    /// Asks for a circuit for a listener other than `edge`.
    fn create_binding_circuit(
        &self,
        request: BindingCircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>>;

    /// Asks for a terminator. The request is repeated while controllers are busy or away; the future
    /// resolves when the terminator is established, or refused for good. Dropping the future cancels
    /// the request. An established terminator is established again after reconnects, until it is
    /// removed.
    fn create_terminator(
        &self,
        request: TerminatorRequest,
    ) -> BoxFuture<'static, Result<(), Refusal>>;

    /// Changes the cost or the precedence of a terminator.
    fn update_terminator(&self, id: &str, update: TerminatorUpdate);

    /// Removes terminators; repeated until a controller confirms it.
    fn remove_terminators(&self, ids: Vec<String>);

    /// Forwards a host's report on its health.
    fn health_event(&self, id: &str, healthy: bool);

    /// Tells the owner of a circuit that an end of it on this router is gone, and which attempt at the circuit has set the
    /// end up, if that is known.
    fn circuit_ended(&self, owner: &ControllerId, circuit: &str, end: Role, attempt: Option<u32>);

    /// Reports circuits whose payloads have no next place; `None` if nothing is known of them.
    fn forward_faults(&self, owner: Option<&ControllerId>, circuits: Vec<String>);

    /// Whether a controller is connected.
    fn is_connected(&self, controller: &ControllerId) -> bool;

    /// Reports circuits that carried nothing for a while, and for how long; their owner unroutes those
    /// that it does not know.
    fn idle_circuits(&self, owner: &ControllerId, circuits: Vec<(String, Duration)>);

    /// Tells a controller that another one has taken circuits over.
    fn circuits_taken(&self, former: &ControllerId, circuits: Vec<String>);

    /// Tells every controller that this dial of a link broke, or that this router has no link of this id;
    /// iteration 0 means any dial.
    fn link_fault(&self, link: &str, iteration: u32);

    /// Asks a controller which of these service sessions (ids) have ended; the answer is an event of
    /// [`Access`](super::Access).
    fn validate_service_sessions(&self, controller: &ControllerId, ids: Vec<String>);

    /// Reports that an identity now has this number of open connections.
    fn identity_connections(&self, identity: &str, connections: usize);
}
