//! ARCHITECTURE.md is short, and it and the pages in `docs/design` say of the code what is there: crates with their rooms
//! and floors, files, modules. The head of each module takes the place of a list of modules.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use weft_pages::files::{self, File, root};

const PAGE: &str = "ARCHITECTURE.md";
/// Pages in more depth.
const DESIGN: &str = "docs/design/";
/// The beginning of the sentence that tells readers what a page is good for.
const PROMISE: &str = "At the end of this page you know";
/// Most bytes of the page: a stranger reads it in twenty minutes.
const MOST_BYTES: usize = 25_000;
/// Fewest characters of the first paragraph in the head of a module.
const FEWEST: usize = 22;

/// The rooms that the crates of a room may use beside their own.
const ARROWS: [(&str, &[&str]); 6] = [
    ("shared", &[]),
    ("data path", &["shared"]),
    ("controller", &["shared"]),
    ("router", &["shared", "data path"]),
    ("client", &["shared", "data path"]),
    ("program", &["shared", "data path", "controller", "router", "client"]),
];

/// The place of a crate in the house.
#[derive(Debug, PartialEq, Eq)]
struct CratePosition {
    room: String,
    floor: u8,
}

fn page() -> String {
    std::fs::read_to_string(root().join(PAGE)).unwrap()
}

/// The page and those in more depth.
fn pages(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| {
        file.path == PAGE || file.path.starts_with(DESIGN) && file.path.ends_with(".md")
    })
}

/// The crates in the table of a page: rows of a floor and a crate, below rows that name a room.
fn places(page: &str) -> BTreeMap<String, CratePosition> {
    let row = Regex::new(r"(?m)^\|(?: \| \*\*([a-z ]+)\*\*| ([0-9]) \| `([a-z0-9-]+)`)").unwrap();
    let (mut found, mut room) = (BTreeMap::new(), String::new());
    for it in row.captures_iter(page) {
        match it.get(1) {
            Some(name) => room = name.as_str().to_owned(),
            None => {
                let place = CratePosition { room: room.clone(), floor: it[2].parse().unwrap() };
                found.insert(it[3].to_owned(), place);
            }
        }
    }
    found
}

/// The crates of the workspace that a manifest names as dependencies of the program.
fn dependencies(manifest: &str) -> Vec<&str> {
    let section = manifest.split("\n[").find_map(|part| part.strip_prefix("dependencies]\n"));
    let lines = section.unwrap_or_default().lines();
    lines.filter_map(|line| line.strip_prefix("weft-")?.split(['.', ' ', '=']).next()).collect()
}

/// The dependencies that lead upwards, or into a room to which no arrow leads.
fn misplaced(
    places: &BTreeMap<String, CratePosition>,
    manifests: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, manifest) in manifests {
        let Some(own) = places.get(name) else {
            wrong.push(format!("{name} has no row"));
            continue;
        };
        let arrows = ARROWS.iter().find(|(room, _)| *room == own.room);
        let Some((_, arrows)) = arrows else {
            wrong.push(format!("{name}: there is no room `{}`", own.room));
            continue;
        };
        for used in dependencies(manifest) {
            let is_fine = places.get(used).is_some_and(|other| {
                let is_open = other.room == own.room || arrows.contains(&other.room.as_str());
                other.floor < own.floor && is_open
            });
            if !is_fine {
                wrong.push(format!("{name} {own:?} uses {used} {:?}", places.get(used)));
            }
        }
    }
    let gone = places.keys().filter(|name| !manifests.contains_key(*name));
    wrong.extend(gone.map(|name| format!("there is no crate `{name}`")));
    wrong
}

/// The modules of each crate, as paths from its root: `domain/resources/service`, with their sources.
fn modules(files: &[File]) -> BTreeMap<(String, String), &str> {
    let file = Regex::new(r"^crates/(?:[a-z]+/)?([a-z0-9-]+)/src/(.+?)(?:/mod)?\.rs$").unwrap();
    let is_tests = |module: &str| module == "tests" || module.ends_with("_tests");
    let mut found = BTreeMap::new();
    for one in files {
        let Some(at) = file.captures(&one.path) else { continue };
        if !at[2].split('/').any(is_tests) {
            found.insert((at[1].to_owned(), at[2].to_owned()), one.text.as_str());
        }
    }
    found
}

