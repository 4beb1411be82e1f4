//! Measured values beside their aims.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

/// One line of the table.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Figure {
    /// The name of the value.
    pub(crate) name: String,
    /// The value that is compared with the aim.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// The median, where [`Figure::value`] is the 99th percentile.
    pub(crate) median: Option<f64>,
    /// Processor time of the controller for one operation, in microseconds.
    pub(crate) cpu: Option<f64>,
    /// The aim.
    pub(crate) aim: Option<Aim>,
    /// A remark on the value.
    pub(crate) note: String,
}

/// The aim of a value.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) enum Aim {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Aim {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

/// The table for people.
pub(crate) fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["what", "figure", "median", "aim", "", "CPU us each", ""]);
    for figure in figures {
        let aim = figure.aim.map(|aim| match aim {
            Aim::AtMost(bound) => format!("≤ {}", shown(bound)),
            Aim::AtLeast(bound) => format!("≥ {}", shown(bound)),
        });
        let met = figure.aim.map(|aim| if aim.is_met_by(figure.value) { "met" } else { "MISSED" });
        table.add_row([
            figure.name.clone(),
            format!("{} {}", shown(figure.value), figure.unit),
            figure.median.map(shown).unwrap_or_default(),
            aim.unwrap_or_default(),
            met.unwrap_or_default().to_owned(),
            figure.cpu.map(shown).unwrap_or_default(),
            figure.note.clone(),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn shown(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
