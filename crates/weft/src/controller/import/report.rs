//! The report of an import: what weft takes of a network, what it cannot keep, and the keys.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use weft_config::original::KeyNote;
use weft_import::Import;

use super::trust::Trusted;
use crate::output::{counted, table};

/// What a report tells.
pub(super) struct Report<'a> {
    /// The database.
    pub(super) database: &'a Path,
    pub(super) import: &'a Import,
    /// Keys and certificates that the controller's file names; none if there is no file.
    pub(super) keys: Option<&'a [Trusted]>,
    /// What becomes of keys of the controller's file.
    pub(super) notes: &'a [KeyNote],
    /// Why nothing can be written yet.
    pub(super) problems: &'a [String],
}

/// The report for scripts.
pub(super) fn values(report: &Report<'_>) -> Value {
    let Report { database, import, keys, notes, problems } = report;
    let note = |it: &KeyNote| json!({"line": it.line, "key": it.key, "outcome": it.outcome.words(), "reason": it.reason});
    let rows = |all: &&[Trusted]| all.iter().map(Trusted::row).collect::<Vec<_>>();
    json!({
        "database": database.display().to_string(),
        "layout": import.layout.number(),
        "release": import.layout.release(),
        "clusterIndex": import.cluster_index,
        "kinds": import.sections,
        "losses": import.losses,
        "unlistedLosses": import.unlisted_losses,
        "reportedAgain": import.reported,
        "keys": keys.as_ref().map(rows).unwrap_or_default(),
        "file": notes.iter().map(note).collect::<Vec<_>>(),
        "problems": problems,
    })
}

/// The report for people.
pub(super) fn text(report: &Report<'_>) -> String {
    let Report { database: path, import, keys, notes, problems } = report;
    let (number, release) = (import.layout.number(), import.layout.release());
    let mut text = format!("{}: layout {number}, of OpenZiti {release}", path.display());
    if let Some(index) = import.cluster_index {
        let _ = write!(text, ", of a cluster, up to index {index} of its log");
    }
    let kinds = import.sections.iter().filter(|section| section.found > 0);
    let columns =
        [("KIND", "/name"), ("FOUND", "/found"), ("TAKEN", "/taken"), ("LOSSY", "/lossy")];
    part(&mut text, "", &columns, kinds.map(|it| json!(it)));
    let columns = [
        ("KIND", "/kind"),
        ("NAME", "/name"),
        ("ID", "/id"),
        ("FIELD", "/field"),
        ("REASON", "/reason"),
    ];
    part(&mut text, "Lost:", &columns, import.losses.iter().map(|it| json!(it)));
    if import.unlisted_losses > 0 {
        let _ = write!(text, "\nand {}", counted(import.unlisted_losses, "more", "more"));
    }
    let columns =
        [("KIND", "/kind"), ("FIELD", "/field"), ("ENTITIES", "/count"), ("WHY", "/reason")];
    let reported = import.reported.iter().map(|it| json!(it));
    part(&mut text, "Not taken, because it is reported again:", &columns, reported);
    let columns = [
        ("KEY", "/key"),
        ("LINE", "/line"),
        ("PLACE", "/place"),
        ("WHAT", "/what"),
        ("PROBLEM", "/problem"),
    ];
    let rows = keys.iter().flat_map(|all| all.iter().map(Trusted::row));
    part(&mut text, "Keys, certificates and authorities:", &columns, rows);
    if !notes.is_empty() {
        text.push_str("\n\nThe controller's file:");
        for note in *notes {
            let _ = write!(text, "\n  {note}");
        }
    }
    if !problems.is_empty() {
        text.push_str("\n\nTo be solved before anything is written:");
        for problem in *problems {
            let _ = write!(text, "\n  {problem}");
        }
    }
    text
}

/// Adds a table with a heading, unless it is empty.
pub(super) fn part(
    text: &mut String,
    heading: &str,
    columns: &[(&str, &str)],
    rows: impl Iterator<Item = Value>,
) {
    let column = |(title, pointer): &(&str, &str)| table::Column {
        title: (*title).to_owned(),
        pointer: (*pointer).to_owned(),
    };
    let mut found = table::Rows::new(columns.iter().map(column).collect());
    found = found.breaking(&["/reason", "/id", "/place", "/problem"]);
    rows.for_each(|row| found.push(&row));
    if found.count() > 0 {
        let heading = if heading.is_empty() { String::new() } else { format!("\n{heading}") };
        let _ = write!(text, "\n{heading}\n{}", found.fitted().text);
    }
}
