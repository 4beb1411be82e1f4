//! Decides which router is told of which sessions.
//!
//! ```text
//! notices of sessions --+                      +--> `Pending` of a router --> its feed
//!                       +--> [`Book`], one task+--> `Pending` of another
//! changes of the model -+
//! ```
//!
//! A router is told of a session only while edge router policies let the session's identity use the
//! router. Each session is encoded once. The notices to each router depend on three things that
//! change together, under one lock: the sessions, the snapshot with the policies, and the
//! identities that each connected router serves in that snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;
use roaring::RoaringBitmap;
use weft_auth::Auth;
use weft_auth::sessions::{LegacySession, SessionNotice, SessionSubscription};
use weft_kernel::{Notice, Published, Subscription};
use weft_model::entity::{EdgeRouterPolicy, Identity, Router, ServiceSession};
use weft_model::{Change, Entity, Id, Kind, Snapshot};
use weft_wire::edge_ctrl::AddedSessions;

use super::announced::{AnnouncedSession, EndedTogether, Say};
use super::pending::{Batch, Pause, Pending, Together};
use super::shelves::{Row, Shelves};

/// A change that concerns more sessions of a router than this is told by telling everything again.
const BULK: usize = 4096;
/// Identities that are examined while the lock is held once.
const SCAN: usize = 10_000;
/// Ended service sessions that all routers are told of while the lock is held once: with 2,000
/// routers it takes some 10 ms, for which the requests of routers wait.
const ENDS: usize = 50;
/// Ended sessions that all routers are told of while the lock is held once. Routers share a list of
/// them.
const ENDS_TOGETHER: usize = 500;
/// Fewer sessions than this are no list: they are told in one message with others that ended meanwhile.
const LEAST_TOGETHER: usize = 32;
/// Lists of sessions that ended together, for routers that may be used by different identities. The
/// other routers get lists of their own.
const LISTS: usize = 16;

/// Sessions, routers, and which router is told of which session.
pub(crate) struct Book {
    controller: Auth,
    state: RwLock<State>,
    /// Number of attached routers.
    attached: AtomicUsize,
}

struct State {
    /// The snapshot whose policies count.
    snapshot: Arc<Snapshot>,
    sessions: HashMap<Id, Known>,
    identities: HashMap<Id, Own>,
    shelves: Shelves,
    /// Number of sessions that were ever added.
    numbers: u64,
    /// Feeds by number of the router's connection.
    feeds: HashMap<u64, Feed>,
    /// Notices that wait for all of them.
    together: Together,
}

struct Known {
    told: Arc<AnnouncedSession>,
    /// The ordinal of the identity; none while the snapshot does not have it.
    ordinal: Option<u32>,
}

/// The sessions of an identity.
#[derive(Default)]
struct Own {
    ordinal: Option<u32>,
    sessions: Vec<Id>,
}

/// A connected router.
struct Feed {
    router: Id,
    ordinal: Option<u32>,
    /// Ordinals of the identities that may use the router.
    allowed: RoaringBitmap,
    pending: Arc<Pending>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.pending.close();
    }
}

/// The notices to a router over one connection; dropping it ends them.
pub(super) struct Attached {
    book: Arc<Book>,
    connection: u64,
    pending: Arc<Pending>,
    pause: Pause,
    /// Sessions with this number or a higher one are newer, and come as notices.
    later: u64,
}

impl Attached {
    /// The next notices, about `most` sessions at most; none if the router has to be told everything
    /// again.
    pub(super) async fn next(&mut self, most: usize) -> Option<Batch> {
        self.pause.over().await;
        let batch = self.pending.next(most).await?;
        let ended: usize = batch.ended.iter().map(|ended| ended.sessions.len()).sum();
        let sessions = ended + batch.removed.len() + batch.added.len() + batch.updated.len();
        let routers = self.book.attached.load(Ordering::Relaxed);
        self.pause.begin(sessions >= most, routers);
        Some(batch)
    }

