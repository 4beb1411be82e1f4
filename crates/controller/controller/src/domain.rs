//! Every operation on the model.
//!
//! - [`context`]: the view of a read; [`resource`], `collection`, `live`, `resources`: the generic
//!   operations, and a file for each subject;
//! - [`fields`], `values`: the table of fields of each kind, and everything that is generated
//!   from it;
//! - [`seeds`], `upgrade`: the entities of a new network, and changes to a network of an earlier
//!   release.

pub(crate) mod change;
pub(crate) mod collection;
pub mod context;
pub mod fields;
pub(crate) mod integrity;
pub(crate) mod live;
pub(crate) mod operations;
pub(crate) mod registry;
pub mod resource;
pub(crate) mod resources;
pub mod schema;
pub mod seeds;
pub(crate) mod symbols;
#[cfg(test)]
mod tests;
pub(crate) mod upgrade;
pub(crate) mod values;
