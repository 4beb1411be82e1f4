//! What the two halves of the router ask of each other.
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

/// What a circuit is to be used for, or what a service session allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Reach the service.
    Dial,
    /// Host the service.
    Bind,
}

/// Why something was not done, in the words and numbers an SDK is told (docs/protocol/sdk.md 6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Error code of the edge protocol, 0 to 15.
    pub code: u32,
    /// What the asker should do.
    pub hint: RetryHint,
    /// Says what was wrong; never empty, because an SDK reads an empty text as "log in again".
    pub message: String,
    /// Ids of the posture checks that failed, sorted.
    pub failing_checks: Vec<String>,
    /// The circuit that was begun, if there was one.
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
    /// Name of the identity, when the data model knows it.
    pub identity_name: Option<String>,
    /// Whether the session is an opaque one, bound to the controller that announced it.
    pub legacy: bool,
    /// The controller that announced a legacy session.
    pub controller: Option<ControllerId>,
    /// SHA-1 fingerprints, lowercase hex, of the certificates the SDK presented, leaf first.
    pub fingerprints: Vec<String>,
}

/// A service session, or a service named outright, that [`Access`] has judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Id of the service.
    pub service: String,
    /// Id of the service session; empty when there is none behind it.
    pub service_session: String,
    /// The token as the SDK sent it.
    pub token: String,
    /// What it was judged for.
    pub purpose: Use,
}

/// A circuit wanted for an SDK.
#[derive(Clone, Debug)]
pub struct CircuitRequest {
    /// Who asks.
    pub session: Arc<ApiSession>,
    /// What for.
    pub grant: Grant,
    /// Which instance of the service; empty for any.
    pub instance: String,
    /// What the hosting side is told.
    pub peer_data: PeerData,
    /// How long to wait for the controller.
    pub timeout: Duration,
    /// The span that the controller's belong to.
    pub trace: Option<TraceContext>,
}

/// A circuit wanted by the router's own tunneler.
#[derive(Clone, Debug)]
pub struct TunnelCircuitRequest {
    /// Name or id of the service.
    pub service: String,
    /// Which instance; empty for any.
    pub instance: String,
    /// What the hosting side is told.
    pub peer_data: PeerData,
    /// How long to wait for the controller.
    pub timeout: Duration,
}

/// A circuit wanted by a listener that is not of the edge: no session stands behind it, so that the
/// controller judges the router itself.
#[derive(Clone, Debug)]
pub struct BindingCircuitRequest {
    /// What the client calls itself; may be empty.
    pub client: String,
    /// Name or id of the service, or `instance@service`.
    pub service: String,
    /// What the hosting side is told.
    pub peer_data: PeerData,
    /// How long to wait for the controller.
    pub timeout: Duration,
}

/// A circuit that a controller made.
#[derive(Clone, Debug)]
pub struct MadeCircuit {
    /// Id of the circuit.
    pub id: String,
    /// The address under which the initiator's end registers with the forwarder.
    pub address: String,
    /// What the hosting side told.
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
    /// The router's own tunneler, for this service.
    Tunnel {
        /// Id of the service.
        service: String,
    },
}

/// A terminator wanted.
#[derive(Clone, Debug)]
pub struct TerminatorRequest {
    /// Chosen by the router: id and address at once.
    pub id: String,
    /// Who hosts.
    pub host: Host,
    /// Which instance of the service; empty for none.
    pub instance: String,
    /// Proof that the instance is the same host's.
    pub instance_secret: Bytes,
    /// What dialers are told, the host's public key for instance.
    pub peer_data: PeerData,
    /// 0 to 65535.
    pub cost: u16,
    /// Preference.
    pub precedence: Precedence,
}

/// What changes of a terminator; absent stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminatorUpdate {
    /// New cost.
    pub cost: Option<u16>,
    /// New preference.
    pub precedence: Option<Precedence>,
}

