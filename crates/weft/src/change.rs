//! `weft export`, `weft diff` and `weft apply`: a network as files.
//!
//! Files are parsed here, so that every mistake can be reported with its line. The controller
//! decides what they change, as one change set (`/weft/v1`).
//!
//! - `file`: files as one document, and the line of each of its members;
//! - `export`: the network as a file; `apply`: the changes that a file makes;
//! - `openziti`: documents in the form of OpenZiti's own commands, in and out;
//! - `show`: a plan as text; `remarks`: what hosts and tunnelers do not do as its configs say it.

mod apply;
mod export;
mod file;
mod openziti;
mod operation;
mod remarks;
mod show;
mod tokens;

pub(crate) use apply::{apply, diff};
pub(crate) use export::export;
