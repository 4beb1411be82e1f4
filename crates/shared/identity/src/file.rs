//! Key and certificate files: small, private, replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Largest key, certificate or bundle file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Reads a whole file of at most [`MAX_FILE_BYTES`], without waiting: a configuration may name a pipe or a device, which
/// is refused.
///
/// # Errors
/// When there is no such file, it cannot be read, is too large or is no regular file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |source| Error::File { action: "read", path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    let size = bytes.len() as u64;
    if size > MAX_FILE_BYTES {
        return Err(Error::TooLarge { path: path.to_owned(), size, limit: MAX_FILE_BYTES });
    }
    Ok(bytes)
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.read(true).open(path)?;
    let found = file.metadata()?;
    if found.is_file() || found.is_dir() {
        return Ok(file);
    }
    Err(io::Error::other("it is no regular file, but a pipe, a socket or a device"))
}

/// A warning if every user of this machine may read the secret in this file, such as `the private key`. A group may
/// be given a secret on purpose. `None` also if the file cannot be looked at, which reading it reports.
#[must_use]
pub fn open_to_all(path: &Path, secret: &str) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(path).ok()?.permissions().mode() & 0o7777;
        let shown = path.display();
        (mode & 0o004 != 0).then(|| {
            format!(
                "every user of this machine may read {secret} in {shown} (mode {mode:04o}): \
                 chmod 600 {shown}"
            )
        })
    }
    #[cfg(not(unix))]
    {
        let _ = (path, secret);
        None
    }
}

/// Replaces a file that only its owner may read: writes a new file beside it and renames it, so
/// that readers see the old or the new contents and never a part. A symbolic link is followed and
/// stays a link. A file that is a mount of its own, as in containers, cannot be renamed over: the file is
/// made private and written in place.
///
/// # Errors
/// When the directory cannot be written to.
pub fn write_private(path: &Path, contents: &[u8]) -> Result<()> {
    Beside::write(path, contents, Access::Private)?.put()
}

/// Replaces a file of a program that runs as another user than this process, which may be root's: owner,
/// group and mode stay. A new file is private, and belongs to the owner of its folder.
///
/// # Errors
/// As [`write_private`].
pub fn write_for_owner(path: &Path, contents: &[u8]) -> Result<()> {
    Beside::write(path, contents, Access::AsBefore)?.put()
}

/// Gives a new file to the owner of its folder, if this process may: a command that root runs makes files
/// of a program that runs as another user.
pub fn give_to_owner_of_folder(file: &File, path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let (own, folder) = (file.metadata(), fs::metadata(folder.unwrap_or(Path::new("."))));
        if let (Ok(own), Ok(folder)) = (own, folder)
            && own.uid() != folder.uid()
        {
            // Only root may give files away. The file of another user stays with this user.
            let _ = fchown(file, Some(folder.uid()), Some(folder.gid()));
        }
    }
    #[cfg(not(unix))]
    let _ = (file, path);
}

/// The users that may read a file that replaces another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The owner of the file only, who is the user of this process.
    Private,
    /// The users that could read the former file: owner and group stay as far as the system
    /// permits, and the mode stays. A new file is private, and belongs to the owner of the folder.
    AsBefore,
}

/// A new file, written beside the file that it is to replace; removed when dropped.
#[derive(Debug)]
pub(crate) struct Beside {
    path: PathBuf,
    target: PathBuf,
    /// None when the folder permits no new file: the former file is written in place.
    new: Option<PathBuf>,
    contents: Vec<u8>,
    access: Access,
}

impl Beside {
    /// Writes the contents to the disk; the file at `path` stays as it is. In a folder that permits no new
    /// file, a writable file with [`Access::AsBefore`] is written by [`Beside::put`] only.
    pub(crate) fn write(path: &Path, contents: &[u8], access: Access) -> Result<Self> {
        Self::write_as(path, contents, access, &format!("{}.new", std::process::id()))
    }

