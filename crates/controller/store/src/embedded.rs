//! The embedded engine: one redb file, and a journal of live state beside it.
//!
//! The database holds seven tables: `meta` (the head, the size of the log, the generation of the
//! journal that was folded), `rows`, `tallies` (count and hash of each kind), `cold` (cold fields), `log`
//! (the last change sets), `live` and `notes`. One commit is one transaction over them and one fsync.
//! Commits have two phases (redb: quick repair), so that a bad page of the last commit is known to be
//! damage, not an unfinished commit. Opening verifies the checksum of every page, and that the last
//! commit is the one that counts. redb locks the file against other processes.
//!
//! After an I/O error redb refuses everything until the file is opened again. The engine does so on
//! the next use, so that a full disk heals by itself. This process has held the file since it
//! checked it, so it is opened without another check and no slower if it is large. A failed
//! operation is tried again after a growing pause, however many callers ask meanwhile. If the file
//! cannot even be opened again, because that writes to it, cold fields, live state and notes are read
//! from a view: the file, opened without a write to the disk.

mod backoff;
mod commit;
mod copy;
pub(crate) mod examine;
mod failure;
mod file;
mod hold;
mod journal;
mod live;
mod load;
mod log;
mod slots;
mod tables;
mod thread;
mod view;
mod whole;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
pub(crate) use file::private;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
pub use hold::{Hold, sync_folder_of};
pub(crate) use journal::Journal;
pub use tables::Options;
use tokio::sync::watch;
use weft_model::{ChangeSet, ColdField, Entity, Id, Kind, Revision};
pub(crate) use whole::{Content, write_new};
pub use whole::{create, read_backup, restore};

pub(crate) use self::failure::Failure;
use self::file::{Opening, Shared};
use self::live::LiveWriter;
use self::thread::CommitThread;
#[cfg(test)]
pub(crate) use self::{
    failure::Failure as FailureForTests, file::Opening as OpeningForTests, journal::JournalFault,
};
use crate::{
    BackupError, BatchId, CommitError, Committed, Examination, FollowError, Head, LiveStore, Mend,
    OpenError, ReadError, Store, follow,
};

/// A store in one file.
#[derive(Debug, Clone)]
pub struct Embedded {
    pub(crate) shared: Arc<Shared>,
    writer: Arc<LiveWriter>,
    commits: Arc<CommitThread>,
}

impl Embedded {
    /// Opens the store in a file, or makes a new one of mode 0600.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        file::create_private(path)?;
        let opened: PathBuf = path.to_owned();
        let cache = options.cache_bytes;
        let open = move |opening| match opening {
            Opening::First => file::open_checked(&opened, cache),
            Opening::Again => file::open_again(&opened, cache),
            Opening::ToRead => file::open_to_read(&opened, cache),
        };
        Self::open_with(path, options, Box::new(open), true)
    }

    fn open_with(
        path: &Path,
        options: Options,
        open: file::Opener,
        has_journal: bool,
    ) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared::open(path, options, open)?);
        let writer = Arc::new(LiveWriter::start(shared.clone(), has_journal)?);
        let io = |error| OpenError::Io { path: shared.path().to_owned(), error };
        let commits = Arc::new(CommitThread::start().map_err(io)?);
        Ok(Self { shared, writer, commits })
    }

    /// Opens a store over any redb backend, for tests of disk failures.
    #[cfg(test)]
    pub(crate) fn open_backend<B: redb::StorageBackend>(
        backend: impl Fn(Opening) -> B + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        Self::open_with(Path::new("test"), Options::default(), over(backend), false)
    }

    /// Opens a store over a redb backend that keeps the file at `path`, with the journal beside it,
    /// for tests of disk failures.
    #[cfg(test)]
    pub(crate) fn open_beside<B: redb::StorageBackend>(
        path: &Path,
        backend: impl Fn(Opening) -> B + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        Self::open_with(path, Options::default(), over(backend), true)
    }

    /// Brings all live state into the database, for tests that look at the file.
    #[cfg(test)]
    pub(crate) async fn fold(&self) -> Result<(), CommitError> {
        self.writer.fold().await
    }

    /// The fault of the journal that was found when the store was opened.
    #[cfg(test)]
    pub(crate) fn journal_fault(&self) -> Option<JournalFault> {
        self.writer.fault
    }

    /// Runs work that writes to the disk, on the thread of commits.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let shared = self.shared.clone();
        let done = self.commits.run(move || work(&shared)).await;
        done.unwrap_or_else(|| Err(Failure::Unavailable("the commit ended in a fault".into())))
    }

    /// Runs work that reads from the disk, on the runtime's blocking threads.
    async fn reading<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let shared = self.shared.clone();
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.unwrap_or_else(|error| Err(Failure::Unavailable(error.to_string())))
    }
}

