//! The build (release, commit and its time): for `weft version`, and for the hellos of controllers and
//! routers.

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::output::{self, Format};

pub(crate) const RELEASE: &str = env!("CARGO_PKG_VERSION");
/// Commit of the sources; empty if unknown.
const COMMIT: &str = env!("WEFT_BUILD_COMMIT");
/// Time of the commit in seconds since 1970; empty if unknown.
const DATE: &str = env!("WEFT_BUILD_DATE");
/// Characters of a commit that are shown.
const SHORT: usize = 12;

/// Shown in place of an unknown value.
const UNKNOWN: &str = "unknown";

fn short_commit() -> Option<&'static str> {
    (!COMMIT.is_empty()).then(|| COMMIT.get(..SHORT).unwrap_or(COMMIT))
}

/// The revision that peers and clients are told: release and commit.
pub(crate) fn revision() -> String {
    match short_commit() {
        Some(commit) => format!("weft-{RELEASE}+{commit}"),
        None => format!("weft-{RELEASE}"),
    }
}

/// The time of the commit, as RFC 3339 writes it.
pub(crate) fn date() -> String {
    moment(DATE).unwrap_or_else(|| UNKNOWN.to_owned())
}

fn moment(seconds: &str) -> Option<String> {
    let moment = OffsetDateTime::from_unix_timestamp(seconds.parse().ok()?).ok()?;
    moment.format(&Rfc3339).ok()
}

/// The line that `weft --version` prints behind the name.
pub(crate) fn line() -> String {
    format!("{RELEASE} (commit {}, {})", short_commit().unwrap_or(UNKNOWN), date())
}

/// The build, for a controller.
pub(crate) fn of_controller() -> weft_controller::BuildInfo {
    weft_controller::BuildInfo {
        revision: revision(),
        build_date: date(),
        ..weft_controller::BuildInfo::default()
    }
}

/// The build, for a router.
pub(crate) fn of_router() -> weft_router::Build {
    weft_router::Build { revision: revision(), build_date: date(), ..weft_router::Build::default() }
}

/// Prints the build.
pub(crate) fn version(format: Format) {
    output::value(format, &shown(), || format!("weft {}", line()));
}

fn shown() -> Value {
    json!({
        "version": RELEASE,
        "commit": (!COMMIT.is_empty()).then_some(COMMIT),
        "buildDate": moment(DATE),
        "compatibleWith": {
            "controller": of_controller().version,
            "router": of_router().version,
        },
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_fits_between_bars() {
        for text in [revision(), date()] {
            assert!(!text.is_empty() && !text.contains('|'), "{text}");
        }
        assert!(revision().starts_with(&format!("weft-{RELEASE}")));
        assert!(line().starts_with(RELEASE));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(moment("1767323045").unwrap(), "2026-01-02T03:04:05Z");
        assert_eq!(moment(""), None);
        assert_eq!(moment("soon"), None);
    }

    #[test]
    fn the_commit_is_the_one_that_is_checked_out() {
        let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let git = |asked: &str| {
            let mut command = std::process::Command::new("git");
            command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
            let done = command.arg("-C").arg(sources).args(["rev-parse", asked]).output().ok()?;
            done.status.success().then(|| String::from_utf8(done.stdout).unwrap().trim().to_owned())
        };
        // An archive has no commit, even inside another project's repository.
        let top = git("--show-toplevel").and_then(|top| std::fs::canonicalize(top).ok());
        if option_env!("WEFT_COMMIT").is_none() && top == sources.canonicalize().ok() {
            assert_eq!(Some(COMMIT), git("HEAD").as_deref());
        }
    }
}
