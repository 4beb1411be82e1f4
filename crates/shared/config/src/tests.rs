//! Tests of the crate, by subject.

mod bindings;
mod controller;
mod controller_keys;
mod conventions;
mod keys;
mod links;
mod original;
mod reports;
mod router;
mod templates;

use std::path::Path;

use crate::{ControllerConfig, Error, Loaded, RouterConfig};

/// No variables.
fn none(_: &str) -> Option<String> {
    None
}

fn controller(text: &str) -> Result<Loaded<ControllerConfig>, Error> {
    ControllerConfig::from_str(text, Path::new("dir/ctrl.yml"), &none)
}

fn router(text: &str) -> Result<Loaded<RouterConfig>, Error> {
    RouterConfig::from_str(text, Path::new("dir/r1.yml"), &none)
}

/// All warnings, one a line.
fn warnings<T>(loaded: &Loaded<T>) -> String {
    loaded.warnings.iter().map(|warning| format!("{warning}\n")).collect()
}