    /// Notes that all sessions of the router were written.
    pub(super) fn reported(&self) {
        self.pending.reported();
    }

    /// Writes sessions that the router may know and that existed when it was attached, from a place
    /// on, until the message is full or enough was examined.
    pub(super) fn write(&self, from: Place, message: &mut AddedSessions, full: usize) -> Written {
        self.book.state.read().write(self, from, message, full)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.book.attached.fetch_sub(1, Ordering::Relaxed);
        // The router may have been attached again meanwhile.
        let mut state = self.book.state.write();
        let is_own = |feed: &Feed| Arc::ptr_eq(&feed.pending, &self.pending);
        if state.feeds.get(&self.connection).is_some_and(is_own) {
            state.feeds.remove(&self.connection);
        }
    }
}

/// A place among the sessions of a router: an ordinal of an identity, and the number of its first
/// session that was not written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    ordinal: u32,
    number: u64,
}

/// The result of writing sessions.
#[derive(Debug)]
pub(super) enum Written {
    /// There may be more, from this place on.
    More(Place),
    /// All are written.
    All,
    /// The router is too far behind.
    Behind,
}

impl Book {
    /// A book of the current sessions, and the task that follows the changes.
    pub(crate) fn open(controller: Auth) -> (Arc<Self>, impl Future<Output = ()> + Send) {
        // The subscription begins before the sessions are listed, so that none is missed.
        let notices = controller.sessions().subscribe();
        let (snapshot, changes) = controller.subscribe();
        let mut state = State {
            snapshot,
            sessions: HashMap::new(),
            identities: HashMap::new(),
            shelves: Shelves::default(),
            numbers: 0,
            feeds: HashMap::new(),
            together: Together::default(),
        };
        controller.legacy_sessions().into_iter().for_each(|it| state.put(it));
        let (state, attached) = (RwLock::new(state), AtomicUsize::new(0));
        let book = Arc::new(Self { controller, state, attached });
        let following = Arc::clone(&book).follow(notices, changes);
        (book, following)
    }

    async fn follow(self: Arc<Self>, mut notices: SessionSubscription, mut changes: Subscription) {
        loop {
            tokio::select! {
                notice = notices.next() => match notice {
                    Some(notice) => self.on_notice(notice).await,
                    None => return,
                },
                change = changes.next() => match change {
                    Some(Notice::Change(published)) => self.state.write().on_change(&published),
                    Some(Notice::Resync(snapshot)) => self.start_over(Some(snapshot)),
                    None => return,
                },
            }
        }
    }

    async fn on_notice(&self, notice: SessionNotice) {
        match notice {
            SessionNotice::Added(session) | SessionNotice::Updated(session) => {
                let shown = self.controller.legacy_session(&session);
                let mut state = self.state.write();
                match shown {
                    Some(shown) => state.put(shown),
                    // The session lacks a factor now, so that for routers it has ended.
                    None => state.remove(std::slice::from_ref(&session.base.id)),
                }
            }
            SessionNotice::Removed(ended) => {
                for some in ended.chunks(ENDS_TOGETHER) {
                    self.state.write().remove(some);
                    tokio::task::yield_now().await;
                }
            }
            SessionNotice::ServiceRemoved(ended) => {
                for some in ended.chunks(ENDS) {
                    self.state.write().services_ended(some);
                    tokio::task::yield_now().await;
                }
            }
            SessionNotice::Resync => self.start_over(None),
        }
    }

    /// Changes were missed, or most sessions have ended: all routers are told everything again.
    fn start_over(&self, snapshot: Option<Arc<Snapshot>>) {
        // Opening the tokens of all sessions takes long: routers do not wait for it.
        let sessions = self.controller.legacy_sessions();
        let mut state = self.state.write();
        if let Some(snapshot) = snapshot {
            state.snapshot = snapshot;
        }
        state.feeds.clear();
        state.sessions.clear();
        state.identities.clear();
        state.shelves.clear();
        sessions.into_iter().for_each(|it| state.put(it));
    }

