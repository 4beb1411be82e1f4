//! Tells routers that the tokens of an ended session count no more (docs/protocol/auth.md 16).
//!
//! A session that ends before its tokens leaves a note in the store, in the same order of writes as its own end. This
//! task turns the notes into revocations of the model, which routers follow, and removes the notes afterwards: a kill in
//! between loses nothing.
//!
//! Each revocation is a row of the model that every router gets. An identity whose sessions end early again and again gets
//! one row for all of its tokens instead of further ones, and its other sessions by tokens log in again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure};
use weft_limits::{BoundedTable, Caps, WhenFull};
use weft_model::entity::{Revocation, RevocationType};
use weft_model::{Base, Id, Timestamp};
use weft_store::{LiveStore, ReadError, Space};

use crate::handle::{Auth, WeakAuth};

/// The space of notes with sessions whose tokens are still to be revoked.
const UNREVOKED: Space = Space(3);
/// Revocations in one change of the model.
const BATCH: usize = 500;
/// Time until a change that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Revocations of single sessions and tokens that an identity may cause in [`WINDOW`].
pub(crate) const PER_IDENTITY: u32 = 1024;
/// The time for which revocations of an identity are counted.
const WINDOW: Duration = Duration::from_secs(3600);
/// Identities whose revocations are counted; above that the oldest count is forgotten.
const COUNTED: usize = 100_000;

/// An ended session whose tokens are still to be revoked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pending {
    /// The identity of the session.
    identity: Id,
    /// The end of its last token.
    end: Timestamp,
}

/// Ended sessions whose tokens are still to be revoked.
pub(crate) struct Unrevoked {
    sessions: Mutex<BTreeMap<Id, Pending>>,
    counts: Mutex<BoundedTable<Id, u32, ()>>,
    more: Notify,
}

impl Unrevoked {
    /// Those that an earlier run left.
    pub(crate) fn load(live: &dyn LiveStore) -> Result<Self, ReadError> {
        let read = |(id, note): (String, Bytes)| {
            let (end, identity) = note.split_first_chunk::<8>()?;
            let identity = Id::parse(std::str::from_utf8(identity).ok()?).ok()?;
            Some((Id::new(&id), Pending { identity, end: Timestamp(i64::from_be_bytes(*end)) }))
        };
        let sessions = live.notes(UNREVOKED)?.into_iter().filter_map(read).collect();
        let counts = BoundedTable::new(Caps {
            total: COUNTED,
            per_source: COUNTED,
            max_age: Some(WINDOW),
            when_full: WhenFull::EvictOldest,
        });
        Ok(Self { sessions: Mutex::new(sessions), counts: Mutex::new(counts), more: Notify::new() })
    }

    /// Adds a session of an identity whose tokens end at `end`.
    pub(crate) fn add(&self, live: &dyn LiveStore, session: &Id, identity: &Id, end: Timestamp) {
        let note = [&end.0.to_be_bytes(), identity.as_bytes()].concat();
        live.put_note(UNREVOKED, session.as_str(), Some(note.into()));
        let pending = Pending { identity: identity.clone(), end };
        self.sessions.lock().insert(session.clone(), pending);
        self.more.notify_one();
    }

    /// Counts a revocation that an identity causes. False if it has caused too many.
    pub(crate) fn count(&self, identity: &Id) -> bool {
        let (mut counts, now) = (self.counts.lock(), Instant::now());
        match counts.get_mut(identity, now) {
            Some(count) if *count >= PER_IDENTITY => false,
            Some(count) => {
                *count += 1;
                true
            }
            // The table always has room, because it evicts others.
            None => {
                let _ = counts.insert(identity.clone(), 1, (), now);
                true
            }
        }
    }

    fn first(&self) -> Vec<(Id, Pending)> {
        let sessions = self.sessions.lock();
        sessions.iter().take(BATCH).map(|(id, it)| (id.clone(), it.clone())).collect()
    }

    fn done(&self, live: &dyn LiveStore, revoked: &[(Id, Pending)]) {
        let mut sessions = self.sessions.lock();
        for (id, _) in revoked {
            sessions.remove(id);
            live.put_note(UNREVOKED, id.as_str(), None);
        }
    }
}

/// Revokes the tokens of ended sessions as long as the controller runs.
pub(crate) async fn follow_ends(weak: WeakAuth) {
    loop {
        let Some(auth) = weak.upgrade() else { return };
        let pending = auth.sessions().unrevoked().first();
        if pending.is_empty() {
            let unrevoked = Arc::clone(auth.sessions().unrevoked());
            drop(auth);
            // The controller may stop meanwhile, which nobody tells.
            let _ = tokio::time::timeout(AGAIN, unrevoked.more.notified()).await;
            continue;
        }
        if let Err(error) = revoke(&auth, pending).await {
            tracing::warn!(%error, "the tokens of ended sessions are not revoked yet, and routers may accept them; it is tried again");
            drop(auth);
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Writes the revocations of these sessions, as far as their access tokens have not expired. Refresh tokens need none: the
/// controller knows the session no more.
async fn revoke(auth: &Auth, pending: Vec<(Id, Pending)>) -> Result<(), Failure> {
    let now = auth.now();
    let last = now.plus(auth.settings().durations.access_token);
    let mut due: BTreeMap<Id, Revocation> = BTreeMap::new();
    for (session, Pending { identity, end }) in pending.iter().filter(|(_, it)| it.end > now) {
        let one = |id: &Id, kind, before| Revocation {
            base: Base::new(id.clone(), now),
            revocation_type: kind,
            expires_at: last.min(*end),
            issued_before: before,
        };
        let revocation = match auth.sessions().unrevoked().count(identity) {
            true => one(session, RevocationType::ApiSession, None),
            false => Revocation {
                expires_at: last,
                ..one(identity, RevocationType::Identity, Some(now))
            },
        };
        due.insert(revocation.base.id.clone(), revocation);
    }
    if !due.is_empty() {
        let decide = move |decision: &mut Decision<'_>| {
            due.values().for_each(|revocation| decision.put(revocation.clone()));
            Ok(())
        };
        auth.decide(&Caller::own("end of sessions"), decide).await?;
    }
    let live = auth.settings().store.live();
    auth.sessions().unrevoked().done(live, &pending);
    Ok(())
}

#[cfg(test)]
mod tests {
    use weft_store::{Memory, Store as _};

    use super::*;

    #[test]
    fn what_is_not_revoked_yet_is_known_after_a_restart() {
        let store = Memory::new();
        let unrevoked = Unrevoked::load(store.live()).unwrap();
        let (one, other) = (Id::new("s1"), Id::new("s2"));
        unrevoked.add(store.live(), &one, &Id::new("ann"), Timestamp(5));
        unrevoked.add(store.live(), &other, &Id::new("bob"), Timestamp(6));
        let first = unrevoked.first();
        assert_eq!(first[0], (one, Pending { identity: Id::new("ann"), end: Timestamp(5) }));
        unrevoked.done(store.live(), &first[..1]);
        let again = Unrevoked::load(store.live()).unwrap();
        assert_eq!(again.first(), first[1..]);
    }

    #[test]
    fn an_identity_causes_so_many_revocations() {
        let store = Memory::new();
        let unrevoked = Unrevoked::load(store.live()).unwrap();
        let ann = Id::new("ann");
        assert!((0..PER_IDENTITY).all(|_| unrevoked.count(&ann)));
        assert!(!unrevoked.count(&ann));
        assert!(unrevoked.count(&Id::new("bob")));
    }
}
