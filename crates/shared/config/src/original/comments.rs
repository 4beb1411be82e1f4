//! Comments and empty lines of a file, which the tree does not have.

use std::collections::{BTreeMap, HashMap};

use saphyr_parser::{Event, Parser, ScalarStyle};

use crate::yaml::SourceLocation;

/// A line with nothing but a comment, or with nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) line: usize,
    /// Column of the comment, the first being 1.
    pub(super) column: usize,
    /// The comment with its `#`; empty = the line is empty.
    pub(super) text: String,
}

/// Lines that leave a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) first: usize,
    pub(super) last: usize,
    /// Column of the first line's key, the first being 1.
    pub(super) column: usize,
    /// False if what stays begins in the first line, too.
    pub(super) begins_line: bool,
}

/// The text of a file by lines, with its comments.
pub(super) struct Layout<'t> {
    lines: Vec<&'t str>,
    /// Comments and empty lines, in their order.
    pub(super) remarks: Vec<Remark>,
    /// Comments behind something, by line.
    pub(super) beside: BTreeMap<usize, String>,
    /// The last line of scalars with several lines, by line and column of their beginning.
    ends: HashMap<(usize, usize), usize>,
}

impl<'t> Layout<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let (spans, ends) = scalars(text);
        let mut layout = Self { lines, remarks: Vec::new(), beside: BTreeMap::new(), ends };
        let mut remarks = Vec::new();
        for (index, line) in layout.lines.iter().enumerate() {
            let number = index + 1;
            let in_line = spans.get(&number).map_or(&[][..], Vec::as_slice);
            // A line in the middle of a scalar is its own.
            if in_line.iter().any(|(from, to)| *from == 0 && *to == usize::MAX) {
                continue;
            }
            let Some(begin) = comment_in(line, in_line) else {
                if line.trim().is_empty() {
                    remarks.push(Remark { line: number, column: 1, text: String::new() });
                }
                continue;
            };
            let (before, comment) = line.split_at_checked(begin).unwrap_or((line, ""));
            let text = comment.trim_end().to_owned();
            if before.trim().is_empty() {
                let column = before.chars().count() + 1;
                remarks.push(Remark { line: number, column, text });
            } else {
                layout.beside.insert(number, text);
            }
        }
        layout.remarks = remarks;
        layout
    }

    /// The last line of the value at a location.
    pub(super) fn end_of(&self, location: SourceLocation) -> usize {
        let end = self.ends.get(&(location.line, location.column)).copied();
        end.unwrap_or(location.line)
    }

    /// The text of a value within one line.
    pub(super) fn written(&self, location: SourceLocation) -> Option<&'t str> {
        if location.length == 0 || self.ends.contains_key(&(location.line, location.column)) {
            return None;
        }
        let line = self.lines.get(location.line.checked_sub(1)?)?;
        let mut places = line.char_indices().map(|(at, _)| at).chain([line.len()]);
        let from = places.nth(location.column.checked_sub(1)?)?;
        let to = places.nth(location.length - 1)?;
        line.get(from..to)
    }

    /// Drops the comments of lines that leave the file: those in them and between them, those right behind them that stand
    /// further to the right, and the block right above them.
    pub(super) fn leave_out(&mut self, lines: &Extent) {
        let Extent { first, last, column, begins_line } = *lines;
        let mut from = first;
        for remark in self.remarks.iter().rev().filter(|remark| remark.line < first) {
            if !begins_line || remark.line + 1 != from || remark.text.is_empty() {
                break;
            }
            from = remark.line;
        }
        let mut to = last;
        for remark in self.remarks.iter().filter(|remark| remark.line > last) {
            if remark.line != to + 1 || remark.text.is_empty() || remark.column <= column {
                break;
            }
            to = remark.line;
        }
        self.remarks.retain(|remark| remark.line < from || remark.line > to);
        let own = if begins_line { first } else { first + 1 };
        self.beside.retain(|line, _| *line < own || *line > last);
    }
}

/// Ranges of columns (from 0) that scalars take of lines.
type Spans = HashMap<usize, Vec<(usize, usize)>>;

/// The places of scalars, and the last lines of those with several.
fn scalars(text: &str) -> (Spans, HashMap<(usize, usize), usize>) {
    let (mut spans, mut ends) = (Spans::new(), HashMap::new());
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        let Event::Scalar(_, style, ..) = event else { continue };
        let (start, end) = (span.start, span.end);
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        // A block ends where the next line begins.
        let last =
            if is_block && end.col() == 0 { end.line().saturating_sub(1) } else { end.line() };
        if last <= start.line() && !is_block {
            spans.entry(start.line()).or_default().push((start.col(), end.col()));
            continue;
        }
        let last = last.max(start.line());
        ends.insert((start.line(), start.col() + 1), last);
        if !is_block {
            spans.entry(start.line()).or_default().push((start.col(), usize::MAX));
            spans.entry(last).or_default().push((0, end.col()));
        }
        let inner = if is_block { last + 1 } else { last };
        for line in start.line() + 1..inner {
            spans.entry(line).or_default().push((0, usize::MAX));
        }
    }
    (spans, ends)
}

/// Where a comment begins in a line, in bytes: at a `#` at the beginning or behind a space, outside of scalars.
fn comment_in(line: &str, scalars: &[(usize, usize)]) -> Option<usize> {
    let mut is_behind_space = true;
    for (column, (at, character)) in line.char_indices().enumerate() {
        let is_inside = scalars.iter().any(|(from, to)| column >= *from && column < *to);
        if character == '#' && is_behind_space && !is_inside {
            return Some(at);
        }
        is_behind_space = character.is_whitespace();
    }
    None
}
