//! Terminators that are to be removed at controllers.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Most terminators in one removal.
const REMOVAL_BATCH: usize = 50;

/// Terminators to be removed.
#[derive(Debug, Default)]
pub(super) struct Removals {
    waiting: Mutex<Waiting>,
    /// Notified when there is something to remove.
    more: Notify,
    /// Notified when a batch was answered, or the time for its answer is over.
    answered: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    ids: BTreeSet<String>,
    /// Terminators that a controller is being asked to remove.
    in_hand: Vec<String>,
}

impl Removals {
    /// Adds terminators to be removed.
    pub(super) fn add(&self, ids: impl IntoIterator<Item = String>) {
        self.waiting.lock().ids.extend(ids);
        self.more.notify_one();
    }

    /// Takes a terminator off the list because it is wanted again. If its removal is already asked
    /// for, the terminator is made again after that; see [`settled`](Self::settled).
    pub(super) fn forget(&self, id: &str) {
        self.waiting.lock().ids.remove(id);
    }

    /// Waits while a controller is being asked to remove this terminator.
    pub(super) async fn settled(&self, id: &str) {
        loop {
            let answered = self.answered.notified();
            if !self.waiting.lock().in_hand.iter().any(|known| known == id) {
                return;
            }
            answered.await;
        }
    }

    /// Waits until there is a terminator to be removed.
    pub(super) async fn some(&self) {
        while self.len() == 0 {
            self.more.notified().await;
        }
    }

    /// The number of terminators to be removed.
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().ids.len()
    }

    /// Takes a batch to ask a controller for.
    pub(super) fn take(&self) -> Vec<String> {
        let mut waiting = self.waiting.lock();
        waiting.in_hand = waiting.ids.iter().take(REMOVAL_BATCH).cloned().collect();
        waiting.in_hand.clone()
    }

    /// Ends a batch: its terminators are removed, or stay on the list.
    pub(super) fn put_down(&self, removed: bool) {
        {
            let mut waiting = self.waiting.lock();
            for id in std::mem::take(&mut waiting.in_hand) {
                if removed {
                    waiting.ids.remove(&id);
                }
            }
        }
        self.answered.notify_waiters();
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> Vec<String> {
        self.waiting.lock().ids.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn what_is_being_removed_is_made_again_only_after_that() {
        let removals = Removals::default();
        removals.add(["a".to_owned(), "b".to_owned()]);
        assert!(removals.settled("a").now_or_never().is_some(), "nobody was asked yet");
        removals.forget("b");
        assert_eq!(removals.take(), ["a"], "b is wanted again");
        removals.forget("a");
        let mut settled = Box::pin(removals.settled("a"));
        assert!(settled.as_mut().now_or_never().is_none());
        assert!(removals.settled("b").now_or_never().is_some());
        removals.put_down(false);
        assert!(settled.now_or_never().is_some());
        assert!(removals.waiting().is_empty());
    }

    #[test]
    fn what_was_not_removed_is_asked_for_again() {
        let removals = Removals::default();
        removals.add(["a".to_owned()]);
        for removed in [false, true] {
            assert_eq!(removals.take(), ["a"]);
            removals.put_down(removed);
        }
        assert!(removals.take().is_empty());
    }
}
