//! Events of the network for listeners: routers, links, circuits, connections of identities, logins and their sessions,
//! controllers.
//!
//! The bus has typed events and a bounded queue. Senders never wait for listeners. A listener that
//! falls behind is told how many events it missed, and goes on with the next one. Changes of the
//! model are published by [`Kernel::subscribe`](crate::Kernel::subscribe).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use strum::IntoStaticStr;
use tokio::sync::broadcast;
use weft_model::{Id, Kind, Timestamp};
use weft_wire::StringMap;

/// Events that a listener may be behind before it misses some.
const BACKLOG: usize = 4096;
/// Most events of the start.
const MOST_OF_START: usize = 16;

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A router connected or disconnected.
    Router(RouterEvent),
    /// A link changed.
    Link(LinkEvent),
    /// A circuit changed.
    Circuit(Arc<CircuitEvent>),
    /// An identity connected to a router.
    Connect(ConnectEvent),
    /// A router sent an alert for operators.
    Alert(AlertEvent),
    /// The controllers of the network changed, or how this one stands to them.
    Cluster(Arc<ClusterEvent>),
    /// Somebody tried to log in.
    Authentication(Arc<AuthenticationEvent>),
    /// An API session began, got other tokens, or ended.
    ApiSession(Arc<ApiSessionEvent>),
    /// Many API sessions have ended together, of which most have no event of their own.
    ApiSessionsEnded(Arc<ApiSessionsEndedEvent>),
}

/// An attempt at the first factor of a login (docs/protocol/operations.md 4.3, `authentication`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticationEvent {
    /// The time.
    pub at: Timestamp,
    /// The method: `updb`, `cert` or `ext-jwt`.
    pub method: &'static str,
    /// The authenticator that was named; empty if it is unknown.
    pub authenticator: Id,
    /// The signer whose token was accepted; empty for other methods.
    pub signer: Id,
    /// The identity; empty if it is unknown.
    pub identity: Id,
    /// The identity's auth policy; empty if the identity is unknown.
    pub policy: Id,
    /// The address of the client, host and port.
    pub remote: String,
    /// Why the attempt failed; `None` if it succeeded.
    pub failure: Option<String>,
    /// Whether the client left out intermediate certificates.
    pub improper_chain: bool,
}

/// The changes of an API session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionChange {
    /// The session began.
    Created,
    /// The session got further tokens for its refresh token.
    Refreshed,
    /// The session got a further token for one of its tokens.
    Exchanged,
    /// The session has ended.
    Deleted,
}

/// A change of an API session (docs/protocol/operations.md 4.3, `apiSession`). Its tokens are secrets, and are not told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiSessionEvent {
    /// The time.
    pub at: Timestamp,
    /// The change.
    pub change: SessionChange,
    /// The session.
    pub session: Id,
    /// Whether the session has signed tokens (`jwt`) or an opaque one (`legacy`).
    pub is_by_tokens: bool,
    /// The identity.
    pub identity: Id,
    /// The address of the client.
    pub address: String,
    /// Whether a certificate was made for the session.
    pub cert_generated: bool,
}

/// Why many API sessions have ended together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndCause {
    /// This entity was changed or deleted: a signer, a CA, an auth policy.
    Change(Kind, Id),
    /// Their time was over, or that of their certificates.
    Time,
    /// A key that signs tokens was stolen.
    StolenKey,
    /// They ended while the controller was away: their time was over, or what they depend on was changed just before it
    /// stopped.
    Away,
    /// Changes that were followed together, or another cause.
    Other,
}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(kind, id) => write!(f, "the {} {id} was changed or deleted", kind.name()),
            Self::Time => f.write_str("their time was over"),
            Self::StolenKey => f.write_str("a key that signs tokens was stolen"),
            Self::Away => f.write_str("the controller was away"),
            Self::Other => f.write_str("several causes"),
        }
    }
}

/// Many API sessions have ended together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiSessionsEndedEvent {
    /// The time.
    pub at: Timestamp,
    /// Why.
    pub cause: EndCause,
    /// How many have ended.
    pub ended: u64,
    /// How many of them had an event of their own before this one ([`SessionChange::Deleted`]).
    pub told: u64,
}

