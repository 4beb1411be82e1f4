//! The model of a network: entities, roles, policies, filters, access decisions, immutable
//! snapshots.
//!
//! ```text
//! snapshot N ─> the controller decides ─> ChangeSet ─> Snapshot::apply ─> snapshot N+1
//! snapshot N, snapshot N+1 ─> rdm::changes ─> events for routers
//! ```
//!
//! Everything in this crate is pure: no I/O, no clock, no randomness; time and random numbers are
//! arguments.
//!
//! - [`entity`]: the kinds of entities; [`Kind`] and [`Entity`] hold any of them;
//! - [`role`] and [`policy`]: the entities that a policy selects, and what follows;
//! - [`access`] and [`posture`]: may an identity use a service, and why or why not;
//! - [`rdm`]: the router data model;
//! - [`token`]: the claims of tokens and their rules;
//! - [`filter`]: the language of list queries; [`Meter`]: the work that they take;
//! - [`deletion`]: what is deleted along with an entity;
//! - [`integrity`]: faults of a snapshot, and their repair.
//!
//! ```
//! use weft_model::entity::Service;
//! use weft_model::{Base, Change, ChangeSet, Id, Snapshot, Timeline, Timestamp};
//!
//! let before = Snapshot::empty(Timeline("example".into()));
//! let service = Service {
//!     base: Base::new(Id::new("s1"), Timestamp::default()),
//!     name: "web".into(),
//!     ..Service::default()
//! };
//! let after = before.apply(&ChangeSet::of([Change::Put(service.into())]))?;
//! assert!(after.by_name::<Service>("web").is_some());
//! assert!(before.by_name::<Service>("web").is_none(), "a snapshot never changes");
//! # Ok::<(), weft_model::ApplyError>(())
//! ```

pub mod access;
mod change;
mod choice;
mod cold;
pub mod deletion;
pub mod entity;
pub mod filter;
mod id;
pub mod integrity;
pub mod kind;
mod meter;
pub mod policy;
pub mod posture;
pub mod rdm;
pub mod role;
mod row;
pub mod session_list;
mod snapshot;
mod sparse;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod token;
mod value;

pub use change::{Author, AuthorKind, Cause, Change, ChangeSet};
pub use choice::Choice;
pub use cold::ColdField;
pub use entity::{Base, Link, OfKind, OnDelete, Record};
pub use id::{Id, IdError};
pub use kind::{Entity, Kind, StorageClass};
pub use meter::{Ended, Meter, Part};
pub use role::{Roles, Semantic};
pub use row::RowError;
pub use snapshot::{Loader, Snapshot};
pub use sparse::{Empty, Sparse};
pub use table::{ApplyError, Table};
pub use value::{JsonMap, Revision, Timeline, Timestamp};
