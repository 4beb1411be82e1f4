//! API sessions with opaque tokens, and the service sessions in them
//! (docs/protocol/auth.md 9, 10.3; docs/protocol/edge-control-plane.md 10).
//!
//! Sessions belong to this controller alone, or to several controllers that share them. They are kept in memory, written to
//! the store shortly after a change, and loaded before routers are answered. Writes and notices are sent under the
//! lock of the tables, so that the store and routers see changes in their order. A client gets its
//! session only once it is on the disk. Otherwise a controller that is killed would end the
//! circuits of a session that it does not know after the restart. Routers are told by
//! [`Sessions::subscribe`]: a router accepts an opaque token only if it was told of it.
//!
//! - `stands`: the credentials that a login depends on; `follow`: ends by changes of the model;
//!   `ends`: ends by time; `room`: ends of sessions beyond the limits of an identity; `half`: sessions that lack a
//!   factor; `whole`: those that lack none;
//! - `former`, `renewed`: connections with a certificate that was replaced;
//! - `tokens`: how tokens are stored; `activity`: times of use; `routers`: sessions as routers know
//!   them; `notices`: what routers are told;
//! - `looks`: looks at all sessions, without the lock;
//! - `removal`: takes sessions out of the tables; `told_ends`: events of removals; `end_progress`: figures of removals;
//!   `ended`: remembers the ids of ended sessions for a while;
//! - `elsewhere`: what other controllers do to sessions that they share;
//! - `services`, `touched`: service sessions; `service_limit`: their number; `clients`: descriptions of clients.

mod activity;
mod clients;
mod elsewhere;
mod end_progress;
mod ended;
mod ends;
pub(crate) mod follow;
mod former;
mod former_tokens;
pub(crate) mod half;
mod looks;
mod notices;
mod removal;
mod renewed;
mod room;
mod routers;
mod service_limit;
mod services;
pub(crate) mod stands;
mod tokens;
mod told_ends;
mod touched;
mod used;
mod whole;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use activity::Activity;
pub use clients::{ClientDescription, SessionClient};
pub use end_progress::EndCounts;
use end_progress::EndProgress;
pub(crate) use ended::EndedSessions;
use former::Former;
pub use half::HalfSessions;
use hashbrown::{HashMap, HashSet};
pub use looks::Counts;
use notices::Notices;
pub use notices::{SessionNotice, SessionSubscription};
use parking_lot::{Mutex, RwLock};
pub use room::PER_IDENTITY;
pub use routers::LegacySession;
use service_limit::ServiceLimit;
use stands::password_print;
pub(crate) use stands::{VIRTUAL, stands};
pub use stands::{key_print, print_of};
pub use tokens::lock_in;
use weft_identity::SealKey;
use weft_kernel::{Caller, Durations, Failure, Kernel, Result};
use weft_model::entity::{ApiSession, SessionCertificate};
use weft_model::{ApplyError, Entity, Id, Kind, Snapshot, Table, Timestamp};
pub use weft_oidc::logins::MAX_PLACES_OF_SOURCE;
use weft_store::{LivePut, ReadError, Sharing, Store};
use whole::Whole;

use super::bearer::unrevoked::Unrevoked;
use super::ending::EndTimes;
use super::password::Hashed;

/// Sessions that are judged, or whose activity is stored, while the lock is held once; most sessions
/// that one notice names.
const SWEEP_BATCH: usize = 500;
/// Sessions that end while the lock is held once. To end one is more work than to look at it.
const PART: usize = 100;
/// Certificates of a session; above that the oldest one is dropped.
pub const CERTIFICATES: usize = 16;

/// Longest wait of a login for the disk.
const PATIENCE: Duration = Duration::from_secs(1);

/// The sessions of this controller. Clones share them.
#[derive(Clone)]
pub struct Sessions(Arc<Inner>);

