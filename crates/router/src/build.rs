//! The build of a router, as it announces it.

use weft_wire::VersionInfo;

/// The build of a router, as it announces it.
#[derive(Debug, Clone)]
pub struct Build {
    /// The release of OpenZiti that this build corresponds to, `vX.Y.Z`. Peers compare it to decide
    /// which messages they may send (docs/protocol/control-plane.md 2.1).
    pub version: String,
    /// Revision of the sources.
    pub revision: String,
    /// The time of the build.
    pub build_date: String,
}

impl Default for Build {
    fn default() -> Self {
        Self {
            version: "v2.1.0".into(),
            revision: format!("weft-{}", env!("CARGO_PKG_VERSION")),
            build_date: "unknown".into(),
        }
    }
}

impl From<&Build> for VersionInfo {
    fn from(build: &Build) -> Self {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            version: build.version.clone(),
            revision: build.revision.clone(),
            build_date: build.build_date.clone(),
            os: std::env::consts::OS.to_owned(),
            arch: arch.to_owned(),
        }
    }
}
