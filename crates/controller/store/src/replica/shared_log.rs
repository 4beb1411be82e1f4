//! The log that several controllers share: what a service outside of them has to do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sha2::{Digest as _, Sha256};
use weft_model::{ChangeSet, Revision, RowError, Timeline};

use crate::standing::{LogMember, Presence};
use crate::{BatchId, Damage, Head, LogKeys};

/// The controllers that are alive.
#[derive(Debug, Clone, Default)]
pub struct Announcements {
    /// The controllers; the one that has been alive for the longest time comes first.
    pub controllers: Vec<Presence>,
    /// When this was so, as a number that grows whenever a controller begins to be alive or ends. It may begin anew with
    /// another timeline.
    pub moment: u64,
}

/// The time for which a controller counts as alive after it has said so.
pub const ALIVE: Duration = Duration::from_secs(5);

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

impl LogHead {
    /// Encodes everything but the version: the digest, then the head.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.digest.0.as_slice(), &self.head.to_bytes()].concat()
    }

    /// Decodes a head that has this version.
    pub fn from_bytes(bytes: &[u8], version: HeadVersion) -> Result<Self, Damage> {
        let damage = || Damage::new("the head of the shared log", "it is cut short");
        let (digest, head) = bytes.split_first_chunk().ok_or_else(damage)?;
        Ok(Self { head: Head::from_bytes(head)?, digest: LogDigest(*digest), version })
    }
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
    /// The change set as bytes.
    pub bytes: Bytes,
    /// The digest of the log up to here.
    pub digest: LogDigest,
}

impl SharedLogEntry {
    /// The format of a log of this format after these entries.
    #[must_use]
    pub fn format_after(before: u32, entries: &[Self]) -> u32 {
        entries.iter().map(|entry| entry.change_set.format).fold(before, u32::max)
    }

    /// The entry that follows from a log with this revision and digest.
    #[must_use]
    pub fn after(
        (revision, digest): (Revision, LogDigest),
        batch: BatchId,
        change_set: Arc<ChangeSet>,
    ) -> Self {
        let revision = revision.next();
        let bytes = Bytes::from(change_set.to_bytes());
        let digest = digest_of(digest, revision, batch, &bytes);
        Self { revision, batch, change_set, bytes, digest }
    }

    /// Encodes the change sets of one batch: batch, first revision and number of change sets, then digest, length and
    /// bytes of each (big endian).
    #[must_use]
    pub fn encode(batch: &[Self]) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(28 + batch.iter().map(|it| it.bytes.len() + 36).sum::<usize>());
        if let Some(first) = batch.first() {
            bytes.extend(first.batch.0.to_be_bytes());
            bytes.extend(first.revision.0.to_be_bytes());
            bytes.extend((batch.len() as u32).to_be_bytes());
        }
        for entry in batch {
            bytes.extend(entry.digest.0);
            bytes.extend((entry.bytes.len() as u32).to_be_bytes());
            bytes.extend_from_slice(&entry.bytes);
        }
        bytes
    }

    /// Decodes the change sets of one batch.
    pub fn decode(mut bytes: Bytes) -> Result<Vec<Self>, LogError> {
        let damage =
            || LogError::Damaged(Damage::new("a batch of the shared log", "it is cut short"));
        let batch = BatchId(bytes.try_get_u128().map_err(|_| damage())?);
        let first = bytes.try_get_u64().map_err(|_| damage())?;
        let count = bytes.try_get_u32().map_err(|_| damage())?;
        let mut entries = Vec::new();
        for at in 0..u64::from(count) {
            let mut digest = LogDigest::default();
            bytes.try_copy_to_slice(&mut digest.0).map_err(|_| damage())?;
            let length = bytes.try_get_u32().map_err(|_| damage())? as usize;
            if bytes.len() < length {
                return Err(damage());
            }
            let set = bytes.split_to(length);
            let change_set = Arc::new(ChangeSet::from_bytes(&set)?);
            let revision = Revision(first.saturating_add(at));
            entries.push(Self { revision, batch, change_set, bytes: set, digest });
        }
        Ok(entries)
    }

    /// Whether the entry follows from a log with this digest.
    pub(super) fn follows(&self, digest: LogDigest) -> bool {
        digest_of(digest, self.revision, self.batch, &self.bytes) == self.digest
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
pub struct Checkpoint {
    /// The end of the log at that revision.
    pub head: Head,
    /// The digest of the log at that revision.
    pub digest: LogDigest,
    /// The rows and cold fields, in parts that only the store reads. The parts of a log are in the order in which they
    /// were written.
    pub chunks: BoxStream<'static, Result<Bytes, LogError>>,
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checkpoint({} {:?})", self.head.revision, self.digest)
    }
}

