//! `docs/limits.md` has a row for each bound on what a peer can fill, with the figure of the code.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use weft_pages::files;

const PAGE: &str = "docs/limits.md";

/// The crates whose bounds all have a row.
const COMPLETE: [&str; 5] = ["network", "control", "router", "api", "limits"];

/// Constants with the name of a bound that bound nothing which a peer fills.
const OTHERS: [(&str, &str); 14] = [
    ("network/inspect/values.rs MAX_TERMINATORS", "the length of an answer"),
    ("network/metrics.rs MAX_TEXT", "the length of an answer"),
    ("network/reported.rs MAX_RATE", "a value that is not shown"),
    ("network/used.rs MOST_IN_A_MINUTE", "a value that is not believed"),
    ("control/dialer.rs MAX_SHOWN", "a text in the log"),
    ("control/news.rs MAX_PART", "the length of a message of the controller's own"),
    ("router/access/file.rs MAX_STATE", "a file of the router's own"),
    ("router/bindings/edge/nudge.rs MAX_NUDGES", "messages of the router's own"),
    ("router/bindings/tunnel/takes.rs MAX_NAME", "a name of this machine"),
    ("router/control/connect.rs MOST", "lines of the log about this router's own dials"),
    ("router/control/terminators.rs MAX_FAILURES", "tries of the router's own"),
    ("router/control/terminators/telling.rs MAX_REFUSALS", "tries of the router's own"),
    ("router/link/machine/links.rs MAX_REJECTED", "tries of the router's own"),
    ("router/web.rs MAX_TEXT", "the length of an answer"),
];

/// The sources without their tests, by crate and path: `network/circuits.rs`.
fn sources() -> BTreeMap<String, String> {
    let path = Regex::new(r"^crates/(?:[a-z]+/)?([a-z0-9-]+)/src/(.+\.rs)$").unwrap();
    let is_tests = |path: &str| path.split(['/', '.']).any(|part| part == "tests");
    let mut found = BTreeMap::new();
    for file in files::all().unwrap() {
        let Some(at) = path.captures(&file.path).filter(|at| !is_tests(&at[2])) else { continue };
        let code = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        found.insert(format!("{}/{}", &at[1], &at[2]), code.to_owned());
    }
    found
}

/// A row: the figure of its bound, the metrics that it names, and its place in the code.
#[derive(Debug, PartialEq)]
struct Row {
    figure: Option<u64>,
    metrics: Vec<String>,
    place: String,
}

fn rows(page: &str) -> Vec<Row> {
    let row = Regex::new(r"(?m)^\|(?:[^|\n]*\|){2}([^|\n]*)\|[^|\n]*\|([^|\n]*)\| `([^`\n]+)` \|$");
    let found = row.unwrap();
    let found = found.captures_iter(page).map(|row| Row {
        figure: figure(&row[1]),
        metrics: row[2].split('`').skip(1).step_by(2).map(str::to_owned).collect(),
        place: row[3].to_owned(),
    });
    found.collect()
}

/// The first number of a text, with its unit.
fn figure(text: &str) -> Option<u64> {
    let number = Regex::new(r"([0-9][0-9,]*)(?: (KiB|MiB|GiB))?").unwrap();
    let found = number.captures(text)?;
    let unit = match found.get(2).map(|unit| unit.as_str()) {
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some("GiB") => 1 << 30,
        _ => 1,
    };
    Some(found[1].replace(',', "").parse::<u64>().ok()? * unit)
}

/// The value of a constant, of a field of a default, or of a key with a default, in a source.
fn value(source: &str, name: &str) -> Option<u64> {
    let constant = Regex::new(&format!(r"\bconst {name}: \w+ =\s*([^;]+);")).unwrap();
    if let Some(found) = constant.captures(source) {
        let tokens = Regex::new(r"\w+|<<|[()*/+]").unwrap();
        let tokens: Vec<&str> = tokens.find_iter(&found[1]).map(|token| token.as_str()).collect();
        let mut sum = Sum { source, tokens: &tokens };
        return sum.of(LOOSEST).filter(|_| sum.tokens.is_empty());
    }
    let default = format!(r#"(?:\b{name}: |"{name}", )([0-9][0-9_]*(?: \* [0-9][0-9_]*)*)"#);
    let found = Regex::new(&default).unwrap().captures(source)?;
    found[1].split(" * ").map(|factor| factor.replace('_', "").parse::<u64>().ok()).product()
}

/// How tightly the operators bind; numbers bind tightest.
const LOOSEST: usize = 0;
const OPERATORS: [&[&str]; 3] = [&["<<"], &["+"], &["*", "/"]];

/// An expression of integers and constants.
struct Sum<'s> {
    source: &'s str,
    tokens: &'s [&'s str],
}

