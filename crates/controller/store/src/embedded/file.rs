//! The file: opening, opening again after an error, private files, backup.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, Table, WriteTransaction};
use tokio::sync::watch;
use weft_identity::give_to_owner_of_folder;
use weft_model::Revision;

use super::backoff::Backoff;
use super::failure::{Failure, guarded};
use super::hold::sync_folder_of;
use super::tables::{CHECKING, COLD, HEAD, LIVE, LOG, META, NOTES, Options, ROWS, TALLIES};
use super::{load, slots};
use crate::head::Barred;
use crate::{Head, OpenError, codec};

/// Longest time for which a read is tried again while failed writes break the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// Occasion of opening the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The first opening by this process: the file is checked.
    First,
    /// Opening after an error; this process has checked the file and held it since.
    Again,
    /// Opening for reads alone, while the file cannot be opened again: nothing is written to it.
    ToRead,
}

/// A function that opens the file.
pub(crate) type Opener = Box<dyn Fn(Opening) -> Result<Database, Failure> + Send + Sync>;

/// The open file and its state.
pub(crate) struct Shared {
    path: PathBuf,
    pub(crate) options: Options,
    pub(super) open: Opener,
    pub(super) database: RwLock<Option<Database>>,
    /// The file opened for reads alone, while it cannot be opened again. Locked after `database`.
    pub(super) view: RwLock<Option<Database>>,
    /// True if an error requires that the file is opened again.
    pub(super) broken: AtomicBool,
    /// Pause between tries to open the file again.
    opening: Backoff,
    /// Pause between tries to open the file for reads alone.
    pub(super) viewing: Backoff,
    /// Pause between tries to write.
    writing: Backoff,
    /// True if the store was closed.
    pub(super) closed: AtomicBool,
    /// Batches that must not happen any more; locked during every commit.
    pub(super) barred: Mutex<Barred>,
    pub(super) heads: watch::Sender<Revision>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Embedded({})", self.path.display())
    }
}

