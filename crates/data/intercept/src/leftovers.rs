//! Records of changes of this machine, by which a later start takes back what a killed process has left.
//!
//! A change is recorded before it is made, in a file beside the lock of its holder ([`Lock`], [`beside`]).

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

pub use crate::lock::{Holder, Lock, beside};

/// Largest record that is read, in bytes.
const MOST_BYTES: u64 = 16 << 20;
/// Bits of a file's mode that let other users than its owner write.
pub(crate) const OTHERS_WRITE: u32 = 0o022;

/// Reads the record of an earlier run of the same user.
///
/// # Errors
/// When there is none, or it cannot be read, or another user may have written it.
pub fn read(record: &Path) -> io::Result<String> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    let file = options.open(record)?;
    let known = file.metadata()?;
    let own = known.uid() == rustix::process::geteuid().as_raw();
    if !known.is_file() || !own || known.mode() & OTHERS_WRITE != 0 {
        let text = "other users may have written it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a record, whole or not at all: a new file replaces the old one.
///
/// # Errors
/// When the file cannot be written.
pub fn write(record: &Path, text: &str) -> io::Result<()> {
    let beside = record.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&beside, record)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_an_own_record_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("a.list");
        assert_eq!(read(&record).unwrap_err().kind(), io::ErrorKind::NotFound);
        write(&record, "one\n").unwrap();
        write(&record, "two\n").unwrap();
        assert_eq!(read(&record).unwrap(), "two\n");
        assert_eq!(record.metadata().unwrap().mode() & 0o777, 0o600);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&record, &link).unwrap();
        assert!(read(&link).is_err(), "a link is not followed");
        std::fs::set_permissions(&record, Permissions::from_mode(0o620)).unwrap();
        assert_eq!(read(&record).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
