//! The router data model in the controller: routers are sent it once in full, and then change by
//! change (docs/protocol/edge-control-plane.md 4 to 7).
//!
//! ```text
//! published batch -> events -> one change set, encoded once -> log -> feed of each router -> channel
//! ```
//!
//! The index is the revision of the last change that concerns routers; a batch of the writer is one
//! change set. A full state is encoded once, away from the writer, and shared by all routers.
//! Routers that connect a little later are sent the same state, and then the changes since.

pub mod events;
pub(crate) mod feed;
pub mod log;
pub(crate) mod project;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::RwLock;
use tokio::sync::watch;
use weft_auth::Auth;
use weft_kernel::{Notice, Published, Subscription};
use weft_model::{Id, Kind, Revision, Snapshot, Timestamp};
use weft_store::{CommitError, ReadError};
use weft_wire::edge_ctrl::data_model::{ChangeSet, Config, DataState};

use self::log::{Log, LogLimits, Replay};

/// Revisions without effect on routers after which the position is noted in the store.
const NOTE_EVERY: u64 = 500;
/// Longest wait of a router for a controller that knows less, and the pause between two looks.
const BEHIND: Duration = Duration::from_secs(2);
const CAUGHT_UP: Duration = Duration::from_millis(20);
/// A full state is dropped when the changes since exceed one part in this many of its size, or when
/// it was not used for a while: it may be large.
const FULL_SHARE: usize = 4;
const KEEP_FULL: Duration = Duration::from_secs(60);
/// Estimated bytes of an entity in a full state.
const ENTITY_BYTES: usize = 100;

/// The model for routers.
pub struct RouterModel {
    auth: Auth,
    timeline: String,
    state: RwLock<State>,
    /// Held while a full state is encoded.
    encoding: tokio::sync::Mutex<()>,
    changed: watch::Sender<u64>,
    /// Counts changes that may give routers other configs.
    managed: watch::Sender<u64>,
    /// Counts changes of the public keys, which are outside of the chain.
    keys: watch::Receiver<u64>,
    /// Makes encoding fail, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fails: Arc<std::sync::atomic::AtomicBool>,
}

struct State {
    snapshot: Arc<Snapshot>,
    log: Log,
    /// The last encoded full state.
    full: Option<Full>,
    /// The last position in the notes.
    noted: Revision,
    /// Counts restarts of the model, after missed changes or repairs: the position of a router that
    /// was sent something in an earlier epoch is not believed.
    epoch: u64,
}

/// An encoded full state.
struct Full {
    index: u64,
    /// Its keys are of this version or newer.
    keys: u64,
    body: Bytes,
    /// When it was last sent.
    asked: Timestamp,
}

impl Full {
    /// Whether sending it with the changes since is less work than a new one, and it was used
    /// recently.
    fn is_useful(&self, log: &Log, keys: u64, now: Timestamp) -> bool {
        let since = log.bytes_after(self.index);
        let few = since.is_some_and(|bytes| bytes <= self.body.len() / FULL_SHARE);
        few && self.keys == keys && now.since(self.asked) < KEEP_FULL
    }
}

impl RouterModel {
    /// Loads the model of a controller with the log of its last run, and returns the subscription
    /// to follow.
    pub async fn load(
        auth: Auth,
        limits: LogLimits,
    ) -> Result<(Arc<Self>, Subscription), ReadError> {
        let (snapshot, subscription) = auth.kernel().subscribe();
        let store = Arc::clone(&auth.kernel().settings().store);
        let (timeline, head) = (snapshot.timeline().clone(), snapshot.revision());
        let log = match Log::load(store.live(), &timeline, limits)? {
            Some(kept) if kept.complete <= head => {
                match last_effect(&auth, kept.complete, head).await {
                    Some(None) => kept.log,
                    Some(Some(effect)) => Log::at(effect.0, limits),
                    None => Log::at(head.0, limits),
                }
            }
            _ => Log::at(head.0, limits),
        };
        tracing::info!(index = log.index(), revision = %head, "the router data model is loaded");
        log.begin(&timeline, store.live())?;
        log.note_position(head, store.live());
        let (changed, _) = watch::channel(log.index());
        let state = State { snapshot, log, full: None, noted: head, epoch: 0 };
        let model = Self {
            keys: auth.key_changes(),
            #[cfg(any(test, feature = "testing"))]
            fails: Arc::default(),
            auth,
            timeline: timeline.0.to_string(),
            state: RwLock::new(state),
            encoding: tokio::sync::Mutex::new(()),
            changed,
            managed: watch::Sender::new(0),
        };
        Ok((Arc::new(model), subscription))
    }