impl Shared {
    /// Opens the file. A new file gets a timeline.
    pub(super) fn open(path: &Path, options: Options, open: Opener) -> Result<Self, OpenError> {
        let opened = guarded(|| {
            let database = open(Opening::First)?;
            if read_head(&database.begin_read()?)?.is_none() {
                initialise(&database, &Head::new(Head::new_timeline()))?;
            }
            let head = load::required_head(&database.begin_read()?)?;
            check_format(&head, options.reads)?;
            Ok((database, head.revision))
        });
        let (database, revision) = opened.map_err(|failure| failure.open(path))?;
        Ok(Self {
            path: path.to_owned(),
            options,
            open,
            database: RwLock::new(Some(database)),
            view: RwLock::default(),
            broken: AtomicBool::new(false),
            opening: Backoff::default(),
            viewing: Backoff::default(),
            writing: Backoff::default(),
            closed: AtomicBool::new(false),
            barred: Mutex::default(),
            heads: watch::Sender::new(revision),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` on the file, which is opened again first if an earlier error requires it.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let not_open = |why: &str| Failure::Unavailable(format!("the file is {why}"));
        if self.closed.load(Ordering::Acquire) {
            return Err(not_open("closed"));
        }
        let database = match self.broken.load(Ordering::Acquire) {
            true => self.reopen()?,
            false => self.database.read(),
        };
        let database = database.as_ref().ok_or_else(|| not_open("not open"))?;
        let done = guarded(|| work(database));
        if done.as_ref().is_err_and(Failure::breaks) {
            self.broken.store(true, Ordering::Release);
        }
        done
    }

    /// Runs `work`, which reads; again, for a while, if failed writes broke the file meanwhile: several
    /// writers may fail one after the other.
    pub(crate) fn read<T>(
        &self,
        mut work: impl FnMut(&Database) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.with(&mut work) {
                Err(Failure::Broken) if Instant::now() < deadline => {}
                done => return done,
            }
        }
    }

    /// Runs `work`, which writes, as [`Shared::with`] does. After a failure the disk is not written
    /// for a pause, during which every call fails at once.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.check_writing()?;
        let done = self.with(work);
        self.writing.note(done.as_ref());
        done.map_err(|failure| self.writing.cause(failure))
    }

    /// Notes a write that failed before it changed anything, and returns its cause.
    pub(super) fn failed_to_write(&self, failure: Failure) -> Failure {
        self.writing.note::<()>(Err(&failure));
        self.writing.cause(failure)
    }

    /// An error, the last failure, if writing pauses.
    pub(super) fn check_writing(&self) -> Result<(), Failure> {
        self.writing.check(Instant::now())
    }

    /// Notes the result of a write.
    pub(super) fn note_writing<T>(&self, done: Result<&T, &Failure>) {
        self.writing.note(done);
    }

    /// The rest of the pause in writing.
    pub(super) fn writing_pause(&self) -> Duration {
        self.writing.pause(Instant::now())
    }

    /// Closes the file once operations in progress have ended.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let mut database = self.database.write();
        drop(self.view.write().take());
        drop(database.take());
    }

    pub(super) fn mark_broken(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// Opens the file again, unless somebody else did meanwhile. Whoever waited for it uses it first, before the next
    /// write can fail: opening a large file takes longer than writing pauses.
    fn reopen(&self) -> Result<RwLockReadGuard<'_, Option<Database>>, Failure> {
        self.opening.check(Instant::now())?;
        let mut database = self.database.write();
        if !self.broken.load(Ordering::Acquire) {
            return Ok(RwLockWriteGuard::downgrade(database));
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(Failure::Unavailable("the file is closed".into()));
        }
        self.opening.check(Instant::now())?;
        tracing::warn!(file = %self.path.display(), "opening the store again after an error");
        drop(self.view.write().take());
        drop(database.take());
        match guarded(|| (self.open)(Opening::Again)) {
            Ok(opened) => *database = Some(opened),
            Err(failure) => {
                self.opening.failed(&failure, Instant::now());
                return Err(failure);
            }
        }
        self.opening.succeeded();
        self.broken.store(false, Ordering::Release);
        Ok(RwLockWriteGuard::downgrade(database))
    }

    pub(crate) fn head(&self) -> Result<Head, Failure> {
        self.read(|database| load::required_head(&database.begin_read()?))
    }
}

/// Opens a file after checking every page of it. An empty file becomes a new store.
pub(super) fn open_checked(path: &Path, cache_bytes: usize) -> Result<Database, Failure> {
    slots::settle(path)?;
    // The check has a small cache of its own: it reads every page once, in an order unlike later
    // reads, and a process never gives back the memory of a cache.
    drop(
        Database::builder()
            .set_cache_size(CHECKING)
            .set_check_integrity_on_open(true)
            .create(path)?,
    );
    Ok(Database::builder().set_cache_size(cache_bytes).create(path)?)
}

/// Opens a file again that this process has checked and held, so that nobody else has changed it.
/// Only its last commit may be undecided: one that was refused. An empty commit replaces it,
/// because a later start could otherwise find it whole and let it count.
pub(super) fn open_again(path: &Path, cache_bytes: usize) -> Result<Database, Failure> {
    let is_undecided = slots::is_undecided(path)?;
    let database = Database::builder().set_cache_size(cache_bytes).create(path)?;
    if is_undecided {
        begin(&database)?.commit()?;
    }
    Ok(database)
}

/// Opens a file that this process has held for reads alone, without writing to it.
pub(super) fn open_to_read(path: &Path, cache_bytes: usize) -> Result<Database, Failure> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|error| Failure::io(&error))?;
    slots::open_to_read(redb::backends::FileBackend::new(file)?, cache_bytes)
}

/// Refuses data of a newer format than this program reads.
pub(super) fn check_format(head: &Head, reads: u32) -> Result<(), Failure> {
    match head.format > reads {
        true => Err(Failure::Newer { found: head.format, known: reads }),
        false => Ok(()),
    }
}

pub(super) fn read_head(transaction: &ReadTransaction) -> Result<Option<Head>, Failure> {
    let meta = match transaction.open_table(META) {
        Ok(meta) => meta,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    head_of(&meta)
}

/// The head that a table holds.
pub(super) fn head_of(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Option<Head>, Failure> {
    let Some(sealed) = meta.get(HEAD)? else { return Ok(None) };
    Ok(Some(Head::from_bytes(codec::unseal("head", HEAD.as_bytes(), sealed.value())?)?))
}

pub(super) fn write_head(
    meta: &mut Table<'_, &'static str, &'static [u8]>,
    head: &Head,
) -> Result<(), Failure> {
    meta.insert(HEAD, codec::seal(HEAD.as_bytes(), &head.to_bytes()).as_slice())?;
    Ok(())
}

/// Writes the head and empty tables into a new file.
fn initialise(database: &Database, head: &Head) -> Result<(), Failure> {
    let transaction = begin(database)?;
    fill(&transaction, head, |_| Ok(()))?;
    transaction.commit()?;
    Ok(())
}

/// Begins a write transaction whose interruption is repaired quickly.
pub(super) fn begin(database: &Database) -> Result<WriteTransaction, Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

type Bytewise<'t> = Table<'t, &'static [u8], &'static [u8]>;

/// The tables of a file that is written as a whole.
pub(super) struct Tables<'t> {
    pub(super) rows: Bytewise<'t>,
    pub(super) tallies: Table<'t, u16, &'static [u8]>,
    pub(super) cold: Bytewise<'t>,
    pub(super) live: Bytewise<'t>,
    pub(super) notes: Bytewise<'t>,
}

pub(super) fn fill(
    transaction: &WriteTransaction,
    head: &Head,
    work: impl FnOnce(&mut Tables<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    write_head(&mut transaction.open_table(META)?, head)?;
    transaction.open_table(LOG)?;
    work(&mut Tables {
        rows: transaction.open_table(ROWS)?,
        tallies: transaction.open_table(TALLIES)?,
        cold: transaction.open_table(COLD)?,
        live: transaction.open_table(LIVE)?,
        notes: transaction.open_table(NOTES)?,
    })
}

/// Creates an empty file of mode 0600 if it does not exist. Its name is durable before anything is
/// written to it, also if an earlier run was interrupted right after creating it.
pub(super) fn create_private(path: &Path) -> Result<(), OpenError> {
    let made = match private(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::metadata(path),
        made => made.and_then(|file| file.metadata()),
    };
    let named = made.and_then(|made| match made.len() {
        0 => sync_folder_of(path),
        _ => Ok(()),
    });
    named.map_err(|error| OpenError::Io { path: path.to_owned(), error })
}

/// Creates a file of mode 0600, which must not exist.
pub(crate) fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    give_to_owner_of_folder(&file, path);
    Ok(file)
}
