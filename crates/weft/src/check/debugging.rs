//! Checks of the section `debugging` parts: files for traces and profiles.

use weft_config::Debugging;

use super::addresses;
use super::finding::{Finding, Purpose};

/// Checks files for traces and profiles.
pub(super) fn files(debugging: &Debugging, purpose: Purpose) -> impl Iterator<Item = Finding> {
    let files = [
        ("trace.path", &debugging.trace),
        ("profile.cpu.path", &debugging.cpu_profile),
        ("profile.memory.path", &debugging.memory_profile),
    ];
    files
        .into_iter()
        .filter_map(move |(key, path)| addresses::to_write(key, path.as_deref()?, purpose))
}
