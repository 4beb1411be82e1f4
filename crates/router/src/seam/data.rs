//! The requests of controllers to the data half: routes, reports, and inspections.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use weft_metrics::Report;
use weft_metrics::usage::Interval;
use weft_wire::ctrl::{ClaimCircuits, Route, RouteError, Unroute};
use weft_wire::{PeerData, TraceContext};
use weft_xgress::Role;

use super::link::{LinkLatency, LinkReport, PeerReport};
use super::refusal::{ControllerId, NotObeyed};

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
    /// The end to dial at this router, if any.
    pub egress: Option<Egress>,
    /// The ways of the route.
    pub forwards: Vec<Forward>,
    /// Longest time for dialing.
    pub timeout: Duration,
    /// Service, client and host ids for logs and events.
    pub tags: BTreeMap<String, String>,
    /// Cancelled when the route is given up.
    pub taken_down: CancellationToken,
}

/// Names a route among all that were begun: several of one attempt may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTicket {
    /// Id of the circuit.
    pub circuit: Arc<str>,
    /// No other route has this number.
    pub number: u64,
}

/// A route that is to be set up. It has failed if it is dropped before, and then leaves nothing behind.
pub trait BegunRoute: Send {
    /// The name of the route.
    fn ticket(&self) -> RouteTicket;

    /// Cancelled when the circuit is taken down before the route is set up.
    fn given_up(&self) -> CancellationToken;

    /// Sets the route up, dialing the egress if it names one that is not there.
    fn set_up(
        self: Box<Self>,
        command: RouteCommand,
    ) -> BoxFuture<'static, Result<PeerData, RouteError>>;

    /// Sets the route up, which names no egress, or one that is there already. Routes are carried out in the
    /// order of the calls.
    fn set_up_without_dial(self: Box<Self>, command: &RouteCommand) -> Result<(), RouteError>;
}

/// The interface of the data half for the control half.
pub trait Data: Send + Sync + 'static {
    /// A controller sends a route: whether it is to be carried out.
    ///
    /// # Errors
    /// When another controller owns the circuit, another attempt counts, the route is too large, or the router is about
    /// to stop.
    fn begin(&self, from: &ControllerId, route: &Route) -> Result<Box<dyn BegunRoute>, NotObeyed>;

    /// Takes a route of an attempt back whose controller cannot be told that it is set up, unless another route was set up
    /// since.
    fn retract(&self, route: &RouteTicket);

    /// A controller ends a circuit.
    ///
    /// # Errors
    /// When another controller owns the circuit.
    fn unroute(&self, from: &ControllerId, unroute: &Unroute) -> Result<(), NotObeyed>;

    /// A controller claims circuits that are up. Returns the routes of those that it owns now.
    fn claim(&self, from: &ControllerId, claim: &ClaimCircuits) -> Vec<Route>;

    /// An end on this router is gone, or never came. The owner of the circuit is told; `asked` is if nobody owns it.
    fn end_gone(&self, asked: &ControllerId, circuit: &str, end: Role);

    /// The connection to a controller is gone, and with it the answers that it owed.
    fn disconnected(&self, controller: &ControllerId);

    /// True if an end or a link has this address.
    fn has_destination(&self, address: &str) -> bool;

    /// The routes of the circuits that are up and that a controller owns.
    fn routes_of(&self, owner: &ControllerId) -> Vec<Route>;

    /// The circuits that a controller has made or owned, and that another one owns now.
    fn taken_from(&self, controller: &ControllerId) -> Vec<Arc<str>>;

    /// The routes of all circuits that are up, and their owners, for inspection.
    fn routes(&self) -> Vec<(ControllerId, Route)>;

    /// The route of a circuit that is up, for inspection.
    fn route_of(&self, circuit: &str) -> Option<Route>;

    /// True if a terminator of this binding is alive on this router.
    fn vouches(&self, binding: &str, terminator: &str) -> bool;

    /// The tokens of opaque API sessions with an open connection, for heartbeats.
    fn open_session_tokens(&self) -> Vec<String>;

    /// Takes the reports of a controller about other routers.
    fn peers(&self, from: &ControllerId, news: Vec<PeerReport>);

    /// A controller reports that a link broke; iteration 0 means any.
    fn link_faulted(&self, link: &str, iteration: u32);

    /// The links that this router dialed, for reports.
    fn links(&self) -> Vec<LinkReport>;

    /// The open links of this router and the links that it wants, for inspection.
    fn inspect_links(&self) -> serde_json::Value;

    /// The open links with these ids, by id, for inspection.
    fn inspect_links_of(&self, ids: &HashSet<&str>) -> serde_json::Map<String, serde_json::Value>;

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