/// Where another router takes links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkListener {
    /// Where it is dialed, `tls:host:port`.
    pub address: String,
    /// For example `tls`.
    pub protocol: String,
    /// A dialer shares one of these.
    pub groups: Vec<String>,
    /// Its name in the key of links; empty is `default`.
    pub local_binding: String,
}

/// How another router is, as a controller says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Connected to the controller.
    Healthy,
    /// Not connected to it.
    Unhealthy,
    /// No router of the network any more.
    Removed,
}

/// News about another router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub id: String,
    /// Its release; empty if it is not connected.
    pub version: String,
    /// How it is.
    pub state: PeerState,
    /// Where it takes links.
    pub listeners: Vec<LinkListener>,
}

/// A connection of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConnection {
    /// `link.default`, `link.ack`, `single`, `payload` or `ack`.
    pub kind: String,
    /// This side, `tcp:host:port`.
    pub local: String,
    /// The other side.
    pub remote: String,
}

/// A link that this router dialed, as controllers are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// Its id.
    pub id: String,
    /// The router at the other end.
    pub peer: String,
    /// For example `tls`.
    pub protocol: String,
    /// The address that was dialed.
    pub address: String,
    /// Number of the dial.
    pub iteration: u32,
    /// Goes up when a connection comes or goes.
    pub state: u32,
    /// Its connections.
    pub connections: Vec<LinkConnection>,
}

/// What was measured of a link in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkLatency {
    /// Its id.
    pub id: String,
    /// How many round trips.
    pub count: u64,
    /// Nanoseconds: their mean, the shortest, the longest.
    pub mean: f64,
    /// The shortest.
    pub min: u64,
    /// The longest.
    pub max: u64,
}

/// Why a router that opens a link was not found good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unverified {
    /// A controller says no, with its reason.
    Refused(String),
    /// No controller could be asked, for this reason.
    NotAsked(String),
}

/// What bindings ask of the controllers.
pub trait Control: Send + Sync + 'static {
    /// Has a circuit made for an SDK.
    fn create_circuit(
        &self,
        request: CircuitRequest,
    ) -> BoxFuture<'static, Result<MadeCircuit, Refusal>>;

    /// Has a circuit made for the router's own tunneler.
    fn create_tunnel_circuit(
        &self,
        request: TunnelCircuitRequest,
    ) -> BoxFuture<'static, Result<MadeCircuit, Refusal>>;

    /// Has a circuit made for a listener that is not of the edge.
    fn create_binding_circuit(
        &self,
        request: BindingCircuitRequest,
    ) -> BoxFuture<'static, Result<MadeCircuit, Refusal>>;

    /// Has a terminator made. Retries while controllers are busy or away; resolves when it is
    /// established, or refused for good. Dropping the future gives up. An established terminator
    /// is kept established over reconnects until it is removed.
    fn create_terminator(
        &self,
        request: TerminatorRequest,
    ) -> BoxFuture<'static, Result<(), Refusal>>;

    /// Changes cost or preference of a terminator.
    fn update_terminator(&self, id: &str, update: TerminatorUpdate);

    /// Removes terminators; retried until a controller confirms it.
    fn remove_terminators(&self, ids: Vec<String>);

    /// Forwards a host's word on its health.
    fn health_event(&self, id: &str, healthy: bool);

    /// Tells the owner that an end of a circuit on this router is gone.
    fn circuit_ended(&self, controller: &ControllerId, circuit: &str, end: Role);

    /// Reports circuits for which payloads arrive but no way on exists; `None`: owner unknown.
    fn forward_faults(&self, controller: Option<&ControllerId>, circuits: Vec<String>);

    /// Reports circuits that carried nothing for a while, with how long; the owner unroutes those
    /// that it does not know.
    fn idle_circuits(&self, controller: &ControllerId, circuits: Vec<(String, Duration)>);

    /// Tells every controller that a link broke, or that this router has none of this id; iteration
    /// 0 is any.
    fn link_fault(&self, link: &str, iteration: u32);

    /// Asks a controller which of these service sessions, by id, have ended; it answers with those.
    fn validate_service_sessions(&self, controller: &ControllerId, ids: Vec<String>);

    /// Identities with open connections changed: count of connections of this identity now.
    fn identity_connections(&self, identity: &str, connections: usize);
}

