//! One connected router: registered, greeted, fed, and forgotten when its channel closes
//! (docs/protocol/control-plane.md 7, docs/protocol/edge-control-plane.md 3).

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use hashbrown::HashSet;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};
use weft_channel::{
    Behaviour, ChannelHandle, CloseReason, Established, Handler, Lane, Parts, Reading,
    RequestError, UnderlayInfo, UnderlayWaker,
};
use weft_contract::resource::edge_router::sync_status;
use weft_model::Id;
use weft_model::entity::Router;
use weft_wire::edge_ctrl::data_model::{ChangeSet, SubscribeToDataModelRequest};
use weft_wire::edge_ctrl::{ClientHello, ServerHello, supports_data_model};
use weft_wire::{Message, ProtoBody, WireError};

use super::Plane;
use super::data_model::{events, feed};
use super::traffic::Measured;
use super::{ctrl_listeners, dispatch, ended, gate, legacy, terminators};
use crate::network::routers::LiveRouter;
use crate::online::RouterFacts;

/// Circuits a router may have in the making.
const REQUESTS: usize = 1024;
/// Changes of its terminators that may wait, and those decided at once.
const WRITES: usize = 4096;
const WRITES_AT_ONCE: usize = 256;
/// Requests for the data model that may wait.
const SUBSCRIPTIONS: usize = 8;
/// Answers about service sessions that may wait.
const ANSWERS: usize = 64;
/// How long a router may take to answer the greeting before it is greeted again.
const GREETING: Duration = Duration::from_secs(10);
/// How often it is said again that the router's own identity is connected.
const PRESENCE: Duration = Duration::from_secs(60);

/// One connected router.
pub(crate) struct Session {
    pub(crate) plane: Arc<Plane>,
    pub(crate) router: Arc<LiveRouter>,
    /// Room for circuits in the making.
    pub(crate) requests: Arc<Semaphore>,
    /// Changes of terminators, in the order they came.
    writes: mpsc::Sender<Message>,
    subscriptions: mpsc::Sender<SubscribeToDataModelRequest>,
    /// Service sessions that the router asked about and that have ended.
    pub(super) ended: mpsc::Sender<Vec<String>>,
    /// The router wants all opaque sessions again.
    pub(crate) resync: Notify,
    /// Terminators are to be removed that stand on no session any more.
    pub(super) unfounded: Notify,
    /// Identities that it said are connected.
    pub(crate) connected: Mutex<HashSet<Id>>,
    /// Whether the router has answered the greeting.
    greeted: Mutex<bool>,
    measured: Measured,
}

impl Session {
    /// Registers a router and begins to serve it; a router that may not be registered is dropped,
    /// which closes its channel before anything of it is read.
    pub(crate) fn begin(plane: &Arc<Plane>, router: Arc<LiveRouter>, channel: Established) {
        let (writes, waiting_writes) = mpsc::channel(WRITES);
        let (subscriptions, wanted) = mpsc::channel(SUBSCRIPTIONS);
        let (ended_sessions, asked) = mpsc::channel(ANSWERS);
        let scope = plane.controller.measures().scope();
        let measured =
            Measured::begin(scope, &router.id, &channel.handle(), plane.options.trace.as_ref());
        let session = Arc::new(Self {
            plane: Arc::clone(plane),
            requests: Arc::new(Semaphore::new(REQUESTS)),
            writes,
            subscriptions,
            ended: ended_sessions,
            resync: Notify::new(),
            unfounded: Notify::new(),
            connected: Mutex::default(),
            greeted: Mutex::new(false),
            measured,
            router,
        });
        let router = &session.router;
        if let Err(why) = plane.network.connected(router) {
            tracing::warn!(router = %router.id, %why, "router refused");
            return;
        }
        // What changed since the gate looked: later changes find the router registered.
        let snapshot = plane.controller.snapshot();
        let id = router.id.as_str();
        match gate::admitted(&snapshot, id, |known| router.stands_on(known)) {
            Ok(known) => known.unverified_fingerprint.iter().for_each(|new| router.renewed(new)),
            Err(why) => {
                tracing::warn!(router = id, why, "router refused");
                plane.network.disconnected(router);
                return;
            }
        }
        tracing::info!(router = %router.id, version = %router.version.version, "router connected");
        let handle = channel.start(Arc::new(FromRouter(Arc::clone(&session))));
        let closed = handle.closed();
        let (network, ended) = (plane.network.clone(), Arc::clone(&session));
        plane.network.spawn(async move {
            tokio::select! {
                reason = closed => ended.end(&network, &reason),
                () = ended.work(waiting_writes, wanted, asked) => {}
            }
        });
    }

