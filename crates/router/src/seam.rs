//! The interface between the two halves of the router.
//!
//! The *data half* (forwarder, bindings) moves payloads and knows no controller; the *control
//! half* (control channels, access) talks to controllers and moves no payload. They meet only
//! here:
//!
//! * bindings ask [`Control`] for circuits and terminators, and tell it when a circuit ended;
//! * bindings ask [`Access`] who a peer is and what it may do, and hear when that changes;
//! * control asks [`Data`] to route, to unroute and to vouch for terminators.
//!
//! Each trait is small enough to fake in a test of the other half.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use tokio_util::sync::CancellationToken;
use weft_metrics::{Report, usage::Interval};
use weft_wire::TraceContext;
use weft_xgress::Role;

pub use weft_wire::{
    PeerData,
    ctrl::{RouteError, RouteErrorCode},
    edge::{Precedence, RetryHint},
};

/// The id of a controller, as it gave it in its hello.
pub type ControllerId = Arc<str>;

/// A use of a service: the purpose of a circuit, or the permission of a service session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// To reach the service.
    Dial,
    /// To host the service.
    Bind,
}

/// Why something was not done, in the words and numbers an SDK is told (docs/protocol/sdk.md 6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Error code of the edge protocol, 0 to 15.
    pub code: u32,
    /// What the client should do.
    pub hint: RetryHint,
    /// What was wrong; never empty, because an SDK reads an empty text as "log in again".
    pub message: String,
    /// Ids of the posture checks that failed, sorted.
    pub failing_checks: Vec<String>,
    /// Id of the circuit that was begun, if there was one.
    pub circuit: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl std::error::Error for Refusal {}

/// An authenticated API session of an SDK connection.
///
/// Equal sessions share one value: several connections of one API session hold the same `Arc`.
#[derive(Debug)]
pub struct ApiSession {
    /// Id of the API session.
    pub id: String,
    /// The token the SDK presented: opaque, or an access token.
    pub token: String,
    /// Id of the identity.
    pub identity: String,
    /// Name of the identity, if the data model has it.
    pub identity_name: Option<String>,
    /// True for an opaque session, which is valid with the controller that announced it.
    pub legacy: bool,
    /// The controller that announced an opaque session.
    pub controller: Option<ControllerId>,
    /// SHA-1 fingerprints, lowercase hex, of the certificates the SDK presented, leaf first.
    pub fingerprints: Vec<String>,
}

/// A service session, or a service that the client named itself, which [`Access`] has allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Id of the service.
    pub service: String,
    /// Id of the service session; empty without one.
    pub service_session: String,
    /// The token as the SDK sent it.
    pub token: String,
    /// The use that was allowed.
    pub purpose: Use,
}

/// The request of an SDK for a circuit.
#[derive(Clone, Debug)]
pub struct CircuitRequest {
    /// Who asks.
    pub session: Arc<ApiSession>,
    /// What for.
    pub grant: Grant,
    /// The instance of the service; empty for any.
    pub instance: String,
    /// Headers for the host.
    pub peer_data: PeerData,
    /// Longest wait for the controller.
    pub timeout: Duration,
    /// The span of the dial, parent of the controller's spans.
    pub trace: Option<TraceContext>,
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
pub struct MadeCircuit {
    /// Id of the circuit.
    pub id: String,
    /// The address under which the initiator's end registers with the forwarder.
    pub address: String,
    /// Headers from the host.
    pub peer_data: PeerData,
    /// The controller that owns the circuit.
    pub controller: ControllerId,
}

/// Who hosts behind a terminator.
#[derive(Clone, Debug)]
pub enum Host {
    /// An SDK.
    Sdk {
        /// Its session.
        session: Arc<ApiSession>,
        /// The bind session.
        grant: Grant,
    },
    /// The router's own tunneler.
    Tunnel {
        /// Id of the service.
        service: String,
    },
}

/// The request for a terminator.
#[derive(Clone, Debug)]
pub struct TerminatorRequest {
    /// Id and address of the terminator, chosen by the router.
    pub id: String,
    /// The host.
    pub host: Host,
    /// The instance that the host offers; empty for none.
    pub instance: String,
    /// A secret that shows that hosts of one instance are the same.
    pub instance_secret: Bytes,
    /// Headers for dialers, for instance the host's public key.
    pub peer_data: PeerData,
    /// The cost, 0 to 65535.
    pub cost: u16,
    /// The precedence.
    pub precedence: Precedence,
}

/// A change of a terminator; `None` leaves a value as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminatorUpdate {
    /// The new cost.
    pub cost: Option<u16>,
    /// The new precedence.
    pub precedence: Option<Precedence>,
}

