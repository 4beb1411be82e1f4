//! Builds the tree of a YAML file from the events of the parser; every node has its location in the text.

use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::scalar;
use super::tabs::spaces_after_colons;

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 64;

/// The rules by which a text is read.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The value of an unquoted scalar, or why it has none.
    pub resolve: fn(&str) -> Result<YamlValue, String>,
    /// Whether a key `<<` adds the entries of another map.
    pub merges: bool,
    /// Most nodes of a text, including those that aliases repeat.
    pub max_nodes: usize,
    /// Most bytes of words that anchors and aliases repeat.
    pub max_repeated: usize,
}

/// The rules of configuration files.
const OF_FILES: Rules = Rules {
    resolve: |text| Ok(scalar::resolve(text)),
    merges: true,
    max_nodes: 100_000,
    max_repeated: 16 << 20,
};

/// A location in the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceLocation {
    /// The line, the first being 1; 0 means no location.
    pub line: usize,
    /// The column in characters, the first being 1.
    pub column: usize,
    /// Its length on that line, in characters.
    pub length: usize,
}

impl SourceLocation {
    fn of(span: Span) -> Self {
        let (start, end) = (span.start, span.end);
        let length =
            if start.line() == end.line() { end.col().saturating_sub(start.col()) } else { 1 };
        Self { line: start.line(), column: start.col() + 1, length: length.max(1) }
    }
}

/// A value at its location.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it begins.
    pub location: SourceLocation,
    /// The value.
    pub value: YamlValue,
    /// Names of the variables in it.
    pub variables: Vec<String>,
}

impl Node {
    fn new(location: SourceLocation, value: YamlValue) -> Self {
        Self { location, value, variables: Vec::new() }
    }
}

/// One key of a map with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct MapEntry {
    /// The key.
    pub key: String,
    /// The location of the key.
    pub location: SourceLocation,
    /// The value.
    pub node: Node,
}

/// A key that occurs twice in one map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twice {
    /// The key.
    pub key: String,
    /// Its first location.
    pub first: SourceLocation,
    /// Its last location.
    pub last: SourceLocation,
}

/// A document.
#[derive(Debug)]
pub struct YamlTree {
    /// The outermost value.
    pub root: Node,
    /// The keys that occur twice in a map, of which the last one counts.
    pub twice: Vec<Twice>,
}

/// The value of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum YamlValue {
    /// Nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above the largest [`Int`](Self::Int); configuration files have none.
    Large(u64),
    /// Another number.
    Float(f64),
    /// A word.
    Text {
        /// The word.
        text: String,
        /// True if it has a variable.
        substituted: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A map.
    Map(Vec<MapEntry>),
}

