//! Reports of checks, for people and for scripts.

use std::path::Path;

use serde_json::{Value, json};
use weft_config::show::{Severity, excerpt};
use weft_config::{Error, Examined, KeyAt};

use crate::failure::{Failure, Result, chain};
use crate::output::{self, Format};

/// Prints all findings. Fails if a mistake is among them.
pub(crate) fn report<T>(examined: &Examined<T>, format: Format) -> Result<()> {
    let errors = examined.problems.iter().map(|one| (Severity::Error, one.clone()));
    let warnings = examined.warnings.iter().map(|one| (Severity::Warning, one.clone()));
    let silent = examined.not_acted_upon.iter().map(|one| {
        let message = format!("not acted upon: {}", one.message);
        (Severity::Warning, KeyAt { message, ..one.clone() })
    });
    let mut all: Vec<(Severity, KeyAt)> = errors.chain(warnings).chain(silent).collect();
    all.sort_by_key(|(_, one)| (one.line == 0, one.line, one.column));
    let (mistakes, path) = (examined.problems.len(), &examined.path);
    let words = counted(mistakes, all.len() - mistakes);
    let value = json!({
        "file": path.display().to_string(),
        "ok": mistakes == 0,
        "errors": mistakes,
        "warnings": all.len() - mistakes,
        "findings": all.iter().map(|(severity, one)| finding(*severity, one)).collect::<Vec<_>>(),
    });
    output::value(format, &value, || {
        let shown = all
            .iter()
            .map(|(severity, one)| excerpt(path, &examined.source, *severity, one) + "\n");
        let shown: String = shown.collect();
        match mistakes {
            0 => shown + &format!("{}: {words}", path.display()),
            // The returned failure has the counts.
            _ => shown.trim_end().to_owned(),
        }
    });
    if mistakes == 0 {
        return Ok(());
    }
    Err(Failure::usage(format!("{}: {words}", path.display())))
}

/// The failure that a file could not be read. For scripts, JSON or YAML with the reason is printed.
pub(crate) fn unreadable(path: &Path, error: Error, format: Format) -> Failure {
    let (line, column) = match &error {
        Error::Syntax { line, column, .. } => (*line, *column),
        _ => (0, 0),
    };
    let one = KeyAt { line, column, ..KeyAt::new("", chain(&error)) };
    if format != Format::Table {
        let value = json!({
            "file": path.display().to_string(),
            "ok": false,
            "errors": 1,
            "warnings": 0,
            "findings": [finding(Severity::Error, &one)],
        });
        output::value(format, &value, String::new);
    }
    Failure::from(error)
}

fn counted(mistakes: usize, warnings: usize) -> String {
    let (all_mistakes, all_warnings) = (
        output::counted(mistakes, "mistake", "mistakes"),
        output::counted(warnings, "warning", "warnings"),
    );
    match (mistakes, warnings) {
        (0, 0) => "nothing is wrong with it".to_owned(),
        (0, _) => format!("it can be used; {all_warnings}"),
        (_, 0) => all_mistakes,
        _ => format!("{all_mistakes}, {all_warnings}"),
    }
}

fn finding(severity: Severity, one: &KeyAt) -> Value {
    json!({
        "severity": severity.word(),
        "key": one.key,
        "line": (one.line > 0).then_some(one.line),
        "column": (one.line > 0).then_some(one.column),
        "message": one.message,
        "found": one.found,
        "allowed": one.allowed,
        "suggestion": one.suggestion,
    })
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn counts_are_words() {
        assert_eq!(counted(0, 0), "nothing is wrong with it");
        assert_eq!(counted(1, 2), "1 mistake, 2 warnings");
        assert_eq!(counted(0, 1), "it can be used; 1 warning");
    }
}
