//! Imports have one style: a `use` for each module, first those of the standard library, then those of other crates,
//! then those of the own one.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use regex::Regex;
use weft_pages::files;

/// Reads imports that begin a line.
struct Reader(Regex);

impl Reader {
    fn new() -> Self {
        Self(Regex::new(r"(?m)^(?:pub(?:\([^)]*\))? )?use ([^;]+);").unwrap())
    }

    /// The lines of imports in another style.
    fn faults(&self, text: &str) -> Vec<(usize, &'static str)> {
        let mut faults = Vec::new();
        let mut before: Option<(usize, u8)> = None;
        for import in self.0.captures_iter(text) {
            let (whole, path) = (import.get(0).unwrap(), &import[1]);
            let line = files::line_of(text, whole.start());
            if path.matches('{').count() > 1 {
                faults.push((line, "braces in braces: one `use` for each module"));
            }
            let group = group(path);
            let follows = |end: usize| is_gap(&text[end..whole.start()]);
            if before.is_some_and(|(end, former)| former > group && follows(end)) {
                faults.push((line, "the standard library first, then other crates, then this one"));
            }
            before = Some((whole.end(), group));
        }
        faults
    }
}

/// 0 of the standard library, 2 of the own crate, 1 of another one.
fn group(path: &str) -> u8 {
    match path.split("::").next().unwrap_or_default() {
        "std" | "core" | "alloc" => 0,
        "crate" | "self" | "super" => 2,
        _ => 1,
    }
}

/// Whether a text between two imports has no other item.
fn is_gap(text: &str) -> bool {
    let is_none = |line: &str| line.is_empty() || line.starts_with("//") || line.starts_with("#[");
    text.lines().map(str::trim).all(is_none)
}

#[test]
fn imports_have_one_style() {
    let (reader, mut wrong, mut count) = (Reader::new(), Vec::new(), 0);
    for file in files::all().unwrap().iter().filter(|file| file.path.ends_with(".rs")) {
        if file.path.contains("/generated/") {
            continue;
        }
        count += 1;
        let faults = reader.faults(&file.text).into_iter();
        wrong.extend(faults.map(|(line, fault)| format!("{}:{line}: {fault}", file.path)));
    }
    assert!(count > 1000, "{count} sources: are they still found?");
    assert!(wrong.is_empty(), "{} imports:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn other_styles_are_found() {
    let reader = Reader::new();
    let good = "use std::fmt;\nuse std::io::{self, Write};\n\nuse bytes::Bytes;\n\nuse crate::a;\nuse super::b;\n\nmod c;\n\nuse std::mem;\n";
    assert_eq!(reader.faults(good), []);
    let bad = [
        "use std::{\n    fmt,\n    io::{self, Write},\n};\n",
        "use bytes::Bytes;\nuse std::fmt;\n",
        "use crate::a;\n\n#[cfg(test)]\nuse bytes::Bytes;\n",
        "pub use self::a::A;\npub(crate) use other::B;\n",
    ];
    for text in bad {
        assert_eq!(reader.faults(text).len(), 1, "{text}");
    }
}