/// A listener for links of another router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkListener {
    /// The address to dial, `tls:host:port`.
    pub address: String,
    /// The protocol, for example `tls`.
    pub protocol: String,
    /// Groups of the listener; a dialer has to be in one of them.
    pub groups: Vec<String>,
    /// The listener's name in the key of links; empty means `default`.
    pub local_binding: String,
}

/// The state of another router, as a controller reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Connected to the controller.
    Healthy,
    /// Not connected to the controller.
    Unhealthy,
    /// Deleted from the network.
    Removed,
}

/// A report about another router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Id of the router.
    pub id: String,
    /// The release of the router; empty if it is not connected.
    pub version: String,
    /// The state of the router.
    pub state: PeerState,
    /// Its listeners for links.
    pub listeners: Vec<LinkListener>,
}

/// A connection of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConnection {
    /// The kind: `link.default`, `link.ack`, `single`, `payload` or `ack`.
    pub kind: String,
    /// The address of this side, `tcp:host:port`.
    pub local: String,
    /// The address of the other side.
    pub remote: String,
}

/// A link that this router dialed, as it is reported to controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// Id of the link.
    pub id: String,
    /// The router at the other end.
    pub peer: String,
    /// The protocol, for example `tls`.
    pub protocol: String,
    /// The address that was dialed.
    pub address: String,
    /// How often the link was dialed.
    pub iteration: u32,
    /// A number that goes up when a connection comes or goes.
    pub state: u32,
    /// The connections of the link.
    pub connections: Vec<LinkConnection>,
}

/// The latency of a link, measured in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkLatency {
    /// Id of the link.
    pub id: String,
    /// The number of measured round trips.
    pub count: u64,
    /// The mean, in nanoseconds.
    pub mean: f64,
    /// The shortest round trip, in nanoseconds.
    pub min: u64,
    /// The longest round trip, in nanoseconds.
    pub max: u64,
}

/// Why a router that opens a link was not confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unverified {
    /// A controller refused, for this reason.
    Refused(String),
    /// No controller could be asked, for this reason.
    NotAsked(String),
}

/// Requests of bindings to the controllers.
pub trait Control: Send + Sync + 'static {
    /// Asks for a circuit for an SDK.
    fn create_circuit(
        &self,
        request: CircuitRequest,
    ) -> BoxFuture<'static, Result<MadeCircuit, Refusal>>;

    /// Asks for a circuit for the router's own tunneler.
    fn create_tunnel_circuit(
        &self,
        request: TunnelCircuitRequest,
    ) -> BoxFuture<'static, Result<MadeCircuit, Refusal>>;

    /// Asks for a circuit for a listener other than `edge`.
    fn create_binding_circuit(
        &self,
        request: BindingCircuitRequest,
    ) -> BoxFuture<'static, Result<MadeCircuit, Refusal>>;

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

    /// Tells the owner that an end of a circuit on this router is gone.
    fn circuit_ended(&self, controller: &ControllerId, circuit: &str, end: Role);

    /// Reports circuits whose payloads have no next place; `None` if the owner is unknown.
    fn forward_faults(&self, controller: Option<&ControllerId>, circuits: Vec<String>);

    /// Reports circuits that carried nothing for a while, and for how long; the owner unroutes those
    /// that it does not know.
    fn idle_circuits(&self, controller: &ControllerId, circuits: Vec<(String, Duration)>);

    /// Tells every controller that a link broke, or that this router has no link of this id;
    /// iteration 0 means any.
    fn link_fault(&self, link: &str, iteration: u32);

    /// Asks a controller which of these service sessions (ids) have ended; the answer is an event of
    /// [`Access`].
    fn validate_service_sessions(&self, controller: &ControllerId, ids: Vec<String>);

    /// Reports that an identity now has this number of open connections.
    fn identity_connections(&self, identity: &str, connections: usize);
}

