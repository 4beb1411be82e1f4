//! The state that the modules of the access half share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;
use weft_circuit::now;
use weft_identity::LiveIdentity;
use weft_model::access::Posture;

use super::binding::FirstParty;
use super::file;
use super::grants::Grants;
use super::indexes::Indexes;
use super::keys::Keys;
use super::live::LiveSessions;
use super::model::Model;
use super::options::AccessOptions;
use super::queue::Queue;
use super::service_sessions::ServiceSessions;
use super::sessions::Sessions;
use super::subscription::Subscription;
use super::tunneled::Tunneled;
use crate::controllers::Controllers;
use crate::seam::{AccessEvent, TunnelService};

/// The configs that controllers keep for this router: JSON texts by the names of their config
/// types.
pub(crate) type ManagedConfigs = Arc<BTreeMap<String, String>>;

/// The state that the modules of the access half share.
pub(super) struct Inner {
    pub(super) options: AccessOptions,
    pub(super) identity: Arc<LiveIdentity>,
    pub(super) controllers: Arc<Controllers>,
    pub(super) model: RwLock<Model>,
    pub(super) keys: ArcSwap<Keys>,
    pub(super) first_party: ArcSwap<FirstParty>,
    /// Opaque sessions, as announced.
    pub(super) sessions: Mutex<Sessions>,
    /// Sessions of open connections.
    pub(super) live: Mutex<LiveSessions>,
    /// Grants of this router, judged again when the model changes.
    pub(super) grants: Mutex<Grants>,
    /// Service sessions in use, and those that ended lately.
    pub(super) service_sessions: Mutex<ServiceSessions>,
    pub(super) subscription: Mutex<Subscription>,
    pub(super) indexes: Mutex<Indexes>,
    pub(super) events: broadcast::Sender<AccessEvent>,
    pub(super) own_services: Mutex<Tunneled>,
    pub(super) tunneled: watch::Sender<Arc<Vec<Arc<TunnelService>>>>,
    /// The settings that controllers keep for this router.
    pub(super) managed: watch::Sender<ManagedConfigs>,
    /// The ids of the configs with these settings.
    pub(super) managed_ids: Mutex<BTreeSet<String>>,
    /// Counts arrivals of keys and sessions that an SDK may be waiting for.
    pub(super) arrivals: watch::Sender<u64>,
    pub(super) timeline: watch::Sender<String>,
    pub(super) online: watch::Sender<bool>,
    pub(super) queue: Queue,
    /// Notified when the subscription has to be checked.
    pub(super) look: Notify,
    /// Counts how often a whole model was received.
    pub(super) taken: AtomicU64,
    /// The model that is in the file.
    pub(super) saved: Mutex<Saved>,
    /// The last write of the model that the worker has started.
    pub(super) saving: Mutex<Option<JoinHandle<()>>>,
}

/// Identifies a model that was written to the file. Timeline and index alone do not identify it: a
/// whole model that is received again may have the timeline and the index of the former model and
/// other contents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) timeline: String,
    pub(super) index: u64,
    pub(super) taken: u64,
}

impl Inner {
    /// Sends an event to the bindings, if there is a reader.
    pub(super) fn tell(&self, event: AccessEvent) {
        let _ = self.events.send(event);
    }

    /// How posture checks count for clients, whose posture data goes to controllers. Controllers of weft judge it when
    /// they make a service session, a terminator or a circuit, and end the service sessions whose checks no longer
    /// pass. Other controllers leave the checks of sessions by token to routers, where they fail without data
    /// (docs/protocol/edge-control-plane.md 12.1).
    pub(super) fn posture_of_clients(&self) -> Posture<'static> {
        match self.controllers.all().iter().all(|controller| controller.is_of_weft()) {
            true => Posture::Ignored,
            false => Posture::Unknown,
        }
    }

    /// Ends service sessions, and tells the bindings of those in use.
    pub(super) fn end_service_sessions<'a>(&self, ids: impl IntoIterator<Item = &'a str>) {
        let ended = self.service_sessions.lock().end(ids, now());
        for (session, service_sessions) in ended {
            self.tell(AccessEvent::ServiceSessionsEnded { session, service_sessions });
        }
    }

    pub(super) fn refresh_online(&self) {
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

    pub(super) fn save(&self) {
        let Some(path) = &self.options.db else { return };
        let mut saved = self.saved.lock();
        let (model, taken) = {
            let model = self.model.read();
            (model.clone(), self.taken.load(Ordering::Acquire))
        };
        let now = Saved { timeline: model.timeline.clone(), index: model.index, taken };
        if model.timeline.is_empty() || *saved == now {
            return;
        }
        match file::save(path, &model) {
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