impl Sum<'_> {
    fn next(&mut self) -> Option<&str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn of(&mut self, level: usize) -> Option<u64> {
        let Some(operators) = OPERATORS.get(level) else { return self.number() };
        let mut value = self.of(level + 1)?;
        while let Some(operator) = self.tokens.first().copied().filter(|it| operators.contains(it))
        {
            self.next();
            let other = self.of(level + 1)?;
            value = match operator {
                "<<" => value << other,
                "+" => value + other,
                "*" => value * other,
                _ => value / other,
            };
        }
        Some(value)
    }

    fn number(&mut self) -> Option<u64> {
        let source = self.source;
        match self.next()? {
            "(" => {
                let value = self.of(LOOSEST)?;
                self.next().filter(|end| *end == ")").map(|_| value)
            }
            word => word.replace('_', "").parse().ok().or_else(|| value(source, word)),
        }
    }
}

/// What is wrong with the rows of a page.
fn faults(page: &str, sources: &BTreeMap<String, String>, metrics: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for row in rows(page) {
        let (file, name) = row.place.split_once(' ').unwrap_or((&row.place, ""));
        let value = sources.get(file).and_then(|source| value(source, name));
        if value.is_none() || value != row.figure {
            found
                .push(format!("{}: the page says {:?}, the code {value:?}", row.place, row.figure));
        }
        let names = row.metrics.iter().filter(|name| !name.starts_with("weft inspect "));
        let unknown = names.filter(|name| !metrics.contains(&format!("\"{name}\"")));
        found.extend(unknown.map(|name| format!("{}: no metric {name}", row.place)));
        if !seen.insert(row.place.clone()) {
            found.push(format!("{}: two rows", row.place));
        }
    }
    found
}

/// The bounds of sources, as a page names them.
fn bounds(sources: &BTreeMap<String, String>) -> BTreeSet<String> {
    let bound = Regex::new(r"\bconst ((?:MAX|MOST)\w*): (?:usize|u\d+|i\d+|f64) =").unwrap();
    let complete = |file: &str| COMPLETE.iter().any(|name| file.split('/').next() == Some(name));
    let all = sources.iter().filter(|(file, _)| complete(file));
    all.flat_map(|(file, source)| {
        bound.captures_iter(source).map(move |found| format!("{file} {}", &found[1]))
    })
    .collect()
}

fn page() -> String {
    std::fs::read_to_string(files::root().join(PAGE)).unwrap()
}

#[test]
fn every_row_has_the_figure_of_the_code() {
    let sources = sources();
    let page = page();
    assert!(rows(&page).len() > 100, "are the rows still found?");
    let faults = faults(&page, &sources, &sources["metrics/names.rs"]);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_bound_of_the_code_has_a_row() {
    let (page, bounds) = (page(), bounds(&sources()));
    assert!(bounds.len() > 80, "{} bounds: are they still found?", bounds.len());
    let rows: BTreeSet<String> = rows(&page).into_iter().map(|row| row.place).collect();
    let others: BTreeSet<String> = OTHERS.iter().map(|(place, _)| (*place).to_owned()).collect();
    let missing: Vec<&String> =
        bounds.iter().filter(|place| !rows.contains(*place) && !others.contains(*place)).collect();
    assert!(missing.is_empty(), "{PAGE} lacks {missing:#?}");
    let gone: Vec<&String> = others.iter().filter(|place| !bounds.contains(*place)).collect();
    assert!(gone.is_empty(), "no longer in the code: {gone:#?}");
}

#[test]
fn another_figure_and_a_bound_without_a_row_are_found() {
    let source = "const MOST: usize = 2 * (LEFT + 1);\nconst LEFT: usize = 1 << 3;\n\
                  const MAX_BYTES: u64 = 64 * 1_024;\nlimits { fields: 4 * 1024, }\ncount(\"key\", 7, 9)";
    for (name, expected) in
        [("MOST", Some(18)), ("MAX_BYTES", Some(65_536)), ("fields", Some(4096)), ("key", Some(7))]
    {
        assert_eq!(value(source, name), expected, "{name}");
    }
    assert_eq!(value(source, "NONE"), None);
    let sources = BTreeMap::from([("api/x.rs".to_owned(), source.to_owned())]);
    let page = "| a | b | 64 KiB | d | `m` | `api/x.rs MAX_BYTES` |\n\
                | a | b | 17 ways | d | `other` | `api/x.rs MOST` |\n";
    assert_eq!(
        faults(page, &sources, "\"m\""),
        [
            "api/x.rs MOST: the page says Some(17), the code Some(18)",
            "api/x.rs MOST: no metric other"
        ]
    );
    assert_eq!(bounds(&sources).len(), 2);
}
