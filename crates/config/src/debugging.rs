//! Sections for debugging: `trace` and `profile` (docs/protocol/config.md 4.11).

use std::{path::PathBuf, time::Duration};

use crate::section::Section;

/// Traces and profiles. Each is on only if its path is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Debugging {
    /// File for decoded messages.
    pub trace: Option<PathBuf>,
    /// File for CPU profiles.
    pub cpu_profile: Option<PathBuf>,
    /// File for memory profiles.
    pub memory_profile: Option<PathBuf>,
    /// The interval of memory profiles. Default 15s.
    pub memory_interval: Duration,
}

impl Debugging {
    pub(crate) fn read(root: &Section<'_>) -> Self {
        let profile = root.section("profile");
        let (cpu, memory) = (profile.section("cpu"), profile.section("memory"));
        Self {
            trace: path(&root.section("trace")),
            cpu_profile: path(&cpu),
            memory_profile: path(&memory),
            memory_interval: Duration::from_millis(memory.int(
                "intervalMs",
                15_000,
                1..=86_400_000,
            )),
        }
    }
}

/// The path of a section; a section without one has no effect.
fn path(section: &Section<'_>) -> Option<PathBuf> {
    let path = section.text("path").filter(|path| !path.is_empty());
    section.describe("path", "path", "", "");
    if section.is_present() && path.is_none() {
        section.warn("path", "the section has no effect without a path");
    }
    path.map(PathBuf::from)
}
