//! The identities of SDKs and their rights: the data model, opaque sessions, tokens, decisions.
//!
//! ```text
//!  controller ──> dispatch ──> queue ──> worker ──┬──> model ──> keys, decisions, services of the tunneler
//!                                                 └──> opaque sessions
//!  bindings ──> authenticate, judge, renew  (read the worker's state)
//!  bindings <── events                      (ended sessions, lost rights)
//! ```
//!
//! One worker handles all messages of controllers about the model and about sessions, in order of
//! arrival; readers hold a lock only for a look-up. The model is kept in a file and used as soon as it
//! is loaded, before any controller is reached.

mod authenticate;
mod binding;
mod compare;
mod decide;
mod file;
mod grants;
mod judge;
mod keys;
mod live;
mod model;
mod queue;
mod sessions;
mod subscription;
mod token;
mod tunneled;
mod worker;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures::{
    future::BoxFuture,
    stream::{self, BoxStream},
};
use parking_lot::{Mutex, RwLock};
use rustls_pki_types::CertificateDer;
use tokio::{
    runtime,
    sync::{Notify, broadcast, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use weft_channel::UnderlayWaker;
use weft_config::RouterConfig;
use weft_identity::{LiveIdentity, Verify};
use weft_wire::Message;

use binding::FirstParty;
use file::LoadError;
use keys::Keys;
use live::LiveSessions;
use model::Model;
use queue::Queue;
use sessions::Sessions;
use subscription::Subscription;
use tunneled::Tunneled;

use crate::{
    controllers::{Controller, Controllers},
    seam::{self, Access, AccessEvent, ApiSession, Grant, Refusal, TunnelService, Use},
};

/// Most events that a reader may be behind.
const EVENTS: usize = 4096;
/// How long a service session that ended is remembered, to refuse late binds.
const ENDED_FOR: Duration = Duration::from_secs(300);

/// The options of the access half.
#[derive(Debug, Clone)]
pub(crate) struct AccessOptions {
    /// Id of the router, which is the id of its own identity.
    pub(crate) router_id: String,
    /// True if the data model is needed: the router has an edge or a tunneler.
    pub(crate) required: bool,
    /// The file of the model.
    pub(crate) db: Option<PathBuf>,
    /// The interval at which the model is written.
    pub(crate) save_interval: Duration,
    /// How long an SDK may wait for its session to be announced.
    pub(crate) lookup_timeout: Duration,
}

impl AccessOptions {
    /// The options from a file, for a router of this id.
    pub(crate) fn new(config: &RouterConfig, router_id: &str) -> Self {
        use weft_config::router::Listener;
        // A session is the same at every listener, so that the longest wait counts.
        let lookup = config.listeners.iter().filter_map(|listener| match listener {
            Listener::Edge(edge) => Some(edge.lookup_api_session_timeout),
            _ => None,
        });
        // A listener for SDKs is not opened without the section `edge`.
        let needs = |listener: &Listener| matches!(listener, Listener::Tunnel(_));
        let edge = config.edge.as_ref();
        Self {
            router_id: router_id.to_owned(),
            required: edge.is_some() || config.listeners.iter().any(needs),
            db: edge.map(|edge| edge.db.clone()),
            save_interval: edge.map_or(Duration::from_secs(30), |edge| edge.db_save_interval),
            lookup_timeout: lookup.max().unwrap_or(Duration::from_secs(5)),
        }
    }
}

/// JSON texts by the names of their config types.
pub(crate) type ManagedConfigs = Arc<BTreeMap<String, String>>;

/// The access half. Clones share it.
#[derive(Clone)]
pub(crate) struct AccessHalf(Arc<Inner>);

/// The state that its modules share.
struct Inner {
    options: AccessOptions,
    identity: Arc<LiveIdentity>,
    controllers: Arc<Controllers>,
    model: RwLock<Model>,
    keys: ArcSwap<Keys>,
    first_party: ArcSwap<FirstParty>,
    /// Opaque sessions, as announced.
    sessions: Mutex<Sessions>,
    /// Sessions of open connections.
    live: Mutex<LiveSessions>,
    /// Grants of this router, judged again when the model changes.
    grants: Mutex<grants::Grants>,
    /// Service sessions that ended lately.
    ended: Mutex<HashMap<String, Instant>>,
    subscription: Mutex<Subscription>,
    events: broadcast::Sender<AccessEvent>,
    own_services: Mutex<Tunneled>,
    tunneled: watch::Sender<Arc<Vec<Arc<TunnelService>>>>,
    /// The settings that controllers keep for this router.
    managed: watch::Sender<ManagedConfigs>,
    /// Counts arrivals of keys and sessions that an SDK may be waiting for.
    arrivals: watch::Sender<u64>,
    timeline: watch::Sender<String>,
    online: watch::Sender<bool>,
    queue: Queue,
    /// Notified when the subscription has to be checked.
    look: Notify,
    /// Counts how often a whole model was received.
    taken: AtomicU64,
    /// The model that is in the file.
    saved: Mutex<Saved>,
}

/// Identifies a model that was written to the file. A whole model that was received again may have the
/// position of the one before it and differ from it.
#[derive(Debug, PartialEq, Eq)]
struct Saved {
    timeline: String,
    index: u64,
    taken: u64,
}

impl AccessHalf {
    /// Makes the access half, with the model of the file if there is one.
    pub(crate) fn new(
        options: AccessOptions,
        identity: Arc<LiveIdentity>,
        controllers: Arc<Controllers>,
    ) -> Self {
        let model = load(&options);
        let own_services = Tunneled::new(&options.router_id, &model);
        let inner = Inner {
            keys: ArcSwap::from_pointee(Keys::of(&model)),
            first_party: ArcSwap::from_pointee(FirstParty::default()),
            sessions: Mutex::default(),
            live: Mutex::default(),
            grants: Mutex::default(),
            ended: Mutex::default(),
            subscription: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
            tunneled: watch::Sender::new(own_services.list()),
            own_services: Mutex::new(own_services),
            managed: watch::Sender::new(Arc::new(model.managed(&options.router_id))),
            arrivals: watch::Sender::new(0),
            timeline: watch::Sender::new(model.timeline.clone()),
            online: watch::Sender::new(false),
            queue: Queue::new(),
            look: Notify::new(),
            taken: AtomicU64::new(0),
            saved: Mutex::new(Saved {
                timeline: model.timeline.clone(),
                index: model.index,
                taken: 0,
            }),
            model: RwLock::new(model),
            options,
            identity,
            controllers,
        };
        let access = Self(Arc::new(inner));
        access.identity_changed();
        access
    }

    /// The identity of this router, or its bundle, has changed.
    pub(crate) fn identity_changed(&self) {
        if let Some(client) = self.0.identity.current().client() {
            // This router's certificate was issued by an authority of the network.
            let chain: Vec<_> = client.chain().iter().map(|one| one.der().clone()).collect();
            self.learn_first_party(&chain);
        }
    }

    /// The settings that controllers keep for this router, now and after every change.
    pub(crate) fn managed(&self) -> watch::Receiver<ManagedConfigs> {
        self.0.managed.subscribe()
    }

    /// Starts the worker. To be called once.
    pub(crate) fn begin(
        &self,
        runtime: &runtime::Handle,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let (inner, stop) = (self.0.clone(), stop.clone());
        let work = async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = worker::run(inner) => {}
            }
        };
        tasks.spawn_on(work, runtime);
    }

    /// Queues a controller's message about the model or about sessions. A message without room is returned,
    /// and its connection is resumed when there is room.
    pub(crate) fn deliver(
        &self,
        from: &Arc<Controller>,
        message: Message,
        connection: &UnderlayWaker,
    ) -> Result<(), Message> {
        let bytes = message.wire_len();
        let pushed = self.0.queue.push((from.clone(), message), bytes, connection);
        pushed.map_err(|(_, message)| message)
    }

    /// The number of messages that wait for the worker.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.0.queue.waiting()
    }

    /// Keeps the worker from taking messages until the returned value is dropped.
    #[cfg(test)]
    pub(crate) async fn hold_up(&self) -> impl Sized + use<> {
        self.0.queue.hold_up().await
    }

    /// A controller is connected, and showed these certificates.
    pub(crate) fn connected(
        &self,
        controller: &Arc<Controller>,
        chain: &[CertificateDer<'static>],
    ) {
        self.learn_first_party(chain);
        self.0.subscription.lock().changed(&controller.id);
        self.0.sessions.lock().disconnected(&controller.id);
        self.0.look.notify_one();
    }

    /// A controller is no longer connected.
    pub(crate) fn disconnected(&self, controller: &str) {
        self.0.subscription.lock().changed(controller);
        self.0.sessions.lock().disconnected(controller);
        self.0.look.notify_one();
        self.0.refresh_online();
    }

    /// Learns the authorities of the network from the certificates of a controller
    /// (docs/protocol/edge-control-plane.md 11.3).
    fn learn_first_party(&self, chain: &[CertificateDer<'static>]) {
        let identity = self.0.identity.current();
        let now = SystemTime::now();
        self.0.first_party.rcu(|known| known.learn(identity.ca(), chain, now));
    }

    /// Checks that the chain of an SDK may complete a TLS handshake
    /// (docs/protocol/edge-control-plane.md 11.1).
    pub(crate) fn admits_chain(&self, chain: &[CertificateDer<'_>]) -> weft_identity::Result<()> {
        let identity = self.0.identity.current();
        let intermediates: Vec<_> = identity.ca().intermediates().cloned().collect();
        let how = Verify {
            ignore_leaf_validity: true,
            intermediates: &intermediates,
            ..Verify::default()
        };
        self.0.keys.load().clients.verify(chain, how, SystemTime::now()).map(|_| ())
    }

    /// The index of the model.
    pub(crate) fn index(&self) -> u64 {
        self.0.model.read().index
    }

    /// The timeline and the index of the model.
    pub(crate) fn position(&self) -> (String, u64) {
        let model = self.0.model.read();
        (model.timeline.clone(), model.index)
    }

    /// The timeline of the model, and every change of it.
    pub(crate) fn timeline(&self) -> watch::Receiver<String> {
        self.0.timeline.subscribe()
    }

    /// Whether the router is online: a controller is connected and the model is there.
    pub(crate) fn online(&self) -> watch::Receiver<bool> {
        self.0.online.subscribe()
    }

    /// Writes the model to its file if it has changed.
    pub(crate) fn save(&self) {
        self.0.save();
    }

    /// A service session ended.
    pub(crate) fn end_service_session(&self, id: &str) {
        self.0.end_service_session(id);
    }
}

fn load(options: &AccessOptions) -> Model {
    let Some(path) = &options.db else { return Model::default() };
    match file::load(path) {
        Ok(Some(model)) => {
            tracing::info!(index = model.index, path = %path.display(), "data model loaded");
            model
        }
        Ok(None) => Model::default(),
        Err(problem @ LoadError::Unread(_)) => {
            let path = path.display();
            tracing::warn!(
                %problem, %path,
                "the file of the data model cannot be read; it stays as it is, and the model is \
                 fetched from a controller"
            );
            Model::default()
        }
        Err(problem @ LoadError::Damaged(_)) => {
            let aside = file::set_aside(path);
            let path = path.display();
            match aside {
                Ok(aside) => tracing::warn!(
                    %problem, %path, aside = %aside.display(),
                    "the file of the data model is damaged: it is set aside, and the model is \
                     fetched anew"
                ),
                Err(not_moved) => tracing::warn!(
                    %problem, %path, %not_moved,
                    "the file of the data model cannot be used; the model is fetched from a \
                     controller"
                ),
            }
            Model::default()
        }
    }
}

impl Inner {
    /// Sends an event to the bindings, if there is a reader.
    fn tell(&self, event: AccessEvent) {
        let _ = self.events.send(event);
    }

    fn end_service_session(&self, id: &str) {
        if id.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut ended = self.ended.lock();
        ended.retain(|_, since| now.saturating_duration_since(*since) < ENDED_FOR);
        ended.insert(id.to_owned(), now);
        drop(ended);
        self.tell(AccessEvent::ServiceSessionEnded { service_session: id.to_owned() });
    }

    fn refresh_online(&self) {
        let connected: BTreeSet<_> =
            self.controllers.all().into_iter().map(|one| one.id.clone()).collect();
        let online = if self.options.required {
            let subscription = self.subscription.lock();
            let subscribed = subscription.controller().is_some_and(|id| connected.contains(id));
            subscribed && !self.model.read().timeline.is_empty()
        } else {
            !connected.is_empty()
        };
        self.online.send_if_modified(|known| {
            let changed = *known != online;
            *known = online;
            changed
        });
    }

    fn save(&self) {
        let Some(path) = &self.options.db else { return };
        let mut saved = self.saved.lock();
        let (state, now) = {
            let model = self.model.read();
            let taken = self.taken.load(Ordering::Acquire);
            let now = Saved { timeline: model.timeline.clone(), index: model.index, taken };
            if model.timeline.is_empty() || *saved == now {
                return;
            }
            (model.to_state(), now)
        };
        match file::save(path, &state) {
            Ok(()) => *saved = now,
            Err(problem) => {
                tracing::warn!(
                    %problem, path = %path.display(),
                    "the data model could not be written to its file"
                );
            }
        }
    }
}

impl Access for AccessHalf {
    fn authenticate(
        &self,
        token: Bytes,
        certificates: Vec<Bytes>,
    ) -> BoxFuture<'static, Result<Arc<ApiSession>, Refusal>> {
        let inner = self.0.clone();
        Box::pin(async move { authenticate::authenticate(&inner, &token, certificates).await })
    }

    fn stands(&self, session: &ApiSession) -> bool {
        let identity_stands = match self.0.model.read().identities.get(&session.identity) {
            Some(identity) => !identity.disabled,
            // An identity that was never known cannot have gone.
            None => session.identity_name.is_none(),
        };
        identity_stands && self.0.live.lock().contains(&session.id)
    }

    fn judge(&self, session: &ApiSession, token: &[u8], purpose: Use) -> Result<Grant, Refusal> {
        judge::judge(&self.0, session, token, purpose, SystemTime::now())
    }

    fn renew(&self, session: &ApiSession, token: Bytes) -> Result<Arc<ApiSession>, Refusal> {
        authenticate::renew(&self.0, session, &token, SystemTime::now())
    }

    fn events(&self) -> BoxStream<'static, AccessEvent> {
        let reader = self.0.events.subscribe();
        Box::pin(stream::unfold(reader, |mut reader| async move {
            reader.recv().await.ok().map(|event| (event, reader))
        }))
    }

    fn tunnel_services(&self) -> BoxStream<'static, Arc<Vec<Arc<TunnelService>>>> {
        let mut reader = self.0.tunneled.subscribe();
        reader.mark_changed();
        Box::pin(stream::unfold(reader, |mut reader| async move {
            reader.changed().await.ok()?;
            let services = reader.borrow_and_update().clone();
            Some((services, reader))
        }))
    }

    fn admits(&self, chain: &[Bytes]) -> bool {
        let chain: Vec<CertificateDer<'_>> =
            chain.iter().map(|der| CertificateDer::from(der.as_ref())).collect();
        self.admits_chain(&chain).is_ok()
    }
}

/// A refusal of an API session.
fn refused(
    code: weft_wire::edge_ctrl::ErrorCode,
    hint: seam::RetryHint,
    message: impl Into<String>,
) -> Refusal {
    Refusal {
        code: code.0,
        hint,
        message: message.into(),
        failing_checks: Vec::new(),
        circuit: None,
    }
}
