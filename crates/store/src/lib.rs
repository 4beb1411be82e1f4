//! The durable, ordered log of change sets: one trait, an in-memory and an embedded engine.
//!
//! A commit has one precondition: the head is still revision N. What was acknowledged is on the
//! disk (fsync); what was not acknowledged is either there as a whole or not at all, and
//! [`Store::settle`] says which. Rows carry a checksum and every kind a count and a running hash,
//! so that a damaged file is refused instead of believed.
//!
//! - [`Store`] and [`Live`]: the traits;
//! - [`Embedded`]: one redb file; [`Memory`]: nothing survives, for tests and trials;
//! - [`Faulty`]: an engine that fails on demand, for tests of what is built on a store;
//! - [`Examination`] and [`Mend`]: looking at everything that is stored, and mending it;
//! - [`restore`]: a new file, with a new timeline, from a backup; [`Hold`] keeps others away from the
//!   one that it is to replace.

mod codec;
mod embedded;
mod error;
mod examine;
mod faulty;
mod follow;
mod head;
mod memory;
mod store;

#[cfg(test)]
mod tests;

pub use embedded::{Embedded, Hold, Options, restore, sync_folder_of};
pub use error::{BackupError, CommitError, Damage, FollowError, OpenError, ReadError};
pub use examine::{Examination, Mend, Place, Seen, StoredFault};
pub use faulty::{Fault, Faulty};
pub use head::{BatchId, FORMAT, Head};
pub use memory::Memory;
pub use store::{Committed, Live, Space, Store};
