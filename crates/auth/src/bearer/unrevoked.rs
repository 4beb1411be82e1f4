//! Ended sessions whose tokens are still to be revoked, kept over restarts; and how many revocations identities cause.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_limits::{BoundedTable, Caps, WhenFull};
use weft_model::{Id, Timestamp};
use weft_store::{LiveStore, ReadError, Space};

/// The space of notes with sessions whose tokens are still to be revoked.
const UNREVOKED: Space = Space(3);
/// Sessions that are named at once.
const BATCH: usize = 500;
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
    pub(super) identity: Id,
    /// The end of its last token.
    pub(super) end: Timestamp,
}

/// Ended sessions whose tokens are still to be revoked.
pub(crate) struct Unrevoked {
    sessions: Mutex<BTreeMap<Id, Pending>>,
    counts: Mutex<BoundedTable<Id, u32, ()>>,
    pub(super) more: Notify,
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

    /// Sessions whose turn is next.
    pub(super) fn first(&self) -> Vec<(Id, Pending)> {
        let sessions = self.sessions.lock();
        sessions.iter().take(BATCH).map(|(id, it)| (id.clone(), it.clone())).collect()
    }

    /// Forgets sessions whose tokens are revoked.
    pub(super) fn done(&self, live: &dyn LiveStore, revoked: &[(Id, Pending)]) {
        let mut sessions = self.sessions.lock();
        for (id, _) in revoked {
            sessions.remove(id);
            live.put_note(UNREVOKED, id.as_str(), None);
        }
    }
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
