//! Measured values, as a table with ratios or as JSON.

use std::io;
use std::process::ExitCode;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::work::Basics;

/// The figures of one path with one payload size.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    /// The path that carried the data.
    pub(crate) path: String,
    /// Size of each write, bytes.
    pub(crate) payload: usize,
    /// The measured values.
    #[serde(flatten)]
    pub(crate) basics: Basics,
}

/// A figure, and its ratio to that of another. A figure below 100 has at least one digit after the point.
pub(crate) fn beside(value: Option<f64>, other: Option<f64>, digits: usize) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let digits = if digits == 0 && value < 100.0 { 1 } else { digits };
    match other {
        Some(other) if other > 0.0 => format!("{value:.digits$} ({:.2})", value / other),
        _ => format!("{value:.digits$}"),
    }
}

/// Prints measured values, as text for people or as JSON for programs.
pub(crate) fn print<T: Serialize>(
    measured: io::Result<Vec<T>>,
    is_json: bool,
    text: impl FnOnce(&[T]) -> String,
) -> ExitCode {
    let shown = measured.and_then(|rows| match is_json {
        true => serde_json::to_string_pretty(&rows).map_err(io::Error::other),
        false => Ok(text(&rows)),
    });
    match shown {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("weft-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The table for people: each figure, and its ratio to that of the path `base` with the same payload size.
pub(crate) fn table(rows: &[Row], base: &str) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header([
        "path",
        "payload",
        "1 flow MiB/s",
        "many flows MiB/s",
        "rtt p50 us",
        "rtt p99 us",
        "set-ups/s",
        "relay CPU s/GiB",
        "relay us/payload",
    ]);
    for row in rows {
        let reference =
            rows.iter().find(|other| other.path == base && other.payload == row.payload);
        let shown = |of: fn(&Basics) -> Option<f64>, digits: usize| {
            beside(of(&row.basics), reference.and_then(|it| of(&it.basics)), digits)
        };
        table.add_row([
            row.path.clone(),
            format!("{} KiB", row.payload / 1024),
            shown(|it| Some(it.single), 0),
            shown(|it| Some(it.many), 0),
            shown(|it| Some(it.p50), 0),
            shown(|it| Some(it.p99), 0),
            shown(|it| Some(it.set_ups), 0),
            shown(|it| it.cpu, 2),
            shown(|it| it.per_payload, 2),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
