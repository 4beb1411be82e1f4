//! The steps of `.ci/run` are those that CONTRIBUTING.md lists.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use weft_pages::files;

/// The steps of a script: their names, and the lines that call cargo.
fn steps(script: &str) -> Vec<(&str, Vec<&str>)> {
    let mut steps = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("step '") {
            steps.push((name.trim_end_matches('\''), Vec::new()));
        } else if line.contains("cargo ")
            && let Some((_, commands)) = steps.last_mut()
        {
            commands.push(line);
        }
    }
    steps
}

/// The steps that no row of a table lists under their name and with their commands.
fn missing<'a>(script: &'a str, document: &str) -> Vec<&'a str> {
    let rows = || document.lines().filter(|line| line.starts_with("| "));
    let is_listed = |name: &str, commands: &[&str]| {
        let mut rows = rows().filter(|row| row[2..].starts_with(name));
        rows.any(|row| commands.iter().all(|command| row.contains(command)))
    };
    let steps = steps(script).into_iter();
    steps.filter(|(name, commands)| !is_listed(name, commands)).map(|(name, _)| name).collect()
}

#[test]
fn every_step_before_a_change_lands_is_listed() {
    let read = |path: &str| std::fs::read_to_string(files::root().join(path)).unwrap();
    let (script, document) = (read(".ci/run"), read("CONTRIBUTING.md"));
    assert!(steps(&script).len() > 5, "are the steps still found?");
    // The first steps install programs.
    let installs = missing(&script, &document);
    assert!(installs.iter().all(|step| step.starts_with("programs of the tests")), "{installs:?}");
}

#[test]
fn a_step_that_is_not_listed_is_found() {
    let script = "step 'format'\ncargo fmt\nstep 'tests'\n# cargo run\nA=1 cargo test\n";
    assert!(
        missing(script, "| format | `cargo fmt` |\n| tests: all | `A=1 cargo test` |").is_empty()
    );
    assert_eq!(missing(script, "| format | `cargo fmt` |\n| tests | `cargo test` |"), ["tests"]);
    assert_eq!(missing(script, "format `cargo fmt`\n| tests | `A=1 cargo test` |"), ["format"]);
}
