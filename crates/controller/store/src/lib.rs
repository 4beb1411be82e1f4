//! The store: a durable, ordered log of change sets, and the rows that follow from it.
//!
//! ```text
//! change sets, base N -> commit: is the head still N? -> append, update rows, fsync -> head N+n
//!                                                     -> follow: subscribers
//! ```
//!
//! A commit has one precondition: the head is still revision N. An acknowledged commit is on the
//! disk (fsync). A commit without an acknowledgement is there as a whole or not at all, and
//! [`Store::settle`] tells which. Every row has a checksum, every kind of rows a count and a sum of
//! hashes, so that a damaged file is refused.
//!
//! - [`Store`] and [`LiveStore`]: the traits;
//! - [`Embedded`]: an engine in one redb file;
//! - [`Memory`]: an engine in memory, for tests and trials;
//! - [`Replica`]: an engine in one file that is a copy of a log outside, a [`SharedLog`], to which several controllers
//!   append; [`MemoryLog`] is one for tests;
//! - [`Faulty`]: an engine that fails on demand, for tests of code above the store;
//! - [`Examination`] and [`Mend`]: examining everything that is stored, and mending faults;
//! - [`create`]: a new file with the entities of a network that comes from elsewhere;
//! - [`restore`]: a new file from a backup, on a new timeline; [`Hold`] locks the file that it
//!   replaces.
//!
//! ```
//! # futures::executor::block_on(async {
//! use weft_model::{Base, Change, ChangeSet, Id, Timestamp, entity::Service};
//! use weft_store::{Memory, Store};
//!
//! let store = Memory::new();
//! let base = store.head()?.revision;
//! let service = Service { base: Base::new(Id::new("s1"), Timestamp(0)), ..Service::default() };
//! let set = std::sync::Arc::new(ChangeSet::of([Change::Put(service.into())]));
//! assert!(store.commit(base, vec![set.clone()]).await? > base);
//! assert!(store.commit(base, vec![set]).await.is_err(), "the head is not `base` any more");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod codec;
mod embedded;
mod error;
mod examine;
mod faulty;
mod follow;
mod head;
mod log_keys;
mod memory;
mod replica;
mod standing;
mod store;

#[cfg(test)]
mod tests;

pub use embedded::{Embedded, Hold, Options, create, read_backup, restore, sync_folder_of};
pub use error::{BackupError, CommitError, Damage, FollowError, OpenError, ReadError};
pub use examine::{Examination, ExaminationItem, Mend, StoreLocation, StoredFault};
pub use faulty::{Faulty, InjectedFault};
pub use head::{BatchId, FORMAT, Head};
pub use log_keys::{LogKeyNumbers, LogKeys};
pub use memory::Memory;
pub use replica::{
    ALIVE, Announcements, AppendError, AppendFault, Checkpoint, FetchError, HeadVersion,
    LogConnection, LogDigest, LogError, LogHead, MemoryLog, MoveError, Obstacles, Replica,
    SharedLog, SharedLogEntry,
};
pub use standing::{
    Alive, ClockOffsets, LogMember, Presence, ReplicaCounts, ReplicaState, WallClock,
};
pub use store::{
    Committed, LiveChange, LiveListener, LivePut, LiveStore, Sharing, Space, Store, WaitingChange,
};
