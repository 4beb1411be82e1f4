//! The writer's task: decides operations on the tip, has batches written, and publishes what is durable.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{mpsc, oneshot, watch};
use weft_contract::ErrorCode;
use weft_model::{ChangeSet, Revision, Snapshot};
use weft_store::{BatchId, CommitError, FollowError, Store};

use super::{Alone, Deadlines, Done, Health, Submission, Wanted, Writer, unavailable, unknown};
use crate::failure::Failure;
use crate::held::Held;
use crate::subscription::{Published, Subscribers};

/// A batch is full when it has this many operations, or at least this many bytes (1 MiB).
pub(super) const BATCH_OPERATIONS: usize = 100;
const BATCH_BYTES: usize = 1024 * 1024;
/// Waits between questions to the store about the outcome of a batch: the first, and the longest.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);
const SETTLE_PAUSE_MOST: Duration = Duration::from_secs(5);

/// An operation that was decided on the tip.
struct Decided {
    submission: Submission,
    outcome: Outcome,
}

/// What was decided.
enum Outcome {
    /// This change, which is none if the change set is empty, and the revision of the tip afterwards.
    Change(Arc<ChangeSet>, Revision),
    /// The operation was refused.
    Refusal(Failure),
}

impl Decided {
    /// The change set to write, if there is one.
    fn change(&self) -> Option<&Arc<ChangeSet>> {
        match &self.outcome {
            Outcome::Change(change, _) if !change.is_empty() => Some(change),
            Outcome::Change(..) | Outcome::Refusal(_) => None,
        }
    }

    /// Tells the caller what was decided. `snapshot` is the state afterwards.
    fn answer(self, snapshot: Arc<Snapshot>) {
        // The caller may have gone.
        let _ = self.submission.answer.send(match self.outcome {
            Outcome::Change(_, revision) => Ok(Done { revision, snapshot }),
            Outcome::Refusal(failure) => Err(failure),
        });
    }
}

/// Operations that are written together.
#[derive(Default)]
struct Batch {
    operations: Vec<Decided>,
    bytes: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.operations.len() >= BATCH_OPERATIONS || self.bytes >= BATCH_BYTES
    }

    /// The change sets to write. Refusals and operations without changes only wait until it is certain that what they
    /// were decided on counts.
    fn changes(&self) -> Vec<Arc<ChangeSet>> {
        self.operations.iter().filter_map(Decided::change).cloned().collect()
    }
}

pub(super) struct Work {
    store: Arc<dyn Store>,
    /// The head of the store, which others move, too.
    heads: watch::Receiver<Revision>,
    submissions: mpsc::Receiver<Wanted>,
    published: Arc<ArcSwap<Snapshot>>,
    subscribers: Subscribers,
    held: Arc<Held>,
    health: Arc<ArcSwap<Health>>,
    /// The tip has no other owner, so that a change copies only the parts that it shares with
    /// published snapshots.
    tip: Snapshot,
    /// The tip when the last batch was closed.
    closed: Arc<Snapshot>,
    /// Operations that are decided again before new ones.
    again: VecDeque<Submission>,
    /// Work that waits until no batch is open.
    alone: Option<(Alone, oneshot::Sender<Result<(), String>>)>,
    /// Operations decided since the batch being written was closed.
    open: Batch,
    /// A batch with unknown outcome: nothing is decided until it is known.
    unsettled: Option<BatchId>,
    /// The pause before changes of others are read again, after a failure.
    retry: Option<Duration>,
    deadlines: Deadlines,
}

impl Work {
    /// The work of this writer, which begins on a snapshot of the store.
    pub(super) fn new(
        writer: &Writer,
        store: Arc<dyn Store>,
        submissions: mpsc::Receiver<Wanted>,
        snapshot: Arc<Snapshot>,
        held: Arc<Held>,
    ) -> Self {
        Self {
            held,
            heads: store.heads(),
            store,
            submissions,
            published: Arc::clone(&writer.published),
            subscribers: writer.subscribers.clone(),
            health: Arc::clone(&writer.health),
            tip: (*snapshot).clone(),
            closed: snapshot,
            again: VecDeque::new(),
            alone: None,
            open: Batch::default(),
            unsettled: None,
            retry: None,
            deadlines: writer.deadlines,
        }
    }