    /// Attaches a connected router, so that it is told of changes from now on; an earlier
    /// attachment of this connection ends.
    pub(super) fn attach(self: &Arc<Self>, router: &Id, connection: u64) -> Attached {
        let mut state = self.state.write();
        let later = state.numbers;
        let pending = Arc::new(Pending::new(later, state.together.clone()));
        let feed = Feed {
            router: router.clone(),
            ordinal: state.snapshot.ordinal_of::<Router>(router),
            allowed: state.snapshot.identities_of_router(router),
            pending: Arc::clone(&pending),
        };
        state.feeds.insert(connection, feed);
        drop(state);
        self.attached.fetch_add(1, Ordering::Relaxed);
        Attached { book: Arc::clone(self), connection, pending, pause: Pause::default(), later }
    }

    /// Which of these sessions a router may know.
    pub(super) fn may_know(&self, router: &Id, sessions: &[Id]) -> Vec<bool> {
        let state = self.state.read();
        let allowed = state.snapshot.identities_of_router(router);
        let may = |id: &Id| {
            let ordinal = state.sessions.get(id).and_then(|known| known.ordinal);
            ordinal.is_some_and(|ordinal| allowed.contains(ordinal))
        };
        sessions.iter().map(may).collect()
    }
}

impl State {
    fn write(
        &self,
        attached: &Attached,
        from: Place,
        message: &mut AddedSessions,
        full: usize,
    ) -> Written {
        let Some(feed) = self.feeds.get(&attached.connection) else { return Written::Behind };
        for (at, ordinal) in feed.allowed.range(from.ordinal..).enumerate() {
            if at == SCAN {
                return Written::More(Place { ordinal, number: 0 });
            }
            let first = if ordinal == from.ordinal { from.number } else { 0 };
            let rows = self.shelves.at(ordinal);
            let written = if first == 0 { 0 } else { rows.partition_point(|it| it.number < first) };
            for row in &rows[written..] {
                if message.sessions() >= full {
                    return Written::More(Place { ordinal, number: row.number });
                }
                if row.number < attached.later {
                    message.push(&row.encoded);
                }
            }
        }
        Written::All
    }

    /// Leaves a notice for the routers that an identity may use. A router for which too many wait is
    /// detached, and then told everything again.
    fn tell(&mut self, ordinal: Option<u32>, say: &Say) {
        let Some(ordinal) = ordinal else { return };
        self.feeds.retain(|_, feed| !feed.allowed.contains(ordinal) || feed.pending.tell(say));
    }

    fn put(&mut self, session: LegacySession) {
        let before = self.sessions.get(&session.id);
        let number = before.map_or(self.numbers, |known| known.told.number);
        let told = Arc::new(AnnouncedSession::new(session, number));
        let own = self.identities.entry(told.identity.clone()).or_default();
        if own.sessions.is_empty() {
            own.ordinal = self.snapshot.ordinal_of::<Identity>(&told.identity);
        }
        let ordinal = own.ordinal;
        let known = Known { told: Arc::clone(&told), ordinal };
        let before = self.sessions.insert(told.id.clone(), known);
        if before.as_ref().is_some_and(|before| before.told.encoded == told.encoded) {
            return;
        }
        if let Some(ordinal) = ordinal {
            self.shelves.put(ordinal, Row::new(Arc::clone(&told)));
        }
        let say = match before {
            Some(_) => Say::Updated(told),
            None => {
                self.numbers += 1;
                own.sessions.push(told.id.clone());
                Say::Added([told].into())
            }
        };
        self.tell(ordinal, &say);
    }

    fn remove(&mut self, ids: &[Id]) {
        let mut ended = Vec::new();
        for id in ids {
            let Some(known) = self.sessions.remove(id) else { continue };
            if let Some(ordinal) = known.ordinal {
                self.shelves.remove(ordinal, known.told.number);
            }
            if let Some(own) = self.identities.get_mut(&known.told.identity) {
                own.sessions.retain(|other| other != id);
                if own.sessions.is_empty() {
                    self.identities.remove(&known.told.identity);
                }
            }
            ended.extend(known.ordinal.map(|ordinal| (ordinal, known.told)));
        }
        self.tell_ended(&ended);
    }

