//! Crates depend downwards only.
//!
//! The floor of each crate is written here once, from ARCHITECTURE.md; `cargo metadata` gives the
//! dependencies of each crate. A crate that is not in the table, or that uses one on its own floor
//! or above, fails the test by name. No crate has more than 15 % of the lines of code.

use std::collections::BTreeMap;

use cargo_metadata::{DependencyKind, MetadataCommand};
use weft_pages::circle::Crate;
use weft_pages::files::{self, File};
use weft_pages::source::Reader;

/// Every crate of the workspace that ships, with its floor.
const FLOORS: &[(&str, u8)] = &[
    ("weft-wire", 1),
    ("weft-model", 1),
    ("weft-identity", 1),
    ("weft-contract", 1),
    ("weft-limits", 1),
    ("weft-metrics", 1),
    ("weft-unsafe-pages", 1),
    ("weft-unsafe-poly1305", 1),
    ("weft-dtls", 1),
    ("weft-proxy", 1),
    ("weft-agent", 2),
    ("weft-config", 2),
    ("weft-e2e", 2),
    ("weft-xgress", 2),
    ("weft-channel", 2),
    ("weft-store", 2),
    ("weft-client", 2),
    ("weft-intercept", 2),
    ("weft-spans", 2),
    ("weft-paths", 2),
    ("weft-oidc", 2),
    ("weft-bolt", 2),
    ("weft-circuit", 3),
    ("weft-web", 3),
    ("weft-tunnel", 3),
    ("weft-kernel", 3),
    ("weft-etcd", 3),
    ("weft-import", 3),
    ("weft-auth", 4),
    ("weft-network", 4),
    ("weft-control", 5),
    ("weft-router", 4),
    ("weft-sdk", 4),
    ("weft-tunneler", 5),
    ("weft-controller", 6),
    ("weft-api", 7),
    ("weft", 8),
];

/// Crates beside the floors: they may use all of them, and no crate uses them.
const BESIDE: &[&str] = &[
    "weft-tests",
    "weft-simulator",
    "weft-seeds",
    "weft-test-etcd",
    "weft-pages",
    "weft-threads",
    "weft-bench",
    "weft-fuzz",
];

/// Libraries that a crate must not use, on whatever floor it is: pure crates know no I/O, and
/// the controller knows no HTTP.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("weft-wire", &["tokio", "hyper", "axum", "reqwest"]),
    ("weft-model", &["tokio", "hyper", "axum", "reqwest", "redb"]),
    ("weft-identity", &["hyper", "axum", "reqwest"]),
    ("weft-agent", &["hyper", "axum", "reqwest"]),
    ("weft-config", &["tokio", "hyper", "axum", "reqwest"]),
    ("weft-contract", &["tokio", "hyper", "axum", "reqwest"]),
    ("weft-limits", &["tokio"]),
    ("weft-e2e", &["tokio"]),
    ("weft-metrics", &["tokio", "hyper", "axum", "reqwest"]),
    ("weft-unsafe-pages", &["tokio", "hyper", "axum", "reqwest"]),
    ("weft-unsafe-poly1305", &["tokio", "hyper", "axum", "reqwest"]),
    ("weft-dtls", &["tokio", "hyper", "axum", "reqwest"]),
    ("weft-proxy", &["hyper", "axum", "reqwest"]),
    ("weft-xgress", &["tokio"]),
    ("weft-web", &["axum", "reqwest"]),
    ("weft-store", &["hyper", "axum", "reqwest"]),
    ("weft-intercept", &["hyper", "axum", "reqwest"]),
    ("weft-spans", &["tokio", "hyper", "axum", "reqwest", "opentelemetry_sdk"]),
    ("weft-sdk", &["opentelemetry_sdk", "opentelemetry-otlp"]),
    ("weft-paths", &["tokio", "hyper", "axum", "reqwest", "redb"]),
    ("weft-oidc", &["tokio", "hyper", "axum", "reqwest", "redb", "rand"]),
    ("weft-bolt", &["tokio", "hyper", "axum", "reqwest"]),
    ("weft-import", &["tokio", "hyper", "axum", "reqwest", "redb"]),
    ("weft-kernel", &["hyper", "axum", "reqwest", "redb"]),
    ("weft-auth", &["hyper", "axum", "reqwest", "redb"]),
    ("weft-network", &["hyper", "axum", "reqwest", "redb"]),
    ("weft-control", &["hyper", "axum", "reqwest", "redb"]),
    ("weft-controller", &["hyper", "axum", "reqwest", "redb"]),
    ("weft-router", &["axum"]),
    ("weft-api", &["redb"]),
];