/// The first paragraph of the head of a file.
fn head(text: &str) -> String {
    let lines = text.lines().skip_while(|line| line.is_empty() || line.starts_with("#!["));
    let lines = lines.map_while(|line| line.strip_prefix("//!")).map(str::trim);
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Whether a head says what its module is for.
fn has_substance(head: &str) -> bool {
    let is_sentence = head.ends_with(['.', ':', '?', '`']);
    is_sentence && head.chars().count() >= FEWEST && head.split(' ').count() > 2
}

/// The names in a page that are not in the code, such as `router::link::registry`: a crate, modules, and perhaps an item
/// of the crate.
fn unknown<'p>(page: &'p str, modules: &BTreeMap<(String, String), &str>) -> Vec<&'p str> {
    let name = Regex::new(r"`([a-z0-9_]+(?:::[A-Za-z0-9_]+)+)").unwrap();
    let named = name.captures_iter(page).filter_map(|it| it.get(1)).map(|it| it.as_str());
    named.filter(|named| !is_known(named, modules)).collect()
}

fn is_known(named: &str, modules: &BTreeMap<(String, String), &str>) -> bool {
    let mut parts: Vec<&str> = named.split("::").collect();
    let root = parts.remove(0).replace('_', "-");
    let own = || modules.iter().filter(|((of, _), _)| *of == root);
    let is_module = |parts: &[&str]| {
        let path = parts.join("/");
        own().any(|((_, module), _)| {
            module.strip_suffix(&path).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        })
    };
    let is_item = |name: &str| {
        let words = "fn|struct|enum|union|trait|type|const|static|mod|macro_rules!";
        let item = Regex::new(&format!(r"\b(?:{words}) {name}\b")).unwrap();
        own().any(|(_, text)| item.is_match(text))
    };
    if own().next().is_none() {
        // Another library.
        return true;
    }
    let is_name = |part: &&str| part.starts_with(char::is_lowercase);
    let lower = parts.iter().take_while(|part| is_name(part)).count();
    let (lower, types) = parts.split_at(lower);
    let is_path = match lower {
        [] => true,
        [outer @ .., last] => {
            is_module(lower) || is_item(last) && (outer.is_empty() || is_module(outer))
        }
    };
    is_path && types.first().is_none_or(|name| is_item(name))
}

#[test]
fn the_architecture_is_read_in_twenty_minutes() {
    let bytes = page().len();
    assert!(bytes <= MOST_BYTES, "{PAGE} has {bytes} bytes: move details to {DESIGN}");
}

#[test]
fn each_crate_has_its_room_and_uses_only_what_lies_below() {
    let files = files::all().unwrap();
    let manifest = Regex::new(r"^crates/(?:[a-z]+/)?([a-z0-9-]+)/Cargo\.toml$").unwrap();
    let manifests: BTreeMap<String, String> = files
        .iter()
        .filter_map(|file| Some((manifest.captures(&file.path)?[1].to_owned(), file.text.clone())))
        .collect();
    assert!(manifests.len() > 25, "{} crates: are they still found?", manifests.len());
    let wrong = misplaced(&places(&page()), &manifests);
    assert!(wrong.is_empty(), "\nthe rooms in {PAGE}:\n{}", wrong.join("\n"));
}

#[test]
fn the_head_of_each_module_says_what_the_module_is_for() {
    let files = files::all().unwrap();
    let modules = modules(&files);
    assert!(modules.len() > 1000, "{} modules: are they still found?", modules.len());
    let heads = modules.iter().map(|(name, text)| (name, head(text)));
    let wrong: Vec<String> = heads
        .filter(|(_, head)| !has_substance(head))
        .map(|((of, module), head)| format!("{of}/{module}: {head:?}"))
        .collect();
    assert!(wrong.is_empty(), "heads that do not say what a module is for:\n{}", wrong.join("\n"));
}

