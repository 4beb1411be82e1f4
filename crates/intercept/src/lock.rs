//! One interceptor of a name at a time.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::{FlockOperation, flock};

/// Held while an interceptor of a name runs; the system lets go of it however the program ends.
#[derive(Debug)]
pub(crate) struct Lock {
    held: File,
}

/// An advisory lock of a network namespace: others have tables of their own.
fn open(folder: &Path, name: &str) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let namespace = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
    let path = folder.join(format!("intercept-{name}-{namespace}.lock"));
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    // A link that somebody put there is not followed.
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options.open(path)
}

impl Lock {
    /// The lock of an instance; none if another process has it.
    pub(crate) fn of(folder: &Path, instance: &str) -> io::Result<Option<Self>> {
        let held = open(folder, instance)?;
        match flock(&held, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { held })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(problem) => Err(problem.into()),
        }
    }

    /// The lock of all instances, for the moment in which one chooses its numbers.
    pub(crate) fn of_all(folder: &Path) -> io::Result<Self> {
        let held = open(folder, "")?;
        flock(&held, FlockOperation::LockExclusive)?;
        Ok(Self { held })
    }

    /// What the one who had it before wrote down.
    pub(crate) fn remembered(&mut self) -> String {
        let mut text = String::new();
        let read = self.held.rewind().and_then(|()| {
            // Notes are short; what is longer is none.
            Read::by_ref(&mut self.held).take(1_000).read_to_string(&mut text)
        });
        if read.is_ok() { text } else { String::new() }
    }

    /// Writes something down for the next one.
    pub(crate) fn remember(&mut self, text: &str) -> io::Result<()> {
        self.held.set_len(0)?;
        self.held.rewind()?;
        self.held.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_held_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("deep/er");
        let first = Lock::of(&at, "a").unwrap();
        assert!(first.is_some());
        assert!(Lock::of(&at, "a").unwrap().is_none());
        assert!(Lock::of(&at, "b").unwrap().is_some());
        first.unwrap().remember("a longer note").unwrap();
        let mut second = Lock::of(&at, "a").unwrap().unwrap();
        assert_eq!(second.remembered(), "a longer note");
        second.remember("short").unwrap();
        assert_eq!(second.remembered(), "short");
        drop(Lock::of_all(&at).unwrap());
    }
}