    /// Follows published batches until the controller stops.
    pub async fn follow(self: Arc<Self>, mut subscription: Subscription) {
        while let Some(notice) = subscription.next().await {
            match notice {
                Notice::Change(published) => self.change(&published),
                Notice::Resync(snapshot) => self.restart(snapshot),
            }
        }
    }

    fn change(&self, published: &Published) {
        let now = self.auth.kernel().now();
        let Published { before, after, changes: sets, .. } = published;
        let changes = events::of_changes(before, after, sets, now);
        let live = self.auth.kernel().settings().store.live();
        let mut state = self.state.write();
        state.snapshot = Arc::clone(&published.after);
        if !changes.is_empty() {
            let index = last_concerning(published).0;
            let full = entities_told(after) * ENTITY_BYTES;
            state.log.push(ChangeSet { index, changes, ..ChangeSet::default() }, full, live);
        }
        let concerns = published.changes.iter().any(|set| events::concerns_routers(set));
        if concerns || published.revision.0 >= state.noted.0 + NOTE_EVERY {
            state.log.note_position(published.revision, live);
            state.noted = published.revision;
        }
        let State { log, full, .. } = &mut *state;
        let keys = self.keys_told();
        full.take_if(|full| !full.is_useful(log, keys, now));
        let index = log.index();
        drop(state);
        self.changed.send_if_modified(|known| std::mem::replace(known, index) != index);
        if sets.iter().any(|set| events::concerns_managed(set)) {
            self.managed.send_modify(|count| *count += 1);
        }
    }

    /// Restarts the model after changes were missed or indexes rebuilt: routers are sent
    /// everything.
    pub fn restart(&self, snapshot: Arc<Snapshot>) {
        let index = snapshot.revision();
        {
            let live = self.auth.kernel().settings().store.live();
            let mut state = self.state.write();
            state.log = state.log.anew(index.0);
            state.snapshot = snapshot;
            state.full = None;
            state.epoch += 1;
            let timeline = state.snapshot.timeline().clone();
            if let Err(problem) = state.log.begin(&timeline, live) {
                tracing::warn!(%problem, "the log of the data model could not be stored: after a restart, routers get the whole model");
            }
            state.log.note_position(index, live);
            state.noted = index;
        }
        self.changed.send_replace(index.0);
        self.managed.send_modify(|count| *count += 1);
    }

    /// The part for logins, and the kernel below it.
    pub(crate) fn auth(&self) -> &Auth {
        &self.auth
    }

    /// The timeline of the indexes.
    pub fn timeline(&self) -> &str {
        &self.timeline
    }

    /// The index of the last change for routers.
    pub fn index(&self) -> u64 {
        self.state.read().log.index()
    }

    /// A receiver that changes with the index.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// A receiver that changes when routers may have other configs.
    pub(crate) fn managed_changes(&self) -> watch::Receiver<u64> {
        self.managed.subscribe()
    }

    /// The configs of a router.
    fn managed(&self, router: &Id) -> Vec<Config> {
        let snapshot = Arc::clone(&self.state.read().snapshot);
        project::managed(&snapshot, router)
    }

    /// A receiver that changes with the public keys.
    pub fn key_changes(&self) -> watch::Receiver<u64> {
        self.keys.clone()
    }

    /// The number of changes of the public keys.
    pub(crate) fn keys_told(&self) -> u64 {
        *self.keys.borrow()
    }

    /// The current public keys, and the names of keys to forget.
    pub fn key_set(&self) -> ChangeSet {
        let made = events::of_keys(self.auth.public_keys());
        let gone = events::without_keys(self.auth.forgotten_keys());
        ChangeSet::synthetic(made.chain(gone).collect())
    }