#[test]
fn files_that_the_pages_name_exist() {
    let files = files::all().unwrap();
    let path = Regex::new(r"`((?:crates|tests)/[a-z0-9_/-]+\.rs)`").unwrap();
    let lists = files.iter().filter(|file| file.path == "CONTRIBUTING.md");
    let named: BTreeSet<String> = pages(&files)
        .chain(lists)
        .flat_map(|page| path.captures_iter(&page.text).map(|it| it[1].to_owned()))
        .collect();
    assert!(named.len() > 20, "{} files: are they still found?", named.len());
    let gone: Vec<_> = named.into_iter().filter(|it| !root().join(it).exists()).collect();
    assert!(gone.is_empty(), "\n{}", gone.join("\n"));
}

#[test]
fn modules_that_the_pages_name_exist() {
    let files = files::all().unwrap();
    let modules = modules(&files);
    let mut gone = Vec::new();
    let words = files.iter().filter(|file| file.path == "docs/glossary.md");
    for page in pages(&files).chain(words) {
        let unknown = unknown(&page.text, &modules).into_iter();
        gone.extend(unknown.map(|name| format!("{}: there is no module {name}", page.path)));
    }
    assert!(gone.is_empty(), "\n{}", gone.join("\n"));
}

#[test]
fn each_page_of_the_design_says_what_its_reader_will_know_and_is_listed() {
    let files = files::all().unwrap();
    let list = files.iter().find(|file| file.path == "docs/README.md").unwrap();
    let mut wrong = Vec::new();
    for page in pages(&files) {
        let begin = page.text.split("\n## ").next().unwrap_or_default();
        if !begin.split_whitespace().collect::<Vec<_>>().join(" ").contains(PROMISE) {
            wrong.push(format!("{}: its beginning lacks \"{PROMISE} ...\"", page.path));
        }
    }
    let listed = |path: &str| list.text.contains(&format!("]({path})"));
    let documents = files.iter().filter_map(|file| file.path.strip_prefix("docs/"));
    let documents = documents.filter(|path| path.ends_with(".md") && *path != "README.md");
    let of_protocols = |path: &&str| path.starts_with("protocol/") && *path != "protocol/README.md";
    let missing = documents.filter(|path| !of_protocols(path) && !listed(path));
    wrong.extend(missing.map(|path| format!("docs/README.md does not list {path}")));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn faults_of_rooms_heads_and_names_are_found() {
    let page = "| | **shared** | |\n| 1 | `low` | x |\n| 2 | `high` | x |\n| | **router** | |\n| 4 | `own` | x |\n";
    let places = places(page);
    assert_eq!(places["own"], CratePosition { room: "router".to_owned(), floor: 4 });
    let manifests = |low: &str, high: &str, own: &str| {
        let of =
            |used: &str| format!("[package]\nname = \"x\"\n\n[dependencies]\n{used}\nregex = 1\n");
        let all = [("low", low), ("high", high), ("own", own)];
        all.map(|(name, used)| (name.to_owned(), of(used))).into_iter().collect()
    };
    let high = "weft-low.workspace = true";
    assert!(misplaced(&places, &manifests("", high, "weft-high = { a = 1 }")).is_empty());
    assert_eq!(misplaced(&places, &manifests("weft-high.workspace = true", "", "")).len(), 1);
    assert_eq!(misplaced(&places, &manifests("", "weft-own.workspace = true", "")).len(), 1);
    let more = manifests("", high, "").into_iter().chain([("new".to_owned(), String::new())]);
    assert_eq!(misplaced(&places, &more.collect()), ["new has no row"]);

    assert_eq!(head("\n#![x]\n//! One\n//! two.\n//!\n//! More.\n"), "One two.");
    assert!(has_substance("The queue of one circuit."));
    assert!(!has_substance("Queues of circuits, and other things"));
    assert!(!has_substance("The answers."));
    assert!(!has_substance(&head("use x;\n//! Too late.")));

    let source = "pub fn due() {}\npub struct Link;";
    let modules = [("router", "link/registry"), ("unsafe-x", "a")]
        .map(|(of, module)| ((of.to_owned(), module.to_owned()), source));
    let modules = BTreeMap::from(modules);
    let known = "`router::link::registry::Link` `router::registry::due` `router::due` `router::Link` \
                 `unsafe_x::a` `rustls::kernel`";
    assert!(unknown(known, &modules).is_empty());
    let gone = "`router::gone::due` `router::gone` `router::Gone` `router::registry::Gone`";
    assert_eq!(unknown(gone, &modules).len(), 4);
}
