//! What happens in the network, told to whoever listens: routers, links, circuits, connections of
//! identities.
//!
//! The bus is typed and bounded. Nobody who tells an event waits for those who listen; a listener
//! that falls behind is told how many events it missed and goes on with the next one. Changes of
//! the model are followed through [`Kernel::subscribe`](crate::Kernel::subscribe).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use weft_model::{Id, Timestamp};
use weft_wire::StringMap;

/// Events a listener may be behind before it misses some.
const BACKLOG: usize = 4096;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// To a router.
    Router(RouterEvent),
    /// To a link.
    Link(LinkEvent),
    /// To a circuit.
    Circuit(Arc<CircuitEvent>),
    /// An identity connected to a router.
    Connect(ConnectEvent),
    /// A router tells operators something.
    Alert(AlertEvent),
}

/// A router came or went.
#[derive(Debug, Clone, PartialEq)]
pub struct RouterEvent {
    /// When.
    pub at: Timestamp,
    /// The router.
    pub router: Id,
    /// Whether it is connected now.
    pub online: bool,
}

/// What happened to a link (docs/protocol/control-plane.md 9.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkChange {
    /// It was reported for the first time, or in a new incarnation.
    New,
    /// It was reported again.
    Known,
    /// Its other end is not connected.
    DisconnectedDestination,
    /// Its connections changed.
    Connections,
    /// It broke.
    Fault,
    /// It closed in favour of another.
    Duplicate,
}

/// A link came, changed or went.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkEvent {
    /// When.
    pub at: Timestamp,
    /// The link.
    pub link: String,
    /// The router that dialed it.
    pub source: Id,
    /// The router at its other end.
    pub destination: Id,
    /// What happened.
    pub change: LinkChange,
}

/// What happened to a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitChange {
    /// It is up.
    Created,
    /// It takes another path.
    PathUpdated,
    /// It is gone.
    Deleted,
    /// It could not be made; one event for each attempt.
    Failed,
    /// A circuit of an earlier run was taken up.
    Adopted,
}

/// A circuit came, changed or went.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitEvent {
    /// When.
    pub at: Timestamp,
    /// What happened.
    pub change: CircuitChange,
    /// The circuit.
    pub circuit: String,
    /// Session or identity that dials.
    pub client: String,
    /// The service.
    pub service: Id,
    /// The terminator; empty if none was chosen.
    pub terminator: Id,
    /// The instance that was asked for.
    pub instance: String,
    /// The routers of the path, in order.
    pub nodes: Vec<Id>,
    /// The links of the path, in order.
    pub links: Vec<String>,
    /// What the path costs.
    pub path_cost: u32,
    /// How long making it took, or how long it lasted.
    pub duration: Duration,
    /// Why it failed (docs/protocol/operations.md 4.3, `failure_cause`).
    pub failure: Option<&'static str>,
    /// Its tags.
    pub tags: StringMap,
}

/// An identity opened a connection to a router.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectEvent {
    /// When.
    pub at: Timestamp,
    /// The identity.
    pub identity: Id,
    /// The router.
    pub router: Id,
    /// Where it came from.
    pub source: String,
    /// Where it arrived.
    pub destination: String,
}

/// Something a router wants operators to know (docs/protocol/control-plane.md 22).
#[derive(Debug, Clone, PartialEq)]
pub struct AlertEvent {
    /// When.
    pub at: Timestamp,
    /// The router that told it.
    pub router: Id,
    /// For example `error`.
    pub severity: String,
    /// What happened.
    pub message: String,
    /// More about it.
    pub details: Vec<String>,
}

/// The bus. Clones are the same bus.
#[derive(Debug, Clone)]
pub struct Events(broadcast::Sender<Event>);

/// What a listener hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// The next event.
    Event(Event),
    /// So many events were missed.
    Missed(u64),
}

/// Hears events from the moment it was made.
#[derive(Debug)]
pub struct Listener(broadcast::Receiver<Event>);

impl Default for Events {
    fn default() -> Self {
        Self(broadcast::channel(BACKLOG).0)
    }
}

impl Events {
    /// Tells everybody who listens.
    pub fn tell(&self, event: Event) {
        // Nobody listening is not an error.
        let _ = self.0.send(event);
    }

    /// Whether anybody listens: what nobody hears need not be put together.
    pub fn has_listeners(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Listens from now on.
    pub fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

impl Listener {
    /// The next event; none once the network has stopped.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.0.recv().await {
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
}
