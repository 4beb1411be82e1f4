//! Mistakes as text for people: the mistake, its location, the line with a mark below it, and help.

use std::fmt::Write as _;
use std::path::Path;

use crate::error::KeyAt;
use crate::secret;
use crate::source::FileText;

/// Longest part of a line that is shown, in characters.
const WIDTH: usize = 160;

/// The severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but should be looked at.
    Warning,
}

impl Severity {
    /// The severity as a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// A mistake with its line. Lines that may have a secret are not shown.
#[must_use]
pub fn excerpt(path: &Path, source: &FileText, severity: Severity, problem: &KeyAt) -> String {
    let number = problem.line.to_string();
    let margin = " ".repeat(number.len());
    // Writing to a string cannot fail.
    let mut out = format!("{}: {}\n", severity.word(), problem.text());
    let _ = writeln!(out, "{margin}--> {}", problem.location(path));
    if let Some(line) = source.line(problem.line) {
        let _ = writeln!(out, "{margin} |");
        if secret::is_secret_line(line) {
            let _ = writeln!(out, "{number} | {}", secret::HIDDEN);
        } else {
            let shown: String = line.chars().take(WIDTH).map(printable).collect();
            let _ = writeln!(out, "{number} | {shown}");
            let before = problem.column.saturating_sub(1).min(WIDTH);
            let room = line.chars().count().min(WIDTH).saturating_sub(before);
            let length = quoted(line, before).unwrap_or(problem.length);
            let mark = "^".repeat(length.clamp(1, room.max(1)));
            let _ = writeln!(out, "{margin} | {}{mark}", " ".repeat(before));
        }
    }
    let mut note = |word: &str, text: &Option<String>| {
        if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
            let _ = writeln!(out, "{margin} = {word}: {text}");
        }
    };
    note("found", &problem.found);
    note("allowed", &problem.allowed);
    note("did you mean", &problem.suggestion);
    out
}

/// The length of the quoted text that begins there, with its quotes, in characters. (The parser also
/// counts the rest of the line.)
fn quoted(line: &str, before: usize) -> Option<usize> {
    let mut rest = line.chars().skip(before).enumerate().peekable();
    let (_, quote) = rest.next().filter(|(_, first)| matches!(first, '"' | '\''))?;
    while let Some((at, character)) = rest.next() {
        let is_escape = (character == '\\' && quote == '"')
            || (character == quote
                && quote == '\''
                && rest.peek().is_some_and(|(_, next)| *next == quote));
        if is_escape {
            rest.next();
        } else if character == quote {
            return Some(at + 1);
        }
    }
    None
}

fn printable(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}