    /// [`Beside::write`] to a file with this ending, which a later process can find.
    pub(crate) fn write_as(
        path: &Path,
        contents: &[u8],
        access: Access,
        ending: &str,
    ) -> Result<Self> {
        let target = target(path);
        let failed = |source| Error::File { action: "write", path: path.to_owned(), source };
        let new = beside(&target, ending)
            .ok_or_else(|| failed(io::Error::other("the path does not name a file")))?;
        let new = Some(new);
        let mut written =
            Self { path: path.to_owned(), target, new, contents: contents.to_vec(), access };
        match written.write_new() {
            Err(problem) if access == Access::AsBefore && written.may_only_write(&problem) => {
                written.new = None;
            }
            done => done.map_err(failed)?,
        }
        Ok(written)
    }

    fn write_new(&self) -> io::Result<()> {
        let Some(new) = &self.new else { return Ok(()) };
        let file = write_new(new, &self.contents)?;
        match fs::metadata(&self.target) {
            Ok(former) if self.access == Access::AsBefore => give(&file, &former),
            Err(_) if self.access == Access::AsBefore => {
                give_to_owner_of_folder(&file, &self.target);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// True if the folder permits no new file, and the former file can be written.
    fn may_only_write(&self, problem: &io::Error) -> bool {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        matches!(problem.kind(), PermissionDenied | ReadOnlyFilesystem)
            && OpenOptions::new().write(true).open(&self.target).is_ok()
    }

    /// Puts the new file in the place of the former one. If it cannot be renamed, as over a mount, the
    /// former file is written in place.
    pub(crate) fn put(&mut self) -> Result<()> {
        let put = match &self.new {
            // The new name is made durable too: once this returns, a crash must not bring the former
            // contents back.
            Some(new) => match fs::rename(new, &self.target) {
                Ok(()) => {
                    self.new = None;
                    sync_folder_of(&self.target)
                }
                Err(problem) => self.write_in_place(problem),
            },
            None => self.write_in_place(io::ErrorKind::PermissionDenied.into()),
        };
        put.map_err(|source| Error::File { action: "write", path: self.path.clone(), source })
    }

    /// Writes the former file in place, after a rename that failed with `problem`.
    fn write_in_place(&self, problem: io::Error) -> io::Result<()> {
        if self.access == Access::Private && problem.kind() != io::ErrorKind::ResourceBusy {
            return Err(problem);
        }
        let mut file = OpenOptions::new().write(true).open(&self.target)?;
        if self.access == Access::Private {
            make_private(&file)?;
        }
        // The file is cut in the end: a full disk has room for as much as was there before.
        file.write_all(&self.contents)?;
        file.set_len(self.contents.len() as u64)?;
        file.sync_all()
    }

    /// Leaves the new file on the disk, for a person to move it.
    pub(crate) fn leave(&mut self) -> Option<PathBuf> {
        self.new.take().filter(|new| new.exists())
    }

    /// True if the new file on the disk has these contents.
    pub(crate) fn is_as_written(&self) -> bool {
        let new = self.new.as_ref().and_then(|new| read(new).ok());
        new.is_some_and(|contents| contents == self.contents)
    }

    /// The file that is replaced.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The new contents.
    pub(crate) fn contents(&self) -> &[u8] {
        &self.contents
    }

    /// True if this file is to replace the file at `path`.
    pub(crate) fn is_for(&self, path: &Path) -> bool {
        self.target == target(path)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(new) = &self.new {
            // The new file is useless now; failing to remove it does no harm.
            let _ = fs::remove_file(new);
        }
    }
}

/// The file with this ending beside a target; `None` if the target has no name.
fn beside(target: &Path, ending: &str) -> Option<PathBuf> {
    let mut new = std::ffi::OsString::from(".");
    new.push(target.file_name()?);
    new.push(format!(".{ending}"));
    Some(target.with_file_name(new))
}

/// The file that [`Beside::write_as`] writes beside the file at `path`.
pub(crate) fn beside_of(path: &Path, ending: &str) -> Option<PathBuf> {
    beside(&target(path), ending)
}

/// The file behind symbolic links.
fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(unix)]
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match File::open(folder.unwrap_or(Path::new("."))) {
        Ok(folder) => folder.sync_all(),
        // A folder may be writable and not readable; it cannot be synced then.
        Err(_) => Ok(()),
    }
}

#[cfg(not(unix))]
fn sync_folder_of(_: &Path) -> io::Result<()> {
    Ok(())
}

fn write_new(path: &Path, contents: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    file.write_all(contents)?;
    file.sync_all()?;
    Ok(file)
}

/// Gives a new file the mode of the former one, and its owner and group as far as this process may.
#[cfg(unix)]
fn give(file: &File, former: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    let own = file.metadata()?;
    if own.uid() != former.uid() || own.gid() != former.gid() {
        // A process without the right to give files away may still give them to its own groups.
        let _ = fchown(file, Some(former.uid()), Some(former.gid()))
            .or_else(|_| fchown(file, None, Some(former.gid())));
    }
    file.set_permissions(fs::Permissions::from_mode(former.mode() & 0o777))
}

#[cfg(not(unix))]
fn give(_: &File, _: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn make_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    if file.metadata()?.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    file.set_permissions(fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn make_private(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cert.pem");
        fs::write(&path, "the former, longer contents").unwrap();
        (folder, path)
    }

    #[test]
    fn a_file_that_cannot_be_renamed_over_is_written_in_place() {
        let (folder, path) = in_folder();
        let mut beside = Beside::write(&path, b"new", Access::AsBefore).unwrap();
        // Without the new file the rename fails, as over a mount.
        fs::remove_file(beside.new.as_ref().unwrap()).unwrap();
        beside.put().unwrap();
        drop(beside);
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        // A private file is written in place only if it is busy, which a mount is.
        let mut beside = Beside::write(&path, b"secret", Access::Private).unwrap();
        fs::remove_file(beside.new.as_ref().unwrap()).unwrap();
        assert!(beside.put().is_err());
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_from_which_nothing_may_come_is_not_waited_for() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let (folder, path) = in_folder();
        assert_eq!(read(&path).unwrap(), b"the former, longer contents");
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for refused in [&pipe, &link, Path::new("/dev/zero"), Path::new("/dev/null")] {
            let error = read(refused).unwrap_err().to_string();
            assert!(error.contains(&refused.display().to_string()), "{error}");
            assert!(std::error::Error::source(&read(refused).unwrap_err()).is_some());
        }
        assert!(read(folder.path()).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn mode_and_owner_stay_unless_the_file_is_private() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
        let (_folder, path) = in_folder();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        // Only root may give the file away; for others the owner is the same before and after.
        let _ = chown(&path, Some(4321), Some(4322));
        let former = fs::metadata(&path).unwrap();
        Beside::write(&path, b"new", Access::AsBefore).unwrap().put().unwrap();
        let now = fs::metadata(&path).unwrap();
        assert_ne!(former.ino(), now.ino());
        assert_eq!((now.mode() & 0o777, now.uid()), (0o640, former.uid()));
        assert_eq!(now.gid(), former.gid());
        write_private(&path, b"secret").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_for_its_owner_stays_with_it_or_goes_to_that_of_the_folder() {
        use std::os::unix::fs::{MetadataExt as _, chown};
        let (folder, path) = in_folder();
        // Only root may give files away; for others all owners are the same.
        let _ = chown(&path, Some(4321), Some(4322))
            .and_then(|()| chown(folder.path(), Some(4323), None));
        let owner = |path: &Path| fs::metadata(path).unwrap().uid();
        let former = owner(&path);
        write_for_owner(&path, b"new").unwrap();
        assert_eq!(owner(&path), former);
        let fresh = folder.path().join("fresh.pem");
        write_for_owner(&fresh, b"secret").unwrap();
        assert_eq!(owner(&fresh), owner(folder.path()));
        assert_eq!(fs::metadata(&fresh).unwrap().mode() & 0o777, 0o600);
    }
}
