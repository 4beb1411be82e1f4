//! The version of the workspace is the newest release in CHANGELOG.md.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use regex::Regex;
use weft_pages::files;

/// The heading of changes after the newest release.
const UNRELEASED: &str = "Unreleased";

/// The version that all crates of a workspace share.
fn version(manifest: &str) -> Option<&str> {
    let section = manifest.split_once("[workspace.package]")?.1.split("\n[").next()?;
    let line = section.lines().find_map(|line| line.strip_prefix("version = "))?;
    Some(line.trim_matches('"'))
}

/// What is wrong with a changelog for this version.
fn faults(changelog: &str, version: &str) -> Vec<String> {
    let release =
        Regex::new(r"^[0-9]+\.[0-9]+\.[0-9]+(?: \([0-9]{4}-[0-9]{2}-[0-9]{2}\))?$").unwrap();
    let mut headings = changelog.lines().filter_map(|line| line.strip_prefix("## ")).peekable();
    headings.next_if(|heading| *heading == UNRELEASED);
    let releases: Vec<&str> = headings.collect();
    let odd = releases.iter().filter(|heading| !release.is_match(heading));
    let mut found: Vec<String> = odd.map(|heading| format!("`{heading}` is no release")).collect();
    let newest = releases.first().and_then(|heading| heading.split(' ').next());
    if newest != Some(version) {
        found.push(format!(
            "the newest release is {newest:?}, the version of the workspace {version}"
        ));
    }
    found
}

#[test]
fn the_version_is_the_newest_release() {
    let read = |path: &str| std::fs::read_to_string(files::root().join(path)).unwrap();
    let (manifest, changelog) = (read("Cargo.toml"), read("CHANGELOG.md"));
    let faults = faults(&changelog, version(&manifest).unwrap());
    assert!(faults.is_empty(), "CHANGELOG.md: {}", faults.join("; "));
}

#[test]
fn a_version_without_its_release_is_found() {
    let manifest = "[a]\nversion = \"9\"\n[workspace.package]\nversion = \"0.2.0\"\n\n[b]\n";
    assert_eq!(version(manifest), Some("0.2.0"));
    let page = "# Changelog\n## Unreleased\n### More\n## 0.2.0 (2027-01-31)\n## 0.1.0\n";
    assert!(faults(page, "0.2.0").is_empty());
    assert_eq!(faults(page, "0.3.0").len(), 1);
    assert_eq!(faults("## Unreleased\n", "0.1.0").len(), 1, "changes after no release");
    assert_eq!(faults("## 0.1.0\n## Unreleased\n", "0.1.0").len(), 1);
}
