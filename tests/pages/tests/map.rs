//! The map of the modules in ARCHITECTURE.md has every module, and no other.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use weft_pages::files::{self, root};

const HEADING: &str = "## Map of the modules";

/// The modules of each crate, as paths from its root: `domain/resources/service`.
type Modules = BTreeMap<String, BTreeSet<String>>;

/// The modules in the map of a document. The module of an indented line is within that of the line
/// above it, and so are the names in parentheses at the end of a line.
fn mapped(document: &str) -> Modules {
    let map = document.split_once(HEADING).unwrap().1;
    let entry = Regex::new(r"(?m)^( *)- `([a-z0-9_]+)`: (\S.*(?:\n +[^ -].*)*)").unwrap();
    let inner = Regex::new(r"\(((?:`[a-z0-9_]+`(?:,\s+)?)+)\)$").unwrap();
    let name = Regex::new(r"`([a-z0-9_]+)`").unwrap();
    let mut crates = Modules::new();
    for section in map.split("\n### ").skip(1) {
        let (of, lines) = section.split_once('\n').unwrap();
        let modules = crates.entry(of.to_owned()).or_default();
        let mut within: Vec<String> = Vec::new();
        for found in entry.captures_iter(lines) {
            within.truncate(found[1].len() / 2);
            within.push(found[2].to_owned());
            let module = within.join("/");
            let names = inner.captures(found[3].trim_end()).map(|it| it[1].to_owned());
            let names = names.unwrap_or_default();
            modules.extend(name.captures_iter(&names).map(|it| format!("{module}/{}", &it[1])));
            modules.insert(module);
        }
    }
    crates
}

/// The modules that have a file, without tests.
fn found() -> Modules {
    let file = Regex::new(r"^crates/([a-z0-9-]+)/src/(.+?)(?:/mod)?\.rs$").unwrap();
    let is_tests = |module: &str| module == "tests" || module.ends_with("_tests");
    let mut crates = Modules::new();
    for one in files::all().unwrap() {
        let Some(found) = file.captures(&one.path) else { continue };
        let modules = crates.entry(found[1].to_owned()).or_default();
        if !["lib", "main"].contains(&&found[2]) && !found[2].split('/').any(is_tests) {
            modules.insert(found[2].to_owned());
        }
    }
    crates
}

#[test]
fn the_map_has_every_module_and_no_other() {
    let document = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (mapped, found) = (mapped(&document), found());
    let count: usize = found.values().map(BTreeSet::len).sum();
    assert!(count > 1000, "{count} modules: are they still found?");
    let mut wrong = Vec::new();
    for one in mapped.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
        let none = BTreeSet::new();
        let (map, files) = (mapped.get(one).unwrap_or(&none), found.get(one).unwrap_or(&none));
        let missing = files.difference(map).map(|it| format!("{one}: `{it}` is not in the map"));
        wrong.extend(missing);
        wrong.extend(map.difference(files).map(|it| format!("{one}: there is no module `{it}`")));
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
fn modules_are_told_by_their_lines_and_by_names_in_parentheses() {
    let lines = "- `a`: A, read as\n  `x` (`y`, and `z`)\n  - `b`: B (`c`,\n    `d`)\n    - `e`: E\n- no\n- `f`: F (`X`)";
    let map = mapped(&format!("{HEADING}\n### one\n{lines}\n\n### two\n- `g`: G (`h`)\n"));
    let modules = |of: &str| map[of].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(modules("one"), ["a", "a/b", "a/b/c", "a/b/d", "a/b/e", "f"]);
    assert_eq!(modules("two"), ["g", "g/h"]);
}
