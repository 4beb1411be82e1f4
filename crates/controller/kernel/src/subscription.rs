//! Subscriptions to the model: each is an ordered stream of published batches in a bounded queue. A
//! subscriber that falls behind is told to start over from a snapshot; the writer never waits.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_model::{ChangeSet, Revision, Snapshot};

/// Batches that a subscriber may be behind before it has to start over.
const BACKLOG: usize = 1024;

/// A batch that is durable and visible.
#[derive(Debug)]
pub struct Published {
    /// The snapshot before it.
    pub before: Arc<Snapshot>,
    /// The snapshot after it; its revision is [`Published::revision`].
    pub after: Arc<Snapshot>,
    /// The change sets in order, one for each revision up to [`Published::revision`].
    pub changes: Vec<Arc<ChangeSet>>,
    /// Revision of the last change set.
    pub revision: Revision,
}

/// An item for a subscriber.
#[derive(Debug, Clone)]
pub enum Notice {
    /// The next batch.
    Change(Arc<Published>),
    /// Batches were lost: take everything from this snapshot, and go on after it.
    Resync(Arc<Snapshot>),
}

#[derive(Debug, Default)]
struct Backlog {
    batches: VecDeque<Arc<Published>>,
    behind: bool,
    closed: bool,
}

#[derive(Debug, Default)]
struct Line {
    backlog: Mutex<Backlog>,
    wake: Notify,
}

/// A subscription.
#[derive(Debug)]
pub struct Subscription {
    line: Arc<Line>,
    current: Arc<ArcSwap<Snapshot>>,
    seen: Revision,
}

impl Subscription {
    /// The next notice; none once the controller has stopped.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            match self.take() {
                Some(notice) => return notice,
                // A notice that was put since the check has left a permit, so that this returns at
                // once.
                None => self.line.wake.notified().await,
            }
        }
    }

    /// An item without waiting: none yet, a notice, or the end.
    fn take(&mut self) -> Option<Option<Notice>> {
        let mut backlog = self.line.backlog.lock();
        if std::mem::take(&mut backlog.behind) {
            let snapshot = self.current.load_full();
            self.seen = snapshot.revision();
            return Some(Some(Notice::Resync(snapshot)));
        }
        while let Some(batch) = backlog.batches.pop_front() {
            if batch.revision > self.seen {
                self.seen = batch.revision;
                return Some(Some(Notice::Change(batch)));
            }
        }
        backlog.closed.then_some(None)
    }
}

/// All subscriptions.
#[derive(Debug, Clone, Default)]
pub struct Subscribers(Arc<Mutex<Vec<Weak<Line>>>>);

impl Subscribers {
    /// A new subscription; it receives everything that is published after the returned snapshot.
    pub fn join(&self, current: &Arc<ArcSwap<Snapshot>>) -> (Arc<Snapshot>, Subscription) {
        let line = Arc::new(Line::default());
        self.0.lock().push(Arc::downgrade(&line));
        let snapshot = current.load_full();
        let seen = snapshot.revision();
        (snapshot, Subscription { line, current: Arc::clone(current), seen })
    }

    /// Sends a batch to all subscribers.
    pub fn tell(&self, batch: &Arc<Published>) {
        self.each(|backlog| {
            if backlog.behind {
                return;
            }
            if backlog.batches.len() >= BACKLOG {
                backlog.batches.clear();
                backlog.behind = true;
            } else {
                backlog.batches.push_back(Arc::clone(batch));
            }
        });
    }

    /// Tells all subscribers to start over from the current snapshot, because it does not follow
    /// from the one before.
    pub fn start_over(&self) {
        self.each(|backlog| {
            backlog.batches.clear();
            backlog.behind = true;
        });
    }

    /// Ends every subscription after its queued items.
    pub fn close(&self) {
        self.each(|backlog| backlog.closed = true);
    }

    fn each(&self, act: impl Fn(&mut Backlog)) {
        self.0.lock().retain(|line| {
            let Some(line) = line.upgrade() else { return false };
            act(&mut line.backlog.lock());
            line.wake.notify_one();
            true
        });
    }
}
