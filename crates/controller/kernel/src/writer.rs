//! The one writer of the model.
//!
//! Operations are decided one after the other on the *tip*: the published snapshot plus the change
//! sets that are not durable yet. While one batch is written to the store, the next one is decided.
//! When a batch is durable, its snapshot is published, then its callers are answered, then
//! subscribers are told. Nobody reads a change that is not durable. If the store refuses a batch,
//! the tip is dropped and the same functions decide again on the stored state.

mod work;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use weft_contract::ErrorCode;
use weft_model::{ChangeSet, Revision, Snapshot};
use weft_store::Store;

use self::work::Work;
use super::subscription::{Subscribers, Subscription};
use crate::failure::Failure;
use crate::held::Held;

/// Decides the changes of an operation from the tip alone. It may be called again with another tip,
/// and must then decide anew.
pub type Decide = Box<dyn Fn(&Snapshot) -> Result<ChangeSet, Failure> + Send + Sync>;

/// Work between two batches, on the published snapshot, while nothing is decided or written. It may
/// return a new snapshot with the same entities.
pub type Alone =
    Box<dyn FnOnce(Arc<Snapshot>) -> BoxFuture<'static, Result<Option<Snapshot>, String>> + Send>;

/// The cause of the end after a fault of the writer.
const FAULT: &str = "the writer ended in a fault, which the log names: restart the controller";

/// Most operations that wait; above that the answer is "busy".
const QUEUE: usize = 1024;
/// 503 for an operation whose outcome is unknown.
fn unknown(cause: &str) -> Failure {
    Failure::because(ErrorCode::OutcomeUnknown, cause)
}

/// 503 with its cause, for an operation that was not done.
fn unavailable(cause: &str) -> Failure {
    Failure::unwritable(cause)
}

/// Time limits of waits.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// How long a caller waits for the reply.
    pub answer: Duration,
    /// How long the writer waits for the store to write a batch; then it asks the store about the
    /// outcome.
    pub commit: Duration,
    /// How long the writer waits for that outcome, before callers are told that it is unknown.
    pub settle: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        // Shorter than the 10 s after which the APIs answer with a timeout, which names no cause.
        Self { answer: seconds(8), commit: seconds(30), settle: seconds(5) }
    }
}

/// An operation that is durable and visible.
#[derive(Debug, Clone)]
pub struct Done {
    /// The revision of the operation; if nothing changed, the revision on which the operation was decided.
    pub revision: Revision,
    /// A snapshot that contains it.
    pub snapshot: Arc<Snapshot>,
}

/// The state of writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The last batch was written.
    Fine,
    /// The last batch was not written; the next one is tried.
    Failing(String),
    /// Writing has stopped for good.
    Stopped(String),
}

struct Submission {
    decide: Decide,
    /// A head of the store that was read after the submission. A refusal that was decided on it, or on a later one, counts.
    read: Option<Revision>,
    answer: oneshot::Sender<Result<Done, Failure>>,
}

/// A request to the writer.
enum Wanted {
    Decide(Submission),
    Alone(Alone, oneshot::Sender<Result<(), String>>),
}

/// A handle of the writer.
#[derive(Clone)]
pub struct Writer {
    queue: mpsc::Sender<Wanted>,
    published: Arc<ArcSwap<Snapshot>>,
    subscribers: Subscribers,
    health: Arc<ArcSwap<Health>>,
    deadlines: Deadlines,
}

impl Writer {
    /// Starts the writer on a snapshot that was loaded from the store.
    pub fn start(store: Arc<dyn Store>, snapshot: Snapshot, deadlines: Deadlines) -> Self {
        Self::start_beside(store, snapshot, deadlines, Arc::default())
    }

    /// [`Self::start`], where changes may be held.
    pub(crate) fn start_beside(
        store: Arc<dyn Store>,
        snapshot: Snapshot,
        deadlines: Deadlines,
        held: Arc<Held>,
    ) -> Self {
        let (queue, submissions) = mpsc::channel(QUEUE);
        let snapshot = Arc::new(snapshot);
        let writer = Self {
            queue,
            published: Arc::new(ArcSwap::new(Arc::clone(&snapshot))),
            subscribers: Subscribers::default(),
            health: Arc::new(ArcSwap::from_pointee(Health::Fine)),
            deadlines,
        };
        let work = Work::new(&writer, store, submissions, snapshot, held);
        let health = Arc::clone(&writer.health);
        tokio::spawn(async move {
            // Operations that panic are answered one by one; this is a fault of the writer itself.
            if AssertUnwindSafe(work.run()).catch_unwind().await.is_err() {
                tracing::error!(
                    "the writer ended in a fault: nothing can be changed until the controller is restarted"
                );
                health.store(Arc::new(Health::Stopped(FAULT.to_owned())));
            }
        });
        writer
    }

    /// The durable snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.load_full()
    }

    /// A snapshot, and everything that is published after it.
    pub fn subscribe(&self) -> (Arc<Snapshot>, Subscription) {
        self.subscribers.join(&self.published)
    }

    /// The state of writing.
    pub fn health(&self) -> Health {
        (**self.health.load()).clone()
    }

    /// Submits an operation, and waits until it is durable. A caller that stops waiting does not
    /// cancel it.
    pub async fn submit(&self, decide: Decide) -> Result<Done, Failure> {
        if let Health::Stopped(cause) = &**self.health.load() {
            return Err(unavailable(cause));
        }
        let (answer, answered) = oneshot::channel();
        let wanted = Wanted::Decide(Submission { decide, read: None, answer });
        self.queue.try_send(wanted).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ErrorCode::ServerTooManyRequests.into(),
            mpsc::error::TrySendError::Closed(_) => unavailable(&self.end()),
        })?;
        match tokio::time::timeout(self.deadlines.answer, answered).await {
            Ok(Ok(result)) => result,
            // The writer ended with the operation in its hands.
            Ok(Err(_)) => Err(unknown(&self.end())),
            Err(_) => Err(unknown("the store has not answered yet")),
        }
    }

    /// Runs work between two batches, also when writing has stopped; if the work succeeds, writing
    /// is tried again.
    pub async fn alone(&self, work: Alone) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        self.queue.send(Wanted::Alone(work, answer)).await.map_err(|_| self.end())?;
        answered.await.map_err(|_| self.end())?
    }

    /// Why the writer has ended.
    fn end(&self) -> String {
        match &**self.health.load() {
            Health::Stopped(cause) => cause.clone(),
            Health::Fine | Health::Failing(_) => "the writer has ended".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
