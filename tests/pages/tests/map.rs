//! The map of the modules in ARCHITECTURE.md has every module, and no other.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use weft_pages::files::root;

const HEADING: &str = "## Map of the modules";
/// Crates of which the map shows large folders only.
const COARSE: [&str; 1] = ["controller"];

/// The modules of each crate in the map of a document.
fn mapped(document: &str) -> BTreeMap<String, BTreeSet<String>> {
    let map = document.split_once(HEADING).unwrap().1;
    let module = Regex::new(r"^- `([a-z0-9_]+)`: \S").unwrap();
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut modules = &mut BTreeSet::new();
    for line in map.lines() {
        if let Some(name) = line.strip_prefix("### ") {
            modules = crates.entry(name.to_owned()).or_default();
        } else if let Some(found) = module.captures(line) {
            modules.insert(found[1].to_owned());
        }
    }
    crates
}

/// The modules of each crate in its folder, without tests.
fn found() -> BTreeMap<String, BTreeSet<String>> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().into_string().unwrap()
    };
    let crates = root().join("crates").read_dir().unwrap().map(name);
    let crates = crates.filter(|one| !COARSE.contains(&one.as_str()));
    crates
        .filter_map(|one| {
            let entries = root().join("crates").join(&one).join("src").read_dir().ok()?.map(name);
            let modules = entries.map(|entry| entry.trim_end_matches(".rs").to_owned());
            let modules = modules.filter(|module| {
                !["lib", "main", "tests"].contains(&module.as_str()) && !module.ends_with("_tests")
            });
            Some((one, modules.collect()))
        })
        .collect()
}

#[test]
fn the_map_has_every_module_and_no_other() {
    let document = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (mut mapped, found) = (mapped(&document), found());
    mapped.retain(|one, _| !COARSE.contains(&one.as_str()));
    let mut wrong = Vec::new();
    for one in mapped.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
        let none = BTreeSet::new();
        let (map, folder) = (mapped.get(one).unwrap_or(&none), found.get(one).unwrap_or(&none));
        let missing = folder.difference(map).map(|it| format!("{one}: `{it}` is not in the map"));
        wrong.extend(missing);
        wrong.extend(map.difference(folder).map(|it| format!("{one}: there is no module `{it}`")));
    }
    assert!(wrong.is_empty(), "\n{HEADING} of ARCHITECTURE.md:\n{}", wrong.join("\n"));
}

#[test]
fn files_that_the_architecture_names_exist() {
    let document = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let path = Regex::new(r"`((?:crates|tests)/[a-z0-9_/-]+\.rs)`").unwrap();
    let named: BTreeSet<_> = path.captures_iter(&document).map(|it| it[1].to_owned()).collect();
    assert!(named.len() > 20, "{} files: are they still found?", named.len());
    let gone: Vec<_> = named.into_iter().filter(|it| !root().join(it).exists()).collect();
    assert!(gone.is_empty(), "\n{}", gone.join("\n"));
}

#[test]
fn a_module_is_told_by_its_line() {
    let map =
        mapped(&format!("{HEADING}\n### one\n- `a`: A\n  - `b`: B\n- no\n### two\n- `c`: C\n"));
    assert_eq!(map["one"], BTreeSet::from(["a".to_owned()]));
    assert_eq!(map["two"], BTreeSet::from(["c".to_owned()]));
}
