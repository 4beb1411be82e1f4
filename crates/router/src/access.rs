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
mod indexes;
mod inner;
mod judge;
mod keys;
mod live;
mod model;
mod options;
mod policies;
mod queue;
mod revocations;
mod service_sessions;
mod sessions;
mod subscription;
mod token;
mod touched;
mod tunneled;
mod worker;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use binding::FirstParty;
use bytes::Bytes;
use file::LoadError;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
pub(crate) use inner::ManagedConfigs;
use inner::{Inner, Saved};
use keys::Keys;
use model::Model;
pub(crate) use options::AccessOptions;
use parking_lot::{Mutex, RwLock};
use queue::Queue;
use rustls_pki_types::CertificateDer;
use tokio::runtime;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tunneled::Tunneled;
use weft_channel::UnderlayWaker;
use weft_channel::clock::time_of_day;
use weft_circuit::now;
use weft_identity::{LiveIdentity, Verify};
use weft_wire::Message;

use crate::controllers::{Controller, Controllers};
use crate::seam::{Access, AccessEvent, AccessGrant, ApiSession, Refusal, TunnelService, Use};

/// Most events that may wait for a reader; a reader that falls further behind has to begin again.
const EVENTS: usize = 4096;
/// The access half. Clones share it.
#[derive(Clone)]
pub(crate) struct AccessHalf(Arc<Inner>);

impl AccessHalf {
    /// Makes the access half, with the model of the file if there is one.
    pub(crate) fn new(
        options: AccessOptions,
        identity: Arc<LiveIdentity>,
        controllers: Arc<Controllers>,
    ) -> Self {
        let mut model = load(&options);
        model.forget_unmanaged(&options.router_id);
        let own_services = Tunneled::new(&options.router_id, &model);
        let inner = Inner {
            keys: ArcSwap::from_pointee(Keys::of(&model)),
            first_party: ArcSwap::from_pointee(FirstParty::default()),
            sessions: Mutex::default(),
            live: Mutex::default(),
            grants: Mutex::default(),
            service_sessions: Mutex::default(),
            subscription: Mutex::default(),
            indexes: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
            tunneled: watch::Sender::new(own_services.list()),
            own_services: Mutex::new(own_services),
            managed: watch::Sender::new(Arc::new(model.managed(&options.router_id))),
            managed_ids: Mutex::new(model.managed_ids(&options.router_id)),
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
            saving: Mutex::default(),
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

    /// Keeps the model from being written to its file until the returned value is dropped.
    #[cfg(test)]
    pub(crate) fn hold_up_saving(&self) -> impl Sized {
        self.0.saved.lock()
    }

    /// True while a write of the model that the worker has started goes on.
    #[cfg(test)]
    pub(crate) fn is_saving(&self) -> bool {
        self.0.saving.lock().as_ref().is_some_and(|saving| !saving.is_finished())
    }

    /// A controller is connected, and showed these certificates.
    pub(crate) fn connected(
        &self,
        controller: &Arc<Controller>,
        chain: &[CertificateDer<'static>],
    ) {
        self.learn_first_party(chain);
        self.forget(&controller.id);
        self.0.look.notify_one();
    }

    /// A controller is no longer connected.
    pub(crate) fn disconnected(&self, controller: &str) {
        self.forget(controller);
        self.0.look.notify_one();
        self.0.refresh_online();
    }

    /// Forgets what held for a control channel that was closed or replaced.
    fn forget(&self, controller: &str) {
        self.0.subscription.lock().changed(controller);
        self.0.indexes.lock().forget(controller, now());
        self.0.sessions.lock().disconnected(controller);
    }

    /// Learns the authorities of the network from the certificates of a controller
    /// (docs/protocol/edge-control-plane.md 11.3).
    fn learn_first_party(&self, chain: &[CertificateDer<'static>]) {
        let identity = self.0.identity.current();
        let now = time_of_day();
        self.0.first_party.rcu(|known| known.learn(identity.ca(), chain, now));
    }

    /// Checks whether the chain of an SDK may complete a TLS handshake: it leads to an authority of
    /// the data model (docs/protocol/edge-control-plane.md 11.1).
    pub(crate) fn admits_chain(&self, chain: &[CertificateDer<'_>]) -> weft_identity::Result<()> {
        let identity = self.0.identity.current();
        let intermediates: Vec<_> = identity.ca().intermediates().cloned().collect();
        let how = Verify {
            ignore_leaf_validity: true,
            intermediates: &intermediates,
            ..Verify::default()
        };
        self.0.keys.load().clients.verify(chain, how, time_of_day()).map(|_| ())
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

    /// Whether the router is online: it is connected to a controller and has the data model, if it
    /// needs one.
    pub(crate) fn online(&self) -> watch::Receiver<bool> {
        self.0.online.subscribe()
    }

    /// Writes the model to its file if it has changed.
    pub(crate) fn save(&self) {
        self.0.save();
    }

    /// A service session ended.
    pub(crate) fn end_service_session(&self, id: &str) {
        self.0.end_service_sessions([id]);
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
            // An identity that the model never had cannot have been deleted.
            None => session.identity_name.is_none(),
        };
        identity_stands && self.0.live.lock().contains(&session.id)
    }

    fn judge(
        &self,
        session: &ApiSession,
        token: &[u8],
        purpose: Use,
    ) -> Result<AccessGrant, Refusal> {
        judge::judge(&self.0, session, token, purpose, time_of_day())
    }

    fn renew(&self, session: &ApiSession, token: Bytes) -> Result<Arc<ApiSession>, Refusal> {
        authenticate::renew(&self.0, session, &token, time_of_day())
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
