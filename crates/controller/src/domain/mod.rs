//! Every operation on the model.
//!
//! - [`context`]: what a read sees; [`resource`], `collection`, `live`, `resources`: the machinery, and a
//!   file per subject;
//! - [`members`], `values`: the members of a kind, each said once, and what follows from that;
//! - [`seeds`], `upgrade`: what a new network has, and what an old one lacks of it.

pub(crate) mod change;
pub(crate) mod collection;
pub mod context;
pub(crate) mod integrity;
pub(crate) mod live;
pub mod members;
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