    /// Runs until all handles of the writer are gone.
    pub(super) async fn run(mut self) {
        while self.find_out().await && self.fill().await {
            if self.open.operations.is_empty() {
                self.be_alone().await;
                continue;
            }
            let mut batch = std::mem::take(&mut self.open);
            let after = Arc::new(self.tip.clone());
            self.closed = Arc::clone(&after);
            self.answer_certain(&mut batch, &after);
            if batch.operations.is_empty() {
                continue;
            }
            let result = self.write(&batch).await;
            self.settle(batch, after, result).await;
        }
        self.subscribers.close();
    }

    /// Answers the operations of a batch without changes that were decided on what the store had after they had come:
    /// however often others write, such an answer waits for one of their changes at most.
    fn answer_certain(&self, batch: &mut Batch, after: &Arc<Snapshot>) {
        let decided_on = self.published.load().revision();
        if batch.operations.iter().any(|decided| decided.change().is_some()) {
            return;
        }
        let is_certain =
            |decided: &mut Decided| decided.submission.read.is_some_and(|read| read <= decided_on);
        for decided in batch.operations.extract_if(.., is_certain) {
            decided.answer(Arc::clone(after));
        }
    }

    /// Waits until the outcome of the last batch is known. Operations that come meanwhile are
    /// refused. False at the end.
    async fn find_out(&mut self) -> bool {
        let Some(batch) = self.unsettled else { return true };
        let store = Arc::clone(&self.store);
        let asked = async { (outcome(&*store, batch).await, store.head()) };
        let mut asked = std::pin::pin!(asked);
        let (happened, head) = loop {
            tokio::select! {
                biased;
                told = &mut asked => break told,
                next = self.submissions.recv() => match next {
                    Some(wanted) => refuse(wanted),
                    None => return false,
                },
            }
        };
        self.unsettled = None;
        let caught_up = match (happened, head) {
            (Ok(false), _) => Ok(false),
            (Ok(true), Ok(head)) => {
                // What is not read now is read before the next batch is written.
                if let Err(cause) = self.follow(head.revision).await {
                    self.cannot_follow(&cause);
                }
                Ok(true)
            }
            (Err(error @ CommitError::Forgotten(_)), _) => {
                tracing::error!(%batch, %error, "the callers of a batch of changes were told that its outcome is unknown");
                Ok(false)
            }
            (Err(error), _) => Err(error.to_string()),
            (_, Err(error)) => Err(error.to_string()),
        };
        match caught_up {
            Ok(happened) => {
                tracing::info!(%batch, happened, "the outcome of a batch of changes is known now");
                self.health.store(Arc::new(Health::Fine));
            }
            Err(cause) => {
                tracing::error!(%cause, "writing has stopped");
                self.health.store(Arc::new(Health::Stopped(cause)));
            }
        }
        self.reset_tip();
        true
    }

    /// Decides waiting operations, until there is a batch to write or work to run alone. False at
    /// the end.
    async fn fill(&mut self) -> bool {
        loop {
            while !self.open.is_full() {
                if let Some(submission) = self.again.pop_front() {
                    self.decide(submission);
                    continue;
                }
                let next = self.alone.is_none().then(|| self.submissions.try_recv().ok());
                let Some(wanted) = next.flatten() else { break };
                self.take(wanted);
            }
            if !self.open.operations.is_empty() || self.alone.is_some() {
                return true;
            }
            let published = self.published.load().revision();
            let wanted = tokio::select! {
                biased;
                wanted = self.submissions.recv() => Ok(wanted),
                Ok(head) = moved(&mut self.heads, published, self.retry) => Err(head),
            };
            match wanted {
                Ok(Some(wanted)) => self.take(wanted),
                Ok(None) => return false,
                Err(head) => self.take_over(head).await,
            }
        }
    }

    /// Publishes changes of others up to a head of the store, while no batch is open.
    async fn take_over(&mut self, head: Revision) {
        match self.follow(head).await {
            Ok(()) if self.retry.take().is_some() => self.health.store(Arc::new(Health::Fine)),
            Ok(()) => {}
            Err(cause) => {
                self.cannot_follow(&cause);
                self.retry =
                    Some(self.retry.map_or(SETTLE_PAUSE, |last| (last * 2).min(SETTLE_PAUSE_MOST)));
            }
        }
        self.reset_tip();
    }

