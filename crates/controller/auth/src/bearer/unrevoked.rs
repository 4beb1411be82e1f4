//! Ended sessions whose tokens are still to be revoked, kept over restarts; and how many revocations identities cause.
//!
//! A few sessions get a revocation each. Of many that end together, weft's routers are told in one revocation with a
//! list; routers that know no lists are told identity by identity, in batches, if such a router connects before the
//! tokens have ended.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_limits::{BoundedTable, Caps, WhenFull};
use weft_model::{Id, Timestamp};
use weft_store::{LiveStore, ReadError, Space};

/// The space of notes with sessions whose tokens are still to be revoked.
const UNREVOKED: Space = Space(3);
/// Sessions that end together and still get a revocation each.
const EACH: usize = 256;
/// Most sessions in one list: 2 MiB of a message to routers.
const MOST_LISTED: usize = 131_072;
/// Sessions whose identities are revoked in one change set, for routers that know no lists; and those that are noted or
/// looked at while the lock is held once.
const BATCH: usize = 500;
/// Time from one such change set to the next: 8,333 sessions a second at most, so that routers and the writer of the model
/// keep up, and more than log in meanwhile.
const PACE: Duration = Duration::from_millis(60);
/// Most sessions in lists that are kept for routers that know no lists; above that the model has revocations of their
/// identities whatever routers there are, and at once.
const MOST_KEPT: usize = 1_000_000;
/// The clock of the controller may have jumped forward by this much for a while: tokens that seem to have ended since then
/// may be good at routers, whose clocks are right.
pub(super) const JUMP: Duration = Duration::from_secs(2 * 3600);
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

/// Ended sessions, each with what is known of it.
pub(super) type Ended = Vec<(Id, Pending)>;

/// The sessions that are to be revoked next.
#[derive(Debug, PartialEq)]
pub(super) enum RevocationBatch {
    /// Nothing.
    Nothing,
    /// These sessions, each by itself.
    Each(Ended),
    /// These sessions, in one list.
    Together(Arc<EndedTogether>),
}

/// Sessions that have ended together.
pub(super) type EndedTogether = BTreeMap<Id, Pending>;

#[derive(Default)]
struct Sessions {
    waiting: EndedTogether,
    /// Sessions whose list is being written, or was not written yet.
    under_way: Arc<EndedTogether>,
    /// Sessions of lists, of which routers that know no lists were not told.
    listed: BTreeMap<Id, Pending>,
    /// How many ends of many sessions are under way.
    gathering: usize,
    /// The time from which the next sessions of lists are taken for routers that know no lists.
    others_from: Option<Instant>,
}

/// Ended sessions whose tokens are still to be revoked.
pub(crate) struct Unrevoked {
    sessions: Mutex<Sessions>,
    counts: Mutex<Counts>,
    tokens: Mutex<Counts>,
    pub(super) more: Notify,
}

/// Many sessions end: what ends until this is dropped is revoked together.
pub(crate) struct Gathering<'u>(&'u Unrevoked);

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.0.sessions.lock().gathering -= 1;
        self.0.more.notify_one();
    }
}

fn owned((id, pending): (&Id, &Pending)) -> (Id, Pending) {
    (id.clone(), pending.clone())
}

/// What follows the identity in the note of a session that is in a list. No id has it.
const IN_LIST: u8 = 0;

/// The note of a session: the end of its tokens, its identity, and whether it is in a list.
fn note(pending: &Pending, is_listed: bool) -> Bytes {
    let flag: &[u8] = if is_listed { &[IN_LIST] } else { &[] };
    [&pending.end.0.to_be_bytes(), pending.identity.as_bytes(), flag].concat().into()
}

/// Reads a note, and whether the session is in a list; none for one that no release wrote.
fn read(note: &[u8]) -> Option<(Pending, bool)> {
    let (end, rest) = note.split_first_chunk::<8>()?;
    let (identity, is_listed) = match rest.split_last() {
        Some((&IN_LIST, identity)) => (identity, true),
        _ => (rest, false),
    };
    let identity = Id::parse(std::str::from_utf8(identity).ok()?).ok()?;
    let end = Timestamp(i64::from_be_bytes(*end));
    Some((Pending { identity, end, is_counted: None }, is_listed))
}

