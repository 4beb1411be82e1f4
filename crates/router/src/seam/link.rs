//! Messages between links and controllers about other routers.

use futures::future::BoxFuture;
use tokio::sync::watch;

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
pub struct PeerReport {
    /// Id of the router.
    pub id: String,
    /// The release of the router; empty if it is not connected.
    pub version: String,
    /// The state of the router.
    pub state: PeerState,
    /// Its listeners for links.
    pub listeners: Vec<LinkListener>,
    /// The prints of the keys that its listeners prove; empty if the controller does not name them.
    pub keys: Vec<String>,
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

/// Requests of links to the controllers.
pub trait LinkControl: Send + Sync + 'static {
    /// Asks a controller whether the router of this id has a certificate of this fingerprint
    /// (SHA-1, lowercase hex).
    fn verify_router(
        &self,
        id: &str,
        fingerprint: &str,
    ) -> BoxFuture<'static, Result<(), Unverified>>;

    /// A number that changes when a controller connects or disconnects.
    fn controller_changes(&self) -> watch::Receiver<u64>;

    /// Reports a link that this router dialed to every controller.
    fn link_up(&self, link: LinkReport);

    /// Reports the connections of a link that this router dialed to every controller.
    fn link_connections(&self, link: LinkReport);

    /// Tells every controller that a link is closed, because another link with its key stays.
    fn link_duplicate(&self, link: &str, iteration: u32);

    /// Reports the latencies of links to every controller.
    fn link_latencies(&self, links: Vec<LinkLatency>);
}