    /// Leaves notices of the ends of sessions, each with the ordinal of its identity, for the routers
    /// that the identities may use. Routers that are told of the same ones share a list.
    fn tell_ended(&mut self, ended: &[(u32, Arc<AnnouncedSession>)]) {
        let ordinals: RoaringBitmap = ended.iter().map(|(ordinal, _)| *ordinal).collect();
        let mut lists: Vec<(RoaringBitmap, Say)> = Vec::new();
        self.feeds.retain(|_, feed| {
            let users = &ordinals & &feed.allowed;
            if users.is_empty() {
                return true;
            }
            if let Some((_, say)) = lists.iter().find(|(others, _)| *others == users) {
                return feed.pending.tell(say);
            }
            let own = ended.iter().filter(|(ordinal, _)| users.contains(*ordinal));
            let own: Vec<_> = own.map(|(_, told)| Arc::clone(told)).collect();
            let say = match own.len() {
                ..LEAST_TOGETHER => Say::Removed(own.into()),
                _ => Say::Ended(Arc::new(EndedTogether::new(own.into()))),
            };
            let fits = feed.pending.tell(&say);
            if lists.len() < LISTS {
                lists.push((users, say));
            }
            fits
        });
    }

    /// Tells the routers that identities may use of the end of their service sessions. For a
    /// deleted identity these routers are not known any more, so that all are told.
    fn services_ended(&mut self, ended: &[Arc<ServiceSession>]) {
        let ordinal = |it: &ServiceSession| self.snapshot.ordinal_of::<Identity>(&it.identity_id);
        let ended: Vec<(Option<u32>, &Arc<ServiceSession>)> =
            ended.iter().map(|it| (ordinal(it), it)).collect();
        self.feeds.retain(|_, feed| {
            let may_know =
                |ordinal: Option<u32>| ordinal.is_none_or(|it| feed.allowed.contains(it));
            let own = ended.iter().filter(|(ordinal, _)| may_know(*ordinal));
            let own: Arc<[_]> = own.map(|(_, session)| Arc::clone(session)).collect();
            own.is_empty() || feed.pending.tell(&Say::ServiceRemoved(own))
        });
    }

    fn on_change(&mut self, published: &Published) {
        let changes = || published.changes.iter().flat_map(|set| &set.changes);
        let mut routers: HashSet<Id> = HashSet::new();
        let mut deleted: HashSet<&Id> = HashSet::new();
        // Ordinals are used again: deleted identities are handled first.
        for change in changes() {
            match change {
                Change::Delete(Kind::Identity, id) => {
                    self.identity_deleted(id);
                    deleted.insert(id);
                }
                Change::Put(Entity::EdgeRouterPolicy(policy)) => {
                    routers.extend(routers_of(published, &policy.base.id));
                }
                Change::Delete(Kind::EdgeRouterPolicy, id) => {
                    routers.extend(routers_of(published, id));
                }
                Change::Put(Entity::Router(router)) => {
                    let before = published.before.get::<Router>(&router.base.id);
                    if before.is_none_or(|it| it.role_attributes != router.role_attributes) {
                        routers.insert(router.base.id.clone());
                    }
                }
                Change::Delete(Kind::Router, id) => {
                    routers.insert(id.clone());
                }
                _ => {}
            }
        }
        self.snapshot = Arc::clone(&published.after);
        for change in changes() {
            if let Change::Put(Entity::Identity(identity)) = change {
                let id = &identity.base.id;
                let before = published.before.get::<Identity>(id);
                let before = before.filter(|_| !deleted.contains(id));
                if before.is_none_or(|it| it.role_attributes != identity.role_attributes) {
                    self.identity_changed(id);
                }
            }
        }
        let touched = self.feeds.iter().filter(|(_, feed)| routers.contains(&feed.router));
        let touched: Vec<u64> = touched.map(|(connection, _)| *connection).collect();
        touched.into_iter().for_each(|connection| self.router_changed(connection));
    }

