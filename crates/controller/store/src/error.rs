//! Errors of the store, with remedies.

use std::path::PathBuf;
use std::{fmt, io};

use weft_model::{Revision, RowError};

use crate::BatchId;

/// Stored data that differs from the written data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Location of the damage.
    pub location: String,
    /// The problem.
    pub reason: String,
}

impl Damage {
    /// Damage at a location.
    pub fn new(location: impl Into<String>, reason: impl ToString) -> Self {
        Self { location: location.into(), reason: reason.to_string() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the store is damaged ({}: {}); keep a copy of the file, restore the last backup, and \
             check the disk",
            self.location, self.reason
        )
    }
}

/// Why a store could not be opened or loaded.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Stored data differs from the written data.
    #[error("{0}")]
    Damaged(Damage),
    /// Another process has the file open.
    #[error("{path} is in use by another process: stop that controller first", path = .0.display())]
    InUse(PathBuf),
    /// The file was written by a newer weft.
    #[error(
        "the store has format {found}, this weft reads up to {known}: use the weft that wrote it, \
         or a newer one"
    )]
    Newer {
        /// The format of the file.
        found: u32,
        /// The newest format known.
        known: u32,
    },
    /// A row was written by a newer weft.
    #[error("{0}")]
    Row(RowError),
    /// The file to be created exists.
    #[error("{path} exists: move it away first", path = .0.display())]
    Exists(PathBuf),
    /// The file cannot be read or written.
    #[error("{path}: {error}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

/// Why a commit was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The head is not `base`: follow the log to the head and decide again.
    #[error("the store is at revision {head}, not at the one this was decided on")]
    Stale {
        /// The revision of the store.
        head: Revision,
    },
    /// The commit may or may not have happened: ask [`crate::Store::settle`] before anything else.
    #[error("the outcome of batch {batch} is not known: {reason}")]
    Unknown {
        /// The batch.
        batch: BatchId,
        /// The cause.
        reason: String,
    },
    /// The store keeps no longer what it would need to tell the outcome of this batch.
    #[error("the outcome of batch {0} cannot be told any more: read what it was to change")]
    Forgotten(BatchId),
    /// Too many commits wait: try again later.
    #[error("the store is busy")]
    Busy,
    /// The store cannot be reached or written. Nothing was committed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The disk is full. Nothing was committed.
    #[error("the disk of the store is full: free space, writes go on by themselves")]
    Full,
    /// Stored data differs from the written data. Nothing was committed.
    #[error("{0}")]
    Damaged(Damage),
}

/// Why a cold field or live state could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The store cannot be read.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The data differs from the written data.
    #[error("{0}")]
    Damaged(Damage),
    /// The data was written by a newer weft.
    #[error("{0}")]
    Row(#[from] RowError),
}

/// Why the log cannot be followed from a revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FollowError {
    /// The change sets after the revision are no longer kept: load every row.
    #[error("the log begins at revision {oldest}: load all rows")]
    TooOld {
        /// The oldest revision kept.
        oldest: Revision,
    },
    /// The revision does not exist yet: it belongs to another timeline.
    #[error("the store is at revision {head}: the one to follow from does not exist")]
    Ahead {
        /// The revision of the store.
        head: Revision,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why a backup was not made.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The last changes could not be written to the store's file, from which the backup is made.
    #[error(transparent)]
    Fold(CommitError),
    /// The backup could not be written.
    #[error(transparent)]
    Write(OpenError),
}

impl BackupError {
    /// True if the disk of the store or of the backup is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match self {
            Self::Fold(error) => *error == CommitError::Full,
            Self::Write(OpenError::Io { error, .. }) => {
                matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
            }
            _ => false,
        }
    }
}

impl From<Damage> for ReadError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<Damage> for OpenError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}
