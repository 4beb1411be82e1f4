//! Each advisory and each attack on logins has a test, which `docs/security.md` names.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::BTreeSet;

use regex::Regex;
use weft_pages::files::{self, File};

const PAGE: &str = "docs/security.md";
const ADVISORIES: &str = "## What OpenZiti's advisories are about";
const ATTACKS: &str = "## Attacks on logins, by name";

/// The attacks that have a row.
const NAMES: [&str; 16] = [
    "token type confusion",
    "audience confusion",
    "issuer confusion",
    "algorithm confusion",
    "`alg: none`",
    "key confusion between signers",
    "code replay",
    "refresh replay",
    "redirect mix-up",
    "login page framing",
    "login CSRF",
    "session fixation",
    "open redirect",
    "JWKS that grow",
    "JWKS that redirect",
    "JWKS that hang",
];

/// A row of a table: what it is about, and the tests that it names.
struct Row<'t> {
    about: &'t str,
    tests: Vec<&'t str>,
}

fn text<'f>(files: &'f [File], path: &str) -> &'f str {
    &files.iter().find(|file| file.path == path).unwrap().text
}

/// The rows of a section.
fn rows<'t>(page: &'t str, heading: &str) -> Vec<Row<'t>> {
    let section = page.split_once(heading).unwrap().1.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| test |"));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let last = cells.last().copied().unwrap_or_default();
        let quoted = last.split('`').skip(1).step_by(2);
        Row { about: cells[0], tests: quoted.filter(|name| !name.contains('/')).collect() }
    })
    .collect()
}

/// The advisories that a page names.
fn advisories(page: &str) -> BTreeSet<&str> {
    let name = Regex::new("GHSA(?:-[a-z0-9]{4}){3}").unwrap();
    name.find_iter(page).map(|found| found.as_str()).collect()
}

/// The tests of the repository.
fn tests(files: &[File]) -> BTreeSet<&str> {
    let test = Regex::new(r"(?m)^\s*(?:async )?fn ([a-z0-9_]+)\(").unwrap();
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    sources
        .flat_map(|file| test.captures_iter(&file.text).map(|it| it.get(1).unwrap().as_str()))
        .collect()
}

#[test]
fn each_advisory_is_a_test_that_is_named_after_it() {
    let files = files::all().unwrap();
    let known = tests(&files);
    let rows = rows(text(&files, PAGE), ADVISORIES);
    let mut all = BTreeSet::new();
    for page in files.iter().filter(|file| file.path.starts_with("docs/protocol/")) {
        all.extend(advisories(&page.text));
    }
    assert!(all.len() >= 10, "{all:?}: are they still found?");
    for advisory in all {
        let named = advisory.to_lowercase().replace('-', "_");
        let row = rows.iter().find(|row| row.about.contains(advisory));
        let row = row.unwrap_or_else(|| panic!("{PAGE} has no row of {advisory}"));
        let own: Vec<_> = row.tests.iter().filter(|test| test.starts_with(&named)).collect();
        assert!(!own.is_empty(), "{PAGE} names no test of {advisory}");
        assert!(own.iter().all(|test| known.contains(**test)), "there is no test {own:?}");
    }
}

#[test]
fn each_attack_on_logins_has_tests_that_exist() {
    let files = files::all().unwrap();
    let known = tests(&files);
    let rows = rows(text(&files, PAGE), ATTACKS);
    for name in NAMES {
        assert!(rows.iter().any(|row| row.about == name), "{PAGE} has no row of {name}");
    }
    for row in rows {
        assert!(!row.tests.is_empty(), "{} has no test", row.about);
        for test in row.tests {
            assert!(known.contains(test), "{}: there is no test {test}", row.about);
        }
    }
}
