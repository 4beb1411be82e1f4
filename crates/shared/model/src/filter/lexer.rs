//! Lexer: text to tokens, one at a time.
//!
//! White space has a meaning in this language (`not in` has exactly one space, `anyOf(` none), so
//! that every token records the space in front of it. A character that begins no token is an error;
//! it is never skipped, as that would change the meaning of the filter
//! (docs/protocol/management-api.md 2.5).

use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

use super::ast::{Literal, Op};
use super::error::{Code, FilterError, Reason};

/// Words that are names only when quoted, in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    And,
    Or,
    Not,
    In,
    Between,
    Contains,
    IContains,
    True,
    False,
    Null,
    AnyOf,
    AllOf,
    Count,
    IsEmpty,
    From,
    Where,
    Sort,
    By,
    Asc,
    Desc,
    Skip,
    Limit,
    None,
}

const KEYWORDS: [(&str, Keyword); 23] = [
    ("and", Keyword::And),
    ("or", Keyword::Or),
    ("not", Keyword::Not),
    ("in", Keyword::In),
    ("between", Keyword::Between),
    ("contains", Keyword::Contains),
    ("icontains", Keyword::IContains),
    ("true", Keyword::True),
    ("false", Keyword::False),
    ("null", Keyword::Null),
    ("anyOf", Keyword::AnyOf),
    ("allOf", Keyword::AllOf),
    ("count", Keyword::Count),
    ("isEmpty", Keyword::IsEmpty),
    ("from", Keyword::From),
    ("where", Keyword::Where),
    ("sort", Keyword::Sort),
    ("by", Keyword::By),
    ("asc", Keyword::Asc),
    ("desc", Keyword::Desc),
    ("skip", Keyword::Skip),
    ("limit", Keyword::Limit),
    ("none", Keyword::None),
];

impl Keyword {
    /// The keyword of a word, if it is one.
    pub(super) fn of(word: &str) -> Option<Self> {
        KEYWORDS.iter().find(|(text, _)| text.eq_ignore_ascii_case(word)).map(|(_, it)| *it)
    }
}

/// Kind of a token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind<'a> {
    End,
    Open,
    Close,
    ListOpen,
    ListClose,
    Comma,
    Operator(Op),
    Keyword(Keyword),
    Name(&'a str),
    Literal(Literal),
}

/// A token and its position.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    /// Position of its first byte.
    pub(super) at: usize,
    /// Position behind its last byte.
    pub(super) end: usize,
    /// Number of white space characters in front of it.
    pub(super) gap: usize,
}

