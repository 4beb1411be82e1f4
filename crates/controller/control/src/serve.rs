//! Serves a router from its registration until its channel closes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};
use weft_channel::{
    Behaviour, ChannelHandle, CloseReason, ConnectionParts, Established, Handler, Reading,
    RequestError, UnderlayInfo, UnderlayWaker,
};
use weft_contract::resource::edge_router::sync_status;
use weft_limits::LogLines;
use weft_network::routers::LiveRouter;
use weft_wire::Message;
use weft_wire::edge_ctrl::ServerHello;
use weft_wire::edge_ctrl::data_model::SubscribeToDataModelRequest;

use crate::admitted::admitted;
use crate::data_model::feed;
use crate::making::Making;
use crate::plane::Plane;
use crate::quiescing::Quiescing;
use crate::session::RouterSession;
use crate::traffic::ChannelMetrics;
use crate::{dispatch, ended, legacy, listeners_kept, terminators};

/// Most changes of its terminators that wait, and most that are decided at once.
const WRITES: usize = 4096;

const WRITES_AT_ONCE: usize = 256;

/// Most requests for the data model that wait.
const SUBSCRIPTIONS: usize = 8;

/// Most answers about service sessions that wait.
const ANSWERS: usize = 8;

/// How long a router may take to answer the greeting before the greeting is sent again.
const GREETING: Duration = Duration::from_secs(10);

/// The interval at which the router's own identity is reported as connected, and a report of listeners that came too
/// soon is taken up.
const PRESENCE: Duration = Duration::from_secs(60);

impl RouterSession {
    /// Registers a router and begins to serve it. If it may not be registered, it is dropped, which
    /// closes its channel before anything is read.
    pub fn begin(plane: &Arc<Plane>, router: Arc<LiveRouter>, channel: Established) {
        let (writes, waiting_writes) = mpsc::channel(WRITES);
        let (subscriptions, wanted) = mpsc::channel(SUBSCRIPTIONS);
        let (ended_sessions, asked) = mpsc::channel(ANSWERS);
        let scope = plane.auth.kernel().measures().scope();
        let measured = ChannelMetrics::begin(
            scope,
            &router.id,
            &channel.handle(),
            plane.options.trace.as_ref(),
        );
        let now = Instant::now();
        let session = Arc::new(Self {
            plane: Arc::clone(plane),
            making: Making::new(),
            writes,
            subscriptions,
            ended: ended_sessions,
            resync: Arc::default(),
            doubts: Arc::new(Semaphore::new(1)),
            questions: Arc::default(),
            unfounded: Notify::new(),
            connected: Mutex::default(),
            greeted: Mutex::new(false),
            measured,
            alerts: Mutex::new(LogLines::new(now)),
            malformed: Mutex::new(LogLines::new(now)),
            quiescing: Quiescing::new(now),
            router,
        });
        let router = &session.router;
        if let Err(why) = plane.network.connected(router) {
            tracing::warn!(router = %router.id, %why, "a router is refused and disconnected");
            return;
        }
        // The router may have changed since the gate checked it; later changes find it registered.
        let snapshot = plane.auth.kernel().snapshot();
        let id = router.id.as_str();
        match admitted(&snapshot, id, |known| router.stands_on(known)) {
            Ok(known) => known.unverified_fingerprint.iter().for_each(|new| router.renewed(new)),
            Err(why) => {
                tracing::warn!(router = id, why, "a router is refused and disconnected");
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

    fn end(&self, network: &weft_network::Network, reason: &CloseReason) {
        tracing::info!(router = %self.router.id, %reason, "router disconnected");
        if network.disconnected(&self.router) {
            let is_back = || network.routers().get(self.router.id.as_str()).is_some();
            self.plane.peers.forget(&self.router.id, is_back);
            self.plane.peers.changed(&self.router.id);
        }
    }

    /// Runs all tasks for a router; never returns.
    async fn work(
        self: &Arc<Self>,
        writes: mpsc::Receiver<Message>,
        wanted: mpsc::Receiver<SubscribeToDataModelRequest>,
        asked: mpsc::Receiver<Vec<String>>,
    ) {
        let plane = &self.plane;
        plane.peers.introduce(plane, &self.router);
        plane.network.validate_router(&self.router.id);
        let (online, router) = (plane.auth.kernel().online().clone(), Arc::clone(&self.router));
        let in_step = move |is_in_step: bool| {
            let status = if is_in_step { sync_status::DONE } else { sync_status::IN_PROGRESS };
            online.change_router(&router.id, router.number(), |facts| {
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
            listeners_kept::keep(self),
        );
        std::future::pending().await
    }

    /// Greets an edge router until it answers; then sends keys and opaque sessions.
    async fn greet(self: &Arc<Self>, asked: mpsc::Receiver<Vec<String>>) {
        if !self.is_edge() {
            return;
        }
        let greeting = ServerHello::new(&self.plane.auth.kernel().settings().build.version);
        loop {
            match self.router.channel.request(greeting.greet(), GREETING).await {
                Ok(answer) => {
                    self.on_client_hello(&answer);
                    break;
                }
                // The dispatcher handles a late answer.
                Err(RequestError::Timeout) if *self.greeted.lock() => break,
                Err(RequestError::Timeout | RequestError::TooMany) => {}
                Err(_) => return,
            }
        }
        legacy::feed(self, asked).await;
    }

    /// Reports the router's own identity as connected at intervals
    /// (docs/protocol/edge-control-plane.md 16.1), and takes up a report of link listeners that waits.
    async fn be_present(&self) {
        let mut ticks = tokio::time::interval(PRESENCE);
        loop {
            ticks.tick().await;
            if self.plane.network.settle_listeners(&self.router) {
                self.plane.peers.changed(&self.router.id);
                self.change_facts(|facts| facts.keys = self.router.keys());
            }
            if self.entity().is_some_and(|router| router.is_tunneler_enabled) {
                self.put_identity(&self.router.id, true);
            }
        }
    }

    /// Passes changes to the writer in order, and waits for their outcomes together.
    async fn write(self: &Arc<Self>, mut writes: mpsc::Receiver<Message>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                message = writes.recv(), if under_way.len() < WRITES_AT_ONCE => {
                    let Some(message) = message else { return };
                    let mut write = Box::pin(terminators::handle(Arc::clone(self), message));
                    // The first poll puts the change into the queue of the writer.
                    if futures::poll!(&mut write).is_pending() {
                        under_way.push(write);
                    }
                }
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
            }
        }
    }
}

/// Receives the messages of one router.
struct FromRouter(Arc<RouterSession>);

impl Behaviour for FromRouter {
    fn attach(&self, _: &UnderlayInfo, _: &UnderlayWaker, _: &ChannelHandle) -> ConnectionParts {
        ConnectionParts { handler: Box::new(FromRouter(Arc::clone(&self.0))), outbox: None }
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
