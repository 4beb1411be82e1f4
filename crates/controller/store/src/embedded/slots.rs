//! Which of its last two commits a file is at.
//!
//! A redb file holds its last two commits, each with a number and a checksum, and one bit that
//! selects one of them. No checksum covers that bit. If it is flipped, the file looks like one
//! whose last commit was cut off: redb goes back to the commit before, and an acknowledged commit
//! is lost silently. A crash in the middle of a commit leaves the same picture, though:
//!
//! ```text
//! write pages and the new commit's slot -> sync -> set the bit -> sync -> acknowledge
//!                                               ^ crash here: the newer commit does not count
//! ```
//!
//! Both cases have one rule: **the newer commit counts if it is whole**. To find out, the file is
//! opened as if the bit were set, with every page verified and every write kept in memory. The
//! commit that the bit selects must be whole, too: a damaged slot may have a wrong number, and then
//! nobody knows which of the two commits is the newer one. A commit without an acknowledgement may
//! count or not, as long as every later reader sees the same; [`Store::settle`](crate::Store::settle)
//! asks the opened file which it is. A newer commit that is not whole has one of two causes: a file
//! in use was cut off while it wrote that commit, and goes back to the older one; a file that was
//! closed properly has its bit at the newer commit, and is damaged.

use std::fs::OpenOptions;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use parking_lot::Mutex;
use redb::backends::FileBackend;
use redb::{BackendError, Database, StorageBackend};

use super::failure::{Failure, guarded};
use super::tables::CHECKING;

/// The header and both slots (redb 4: `docs/design.md`, "Database header").
const HEADER: usize = 320;
const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// Offset of the byte of flags.
const FLAGS: usize = MAGIC.len();
/// Flag: the second slot is the one that counts.
const SECOND_COUNTS: u8 = 1;
/// Flag: the file was not closed.
const IN_USE: u8 = 2;
/// Flag: the selected commit was complete before it was selected. Without it redb takes the newer
/// one.
const TWO_PHASE: u8 = 4;
/// Offsets of the slots, and of the commit's number in each.
const SLOTS: [usize; 2] = [64, 192];
const NUMBER: usize = 104;

/// Makes the newer of the last two commits count, if it is whole.
pub(super) fn settle(path: &Path) -> Result<(), Failure> {
    let io = |error: io::Error| Failure::io(&error);
    let Some(flags) = newer_that_does_not_count(path).map_err(io)? else { return Ok(()) };
    match open_as(path, flags) {
        Ok((tried, _)) => drop(tried),
        // The selected commit is damaged, perhaps in its number: opening the file will report it.
        Err(Failure::Damaged(_)) => return Ok(()),
        Err(failure) => return Err(failure),
    }
    let turned = flags ^ SECOND_COUNTS;
    match open_as(path, turned) {
        Ok((tried, file)) => {
            file.write(FLAGS as u64, &[turned]).map_err(io)?;
            file.sync_data().map_err(io)?;
            // The file stays locked until the bit is set.
            drop(tried);
            let file = path.display();
            tracing::warn!(%file, "the last commit is whole but did not count; it does now");
            Ok(())
        }
        Err(Failure::Damaged(_)) if flags & IN_USE != 0 => {
            tracing::warn!(file = %path.display(), "a commit that was cut off is left out");
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

/// True if the newer of the last two commits does not count.
pub(super) fn is_undecided(path: &Path) -> Result<bool, Failure> {
    let found = newer_that_does_not_count(path).map_err(|error| Failure::io(&error))?;
    Ok(found.is_some())
}

/// Opens a file as if it had these flags, without writing to it.
fn open_as(path: &Path, flags: u8) -> Result<(Database, Arc<FileBackend>), Failure> {
    let io = |error: io::Error| Failure::io(&error);
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
    let file = Arc::new(FileBackend::new(file)?);
    let trial = Trial::new(file.clone(), Some(flags)).map_err(io)?;
    let tried = guarded(|| {
        let mut builder = Database::builder();
        builder.set_cache_size(CHECKING).set_check_integrity_on_open(true);
        Ok(builder.create_with_backend(trial)?)
    });
    Ok((tried?, file))
}

/// Opens the file of a backend without writing to it: what redb writes when it opens a file stays in memory.
pub(super) fn open_to_read(
    backend: impl StorageBackend,
    cache_bytes: usize,
) -> Result<Database, Failure> {
    let trial = Trial::new(Arc::new(backend), None).map_err(|error| Failure::io(&error))?;
    let mut builder = Database::builder();
    builder.set_cache_size(cache_bytes).set_check_integrity_on_open(false);
    Ok(builder.create_with_backend(trial)?)
}

/// The flags of the file, if it holds a newer commit than the selected one.
fn newer_that_does_not_count(path: &Path) -> io::Result<Option<u8>> {
    use std::io::Read as _;

    let mut header = Vec::with_capacity(HEADER);
    std::fs::File::open(path)?.take(HEADER as u64).read_to_end(&mut header)?;
    Ok(flags_of(&header))
}

fn flags_of(header: &[u8]) -> Option<u8> {
    let number = |slot: usize| -> Option<u64> {
        let bytes = header.get(slot + NUMBER..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let [first, second] = [number(SLOTS[0])?, number(SLOTS[1])?];
    let flags = *header.get(FLAGS).filter(|_| header.starts_with(MAGIC))?;
    let (counts, other) =
        if flags & SECOND_COUNTS == 0 { (first, second) } else { (second, first) };
    (flags & TWO_PHASE != 0 && other > counts).then_some(flags)
}

/// A file, perhaps with other flags, whose writes stay in memory.
struct Trial<B> {
    file: Arc<B>,
    state: Mutex<State>,
}

struct State {
    len: u64,
    /// Length of the file's beginning that was never cut off, in bytes.
    kept: u64,
    /// Writes in their order: offset and bytes.
    written: Vec<(u64, Vec<u8>)>,
}

impl<B: StorageBackend> Trial<B> {
    fn new(file: Arc<B>, flags: Option<u8>) -> io::Result<Self> {
        let len = file.len()?;
        let written = flags.map(|flags| (FLAGS as u64, vec![flags])).into_iter().collect();
        let state = State { len, kept: len, written };
        Ok(Self { file, state: Mutex::new(state) })
    }
}

impl<B> fmt::Debug for Trial<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trial")
    }
}

/// Copies bytes of `from` to `onto` where the two overlap in the file: `from` begins there at `at`,
/// `onto` at `offset`.
fn lay(from: &[u8], at: u64, onto: &mut [u8], offset: u64) {
    let skip = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
    let behind = usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
    let from = from.iter().skip(skip);
    onto.iter_mut().skip(behind).zip(from).for_each(|(to, from)| *to = *from);
}

impl<B: StorageBackend> StorageBackend for Trial<B> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state.lock();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > state.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.fill(0);
        let kept = usize::try_from(state.kept.saturating_sub(offset)).unwrap_or(usize::MAX);
        let kept = kept.min(out.len());
        if let Some(out) = out.get_mut(..kept).filter(|out| !out.is_empty()) {
            self.file.read(offset, out)?;
        }
        for (at, bytes) in &state.written {
            lay(bytes, *at, out, offset);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.len = len;
        state.kept = state.kept.min(len);
        state.written.retain_mut(|(at, bytes)| {
            bytes.truncate(usize::try_from(len.saturating_sub(*at)).unwrap_or(usize::MAX));
            !bytes.is_empty()
        });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.state.lock().written.push((offset, data.to_vec()));
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests;
