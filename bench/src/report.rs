//! What was measured, as a table with ratios or as JSON.

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

/// The figures of one path with one payload size.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    /// What carried the data.
    pub(crate) path: String,
    /// Size of each write, bytes.
    pub(crate) payload: usize,
    /// Throughput of one flow, MiB per second.
    pub(crate) single: f64,
    /// Throughput of many flows together, MiB per second.
    pub(crate) many: f64,
    /// Median round trip, microseconds.
    pub(crate) p50: f64,
    /// 99th percentile of the round trip, microseconds.
    pub(crate) p99: f64,
    /// Connections opened, used and closed per second.
    pub(crate) set_ups: f64,
    /// Processor seconds of the relay per GiB, one flow.
    pub(crate) cpu: Option<f64>,
    /// Processor microseconds of the relay per write, one flow.
    pub(crate) per_payload: Option<f64>,
}

/// The table for people: each figure, and its ratio to the base of the same payload size.
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
        let beside = |value: f64, of: fn(&Row) -> f64, digits: usize| {
            let shown = format!("{value:.digits$}");
            match reference.map(of) {
                Some(other) if other > 0.0 => format!("{shown} ({:.2})", value / other),
                _ => shown,
            }
        };
        let beside_some = |value: Option<f64>, of: fn(&Row) -> Option<f64>, digits: usize| {
            let Some(value) = value else { return "-".to_owned() };
            let shown = format!("{value:.digits$}");
            match reference.and_then(of) {
                Some(other) if other > 0.0 => format!("{shown} ({:.2})", value / other),
                _ => shown,
            }
        };
        table.add_row([
            row.path.clone(),
            format!("{} KiB", row.payload / 1024),
            beside(row.single, |row| row.single, 0),
            beside(row.many, |row| row.many, 0),
            beside(row.p50, |row| row.p50, 0),
            beside(row.p99, |row| row.p99, 0),
            beside(row.set_ups, |row| row.set_ups, 0),
            beside_some(row.cpu, |row| row.cpu, 2),
            beside_some(row.per_payload, |row| row.per_payload, 2),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
