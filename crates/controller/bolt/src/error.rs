//! Why a database is not read.

use std::io;
use std::path::PathBuf;

/// Why a database or a part of it is not read.
#[derive(Debug, thiserror::Error)]
pub enum BoltError {
    /// Another process has the file open for writing.
    #[error(
        "{path} is in use: stop the controller that has it, or read a copy, which \
         `ziti fabric db snapshot` or `ziti agent controller snapshot-db` makes while it runs",
        path = .0.display()
    )]
    InUse(PathBuf),
    /// The file is no database of bbolt, or none that was written whole.
    #[error("{path} is no database of bbolt that can be read: {reason}", path = .path.display())]
    NotBolt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A page is damaged.
    #[error(
        "page {page} of the database is damaged ({reason}): use another copy of the file, such as \
         the last snapshot"
    )]
    Damaged {
        /// The number of the page: it begins at this multiple of the size of a page.
        page: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The file cannot be opened or read.
    #[error("{path}: {error}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

impl BoltError {
    /// Damage of a page.
    pub(crate) fn damaged(page: u64, reason: impl ToString) -> Self {
        Self::Damaged { page, reason: reason.to_string() }
    }
}
