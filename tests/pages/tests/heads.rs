//! The head of each crate says what the crate is for, with a diagram and an example that compiles.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use weft_pages::files;

/// The words behind the opening fences of code in the head of a file: `text`, `no_run`, or empty.
fn fences(text: &str) -> Vec<&str> {
    let head = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    head.filter_map(|line| line.strip_prefix("```")).step_by(2).collect()
}

/// Whether the tests of documents compile a block.
fn is_compiled(words: &str) -> bool {
    let mut words = words.split([',', ' ']).filter(|word| !word.is_empty());
    words.all(|word| ["rust", "no_run", "should_panic"].contains(&word))
}

/// The faults of the head of a crate.
fn faults(text: &str) -> Vec<&'static str> {
    let fences = fences(text);
    let starts = text.strip_prefix("//! ").is_some_and(|rest| rest.starts_with(char::is_uppercase));
    let checks = [
        (starts, "it does not begin with what the crate is for"),
        (fences.contains(&"text"), "it has no diagram (```text)"),
        (fences.iter().any(|it| is_compiled(it)), "it has no example that compiles (```)"),
    ];
    checks.into_iter().filter(|(is_fine, _)| !is_fine).map(|(_, fault)| fault).collect()
}

#[test]
fn the_head_of_each_crate_has_a_diagram_and_an_example() {
    let files = files::all().unwrap();
    let is_root = |path: &str| path.starts_with("crates/") && path.ends_with("/src/lib.rs");
    let (mut count, mut wrong) = (0, Vec::new());
    for root in files.iter().filter(|file| is_root(&file.path)) {
        count += 1;
        let faults = faults(&root.text).into_iter();
        wrong.extend(faults.map(|fault| format!("{}: {fault}", root.path)));
    }
    assert!(count > 25, "{count} crates: are they still found?");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn faults_of_heads_are_found() {
    let good = "//! Counts.\n//!\n//! ```text\n//! a -> b\n//! ```\n//!\n//! ```no_run\n//! f();\n//! ```\n";
    assert!(faults(good).is_empty());
    assert_eq!(faults(&good.replace("no_run", "ignore")).len(), 1);
    assert_eq!(faults(&good.replace("no_run", "text")).len(), 1);
    assert_eq!(faults(&good.replace("text", "")).len(), 1);
    assert_eq!(faults("mod a;\n//! ```text\n").len(), 3);
    assert_eq!(fences(good), ["text", "no_run"]);
}
