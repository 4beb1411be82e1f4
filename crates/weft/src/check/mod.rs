//! Checks of what a file refers to: keys and certificates, addresses, interfaces, folders.
//!
//! `weft router check` and `weft router run` make the same checks (and so do those of a
//! controller): a file that passes `check` starts with `run`, and a file that fails starts nothing.

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

/// Purpose of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The operator wants advice. The program may be running already, or have no certificates yet.
    Advice,
    /// The program is to be started now.
    Start,
}

/// A problem of one key.
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

/// Adds findings to the problems of the file itself.
fn add<T>(examined: &mut Examined<T>, findings: Vec<Finding>) {
    for Finding { key, message, is_warning } in findings {
        let about = examined.about(&key, message);
        // A problem that the file itself shows takes precedence over another one of the same key.
        let told = |one: &KeyAt| one.key == about.key && one.line == about.line;
        if is_warning {
            examined.warnings.push(about);
        } else if !examined.problems.iter().any(|one| told(one) && one.message == about.message) {
            examined.problems.push(about);
        }
    }
    examined.sort();
}

/// Checks files for traces and profiles.
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
