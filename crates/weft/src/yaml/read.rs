//! YAML text as values with their lines.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use serde_json::{Map, Number, Value as Json};
use weft_config::spaces_after_colons;

/// Deepest nesting of lists and maps.
const MAX_DEPTH: usize = 64;
/// Most values of a text, including those that aliases repeat.
const MAX_NODES: usize = 1_000_000;
/// Most bytes of words that anchors and aliases repeat.
const MAX_REPEATED: usize = 64 << 20;

/// A value with its line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Line where the value begins, from 1.
    pub(crate) line: usize,
    pub(crate) value: Value,
}

/// Value of a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Null, a boolean, a number or a text.
    Scalar(Json),
    /// A list.
    List(Vec<Node>),
    /// A map, its members in order.
    Map(Vec<Entry>),
}

/// A member of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// Line of the name.
    pub(crate) line: usize,
    pub(crate) node: Node,
}

/// Text that is not YAML, or exceeds a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub(crate) struct SyntaxError {
    /// Line, from 1.
    pub(crate) line: usize,
    /// Column, from 1.
    pub(crate) column: usize,
    pub(crate) message: String,
}

impl Node {
    /// The value without lines.
    pub(crate) fn to_json(&self) -> Json {
        match &self.value {
            Value::Scalar(value) => value.clone(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => Json::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.node.to_json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// The members, if the value is a map.
    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// True if the value is null.
    pub(crate) fn is_null(&self) -> bool {
        self.value == Value::Scalar(Json::Null)
    }

    /// Line of the deepest existing member along a path of names and numbers.
    pub(crate) fn line_of<'p>(&self, path: impl IntoIterator<Item = &'p str>) -> usize {
        let mut node = self;
        let mut line = self.line;
        for step in path {
            let next = match &node.value {
                Value::Scalar(_) => None,
                Value::List(items) => step
                    .parse::<usize>()
                    .ok()
                    .and_then(|at| items.get(at))
                    .map(|item| (item, item.line)),
                Value::Map(entries) => entries
                    .iter()
                    .find(|entry| entry.key == step)
                    .map(|entry| (&entry.node, entry.line)),
            };
            let Some((below, at)) = next else { break };
            (node, line) = (below, at);
        }
        line
    }
}

/// Reads every document of a text.
pub(crate) fn read(text: &str) -> Result<Vec<Node>, SyntaxError> {
    let mut documents = Vec::new();
    let mut builder = Builder::default();
    let (mut nodes, mut repeated) = (0, 0);
    let text = spaces_after_colons(text);
    for event in Parser::new_from_str(&text) {
        let (event, span) = event.map_err(|error| scanned(&error))?;
        match event {
            Event::DocumentStart(_) => builder = Builder { nodes, repeated, ..Builder::default() },
            Event::DocumentEnd => {
                (nodes, repeated) = (builder.nodes, builder.repeated);
                documents.extend(builder.root.take());
            }
            other => builder.take(other, span)?,
        }
    }
    Ok(documents)
}

fn scanned(error: &ScanError) -> SyntaxError {
    SyntaxError {
        line: error.marker().line(),
        column: error.marker().col() + 1,
        message: error.info().to_owned(),
    }
}

fn at(span: Span, message: impl Into<String>) -> SyntaxError {
    SyntaxError { line: span.start.line(), column: span.start.col() + 1, message: message.into() }
}

/// A list or map that is not complete yet.
enum Open {
    List(Vec<Node>),
    /// With the line of each key.
    Map {
        entries: Vec<Entry>,
        key: Option<(String, usize)>,
        lines: HashMap<String, usize>,
    },
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<(Open, usize, usize)>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    /// Bytes of words that anchors and aliases repeat.
    repeated: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), SyntaxError> {
        let line = span.start.line();
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let as_text = tag.is_some_and(|tag| tag.suffix == "str");
                let is_word = style != ScalarStyle::Plain || as_text || self.at_key();
                let value = match is_word {
                    true => Json::String(text.into_owned()),
                    false => resolve(&text).map_err(|message| at(span, message))?,
                };
                self.add(Node { line, value: Value::Scalar(value) }, anchor, span)
            }
            Event::Alias(anchor) => {
                let unknown = || at(span, "an alias to an anchor that is not complete");
                let size = self.anchors.get(&anchor).map(Size::of).ok_or_else(unknown)?;
                self.repeat(size, span)?;
                let node = self.anchors.get(&anchor).cloned().ok_or_else(unknown)?;
                self.add(node, 0, span)
            }
            Event::SequenceStart(anchor, _) => self.begin(Open::List(Vec::new()), anchor, span),
            Event::MappingStart(anchor, _) => {
                let (entries, lines) = (Vec::new(), HashMap::new());
                self.begin(Open::Map { entries, key: None, lines }, anchor, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            _ => Ok(()),
        }
    }

    /// True if the next node is a key. A key is a word even if it looks like a number: `1:` is `"1":`.
    fn at_key(&self) -> bool {
        matches!(self.open.last(), Some((Open::Map { key: None, .. }, ..)))
    }

    fn begin(&mut self, open: Open, anchor: usize, span: Span) -> Result<(), SyntaxError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(at(span, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.open.push((open, anchor, span.start.line()));
        Ok(())
    }

    fn end(&mut self, span: Span) -> Result<(), SyntaxError> {
        let Some((open, anchor, line)) = self.open.pop() else { return Ok(()) };
        let value = match open {
            Open::List(items) => Value::List(items),
            Open::Map { entries, .. } => Value::Map(entries),
        };
        self.add(Node { line, value }, anchor, span)
    }

    /// Counts values that are repeated.
    fn repeat(&mut self, size: Size, span: Span) -> Result<(), SyntaxError> {
        self.nodes += size.nodes;
        self.repeated += size.bytes;
        if self.nodes > MAX_NODES {
            return Err(at(span, format!("more than {MAX_NODES} values")));
        }
        if self.repeated > MAX_REPEATED {
            let most = MAX_REPEATED >> 20;
            return Err(at(span, format!("aliases repeat more than {most} MiB of words")));
        }
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize, span: Span) -> Result<(), SyntaxError> {
        self.nodes += 1;
        let kept = if anchor > 0 { Size::of(&node) } else { Size::default() };
        self.repeat(kept, span)?;
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some((Open::List(items), ..)) => items.push(node),
            Some((Open::Map { entries, key, lines }, ..)) => match key.take() {
                Some((name, line)) => entries.push(Entry { key: name, line, node }),
                None => {
                    let Value::Scalar(Json::String(name)) = node.value else {
                        return Err(at(span, "a key must be a word, not a list or map"));
                    };
                    if let Some(first) = lines.insert(name.clone(), node.line) {
                        return Err(at(span, format!("`{name}` is in line {first} already")));
                    }
                    *key = Some((name, node.line));
                }
            },
        }
        Ok(())
    }
}

/// Number of values in a value, and bytes of its words.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    bytes: usize,
}

