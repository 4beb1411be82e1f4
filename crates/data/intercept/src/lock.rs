//! One holder of each name at a time: an interceptor, or a process that needs addresses.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Held while the holder of a name runs; the system releases it however the program ends.
#[derive(Debug)]
pub struct Lock {
    held: File,
}

/// The kinds of holders. Each has names of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// An interceptor.
    Interceptor,
    /// A process with source addresses of hosted services.
    Sources,
}

/// Most files of the folder that are looked at.
const MOST_FILES: usize = 4_096;

/// The parts of a lock file's name before and after the instance's name. Network namespaces have
/// locks of their own, as they have firewall tables and addresses of their own.
fn around(holder: Holder) -> io::Result<(&'static str, String)> {
    let namespace = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
    let before = match holder {
        Holder::Interceptor => "intercept-",
        Holder::Sources => "sources-",
    };
    Ok((before, format!("-{namespace}.lock")))
}

/// The path of an instance's file beside its lock; only the holder of the lock writes it.
///
/// # Errors
/// When the network namespace cannot be found out.
pub fn beside(holder: Holder, folder: &Path, instance: &str, ending: &str) -> io::Result<PathBuf> {
    let (before, after) = around(holder)?;
    Ok(folder.join(format!("{before}{instance}{after}")).with_extension(ending))
}

/// Opens the file of a lock.
fn open(holder: Holder, folder: &Path, name: &str) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let (before, after) = around(holder)?;
    let path = folder.join(format!("{before}{name}{after}"));
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    // A link that another user put there is not followed.
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options.open(path)
}

impl Lock {
    /// Takes the lock of an instance; `None` if another process has it.
    ///
    /// # Errors
    /// When the file of the lock cannot be used.
    pub fn of(holder: Holder, folder: &Path, instance: &str) -> io::Result<Option<Self>> {
        let held = open(holder, folder, instance)?;
        match flock(&held, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { held })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(problem) => Err(problem.into()),
        }
    }

    /// Takes the lock of all instances, for the moment in which one chooses its numbers or changes
    /// addresses. Waits until it is free.
    ///
    /// # Errors
    /// When the file of the lock cannot be used.
    pub fn of_all(holder: Holder, folder: &Path) -> io::Result<Self> {
        let held = open(holder, folder, "")?;
        flock(&held, FlockOperation::LockExclusive)?;
        Ok(Self { held })
    }

    /// The other running interceptors, with their notes. To be called by the holder of the lock of
    /// all, because this function holds their locks for a moment.
    pub(crate) fn others(
        &self,
        folder: &Path,
        instance: &str,
    ) -> io::Result<Vec<(String, String)>> {
        let (before, after) = around(Holder::Interceptor)?;
        let mut others = Vec::new();
        for entry in std::fs::read_dir(folder)?.take(MOST_FILES) {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.strip_prefix(before));
            let Some(name) = name.and_then(|name| name.strip_suffix(after.as_str())) else {
                continue;
            };
            if name.is_empty() || name == instance {
                continue;
            }
            let mut file = open(Holder::Interceptor, folder, name)?;
            if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
                others.push((name.to_owned(), text_of(&mut file)));
            }
        }
        Ok(others)
    }

    /// The note of the last holder.
    pub(crate) fn remembered(&mut self) -> String {
        text_of(&mut self.held)
    }

    /// Writes a note for the next holder.
    pub(crate) fn remember(&mut self, text: &str) -> io::Result<()> {
        self.held.set_len(0)?;
        self.held.rewind()?;
        self.held.write_all(text.as_bytes())
    }
}

fn text_of(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| {
        // Notes are short; the rest of a longer file is ignored.
        Read::by_ref(file).take(1_000).read_to_string(&mut text)
    });
    if read.is_ok() { text } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::Holder::Interceptor;
    use super::*;

    #[test]
    fn a_name_is_held_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("deep/er");
        let first = Lock::of(Interceptor, &at, "a").unwrap();
        assert!(first.is_some());
        assert!(Lock::of(Interceptor, &at, "a").unwrap().is_none());
        assert!(Lock::of(Interceptor, &at, "b").unwrap().is_some());
        assert!(Lock::of(Holder::Sources, &at, "a").unwrap().is_some());
        first.unwrap().remember("a longer note").unwrap();
        let mut second = Lock::of(Interceptor, &at, "a").unwrap().unwrap();
        assert_eq!(second.remembered(), "a longer note");
        second.remember("short").unwrap();
        assert_eq!(second.remembered(), "short");
        let all = Lock::of_all(Interceptor, &at).unwrap();
        let mut third = Lock::of(Interceptor, &at, "c-d").unwrap().unwrap();
        third.remember("its note").unwrap();
        assert_eq!(all.others(&at, "a").unwrap(), [("c-d".to_owned(), "its note".to_owned())]);
        drop(third);
        assert_eq!(all.others(&at, "a").unwrap(), []);
    }
}