    /// Whether this is an edge router: only those take part in edge messages.
    pub(crate) fn is_edge(&self) -> bool {
        self.entity().is_some_and(|router| router.is_edge)
    }

    /// The router's entity.
    pub(crate) fn entity(&self) -> Option<Arc<Router>> {
        self.plane.controller.snapshot().get::<Router>(&self.router.id).cloned()
    }

    /// Changes what there is to see of the router.
    pub(super) fn change_facts(&self, change: impl FnOnce(&mut RouterFacts)) {
        let (online, router) = (self.plane.controller.online(), &self.router);
        online.change_router(&router.id, router.connection, change);
    }

    /// The router tells whether an identity has a connection to it.
    pub(super) fn put_identity(&self, identity: &Id, connected: bool) {
        let (controller, router) = (&self.plane.controller, &self.router);
        let at = (&router.id, router.connection);
        controller.online().put_identity(identity, at, connected, controller.now());
    }

    fn end(&self, network: &crate::network::Network, reason: &CloseReason) {
        tracing::info!(router = %self.router.id, %reason, "router disconnected");
        if network.disconnected(&self.router) {
            let is_back = || network.routers().get(self.router.id.as_str()).is_some();
            self.plane.peers.forget(&self.router.id, is_back);
            self.plane.peers.changed(&self.router.id);
        }
    }

    /// Everything that is done for a router of its own accord; never ends.
    async fn work(
        self: &Arc<Self>,
        writes: mpsc::Receiver<Message>,
        wanted: mpsc::Receiver<SubscribeToDataModelRequest>,
        asked: mpsc::Receiver<Vec<String>>,
    ) {
        let plane = &self.plane;
        plane.peers.introduce(plane, &self.router);
        plane.network.validate_router(&self.router.id);
        let (online, router) = (plane.controller.online().clone(), Arc::clone(&self.router));
        let in_step = move |is_in_step: bool| {
            let status = if is_in_step { sync_status::DONE } else { sync_status::IN_PROGRESS };
            online.change_router(&router.id, router.connection, |facts| {
                status.clone_into(&mut facts.sync_status);
            });
        };
        let model = Arc::clone(&plane.model);
        tokio::join!(
            self.greet(asked),
            self.write(writes),
            feed::run(model, self.router.id.clone(), self.router.channel.clone(), wanted, in_step),
            self.be_present(),
            ended::remove_unfounded(self),
            ctrl_listeners::keep(self),
            plane.network.recount(&self.router),
        );
        std::future::pending().await
    }

    /// Greets an edge router until it answers; then it is told keys and opaque sessions.
    async fn greet(self: &Arc<Self>, asked: mpsc::Receiver<Vec<String>>) {
        if !self.is_edge() {
            return;
        }
        let greeting = ServerHello::new(&self.plane.controller.settings().build.version);
        loop {
            match self.router.channel.request(greeting.greet(), GREETING).await {
                Ok(answer) => {
                    self.on_client_hello(&answer);
                    break;
                }
                // A late answer comes by way of the dispatcher.
                Err(RequestError::Timeout) if *self.greeted.lock() => break,
                Err(RequestError::Timeout | RequestError::TooMany) => {}
                Err(_) => return,
            }
        }
        legacy::feed(self, asked).await;
    }

    /// The router answers the greeting (docs/protocol/edge-control-plane.md 3.2).
    pub(crate) fn on_client_hello(&self, message: &Message) {
        let hello = match ClientHello::from_message(message) {
            Ok(hello) => hello,
            Err(problem) => return self.not_understood(message, &problem),
        };
        *self.greeted.lock() = true;
        self.change_facts(|facts| {
            facts.hostname.clone_from(&hello.hostname);
            facts.protocols = listeners(&hello);
        });
        if supports_data_model(message) {
            let keys = events::of_keys(self.plane.controller.public_keys());
            let keys = ChangeSet::synthetic(keys.collect());
            self.send(Lane::Default, keys.to_message());
        }
    }

