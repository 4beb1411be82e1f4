//! What a network is: entities, roles, policies, filters, access decisions, immutable snapshots.
//!
//! Everything here is pure: no I/O, no clock, no randomness; time and random numbers are
//! arguments. The way of a change: the controller decides a [`ChangeSet`] on a [`Snapshot`],
//! [`Snapshot::apply`] checks it and gives the next one, and what routers have to be told follows
//! from the two.
//!
//! - [`entity`]: the kinds of entities; [`Kind`] and [`Entity`] hold any of them;
//! - [`role`] and [`policy`]: who is meant by a policy, and what follows;
//! - [`access`] and [`posture`]: may this identity use this service, and why (not);
//! - [`rdm`]: what routers are told;
//! - [`token`]: the claims of tokens and their rules;
//! - [`filter`]: the language of list queries;
//! - [`deletion`]: what a deletion takes with it;
//! - [`integrity`]: whether a snapshot is in order, and how it comes into order.

pub mod access;
mod change;
pub mod deletion;
pub mod entity;
pub mod filter;
mod id;
pub mod integrity;
pub mod kind;
pub mod policy;
pub mod posture;
mod rare;
pub mod rdm;
pub mod role;
mod row;
mod snapshot;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod token;
mod value;

pub use change::{Author, AuthorKind, Cause, Change, ChangeSet, ColdField};
pub use entity::{Base, Link, OnDelete, Record};
pub use id::{Id, IdError};
pub use kind::{Class, Entity, Kind};
pub use rare::{Empty, Rare};
pub use role::{Roles, Semantic};
pub use row::RowError;
pub use snapshot::{Loader, Snapshot};
pub use table::{ApplyError, Table};
pub use value::{JsonMap, Revision, Timeline, Timestamp};