impl Unrevoked {
    /// The sessions that an earlier run has not revoked.
    pub(crate) fn load(live: &dyn LiveStore) -> Result<Self, ReadError> {
        let mut sessions = Sessions::default();
        for (id, note) in live.notes(UNREVOKED)? {
            let Some((pending, is_listed)) = read(&note) else { continue };
            let kept = if is_listed { &mut sessions.listed } else { &mut sessions.waiting };
            kept.insert(Id::new(&id), pending);
        }
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

    /// Whether the end of a session is noted.
    pub(crate) fn has(&self, session: &Id) -> bool {
        let sessions = self.sessions.lock();
        sessions.waiting.contains_key(session)
            || sessions.under_way.contains_key(session)
            || sessions.listed.contains_key(session)
    }

    /// Adds a session of an identity whose tokens end at `end`.
    pub(crate) fn add(&self, live: &dyn LiveStore, session: &Id, identity: &Id, end: Timestamp) {
        let pending = Pending { identity: identity.clone(), end, is_counted: None };
        live.put_note(UNREVOKED, session.as_str(), Some(note(&pending, false)));
        self.sessions.lock().waiting.insert(session.clone(), pending);
        self.more.notify_one();
    }

    /// Begins an end of many sessions.
    pub(crate) fn gather(&self) -> Gathering<'_> {
        self.sessions.lock().gathering += 1;
        Gathering(self)
    }

    /// Counts the end of a session of an identity. False if too many have ended.
    pub(crate) fn count(&self, identity: &Id) -> bool {
        counted(&mut self.counts.lock(), identity, PER_IDENTITY)
    }

    /// Counts the revocation of a single token of an identity. False if there were too many.
    pub(crate) fn count_token(&self, identity: &Id) -> bool {
        counted(&mut self.tokens.lock(), identity, TOKENS_PER_IDENTITY)
    }

    /// Sessions whose turn is next. Many of them are moved as a whole, not one by one: sessions that end meanwhile wait for
    /// the lock.
    pub(super) fn next_batch(&self) -> RevocationBatch {
        let mut sessions = self.sessions.lock();
        let Sessions { waiting, under_way, gathering, .. } = &mut *sessions;
        // A list that failed is tried again.
        if !under_way.is_empty() {
            return RevocationBatch::Together(Arc::clone(under_way));
        }
        match waiting.len() {
            0 => RevocationBatch::Nothing,
            count if *gathering > 0 && count < MOST_LISTED => RevocationBatch::Nothing,
            1..=EACH => {
                let each = waiting.iter_mut().map(|(id, pending)| {
                    // A write that fails is tried again, and counted once.
                    let is_counted =
                        pending.is_counted.unwrap_or_else(|| self.count(&pending.identity));
                    pending.is_counted = Some(is_counted);
                    (id.clone(), pending.clone())
                });
                RevocationBatch::Each(each.collect())
            }
            _ => {
                let first_left = waiting.keys().nth(MOST_LISTED).cloned();
                let left = first_left.map(|first| waiting.split_off(&first)).unwrap_or_default();
                *under_way = Arc::new(std::mem::replace(waiting, left));
                RevocationBatch::Together(Arc::clone(under_way))
            }
        }
    }

    /// Forgets sessions whose tokens are revoked.
    pub(super) fn done(&self, live: &dyn LiveStore, revoked: &[(Id, Pending)]) {
        let mut sessions = self.sessions.lock();
        for (id, _) in revoked {
            sessions.waiting.remove(id);
            sessions.listed.remove(id);
            live.put_note(UNREVOKED, id.as_str(), None);
        }
    }

