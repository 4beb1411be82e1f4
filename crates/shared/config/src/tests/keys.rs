//! Every key of a router's file has an effect, keeps its bounds, and is on the page for operators.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::none;
use crate::keys::WHOLE;
use crate::yaml::{self, MapEntry, Node, SourceLocation, YamlValue};
use crate::{Examined, KeyFact, KeyRow, RouterConfig, file, router_keys};

fn examine(root: Node) -> Examined<RouterConfig> {
    let (path, tree) = (Path::new("dir/r1.yml"), yaml::YamlTree { root, twice: Vec::new() });
    let read = |root: &crate::section::Section<'_>| RouterConfig::read(root, path);
    file::examine_tree(tree, "", path, &none, file::Kind::Router, read)
}

fn whole() -> Node {
    yaml::parse(WHOLE).unwrap().root
}

fn node(value: YamlValue) -> Node {
    Node {
        location: SourceLocation { line: 1, column: 1, length: 1 },
        value,
        variables: Vec::new(),
    }
}

/// Puts a value at a path, with all sections above it.
fn put(root: &mut Node, path: &str, value: YamlValue) {
    let mut here = root;
    for segment in path.replace('[', ".[").split('.') {
        if here.value == YamlValue::Null {
            here.value = YamlValue::Map(Vec::new());
        }
        here = match (&mut here.value, segment.strip_prefix('[')) {
            (YamlValue::List(items), Some(index)) => {
                let index: usize = index.trim_end_matches(']').parse().unwrap();
                &mut items[index]
            }
            (YamlValue::Map(entries), None) => {
                if !entries.iter().any(|entry| entry.key == segment) {
                    let (key, node) = (segment.to_owned(), node(YamlValue::Null));
                    entries.push(MapEntry { key, location: node.location, node });
                }
                &mut entries.iter_mut().find(|entry| entry.key == segment).unwrap().node
            }
            other => panic!("{path}: {other:?}"),
        };
    }
    here.value = value;
}

/// The bounds of a range `low..high`.
fn ends(allowed: &str) -> Option<(&str, &str)> {
    let range = allowed.split([',', ' ']).next()?;
    range.split_once("..").filter(|(low, high)| !low.is_empty() && !high.is_empty())
}

/// Values that differ from the default.
fn others(fact: &KeyFact) -> Vec<YamlValue> {
    let text = |text: &str| YamlValue::text(text);
    let bounds = ends(&fact.allowed);
    match fact.kind {
        "integer" => match bounds {
            Some((low, high)) => {
                vec![YamlValue::Int(low.parse().unwrap()), YamlValue::Int(high.parse().unwrap())]
            }
            None => vec![YamlValue::Int(77)],
        },
        "number" => {
            let (low, high) = bounds.unwrap();
            vec![YamlValue::Float(low.parse().unwrap()), YamlValue::Float(high.parse().unwrap())]
        }
        "boolean" => vec![YamlValue::Bool(fact.default != "true")],
        "duration" => match bounds {
            Some((low, high)) => vec![text(low), text(high)],
            None => vec![text("7s"), text("123h")],
        },
        "word" => {
            fact.allowed.split(", ").filter(|word| **word != fact.default).map(text).collect()
        }
        "address" | "address or host:port" => vec![text("tls:elsewhere:77")],
        "host:port" => vec![text("elsewhere:77")],
        "CIDR" => vec![text("10.1.0.0/16")],
        "list of strings" | "list of addresses" => vec![YamlValue::List(vec![node(text("xyzzy"))])],
        _ => vec![text("xyzzy")],
    }
}

/// Values to try for keys that do not take any string, or whose value the configuration does not
/// show.
fn special(key: &str) -> Option<Vec<YamlValue>> {
    let list = |one: &str| vec![YamlValue::List(vec![node(YamlValue::text(one))])];
    Some(match key {
        // There is one version, and this transport is not offered.
        "v" => Vec::new(),
        _ if key.starts_with("transport.westworld3") => Vec::new(),
        // These keys apply only where the other one is missing; see the test of the section.
        "ctrl.endpoints" => Vec::new(),
        // These keys have the meaning of another key that is there, with another value.
        "listeners[].bind" | "listeners[].advertise" | "link.dialers[].bindInterface" => Vec::new(),
        // Another value would name a listener, a dialer or a proxy that is not there.
        "listeners[].binding"
        | "dialers[].binding"
        | "link.listeners[].binding"
        | "link.dialers[].binding"
        | "web[].apis[].binding"
        | "proxy.type" => Vec::new(),
        // These keys have no effect while another key for the same purpose is there.
        "web[].bindPoints[].identity.env" | "proxy.password" => Vec::new(),
        "ctrl.rateLimiter.decreaseFactor" => vec![YamlValue::Float(0.5)],
        "csr.sans.ip" => list("10.1.2.3"),
        "listeners[].options.resolver" | "listeners[].options.dnsUpstream" => {
            list("udp://127.0.0.2:53")
        }
        "listeners[].options.services" => Vec::new(),
        "listeners[].options.mode" => vec![YamlValue::text("host"), YamlValue::text("tproxy:/x")],
        // One of these addresses is of the type that the binding takes.
        "listeners[].address" => {
            vec![YamlValue::text("tls:elsewhere:77"), YamlValue::text("udp:elsewhere:77")]
        }
        // Versions that are not supported, or below the other bound.
        "web[].options.minTLSVersion" => vec![YamlValue::text("TLS1.3")],
        "web[].options.maxTLSVersion" => vec![YamlValue::text("TLS1.2")],
        "web[].options.allowedOrigins" => list("https://a.example"),
        _ => return None,
    })
}