    /// Says now and then that the router's own identity is connected
    /// (docs/protocol/edge-control-plane.md 16.1).
    async fn be_present(&self) {
        let mut ticks = tokio::time::interval(PRESENCE);
        loop {
            ticks.tick().await;
            if self.entity().is_some_and(|router| router.is_tunneler_enabled) {
                self.put_identity(&self.router.id, true);
            }
        }
    }

    /// Says that a message was not understood. The connection of a router that sends what does not
    /// follow its encoding is closed, behind the answer if there is one.
    pub(crate) fn not_understood(&self, message: &Message, problem: &WireError) {
        let content_type = message.content_type;
        let closes = problem.is_malformed();
        tracing::warn!(
            router = %self.router.id, content_type, %problem, closes,
            "message of a router not understood"
        );
        if closes {
            self.router.channel.close(format!("malformed message: {problem}"));
        }
    }

    /// Queues a change of a terminator; false if too many wait.
    pub(crate) fn queue_write(&self, message: Message) -> Result<(), Message> {
        self.writes.try_send(message).map_err(|full| full.into_inner())
    }

    /// The router wants the data model.
    pub(crate) fn subscribe(&self, request: SubscribeToDataModelRequest) {
        if self.subscriptions.try_send(request).is_err() {
            tracing::warn!(router = %self.router.id, "too many requests for the data model, one is dropped");
        }
    }

    /// Hands changes to the writer in the order they came, and waits for their outcomes together.
    async fn write(self: &Arc<Self>, mut writes: mpsc::Receiver<Message>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                message = writes.recv(), if under_way.len() < WRITES_AT_ONCE => {
                    let Some(message) = message else { return };
                    let mut write = Box::pin(terminators::handle(Arc::clone(self), message));
                    // The first poll puts the change into the writer's queue.
                    if futures::poll!(&mut write).is_pending() {
                        under_way.push(write);
                    }
                }
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
            }
        }
    }

    /// Sends what may be lost if the router does not take it in time.
    pub(crate) fn send(&self, lane: Lane, message: Message) {
        let content_type = message.content_type;
        if let Err(problem) = self.router.channel.try_send_on(lane, message) {
            tracing::warn!(router = %self.router.id, content_type, %problem, "message not sent");
        }
    }

    /// Answers a request.
    pub(crate) fn answer(&self, lane: Lane, request: &Message, reply: Message) {
        self.send(lane, reply.in_reply_to(request));
    }
}

/// Where a router listens for SDKs, by protocol: the last listener of a protocol counts.
fn listeners(hello: &ClientHello) -> std::collections::BTreeMap<String, String> {
    if !hello.listeners.is_empty() {
        let advertised = hello.listeners.iter().filter_map(|listener| listener.advertise.as_ref());
        return advertised
            .map(|at| {
                (at.protocol.clone(), format!("{}://{}:{}", at.protocol, at.hostname, at.port))
            })
            .collect();
    }
    let old = hello.protocols.iter().zip(&hello.protocol_ports);
    old.map(|(protocol, port)| {
        (protocol.clone(), format!("{protocol}://{}:{port}", hello.hostname))
    })
    .collect()
}

/// Takes the messages of one router.
struct FromRouter(Arc<Session>);

impl Behaviour for FromRouter {
    fn attach(&self, _: &UnderlayInfo, _: &UnderlayWaker, _: &ChannelHandle) -> Parts {
        Parts { handler: Box::new(FromRouter(Arc::clone(&self.0))), outbox: None }
    }
}

impl Handler for FromRouter {
    fn on_message(&mut self, message: Message, _: &ChannelHandle) -> Reading {
        dispatch::dispatch(&self.0, message);
        Reading::Continue
    }

    fn on_heartbeat(&mut self, rtt: Duration) {
        self.0.measured.round_trip(rtt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::edge_ctrl::{EdgeAddress, EdgeListener};

    #[test]
    fn listeners_in_both_forms() {
        let old = ClientHello {
            hostname: "er1".into(),
            protocols: vec!["tls".into(), "ws".into()],
            protocol_ports: vec!["443".into()],
            ..ClientHello::default()
        };
        assert_eq!(listeners(&old)["tls"], "tls://er1:443");
        assert_eq!(listeners(&old).len(), 1);
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
