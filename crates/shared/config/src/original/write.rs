//! A tree as the text of a file, with the comments of the original text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::comments::{Layout, Remark};
use crate::template::quoted;
use crate::yaml::{self, MapEntry, Node, YamlValue};

/// Columns by which a level is further to the right.
const STEP: usize = 2;

/// The text of a tree.
pub(super) fn text(tree: &Node, mut layout: Layout<'_>) -> String {
    let remarks = std::mem::take(&mut layout.remarks).into_iter().peekable();
    let beside = std::mem::take(&mut layout.beside);
    let mut writer = Writer { out: String::new(), layout, remarks, beside };
    if let YamlValue::Map(entries) = &tree.value {
        writer.map(entries, 0, None);
    }
    for remark in writer.remarks.by_ref() {
        remark_at(&mut writer.out, &remark, remark.column.saturating_sub(1));
    }
    let text = writer.out.trim_end();
    format!("{}\n", text.trim_start_matches('\n'))
}

struct Writer<'t> {
    out: String,
    layout: Layout<'t>,
    remarks: std::iter::Peekable<std::vec::IntoIter<Remark>>,
    beside: BTreeMap<usize, String>,
}

impl Writer<'_> {
    /// Writes the entries of a map; the first one stands behind the dash of a list, if there is one.
    fn map(&mut self, entries: &[MapEntry], indent: usize, mut dash: Option<usize>) {
        for entry in entries.iter().filter(|entry| entry.key != "<<") {
            let location = entry.location;
            self.remarks_before(
                location.line,
                location.column.saturating_sub(1),
                dash.unwrap_or(indent),
            );
            match dash.take() {
                Some(dash) => {
                    let _ = write!(self.out, "{}- ", " ".repeat(dash));
                }
                None => self.out.push_str(&" ".repeat(indent)),
            }
            let _ = write!(self.out, "{}:", key(&entry.key));
            self.value(&entry.node, indent, location.line);
        }
    }

    /// Writes a value behind its key, or behind a dash.
    fn value(&mut self, node: &Node, indent: usize, line: usize) {
        match &node.value {
            YamlValue::Map(entries) if !entries.is_empty() => {
                self.end_of_line(line);
                self.map(entries, indent + STEP, None);
            }
            YamlValue::List(items) if !items.is_empty() => match self.in_one_line(items, line) {
                Some(text) => {
                    let _ = write!(self.out, " {text}");
                    self.end_of_line(line);
                }
                None => {
                    self.end_of_line(line);
                    self.list(items, indent + STEP);
                }
            },
            _ => self.scalar(node, indent, line),
        }
    }

    fn list(&mut self, items: &[Node], indent: usize) {
        for item in items {
            let location = item.location;
            if let YamlValue::Map(entries) = &item.value
                && !entries.is_empty()
            {
                self.map(entries, indent + STEP, Some(indent));
                continue;
            }
            self.remarks_before(location.line, location.column.saturating_sub(1 + STEP), indent);
            let _ = write!(self.out, "{}-", " ".repeat(indent));
            self.value(item, indent, location.line);
        }
    }

    /// A short list as it stands in one line of the file.
    fn in_one_line(&self, items: &[Node], line: usize) -> Option<String> {
        let texts: Option<Vec<String>> = items
            .iter()
            .map(|item| {
                let is_scalar = item.value.rendered().is_some();
                let text = (is_scalar && item.location.line == line).then(|| self.inline(item))?;
                let is_quoted = text.starts_with(['"', '\'']);
                let is_plain = !text.contains([',', '[', ']', '{', '}']);
                Some(if is_quoted || is_plain { text } else { canonical(&item.value) })
            })
            .collect();
        texts.map(|texts| format!("[{}]", texts.join(", ")))
    }

    fn scalar(&mut self, node: &Node, indent: usize, line: usize) {
        if let YamlValue::Text { text, .. } = &node.value
            && node.location.length > 0
            && let Some(marks) = block_marks(text)
        {
            let _ = write!(self.out, " {marks}");
            self.end_of_line(line);
            for part in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                let indent = if part.is_empty() { 0 } else { indent + STEP };
                let _ = writeln!(self.out, "{}{part}", " ".repeat(indent));
            }
            return;
        }
        let text = self.inline(node);
        if !text.is_empty() {
            let _ = write!(self.out, " {text}");
        }
        // A comment stands behind the last line of a value.
        let is_beside = self.beside.contains_key(&line);
        self.end_of_line(if is_beside { line } else { self.layout.end_of(node.location) });
    }

    /// A scalar as it is in the file, or in a form with the same value.
    fn inline(&self, node: &Node) -> String {
        let written = self.layout.written(node.location).map(without_anchor);
        let same = written.filter(|text| {
            let is_same = yaml::parse(text).is_ok_and(|tree| tree.root.value == node.value);
            // What the parser takes for the scalar may have a comment behind it.
            is_same && !text.contains(" #") && !text.contains("\t#")
        });
        same.map_or_else(|| canonical(&node.value), str::to_owned)
    }

    fn end_of_line(&mut self, line: usize) {
        if let Some(comment) = self.beside.remove(&line) {
            let _ = write!(self.out, "  {comment}");
        }
        self.out.push('\n');
    }

    /// Writes the comments and empty lines before a line, whose key stood in one column and stands in another one now,
    /// the first being 0.
    fn remarks_before(&mut self, line: usize, was: usize, is: usize) {
        while let Some(remark) = self.remarks.next_if(|remark| remark.line < line) {
            let column = remark.column.saturating_sub(1);
            let column = if column >= was { is + column - was } else { column.min(is) };
            remark_at(&mut self.out, &remark, column);
        }
    }
}

fn remark_at(out: &mut String, remark: &Remark, column: usize) {
    if !remark.text.is_empty() {
        out.push_str(&" ".repeat(column));
    }
    let _ = writeln!(out, "{}", remark.text);
}

/// A scalar without its anchor.
fn without_anchor(text: &str) -> &str {
    match text.strip_prefix('&') {
        Some(rest) => rest.split_once(' ').map_or("", |(_, scalar)| scalar.trim_start()),
        None => text,
    }
}

fn key(key: &str) -> String {
    let is_word = !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte))
        && !key.starts_with(['-', '.']);
    if is_word { key.to_owned() } else { quoted(key) }
}

/// A scalar, or an empty list or map, in a form of its own.
fn canonical(value: &YamlValue) -> String {
    match value {
        YamlValue::Text { text, .. } => quoted(text),
        YamlValue::Float(number) if number.is_finite() => format!("{number:?}"),
        YamlValue::Float(number) if number.is_nan() => ".nan".to_owned(),
        YamlValue::Float(number) => if *number > 0.0 { ".inf" } else { "-.inf" }.to_owned(),
        YamlValue::List(_) => "[]".to_owned(),
        YamlValue::Map(_) => "{}".to_owned(),
        other => other.rendered().unwrap_or_default(),
    }
}

/// What a text of several lines begins with, if it can be written as a block.
fn block_marks(text: &str) -> Option<&'static str> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let is_plain = |c: char| {
        matches!(c, ' '..='~' | '\n')
            || (c >= '\u{a0}' && c != '\u{feff}' && !matches!(c, '\u{2028}' | '\u{2029}'))
    };
    let fits = body.contains('\n')
        && body.chars().all(is_plain)
        && !body.starts_with([' ', '\n', '#'])
        && !body.ends_with('\n');
    fits.then(|| if text.ends_with('\n') { "|" } else { "|-" })
}