/// A router connected or disconnected.
#[derive(Debug, Clone, PartialEq)]
pub struct RouterEvent {
    /// The time.
    pub at: Timestamp,
    /// The router.
    pub router: Id,
    /// Whether the router is connected now.
    pub online: bool,
}

/// The changes of a link (docs/protocol/control-plane.md 9.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkChange {
    /// The link was reported for the first time, or under a new iteration.
    New,
    /// The link was reported again.
    Known,
    /// The router at the other end is not connected.
    DisconnectedDestination,
    /// The connections of the link changed.
    Connections,
    /// The link broke.
    Fault,
    /// The link was closed in favour of another one.
    Duplicate,
}

/// A change of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkEvent {
    /// The time.
    pub at: Timestamp,
    /// The link.
    pub link: String,
    /// The router that dialed the link.
    pub source: Id,
    /// The router at the other end of the link.
    pub destination: Id,
    /// The change.
    pub change: LinkChange,
}

/// The changes of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitChange {
    /// The circuit was made.
    Created,
    /// The circuit takes another path.
    PathUpdated,
    /// The circuit has ended.
    Deleted,
    /// An attempt to make the circuit failed.
    Failed,
    /// A circuit of an earlier run was adopted.
    Adopted,
}

/// A change of a circuit.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitEvent {
    /// The time.
    pub at: Timestamp,
    /// The change.
    pub change: CircuitChange,
    /// The circuit.
    pub circuit: String,
    /// The session or the identity that dials.
    pub client: String,
    /// The service.
    pub service: Id,
    /// The terminator; empty if none was chosen.
    pub terminator: Id,
    /// The instance that was dialed.
    pub instance: String,
    /// The routers of the path, in order.
    pub nodes: Vec<Id>,
    /// The links of the path, in order.
    pub links: Vec<String>,
    /// The cost of the path.
    pub path_cost: u32,
    /// How long it took to make the circuit, or how long the circuit lasted.
    pub duration: Duration,
    /// Why the attempt failed (docs/protocol/operations.md 4.3, `failure_cause`).
    pub failure: Option<&'static str>,
    /// The tags of the circuit.
    pub tags: StringMap,
}

/// An identity opened a connection to a router.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectEvent {
    /// The time.
    pub at: Timestamp,
    /// The identity.
    pub identity: Id,
    /// The router.
    pub router: Id,
    /// The address of the client.
    pub source: String,
    /// The address of the router.
    pub destination: String,
}

/// A change among the controllers of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
pub enum ClusterChange {
    /// There is a channel to another controller.
    #[strum(serialize = "peer.connected")]
    PeerConnected,
    /// The channel to another controller has closed.
    #[strum(serialize = "peer.disconnected")]
    PeerDisconnected,
    /// A controller had a channel that is no member, or not any more.
    #[strum(serialize = "peer.not_member")]
    PeerNotMember,
    /// A controller has joined, left, was removed, or has other addresses.
    #[strum(serialize = "members.changed")]
    MembersChanged,
    /// This controller leads now.
    #[strum(serialize = "leadership.gained")]
    LeadershipGained,
    /// This controller leads no more.
    #[strum(serialize = "leadership.lost")]
    LeadershipLost,
    /// This controller knows which one leads.
    #[strum(serialize = "state.has_leader")]
    HasLeader,
    /// This controller knows of none that leads.
    #[strum(serialize = "state.is_leaderless")]
    IsLeaderless,
    /// This controller can change nothing.
    #[strum(serialize = "state.ro")]
    ReadOnly,
    /// This controller can write.
    #[strum(serialize = "state.rw")]
    ReadWrite,
}

/// A change among the controllers of a network, as one of them sees it (docs/protocol/operations.md 4.3, `cluster`).
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterEvent {
    /// The time.
    pub at: Timestamp,
    /// The change.
    pub change: ClusterChange,
    /// The revision of the model.
    pub index: u64,
    /// The controllers that the change is about: one peer, or all members.
    pub peers: Vec<ClusterPeer>,
    /// The controller that leads, if one is known.
    pub leader: Option<Id>,
}

