//! What a file names outside of itself: keys and certificates, addresses, interfaces, folders.
//!
//! `weft router check` and `weft router run` look with the same eyes (and so do those of a
//! controller), so that a file that passes the one starts with the other, and one that does not
//! starts nothing at all.

mod addresses;
mod controller;
mod identity;
mod interception;
mod report;
mod router;
mod web;

use weft_config::{Debugging, Error, Examined, KeyAt, Loaded};

use crate::failure::Failure;

pub(crate) use controller::controller;
pub(crate) use report::{report, unreadable};
pub(crate) use router::router;

/// What a file is looked at for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Somebody wants to know what is wrong with it. What it starts may run already, or may have no
    /// certificates yet.
    Advice,
    /// It is to be started now.
    Start,
}

/// What was found about one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    key: String,
    message: String,
    is_warning: bool,
}

impl Finding {
    fn mistake(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), is_warning: false }
    }

    fn warning(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { is_warning: true, ..Self::mistake(key, message) }
    }
}

/// Adds what was found to what the file itself shows.
fn add<T>(examined: &mut Examined<T>, findings: Vec<Finding>) {
    for Finding { key, message, is_warning } in findings {
        let about = examined.about(&key, message);
        // The file's own words about a value come first; one mistake is told of once.
        let told = |one: &KeyAt| one.key == about.key && one.line == about.line;
        if is_warning {
            examined.warnings.push(about);
        } else if !examined.problems.iter().any(|one| told(one) && one.message == about.message) {
            examined.problems.push(about);
        }
    }
    examined.sort();
}

/// Files for whoever looks for faults.
fn debugging(debugging: &Debugging, purpose: Purpose) -> impl Iterator<Item = Finding> {
    let files = [
        ("trace.path", &debugging.trace),
        ("profile.cpu.path", &debugging.cpu_profile),
        ("profile.memory.path", &debugging.memory_profile),
    ];
    files
        .into_iter()
        .filter_map(move |(key, path)| addresses::to_write(key, path.as_deref()?, purpose))
}

/// The file, or everything that is wrong with it.
pub(crate) fn accept<T>(examined: Examined<T>) -> Result<Loaded<T>, Failure> {
    examined.accept().map_err(|error: Error| Failure::from(error))
}

#[cfg(test)]
mod tests;
