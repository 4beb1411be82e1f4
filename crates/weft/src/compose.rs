//! From a configuration file to a running program: the parts, and the order in which they start and
//! stop.

pub(crate) mod cluster;
pub(crate) mod controller;
mod ending;
pub(crate) mod etcd;
mod exchange;
pub(crate) mod keys;
pub(crate) mod offline;
pub(crate) mod router;
pub(crate) mod session_key;
mod shown;

use std::path::Path;

use weft_config::{KeyAt, Loaded};

/// Logs the warnings about a file, once, at start.
fn warn<T>(loaded: &Loaded<T>) {
    let file = file_name(&loaded.path);
    for KeyAt { key, line, message, .. } in &loaded.warnings {
        tracing::warn!(%file, line, key, "{message}");
    }
    for KeyAt { key, line, message, .. } in &loaded.not_acted_upon {
        tracing::warn!(%file, line, key, "not acted upon: {message}");
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
