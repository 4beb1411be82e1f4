//! Comments and empty lines of a file, which the tree does not have.

use std::collections::{BTreeMap, HashMap};

use saphyr_parser::{Event, Parser, ScalarStyle};

use crate::yaml::{SourceLocation, spaces_after_colons};

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
        let (spans, ends) = scalars(text, &lines);
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

/// The places of scalars, and the last lines of those with several. What the parser says of their ends includes comments
/// behind them.
fn scalars(text: &str, lines: &[&str]) -> (Spans, HashMap<(usize, usize), usize>) {
    let (mut spans, mut ends) = (Spans::new(), HashMap::new());
    let spaced = spaces_after_colons(text);
    let characters: Vec<char> = spaced.chars().collect();
    for (event, span) in Parser::new_from_str(&spaced).map_while(Result::ok) {
        let Event::Scalar(_, style, ..) = event else { continue };
        let start = span.start;
        let (last, column) = match style {
            ScalarStyle::Literal | ScalarStyle::Folded => {
                let own = lines.get(start.line().wrapping_sub(1)).copied().unwrap_or_default();
                let is_text = own.len() - own.trim_start_matches(' ').len() == start.col();
                if is_text {
                    spans.entry(start.line()).or_default().push((0, usize::MAX));
                }
                (end_of_block(lines, start.line(), is_text), usize::MAX)
            }
            ScalarStyle::Plain => (span.end.line(), span.end.col()),
            _ => end_of_quoted(&characters, start.index(), start.line(), start.col()),
        };
        let is_block = column == usize::MAX;
        if last <= start.line() && !is_block {
            spans.entry(start.line()).or_default().push((start.col(), column));
            continue;
        }
        ends.insert((start.line(), start.col() + 1), last);
        if !is_block {
            spans.entry(start.line()).or_default().push((start.col(), usize::MAX));
            spans.entry(last).or_default().push((0, column));
        }
        for line in start.line() + 1..if is_block { last + 1 } else { last } {
            spans.entry(line).or_default().push((0, usize::MAX));
        }
    }
    (spans, ends)
}

/// The last line of a block, of which the parser names the line of the mark or the first line of the text: what follows
/// and is far enough to the right.
fn end_of_block(lines: &[&str], line: usize, is_text: bool) -> usize {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let own = lines.get(line.wrapping_sub(1)).copied().map_or(0, indent);
    let mut least = is_text.then_some(own);
    let mut last = line;
    for (index, text) in lines.iter().enumerate().skip(line) {
        if text.trim().is_empty() {
            continue;
        }
        // The text of a mark without a width is as far to the right as its first line.
        if indent(text) < *least.get_or_insert(indent(text).max(own + 1)) {
            break;
        }
        last = index + 1;
    }
    last
}

/// Line and column behind the closing quote of a scalar, which may have an anchor or a tag before it.
fn end_of_quoted(characters: &[char], from: usize, line: usize, column: usize) -> (usize, usize) {
    let (mut line, mut column) = (line, column);
    let mut quote = None;
    let mut rest = characters.get(from..).unwrap_or_default().iter().copied().peekable();
    while let Some(character) = rest.next() {
        column += 1;
        if character == '\n' {
            (line, column) = (line + 1, 0);
        }
        match quote {
            None if matches!(character, '\'' | '"') => quote = Some(character),
            Some('"') if character == '\\' => {
                if rest.next() == Some('\n') {
                    (line, column) = (line + 1, 0);
                } else {
                    column += 1;
                }
            }
            Some('\'') if character == '\'' && rest.peek() == Some(&'\'') => {
                rest.next();
                column += 1;
            }
            Some(open) if character == open => return (line, column),
            _ => {}
        }
    }
    (line, column)
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
