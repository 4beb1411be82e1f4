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

/// Revocations of single tokens of an identity in [`WINDOW`].
const TOKENS_PER_IDENTITY: u32 = 128;

type Counts = BoundedTable<Id, u32, ()>;

/// Counts one for an identity. False if it has `most` already.
fn counted(counts: &mut Counts, identity: &Id, most: u32) -> bool {
    let now = Instant::now();
    match counts.get_mut(identity, now) {
        Some(count) if *count >= most => false,
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

/// An ended session whose tokens are still to be revoked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pending {
    /// The identity of the session.
    pub(super) identity: Id,
    /// The end of its last token.
    pub(super) end: Timestamp,
    /// Whether the identity may cause one more revocation; none until that was counted.
    pub(super) is_counted: Option<bool>,
}

/// Ended sessions whose tokens are still to be revoked.
pub(crate) struct Unrevoked {
    sessions: Mutex<BTreeMap<Id, Pending>>,
    counts: Mutex<Counts>,
    tokens: Mutex<Counts>,
    pub(super) more: Notify,
}

impl Unrevoked {
    /// Those that an earlier run left.
    pub(crate) fn load(live: &dyn LiveStore) -> Result<Self, ReadError> {
        let read = |(id, note): (String, Bytes)| {
            let (end, identity) = note.split_first_chunk::<8>()?;
            let identity = Id::parse(std::str::from_utf8(identity).ok()?).ok()?;
            let end = Timestamp(i64::from_be_bytes(*end));
            Some((Id::new(&id), Pending { identity, end, is_counted: None }))
        };
        let sessions = live.notes(UNREVOKED)?.into_iter().filter_map(read).collect();
        let counts = || {
            Mutex::new(BoundedTable::new(Caps {
                total: COUNTED,
                per_source: COUNTED,
                max_age: Some(WINDOW),
                when_full: WhenFull::EvictOldest,
            }))
        };
        let sessions = Mutex::new(sessions);
        Ok(Self { sessions, counts: counts(), tokens: counts(), more: Notify::new() })
    }

    /// Adds a session of an identity whose tokens end at `end`.
    pub(crate) fn add(&self, live: &dyn LiveStore, session: &Id, identity: &Id, end: Timestamp) {
        let note = [&end.0.to_be_bytes(), identity.as_bytes()].concat();
        live.put_note(UNREVOKED, session.as_str(), Some(note.into()));
        let pending = Pending { identity: identity.clone(), end, is_counted: None };
        self.sessions.lock().insert(session.clone(), pending);
        self.more.notify_one();
    }

    /// Counts the end of a session of an identity. False if too many have ended.
    pub(crate) fn count(&self, identity: &Id) -> bool {
        counted(&mut self.counts.lock(), identity, PER_IDENTITY)
    }

    /// Counts the revocation of a single token of an identity. False if there were too many.
    pub(crate) fn count_token(&self, identity: &Id) -> bool {
        counted(&mut self.tokens.lock(), identity, TOKENS_PER_IDENTITY)
    }

    /// Sessions whose turn is next.
    pub(super) fn first(&self) -> Vec<(Id, Pending)> {
        let mut sessions = self.sessions.lock();
        let first = sessions.iter_mut().take(BATCH).map(|(id, pending)| {
            // A write that fails is tried again, and counted once.
            let is_counted = pending.is_counted.unwrap_or_else(|| self.count(&pending.identity));
            pending.is_counted = Some(is_counted);
            (id.clone(), pending.clone())
        });
        first.collect()
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
        assert_eq!(
            first[0],
            (one, Pending { identity: Id::new("ann"), end: Timestamp(5), is_counted: Some(true) })
        );
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
