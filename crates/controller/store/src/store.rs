//! The traits that every engine implements.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::sync::watch;
use weft_model::{Change, ChangeSet, ColdField, Entity, Id, Kind, Revision};

use crate::standing::{Alive, LogMember, Presence, ReplicaCounts, ReplicaState};
use crate::{
    BackupError, BatchId, CommitError, Examination, FORMAT, FollowError, Head, LogError, LogKeys,
    Mend, OpenError, ReadError,
};

/// A change set in the log.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The revision that it made.
    pub revision: Revision,
    /// The change set.
    pub change_set: Arc<ChangeSet>,
}

/// A durable, ordered log of change sets, and the rows that follow from it.
///
/// Dropping a future does not stop the operation.
pub trait Store: Send + Sync + 'static {
    /// The end of the log.
    fn head(&self) -> Result<Head, ReadError>;

    /// Passes every row at one revision, checked and ordered by kind and id, to `rows`. After an
    /// error the rows passed so far must not be used.
    fn load(&self, rows: &mut dyn FnMut(Entity)) -> Result<Head, OpenError>;

    /// Appends change sets, all or none, if the head is still `base`. Returns the revision of the
    /// last one. The caller chooses `batch`, by which [`Store::settle`] finds the commit if its
    /// answer is lost.
    fn commit_as(
        &self,
        batch: BatchId,
        base: Revision,
        sets: Vec<Arc<ChangeSet>>,
    ) -> BoxFuture<'_, Result<Revision, CommitError>>;

    /// [`Store::commit_as`] with a random batch, for a caller that never settles.
    fn commit(
        &self,
        base: Revision,
        sets: Vec<Arc<ChangeSet>>,
    ) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.commit_as(BatchId::random(), base, sets)
    }

    /// The outcome of a batch whose answer was [`CommitError::Unknown`] or never came: the revision
    /// of its last change set, or `None` if it did not happen. A batch that is being written is
    /// waited for. A batch that was answered with `None` is refused if it comes later.
    fn settle(&self, batch: BatchId) -> BoxFuture<'_, Result<Option<Revision>, CommitError>>;

    /// Waits until it is certain that the head was `base` after the call: what was decided on that revision, without a
    /// change, may be answered. [`CommitError::Stale`] if the head was another one.
    fn confirm(&self, base: Revision) -> BoxFuture<'_, Result<(), CommitError>> {
        let head = *self.heads().borrow();
        let is_base = head == base;
        async move { is_base.then_some(()).ok_or(CommitError::Stale { head }) }.boxed()
    }

    /// The revision of the head, updated with each commit, also of others.
    fn heads(&self) -> watch::Receiver<Revision>;

    /// A stream of the change sets after a revision: the kept ones, then new ones. It ends after an
    /// error.
    fn follow(&self, after: Revision) -> BoxStream<'static, Result<Committed, FollowError>>;

    /// A cold field of an entity. The call blocks while the disk is read.
    fn cold(&self, kind: Kind, id: &Id, field: ColdField) -> Result<Option<Bytes>, ReadError>;

    /// A cold field of an entity, read on another thread.
    fn blob(
        &self,
        kind: Kind,
        id: &Id,
        field: ColdField,
    ) -> BoxFuture<'_, Result<Option<Bytes>, ReadError>>;

    /// The format that the stored data may have, and the newest that this program reads.
    fn formats(&self) -> [u32; 2] {
        [FORMAT; 2]
    }

    /// The controllers that share the store and are alive; none if it is not shared.
    fn alive(&self) -> Option<watch::Receiver<Alive>> {
        None
    }

    /// What this controller says of itself to the others; nothing if it is alone.
    fn presence(&self) -> Presence {
        Presence::default()
    }

    /// How the engine stands to what it shares with others.
    fn standing(&self) -> ReplicaState {
        ReplicaState { obstacle: None, lag: 0, has_diverged: false }
    }

    /// What was written to the log that is shared with others; nothing if none is.
    fn counts(&self) -> ReplicaCounts {
        ReplicaCounts::default()
    }

    /// The members of the service in which the log is shared; none if it is not.
    fn log_members(&self) -> BoxFuture<'_, Vec<LogMember>> {
        async { Vec::new() }.boxed()
    }

    /// The keys with which what is shared with others is sealed; none if nothing is.
    fn log_keys(&self) -> Option<Arc<dyn LogKeys>> {
        None
    }

    /// Whether everything that is shared with others is sealed with the key that seals now, or a newer one. If not, some of
    /// it is written anew: it is asked again after some seconds.
    fn seal_anew(&self) -> BoxFuture<'_, Result<bool, LogError>> {
        async { Ok(true) }.boxed()
    }

    /// Live state, which is not in the log.
    fn live(&self) -> &dyn LiveStore;

    /// Path of the file, for an engine that has one.
    fn file(&self) -> Option<&Path>;

    /// Opens an examination at the present revision; commits go on meanwhile.
    fn examine(&self) -> Result<Box<dyn Examination>, ReadError>;

    /// Applies repairs, all or none, if the head is still `base`. The revision stays, because the
    /// model does not change.
    fn mend(&self, base: Revision, mends: Vec<Mend>) -> BoxFuture<'_, Result<(), CommitError>>;

    /// Writes all rows of one revision to a new file of mode 0600; commits go on meanwhile.
    fn backup(&self, to: &Path) -> BoxFuture<'_, Result<Revision, BackupError>>;

    /// Writes everything to the disk and closes the file, even if others still hold the store,
    /// which is unusable afterwards. A program that ends without it may cut off a write, and the
    /// next start treats that as a crash.
    fn close(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        self.live().flush()
    }
}

