//! `docs/differences.md` names, for each difference from the original, the tests that show it.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use weft_pages::files;

/// A function with an attribute that makes it a test; other attributes may follow.
static TEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"#\[(?:tokio::)?test\b[^\]]*\](?:\s*#\[[^\]]*\])*\s*(?:async\s+)?fn\s+(\w+)")
        .unwrap()
});

/// The names of the tests in a source.
fn tests(source: &str) -> Vec<&str> {
    let found = TEST.captures_iter(source);
    found.filter_map(|it| it.get(1)).map(|it| it.as_str()).collect()
}

/// The rows of the tables of a page: the first cell, and the names in the last one.
fn rows(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| subject"))
    {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let names = cells.last().map(|last| last.split('`').skip(1).step_by(2).collect());
        found.push((cells[0], names.unwrap_or_default()));
    }
    found
}

/// What is wrong with a page, if these are the tests that there are.
fn faults(page: &str, tests: &BTreeSet<&str>) -> Vec<String> {
    let mut found = Vec::new();
    for (subject, names) in rows(page) {
        if names.is_empty() {
            found.push(format!("{subject}: no test"));
        }
        let missing = names.into_iter().filter(|name| !tests.contains(name));
        found.extend(missing.map(|name| format!("{subject}: there is no test `{name}`")));
    }
    found
}

#[test]
fn every_difference_from_the_original_is_shown_by_a_test() {
    let files = files::all().unwrap();
    let page = files.iter().find(|file| file.path == "docs/differences.md").unwrap();
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    let tests: BTreeSet<&str> = sources.flat_map(|file| tests(&file.text)).collect();
    assert!(rows(&page.text).len() > 100, "are the rows still found?");
    let faults = faults(&page.text, &tests);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn differences_without_a_test_are_found() {
    let source = "#[test]\nfn one() {}\n#[tokio::test(flavor = \"x\")]\n#[ignore]\nasync fn two() {}\nfn three() {}";
    assert_eq!(tests(source), ["one", "two"]);
    let tests = BTreeSet::from(["one", "two"]);
    let page =
        "| subject | shown by |\n|---|---|\n| `a` | `one`, `two` |\n| b | `three` |\n| c | |\n";
    assert_eq!(faults(page, &tests), ["b: there is no test `three`", "c: no test"]);
}
