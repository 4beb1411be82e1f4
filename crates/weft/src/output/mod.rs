//! How results are printed: tables for people, JSON and YAML for scripts.
//!
//! Results go to standard output and nothing else does; words about them go to standard error. A
//! reader that closes the pipe (`weft list services | head`) ends the command quietly.

mod fit;
pub(crate) mod printable;
pub(crate) mod progress;
pub(crate) mod table;
pub(crate) mod units;

use std::{
    fmt::Display,
    io::{self, IsTerminal as _, Write as _},
};

use clap::{Arg, ArgMatches, ValueEnum, builder::EnumValueParser};
use serde_json::Value;

use crate::yaml;

pub(crate) use units::bytes;

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people.
    #[default]
    Table,
    /// JSON for scripts: stable names.
    Json,
    /// The same as YAML.
    Yaml,
}

impl Format {
    /// The flag that chooses.
    pub(crate) fn arg() -> Arg {
        Arg::new("output")
            .long("output")
            .short('o')
            .value_name("FORMAT")
            .value_parser(EnumValueParser::<Self>::new())
            .default_value("table")
            .help("How to print; names in JSON and YAML do not change")
            .help_heading("Settings")
    }

    /// What the flag says.
    pub(crate) fn from_matches(matches: &ArgMatches) -> Self {
        matches.try_get_one::<Self>("output").ok().flatten().copied().unwrap_or_default()
    }
}

/// Prints a line. The names in a network are made by others.
pub(crate) fn line(text: impl Display) {
    print(&format!("{}\n", printable::line(&text.to_string())));
}

/// Prints text of several lines.
fn lines(text: impl Display) {
    print(&format!("{}\n", printable::lines(&text.to_string())));
}

/// Says a line on standard error.
pub(crate) fn say(text: impl Display) {
    eprintln!("{}", printable::line(&text.to_string()));
}

/// Prints text as it is.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        // Nobody reads any more: what was wanted has been seen.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            eprintln!("weft: cannot print: {error}");
            std::process::exit(1);
        }
    }
}

/// Prints what a server answered: as it is for a file or a program, printable for a terminal.
pub(crate) fn answer(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if io::stdout().is_terminal() { print(&printable::lines(&text)) } else { print(&text) }
}

/// Prints JSON, indented.
pub(crate) fn json(value: &Value) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&(printable::json(&text) + "\n")),
        Err(error) => eprintln!("weft: {error}"),
    }
}

/// Prints a value for scripts; as a table for people, what `table` says.
pub(crate) fn value(format: Format, value: &Value, table: impl FnOnce() -> String) {
    match format {
        Format::Json => json(value),
        Format::Yaml => print(&yaml::write(value)),
        Format::Table => lines(table()),
    }
}

/// Prints a table; what the terminal has no room for is named on standard error, with what helps.
pub(crate) fn rows(rows: &table::Rows, below: &str, more: &str) {
    let fitted = rows.fitted();
    lines(fitted.text.clone() + below);
    if let Some(note) = fitted.note() {
        eprintln!("{note}; {more}");
    }
}

/// Prints some things with members of these names.
pub(crate) fn list(format: Format, items: Vec<Value>, members: &[&str]) {
    let column =
        |name: &&str| table::Column { title: name.to_uppercase(), pointer: format!("/{name}") };
    if format == Format::Table {
        let mut found = table::Rows::new(members.iter().map(column).collect());
        items.iter().for_each(|item| found.push(item));
        return rows(&found, "", "--output json shows everything");
    }
    value(format, &Value::Array(items), String::new);
}

/// Values one after the other, as they come, as one list.
pub(crate) struct Stream {
    format: Format,
    begun: bool,
}

impl Stream {
    /// Nothing was printed yet.
    pub(crate) fn new(format: Format) -> Self {
        Self { format, begun: false }
    }

    /// One more.
    pub(crate) fn item(&mut self, value: &Value) {
        let before = std::mem::replace(&mut self.begun, true);
        match self.format {
            Format::Yaml => print(&yaml::write(&Value::Array(vec![value.clone()]))),
            _ => {
                let text = serde_json::to_string_pretty(value).unwrap_or_default();
                let text = printable::json(&text).replace('\n', "\n  ");
                print(&format!("{}  {text}", if before { ",\n" } else { "[\n" }));
            }
        }
    }

    /// That was all.
    pub(crate) fn end(self) {
        match (self.format, self.begun) {
            (Format::Yaml, true) => {}
            (_, true) => print("\n]\n"),
            (_, false) => print("[]\n"),
        }
    }
}
