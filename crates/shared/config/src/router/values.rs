//! Values that several sections of a router's file have.

use std::path::{Path, PathBuf};

use crate::section::Section;

/// Names of groups; none is `default`.
pub(super) fn groups(section: &Section<'_>) -> Vec<String> {
    let groups = section.texts("groups");
    section.describe("groups", "list of strings", "[default]", "");
    if groups.is_empty() { vec!["default".to_owned()] } else { groups }
}

/// A path beside the configuration file.
pub(super) fn beside(config: &Path, name: &str) -> PathBuf {
    config.parent().unwrap_or(Path::new("")).join(name)
}