    /// Notes that changes of others cannot be read. That is tried again before anything is written.
    fn cannot_follow(&self, cause: &str) {
        tracing::error!(%cause, "changes of others cannot be read from the store; nothing can be changed meanwhile");
        self.health.store(Arc::new(Health::Failing(cause.to_owned())));
    }

    fn take(&mut self, wanted: Wanted) {
        match wanted {
            Wanted::Decide(submission) => self.decide(submission),
            Wanted::Alone(work, answer) => self.alone = Some((work, answer)),
        }
    }

    /// Runs work that waited until no batch is open.
    async fn be_alone(&mut self) {
        let Some((work, answer)) = self.alone.take() else { return };
        let current = self.published.load_full();
        let done = AssertUnwindSafe(async { work(current).await }).catch_unwind().await;
        let done = done.unwrap_or_else(|panic| Err(fault(&*panic).to_string()));
        if let Ok(after) = &done {
            self.health.store(Arc::new(Health::Fine));
            if let Some(after) = after {
                self.published.store(Arc::new(after.clone()));
                self.reset_tip();
                self.subscribers.start_over();
            }
        }
        let _ = answer.send(done.map(drop));
    }

    /// Decides one operation on the tip.
    fn decide(&mut self, submission: Submission) {
        if let Health::Stopped(cause) = &**self.health.load() {
            let _ = submission.answer.send(Err(unavailable(cause)));
            return;
        }
        let decided = catch_unwind(AssertUnwindSafe(|| (submission.decide)(&self.tip)));
        let decided = decided.unwrap_or_else(|panic| Err(fault(&*panic)));
        let change = decided.and_then(|change| self.advance(&change).map(|()| change));
        let outcome = match change {
            Ok(change) => {
                self.open.bytes += change.size();
                Outcome::Change(Arc::new(change), self.tip.revision())
            }
            Err(failure) => Outcome::Refusal(failure),
        };
        self.open.operations.push(Decided { submission, outcome });
    }

    /// Applies a change set to the tip; a refused change set leaves the tip unchanged.
    fn advance(&mut self, change: &ChangeSet) -> Result<(), Failure> {
        if change.is_empty() {
            return Ok(());
        }
        let tip = &mut self.tip;
        match catch_unwind(AssertUnwindSafe(|| tip.advance(change))) {
            Ok(advanced) => Ok(advanced?),
            Err(panic) => {
                // The tip may be half changed: start again after the last batch.
                let failure = fault(&*panic);
                self.tip = (*self.closed).clone();
                for decided in std::mem::take(&mut self.open).operations {
                    let _ = decided.submission.answer.send(Err(fault(&*panic)));
                }
                Err(failure)
            }
        }
    }

    /// Drops everything that is not published from the tip.
    fn reset_tip(&mut self) {
        self.closed = self.published.load_full();
        self.tip = (*self.closed).clone();
    }

    /// Writes a batch, and decides the next one meanwhile.
    async fn write(&mut self, batch: &Batch) -> Result<(), CommitError> {
        let (store, base) = (Arc::clone(&self.store), self.published.load().revision());
        let mut commit = Box::pin(commit(store, base, batch.changes(), self.deadlines).fuse());
        loop {
            let room = !self.open.is_full() && self.alone.is_none() && self.again.is_empty();
            tokio::select! {
                biased;
                result = &mut commit => return result,
                next = self.submissions.recv(), if room && !self.submissions.is_closed() => {
                    if let Some(wanted) = next {
                        self.take(wanted);
                    }
                }
            }
        }
    }