struct Inner {
    tables: RwLock<Tables>,
    store: Arc<dyn Store>,
    /// Seals tokens that routers are told.
    key: Arc<SealKey>,
    notices: Notices,
    timeout: Duration,
    longest: Option<Duration>,
    /// Longest life of a session that began with a token of an external signer.
    longest_by_token: Duration,
    flush: Duration,
    /// Sessions with every factor that an identity may have.
    per_identity: usize,
    /// Service sessions that an identity may have.
    services: ServiceLimit,
    /// Where sessions wait that lack a factor.
    halves: Arc<dyn HalfSessions>,
    unrevoked: Arc<Unrevoked>,
    /// Where ends of sessions are told as events.
    kernel: OnceLock<Kernel>,
    /// Sessions that ended while the controller was away, until it has begun.
    away: Mutex<Option<u64>>,
    /// When it was last asked what other controllers have done, and whether the answer has come.
    caught_up: tokio::sync::Mutex<Option<(std::time::Instant, bool)>>,
    progress: EndProgress,
}

struct Tables {
    api: Table,
    service: Table,
    /// Service sessions by tokens that OpenZiti gave. A session that begins here has its id as token.
    by_former_token: HashMap<Arc<str>, Id>,
    active: HashMap<Id, Activity>,
    /// Certificates that the clients of sessions replaced.
    former: HashMap<Id, Former>,
    /// Sessions whose last activity is not stored yet.
    used: HashSet<Id>,
    flushed: Timestamp,
    /// The times at which sessions are checked for their end.
    ending: EndTimes,
    /// Sessions that have ended since [`Sessions::take_ended`].
    ended: EndedSessions,
    whole: Whole,
}

impl Tables {
    fn of_identity(&self, identity: &Id) -> Vec<Arc<ApiSession>> {
        self.api.referring(0, identity).filter_map(|it| it.get::<ApiSession>().cloned()).collect()
    }
}

impl Sessions {
    /// Figures of sessions that end together.
    pub fn end_counts(&self) -> EndCounts {
        let unrevoked = &self.0.unrevoked;
        let waiting = (unrevoked.count_waiting() as u64, unrevoked.count_listed() as u64);
        self.0.progress.counts(waiting)
    }

    /// Loads the sessions of the last run, without those that have expired. An identity may have
    /// `per_identity` sessions, and at least [`PER_IDENTITY`]. Sessions that lack a factor wait in `halves`.
    pub fn load(
        store: Arc<dyn Store>,
        key: Arc<SealKey>,
        durations: &Durations,
        per_identity: usize,
        halves: Arc<dyn HalfSessions>,
        now: Timestamp,
    ) -> Result<Self, ReadError> {
        let mut tables = Tables {
            api: Table::new(Kind::ApiSession),
            service: Table::new(Kind::ServiceSession),
            by_former_token: HashMap::new(),
            active: activity::load(store.live())?,
            former: HashMap::new(),
            used: HashSet::new(),
            flushed: now,
            ending: EndTimes::default(),
            ended: EndedSessions::default(),
            whole: Whole::default(),
        };
        let mut stored = Vec::new();
        store.live().load(&mut |entity| stored.push(entity))?;
        for entity in stored {
            let table = match entity.kind() {
                Kind::ApiSession => &mut tables.api,
                Kind::ServiceSession => {
                    former_tokens::note_token(&mut tables.by_former_token, &entity);
                    &mut tables.service
                }
                _ => continue,
            };
            if let Err(error) = table.put(entity) {
                tracing::warn!(%error, "a stored session cannot be loaded and is left out; its client logs in again");
            }
        }
        let tables = RwLock::new(tables);
        let unrevoked = Arc::new(Unrevoked::load(store.live())?);
        let sessions = Self(Arc::new(Inner {
            tables,
            store,
            key,
            notices: Notices::new(),
            timeout: durations.session,
            longest: durations.longest_session,
            longest_by_token: durations.longest_by_token,
            flush: durations.activity_flush,
            per_identity,
            services: ServiceLimit::default(),
            halves,
            unrevoked,
            kernel: OnceLock::new(),
            away: Mutex::new(Some(0)),
            caught_up: tokio::sync::Mutex::default(),
            progress: EndProgress::default(),
        }));
        sessions.drop_stray_activity();
        if sessions.0.store.live().sharing() == Sharing::Alone {
            sessions.drop_strays();
            sessions.drop_locked_out();
        }
        sessions.end_noted();
        sessions.expect_ends(now);
        Ok(sessions)
    }