    /// Notes that the list that is under way was written, whose last access tokens end at `last` at the latest: routers that
    /// know no lists may have to be told.
    pub(super) fn listed(&self, live: &dyn LiveStore, listed: &EndedTogether, last: Timestamp) {
        let mut rest = listed.iter();
        loop {
            let some = rest.by_ref().take(BATCH).map(|(id, pending)| {
                (id.clone(), Pending { end: last.min(pending.end), ..pending.clone() })
            });
            let some: Ended = some.collect();
            if some.is_empty() {
                break;
            }
            let notes = some.iter().map(|(id, it)| (id.to_string(), Some(note(it, true))));
            live.put_notes(UNREVOKED, notes.collect());
            self.sessions.lock().listed.extend(some);
        }
        let done = std::mem::take(&mut self.sessions.lock().under_way);
        // Dropped without the lock.
        drop(done);
    }

    /// Sessions of lists, whose identities are revoked next for routers that know no lists; the error is the time after
    /// which to ask again. `are_there` says whether there are such routers.
    pub(super) fn for_others(&self, are_there: bool, now: Instant) -> Result<Ended, Duration> {
        let mut sessions = self.sessions.lock();
        let too_many = sessions.listed.len().saturating_sub(MOST_KEPT);
        let wait = sessions.others_from.map_or(Duration::ZERO, |from| from.duration_since(now));
        let count = match are_there {
            true if too_many == 0 && !wait.is_zero() => return Err(wait),
            true => BATCH,
            false => too_many.min(BATCH),
        };
        let some: Ended = sessions.listed.iter().take(count).map(owned).collect();
        if !some.is_empty() {
            sessions.others_from = now.checked_add(PACE);
        }
        Ok(some)
    }

    /// Number of ended sessions of which routers are still to be told, those that are kept in case that a router connects
    /// which knows no lists aside.
    pub(crate) fn count_waiting(&self) -> usize {
        let sessions = self.sessions.lock();
        sessions.waiting.len() + sessions.under_way.len()
    }

    /// Number of ended sessions of lists that are kept for routers that know no lists, whether there is one now or not.
    pub(crate) fn count_listed(&self) -> usize {
        self.sessions.lock().listed.len()
    }

