//! An engine that fails on demand, for tests of code above the store.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use weft_model::{ChangeSet, ColdField, Entity, Id, Kind, Revision};

use crate::{
    BackupError, BatchId, CommitError, Committed, Examination, FollowError, Head, LiveStore, Mend,
    OpenError, ReadError, Store,
};

/// The fate of one commit.
#[derive(Debug, Clone)]
pub enum InjectedFault {
    /// The commit succeeds.
    None,
    /// The commit is refused with this error and does not happen.
    Fails(CommitError),
    /// The commit does not happen and is never answered.
    Hangs,
    /// The commit happens, but its answer is [`CommitError::Unknown`].
    LosesAnswer,
    /// The commit does not happen, and its answer is [`CommitError::Unknown`].
    LosesCommit,
    /// The commit happens and is never answered.
    HangsAfter,
    /// The commit happens, and its answer is [`CommitError::Unknown`]. From then on the store is
    /// dark ([`Faulty::set_dark`]).
    GoesDark,
    /// The commit is never answered, and happens when [`Faulty::let_land`] is called.
    LandsLate,
    /// The commit happens when the test notifies.
    Awaits(Arc<Notify>),
    /// The commit does not happen: the store panics.
    Panics,
}

/// A wrapper of a store; each commit takes the next fault from a queue.
#[derive(Debug, Clone)]
pub struct Faulty<S> {
    store: S,
    faults: Arc<Mutex<VecDeque<InjectedFault>>>,
    late: Arc<Mutex<Vec<Late>>>,
    is_dark: Arc<AtomicBool>,
}

/// A commit that happens later: its name, base and change sets.
type Late = (BatchId, Revision, Vec<Arc<ChangeSet>>);

impl<S: Store> Faulty<S> {
    /// A wrapper without faults.
    pub fn new(store: S) -> Self {
        let (faults, late, is_dark) = Default::default();
        Self { store, faults, late, is_dark }
    }

    /// Adds a fault to the queue.
    pub fn push(&self, fault: InjectedFault) {
        self.faults.lock().push_back(fault);
    }

    /// The number of faults that no commit has taken yet.
    pub fn left(&self) -> usize {
        self.faults.lock().len()
    }

    /// The wrapped store.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// While the store is dark it commits nothing and answers nothing about commits.
    pub fn set_dark(&self, is_dark: bool) {
        self.is_dark.store(is_dark, Ordering::Release);
    }

    /// Lets the commits of [`InjectedFault::LandsLate`] happen, and returns their answers, for which no
    /// caller waits.
    pub async fn let_land(&self) -> Vec<Result<Revision, CommitError>> {
        let late = std::mem::take(&mut *self.late.lock());
        let mut landed = Vec::new();
        for (batch, base, sets) in late {
            landed.push(self.store.commit_as(batch, base, sets).await);
        }
        landed
    }

    fn check_light(&self) -> Result<(), CommitError> {
        match self.is_dark.load(Ordering::Acquire) {
            true => Err(CommitError::Unavailable("the store is dark".into())),
            false => Ok(()),
        }
    }
}

impl<S: Store> Store for Faulty<S> {
    fn head(&self) -> Result<Head, ReadError> {
        self.store.head()
    }

    fn load(&self, rows: &mut dyn FnMut(Entity)) -> Result<Head, OpenError> {
        self.store.load(rows)
    }

    fn commit_as(
        &self,
        batch: BatchId,
        base: Revision,
        sets: Vec<Arc<ChangeSet>>,
    ) -> BoxFuture<'_, Result<Revision, CommitError>> {
        let fault = self.faults.lock().pop_front().unwrap_or(InjectedFault::None);
        let lost = move || CommitError::Unknown { batch, reason: "the answer was lost".into() };
        async move {
            self.check_light()?;
            match fault {
                InjectedFault::None => self.store.commit_as(batch, base, sets).await,
                InjectedFault::Fails(error) => Err(error),
                InjectedFault::Hangs => std::future::pending().await,
                InjectedFault::LosesAnswer => {
                    self.store.commit_as(batch, base, sets).await?;
                    Err(lost())
                }
                InjectedFault::LosesCommit => Err(lost()),
                InjectedFault::HangsAfter => {
                    self.store.commit_as(batch, base, sets).await?;
                    std::future::pending().await
                }
                InjectedFault::GoesDark => {
                    self.store.commit_as(batch, base, sets).await?;
                    self.set_dark(true);
                    Err(lost())
                }
                InjectedFault::Awaits(told) => {
                    told.notified().await;
                    self.store.commit_as(batch, base, sets).await
                }
                InjectedFault::Panics => panic!("a fault that a test asked for"),
                InjectedFault::LandsLate => {
                    self.late.lock().push((batch, base, sets));
                    std::future::pending().await
                }
            }
        }
        .boxed()
    }

    fn settle(&self, batch: BatchId) -> BoxFuture<'_, Result<Option<Revision>, CommitError>> {
        async move {
            self.check_light()?;
            self.store.settle(batch).await
        }
        .boxed()
    }

    fn confirm(&self, base: Revision) -> BoxFuture<'_, Result<(), CommitError>> {
        async move {
            self.check_light()?;
            self.store.confirm(base).await
        }
        .boxed()
    }

    fn heads(&self) -> watch::Receiver<Revision> {
        self.store.heads()
    }

    fn follow(&self, after: Revision) -> BoxStream<'static, Result<Committed, FollowError>> {
        self.store.follow(after)
    }

    fn cold(&self, kind: Kind, id: &Id, field: ColdField) -> Result<Option<Bytes>, ReadError> {
        self.store.cold(kind, id, field)
    }

    fn blob(
        &self,
        kind: Kind,
        id: &Id,
        field: ColdField,
    ) -> BoxFuture<'_, Result<Option<Bytes>, ReadError>> {
        self.store.blob(kind, id, field)
    }

    fn live(&self) -> &dyn LiveStore {
        self.store.live()
    }

    fn file(&self) -> Option<&Path> {
        self.store.file()
    }

    fn examine(&self) -> Result<Box<dyn Examination>, ReadError> {
        self.store.examine()
    }

    fn mend(&self, base: Revision, mends: Vec<Mend>) -> BoxFuture<'_, Result<(), CommitError>> {
        self.store.mend(base, mends)
    }

    fn backup(&self, to: &Path) -> BoxFuture<'_, Result<Revision, BackupError>> {
        self.store.backup(to)
    }

    fn close(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        self.store.close()
    }
}
