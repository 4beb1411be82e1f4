//! The sessions that routers are told of, and the routers that are connected: a session that begins, changes or ends
//! is told to the routers that its identity may use.

use std::sync::Arc;

use hashbrown::HashMap;
use roaring::RoaringBitmap;
use weft_auth::sessions::LegacySession;
use weft_model::entity::{Identity, ServiceSession};
use weft_model::{Id, Snapshot};
use weft_wire::edge_ctrl::AddedSessions;

use crate::legacy::announced::{AnnouncedSession, EndedTogether, Say};
use crate::legacy::pending::{Pending, Together};
use crate::legacy::shelves::{Row, Shelves};

/// Identities that are examined while the lock is held once.
const SCAN: usize = 10_000;
/// Fewer sessions than this are no list: they are told in one message with others that ended meanwhile.
const LEAST_TOGETHER: usize = 32;
/// Lists of sessions that ended together, for routers that may be used by different identities. The
/// other routers get lists of their own.
const LISTS: usize = 16;

/// Sessions, the snapshot that counts, and the connected routers.
pub(super) struct State {
    /// The snapshot whose policies count.
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) sessions: HashMap<Id, TrackedSession>,
    pub(super) identities: HashMap<Id, Own>,
    pub(super) shelves: Shelves,
    /// Number of sessions that were ever added.
    pub(super) numbers: u64,
    /// Feeds by number of the router's connection.
    pub(super) feeds: HashMap<u64, Feed>,
    /// Notices that wait for all of them.
    pub(super) together: Together,
}

/// A session.
pub(super) struct TrackedSession {
    pub(super) told: Arc<AnnouncedSession>,
    /// The ordinal of the identity; none while the snapshot does not have it.
    pub(super) ordinal: Option<u32>,
}

/// The sessions of an identity.
#[derive(Default)]
pub(super) struct Own {
    pub(super) ordinal: Option<u32>,
    pub(super) sessions: Vec<Id>,
}

/// A connected router.
pub(super) struct Feed {
    pub(super) router: Id,
    /// Whether the router is older than 2.0: it does not end service sessions by revocations.
    pub(super) is_old: bool,
    pub(super) ordinal: Option<u32>,
    /// Ordinals of the identities that may use the router.
    pub(super) allowed: RoaringBitmap,
    pub(super) pending: Arc<Pending>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.pending.close();
    }
}

/// A place among the sessions of a router: an ordinal of an identity, and the number of its first
/// session that was not written.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::legacy) struct SessionCursor {
    ordinal: u32,
    number: u64,
}

/// The result of writing sessions.
#[derive(Debug)]
pub(in crate::legacy) enum Written {
    /// There may be more, from this place on.
    More(SessionCursor),
    /// All are written.
    All,
    /// The router is too far behind.
    Behind,
}

impl State {
    /// No sessions and no routers yet, at a snapshot.
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            snapshot,
            sessions: HashMap::new(),
            identities: HashMap::new(),
            shelves: Shelves::default(),
            numbers: 0,
            feeds: HashMap::new(),
            together: Together::default(),
        }
    }

    /// Forgets all sessions and detaches all routers, which are told everything again.
    pub(super) fn clear(&mut self) {
        self.feeds.clear();
        self.sessions.clear();
        self.identities.clear();
        self.shelves.clear();
    }

    /// Writes sessions that the router of a connection may know and whose numbers are below `later`, from
    /// a place on, until the message is full or enough was examined.
    pub(super) fn write(
        &self,
        (connection, later): (u64, u64),
        from: SessionCursor,
        message: &mut AddedSessions,
        full: usize,
    ) -> Written {
        let Some(feed) = self.feeds.get(&connection) else { return Written::Behind };
        for (at, ordinal) in feed.allowed.range(from.ordinal..).enumerate() {
            if at == SCAN {
                return Written::More(SessionCursor { ordinal, number: 0 });
            }
            let first = if ordinal == from.ordinal { from.number } else { 0 };
            let rows = self.shelves.at(ordinal);
            let written = if first == 0 { 0 } else { rows.partition_point(|it| it.number < first) };
            for row in &rows[written..] {
                if message.sessions() >= full {
                    return Written::More(SessionCursor { ordinal, number: row.number });
                }
                if row.number < later {
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

    /// Adds a session, or replaces the one with its id.
    pub(super) fn put(&mut self, session: LegacySession) {
        let before = self.sessions.get(&session.id);
        let number = before.map_or(self.numbers, |session| session.told.number);
        let told = Arc::new(AnnouncedSession::new(session, number));
        let own = self.identities.entry(told.identity.clone()).or_default();
        if own.sessions.is_empty() {
            own.ordinal = self.snapshot.ordinal_of::<Identity>(&told.identity);
        }
        let ordinal = own.ordinal;
        let session = TrackedSession { told: Arc::clone(&told), ordinal };
        let before = self.sessions.insert(told.id.clone(), session);
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

    /// Removes sessions that have ended.
    pub(super) fn remove(&mut self, ids: &[Id]) {
        let mut ended = Vec::new();
        for id in ids {
            let Some(session) = self.sessions.remove(id) else { continue };
            if let Some(ordinal) = session.ordinal {
                self.shelves.remove(ordinal, session.told.number);
            }
            if let Some(own) = self.identities.get_mut(&session.told.identity) {
                own.sessions.retain(|other| other != id);
                if own.sessions.is_empty() {
                    self.identities.remove(&session.told.identity);
                }
            }
            ended.extend(session.ordinal.map(|ordinal| (ordinal, session.told)));
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

    /// Tells the routers that identities may use, and that `wants` selects, of the end of their service sessions. For
    /// a deleted identity these routers are not known any more, so that all of `wants` are told.
    pub(super) fn services_ended(
        &mut self,
        ended: &[Arc<ServiceSession>],
        wants: impl Fn(&Feed) -> bool,
    ) {
        let ordinal = |it: &ServiceSession| self.snapshot.ordinal_of::<Identity>(&it.identity_id);
        let ended: Vec<(Option<u32>, &Arc<ServiceSession>)> =
            ended.iter().map(|it| (ordinal(it), it)).collect();
        self.feeds.retain(|_, feed| {
            if !wants(feed) {
                return true;
            }
            let may_know =
                |ordinal: Option<u32>| ordinal.is_none_or(|it| feed.allowed.contains(it));
            let own = ended.iter().filter(|(ordinal, _)| may_know(*ordinal));
            let own: Arc<[_]> = own.map(|(_, session)| Arc::clone(session)).collect();
            own.is_empty() || feed.pending.tell(&Say::ServiceRemoved(own))
        });
    }
}
