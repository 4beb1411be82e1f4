//! The tests that docs/security.md names are there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Adds the names of the functions in the sources below a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.lines().filter_map(|line| line.split_once("fn ")?.1.split_once('('));
            found.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
}

#[test]
fn every_test_that_the_security_page_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("docs/security.md")).unwrap();
    let mut known = BTreeSet::new();
    functions(&root.join("crates"), &mut known);
    functions(&root.join("tests"), &mut known);
    let quoted: Vec<&str> = page.split('`').skip(1).step_by(2).collect();
    let is_test = |it: &&&str| it.matches('_').count() > 3 && !it.contains(['/', '.', '-']);
    let named: Vec<_> = quoted.iter().filter(is_test).collect();
    assert!(named.len() > 20, "the page names {} tests", named.len());
    let missing: Vec<_> = named.into_iter().filter(|name| !known.contains(**name)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
    let paths = quoted.iter().filter(|it| it.starts_with("crates/"));
    let gone: Vec<_> = paths.filter(|path| !root.join(path).exists()).collect();
    assert!(gone.is_empty(), "no such files: {gone:?}");
}
