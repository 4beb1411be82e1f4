//! `docs/metrics.md` and the dashboards in `docs/grafana` agree with the tables in the code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use weft_metrics::names::{CONTROLLER, MetricKind, Named, ROUTER, USE};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs")
}

/// The rows of the table below a heading, cell by cell.
fn rows(text: &str, heading: &str) -> Vec<Vec<String>> {
    let begin = text.find(heading).unwrap_or_else(|| panic!("{heading} is missing"));
    let lines = text[begin..].lines().skip(1).skip_while(|line| !line.starts_with('|')).skip(2);
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    lines.take_while(|line| line.starts_with('|')).map(cells).collect()
}

fn expected(named: &Named) -> Vec<String> {
    let prometheus =
        named.exported().map_or("one for each operation".to_owned(), |name| format!("`{name}`"));
    let name = format!("`{}`", named.name);
    vec![name, named.kind.word().into(), named.unit.into(), prometheus, named.meaning.into()]
}

#[test]
fn the_page_lists_every_metric() {
    let text = std::fs::read_to_string(docs().join("metrics.md")).unwrap();
    for (heading, table) in [("## Routers", ROUTER), ("## Controllers", CONTROLLER)] {
        let found = rows(&text, heading);
        let wanted: Vec<Vec<String>> = table.iter().map(expected).collect();
        for row in &wanted {
            let line = format!("| {} |", row.join(" | "));
            assert!(found.contains(row), "{heading}: this line is missing:\n{line}");
        }
        assert_eq!(found, wanted, "{heading}: another order, or too much");
    }
    let wanted: Vec<Vec<String>> = USE
        .iter()
        .map(|one| {
            vec![format!("`{}`", one.exported()), one.labels.to_owned(), one.meaning.to_owned()]
        })
        .collect();
    assert_eq!(rows(&text, "## Services"), wanted);
}

/// Every name in Prometheus' text.
fn exported() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for named in ROUTER.iter().chain(CONTROLLER) {
        let Some(name) = named.exported() else { continue };
        if matches!(named.kind, MetricKind::Histogram | MetricKind::Timer) {
            all.extend([format!("{name}_count"), format!("{name}_bucket")]);
        } else {
            all.insert(name);
        }
    }
    all.extend(USE.iter().map(|one| one.exported()));
    all
}

/// The texts of all members of this name, however deep.
fn members<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if key == name {
                    found.extend(value.as_str());
                }
                members(value, name, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| members(item, name, found)),
        _ => {}
    }
}

#[test]
fn dashboards_name_only_metrics_that_exist() {
    let known = exported();
    let mut dashboards = 0;
    for entry in std::fs::read_dir(docs().join("grafana")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        let mut asked = Vec::new();
        members(&dashboard, "expr", &mut asked);
        members(&dashboard, "query", &mut asked);
        let is_word = |one: char| one.is_ascii_alphanumeric() || one == '_';
        let words = asked.iter().flat_map(|text| text.split(|one| !is_word(one)));
        let named: BTreeSet<&str> = words.filter(|word| word.starts_with("ziti_")).collect();
        assert!(named.len() > 10, "{}: {named:?}", path.display());
        for name in named {
            assert!(known.contains(name), "{}: there is no metric {name}", path.display());
        }
        dashboards += 1;
    }
    assert!(dashboards > 0);
}
