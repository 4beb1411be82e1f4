//! The log that several controllers share: what a service outside of them has to do.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sha2::{Digest as _, Sha256};
use weft_model::{ChangeSet, ColdField, Entity, Id, Kind, Revision, RowError};

use crate::{BatchId, Damage, Head};

/// SHA-256 over a change set of the log and the digest before it. Two logs with one digest at one revision have the
/// same history.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct LogDigest(pub [u8; 32]);

impl fmt::Debug for LogDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A number that grows with every change of the head, also when its revision stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct HeadVersion(pub u64);

/// The head of the shared log at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHead {
    /// The end of the log.
    pub head: Head,
    /// The digest of the last change set.
    pub digest: LogDigest,
    /// The precondition of the next append.
    pub version: HeadVersion,
}

/// A change set of the shared log.
#[derive(Debug, Clone)]
pub struct SharedLogEntry {
    /// The revision that it made.
    pub revision: Revision,
    /// The batch that it belongs to.
    pub batch: BatchId,
    /// The change set.
    pub change_set: Arc<ChangeSet>,
    /// The digest of the log up to here.
    pub digest: LogDigest,
}

impl SharedLogEntry {
    /// The entry that follows from a log with this revision and digest.
    #[must_use]
    pub fn after(
        (revision, digest): (Revision, LogDigest),
        batch: BatchId,
        change_set: Arc<ChangeSet>,
    ) -> Self {
        let revision = revision.next();
        let digest = digest_of(digest, revision, batch, &change_set.to_bytes());
        Self { revision, batch, change_set, digest }
    }

    /// Whether the entry follows from a log with this digest.
    pub(super) fn follows(&self, digest: LogDigest) -> bool {
        digest_of(digest, self.revision, self.batch, &self.change_set.to_bytes()) == self.digest
    }
}

/// The digest of a log after a change set.
fn digest_of(before: LogDigest, revision: Revision, batch: BatchId, set: &[u8]) -> LogDigest {
    let mut hash = Sha256::new();
    hash.update(before.0);
    hash.update(revision.0.to_be_bytes());
    hash.update(batch.0.to_be_bytes());
    hash.update(set);
    LogDigest(hash.finalize().into())
}

/// All rows and cold fields at one revision of the shared log.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The end of the log at that revision.
    pub head: Head,
    /// The digest of the log at that revision.
    pub digest: LogDigest,
    /// The rows.
    pub rows: Vec<Entity>,
    /// The cold fields.
    pub cold: Vec<(Kind, Id, ColdField, Bytes)>,
}

/// Why the shared log did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The service cannot be reached, has no quorum, or refuses.
    #[error("{0}")]
    Unavailable(String),
    /// What the service holds is not what weft wrote.
    #[error("{0}")]
    Damaged(Damage),
    /// The service holds what a newer weft wrote.
    #[error("{0}")]
    Newer(#[from] RowError),
}

/// The outcome of an append that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendError {
    /// The head has another version. Nothing was appended.
    Moved(LogHead),
    /// The service refused. Nothing was appended.
    Refused(String),
    /// There was no answer: the change sets may be in the log now, later, or never.
    Unanswered(String),
}

/// Why change sets could not be read from the shared log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The change sets after the revision are no longer kept: load a checkpoint.
    #[error("the log begins at revision {oldest}")]
    TooOld {
        /// The oldest revision kept.
        oldest: Revision,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A log outside of the controllers, with one head. All reads are linearizable: they show every append that was
/// answered before they began.
pub trait SharedLog: Send + Sync + 'static {
    /// The head; none if the log was not begun.
    fn head(&self) -> BoxFuture<'_, Result<Option<LogHead>, LogError>>;

    /// Begins the log with a checkpoint, unless it was begun. Returns its head.
    fn begin(&self, from: Checkpoint) -> BoxFuture<'_, Result<LogHead, LogError>>;

    /// Appends the change sets of one batch, all or none, if the head is still this one. A request is sent once and
    /// never repeated, so that [`AppendError::Moved`] is final.
    fn append(
        &self,
        at: LogHead,
        entries: Vec<SharedLogEntry>,
    ) -> BoxFuture<'_, Result<LogHead, AppendError>>;

    /// Gives the head another version, unless it gets one by other means meanwhile. No append with a version from
    /// before the call happens after the answer.
    fn fence(&self) -> BoxFuture<'_, Result<LogHead, LogError>>;

    /// At most `most` change sets after a revision, in order and without a gap.
    fn entries(
        &self,
        after: Revision,
        most: usize,
    ) -> BoxFuture<'_, Result<Vec<SharedLogEntry>, FetchError>>;

    /// The heads that come after the call, in order; some may be left out, never the last. It ends when the service
    /// cannot be reached any more.
    fn watch(&self) -> BoxStream<'static, LogHead>;

    /// The newest checkpoint.
    fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, LogError>>;
}
