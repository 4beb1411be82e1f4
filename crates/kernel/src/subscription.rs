//! Those who follow the model: an ordered stream of what was published, on a bounded queue of
//! their own. One who falls behind is told to start over from a snapshot; the writer never waits.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_model::{ChangeSet, Revision, Snapshot};

/// Batches a subscriber may be behind before it has to start over.
const BACKLOG: usize = 1024;

/// One batch that became durable and visible.
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

/// What a subscriber is told.
#[derive(Debug, Clone)]
pub enum Notice {
    /// The next batch.
    Change(Arc<Published>),
    /// Batches were missed: take everything from this snapshot and go on from there.
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

/// A place in the line of subscribers.
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
                // A notice put since is remembered as a permit.
                None => self.line.wake.notified().await,
            }
        }
    }

    /// What is there without waiting: nothing, a notice, or the end.
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

/// Everybody who follows.
#[derive(Debug, Clone, Default)]
pub struct Subscribers(Arc<Mutex<Vec<Weak<Line>>>>);

impl Subscribers {
    /// A new place; what is published after the returned snapshot is told.
    pub fn join(&self, current: &Arc<ArcSwap<Snapshot>>) -> (Arc<Snapshot>, Subscription) {
        let line = Arc::new(Line::default());
        self.0.lock().push(Arc::downgrade(&line));
        let snapshot = current.load_full();
        let seen = snapshot.revision();
        (snapshot, Subscription { line, current: Arc::clone(current), seen })
    }

    /// Tells everybody.
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

    /// Has everybody start over from the snapshot that is there: it is none that follows from the
    /// one before.
    pub fn start_over(&self) {
        self.each(|backlog| {
            backlog.batches.clear();
            backlog.behind = true;
        });
    }

    /// Ends every subscription once its backlog is taken.
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