/// Requests of links to the controllers.
pub trait LinkControl: Send + Sync + 'static {
    /// Asks a controller whether the router of this id has a certificate of this fingerprint
    /// (SHA-1, lowercase hex).
    fn verify_router(
        &self,
        id: &str,
        fingerprint: &str,
    ) -> BoxFuture<'static, Result<(), Unverified>>;

    /// Reports a link that this router dialed to every controller.
    fn link_up(&self, link: LinkReport);

    /// Reports the connections of a link that this router dialed to every controller.
    fn link_connections(&self, link: LinkReport);

    /// Tells every controller that a link is closed, because another link with its key stays.
    fn link_duplicate(&self, link: &str, iteration: u32);

    /// Reports the latencies of links to every controller.
    fn link_latencies(&self, links: Vec<LinkLatency>);
}

/// A change that affects connected SDKs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessEvent {
    /// The API session ended: its connections are to be closed.
    SessionEnded {
        /// Id of the API session.
        session: String,
    },
    /// A service session ended: circuits and terminators made with it are to be closed.
    ServiceSessionEnded {
        /// Id of the service session.
        service_session: String,
    },
    /// A controller has sent all its opaque sessions, as it does after a connect. Ended service
    /// sessions are not in that list, so that the controller is to be asked about those in use.
    SessionsTold {
        /// The controller.
        controller: ControllerId,
    },
    /// An identity was deleted or disabled: its connections are to be closed.
    IdentityGone {
        /// Id of the identity.
        identity: String,
    },
    /// An identity lost a use of a service: its circuits and terminators are to be judged again, and
    /// closed if they are not allowed any more.
    Lost {
        /// Id of the identity.
        identity: String,
        /// Id of the service.
        service: String,
        /// The use that was lost.
        purpose: Use,
    },
}

/// A service that the router's own tunneler may use, with its configs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TunnelService {
    /// Id of the service.
    pub id: String,
    /// Name of the service.
    pub name: String,
    /// True if dialers have to send a key.
    pub encryption_required: bool,
    /// The data of each config (JSON text), by the name of its type.
    pub configs: BTreeMap<String, String>,
    /// True if the tunneler may dial the service.
    pub can_dial: bool,
    /// True if the tunneler may host the service.
    pub can_bind: bool,
    /// The identity of the tunneler: the router's own.
    pub identity: Arc<weft_tunnel::Identity>,
    /// The cost and precedence that the identity sets.
    pub hosting: Hosting,
}

/// Cost and precedence that an identity sets for services that it hosts
/// (docs/protocol/tunnel.md 9.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosting {
    /// The cost of services without one of their own.
    pub default_cost: u16,
    /// The precedence of services without one of their own.
    pub default_precedence: Precedence,
    /// The cost for this service, which comes first.
    pub cost: Option<u16>,
    /// The precedence for this service, which comes first.
    pub precedence: Option<Precedence>,
}

/// The identities of peers, and their rights.
pub trait Access: Send + Sync + 'static {
    /// Judges the token and the certificates (DER, leaf first) of an SDK connection. Waits some
    /// seconds for a session that was not announced yet.
    fn authenticate(
        &self,
        token: Bytes,
        certificates: Vec<Bytes>,
    ) -> BoxFuture<'static, Result<Arc<ApiSession>, Refusal>>;

    /// Whether a session that was found good still stands: neither has it ended, nor is its
    /// identity gone. For whoever may have missed an event.
    fn stands(&self, session: &ApiSession) -> bool;

    /// Judges a service token of a connect or a bind.
    fn judge(&self, session: &ApiSession, token: &[u8], purpose: Use) -> Result<Grant, Refusal>;

    /// Replaces the token of a bearer session (update of a token by the SDK).
    fn renew(&self, session: &ApiSession, token: Bytes) -> Result<Arc<ApiSession>, Refusal>;

    /// Events from now on. The stream of a reader that falls behind ends, and the reader has to begin
    /// again.
    fn events(&self) -> BoxStream<'static, AccessEvent>;

    /// The services that the router's own identity may use: now, and again after every change. An
    /// unchanged service stays the same `Arc`.
    fn tunnel_services(&self) -> BoxStream<'static, Arc<Vec<Arc<TunnelService>>>>;

    /// True if the chain (DER, leaf first) of an SDK may complete a TLS handshake.
    fn admits(&self, chain: &[Bytes]) -> bool;
}

/// One entry of a route: messages from `source` go to `destination`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The address that messages come from.
    pub source: String,
    /// The address that they go to.
    pub destination: String,
    /// The kind of the destination.
    pub kind: ForwardKind,
}