    /// Forgets sessions of lists whose last token has ended by any clock.
    pub(super) fn expire(&self, live: &dyn LiveStore, now: Timestamp) {
        let mut behind = Bound::Unbounded;
        loop {
            let mut sessions = self.sessions.lock();
            let some = sessions.listed.range((behind, Bound::Unbounded)).take(BATCH);
            let some: Ended = some.map(owned).collect();
            let Some((last, _)) = some.last() else { return };
            behind = Bound::Excluded(last.clone());
            for (id, _) in some.iter().filter(|(_, it)| it.end.plus(JUMP) <= now) {
                sessions.listed.remove(id);
                live.put_note(UNREVOKED, id.as_str(), None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_store::{Memory, Store as _};

    use super::*;

    fn pending(identity: &str, end: i64, is_counted: Option<bool>) -> Pending {
        Pending { identity: Id::new(identity), end: Timestamp(end), is_counted }
    }

    #[test]
    fn what_is_not_revoked_yet_is_known_after_a_restart() {
        let store = Memory::new();
        let unrevoked = Unrevoked::load(store.live()).unwrap();
        let (one, other) = (Id::new("s1"), Id::new("s2"));
        unrevoked.add(store.live(), &one, &Id::new("ann"), Timestamp(5));
        unrevoked.add(store.live(), &other, &Id::new("bob"), Timestamp(6));
        let RevocationBatch::Each(each) = unrevoked.next_batch() else { panic!() };
        assert_eq!(each[0], (one, pending("ann", 5, Some(true))));
        unrevoked.done(store.live(), &each[..1]);
        let again = Unrevoked::load(store.live()).unwrap();
        assert_eq!(again.next_batch(), RevocationBatch::Each(each[1..].to_vec()));
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

    #[test]
    fn many_that_end_together_are_one_list() {
        let store = Memory::new();
        let live = store.live();
        let unrevoked = Unrevoked::load(live).unwrap();
        let gathering = unrevoked.gather();
        for number in 0..EACH + 1 {
            let (session, identity) = (Id::new(&format!("s{number:04}")), Id::new("ann"));
            unrevoked.add(live, &session, &identity, Timestamp(number as i64));
        }
        assert_eq!(unrevoked.next_batch(), RevocationBatch::Nothing, "more may end");
        assert_eq!(unrevoked.count_waiting(), EACH + 1);
        drop(gathering);
        let RevocationBatch::Together(listed) = unrevoked.next_batch() else { panic!() };
        assert_eq!(listed.len(), EACH + 1);
        // They were moved, and neither copied nor looked at; a list that could not be written is tried again.
        let RevocationBatch::Together(again) = unrevoked.next_batch() else { panic!() };
        assert!(Arc::ptr_eq(&listed, &again) && unrevoked.has(&Id::new("s0000")));
        let next = Id::new("next");
        unrevoked.add(live, &next, &Id::new("bob"), Timestamp(1));
        assert_eq!(unrevoked.count_waiting(), EACH + 2);
        unrevoked.listed(live, &listed, Timestamp(i64::MAX));
        let RevocationBatch::Each(each) = unrevoked.next_batch() else { panic!() };
        assert_eq!(each[0].0, next);
        unrevoked.done(live, &each);
        assert_eq!(
            (unrevoked.next_batch(), unrevoked.count_waiting()),
            (RevocationBatch::Nothing, 0)
        );
        assert_eq!(unrevoked.count_listed(), EACH + 1);
        // They are not listed again after a restart.
        let again = Unrevoked::load(live).unwrap();
        assert_eq!(again.next_batch(), RevocationBatch::Nothing);
        let at = Instant::now();
        assert_eq!(again.for_others(true, at), unrevoked.for_others(true, at));
        assert!(again.has(&Id::new("s0000")) && !again.has(&Id::new("s9999")));
        // Nobody has to be told otherwise, until a router that knows no lists is there.
        assert_eq!(unrevoked.for_others(false, at), Ok(Vec::new()));
        let others = unrevoked.for_others(true, at + PACE).unwrap();
        assert_eq!(others.len(), EACH + 1);
        unrevoked.done(live, &others[..7]);
        unrevoked.expire(live, Timestamp(99).plus(JUMP));
        let left = unrevoked.for_others(true, at + 2 * PACE).unwrap();
        assert_eq!(left.len(), EACH + 1 - 100);
        assert_eq!(left[0].0, "s0100");
        assert_eq!(live.notes(UNREVOKED).unwrap().len(), left.len());
    }

    #[test]
    fn routers_that_know_no_lists_are_told_in_batches_at_a_pace() {
        let store = Memory::new();
        let unrevoked = Unrevoked::load(store.live()).unwrap();
        let ended = |number: usize| (Id::new(&format!("s{number:07}")), pending("ann", 9, None));
        unrevoked.sessions.lock().listed = (0..100_000).map(ended).collect();
        let (begun, mut now) = (Instant::now(), Instant::now());
        let mut batches = 0;
        loop {
            let batch = unrevoked.for_others(true, now).unwrap();
            if batch.is_empty() {
                break;
            }
            assert!(batch.len() <= BATCH);
            // Not before its time, whether the batch was written or not.
            assert_eq!(unrevoked.for_others(true, now + PACE / 2), Err(PACE / 2));
            unrevoked.done(store.live(), &batch);
            assert_eq!(unrevoked.for_others(true, now + PACE / 4), Err(PACE - PACE / 4));
            (batches, now) = (batches + 1, now + PACE);
            assert_eq!(unrevoked.count_listed(), 100_000 - batches * BATCH);
        }
        assert_eq!(batches, 200);
        let taken = now.duration_since(begun);
        assert!(taken > Duration::from_secs(11) && taken < Duration::from_secs(15), "{taken:?}");
        // What is beyond the bound of the queue does not wait.
        unrevoked.sessions.lock().listed = (0..MOST_KEPT + 1).map(ended).collect();
        unrevoked.for_others(true, now).unwrap();
        let batch = unrevoked.for_others(true, now).unwrap();
        unrevoked.done(store.live(), &batch);
        assert_eq!(unrevoked.for_others(true, now), Err(PACE));
    }
}
