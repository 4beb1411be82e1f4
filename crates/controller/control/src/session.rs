//! One connected router: it is registered, greeted, sent its state, and removed when its channel
//! closes (docs/protocol/control-plane.md 7, docs/protocol/edge-control-plane.md 3).

use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashSet;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};
use weft_channel::Lane;
use weft_kernel::online::RouterFacts;
use weft_limits::LogLines;
use weft_model::Id;
use weft_model::entity::Router;
use weft_network::routers::LiveRouter;
use weft_wire::edge_ctrl::data_model::{ChangeSet, SubscribeToDataModelRequest};
use weft_wire::edge_ctrl::{ClientHello, supports_data_model};
use weft_wire::{Message, ProtoBody as _, WireError, host_port};

use super::data_model::events;
use super::traffic::ChannelMetrics;
use crate::making::Making;
use crate::plane::Plane;
use crate::questions::Questions;
use crate::quiescing::Quiescing;

/// One connected router.
pub struct RouterSession {
    /// The state that all modules share.
    pub plane: Arc<Plane>,
    /// The router.
    pub router: Arc<LiveRouter>,
    /// Circuits in the making, and certificates to be issued.
    pub(crate) making: Making,
    /// Changes of terminators, in order of arrival.
    pub(crate) writes: mpsc::Sender<Message>,
    pub(crate) subscriptions: mpsc::Sender<SubscribeToDataModelRequest>,
    /// Ended service sessions that the router asked about.
    pub ended: mpsc::Sender<Vec<String>>,
    /// Notified when the router wants all opaque sessions again.
    pub resync: Arc<Notify>,
    /// The turn of a list of sessions that waits until it is certain which sessions there are.
    pub(crate) doubts: Arc<Semaphore>,
    /// Questions for service sessions that wait for the same.
    pub(crate) questions: Arc<Mutex<Questions>>,
    /// Notified when terminators without session have to be removed.
    pub(super) unfounded: Notify,
    /// Identities that it reported as connected.
    pub connected: Mutex<HashSet<Id>>,
    /// Whether the router has answered the greeting.
    pub(crate) greeted: Mutex<bool>,
    pub(crate) measured: ChannelMetrics,
    /// Lines of the log about alerts of the router.
    pub(crate) alerts: Mutex<LogLines>,
    /// Lines of the log about messages that could not be decoded.
    pub(crate) malformed: Mutex<LogLines>,
    /// The changes of all terminators of the router, of which one runs at a time.
    pub(crate) quiescing: Quiescing,
}

impl RouterSession {
    /// Whether this is an edge router. Other routers do not take part in edge messages.
    pub fn is_edge(&self) -> bool {
        self.entity().is_some_and(|router| router.is_edge)
    }

    /// The router's entity.
    pub fn entity(&self) -> Option<Arc<Router>> {
        self.plane.auth.kernel().snapshot().get::<Router>(&self.router.id).cloned()
    }

    /// Changes the facts about the router.
    pub(super) fn change_facts(&self, change: impl FnOnce(&mut RouterFacts)) {
        let (online, router) = (self.plane.auth.kernel().online(), &self.router);
        online.change_router(&router.id, router.number(), change);
    }

    /// Notes the router's report whether an identity is connected to it.
    pub fn put_identity(&self, identity: &Id, connected: bool) {
        let (auth, router) = (&self.plane.auth, &self.router);
        let at = (&router.id, router.number());
        auth.kernel().online().put_identity(identity, at, connected, auth.kernel().now());
    }

    /// Handles the router's answer to the greeting (docs/protocol/edge-control-plane.md 3.2).
    pub(crate) fn on_client_hello(&self, message: &Message) {
        let hello = match ClientHello::from_message(message) {
            Ok(hello) => hello,
            Err(problem) => return self.not_understood(message, &problem),
        };
        *self.greeted.lock() = true;
        self.change_facts(|facts| {
            if is_plain(&hello.hostname) {
                facts.hostname.clone_from(&hello.hostname);
            }
            facts.protocols = listeners(&hello);
        });
        if supports_data_model(message) {
            let keys = events::of_keys(self.plane.auth.public_keys());
            let keys = ChangeSet::synthetic(keys.collect());
            self.send(Lane::Default, keys.to_message());
        }
    }

    /// Logs a message that could not be decoded. The connection is closed after the answer, if
    /// there is one.
    pub(crate) fn not_understood(&self, message: &Message, problem: &WireError) {
        let content_type = message.content_type;
        let closes = problem.is_malformed();
        if let Some(left_out) = self.malformed.lock().due(Instant::now()) {
            tracing::warn!(
                router = %self.router.id, content_type, %problem, closes, left_out,
                "a message of a router is not understood"
            );
        }
        if closes {
            self.router.channel.close(format!("malformed message: {problem}"));
        }
    }