/// A space of notes, which belongs to one part of the controller. Notes are small values by key.
/// The number is stored and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(pub u16);

/// Whether live entities are shared with other controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// They are of this controller alone.
    Alone,
    /// Several controllers share them, and what others change comes at once.
    Together,
    /// Several controllers share them, and what others change is not heard of now.
    CutOff,
}

/// A change of a shared entity that waits until the others' log can be written.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingChange {
    /// The change.
    pub change: Change,
    /// Whether the log has had the entity: then it does not begin again.
    pub is_known: bool,
}

/// What other controllers have done to live entities.
#[derive(Debug, Clone, Copy)]
pub enum LiveChange<'c> {
    /// These changes, in their order.
    Changes(&'c [Change]),
    /// Changes were missed: load all entities.
    StartOver,
}

/// Hears what other controllers have done to live entities.
pub struct LiveListener {
    /// Called from one task. It must not wait for the store.
    pub heard: Box<dyn Fn(LiveChange<'_>) + Send + Sync>,
    /// Makes one entity of two that were changed at once: theirs, and that of this controller.
    pub merge: fn(&Entity, &Entity) -> Entity,
}

impl std::fmt::Debug for LiveListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LiveListener")
    }
}

/// What the storing of a live entity means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LivePut {
    /// The entity begins.
    New,
    /// It has changed.
    Change,
    /// It was used: a change by somebody else at the same time is worth more.
    Use,
}

/// State that is not in the log of the model: live entities, and notes. There is no revision: the last write wins. A write
/// is acknowledged and readable at once, and on the disk within 250 ms; a full disk is logged and retried.
///
/// Entities may be shared by several controllers ([`Sharing`]). No entity begins again after its end, so that an end counts
/// over every change.
pub trait LiveStore: Send + Sync {
    /// Stores an entity, replacing an earlier version.
    fn put(&self, entity: Entity);

    /// [`Self::put`], and what it means.
    fn put_as(&self, entity: Entity, _: LivePut) {
        self.put(entity);
    }

    /// An entity as it is now, where entities are shared: with what waits to be told to others. None if it has ended.
    fn latest(&self, _: Kind, _: &Id) -> Result<Option<Entity>, ReadError> {
        Ok(None)
    }

    /// An entity that another controller has stored, joined with a change of it that waits to be told to others; none if it
    /// has ended. Only where entities are shared.
    fn join(&self, _: &Entity) -> Result<Option<Entity>, ReadError> {
        Ok(None)
    }

    /// Removes an entity, if it exists.
    fn delete(&self, kind: Kind, id: &Id);

    /// Passes every entity, ordered by kind and id, to `entities`.
    fn load(&self, entities: &mut dyn FnMut(Entity)) -> Result<(), ReadError>;

    /// Stores a note; `None` removes it.
    fn put_note(&self, space: Space, key: &str, value: Option<Bytes>) {
        self.put_notes(space, vec![(key.to_owned(), value)]);
    }

    /// Stores notes of a space, all of them or none; `None` removes one.
    fn put_notes(&self, space: Space, notes: Vec<(String, Option<Bytes>)>);

    /// One note. The call blocks while the disk is read.
    fn note(&self, space: Space, key: &str) -> Result<Option<Bytes>, ReadError>;

    /// The notes of a space, ordered by key.
    fn notes(&self, space: Space) -> Result<Vec<(String, Bytes)>, ReadError>;

    /// Waits until everything put so far is on the disk. Entities that are shared are with the others then, unless these
    /// cannot be reached.
    fn flush(&self) -> BoxFuture<'_, Result<(), CommitError>>;

    /// Whether entities are shared with other controllers.
    fn sharing(&self) -> Sharing {
        Sharing::Alone
    }

    /// Has a listener told what others do from now on. There is one listener; a later one is not told.
    fn listen(&self, _: LiveListener) {}

    /// The number of the last change that waits, whenever one is added while the log cannot be reached; none where nothing
    /// is shared.
    fn last_waiting(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// The changes after this number that wait while the log cannot be reached, the first ones of them, and the number of
    /// the last of these.
    fn waiting_after(&self, number: u64, _: usize) -> (Vec<WaitingChange>, u64) {
        (Vec::new(), number)
    }

    /// Takes over changes that wait at another controller: they wait here, too, and the listener is told. The call blocks
    /// while the disk is read.
    fn take_waiting(&self, _: Vec<WaitingChange>) {}

    /// Waits until the listener was told everything that others had done before the call.
    fn catch_up(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        async { Ok(()) }.boxed()
    }
}
