//! Errors of filters: the problem and its position.

use std::fmt;

use super::limits::MAX_TEXT;
use super::value::Type;

/// The error code a list request is answered with (docs/protocol/management-api.md 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The filter text is wrong.
    Filter,
    /// A sort field is wrong, in the `sort` parameter or in the filter.
    Sort,
}

impl Code {
    /// The code as it stands in an error body.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "INVALID_FILTER",
            Self::Sort => "INVALID_SORT_IDENTIFIER",
        }
    }
}

/// The problem in a filter or sort text, without the position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The text does not follow the grammar.
    Unexpected {
        /// The text found; `<EOF>` at the end.
        found: String,
        /// The texts expected.
        expected: &'static str,
    },
    /// The text is longer than [`MAX_TEXT`].
    TooLong {
        /// The length of the text in bytes.
        length: usize,
    },
    /// More of something than the limit allows.
    TooMany {
        /// Kind of things.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The kind has no such symbol, or callers may not use it.
    UnknownSymbol {
        /// The name as written.
        name: String,
    },
    /// The operator does not work on these types.
    Operands {
        /// The left side as written.
        name: String,
        /// Type of the left side.
        left: Type,
        /// The operator and the type of value, for instance `= string`.
        right: String,
    },
    /// A set symbol where one value is needed.
    SetAsValue {
        /// The name as written.
        name: String,
    },
    /// A single value where a set is needed.
    ValueAsSet {
        /// The name as written.
        name: String,
    },
    /// A sub-query over a symbol that leads to no other kind.
    NotALink {
        /// The name as written.
        name: String,
    },
    /// A link to a kind that the author of the filter may not read.
    NotReadable {
        /// The name as written.
        name: String,
        /// The kind.
        kind: String,
    },
    /// A bare name that is not a boolean.
    NotBoolean {
        /// The name as written.
        name: String,
        /// The type of the symbol.
        ty: Type,
    },
    /// `= null` on a count.
    NullCount,
    /// A symbol that cannot be sorted by: a set, a tag, a symbol behind a link.
    NotSortable {
        /// The name as written.
        name: String,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexpected { found, .. } => write!(f, "Unexpected symbol: \"{found}\""),
            Self::TooLong { length } => {
                write!(f, "filter of {length} bytes is longer than {} bytes", MAX_TEXT)
            }
            Self::TooMany { what, limit } => write!(f, "more than {limit} {what}"),
            Self::UnknownSymbol { name } => write!(f, "unknown symbol '{name}'"),
            Self::Operands { name, left, right } => write!(
                f,
                "operation not supported with operand types: '{name}' is {left}, used with {right}"
            ),
            Self::SetAsValue { name } => {
                write!(f, "symbol '{name}' is a set: use it inside anyOf, allOf, count or isEmpty")
            }
            Self::ValueAsSet { name } => write!(
                f,
                "symbol '{name}' is not a set: anyOf, allOf, count and isEmpty need a set"
            ),
            Self::NotALink { name } => {
                write!(f, "symbol '{name}' leads to no other kind: a sub-query needs a link")
            }
            Self::NotReadable { name, kind } => {
                write!(f, "symbol '{name}' leads to {kind}, which the caller may not read")
            }
            Self::NotBoolean { name, ty } => {
                write!(f, "symbol '{name}' is {ty}: only a boolean symbol may stand alone")
            }
            Self::NullCount => {
                f.write_str("a count is never null: compare it with 0, or use isEmpty")
            }
            Self::NotSortable { name } => {
                write!(f, "cannot sort by '{name}': only symbols with one value can be sorted by")
            }
        }
    }
}

/// An error in a filter or sort text: position, problem, and what was expected.
///
/// `Display` shows the message, the piece of text and a caret under the character;
/// [`FilterError::message`] returns the first line only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    code: Code,
    reason: Reason,
    offset: usize,
    line: usize,
    column: usize,
    snippet: String,
    caret: usize,
}

/// Characters shown on each side of the position.
const SNIPPET: usize = 40;

impl FilterError {
    pub(super) fn new(code: Code, source: &str, offset: usize, reason: Reason) -> Self {
        let before = source.get(..offset).unwrap_or(source);
        let after = source.get(offset..).unwrap_or("");
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let head = before.get(line_start..).unwrap_or("");
        let column = head.chars().count();
        let tail = after.split('\n').next().unwrap_or("");

        let skipped = column.saturating_sub(SNIPPET);
        let snippet = head
            .chars()
            .skip(skipped)
            .chain(tail.chars().take(SNIPPET))
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let caret = column - skipped;
        Self(Box::new(Inner { code, reason, offset, line, column, snippet, caret }))
    }

    /// Error code of the answer.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The problem.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// Position in bytes from the start of the text.
    pub fn offset(&self) -> usize {
        self.0.offset
    }

    /// Line of the position, from 1.
    pub fn line(&self) -> usize {
        self.0.line
    }

    /// Column of the position in characters, from 0, as clients know it.
    pub fn column(&self) -> usize {
        self.0.column
    }

    /// The message on one line (docs/protocol/management-api.md 2.5, errors).
    pub fn message(&self) -> String {
        let Inner { reason, line, column, .. } = &*self.0;
        match reason {
            Reason::Unexpected { expected, .. } => {
                format!("{reason} at line: {line} column: {column}, expected {expected}")
            }
            Reason::TooLong { .. } => reason.to_string(),
            _ => format!("{reason} at line: {line} column: {column}"),
        }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())?;
        if matches!(self.0.reason, Reason::TooLong { .. }) {
            return Ok(());
        }
        write!(f, "\n  {}\n  {:caret$}^", self.0.snippet, "", caret = self.0.caret)
    }
}

impl std::error::Error for FilterError {}