    /// Queues a change of a terminator; the message is returned if too many wait.
    pub(crate) fn queue_write(&self, message: Message) -> Result<(), Message> {
        self.writes.try_send(message).map_err(|full| full.into_inner())
    }

    /// Handles a router's subscription to the data model.
    pub fn subscribe(&self, request: SubscribeToDataModelRequest) {
        if self.subscriptions.try_send(request).is_err() {
            tracing::warn!(router = %self.router.id, "a router sends too many requests for the data model; one is dropped");
        }
    }

    /// Sends a message that may be lost if the channel has no room.
    pub fn send(&self, lane: Lane, message: Message) {
        let content_type = message.content_type;
        if let Err(problem) = self.router.channel.try_send_on(lane, message) {
            tracing::warn!(router = %self.router.id, content_type, %problem, "a message to a router was not sent and is lost");
        }
    }

    /// Sends the answer to a request.
    pub fn answer(&self, lane: Lane, request: &Message, reply: Message) {
        self.send(lane, reply.in_reply_to(request));
    }
}

/// The addresses at which a router listens for SDKs, by protocol; the last listener of a protocol
/// counts.
fn listeners(hello: &ClientHello) -> std::collections::BTreeMap<String, String> {
    if !hello.listeners.is_empty() {
        let advertised = hello.listeners.iter().take(MAX_LISTENERS);
        let advertised = advertised.filter_map(|listener| listener.advertise.as_ref());
        return advertised
            .filter_map(|at| url(&at.protocol, &at.hostname, u16::try_from(at.port).ok()?))
            .collect();
    }
    let old = hello.protocols.iter().zip(&hello.protocol_ports).take(MAX_LISTENERS);
    old.filter_map(|(protocol, port)| url(protocol, &hello.hostname, port.parse().ok()?)).collect()
}

/// Listeners of a router for SDKs at most.
const MAX_LISTENERS: usize = 64;
/// Longest host name or protocol in a router's hello, in bytes.
const MAX_NAME: usize = 255;

/// Whether a name in a router's hello is short and has no control characters.
fn is_plain(name: &str) -> bool {
    name.len() <= MAX_NAME && !name.contains(char::is_control)
}

/// A protocol, and the address of its listener as clients are told it; none for one with an invalid name.
fn url(protocol: &str, host: &str, port: u16) -> Option<(String, String)> {
    let is_valid = is_plain(protocol) && is_plain(host);
    is_valid.then(|| (protocol.to_owned(), format!("{protocol}://{}", host_port(host, port))))
}

#[cfg(test)]
mod tests {
    use weft_wire::edge_ctrl::{EdgeAddress, EdgeListener};

    use super::*;

    #[test]
    fn listeners_in_both_forms() {
        let old = ClientHello {
            hostname: "er1".into(),
            protocols: vec!["tls".into(), "ws".into()],
            protocol_ports: vec!["443".into()],
            ..ClientHello::default()
        };
        assert_eq!(listeners(&old)["tls"], "tls://er1:443");
        for (host, url) in [
            ("::1", "tls://[::1]:443"),
            ("[::1]", "tls://[::1]:443"),
            ("10.0.0.1", "tls://10.0.0.1:443"),
        ] {
            let hello = ClientHello { hostname: host.into(), ..old.clone() };
            assert_eq!(listeners(&hello)["tls"], url);
            let address = EdgeAddress {
                protocol: "tls".into(),
                hostname: host.into(),
                port: 443,
                ..EdgeAddress::default()
            };
            let listener = EdgeListener { address: None, advertise: Some(address) };
            let hello = ClientHello { listeners: vec![listener], ..hello };
            assert_eq!(listeners(&hello)["tls"], url);
        }
        assert_eq!(listeners(&old).len(), 1);
        for wrong in ["x".repeat(MAX_NAME + 1), "er1\u{1b}[2J".to_owned()] {
            assert!(listeners(&ClientHello { hostname: wrong, ..old.clone() }).is_empty());
        }
        let many = |number: usize| (0..number).map(|number| number.to_string()).collect();
        let many = ClientHello { protocols: many(1000), protocol_ports: many(1000), ..old.clone() };
        assert_eq!(listeners(&many).len(), MAX_LISTENERS);
        let advertise = EdgeAddress {
            protocol: "tls".into(),
            hostname: "er1.example".into(),
            port: 3022,
            ..EdgeAddress::default()
        };
        let listener = EdgeListener { address: None, advertise: Some(advertise) };
        let new = ClientHello { listeners: vec![listener, EdgeListener::default()], ..old };
        assert_eq!(listeners(&new)["tls"], "tls://er1.example:3022");
        assert_eq!(listeners(&new).len(), 1);
    }
}
