//! A lock on a database that is to be replaced, whether it can be opened or not.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::path::Path;

use redb::StorageBackend as _;
use redb::backends::FileBackend;

use super::failure::Failure;
use crate::OpenError;

/// Keeps every process from opening the database.
#[derive(Debug)]
pub struct Hold {
    /// The file, locked until it is closed.
    _file: FileBackend,
}

impl Hold {
    /// Locks a database, even one that cannot be opened; `None` if there is no file.
    pub fn take(path: &Path) -> Result<Option<Self>, OpenError> {
        let io = |error| OpenError::Io { path: path.to_owned(), error };
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(io)?,
        };
        let file = FileBackend::new(file).map_err(|error| Failure::from(error).open(path))?;
        match file.try_lock_range(Bound::Unbounded, Bound::Unbounded) {
            Ok(true) => Ok(Some(Self { _file: file })),
            Ok(false) => Err(OpenError::InUse(path.to_owned())),
            Err(error) => Err(io(io::Error::other(error.to_string()))),
        }
    }
}

/// Makes the directory entry of a file durable, after the file was created or renamed.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        // Only on Unix can a folder be opened like a file.
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