#[test]
fn every_key_moves_the_configuration() {
    let silent = examine(whole());
    assert_eq!(silent.problems, []);
    let before = format!("{:?}", silent.config);
    for fact in silent.facts.all().iter().filter(|fact| fact.kind != "ignored") {
        let values = special(&fact.general_key()).unwrap_or_else(|| others(fact));
        let mut moved = values.is_empty();
        for value in values {
            let mut root = whole();
            put(&mut root, &fact.key, value.clone());
            let said = examine(root);
            // Pairs of keys have bounds among themselves: a lowest above a highest, a binding's
            // type of address.
            let among =
                [" is larger than max", "than txPortalM", "type of the address", "listener speaks"];
            let pair = said
                .problems
                .iter()
                .any(|one| among.iter().any(|bound| one.message.contains(bound)));
            assert!(
                said.problems.is_empty() || pair,
                "{} = {value:?}: {:?}",
                fact.key,
                said.problems
            );
            moved |= format!("{:?}", said.config) != before;
        }
        assert!(moved, "{}: no value of it changes anything", fact.key);
    }
}

#[test]
fn beyond_its_bounds_no_key_is_taken() {
    let silent = examine(whole());
    for fact in silent.facts.all() {
        let Some((low, high)) = ends(&fact.allowed) else { continue };
        let beyond: Vec<YamlValue> = match fact.kind {
            "integer" => {
                let (low, high): (i64, i64) = (low.parse().unwrap(), high.parse().unwrap());
                vec![YamlValue::Int(low - 1), YamlValue::Int(high + 1)]
            }
            "number" => {
                let (low, high): (f64, f64) = (low.parse().unwrap(), high.parse().unwrap());
                vec![YamlValue::Float(low - 0.5), YamlValue::Float(high + 0.5)]
            }
            "duration" => {
                let parse = |text| crate::parse_duration(text).unwrap().length;
                let less = parse(low) - std::time::Duration::from_nanos(1);
                let more = parse(high) + std::time::Duration::from_nanos(1);
                [less, more].map(|one| YamlValue::text(crate::show_duration(one))).into()
            }
            other => panic!("{}: {other} has bounds", fact.key),
        };
        for value in beyond {
            let mut root = whole();
            put(&mut root, &fact.key, value.clone());
            let said = examine(root);
            let about = said.problems.iter().chain(&said.warnings).any(|one| one.key == fact.key);
            assert!(about, "{} = {value:?} is taken without a word", fact.key);
            assert!(said.problems.iter().all(|one| one.line > 0), "{}", fact.key);
        }
    }
}

#[test]
fn what_is_of_the_wrong_sort_is_refused_with_its_place() {
    let silent = examine(whole());
    let mut taken = Vec::new();
    for fact in silent.facts.all() {
        let value = match fact.kind {
            "integer" | "number" => YamlValue::text("many"),
            "duration" => YamlValue::text("5 parsecs"),
            "boolean" => YamlValue::List(Vec::new()),
            "address" | "host:port" | "address or host:port" => YamlValue::text("nowhere"),
            "ignored" => continue,
            _ => YamlValue::Map(Vec::new()),
        };
        let mut root = whole();
        put(&mut root, &fact.key, value.clone());
        let said = examine(root);
        let refused = said.problems.iter().filter(|one| one.key.starts_with(&fact.key));
        if refused.clone().count() == 0 {
            taken.push(format!("{} = {value:?}: {:?}", fact.key, said.problems));
        }
        assert!(refused.clone().all(|one| one.line > 0), "{}: {:?}", fact.key, said.problems);
    }
    assert!(taken.is_empty(), "{taken:#?}");
}

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/router-config.md");
    fs::read_to_string(path).unwrap()
}

/// The cells of the rows of keys.
fn rows(page: &str) -> Vec<Vec<String>> {
    let is_row = |line: &&str| line.starts_with("| `");
    let cells = |line: &str| -> Vec<String> {
        let inner = line.trim().trim_matches('|');
        inner.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    page.lines().filter(is_row).map(cells).collect()
}

#[test]
fn the_page_has_every_key_as_the_code_has_it() {
    let shown: BTreeSet<String> =
        rows(&page()).iter().map(|cells| cells[..5].join(" | ")).collect();
    let row = |row: &KeyRow| row.cells().join(" | ");
    let known: BTreeSet<String> = router_keys().iter().map(row).collect();
    let missing: Vec<_> = known.difference(&shown).collect();
    let surplus: Vec<_> = shown.difference(&known).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "docs/router-config.md differs from the code; the example `router_keys` prints its tables \
         anew.\nmissing:\n{missing:#?}\nnot in the code:\n{surplus:#?}"
    );
}

fn sources(folder: &Path, out: &mut String) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path: PathBuf = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|end| end == "rs") {
            out.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_test_that_the_page_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut all = String::new();
    sources(&root.join("crates"), &mut all);
    sources(&root.join("tests"), &mut all);
    for cells in rows(&page()) {
        let (key, named) = (&cells[0], &cells[5]);
        assert!(!named.is_empty(), "{key} names neither a test nor a reason");
        for name in named.split('`').skip(1).step_by(2) {
            let tests = [format!("fn {name}("), format!("mod {name};")];
            assert!(tests.iter().any(|one| all.contains(one)), "{key}: there is no test {name}");
        }
    }
}