/// Largest share of the lines of code that one crate may have, in percent.
const MOST: usize = 15;

/// The lines of code of each crate, without tests.
fn lines() -> BTreeMap<String, usize> {
    let files = files::all().expect("the files of this repository");
    let reader = Reader::new().expect("the expressions of the reader");
    let by_path: BTreeMap<&str, &File> =
        files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut lines = BTreeMap::new();
    for root in by_path.keys() {
        let of = root.strip_prefix("crates/").and_then(|rest| {
            rest.strip_suffix("/src/lib.rs").or_else(|| rest.strip_suffix("/src/main.rs"))
        });
        if let Some(name) = of.and_then(|folder| folder.rsplit('/').next()) {
            let read = Crate::read(&reader, &by_path, root);
            *lines.entry(name.to_owned()).or_default() += read.lines();
        }
    }
    lines
}

#[test]
fn no_crate_is_a_large_part_of_the_house() {
    let lines = lines();
    let all: usize = lines.values().sum();
    assert_eq!(lines.len(), FLOORS.len(), "crates: are they still found?");
    assert!(all > 50_000, "{all} lines of code: are they still found?");
    let large = lines.iter().filter(|(_, own)| **own * 100 > all * MOST);
    let large: Vec<_> = large.map(|(name, own)| format!("{name}: {own} of {all} lines")).collect();
    assert!(
        large.is_empty(),
        "more than {MOST} % of the house: move a subject to a crate of its own\n{}",
        large.join("\n")
    );
}

fn dependencies() -> BTreeMap<String, Vec<String>> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .no_deps()
        .other_options(vec!["--offline".to_owned()])
        .exec()
        .expect("cargo metadata of this workspace");
    metadata
        .packages
        .iter()
        .map(|package| {
            let used = package
                .dependencies
                .iter()
                .filter(|dependency| dependency.kind == DependencyKind::Normal)
                .map(|dependency| dependency.name.clone())
                .collect();
            (package.name.to_string(), used)
        })
        .collect()
}

#[test]
fn every_crate_has_a_floor_and_uses_only_lower_ones() {
    let floors: BTreeMap<&str, u8> = FLOORS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (name, used) in dependencies() {
        if BESIDE.contains(&name.as_str()) {
            continue;
        }
        let Some(&floor) = floors.get(name.as_str()) else {
            wrong.push(format!("{name} has no floor: add it to ARCHITECTURE.md and to this table"));
            continue;
        };
        for dependency in used.iter().filter(|used| used.starts_with("weft")) {
            match floors.get(dependency.as_str()) {
                Some(&below) if below < floor => {}
                Some(&other) => wrong.push(format!(
                    "{name} (floor {floor}) uses {dependency} (floor {other}): only lower floors may be used"
                )),
                None => wrong.push(format!("{name} uses {dependency}, which stands beside the floors")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_crates_know_no_io() {
    let used = dependencies();
    let mut wrong = Vec::new();
    for (name, forbidden) in FORBIDDEN {
        let dependencies =
            used.get(*name).unwrap_or_else(|| panic!("{name} is not in the workspace"));
        for library in
            forbidden.iter().filter(|library| dependencies.iter().any(|used| used == *library))
        {
            wrong.push(format!("{name} must not use {library}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_names_only_crates_that_exist() {
    let used = dependencies();
    for (name, _) in FLOORS {
        assert!(
            used.contains_key(*name),
            "{name} is in the table of floors but not in the workspace"
        );
    }
}