    /// Tells ends of sessions as events from now on.
    pub(crate) fn tell_events(&self, kernel: &Kernel) {
        let _ = self.0.kernel.set(kernel.clone());
    }

    /// Subscribes to notices from now on.
    pub fn subscribe(&self) -> SessionSubscription {
        self.0.notices.subscribe()
    }

    /// Ended sessions whose tokens are still to be revoked.
    pub(crate) fn unrevoked(&self) -> &Arc<Unrevoked> {
        &self.0.unrevoked
    }

    fn tell(&self, notice: SessionNotice) {
        self.0.notices.tell(notice);
    }

    /// Opens a session with an opaque token. `is_complete` says whether a session has every factor. Refused if the
    /// session contradicts another one.
    pub fn open(
        &self,
        mut session: ApiSession,
        token: &str,
        is_complete: impl Fn(&ApiSession) -> bool,
    ) -> Result<Arc<ApiSession>> {
        lock_in(&mut session, &self.0.key, token);
        self.open_signed(session, is_complete)
    }

    /// Opens a session that has no opaque token.
    pub(crate) fn open_signed(
        &self,
        session: ApiSession,
        is_complete: impl Fn(&ApiSession) -> bool,
    ) -> Result<Arc<ApiSession>> {
        let session = Arc::new(session);
        let is_whole = is_complete(&session);
        {
            let mut tables = self.0.tables.write();
            self.keep(&mut tables, &session)?;
            if is_whole {
                self.tell(SessionNotice::Added(Arc::clone(&session)));
            }
        }
        match is_whole {
            true => self.make_room(&session, is_complete),
            false => self.wait_for_factor(&session, |it| !is_complete(it)),
        }
        Ok(session)
    }

    /// Opens a session that has no opaque token and lacks no factor, unless it is known: then that one is the answer. None if
    /// it may not begin, which is asked while no other session begins or ends.
    pub(crate) fn open_once(
        &self,
        session: ApiSession,
        may_begin: impl FnOnce() -> bool,
        is_complete: impl Fn(&ApiSession) -> bool,
    ) -> Result<Option<Arc<ApiSession>>> {
        let session = Arc::new(session);
        {
            let mut tables = self.0.tables.write();
            let known = tables.api.get(&session.base.id).and_then(|it| it.get::<ApiSession>());
            if let Some(known) = known {
                return Ok(Some(Arc::clone(known)));
            }
            if !may_begin() {
                return Ok(None);
            }
            self.keep(&mut tables, &session)?;
            self.tell(SessionNotice::Added(Arc::clone(&session)));
        }
        self.make_room(&session, is_complete);
        Ok(Some(session))
    }

    /// Puts a session into the table and the store. If the table refuses the session, nothing
    /// changes.
    fn keep(&self, tables: &mut Tables, session: &Arc<ApiSession>) -> Result<()> {
        let how = match tables.api.ordinal(&session.base.id) {
            Some(_) => LivePut::Change,
            None => LivePut::New,
        };
        self.keep_as(tables, session, how)
    }

    fn keep_as(&self, tables: &mut Tables, session: &Arc<ApiSession>, how: LivePut) -> Result<()> {
        let entity = Entity::from(Arc::clone(session));
        tables.api.put(entity.clone()).map_err(contradiction)?;
        let at = self.look_at(tables, session, session.base.updated_at);
        tables.ending.put(&session.base.id, at);
        self.0.store.live().put_as(entity, how);
        Ok(())
    }