/// A controller in an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterPeer {
    /// Its id.
    pub id: Id,
    /// Its first address for routers.
    pub address: String,
    /// The version of its program; empty if it is not known.
    pub version: String,
    /// The addresses of its APIs: name of the API, and URL.
    pub apis: Vec<(Arc<str>, Arc<str>)>,
}

/// An alert of a router for operators (docs/protocol/control-plane.md 22).
#[derive(Debug, Clone, PartialEq)]
pub struct AlertEvent {
    /// The time.
    pub at: Timestamp,
    /// The router.
    pub router: Id,
    /// The severity, for example `error`.
    pub severity: String,
    /// The message.
    pub message: String,
    /// Details.
    pub details: Vec<String>,
}

/// The bus of events. Clones share it.
#[derive(Debug, Clone)]
pub struct Events {
    sender: broadcast::Sender<Event>,
    /// Events of the start.
    of_start: Arc<Mutex<Vec<Event>>>,
}

/// An item for a listener.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// The next event.
    Event(Event),
    /// The number of events that were missed.
    Missed(u64),
}

/// Receives the events of the start, and those sent after it was made.
#[derive(Debug)]
pub struct Listener {
    of_start: VecDeque<Event>,
    receiver: broadcast::Receiver<Event>,
}

impl Default for Events {
    fn default() -> Self {
        Self { sender: broadcast::channel(BACKLOG).0, of_start: Arc::default() }
    }
}

impl Events {
    /// Sends an event to all listeners.
    pub fn tell(&self, event: Event) {
        // It is no error if nobody listens.
        let _ = self.sender.send(event);
    }

    /// Sends an event about what happened before the start. Listeners that come later get it first, because none can be
    /// there yet.
    pub fn tell_of_start(&self, event: Event) {
        let mut of_start = self.of_start.lock();
        if of_start.len() < MOST_OF_START {
            of_start.push(event.clone());
        }
        self.tell(event);
    }

    /// Whether anybody listens; otherwise events need not be made.
    pub fn has_listeners(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Makes a listener.
    pub fn listen(&self) -> Listener {
        // Under the lock, so that no event of the start comes twice.
        let of_start = self.of_start.lock();
        let receiver = self.sender.subscribe();
        Listener { of_start: of_start.iter().cloned().collect(), receiver }
    }
}

impl Listener {
    /// The next event; none once the network has stopped.
    pub async fn next(&mut self) -> Option<Heard> {
        if let Some(event) = self.of_start.pop_front() {
            return Some(Heard::Event(event));
        }
        match self.receiver.recv().await {
            Ok(event) => Some(Heard::Event(event)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Heard::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn online(router: &str) -> Event {
        Event::Router(RouterEvent { at: Timestamp(1), router: Id::new(router), online: true })
    }

    #[tokio::test]
    async fn a_slow_listener_misses_and_goes_on() {
        let events = Events::default();
        let (mut quick, mut slow) = (events.listen(), events.listen());
        events.tell(online("r1"));
        assert_eq!(quick.next().await, Some(Heard::Event(online("r1"))));
        (0..BACKLOG + 2).for_each(|_| events.tell(online("r2")));
        assert_eq!(slow.next().await, Some(Heard::Missed(3)));
        assert_eq!(slow.next().await, Some(Heard::Event(online("r2"))));
    }

    #[tokio::test]
    async fn whoever_listens_later_hears_first_what_happened_before_the_start() {
        let events = Events::default();
        let mut early = events.listen();
        (0..2 * MOST_OF_START).for_each(|_| events.tell_of_start(online("r1")));
        let mut late = events.listen();
        events.tell(online("r2"));
        for (listener, of_start) in [(&mut early, 2 * MOST_OF_START), (&mut late, MOST_OF_START)] {
            for _ in 0..of_start {
                assert_eq!(listener.next().await, Some(Heard::Event(online("r1"))));
            }
            assert_eq!(listener.next().await, Some(Heard::Event(online("r2"))));
        }
    }
}
