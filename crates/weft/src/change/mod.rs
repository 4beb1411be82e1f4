//! `weft export`, `weft diff` and `weft apply`: a network as files.
//!
//! A file is read here, so that every mistake can be named with its line; what it would change is
//! decided by the controller, as one change set (`/weft/v1`).
//!
//! - [`file`]: files as one document, and the way back from a place in it to a line;
//! - [`export`]: the network as a file; [`apply`]: what a file changes, looked at or done;
//! - [`show`]: a plan for people.

mod apply;
mod export;
mod file;
mod show;
mod tokens;

use weft_contract::{Api, Operation, resource};

pub(crate) use apply::{apply, diff};
pub(crate) use export::export;

use crate::failure::Failure;

/// The version of the files.
const FORMAT: u64 = 1;
/// The member that names it.
const HEADER: &str = "weft";

/// An operation of weft's own API.
fn row(id: &str) -> Result<&'static Operation, Failure> {
    resource::operation(Api::Weft, id)
        .ok_or_else(|| Failure::new(format!("this release of weft does not know {id}")))
}