    /// The messages for a router that claims to have everything up to `position`, or was sent it in
    /// the epoch `sent`; and the present epoch.
    fn replay(&self, position: u64, sent: Option<u64>) -> (Replay, u64) {
        let state = self.state.read();
        let replay = match sent {
            None => state.log.replay_claimed(position),
            Some(epoch) if epoch == state.epoch => state.log.replay(position),
            Some(_) => Replay::Full,
        };
        (replay, state.epoch)
    }

    /// Whether a router that has everything up to an index may know more than this controller: another controller has told
    /// it. It must be sent nothing older, by which rights that were withdrawn would come back.
    async fn is_behind(&self, index: u64) -> bool {
        let (known, at) = {
            let state = self.state.read();
            (state.log.index(), state.snapshot.revision())
        };
        if index <= known {
            return false;
        }
        match self.auth.kernel().settings().store.confirm(at).await {
            Ok(()) => false,
            // What is not for routers moves no index, by which the router would be looked at again.
            Err(CommitError::Stale { head }) => {
                let caught_up = async {
                    while self.state.read().snapshot.revision() < head {
                        tokio::time::sleep(CAUGHT_UP).await;
                    }
                };
                tokio::time::timeout(BEHIND, caught_up).await.is_err()
            }
            Err(_) => true,
        }
    }

    /// The whole model, encoded, with its epoch and the index after which the log continues.
    async fn full(&self) -> Result<Sent, NotEncoded> {
        let _one = self.encoding.lock().await;
        let now = self.auth.kernel().now();
        // Read before the keys, so that the keys may be newer than this version, and never older.
        let keys = self.keys_told();
        let (snapshot, index, epoch) = {
            let mut state = self.state.write();
            let State { snapshot, log, full, epoch, .. } = &mut *state;
            if let Some(full) = full.as_mut().filter(|full| full.is_useful(log, keys, now)) {
                full.asked = now;
                let (index, body) = (full.index, full.body.clone());
                return Ok(Sent { epoch: *epoch, index, keys: full.keys, body });
            }
            (Arc::clone(snapshot), log.index(), *epoch)
        };
        let auth = self.auth.clone();
        let timeline_id = self.timeline.clone();
        #[cfg(any(test, feature = "testing"))]
        let fails = Arc::clone(&self.fails);
        let encode = move || {
            #[cfg(any(test, feature = "testing"))]
            assert!(!fails.load(std::sync::atomic::Ordering::Acquire), "encoding fails");
            let events = events::of_all(&snapshot, auth.public_keys(), now);
            DataState::body_of(events, index, &timeline_id)
        };
        let begun = Instant::now();
        // An empty state must never be sent: the router would take it for a network without
        // entities.
        let body = tokio::task::spawn_blocking(encode).await.map_err(NotEncoded)?;
        tracing::debug!(index, bytes = body.len(), took = ?begun.elapsed(), "full data model encoded");
        self.keep(epoch, Full { index, keys, body: body.clone(), asked: now });
        Ok(Sent { epoch, index, keys, body })
    }

    /// Keeps a full state for other routers, unless the model was restarted while it was encoded.
    fn keep(&self, epoch: u64, full: Full) {
        let mut state = self.state.write();
        if state.epoch == epoch {
            state.full = Some(full);
        }
    }
}

/// The full state was not encoded: the task panicked, or the runtime is stopping.
#[derive(Debug, thiserror::Error)]
#[error("the full data model was not encoded: {0}")]
struct NotEncoded(tokio::task::JoinError);

/// A full state to be sent.
struct Sent {
    epoch: u64,
    index: u64,
    /// Its keys are of this version or newer.
    keys: u64,
    body: Bytes,
}

/// Estimated number of entities in a full state.
fn entities_told(snapshot: &Snapshot) -> usize {
    let kinds = [Kind::Identity, Kind::Service, Kind::Config, Kind::Router, Kind::ServicePolicy];
    kinds.iter().map(|kind| snapshot.table(*kind).len()).sum()
}

