//! The traits every engine implements.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use weft_model::{ChangeSet, ColdField, Entity, Id, Kind, Revision};

use crate::{
    BackupError, BatchId, CommitError, Examination, FollowError, Head, Mend, OpenError, ReadError,
};

/// A change set with the revision it made.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The revision.
    pub revision: Revision,
    /// The change set.
    pub change_set: Arc<ChangeSet>,
}

/// The durable, ordered log of change sets and the rows it leads to.
///
/// Futures may be dropped: what was begun goes on.
pub trait Store: Send + Sync + 'static {
    /// Where the log stands.
    fn head(&self) -> Result<Head, ReadError>;

    /// Gives every row at one revision, ordered by kind and id, after checking it. After an error
    /// nothing that was given may be used.
    fn load(&self, rows: &mut dyn FnMut(Entity)) -> Result<Head, OpenError>;

    /// Appends change sets if the head is still `base`, all or none of them. Returns the revision
    /// of the last one. The batch has the name that the caller chose, by which [`Store::settle`]
    /// finds it whatever became of the answer.
    fn commit_as(
        &self,
        batch: BatchId,
        base: Revision,
        sets: Vec<Arc<ChangeSet>>,
    ) -> BoxFuture<'_, Result<Revision, CommitError>>;

    /// The same for a caller who never asks again.
    fn commit(
        &self,
        base: Revision,
        sets: Vec<Arc<ChangeSet>>,
    ) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.commit_as(BatchId::random(), base, sets)
    }

    /// Finds out what became of a batch whose answer was [`CommitError::Unknown`] or never came:
    /// the revision of its last change set, or `None` if it did not happen and never will. One that
    /// is still being written is waited for, and one that comes later is refused.
    fn settle(&self, batch: BatchId) -> BoxFuture<'_, Result<Option<Revision>, CommitError>>;

    /// The change sets after a revision: those kept, then those to come. Ends after an error.
    fn follow(&self, after: Revision) -> BoxStream<'static, Result<Committed, FollowError>>;

    /// A cold field of an entity, at once: reads wait for the disk if it has to be asked.
    fn cold(&self, kind: Kind, id: &Id, field: ColdField) -> Result<Option<Bytes>, ReadError>;

    /// The same, read elsewhere.
    fn blob(
        &self,
        kind: Kind,
        id: &Id,
        field: ColdField,
    ) -> BoxFuture<'_, Result<Option<Bytes>, ReadError>>;

    /// State that is not in the log.
    fn live(&self) -> &dyn Live;

    /// The file it lies in, if it lies in one.
    fn file(&self) -> Option<&Path>;

    /// Looks at everything at one revision; commits go on meanwhile.
    fn examine(&self) -> Result<Box<dyn Examination>, ReadError>;

    /// Mends what an examination found, if the head is still `base`, all or nothing. The revision
    /// stays: what is mended was never meant to be different.
    fn mend(&self, base: Revision, mends: Vec<Mend>) -> BoxFuture<'_, Result<(), CommitError>>;

    /// Writes all rows of one revision to a new file of mode 0600 while commits go on.
    fn backup(&self, to: &Path) -> BoxFuture<'_, Result<Revision, BackupError>>;

    /// Brings everything that was put to the disk and lets go of the file, whoever still holds the
    /// store; nothing can be done with it afterwards. A program that ends without it ends in the
    /// middle of whatever the store is writing, and the next one takes that for a crash.
    fn close(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        self.live().flush()
    }
}

/// A place for notes: small values under keys that a part of the controller keeps for itself.
/// Numbers are stored, so they never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(pub u16);

/// State that is not in the log: Shared and Local entities, and notes. The last writer wins, there
/// is no revision. Writes are acknowledged at once, are seen by reads at once, and reach the disk
/// within 250 ms; a full disk is logged and retried.
pub trait Live: Send + Sync {
    /// Puts an entity.
    fn put(&self, entity: Entity);

    /// Removes an entity, if it is there.
    fn delete(&self, kind: Kind, id: &Id);

    /// Gives every entity, ordered by kind and id.
    fn load(&self, entities: &mut dyn FnMut(Entity)) -> Result<(), ReadError>;

    /// Puts a note; `None` removes it.
    fn put_note(&self, space: Space, key: &str, value: Option<Bytes>);

    /// One note, at once: reads wait for the disk if it has to be asked.
    fn note(&self, space: Space, key: &str) -> Result<Option<Bytes>, ReadError>;

    /// The notes of a space, ordered by key.
    fn notes(&self, space: Space) -> Result<Vec<(String, Bytes)>, ReadError>;

    /// Waits until everything put so far is on the disk.
    fn flush(&self) -> BoxFuture<'_, Result<(), CommitError>>;
}
