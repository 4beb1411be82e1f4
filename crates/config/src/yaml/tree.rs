//! The tree of a file.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::scalar;

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 64;
/// Most nodes of a file, including those that aliases repeat.
const MAX_NODES: usize = 100_000;

/// A place in the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The line, the first being 1; 0 means no place.
    pub(crate) line: usize,
    /// The column in characters, the first being 1.
    pub(crate) column: usize,
    /// Its length on that line, in characters.
    pub(crate) length: usize,
}

impl Place {
    fn of(span: Span) -> Self {
        let (start, end) = (span.start, span.end);
        let length =
            if start.line() == end.line() { end.col().saturating_sub(start.col()) } else { 1 };
        Self { line: start.line(), column: start.col() + 1, length: length.max(1) }
    }
}

/// A value at its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
    /// Names of the variables in it.
    pub(crate) variables: Vec<String>,
}

impl Node {
    fn new(place: Place, value: Value) -> Self {
        Self { place, value, variables: Vec::new() }
    }
}

/// One key of a map with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) place: Place,
    pub(crate) node: Node,
}

/// A key that occurs twice in one map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Twice {
    pub(crate) key: String,
    pub(crate) first: Place,
    pub(crate) last: Place,
}

/// The parsed text.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: Node,
    pub(crate) twice: Vec<Twice>,
}

/// The value of a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text {
        text: String,
        /// True if it has a variable.
        substituted: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

impl Value {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), substituted: false }
    }

    /// The scalar as text; none for lists and maps.
    pub(crate) fn rendered(&self) -> Option<String> {
        Some(match self {
            Self::Null => String::new(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Text { text, .. } => text.clone(),
            Self::List(_) | Self::Map(_) => return None,
        })
    }

    /// The kind of the value, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text { .. } => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// A text that is not YAML, or larger than the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: String,
}

/// Reads the first document of a text. An empty one is null.
pub(crate) fn parse(text: &str) -> Result<Tree, SyntaxError> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| from_scan(&error))?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        builder.take(event, span)?;
    }
    let nothing = || Node::new(Place { line: 1, column: 1, length: 1 }, Value::Null);
    Ok(Tree { root: builder.root.unwrap_or_else(nothing), twice: builder.twice })
}

fn from_scan(error: &ScanError) -> SyntaxError {
    SyntaxError {
        line: error.marker().line(),
        column: error.marker().col() + 1,
        message: error.info().to_owned(),
    }
}

/// A list or map that is not complete yet.
enum Open {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<(String, Place)> },
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<(Open, usize, Place)>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    twice: Vec<Twice>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), SyntaxError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let as_text = tag.is_some_and(|tag| tag.suffix == "str");
                let value = if style == ScalarStyle::Plain && !as_text && !self.at_key() {
                    scalar::resolve(&text)
                } else {
                    Value::text(text)
                };
                self.add(Node::new(Place::of(span), value), anchor, span)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned().ok_or_else(|| {
                    at(span, "an alias to an anchor that is not complete".to_owned())
                })?;
                self.nodes += size(&node);
                self.add(node, 0, span)
            }
            Event::SequenceStart(anchor, _) => self.begin(Open::List(Vec::new()), anchor, span),
            Event::MappingStart(anchor, _) => {
                self.begin(Open::Map { entries: Vec::new(), key: None }, anchor, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            _ => Ok(()),
        }
    }

    /// True if the next node is a key: keys are texts, whatever they look like.
    fn at_key(&self) -> bool {
        matches!(self.open.last(), Some((Open::Map { key: None, .. }, ..)))
    }

    fn begin(&mut self, open: Open, anchor: usize, span: Span) -> Result<(), SyntaxError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(at(span, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.open.push((open, anchor, Place::of(span)));
        Ok(())
    }

    fn end(&mut self, span: Span) -> Result<(), SyntaxError> {
        let Some((open, anchor, place)) = self.open.pop() else { return Ok(()) };
        let value = match open {
            Open::List(items) => Value::List(items),
            Open::Map { entries, .. } => Value::Map(merged(entries)),
        };
        self.add(Node::new(place, value), anchor, span)
    }

    fn add(&mut self, node: Node, anchor: usize, span: Span) -> Result<(), SyntaxError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(at(span, format!("more than {MAX_NODES} values")));
        }
        if anchor > 0 {
            self.nodes += size(&node);
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some((Open::List(items), ..)) => items.push(node),
            Some((Open::Map { entries, key }, ..)) => match key.take() {
                Some((name, place)) => {
                    self.twice.extend(insert(entries, Entry { key: name, place, node }));
                }
                None => {
                    let name = node.value.rendered().ok_or_else(|| {
                        at(span, "a key must be a word, not a list or map".to_owned())
                    })?;
                    *key = Some((name, node.place));
                }
            },
        }
        Ok(())
    }
}

/// Adds an entry; the last of several equal keys counts. Merge keys stay as they are until the map
/// is complete.
fn insert(entries: &mut Vec<Entry>, entry: Entry) -> Option<Twice> {
    match entries.iter_mut().find(|other| other.key == entry.key && entry.key != "<<") {
        Some(other) => {
            let (first, last) = (other.place, entry.place);
            *other = entry;
            Some(Twice { key: other.key.clone(), first, last })
        }
        None => {
            entries.push(entry);
            None
        }
    }
}

/// Adds the entries that `<<` refers to; keys of the map itself come first, then those of earlier
/// merges.
fn merged(entries: Vec<Entry>) -> Vec<Entry> {
    if !entries.iter().any(|entry| entry.key == "<<") {
        return entries;
    }
    let (merges, mut own): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|entry| entry.key == "<<");
    let mut add = |node: Node| {
        let Value::Map(more) = node.value else { return };
        for entry in more {
            if !own.iter().any(|other| other.key == entry.key) {
                own.push(entry);
            }
        }
    };
    for merge in merges {
        match merge.node.value {
            Value::List(items) => items.into_iter().for_each(&mut add),
            _ => add(merge.node),
        }
    }
    own
}

fn size(node: &Node) -> usize {
    match &node.value {
        Value::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Map(entries) => 1 + entries.iter().map(|entry| size(&entry.node)).sum::<usize>(),
        _ => 1,
    }
}

fn at(span: Span, message: String) -> SyntaxError {
    SyntaxError { line: span.start.line(), column: span.start.col() + 1, message }
}
