//! `weft export`, `weft diff` and `weft apply`: a network as files.
//!
//! Files are parsed here, so that every mistake can be reported with its line. The controller
//! decides what they change, as one change set (`/weft/v1`).
//!
//! - [`file`]: files as one document, and the line of each of its members;
//! - [`export`]: the network as a file; [`apply`]: the changes that a file makes;
//! - [`show`]: a plan as text.

mod apply;
mod export;
mod file;
mod show;
mod tokens;

use weft_contract::{Api, Operation, resource};

pub(crate) use apply::{apply, diff};
pub(crate) use export::export;

use crate::failure::Failure;

/// Format version of the files.
const FORMAT: u64 = 1;
/// Member that holds the format version.
const HEADER: &str = "weft";

/// An operation of weft's own API, by id.
fn row(id: &str) -> Result<&'static Operation, Failure> {
    resource::operation(Api::Weft, id)
        .ok_or_else(|| Failure::new(format!("this release of weft does not know {id}")))
}