/// Reads tokens from a text.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    source: &'a str,
    code: Code,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a str, code: Code) -> Self {
        Self { source, code, at: 0 }
    }

    /// The next token; [`Kind::End`] from the end of the text on.
    pub(super) fn next(&mut self) -> Result<Token<'a>, FilterError> {
        let gap = self.rest().bytes().take_while(|byte| is_space(*byte)).count();
        self.at += gap;
        let at = self.at;
        let kind = self.token()?;
        Ok(Token { kind, at, end: self.at, gap })
    }

    fn token(&mut self) -> Result<Kind<'a>, FilterError> {
        let bytes = self.rest().as_bytes();
        let Some(first) = bytes.first() else { return Ok(Kind::End) };
        let equals = bytes.get(1) == Some(&b'=');
        let (kind, length) = match first {
            b'(' => (Kind::Open, 1),
            b')' => (Kind::Close, 1),
            b'[' => (Kind::ListOpen, 1),
            b']' => (Kind::ListClose, 1),
            b',' => (Kind::Comma, 1),
            b'=' => (Kind::Operator(Op::Equal), 1),
            b'!' if equals => (Kind::Operator(Op::NotEqual), 2),
            b'!' => return Err(self.unexpected(self.at + 1, "'=' after '!'")),
            b'<' if equals => (Kind::Operator(Op::LessOrEqual), 2),
            b'<' => (Kind::Operator(Op::Less), 1),
            b'>' if equals => (Kind::Operator(Op::GreaterOrEqual), 2),
            b'>' => (Kind::Operator(Op::Greater), 1),
            b'"' => return self.text(),
            b'\'' => return self.quoted_name(),
            b'-' | b'0'..=b'9' => return self.number(),
            b'a'..=b'z' | b'A'..=b'Z' => return self.word(),
            _ => return Err(self.unexpected(self.at, "a name, a value or an operator")),
        };
        self.at += length;
        Ok(kind)
    }

    fn word(&mut self) -> Result<Kind<'a>, FilterError> {
        let rest = self.rest();
        let (word, after) = rest.split_at_checked(name_length(rest)).unwrap_or((rest, ""));
        if word == "datetime" && after.starts_with('(') {
            return self.datetime();
        }
        self.at += word.len();
        Ok(Keyword::of(word).map_or(Kind::Name(word), Kind::Keyword))
    }

    fn quoted_name(&mut self) -> Result<Kind<'a>, FilterError> {
        let inside = self.rest().get(1..).unwrap_or("");
        let length = if inside.starts_with(|c: char| c.is_ascii_alphabetic()) {
            name_length(inside)
        } else {
            0
        };
        let (name, after) = inside.split_at_checked(length).unwrap_or((inside, ""));
        if name.is_empty() {
            return Err(self.unexpected(self.at + 1, "a name that starts with a letter"));
        }
        if !after.starts_with('\'') {
            return Err(self.unexpected(self.at + 1 + length, "a closing single quote"));
        }
        self.at += length + 2;
        Ok(Kind::Name(name))
    }

    /// `["-"] int ["." digits] [("e"|"E") ["+"|"-"] int]`
    fn number(&mut self) -> Result<Kind<'a>, FilterError> {
        let start = self.at;
        let mut whole = true;
        self.skip_one_of(b"-");
        self.int()?;
        if self.skip_one_of(b".") {
            whole = false;
            self.digits()?;
        }
        if self.skip_one_of(b"eE") {
            whole = false;
            self.skip_one_of(b"+-");
            self.int()?;
        }
        let text = self.source.get(start..self.at).unwrap_or("");
        if whole && let Ok(value) = text.parse::<i64>() {
            return Ok(Kind::Literal(Literal::Int(value)));
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Kind::Literal(Literal::Float(value))),
            _ => Err(self.unexpected_text(start, text, "a number within the range of a double")),
        }
    }

    /// Digits without leading zeros.
    fn int(&mut self) -> Result<(), FilterError> {
        let zero = self.peek() == Some(b'0');
        let length = self.digits()?;
        if zero && length > 1 {
            return Err(self.unexpected(self.at - length + 1, "a number without leading zeros"));
        }
        Ok(())
    }

    /// Reads one or more digits and returns their number.
    fn digits(&mut self) -> Result<usize, FilterError> {
        let length = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return Err(self.unexpected(self.at, "a digit"));
        }
        self.at += length;
        Ok(length)
    }

    fn text(&mut self) -> Result<Kind<'a>, FilterError> {
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((offset, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += offset + 1;
                    return Ok(Kind::Literal(Literal::Text(text)));
                }
                '\\' => text.push(match chars.next() {
                    Some((_, '"')) => '"',
                    Some((_, '\\')) => '\\',
                    Some((_, 'f')) => '\u{c}',
                    Some((_, 'n')) => '\n',
                    Some((_, 'r')) => '\r',
                    Some((_, 't')) => '\t',
                    _ => {
                        let at = self.at + offset + 1;
                        return Err(self.unexpected(at, "one of \" \\ f n r t after a backslash"));
                    }
                }),
                '\0'..='\u{1f}' => {
                    let at = self.at + offset;
                    return Err(
                        self.unexpected(at, "an escape such as \\n for a control character")
                    );
                }
                _ => text.push(c),
            }
        }
        Err(self.unexpected(self.source.len(), "a closing double quote"))
    }

    /// `datetime(` RFC 3339 `)`; the word is case-sensitive, `T` and `Z` are not.
    fn datetime(&mut self) -> Result<Kind<'a>, FilterError> {
        const OPEN: &str = "datetime(";
        const EXPECTED: &str = "an RFC 3339 time with offset, such as 2024-01-31T12:00:00Z";
        let inside = self.rest().get(OPEN.len()..).unwrap_or("");
        let Some((inside, _)) = inside.split_once(')') else {
            return Err(self.unexpected(self.source.len(), "')' after the time"));
        };
        let text = inside.trim_matches(|c: char| c.is_ascii() && is_space(c as u8));
        let start = self.at + OPEN.len();
        let separated = matches!(text.as_bytes().get(10), Some(b'T' | b't'));
        let parsed = OffsetDateTime::parse(text, &Rfc3339)
            .ok()
            .filter(|_| separated)
            .and_then(|time| time.checked_to_offset(UtcOffset::UTC))
            .filter(|time| (0..=9999).contains(&time.year()));
        let Some(time) = parsed else {
            let leading = inside.len() - inside.trim_start().len();
            return Err(self.unexpected_text(start + leading, text, EXPECTED));
        };
        self.at = start + inside.len() + 1;
        Ok(Kind::Literal(Literal::Time(time)))
    }

    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at).copied()
    }

    fn skip_one_of(&mut self, wanted: &[u8]) -> bool {
        let there = self.peek().is_some_and(|byte| wanted.contains(&byte));
        self.at += usize::from(there);
        there
    }

    fn unexpected(&self, at: usize, expected: &'static str) -> FilterError {
        let found = self.source.get(at..).and_then(|rest| rest.chars().next());
        match found {
            Some(c) => self.unexpected_text(at, c.encode_utf8(&mut [0; 4]), expected),
            None => self.unexpected_text(at, "<EOF>", expected),
        }
    }

    fn unexpected_text(&self, at: usize, found: &str, expected: &'static str) -> FilterError {
        let found = found.chars().take(60).collect();
        FilterError::new(self.code, self.source, at, Reason::Unexpected { found, expected })
    }
}

/// True for space, tab, CR and LF.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Length in bytes of the name at the start of `text`; the first character must be a letter.
///
/// The first segment has letters and `_`, further ones `-` too. Names have no digits.
fn name_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let run = |from: usize, dash: bool| {
        let tail = bytes.get(from..).unwrap_or_default();
        tail.iter()
            .take_while(|b| b.is_ascii_alphabetic() || **b == b'_' || (dash && **b == b'-'))
            .count()
    };
    let mut end = run(0, false);
    while bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_alphabetic) {
        end += 1 + run(end + 1, true);
    }
    end
}
