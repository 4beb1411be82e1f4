//! Keeping others away from a database that is to be replaced, whole or not.

use std::{
    fs::{File, OpenOptions},
    io,
    ops::Bound,
    path::Path,
};

use redb::{StorageBackend as _, backends::FileBackend};

use super::failure::Failure;
use crate::OpenError;

/// As long as this is kept nobody opens the database.
#[derive(Debug)]
pub struct Hold {
    /// Locked as a whole; unlocked when it is closed.
    _file: FileBackend,
}

impl Hold {
    /// Takes hold of a database, also of one that could not be opened any more; none if there is
    /// no file.
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

/// Makes durable what names the folder of a file holds: a file that was made or renamed there.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        // Only there a folder can be opened like a file.
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
