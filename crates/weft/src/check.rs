//! Checks of the files and addresses that a configuration names: keys and certificates, addresses,
//! interfaces, folders.
//!
//! `weft router check` and `weft router run` make the same checks, and so do the commands of a
//! controller: a file that fails `check` starts nothing. `run` is stricter ([`Purpose::Start`]): ports
//! have to be free, folders writable, keys and certificates there, and interception possible.

mod addresses;
mod controller;
mod debugging;
mod finding;
mod identity;
mod interception;
mod report;
mod router;
mod web;
mod without_effect;

pub(crate) use controller::controller;
pub(crate) use finding::Purpose;
pub(crate) use report::{report, unreadable};
pub(crate) use router::router;
use weft_config::{Error, Examined, Loaded};

use crate::failure::{Failure, Result};

/// The configuration of a file, or everything that is wrong with the file.
pub(crate) fn accept<T>(examined: Examined<T>) -> Result<Loaded<T>> {
    examined.accept().map_err(|error: Error| Failure::from(error))
}

#[cfg(test)]
mod tests;
