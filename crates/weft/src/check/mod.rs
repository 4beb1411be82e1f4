//! Checks of the files and addresses that a configuration names: keys and certificates, addresses,
//! interfaces, folders.
//!
//! `weft router check` and `weft router run` make the same checks (and so do those of a
//! controller): a file that passes `check` starts with `run`, and a file that fails starts nothing.

mod addresses;
mod controller;
mod debugging;
mod finding;
mod identity;
mod interception;
mod report;
mod router;
mod web;

use weft_config::{Error, Examined, Loaded};

use crate::failure::Failure;

pub(crate) use controller::controller;
pub(crate) use finding::Purpose;
pub(crate) use report::{report, unreadable};
pub(crate) use router::router;

/// The file, or everything that is wrong with it.
pub(crate) fn accept<T>(examined: Examined<T>) -> Result<Loaded<T>, Failure> {
    examined.accept().map_err(|error: Error| Failure::from(error))
}

#[cfg(test)]
mod tests;