/// The revision of the last change set of a batch that may concern routers.
fn last_concerning(published: &Published) -> Revision {
    let behind = published.changes.iter().rev().take_while(|set| !events::concerns_routers(set));
    Revision(published.revision.0.saturating_sub(behind.count() as u64))
}

/// Examines the change sets that the log may lack: the revision of the last one that may concern
/// routers, `Some(None)` if there is none, `None` if the store does not have them any more.
async fn last_effect(auth: &Auth, after: Revision, head: Revision) -> Option<Option<Revision>> {
    let mut effect = None;
    let mut sets = auth.kernel().settings().store.follow(after);
    let mut at = after;
    while at < head {
        let committed = sets.next().await?.ok()?;
        at = committed.revision;
        if at <= head && events::concerns_routers(&committed.change_set) {
            effect = Some(at);
        }
    }
    Some(effect)
}

#[cfg(test)]
mod tests {
    use weft_kernel::Caller;
    use weft_model::Base;
    use weft_model::entity::Service;

    use super::*;
    use crate::testing::auth;

    /// A model with a short log.
    async fn model(auth: &Auth) -> (Arc<RouterModel>, Subscription) {
        let limits = LogLimits { entries: 2, ..LogLimits::default() };
        put(auth, "first").await;
        RouterModel::load(auth.clone(), limits).await.unwrap()
    }

    async fn put(auth: &Auth, name: &str) {
        let base = Base::new(auth.kernel().ids().entity(), auth.kernel().now());
        let service = Service { base, name: name.into(), ..Service::default() };
        let system = Caller::system();
        let made = auth.kernel().decide(&system, move |decision| {
            decision.put(service.clone());
            Ok(())
        });
        made.await.unwrap();
    }

    async fn make(auth: &Auth, model: &RouterModel, subscription: &mut Subscription, name: &str) {
        put(auth, name).await;
        while model.state.read().snapshot.revision() < auth.kernel().snapshot().revision() {
            let Some(Notice::Change(published)) = subscription.next().await else { panic!() };
            model.change(&published);
        }
    }

    #[tokio::test]
    async fn nothing_sent_before_counts_after_the_model_is_taken_anew() {
        let auth = auth();
        let (model, mut subscription) = model(&auth).await;
        let before = model.full().await.unwrap();
        assert!(matches!(model.replay(before.index, Some(before.epoch)).0, Replay::Nothing));
        assert!(matches!(model.replay(before.index, None).0, Replay::Nothing));

        // The model restarts at the same revision while a full state is being encoded.
        model.restart(auth.kernel().snapshot());
        assert_eq!(model.index(), before.index);
        let (index, body) = (before.index, before.body.clone());
        let late = Full { index, keys: before.keys, body, asked: Timestamp(0) };
        model.keep(before.epoch, late);
        assert!(model.state.read().full.is_none());
        assert!(matches!(model.replay(before.index, Some(before.epoch)).0, Replay::Full));
        assert!(matches!(model.replay(before.index, None).0, Replay::Full));

        let after = model.full().await.unwrap();
        assert!(matches!(model.replay(after.index, Some(after.epoch)).0, Replay::Nothing));
        make(&auth, &model, &mut subscription, "one").await;
        assert!(matches!(model.replay(after.index, Some(after.epoch)).0, Replay::Entries(_)));
        assert!(matches!(model.replay(after.index, None).0, Replay::Full));
        assert!(matches!(model.replay(model.index(), None).0, Replay::Nothing));
    }

    #[tokio::test]
    async fn the_log_keeps_its_limits_when_the_model_is_taken_anew() {
        let auth = auth();
        let (model, mut subscription) = model(&auth).await;
        model.restart(auth.kernel().snapshot());
        let (base, epoch) = (model.index(), model.replay(0, None).1);
        for name in ["one", "two"] {
            make(&auth, &model, &mut subscription, name).await;
        }
        assert!(matches!(model.replay(base, Some(epoch)).0, Replay::Entries(_)));
        make(&auth, &model, &mut subscription, "three").await;
        assert!(matches!(model.replay(base, Some(epoch)).0, Replay::Full));
    }
}