/// What links ask of the controllers.
pub trait LinkControl: Send + Sync + 'static {
    /// Asks a controller whether the router of this id has a certificate of this fingerprint
    /// (SHA-1, lowercase hex).
    fn verify_router(
        &self,
        id: &str,
        fingerprint: &str,
    ) -> BoxFuture<'static, Result<(), Unverified>>;

    /// Tells every controller of a link that this router dialed.
    fn link_up(&self, link: LinkReport);

    /// Tells every controller of the connections of a link that this router dialed.
    fn link_connections(&self, link: LinkReport);

    /// Tells every controller that a link is closed in favour of another one.
    fn link_duplicate(&self, link: &str, iteration: u32);

    /// Tells every controller what was measured of links.
    fn link_latencies(&self, links: Vec<LinkLatency>);
}

/// What changed for peers that are connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessEvent {
    /// The API session ended; close its connections.
    SessionEnded {
        /// Id of the API session.
        session: String,
    },
    /// A service session ended; close what was made with it.
    ServiceSessionEnded {
        /// Id of the service session.
        service_session: String,
    },
    /// A controller has told all its opaque sessions, as it does when it comes back. Service
    /// sessions that ended meanwhile are not among what it tells: it is to be asked about those in
    /// use.
    SessionsTold {
        /// The controller.
        controller: ControllerId,
    },
    /// An identity was deleted or disabled; close its connections.
    IdentityGone {
        /// Id of the identity.
        identity: String,
    },
    /// An identity lost a use of a service; re-judge and close what it no longer may.
    Lost {
        /// Id of the identity.
        identity: String,
        /// Id of the service.
        service: String,
        /// Which use.
        purpose: Use,
    },
}

/// A service that the router's own tunneler may use, with what its configs say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TunnelService {
    /// Id of the service.
    pub id: String,
    /// Name of the service.
    pub name: String,
    /// Whether dialers must bring a key.
    pub encryption_required: bool,
    /// Config type name to the config's data (JSON text).
    pub configs: BTreeMap<String, String>,
    /// Whether it may be dialed.
    pub can_dial: bool,
    /// Whether it may be hosted.
    pub can_bind: bool,
    /// The identity that tunnels: the router's own.
    pub identity: Arc<weft_tunnel::Identity>,
    /// What the identity says about cost and preference.
    pub hosting: Hosting,
}

/// Cost and preference that an identity sets for what it hosts (docs/protocol/tunnel.md 9.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosting {
    /// Cost where nothing else says one.
    pub default_cost: u16,
    /// Preference where nothing else says one.
    pub default_precedence: Precedence,
    /// Cost of this service, before all others.
    pub cost: Option<u16>,
    /// Preference of this service, before all others.
    pub precedence: Option<Precedence>,
}

/// Who peers are and what they may do.
pub trait Access: Send + Sync + 'static {
    /// Judges token and certificates (DER, leaf first) of an SDK connection. Waits a while for a
    /// session that was not announced yet.
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

    /// What changes from now on. A reader that falls behind is ended and must begin anew.
    fn events(&self) -> BoxStream<'static, AccessEvent>;

    /// Services that the router's own identity may use: now, and again whenever that changes. One that
    /// stays as it is stays the same `Arc`.
    fn tunnel_services(&self) -> BoxStream<'static, Arc<Vec<Arc<TunnelService>>>>;

    /// Whether the chain (DER, leaf first) of an SDK may complete a TLS handshake.
    fn admits(&self, chain: &[Bytes]) -> bool;
}

