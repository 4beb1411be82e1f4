//! An engine that fails on demand: for tests of what is built on a store.

use std::{collections::VecDeque, path::Path, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture, stream::BoxStream};
use parking_lot::Mutex;
use weft_model::{ChangeSet, ColdField, Entity, Id, Kind, Revision};

use crate::{
    BackupError, BatchId, CommitError, Committed, Examination, FollowError, Head, Live, Mend,
    OpenError, ReadError, Store,
};

/// What happens to a commit.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Nothing special.
    None,
    /// It is refused, nothing happens.
    Fails(CommitError),
    /// It never answers, and nothing happens.
    Hangs,
    /// It happens, but the answer is [`CommitError::Unknown`].
    LosesAnswer,
    /// It does not happen, but the answer is [`CommitError::Unknown`].
    LosesCommit,
    /// It happens, but never answers.
    HangsAfter,
}

/// A batch whose answer was lost, and what became of it.
type Lost = (BatchId, Option<Revision>);

/// A store around another one; each commit takes the next fault.
#[derive(Debug, Clone)]
pub struct Faulty<S> {
    store: S,
    faults: Arc<Mutex<VecDeque<Fault>>>,
    lost: Arc<Mutex<Vec<Lost>>>,
}

impl<S: Store> Faulty<S> {
    /// A store that behaves well until it is told otherwise.
    pub fn new(store: S) -> Self {
        Self { store, faults: Arc::default(), lost: Arc::default() }
    }

    /// Lets a commit to come fail, after those told before.
    pub fn push(&self, fault: Fault) {
        self.faults.lock().push_back(fault);
    }

    /// The store inside.
    pub fn inner(&self) -> &S {
        &self.store
    }

    fn lose(&self, outcome: Option<Revision>) -> CommitError {
        let batch = BatchId::random();
        self.lost.lock().push((batch, outcome));
        CommitError::Unknown { batch, reason: "the answer was lost".into() }
    }
}

impl<S: Store> Store for Faulty<S> {
    fn head(&self) -> Result<Head, ReadError> {
        self.store.head()
    }

    fn load(&self, rows: &mut dyn FnMut(Entity)) -> Result<Head, OpenError> {
        self.store.load(rows)
    }

    fn commit(
        &self,
        base: Revision,
        batch: Vec<Arc<ChangeSet>>,
    ) -> BoxFuture<'_, Result<Revision, CommitError>> {
        let fault = self.faults.lock().pop_front().unwrap_or(Fault::None);
        async move {
            match fault {
                Fault::None => self.store.commit(base, batch).await,
                Fault::Fails(error) => Err(error),
                Fault::Hangs => std::future::pending().await,
                Fault::LosesAnswer => {
                    let revision = self.store.commit(base, batch).await?;
                    Err(self.lose(Some(revision)))
                }
                Fault::LosesCommit => Err(self.lose(None)),
                Fault::HangsAfter => {
                    self.store.commit(base, batch).await?;
                    std::future::pending().await
                }
            }
        }
        .boxed()
    }

    fn settle(&self, batch: BatchId) -> BoxFuture<'_, Result<Option<Revision>, CommitError>> {
        let lost = self.lost.lock().iter().find(|(id, _)| *id == batch).copied();
        async move {
            match lost {
                Some((_, outcome)) => Ok(outcome),
                None => self.store.settle(batch).await,
            }
        }
        .boxed()
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

    fn live(&self) -> &dyn Live {
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
