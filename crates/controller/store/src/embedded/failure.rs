//! Errors of redb and the disk, as errors of this crate.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use weft_model::{Revision, RowError};

use crate::codec::RowFault;
use crate::{BatchId, CommitError, Damage, OpenError, ReadError};

/// Failure of an operation on the file.
#[derive(Debug)]
pub(crate) enum Failure {
    Damaged(Damage),
    Full,
    /// The file cannot be read or written.
    Unavailable(String),
    /// Another caller met an error: the file must be opened again.
    Broken,
    InUse,
    Newer {
        found: u32,
        known: u32,
    },
    Row(RowError),
    Stale(Revision),
    Unknown(BatchId, String),
}

/// Text of [`Failure::Broken`].
const BROKEN: &str = "an I/O error happened before";

/// Runs work on the file; a panic of redb over damaged data becomes an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it stopped");
        Err(Failure::Damaged(Damage::new("the storage engine", text)))
    })
}

impl Failure {
    /// True if the file must be opened again before it is used.
    pub(crate) fn breaks(&self) -> bool {
        matches!(self, Self::Full | Self::Unavailable(_) | Self::Broken)
    }

    /// The cause, for people.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Unavailable(reason) | Self::Unknown(_, reason) => reason.clone(),
            Self::Damaged(damage) => damage.to_string(),
            Self::Full => "the disk is full".to_owned(),
            Self::Broken => BROKEN.to_owned(),
            Self::InUse => "another process has the file open".to_owned(),
            other => format!("{other:?}"),
        }
    }

    pub(crate) fn io(error: &io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, InvalidData, QuotaExceeded, StorageFull, UnexpectedEof};
        match error.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Self::Full,
            InvalidData | UnexpectedEof => Self::Damaged(Damage::new("the file", error)),
            _ => Self::Unavailable(error.to_string()),
        }
    }

    pub(crate) fn redb(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(error) => Self::io(&error),
            redb::Error::DatabaseAlreadyOpen => Self::InUse,
            redb::Error::PreviousIo => Self::Broken,
            redb::Error::Corrupted(text) => Self::Damaged(Damage::new("the file", text)),
            error @ (redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableDoesNotExist(_)
            | redb::Error::TypeDefinitionChanged { .. }
            | redb::Error::RepairAborted
            | redb::Error::UpgradeRequired(_)) => Self::Damaged(Damage::new("the file", error)),
            other => Self::Unavailable(other.to_string()),
        }
    }

    /// The failure as an error of opening or loading.
    pub(crate) fn open(self, path: &Path) -> OpenError {
        let io = |error| OpenError::Io { path: path.to_owned(), error };
        match self {
            Self::Damaged(damage) => OpenError::Damaged(damage),
            Self::InUse => OpenError::InUse(path.to_owned()),
            Self::Newer { found, known } => OpenError::Newer { found, known },
            Self::Row(error) => OpenError::Row(error),
            Self::Full => io(io::ErrorKind::StorageFull.into()),
            other => io(io::Error::other(ReadError::from(other).to_string())),
        }
    }
}

/// From any error of redb.
impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::redb(error.into())
    }
}

impl From<Damage> for Failure {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<RowFault> for Failure {
    fn from(fault: RowFault) -> Self {
        match fault {
            RowFault::Damaged(damage) => Self::Damaged(damage),
            RowFault::Row(error) => Self::Row(error),
        }
    }
}

impl From<Failure> for CommitError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Damaged(damage) => Self::Damaged(damage),
            Failure::Full => Self::Full,
            Failure::Unavailable(reason) => Self::Unavailable(reason),
            Failure::Broken => Self::Unavailable(BROKEN.into()),
            Failure::InUse => Self::Unavailable("another process has the file open".into()),
            Failure::Newer { found, .. } => {
                Self::Unavailable(format!("the file has format {found}"))
            }
            Failure::Row(error) => Self::Unavailable(error.to_string()),
            Failure::Stale(head) => Self::Stale { head },
            Failure::Unknown(batch, reason) => Self::Unknown { batch, reason },
        }
    }
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Damaged(damage) => Self::Damaged(damage),
            Failure::Row(error) => Self::Row(error),
            other => Self::Unavailable(CommitError::from(other).to_string()),
        }
    }
}
