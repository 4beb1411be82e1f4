//! Key and certificate files: small, private, replaced as a whole.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
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
    Beside::write(path, contents)?.put()
}

/// A new file, written beside the file that it is to replace; removed when dropped.
#[derive(Debug)]
pub(crate) struct Beside {
    path: PathBuf,
    target: PathBuf,
    new: PathBuf,
    is_put: bool,
}

impl Beside {
    /// Writes the contents to the disk; the file at `path` stays as it is.
    pub(crate) fn write(path: &Path, contents: &[u8]) -> Result<Self> {
        let target = target(path);
        let failed = |source| Error::File { action: "write", path: path.to_owned(), source };
        let name = target
            .file_name()
            .ok_or_else(|| failed(std::io::Error::other("the path does not name a file")))?;
        let mut new = std::ffi::OsString::from(".");
        new.push(name);
        new.push(format!(".{}.new", std::process::id()));
        let new = target.with_file_name(new);
        let beside = Self { path: path.to_owned(), target, new, is_put: false };
        write_new(&beside.new, contents).map_err(failed)?;
        Ok(beside)
    }

    /// Puts the new file in the place of the former one.
    pub(crate) fn put(mut self) -> Result<()> {
        let put = fs::rename(&self.new, &self.target);
        self.is_put = put.is_ok();
        // The new name is made durable too: once this returns, a crash must not bring the former
        // contents back.
        let put = put.and_then(|()| sync_folder_of(&self.target));
        put.map_err(|source| Error::File { action: "write", path: self.path.clone(), source })
    }

    /// True if this file is to replace the file at `path`.
    pub(crate) fn is_for(&self, path: &Path) -> bool {
        self.target == target(path)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.is_put {
            // The new file is useless now; failing to remove it does no harm.
            let _ = fs::remove_file(&self.new);
        }
    }
}

/// The file behind symbolic links.
fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
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
