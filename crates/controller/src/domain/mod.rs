//! Every operation on the model, behind one gate.
//!
//! - [`caller`], [`gate`], `rank`: who asks, whether he may, and what he may do to whom;
//! - [`call`]: an operation and its reply without HTTP;
//! - [`resource`], `list`, `resources`: the machinery, and a file per subject;
//! - [`decision`], [`writer`], [`subscription`]: how a change is decided, made durable and told;
//! - [`terminators`]: what routers report of their terminators;
//! - [`seeds`], `upgrade`: what a new network has, and what an old one lacks of it.

pub mod call;
pub mod caller;
pub(crate) mod change;
pub(crate) mod convert;
pub mod decision;
pub mod gate;
pub(crate) mod integrity;
pub(crate) mod list;
pub(crate) mod live;
pub(crate) mod rank;
pub(crate) mod registry;
pub mod resource;
pub(crate) mod resources;
pub mod schema;
pub mod seeds;
pub mod subscription;
pub(crate) mod symbols;
pub mod terminators;
pub(crate) mod upgrade;
pub mod view;
pub mod writer;

#[cfg(test)]
mod tests;
