//! Sections for debugging: `trace` and `profile` (docs/protocol/config.md 4.11, 5.1).

use std::path::PathBuf;
use std::time::Duration;

use crate::section::Section;
use crate::web::Side;

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
    pub(crate) fn read(root: &Section<'_>, side: Side) -> Self {
        let profile = root.section("profile");
        let (cpu, memory) = (profile.section("cpu"), profile.section("memory"));
        Self {
            trace: path(&root.section("trace"), side),
            cpu_profile: path(&cpu, side),
            memory_profile: path(&memory, side),
            memory_interval: Duration::from_millis(memory.int(
                "intervalMs",
                15_000,
                1..=86_400_000,
            )),
        }
    }
}

/// The path of a section. A router's section has to have one, a controller's has no effect without one.
fn path(section: &Section<'_>, side: Side) -> Option<PathBuf> {
    let path = section.text("path").filter(|path| !path.is_empty());
    section.describe("path", "path", "", if side == Side::Router { "required" } else { "" });
    match side {
        _ if !section.is_present() || path.is_some() => {}
        Side::Router => {
            section.problem("path", "missing: the section has no effect without a path")
        }
        Side::Controller { .. } => section.warn("path", "the section has no effect without a path"),
    }
    path.map(PathBuf::from)
}