/// The kind of a forward's destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardKind {
    /// The initiator's end, which may register later than the route.
    Start,
    /// The terminator's end.
    End,
    /// A link to another router.
    Link,
}

/// The terminating end that a route asks a router to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    /// The binding that dials: `edge`, `transport`, `tunnel`, ...
    pub binding: String,
    /// The address under which the new end registers.
    pub address: String,
    /// The destination of the dial: a terminator id, or `tcp:host:port`.
    pub destination: String,
    /// Headers from the initiator.
    pub peer_data: PeerData,
    /// The span of the route, parent of the host's spans.
    pub trace: Option<TraceContext>,
}

/// A route of one circuit through this router.
#[derive(Clone, Debug)]
pub struct RouteCommand {
    /// Id of the circuit.
    pub circuit: String,
    /// The controller that sent the command, owner of the circuit.
    pub controller: ControllerId,
    /// The number of the attempt.
    pub attempt: u32,
    /// The end to dial at this router, if any.
    pub egress: Option<Egress>,
    /// The ways of the route.
    pub forwards: Vec<Forward>,
    /// Longest time for dialing.
    pub timeout: Duration,
    /// Service, client and host ids for logs and events.
    pub tags: BTreeMap<String, String>,
    /// Cancelled before [`Data::unroute`] is called for this circuit, so that a command carried out
    /// later than that has no effect.
    pub taken_down: CancellationToken,
}

/// The circuit was taken down before its route was set up.
pub(crate) fn taken_down() -> RouteError {
    RouteError {
        code: RouteErrorCode::Generic,
        text: "the circuit was taken down before its route was set up".to_owned(),
    }
}

/// What control asks of the data half.
pub trait Data: Send + Sync + 'static {
    /// Sets a route up, dialing the egress if it names one. Applied whole or undone whole: of one
    /// that failed nothing is left.
    fn route(&self, command: RouteCommand) -> BoxFuture<'static, Result<PeerData, RouteError>>;

    /// Takes a route down: at once (`now`), or when the circuit has been quiet.
    fn unroute(&self, circuit: &str, now: bool);

    /// True if a terminator of this binding is alive on this router.
    fn vouches(&self, binding: &str, terminator: &str) -> bool;

    /// Circuits with an end or a hop on this router that this controller owns.
    fn circuits_of(&self, controller: &ControllerId) -> Vec<String>;

    /// The tokens of opaque API sessions with an open connection, for heartbeats.
    fn open_session_tokens(&self) -> Vec<String>;

    /// Takes reports about other routers.
    fn peers(&self, news: Vec<Peer>);

    /// A controller reports that a link broke; iteration 0 means any.
    fn link_faulted(&self, link: &str, iteration: u32);

    /// The links that this router dialed, for reports.
    fn links(&self) -> Vec<LinkReport>;

    /// The open links of this router and the links that it wants, for inspection.
    fn inspect_links(&self) -> serde_json::Value;

    /// The ends of a circuit on this router by address, for inspection.
    fn inspect_ends(&self, circuit: &str) -> serde_json::Map<String, serde_json::Value>;

    /// Circuits with an end at an SDK that is connected here, for inspection.
    fn inspect_sdk_circuits(&self) -> serde_json::Map<String, serde_json::Value>;

    /// Counts of the messages thrown away since the start.
    fn dropped(&self) -> Dropped;

    /// All measurements at this moment.
    fn measured(&self) -> Report;

    /// The measurements for a report to controllers, which are not reported again. Intervals of usage
    /// are included once they are as old as `age`.
    fn take_measured(&self, age: Duration) -> Measured;

    /// Counts reports that were given up because no controller took them.
    fn reports_lost(&self, count: u64);
}

/// The measurements of one report to controllers.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Metrics by name.
    pub report: Report,
    /// Latencies of links since the last report.
    pub latencies: Vec<LinkLatency>,
    /// Bytes of circuits, by interval.
    pub usage: Vec<Interval>,
}

/// Counts of messages that a router threw away, and of circuits that it ended because they stopped
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Messages without room in the queue for an SDK or a link.
    pub full: u64,
    /// Copies of payloads that were queued already.
    pub repeated: u64,
    /// Messages that did not follow their encoding.
    pub malformed: u64,
    /// Messages without a next place.
    pub no_way: u64,
    /// Messages that came over a link without a route of their circuit.
    pub foreign: u64,
    /// Circuits that took nothing while other circuits of their SDK waited.
    pub stuck: u64,
}
