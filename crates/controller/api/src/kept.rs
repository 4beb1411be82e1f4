//! Keeps compressed answers, made once for all clients, within a budget that includes answers that
//! are being sent.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use weft_limits::{Budget, Grant};

use crate::encodings::Encoding;

/// Bytes that an entry counts for beside its body, so that the budget also limits the number of
/// entries.
const OVERHEAD: u64 = 4096;
/// The budget is divided by this to get the largest size of an entry.
const SHARE: u64 = 4;

/// The name of a body, and its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) encoding: Encoding,
}

/// A compressed form that is ready or being made.
type Work = Shared<BoxFuture<'static, Option<Arc<Held>>>>;

#[derive(Debug)]
pub(crate) struct Kept {
    budget: Budget,
    forms: Mutex<Forms>,
}

#[derive(Debug, Default)]
struct Forms {
    by_key: HashMap<Key, Form>,
    /// Number of requests for forms so far, which tells the form that was not requested for the longest
    /// time.
    clock: u64,
}

#[derive(Debug)]
struct Form {
    work: Work,
    /// The count at the last request for the form.
    asked: u64,
}

impl Kept {
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { budget: Budget::new(bytes), forms: Mutex::default() })
    }

    /// The compressed form of a key, made if it is missing. The making goes on after the requests that
    /// wait for the form have ended. `None` if the form could not be made; the next request tries
    /// again.
    pub(crate) async fn get<F>(
        self: &Arc<Self>,
        key: Key,
        make: impl FnOnce(Room) -> F,
    ) -> Option<Bytes>
    where
        F: Future<Output = Option<Arc<Held>>> + Send + 'static,
    {
        let work = {
            let mut forms = self.forms.lock();
            forms.clock += 1;
            let asked = forms.clock;
            match forms.by_key.entry(key.clone()) {
                Entry::Occupied(mut form) => {
                    form.get_mut().asked = asked;
                    form.get().work.clone()
                }
                Entry::Vacant(place) => {
                    let room = Room { kept: Arc::clone(self), grant: self.budget.empty() };
                    let task = tokio::spawn(make(room));
                    let work = async move { task.await.ok().flatten() }.boxed().shared();
                    place.insert(Form { work: work.clone(), asked });
                    // Completes the form, or drops a failed one, if all who wait for it leave.
                    let (kept, own, key) = (Arc::clone(self), work.clone(), key.clone());
                    tokio::spawn(async move { kept.made(&key, own).await.is_some() });
                    work
                }
            }
        };
        self.made(&key, work).await.map(|held| Bytes::from_owner(Sent(held)))
    }

    /// The completed form; a failed one is dropped.
    async fn made(&self, key: &Key, work: Work) -> Option<Arc<Held>> {
        let made = work.clone().await;
        if made.is_none() {
            let mut forms = self.forms.lock();
            if forms.by_key.get(key).is_some_and(|form| form.work.ptr_eq(&work)) {
                forms.by_key.remove(key);
            }
        }
        made
    }

    /// Drops the form that was not requested for the longest time, among those that are neither
    /// being made nor sent.
    fn drop_oldest(&self) -> bool {
        let mut forms = self.forms.lock();
        let is_idle = |form: &Form| matches!(form.work.peek(), Some(Some(held)) if Arc::strong_count(held) == 1);
        let idle = forms.by_key.iter().filter(|(_, form)| is_idle(form));
        let Some((oldest, _)) = idle.min_by_key(|(_, form)| form.asked) else { return false };
        let oldest = oldest.clone();
        forms.by_key.remove(&oldest);
        true
    }
}

/// The room in the budget for a form that is being made.
#[derive(Debug)]
pub(crate) struct Room {
    kept: Arc<Kept>,
    grant: Grant,
}

impl Room {
    /// Whether there is room for so many bytes; older forms are dropped if necessary.
    pub(crate) fn holds(&mut self, bytes: usize) -> bool {
        let wanted = bytes as u64 + OVERHEAD;
        if wanted > self.kept.budget.limit() / SHARE {
            return false;
        }
        let more = wanted.saturating_sub(self.grant.bytes());
        while !self.grant.try_grow(more) {
            if !self.kept.drop_oldest() {
                return false;
            }
        }
        true
    }