impl Size {
    fn of(node: &Node) -> Self {
        let mut size = Self { nodes: 1, bytes: 0 };
        let mut add = |node: &Node, name: &str| {
            let Self { nodes, bytes } = Self::of(node);
            size.nodes += nodes;
            size.bytes += bytes + name.len();
        };
        match &node.value {
            Value::Scalar(Json::String(word)) => size.bytes = word.len(),
            Value::Scalar(_) => {}
            Value::List(items) => items.iter().for_each(|item| add(item, "")),
            Value::Map(entries) => entries.iter().for_each(|entry| add(&entry.node, &entry.key)),
        }
        size
    }
}

/// Meaning of an unquoted word, by the core schema of YAML 1.2.
fn resolve(text: &str) -> Result<Json, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Json::Null,
        "true" | "True" | "TRUE" => Json::Bool(true),
        "false" | "False" | "FALSE" => Json::Bool(false),
        _ => match number(text)? {
            Some(number) => Json::Number(number),
            None => Json::String(text.to_owned()),
        },
    })
}

fn number(text: &str) -> Result<Option<Number>, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(digits, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return Err(format!("`{text}` is no number that can be kept; quote it if it is a word"));
    }
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Ok(None);
    }
    let radix = match digits.get(..2) {
        Some("0x") => Some(16),
        Some("0o") => Some(8),
        _ => None,
    };
    if let Some(radix) = radix {
        let parsed = digits.get(2..).and_then(|rest| u64::from_str_radix(rest, radix).ok());
        return Ok(parsed.filter(|_| digits.len() == text.len()).map(Number::from));
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let plain = text.strip_prefix('+').unwrap_or(text);
        if let Ok(number) = plain.parse::<i64>() {
            return Ok(Some(number.into()));
        }
        if let Ok(number) = plain.parse::<u64>() {
            return Ok(Some(number.into()));
        }
    }
    let is_float = digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    if !is_float {
        return Ok(None);
    }
    // A version like 1.2.3 is a word.
    let Ok(float) = text.parse::<f64>() else { return Ok(None) };
    match Number::from_f64(float) {
        Some(number) => Ok(Some(number)),
        None => Err(format!("`{text}` is too large; quote it if it is a word")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(text: &str) -> Node {
        let mut documents = read(text).unwrap();
        assert_eq!(documents.len(), 1);
        documents.remove(0)
    }

    #[test]
    fn words_are_words_and_numbers_are_numbers() {
        let node = one(
            "a: yes\nb: 010.1.2.3\nc: 1.5\nd: 0x1f\ne: ~\nf: -3\ng: '1'\nh: 12:30\ni: 1.2.3\nj: true",
        );
        assert_eq!(
            node.to_json(),
            json!({"a": "yes", "b": "010.1.2.3", "c": 1.5, "d": 31, "e": null, "f": -3, "g": "1",
                   "h": "12:30", "i": "1.2.3", "j": true})
        );
    }

    #[test]
    fn lines_are_kept() {
        let node = one("services:\n  - name: web\n    configs:\n      - a\n      - b\n");
        assert_eq!(node.line_of(["services", "0"]), 2);
        assert_eq!(node.line_of(["services", "0", "configs", "1"]), 5);
        assert_eq!(node.line_of(["services", "0", "nothing", "x"]), 2);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line, message) in [
            ("a: 1\nb: 2\na: 3", 3, "`a` is in line 1 already"),
            ("a: [1,", 2, ""),
            ("? [x]\n: y", 1, "a key must be a word"),
            ("a: .inf", 1, "no number"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.message.contains(message), "{text}: {error}");
        }
        let bomb: String = (1..40).fold("a0: &a0 [x, x]\n".to_owned(), |text, at| {
            format!("{text}a{at}: &a{at} [*a{0}, *a{0}]\n", at - 1)
        });
        assert!(read(&bomb).unwrap_err().message.contains("more than"));
        let deep = "[".repeat(100);
        assert!(read(&deep).is_err());
    }

    #[test]
    fn aliases_repeat_a_limited_number_of_bytes() {
        let word = "x".repeat(1 << 20);
        let text = |count| format!("a: &a {word}\nb: [{}]\n", vec!["*a"; count].join(", "));
        assert_eq!(read(&text(10)).unwrap().len(), 1);
        let error = read(&text(100)).unwrap_err();
        assert!(error.message.contains("repeat more than 64 MiB"), "{error}");
    }

    #[test]
    fn equal_keys_of_large_maps_are_found() {
        let text: String = (0..200_000).map(|at| format!("k{at}: 1\n")).collect();
        assert_eq!(one(&text).entries().unwrap().len(), 200_000);
        let error = read(&(text + "k7: 2\n")).unwrap_err();
        assert_eq!((error.line, &*error.message), (200_001, "`k7` is in line 8 already"));
    }

    #[test]
    fn documents_are_told_apart() {
        let documents = read("a: 1\n---\nb: 2\n...\n").unwrap();
        assert_eq!(documents.len(), 2);
        assert_eq!(documents[1].to_json(), json!({"b": 2}));
        assert_eq!(documents[1].line_of(["b"]), 3);
        assert!(read("").unwrap().is_empty());
        assert!(read("# only a word\n").unwrap().is_empty());
    }
}