/// One entry of a route: what comes from `source` goes to `destination`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Address it comes from.
    pub source: String,
    /// Address it goes to.
    pub destination: String,
    /// What lies there.
    pub kind: ForwardKind,
}

/// What lies at the destination of a forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardKind {
    /// The initiator's end, which may register later.
    Start,
    /// The terminator's end.
    End,
    /// A link to another router.
    Link,
}

/// The terminating end that a route wants dialed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    /// Which binding dials: `edge`, `transport`, `tunnel`, ...
    pub binding: String,
    /// Address under which the new end registers.
    pub address: String,
    /// What the binding dials: a terminator id, or `tcp:host:port`.
    pub destination: String,
    /// What the initiator told.
    pub peer_data: PeerData,
    /// The span that the host's belongs to.
    pub trace: Option<TraceContext>,
}

/// A route of one circuit through this router.
#[derive(Clone, Debug)]
pub struct RouteCommand {
    /// Id of the circuit.
    pub circuit: String,
    /// The controller that commands it, owner of the circuit.
    pub controller: ControllerId,
    /// Which attempt.
    pub attempt: u32,
    /// The end to dial here, if any.
    pub egress: Option<Egress>,
    /// Where payloads go.
    pub forwards: Vec<Forward>,
    /// How long dialing may take.
    pub timeout: Duration,
    /// Service, client and host ids for logs and events.
    pub tags: BTreeMap<String, String>,
    /// Cancelled before [`Data::unroute`] is called for this circuit: a command that is carried out
    /// only then comes to nothing.
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

    /// Takes a route down: at once, or when the circuit has been quiet.
    fn unroute(&self, circuit: &str, now: bool);

    /// Whether a terminator of this binding is alive here.
    fn vouches(&self, binding: &str, terminator: &str) -> bool;

    /// Circuits with an end or a hop on this router that this controller owns.
    fn circuits_of(&self, controller: &ControllerId) -> Vec<String>;

    /// API sessions (legacy) with an open connection: their tokens, for heartbeats.
    fn open_session_tokens(&self) -> Vec<String>;

    /// News about other routers.
    fn peers(&self, news: Vec<Peer>);

    /// A controller says that a link broke; iteration 0 is any.
    fn link_faulted(&self, link: &str, iteration: u32);

    /// The links that this router dialed.
    fn links(&self) -> Vec<LinkReport>;

    /// The links of this router and those it wants, for inspection.
    fn inspect_links(&self) -> serde_json::Value;

    /// The ends of a circuit on this router by address, for inspection.
    fn inspect_ends(&self, circuit: &str) -> serde_json::Map<String, serde_json::Value>;

    /// Circuits with an end at an SDK that is connected here, for inspection.
    fn inspect_sdk_circuits(&self) -> serde_json::Map<String, serde_json::Value>;

    /// What was thrown away since the start.
    fn dropped(&self) -> Dropped;

    /// Everything that is measured, as it is now.
    fn measured(&self) -> Report;

    /// The same for a report to controllers: what is in it is not told again. Intervals of usage
    /// are told from this age on.
    fn take_measured(&self, age: Duration) -> Measured;

    /// Reports were given up because no controller took them.
    fn reports_lost(&self, count: u64);
}

/// What controllers are told of what was measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// By name.
    pub report: Report,
    /// Of links, since the last time.
    pub latencies: Vec<LinkLatency>,
    /// Bytes of circuits.
    pub usage: Vec<Interval>,
}

/// Messages of circuits that a router threw away, and circuits that it ended for others' sake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// There was no room before an SDK or a link that takes too little.
    pub full: u64,
    /// The same payload waited already.
    pub repeated: u64,
    /// It did not follow its encoding.
    pub malformed: u64,
    /// There was no way on.
    pub no_way: u64,
    /// They came over a link that their circuit does not come over.
    pub foreign: u64,
    /// Circuits that took nothing while an SDK's others waited for them.
    pub stuck: u64,
}