    /// The completed form. It keeps its room until its last answer is sent.
    pub(crate) fn fill(mut self, bytes: Vec<u8>) -> Option<Arc<Held>> {
        if !self.holds(bytes.capacity()) {
            return None;
        }
        let spare = self.grant.bytes().saturating_sub(bytes.capacity() as u64 + OVERHEAD);
        self.grant.shrink(spare);
        Some(Arc::new(Held { bytes, _grant: self.grant }))
    }
}

/// A form with its room.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: Vec<u8>,
    _grant: Grant,
}

/// A form that is being sent.
struct Sent(Arc<Held>);

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn key(name: &str) -> Key {
        Key { name: name.into(), version: "1".into(), encoding: Encoding::Gzip }
    }

    async fn put(kept: &Arc<Kept>, name: &str, length: usize) -> Option<Bytes> {
        kept.get(key(name), |room| async move { room.fill(vec![0; length]) }).await
    }

    #[tokio::test]
    async fn a_form_is_made_once_for_all_who_ask() {
        let (kept, made) = (Kept::new(100_000), Arc::new(AtomicUsize::new(0)));
        let ask = || {
            let made = Arc::clone(&made);
            kept.get(key("a"), move |room| async move {
                tokio::task::yield_now().await;
                made.fetch_add(1, Ordering::Relaxed);
                room.fill(vec![7])
            })
        };
        let all = futures::future::join_all((0..10).map(|_| ask())).await;
        assert!(all.iter().all(|form| form.as_deref() == Some(&[7][..])));
        assert_eq!(made.load(Ordering::Relaxed), 1);
        let other = Key { version: "2".into(), ..key("a") };
        let form = kept.get(other, |room| async move { room.fill(vec![8]) }).await;
        assert_eq!(form.as_deref(), Some(&[8][..]));
    }

    #[tokio::test]
    async fn the_oldest_makes_room_unless_it_is_being_sent() {
        const LENGTH: usize = 20_000;
        let budget = 4 * (LENGTH as u64 + OVERHEAD);
        let kept = Kept::new(budget);
        for name in ["a", "b", "c", "d"] {
            assert!(put(&kept, name, LENGTH).await.is_some());
        }
        let sent = put(&kept, "a", LENGTH).await.unwrap();
        // `a` was requested last, so `b` is the oldest.
        assert!(put(&kept, "e", LENGTH).await.is_some());
        let is_there = |name| kept.forms.lock().by_key.contains_key(&key(name));
        assert!(is_there("a") && !is_there("b") && is_there("c"));
        assert!(kept.budget.used() <= budget);

        let all: Vec<_> =
            futures::future::join_all(["c", "d", "e"].map(|name| put(&kept, name, LENGTH))).await;
        assert!(put(&kept, "f", LENGTH).await.is_none(), "everything is being sent");
        drop((sent, all));
        assert!(put(&kept, "f", LENGTH).await.is_some());
        assert!(put(&kept, "g", LENGTH + 5000).await.is_none(), "more than its share");
        assert!(kept.budget.used() <= budget);
    }

    #[tokio::test]
    async fn a_form_that_nobody_waits_for_is_kept_or_dropped() {
        let kept = Kept::new(100_000);
        let left = kept.get(key("a"), |room| async move {
            tokio::task::yield_now().await;
            room.fill(vec![7])
        });
        assert!(left.now_or_never().is_none());
        assert!(kept.get(key("b"), |_| async { None }).now_or_never().is_none());
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let keys: Vec<_> = kept.forms.lock().by_key.keys().cloned().collect();
        assert_eq!(keys, [key("a")], "the failed form is dropped");
        assert!(kept.drop_oldest(), "the completed form makes room");
        assert_eq!(kept.budget.used(), 0);
    }

    #[tokio::test]
    async fn what_failed_is_tried_again() {
        let kept = Kept::new(100_000);
        assert!(kept.get(key("a"), |_| async { None }).await.is_none());
        let fault = kept.get(key("a"), |_| async { panic!("a fault") });
        assert!(fault.await.is_none());
        assert!(put(&kept, "a", 1).await.is_some());
        let used = kept.budget.used();
        drop(kept.forms.lock().by_key.drain());
        assert!(used > 0 && kept.budget.used() == 0);
    }
}
