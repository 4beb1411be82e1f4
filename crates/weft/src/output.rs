//! Output: tables for people, JSON and YAML for scripts.
//!
//! Only results go to standard output; messages go to standard error. If the reader closes the pipe
//! (`weft list services | head`), the command ends silently.

mod count;
mod fit;
pub(crate) mod printable;
pub(crate) mod progress;
mod quote;
pub(crate) mod table;
pub(crate) mod units;

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use clap::builder::EnumValueParser;
use clap::{Arg, ArgMatches, ValueEnum};
pub(crate) use count::counted;
pub(crate) use quote::quoted;
use serde_json::Value;
pub(crate) use units::bytes;

use crate::yaml;

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people.
    #[default]
    Table,
    /// JSON for scripts: stable names.
    Json,
    /// YAML for scripts: stable names.
    Yaml,
}

impl Format {
    /// The flag for the format.
    pub(crate) fn arg() -> Arg {
        Arg::new("output")
            .long("output")
            .short('o')
            .value_name("FORMAT")
            .value_parser(EnumValueParser::<Self>::new())
            .default_value("table")
            .help("Format; members in JSON and YAML keep their names in later releases")
            .help_heading("Settings")
    }

    /// The format that the flag chose.
    pub(crate) fn from_matches(matches: &ArgMatches) -> Self {
        matches.try_get_one::<Self>("output").ok().flatten().copied().unwrap_or_default()
    }
}

/// Prints a line, escaped: names in a network come from others.
pub(crate) fn line(text: impl Display) {
    print(&format!("{}\n", printable::line(&text.to_string())));
}

/// Prints text of several lines.
fn lines(text: impl Display) {
    print(&format!("{}\n", printable::lines(&text.to_string())));
}

/// Prints a message on standard error.
pub(crate) fn say(text: impl Display) {
    note(printable::line(&text.to_string()));
}

/// Prints a line on standard error, unchanged; a closed pipe is ignored.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints text unchanged.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        // The reader has closed the pipe, having seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            note(format_args!("weft: cannot print: {error}"));
            std::process::exit(1);
        }
    }
}

/// Prints an answer of a server: unchanged for a file or a program, escaped for a terminal.
pub(crate) fn answer(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if io::stdout().is_terminal() { print(&printable::lines(&text)) } else { print(&text) }
}

/// Prints JSON, indented.
pub(crate) fn json(value: &Value) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&(printable::json(&text) + "\n")),
        Err(error) => note(format_args!("weft: {error}")),
    }
}

/// Prints a value for scripts, or the text of `table` for people.
pub(crate) fn value(format: Format, value: &Value, table: impl FnOnce() -> String) {
    match format {
        Format::Json => json(value),
        Format::Yaml => print(&yaml::write(value)),
        Format::Table => lines(table()),
    }
}

/// Prints a table. Columns that did not fit are named on standard error, with advice.
pub(crate) fn rows(rows: &table::Rows, below: &str, more: &str) {
    let fitted = rows.fitted();
    lines(fitted.text.clone() + below);
    if let Some(note) = fitted.note() {
        self::note(format_args!("{note}; {more}"));
    }
}

/// Prints a list of values with these members; in place of an empty table, `none`.
pub(crate) fn list(format: Format, items: Vec<Value>, members: &[&str], none: &str) {
    let column = |name: &&str| table::Column { title: title(name), pointer: format!("/{name}") };
    if format == Format::Table && items.is_empty() {
        return line(none);
    }
    if format == Format::Table {
        let mut found = table::Rows::new(members.iter().map(column).collect());
        items.iter().for_each(|item| found.push(item));
        return rows(&found, "", "--output json shows everything");
    }
    value(format, &Value::Array(items), String::new);
}

/// The heading of a member: `expiresAt` is EXPIRES AT.
fn title(member: &str) -> String {
    let mut title = String::with_capacity(member.len() + 2);
    for one in member.chars() {
        if one.is_ascii_uppercase() {
            title.push(' ');
        }
        title.push(one.to_ascii_uppercase());
    }
    title
}

/// A list that is printed while its values arrive.
pub(crate) struct Stream {
    format: Format,
    begun: bool,
}

impl Stream {
    /// A list without values so far.
    pub(crate) fn new(format: Format) -> Self {
        Self { format, begun: false }
    }

    /// Prints a value.
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

    /// Ends the list.
    pub(crate) fn end(self) {
        match (self.format, self.begun) {
            (Format::Yaml, true) => {}
            (_, true) => print("\n]\n"),
            (_, false) => print("[]\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_heading_has_the_words_of_its_member() {
        assert_eq!(super::title("expiresAt"), "EXPIRES AT");
        assert_eq!(super::title("name"), "NAME");
    }
}