impl YamlValue {
    /// A word without variables.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), substituted: false }
    }

    /// The scalar as text; none for lists and maps.
    pub(crate) fn rendered(&self) -> Option<String> {
        Some(match self {
            Self::Null => String::new(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Large(value) => value.to_string(),
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
            Self::Int(_) | Self::Large(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text { .. } => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// A text that is not YAML, or larger than the limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct SyntaxError {
    /// The line, the first being 1.
    pub line: usize,
    /// The column, the first being 1.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
}

/// Reads the first document of a configuration file. An empty one is null.
pub(crate) fn parse(text: &str) -> Result<YamlTree, SyntaxError> {
    let nothing = || Node::new(SourceLocation { line: 1, column: 1, length: 1 }, YamlValue::Null);
    let first = OF_FILES.read(text, 1)?.pop();
    Ok(first.unwrap_or_else(|| YamlTree { root: nothing(), twice: Vec::new() }))
}

impl Rules {
    /// Reads at most so many documents of a text; those without a value are left out.
    pub fn read(self, text: &str, most: usize) -> Result<Vec<YamlTree>, SyntaxError> {
        let (mut documents, mut ended) = (Vec::new(), 0);
        let mut builder = Builder::new(self);
        let text = spaces_after_colons(text);
        for event in Parser::new_from_str(&text) {
            let (event, span) = event.map_err(|error| from_scan(&error))?;
            if !matches!(event, Event::DocumentEnd) {
                builder.take(event, span)?;
                continue;
            }
            let Builder { nodes, repeated, root, twice, .. } = builder;
            documents.extend(root.map(|root| YamlTree { root, twice }));
            ended += 1;
            if ended >= most {
                break;
            }
            builder = Builder { nodes, repeated, ..Builder::new(self) };
        }
        Ok(documents)
    }
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
    /// With the position of each key among the entries.
    Map {
        entries: Vec<MapEntry>,
        key: Option<(String, SourceLocation)>,
        positions: HashMap<String, usize>,
    },
}

struct Builder {
    rules: Rules,
    root: Option<Node>,
    open: Vec<(Open, usize, SourceLocation)>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    /// Bytes of texts that anchors and aliases repeat.
    repeated: usize,
    twice: Vec<Twice>,
}

impl Builder {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            root: None,
            open: Vec::new(),
            anchors: HashMap::new(),
            nodes: 0,
            repeated: 0,
            twice: Vec::new(),
        }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), SyntaxError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let as_text = tag.is_some_and(|tag| tag.suffix == "str");
                let value = if style == ScalarStyle::Plain && !as_text && !self.at_key() {
                    (self.rules.resolve)(&text).map_err(|message| at(span, message))?
                } else {
                    YamlValue::text(text)
                };
                self.add(Node::new(SourceLocation::of(span), value), anchor, span)
            }
            Event::Alias(anchor) => {
                let unknown = || at(span, "an alias to an anchor that is not complete".to_owned());
                let size = self.anchors.get(&anchor).map(Size::of).ok_or_else(unknown)?;
                self.repeat(size, span)?;
                let node = self.anchors.get(&anchor).cloned().ok_or_else(unknown)?;
                self.add(node, 0, span)
            }
            Event::SequenceStart(anchor, _) => self.begin(Open::List(Vec::new()), anchor, span),
            Event::MappingStart(anchor, _) => {
                let (entries, positions) = (Vec::new(), HashMap::new());
                self.begin(Open::Map { entries, key: None, positions }, anchor, span)
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
        self.open.push((open, anchor, SourceLocation::of(span)));
        Ok(())
    }

    fn end(&mut self, span: Span) -> Result<(), SyntaxError> {
        let Some((open, anchor, location)) = self.open.pop() else { return Ok(()) };
        let value = match open {
            Open::List(items) => YamlValue::List(items),
            Open::Map { entries, .. } if self.rules.merges => YamlValue::Map(merged(entries)),
            Open::Map { entries, .. } => YamlValue::Map(entries),
        };
        self.add(Node::new(location, value), anchor, span)
    }

    /// Counts values that are repeated.
    fn repeat(&mut self, size: Size, span: Span) -> Result<(), SyntaxError> {
        self.nodes += size.nodes;
        self.repeated += size.bytes;
        let Rules { max_nodes, max_repeated, .. } = self.rules;
        if self.nodes > max_nodes {
            return Err(at(span, format!("more than {max_nodes} values")));
        }
        if self.repeated > max_repeated {
            let most = max_repeated >> 20;
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
            Some((Open::Map { entries, key, positions }, ..)) => match key.take() {
                Some((name, location)) => {
                    let entry = MapEntry { key: name, location, node };
                    let merges = self.rules.merges && entry.key == "<<";
                    self.twice.extend(insert(entries, positions, entry, merges));
                }
                None => {
                    let name = node.value.rendered().ok_or_else(|| {
                        at(span, "a key must be a word, not a list or map".to_owned())
                    })?;
                    *key = Some((name, node.location));
                }
            },
        }
        Ok(())
    }
}

/// Adds an entry; the last of several equal keys counts. Merge keys stay as they are until the map
/// is complete.
fn insert(
    entries: &mut Vec<MapEntry>,
    positions: &mut HashMap<String, usize>,
    entry: MapEntry,
    merges: bool,
) -> Option<Twice> {
    let earlier = positions.get(&entry.key).filter(|_| !merges);
    match earlier.and_then(|position| entries.get_mut(*position)) {
        Some(other) => {
            let (first, last) = (other.location, entry.location);
            *other = entry;
            Some(Twice { key: other.key.clone(), first, last })
        }
        None => {
            positions.insert(entry.key.clone(), entries.len());
            entries.push(entry);
            None
        }
    }
}

/// Adds the entries that `<<` refers to; keys of the map itself come first, then those of earlier
/// merges.
fn merged(entries: Vec<MapEntry>) -> Vec<MapEntry> {
    if !entries.iter().any(|entry| entry.key == "<<") {
        return entries;
    }
    let (merges, mut own): (Vec<MapEntry>, Vec<MapEntry>) =
        entries.into_iter().partition(|entry| entry.key == "<<");
    let mut keys: HashSet<String> = own.iter().map(|entry| entry.key.clone()).collect();
    let mut add = |node: Node| {
        let YamlValue::Map(more) = node.value else { return };
        for entry in more {
            if keys.insert(entry.key.clone()) {
                own.push(entry);
            }
        }
    };
    for merge in merges {
        match merge.node.value {
            YamlValue::List(items) => items.into_iter().for_each(&mut add),
            _ => add(merge.node),
        }
    }
    own
}

/// Number of values in a value, and bytes of its texts.
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
            YamlValue::Text { text, .. } => size.bytes = text.len(),
            YamlValue::List(items) => items.iter().for_each(|item| add(item, "")),
            YamlValue::Map(entries) => {
                entries.iter().for_each(|entry| add(&entry.node, &entry.key))
            }
            _ => {}
        }
        size
    }
}

fn at(span: Span, message: String) -> SyntaxError {
    SyntaxError { line: span.start.line(), column: span.start.col() + 1, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(tree: &YamlTree) -> usize {
        match &tree.root.value {
            YamlValue::Map(entries) => entries.len(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn aliases_repeat_a_limited_number_of_bytes() {
        let word = "x".repeat(1 << 20);
        let text = |count| format!("a: &a {word}\nb: [{}]\n", vec!["*a"; count].join(", "));
        assert_eq!(keys(&parse(&text(10)).unwrap()), 2);
        let error = parse(&text(100)).unwrap_err();
        assert!(error.message.contains("repeat more than 16 MiB"), "{}", error.message);
    }

    #[test]
    fn equal_keys_of_large_maps_are_found() {
        const KEYS: usize = 45_000;
        let text: String = (0..KEYS).map(|at| format!("k{at}: 1\n")).collect();
        let tree = parse(&(text + "k7: 2\n")).unwrap();
        assert_eq!((keys(&tree), tree.twice.len()), (KEYS, 1));
        assert_eq!((&*tree.twice[0].key, tree.twice[0].first.line), ("k7", 8));
    }

    #[test]
    fn keys_of_a_map_come_before_merged_ones() {
        let tree = parse("a: &a {x: 1, y: 1}\nb: {<<: *a, <<: {y: 2, z: 2}, x: 3}\n").unwrap();
        let YamlValue::Map(entries) = &tree.root.value else { panic!("a map") };
        let YamlValue::Map(merged) = &entries[1].node.value else { panic!("a map") };
        let found: Vec<_> = merged
            .iter()
            .map(|entry| (&*entry.key, entry.node.value.rendered().unwrap()))
            .collect();
        let wanted = [("x", "3"), ("y", "1"), ("z", "2")];
        assert_eq!(found, wanted.map(|(key, value)| (key, value.to_owned())));
    }
}
