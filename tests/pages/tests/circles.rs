//! Files of a crate do not use each other in circles.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::BTreeMap;

use weft_pages::circle::Crate;
use weft_pages::files::{self, File};
use weft_pages::source::Reader;

/// Most files of a circle: two files may use each other.
const MOST_FILES: usize = 2;

/// Circles of a crate `x` of these files.
fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let files: Vec<File> = files
        .iter()
        .map(|(path, text)| File { path: format!("x/src/{path}"), text: (*text).to_owned() })
        .collect();
    let by_path = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let read = Crate::read(&Reader::new().unwrap(), &by_path, "x/src/lib.rs");
    assert_eq!(read.len(), files.iter().filter(|file| !file.path.contains("test")).count());
    let found = read.circles(1).unwrap();
    found.into_iter().map(|circle| circle.0.into_keys().collect()).collect()
}

#[test]
fn no_circle_has_more_than_two_files() {
    let (reader, files) = (Reader::new().unwrap(), files::all().unwrap());
    let by_path: BTreeMap<&str, &File> =
        files.iter().map(|file| (file.path.as_str(), file)).collect();
    let is_root = |path: &str| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    let roots = by_path.keys().filter(|path| is_root(path));
    let (mut count, mut wrong) = (0, Vec::new());
    for root in roots {
        let read = Crate::read(&reader, &by_path, root);
        count += read.len();
        let found = read.circles(MOST_FILES).unwrap();
        wrong.extend(found.iter().map(|circle| circle.to_string()));
    }
    assert!(count > 800, "{count} files: are they still found?");
    assert!(
        wrong.is_empty(),
        "circles of more than {MOST_FILES} files: move what ties the files to where it belongs\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_file_uses_the_file_that_defines_what_it_names() {
    let lib = "mod a; mod b; pub use b::{Made, self as again};";
    let both = [vec!["x/src/a.rs".to_owned(), "x/src/b.rs".to_owned()]];
    for used in [
        "use crate::Made;",
        "use super::b::Made as Other;",
        "use crate::{b::{Made, more}, c};",
        "use crate::b; fn f() -> b::Made {}",
        "use crate::b::{self, x}; fn f() { b::f() }",
        "fn f() { crate::b::f() }",
        "fn f() { super::again::f() }",
        "mod inner { use super::super::Made; }",
        "impl X { fn f() { let x: crate :: b :: Made; } }",
    ] {
        let b = "use crate::a::It; pub struct Made;";
        assert_eq!(circles(&[("lib.rs", lib), ("a.rs", used), ("b.rs", b)]), both, "{used}");
    }
    for not in [
        "// use crate::Made;\n/* crate::b::f() */ const A: &str = \"use crate::Made;\";",
        "const A: &str = r#\"\" crate::b::f() \"#; const Q: char = '\"'; const R: char = '\\'';",
        "#[cfg(test)] mod tests { use crate::Made; fn f() {} } fn f() {}",
        "#[cfg(test)] use crate::{Made};",
        "pub(in crate::b) fn f<'a>(x: &'a str) {}",
        "use crate::b;",
        "mod inner { use super::Made; }",
        "use other::b::Made; fn f() { other::b::f() }",
    ] {
        let b = "use crate::a::It; pub struct Made;";
        let none: [Vec<String>; 0] = [];
        assert_eq!(circles(&[("lib.rs", lib), ("a.rs", not), ("b.rs", b)]), none, "{not}");
    }
}

#[test]
fn a_parent_uses_what_it_names_and_not_what_it_hands_on() {
    let child = "use super::Parent; pub struct Child;";
    let circle = |parent: &str| {
        circles(&[("lib.rs", "pub mod p;"), ("p.rs", parent), ("p/c.rs", child)]).len()
    };
    assert_eq!(circle("mod c; pub use c::Child; pub struct Parent;"), 0);
    assert_eq!(circle("mod c; pub(crate) use self::c::*; pub struct Parent;"), 0);
    assert_eq!(circle("mod c; pub use c::Child; pub struct Parent(Child);"), 1);
    assert_eq!(circle("mod c; use c::Child; pub struct Parent;"), 1);
    assert_eq!(circle("mod c; pub struct Parent(c::Child);"), 1);
    assert_eq!(circle("mod c; use other::Parent; fn f() -> c::Child {}"), 0, "from elsewhere");
}

#[test]
fn names_are_followed_through_those_who_hand_them_on() {
    let files = |a: &'static str| {
        circles(&[
            ("lib.rs", "#[macro_use] mod a; mod p; pub use p::*;"),
            ("a.rs", a),
            ("p.rs", "mod c; mod d; pub use c::*; pub use d::Far;"),
            ("p/c.rs", "pub struct Near; use crate::a::A;"),
            ("p/d.rs", "pub struct Far; use crate::a::A; #[macro_export] macro_rules! made {}"),
        ])
    };
    assert_eq!(files("use crate::Far;"), [["x/src/a.rs", "x/src/p/d.rs"]]);
    assert_eq!(files("use crate::p::Near;"), [["x/src/a.rs", "x/src/p/c.rs"]]);
    assert_eq!(files("use crate::made;"), [["x/src/a.rs", "x/src/p/d.rs"]]);
    let all = [["x/src/a.rs", "x/src/p/c.rs", "x/src/p/d.rs"]];
    assert_eq!(files("use crate::{Near, Far};"), all, "one circle through a file of both");
}