    /// Forgets the sessions and the ordinal of a deleted identity, because the next identity with
    /// this ordinal must not get the sessions.
    fn identity_deleted(&mut self, id: &Id) {
        let Some(ordinal) = self.snapshot.ordinal_of::<Identity>(id) else { return };
        let sessions = self.identities.get(id).map(|own| own.sessions.clone());
        self.remove(&sessions.unwrap_or_default());
        for feed in self.feeds.values_mut() {
            feed.allowed.remove(ordinal);
        }
    }

    /// Handles an identity that is new or in other policies.
    fn identity_changed(&mut self, id: &Id) {
        let Some(ordinal) = self.snapshot.ordinal_of::<Identity>(id) else { return };
        let usable = self.snapshot.routers_of_identity(id);
        let mut sessions: Vec<Arc<AnnouncedSession>> = Vec::new();
        if let Some(own) = self.identities.get_mut(id) {
            let before = own.ordinal.replace(ordinal);
            debug_assert!(before.is_none_or(|before| before == ordinal), "ordinals stay");
            for session in &own.sessions {
                if let Some(known) = self.sessions.get_mut(session) {
                    known.ordinal = Some(ordinal);
                    self.shelves.put(ordinal, Row::new(Arc::clone(&known.told)));
                    sessions.push(Arc::clone(&known.told));
                }
            }
        }
        let sessions: Arc<[Arc<AnnouncedSession>]> = sessions.into();
        self.feeds.retain(|_, feed| {
            let may = feed.ordinal.is_some_and(|router| usable.contains(router));
            let say = match (feed.allowed.contains(ordinal), may) {
                (false, true) => Say::Added(Arc::clone(&sessions)),
                (true, false) => Say::Removed(Arc::clone(&sessions)),
                _ => return true,
            };
            match may {
                true => feed.allowed.insert(ordinal),
                false => feed.allowed.remove(ordinal),
            };
            sessions.is_empty() || feed.pending.tell(&say)
        });
    }

    /// Handles a router that other identities may use now.
    fn router_changed(&mut self, connection: u64) {
        let Some(feed) = self.feeds.get_mut(&connection) else { return };
        feed.ordinal = self.snapshot.ordinal_of::<Router>(&feed.router);
        let allowed = self.snapshot.identities_of_router(&feed.router);
        let now = (&allowed - &feed.allowed) & self.shelves.filled();
        let no_more = (&feed.allowed - &allowed) & self.shelves.filled();
        feed.allowed = allowed;
        let gone = self.sessions_of(&no_more).map(Say::Removed);
        let come = self.sessions_of(&now).map(Say::Added);
        let Some(feed) = self.feeds.get(&connection) else { return };
        let queued = [gone, come].into_iter().all(|say| match say {
            Some(Say::Added(sessions) | Say::Removed(sessions)) if sessions.is_empty() => true,
            Some(say) => feed.pending.tell(&say),
            None => false,
        });
        if !queued {
            self.feeds.remove(&connection);
        }
    }

    /// The sessions of identities; none if they are too many for notices.
    fn sessions_of(&self, ordinals: &RoaringBitmap) -> Option<Arc<[Arc<AnnouncedSession>]>> {
        let mut found = Vec::new();
        for ordinal in ordinals {
            found.extend(self.shelves.at(ordinal).iter().map(|row| Arc::clone(&row.told)));
            if found.len() > BULK {
                return None;
            }
        }
        Some(found.into())
    }
}

/// The routers that a policy selected before or selects now.
fn routers_of(published: &Published, policy: &Id) -> Vec<Id> {
    let side = EdgeRouterPolicy::EDGE_ROUTERS;
    let snapshots = [&published.before, &published.after];
    let members = snapshots.map(|it| it.members_of::<EdgeRouterPolicy>(policy, side));
    members.into_iter().flatten().map(|router| router.id().clone()).collect()
}

#[cfg(test)]
mod tests;