/// Opens the file over a redb backend.
#[cfg(test)]
fn over<B: redb::StorageBackend>(
    backend: impl Fn(Opening) -> B + Send + Sync + 'static,
) -> file::Opener {
    Box::new(move |opening| {
        if opening == Opening::ToRead {
            return slots::open_to_read(backend(opening), tables::CHECKING);
        }
        let mut builder = redb::Database::builder();
        builder.set_cache_size(tables::CHECKING);
        builder.set_check_integrity_on_open(opening == Opening::First);
        Ok(builder.create_with_backend(backend(opening))?)
    })
}

impl Store for Embedded {
    fn head(&self) -> Result<Head, ReadError> {
        Ok(self.shared.head()?)
    }

    fn load(&self, rows: &mut dyn FnMut(Entity)) -> Result<Head, OpenError> {
        self.shared.load(rows).map_err(|failure| failure.open(self.shared.path()))
    }

    fn commit_as(
        &self,
        batch: BatchId,
        base: Revision,
        sets: Vec<Arc<ChangeSet>>,
    ) -> BoxFuture<'_, Result<Revision, CommitError>> {
        let work = move |shared: &Shared| shared.commit(base, &sets, batch);
        async move { Ok(self.blocking(work).await?) }.boxed()
    }

    fn settle(&self, batch: BatchId) -> BoxFuture<'_, Result<Option<Revision>, CommitError>> {
        async move { Ok(self.blocking(move |shared| shared.settle(batch)).await?) }.boxed()
    }

    fn formats(&self) -> [u32; 2] {
        let reads = self.shared.options.reads;
        [self.shared.head().map_or(reads, |head| head.format), reads]
    }

    fn heads(&self) -> watch::Receiver<Revision> {
        self.shared.heads.subscribe()
    }

    fn follow(&self, after: Revision) -> BoxStream<'static, Result<Committed, FollowError>> {
        follow::follow(self.shared.clone(), after)
    }

    fn cold(&self, kind: Kind, id: &Id, field: ColdField) -> Result<Option<Bytes>, ReadError> {
        Ok(self.shared.cold(kind, id, field)?)
    }

    fn blob(
        &self,
        kind: Kind,
        id: &Id,
        field: ColdField,
    ) -> BoxFuture<'_, Result<Option<Bytes>, ReadError>> {
        let id = id.clone();
        let work = move |shared: &Shared| shared.cold(kind, &id, field);
        async move { Ok(self.reading(work).await?) }.boxed()
    }

    fn live(&self) -> &dyn LiveStore {
        &*self.writer
    }

    fn file(&self) -> Option<&Path> {
        Some(self.shared.path())
    }

    fn examine(&self) -> Result<Box<dyn Examination>, ReadError> {
        Ok(Box::new(self.shared.examine()?))
    }

    fn mend(&self, base: Revision, mends: Vec<Mend>) -> BoxFuture<'_, Result<(), CommitError>> {
        let work = move |shared: &Shared| shared.mend(base, &mends);
        async move { Ok(self.blocking(work).await?) }.boxed()
    }

    fn backup(&self, to: &Path) -> BoxFuture<'_, Result<Revision, BackupError>> {
        let to = to.to_owned();
        async move {
            self.writer.fold().await.map_err(BackupError::Fold)?;
            let shared = self.shared.clone();
            let done = tokio::task::spawn_blocking(move || shared.backup(&to)).await;
            done.map_err(|error| ReadError::Unavailable(error.to_string()))?
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        async move {
            let folded = self.writer.close().await;
            let shared = self.shared.clone();
            let closed = tokio::task::spawn_blocking(move || shared.close()).await;
            folded?;
            closed.map_err(|error| CommitError::Unavailable(error.to_string()))
        }
        .boxed()
    }
}