/// Why the shared log did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The service cannot be reached, has no quorum, or refuses.
    #[error("{0}")]
    Unavailable(String),
    /// What the service holds is not what weft wrote.
    #[error("{}: {}", .0.location, .0.reason)]
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
    fn begin(&self, from: Checkpoint) -> BoxFuture<'_, Result<LogHead, LogError>> {
        async move {
            if let Some(head) = self.head().await? {
                return Ok(head);
            }
            match self.begin_anew(None, from, Vec::new()).await {
                Ok(head) | Err(AppendError::Moved(head)) => Ok(head),
                Err(AppendError::Refused(why) | AppendError::Unanswered(why)) => {
                    Err(LogError::Unavailable(why))
                }
            }
        }
        .boxed()
    }

    /// Begins the log anew with a checkpoint, at once, if the head is still `over` (none: if there is no log). A copy that
    /// is of one of the `former` timelines counts as of a former state of the network.
    fn begin_anew(
        &self,
        over: Option<LogHead>,
        from: Checkpoint,
        former: Vec<Timeline>,
    ) -> BoxFuture<'_, Result<LogHead, AppendError>>;

    /// The timelines of the former states of the network, the oldest first.
    fn former(&self) -> BoxFuture<'_, Result<Vec<Timeline>, LogError>>;

    /// Appends the change sets of one batch, all or none, if the head is still this one. A request is sent once and
    /// never repeated, so that [`AppendError::Moved`] is final.
    fn append(
        &self,
        at: LogHead,
        entries: Vec<SharedLogEntry>,
    ) -> BoxFuture<'_, Result<LogHead, AppendError>>;

    /// Has no other controller append for a short time, or until this one has, for a controller that has lost to others too
    /// often. Returns the head after that; none if the log knows no turns.
    fn take_turn(&self) -> BoxFuture<'_, Result<Option<LogHead>, LogError>> {
        async { Ok(None) }.boxed()
    }

    /// Gives the head another version, unless it gets one by other means meanwhile. No append with a version from
    /// before the call happens after the answer.
    fn fence(&self) -> BoxFuture<'_, Result<LogHead, LogError>>;

    /// At most `most` change sets after a revision, in order and without a gap.
    fn entries(
        &self,
        after: Revision,
        most: usize,
    ) -> BoxFuture<'_, Result<Vec<SharedLogEntry>, FetchError>>;

    /// The present head, read after the call, and then those that come, in order; some may be left out, never the last.
    /// It ends, with an error if there is a cause, when the service cannot be reached any more.
    fn watch(&self) -> BoxStream<'static, Result<LogHead, LogError>>;

    /// Deletes everything of the log, if the head is still this one.
    fn erase(&self, at: LogHead) -> BoxFuture<'_, Result<(), AppendError>>;

    /// Says that a controller is alive, for some seconds ([`ALIVE`]).
    fn announce(&self, presence: Presence) -> BoxFuture<'_, Result<(), LogError>>;

    /// Says that a run of a controller has ended.
    fn withdraw(&self, run: u128) -> BoxFuture<'_, Result<(), LogError>>;

    /// The controllers that are alive.
    fn announced(&self) -> BoxFuture<'_, Result<Announcements, LogError>>;

    /// The members of the service, each asked by itself.
    fn members(&self) -> BoxFuture<'_, Vec<LogMember>> {
        async { Vec::new() }.boxed()
    }

    /// The newest checkpoint.
    fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, LogError>>;

    /// Whether the log has grown so much since its last checkpoint that it wants another one.
    fn wants_checkpoint(&self) -> bool;

    /// The keys that seal; none if nothing is sealed.
    fn keys(&self) -> Option<Arc<dyn LogKeys>> {
        None
    }

    /// Whether everything that the log holds is sealed with the key that seals now, or a newer one. If not, the log wants a
    /// checkpoint ([`Self::wants_checkpoint`]), and has one written also if nothing has changed since the last one.
    fn is_sealed_anew(&self) -> BoxFuture<'_, Result<bool, LogError>> {
        async { Ok(true) }.boxed()
    }

    /// Writes a checkpoint, after which the log may forget change sets before it. Nothing is changed if the log has a
    /// newer one.
    fn write_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, Result<(), LogError>>;
}
