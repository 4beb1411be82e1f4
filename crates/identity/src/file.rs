//! Key and certificate files: small, private, replaced as a whole.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    path::Path,
};

use crate::error::{Error, Result};

/// Largest key, certificate or bundle file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Reads a whole file of at most [`MAX_FILE_BYTES`].
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |source| Error::File { action: "read", path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    let size = bytes.len() as u64;
    if size > MAX_FILE_BYTES {
        return Err(Error::TooLarge { path: path.to_owned(), size, limit: MAX_FILE_BYTES });
    }
    Ok(bytes)
}

/// Replaces a file that only its owner may read: writes a new file beside it and renames it, so
/// that readers see the old or the new contents and never a part. A symbolic link is followed and
/// stays a link.
///
/// # Errors
/// When the directory cannot be written to.
pub fn write_private(path: &Path, contents: &[u8]) -> Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let failed = |source| Error::File { action: "write", path: path.to_owned(), source };
    let name = target
        .file_name()
        .ok_or_else(|| failed(std::io::Error::other("the path does not name a file")))?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.new", std::process::id()));
    let beside = target.with_file_name(beside);
    let written = write_new(&beside, contents).and_then(|()| fs::rename(&beside, &target));
    // The new name is made durable too: once this returns, a crash must not bring the former
    // contents back.
    let written = written.and_then(|()| sync_folder_of(&target));
    written.map_err(|source| {
        // The new file is useless now; failing to remove it does no harm.
        let _ = fs::remove_file(&beside);
        failed(source)
    })
}

#[cfg(unix)]
fn sync_folder_of(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match File::open(folder.unwrap_or(Path::new("."))) {
        Ok(folder) => folder.sync_all(),
        // A folder may be writable and not readable; it cannot be synced then.
        Err(_) => Ok(()),
    }
}

#[cfg(not(unix))]
fn sync_folder_of(_: &Path) -> std::io::Result<()> {
    Ok(())
}

fn write_new(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}