    /// Handles the outcome of a batch.
    async fn settle(
        &mut self,
        batch: Batch,
        after: Arc<Snapshot>,
        result: Result<(), CommitError>,
    ) {
        match result {
            Ok(()) => {
                // A batch without changes says nothing about writing.
                if batch.operations.iter().any(|decided| decided.change().is_some()) {
                    self.health.store(Arc::new(Health::Fine));
                }
                self.publish(batch, after);
            }
            Err(CommitError::Stale { head }) => {
                match self.store.alive() {
                    // Other controllers may be first at any time.
                    Some(_) => {
                        tracing::debug!(%head, "another controller was first; operations are decided again")
                    }
                    None => {
                        tracing::warn!(%head, "another process changed the store; operations are decided again")
                    }
                }
                self.catch_up(batch, head).await;
            }
            Err(error @ CommitError::Damaged(_)) => {
                tracing::error!(%error, "writing has stopped");
                self.health.store(Arc::new(Health::Stopped(error.to_string())));
                self.give_up(batch, &error);
            }
            Err(error) => {
                // The health tells the first one; each caller gets an error, and its request is logged.
                match **self.health.load() {
                    Health::Fine => {
                        tracing::warn!(%error, "a batch of changes was not written; its callers get an error");
                    }
                    _ => {
                        tracing::debug!(%error, "a batch of changes was not written; its callers get an error");
                    }
                }
                if let CommitError::Unknown { batch, .. } = error {
                    self.unsettled = Some(batch);
                }
                self.health.store(Arc::new(Health::Failing(error.to_string())));
                self.give_up(batch, &error);
            }
        }
    }

    /// Publishes a snapshot, answers callers, and tells subscribers.
    fn publish(&mut self, batch: Batch, after: Arc<Snapshot>) {
        let before = self.published.load_full();
        let changes = batch.changes();
        if !changes.is_empty() {
            self.published.store(Arc::clone(&after));
            self.held.follow(&changes);
        }
        for decided in batch.operations {
            decided.answer(Arc::clone(&after));
        }
        if !changes.is_empty() {
            let revision = after.revision();
            self.subscribers.tell(&Arc::new(Published { before, after, changes, revision }));
        }
    }

    /// Takes over changes that another process committed, and decides all operations again on top
    /// of them.
    async fn catch_up(&mut self, batch: Batch, head: Revision) {
        let open = std::mem::take(&mut self.open);
        let of_batch = batch
            .operations
            .into_iter()
            .map(|decided| Submission { read: Some(head), ..decided.submission });
        let mut waiting: VecDeque<_> =
            of_batch.chain(open.operations.into_iter().map(|it| it.submission)).collect();
        waiting.append(&mut self.again);
        self.again = waiting;
        if let Err(cause) = self.follow(head).await {
            self.cannot_follow(&cause);
            for submission in std::mem::take(&mut self.again) {
                let _ = submission.answer.send(Err(unavailable(&cause)));
            }
        }
        self.reset_tip();
    }

    async fn follow(&mut self, head: Revision) -> Result<(), String> {
        let before = self.published.load_full();
        let mut after = Arc::clone(&before);
        let mut changes = Vec::new();
        let mut log = self.store.follow(before.revision());
        while after.revision() < head {
            let next = tokio::time::timeout(self.deadlines.commit, log.next()).await;
            let next = next.map_err(|_| "the log of the store does not answer".to_owned())?;
            let committed = match next.ok_or("the log of the store has ended")? {
                Err(FollowError::TooOld { .. }) => return self.reload().await,
                next => next.map_err(|error| error.to_string())?,
            };
            let applied = match after.apply(&committed.change_set) {
                Ok(applied) => applied,
                Err(error) => {
                    tracing::error!(%error, "a change of others does not follow from the model, which is loaded anew");
                    return self.reload().await;
                }
            };
            after = Arc::new(applied);
            changes.push(committed.change_set);
        }
        if !changes.is_empty() {
            self.published.store(Arc::clone(&after));
            self.held.follow(&changes);
            let revision = after.revision();
            self.subscribers.tell(&Arc::new(Published { before, after, changes, revision }));
        }
        Ok(())
    }

    /// Publishes the model as the store has it, because the log between is no longer kept.
    async fn reload(&mut self) -> Result<(), String> {
        let store = Arc::clone(&self.store);
        let loaded = tokio::task::spawn_blocking(move || crate::load(&*store)).await;
        let loaded =
            loaded.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        tracing::info!(revision = %loaded.revision(), "the model was loaded anew from the store");
        self.published.store(Arc::new(loaded));
        self.subscribers.start_over();
        Ok(())
    }