    /// Waits until all sessions opened so far are on the disk, for 1 s at most: if the disk fails or
    /// hangs, they are written later. A crash before that ends these sessions.
    pub async fn begun(&self) {
        match tokio::time::timeout(PATIENCE, self.0.store.live().flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "a new session is not on the disk yet; it is written later")
            }
            Err(_) => tracing::warn!(
                "a new session is not written yet, because the disk or etcd is slow; it is written later"
            ),
        }
    }

    /// Waits until all ends so far are on the disk.
    pub async fn kept(&self) -> Result<()> {
        self.0.store.live().flush().await.map_err(|error| {
            tracing::error!(%error, "ended sessions cannot be written to the disk; they may return after a crash");
            Failure::unwritable("sessions cannot be kept")
        })
    }

    /// The session of a token, if it has not expired.
    pub fn by_token(&self, token: &str, now: Timestamp) -> Option<Arc<ApiSession>> {
        let hash = tokens::hash(token);
        let tables = self.0.tables.read();
        let session = tables.api.by_unique(ApiSession::TOKEN, &hash)?.get::<ApiSession>()?;
        (self.end_of(&tables, session) > now).then(|| Arc::clone(session))
    }

    /// A session by id that has not expired.
    pub(crate) fn unexpired(&self, id: &Id, now: Timestamp) -> Option<Arc<ApiSession>> {
        let tables = self.0.tables.read();
        let session = tables.api.get(id)?.get::<ApiSession>()?;
        (self.end_of(&tables, session) > now).then(|| Arc::clone(session))
    }

    /// A session by id.
    pub fn by_id(&self, id: &str) -> Option<Arc<ApiSession>> {
        self.0.tables.read().api.get(&Id::new(id))?.get::<ApiSession>().cloned()
    }

    /// Ids of the config types that a session asked for.
    pub fn config_types(&self, id: &str) -> Option<Vec<Id>> {
        self.by_id(id).map(|session| session.config_types.clone())
    }

    /// Changes a session, and sends a notice about its certificates. None if the session has ended, or
    /// would contradict another one. A change that changes nothing is neither written nor told.
    pub fn change(
        &self,
        id: &Id,
        now: Timestamp,
        change: impl FnOnce(&mut ApiSession),
    ) -> Option<Arc<ApiSession>> {
        let mut tables = self.0.tables.write();
        let before = Arc::clone(tables.api.get(id)?.get::<ApiSession>()?);
        let mut session = (*before).clone();
        change(&mut session);
        if session == *before {
            return Some(before);
        }
        session.base.updated_at = now;
        let changed = Arc::new(session);
        self.keep(&mut tables, &changed).ok()?;
        self.tell(SessionNotice::Updated(Arc::clone(&changed)));
        Some(changed)
    }

    /// Announces that the client of a session changes its own password, so that this session does
    /// not end. A credential that the session set before stays expected while it is the current one,
    /// so that the session outlives a change that is refused.
    pub async fn expect_password(
        &self,
        caller: &Caller,
        snapshot: &Snapshot,
        authenticator: &Id,
        password: &Hashed,
        now: Timestamp,
    ) {
        let print = password_print(&password.password, &password.salt);
        self.expect(caller, snapshot, authenticator, print, now).await;
    }

    /// Announces that the client of a session gets a certificate for another key, so that this session
    /// does not end; `print` is of the new [key](key_print). Controllers that share the session know of it before the change.
    pub async fn expect(
        &self,
        caller: &Caller,
        snapshot: &Snapshot,
        authenticator: &Id,
        print: Arc<str>,
        now: Timestamp,
    ) {
        let Some(login) = caller.login() else { return };
        let own = self.by_id(&login.session.id);
        let own = own.filter(|session| session.authenticator_id == *authenticator);
        if let Some(own) = own {
            let current = print_of(snapshot, &own.identity_id, authenticator);
            self.change(&own.base.id, now, |session| {
                let is_set = current.is_some_and(|current| current == session.next_credential);
                // An empty credential stands for a session of the program around the controller.
                if is_set && !session.credential.is_empty() {
                    session.credential = Arc::clone(&session.next_credential);
                }
                session.next_credential = print;
            });
            if self.are_shared() {
                self.begun().await;
            }
        }
    }

    /// Takes back [`Self::expect_password`] after the change was refused.
    pub fn forget_password(&self, caller: &Caller, password: &Hashed, now: Timestamp) {
        self.forget_expected(caller, &password_print(&password.password, &password.salt), now);
    }

    /// Takes back [`Self::expect`] after the change was refused.
    pub fn forget_expected(&self, caller: &Caller, print: &str, now: Timestamp) {
        let Some(login) = caller.login() else { return };
        let own = self.by_id(&login.session.id);
        if let Some(own) = own.filter(|session| *session.next_credential == *print) {
            self.change(&own.base.id, now, |session| {
                if *session.next_credential == *print {
                    session.next_credential = Arc::default();
                }
            });
        }
    }

    /// Adds a certificate to a session.
    pub(crate) fn add_certificate(&self, id: &Id, certificate: SessionCertificate, now: Timestamp) {
        self.change(id, now, |session| {
            session.had_certificate = true;
            keep_certificate(session, certificate, now);
        });
    }

    /// The sessions of an identity.
    pub fn of_identity(&self, identity: &Id) -> Vec<Arc<ApiSession>> {
        self.0.tables.read().of_identity(identity)
    }

    /// Handles a session that has become complete: routers are told of it, unless it has ended.
    pub fn completed(&self, id: &Id) {
        self.waits_no_more(id);
        let tables = self.0.tables.read();
        let session = tables.api.get(id).and_then(|entity| entity.get::<ApiSession>());
        if let Some(session) = session {
            self.tell(SessionNotice::Added(Arc::clone(session)));
        }
    }

    /// Ends the sessions of an identity.
    pub(crate) fn end_of_identity(&self, identity: &Id) {
        self.end_where(identity, |_| true);
    }

    /// Ends the sessions of an identity that `pick` selects.
    fn end_where(&self, identity: &Id, pick: impl Fn(&ApiSession) -> bool) {
        let sessions = self.of_identity(identity).into_iter();
        let picked = sessions.filter(|session| pick(session));
        let ids: Vec<Id> = picked.map(|session| session.base.id.clone()).collect();
        self.end(&ids);
    }

    /// Faults in the indexes of sessions, described for people.
    pub fn index_faults(&self) -> Vec<String> {
        let tables = self.0.tables.read();
        let mut found = Vec::new();
        tables.api.verify(&mut |text| found.push(text));
        tables.service.verify(&mut |text| found.push(text));
        found
    }

    /// Writes a session whose row is damaged again, unless it ends meanwhile.
    pub fn write_again(&self, kind: Kind, id: &Id) {
        let tables = self.0.tables.read();
        let known = match kind {
            Kind::ApiSession => tables.api.get(id),
            Kind::ServiceSession => tables.service.get(id),
            _ => None,
        };
        if let Some(entity) = known {
            self.0.store.live().put_as(entity.clone(), LivePut::Change);
        }
    }

    /// Removes a session from its indexes: a fault for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn plant_lost_keys(&self, id: &Id) {
        self.0.tables.write().api.plant_lost_keys(id);
    }

    /// Builds the indexes of sessions anew; false if that fails.
    pub fn rebuild_indexes(&self) -> bool {
        let mut tables = self.0.tables.write();
        let (api, service) = (tables.api.rebuilt(), tables.service.rebuilt());
        let (Ok(api), Ok(service)) = (api, service) else { return false };
        tables.api = api;
        tables.service = service;
        true
    }

    /// The sessions that have ended since the last call.
    pub(crate) fn take_ended(&self) -> EndedSessions {
        std::mem::take(&mut self.0.tables.write().ended)
    }

    /// Whether an identity has a session.
    pub(crate) fn is_logged_in(&self, identity: &Id) -> bool {
        self.0.tables.read().api.referring(0, identity).next().is_some()
    }
}

/// The failure for a session that the tables refuse.
fn contradiction(error: ApplyError) -> Failure {
    tracing::error!(%error, "a session contradicts another one and is refused");
    Failure::unhandled("the session contradicts another one")
}

/// Adds a certificate to a session. The certificate of the login is never dropped for others: for
/// an identity with an external id it is the only proof.
pub fn keep_certificate(session: &mut ApiSession, certificate: SessionCertificate, now: Timestamp) {
    let begun = session.base.created_at;
    let certificates = &mut session.certificates;
    certificates.retain(|own| own.not_after > now || own.created_at <= begun);
    while certificates.len() >= CERTIFICATES {
        let made = certificates.iter().position(|own| own.created_at > begun);
        certificates.remove(made.unwrap_or_default());
    }
    certificates.push(certificate);
}