    /// Tells the callers of a failed batch the error, and drops the tip. Operations decided after
    /// the batch were never given to the store.
    fn give_up(&mut self, batch: Batch, error: &CommitError) {
        let open = std::mem::take(&mut self.open);
        let answer = |decided: Decided, failure| drop(decided.submission.answer.send(Err(failure)));
        for decided in batch.operations {
            let failure = match error {
                CommitError::Busy => ErrorCode::ServerTooManyRequests.into(),
                // An operation without changes only waited for others.
                error @ CommitError::Unknown { .. } if decided.change().is_some() => {
                    unknown(&error.to_string())
                }
                error => unavailable(&error.to_string()),
            };
            answer(decided, failure);
        }
        for decided in open.operations {
            answer(decided, unavailable(&format!("not written, as the batch before it: {error}")));
        }
        self.reset_tip();
    }
}

/// Refuses a request while the outcome of the last batch is unknown.
fn refuse(wanted: Wanted) {
    const WHY: &str = "the outcome of an earlier change is not known yet; this one was not made";
    match wanted {
        Wanted::Decide(submission) => drop(submission.answer.send(Err(unavailable(WHY)))),
        Wanted::Alone(_, answer) => drop(answer.send(Err(WHY.to_owned()))),
    }
}

/// Writes a batch to the store. If the outcome is unknown, the store is asked for it first. A batch without changes
/// waits until it is certain that `base` is the head.
async fn commit(
    store: Arc<dyn Store>,
    base: Revision,
    changes: Vec<Arc<ChangeSet>>,
    deadlines: Deadlines,
) -> Result<(), CommitError> {
    if changes.is_empty() {
        let late = |_| Err(CommitError::Unavailable("the store does not answer".to_owned()));
        let confirmed = tokio::time::timeout(deadlines.commit, store.confirm(base)).await;
        return confirmed.unwrap_or_else(late);
    }
    for is_last in [false, true] {
        let batch = BatchId::random();
        let written = store.commit_as(batch, base, changes.clone());
        let reason = match tokio::time::timeout(deadlines.commit, written).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(CommitError::Unknown { reason, .. })) => reason,
            Ok(Err(error)) => return Err(error),
            Err(_) => "the store does not answer".to_owned(),
        };
        tracing::warn!(%batch, reason, "the outcome of a batch of changes is unknown; the store is asked for it");
        match tokio::time::timeout(deadlines.settle, outcome(&*store, batch)).await {
            Ok(Ok(true)) => return Ok(()),
            // The batch was not written and never will be: write it once more.
            Ok(Ok(false)) if is_last => return Err(CommitError::Unavailable(reason)),
            Ok(Ok(false)) => {}
            // The store will give the same answer again, so writing stops.
            Ok(Err(damage)) => {
                return Err(CommitError::Unknown { batch, reason: damage.to_string() });
            }
            Err(_) => return Err(CommitError::Unknown { batch, reason }),
        }
    }
    Err(CommitError::Unavailable("the batch was not written".to_owned()))
}

/// Waits until the head is past a revision, after a pause.
async fn moved(
    heads: &mut watch::Receiver<Revision>,
    published: Revision,
    pause: Option<Duration>,
) -> Result<Revision, watch::error::RecvError> {
    if let Some(pause) = pause {
        tokio::time::sleep(pause).await;
    }
    heads.wait_for(|head| *head > published).await.map(|head| *head)
}

/// Whether a batch was written; asks until the store knows.
async fn outcome(store: &dyn Store, batch: BatchId) -> Result<bool, CommitError> {
    let (mut pause, mut heads) = (SETTLE_PAUSE, store.heads());
    loop {
        heads.mark_unchanged();
        match store.settle(batch).await {
            Ok(revision) => return Ok(revision.is_some()),
            Err(error @ (CommitError::Damaged(_) | CommitError::Forgotten(_))) => {
                return Err(error);
            }
            Err(error) => {
                tracing::warn!(%batch, %error, "the store did not answer with the outcome of a batch; it is asked again")
            }
        }
        tokio::time::sleep(SETTLE_PAUSE).await;
        // Changes of others that come mean that the store answers again.
        let _ = tokio::time::timeout(pause - SETTLE_PAUSE, heads.changed()).await;
        pause = (pause * 2).min(SETTLE_PAUSE_MOST);
    }
}

/// The failure for a decide function that panicked; writing goes on.
fn fault(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!(
        panic = text,
        "an operation panicked while it was decided; its caller gets an error"
    );
    Failure::unhandled("the operation failed while it was decided")
}
