//! Facts about each key that was read: its type, its default, its bounds, its value, and where that
//! came from.

use std::collections::HashMap;
use std::fmt;

use crate::yaml::{Node, SourceLocation};

/// A key that a file has, or could have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFact {
    /// Path of the key, such as `link.listeners[0].advertise`.
    pub key: String,
    /// The type of its values, such as `integer` or `duration`.
    pub kind: &'static str,
    /// The value that is used if the file does not have the key; empty = none.
    pub default: String,
    /// The bounds of the values, or the allowed words; empty = any value.
    pub allowed: String,
    /// The value in effect; empty = none.
    pub value: String,
    /// The source of the value in effect.
    pub origin: ValueOrigin,
}

impl KeyFact {
    /// The path of the key without the numbers of elements, such as `listeners[].address`.
    #[must_use]
    pub fn general_key(&self) -> String {
        let mut out = String::with_capacity(self.key.len());
        let mut inside = false;
        for character in self.key.chars() {
            inside = match character {
                '[' => true,
                ']' => false,
                _ => inside,
            };
            if !inside || character == '[' {
                out.push(character);
            }
        }
        out
    }

    /// The allowed values, for people; none if any string is allowed.
    pub(crate) fn allowed_text(&self) -> Option<String> {
        let sort = match self.kind {
            "string" | "word" => String::new(),
            "duration" => "a duration such as 5s or 1m30s".to_owned(),
            "address" => "<type>:<host>:<port>".to_owned(),
            "host:port" => "<host>:<port>".to_owned(),
            other => other.to_owned(),
        };
        let allowed = self.allowed.as_str();
        let mut text = [sort.as_str(), allowed]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ");
        if text.is_empty() {
            return None;
        }
        if !self.default.is_empty() {
            text.push_str(&format!(" (default {})", self.default));
        }
        Some(text)
    }
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// The file does not have the key.
    Default,
    /// The file has the value.
    File {
        /// Line, the first being 1.
        line: usize,
        /// Column, the first being 1.
        column: usize,
    },
    /// The file has the value, with variables of the environment.
    Variables {
        /// Line, the first being 1.
        line: usize,
        /// Column, the first being 1.
        column: usize,
        /// Names of the variables.
        names: Vec<String>,
    },
}

impl ValueOrigin {
    pub(crate) fn of(location: SourceLocation, node: &Node) -> Self {
        let SourceLocation { line, column, .. } = location;
        if node.variables.is_empty() {
            Self::File { line, column }
        } else {
            Self::Variables { line, column, names: node.variables.clone() }
        }
    }

    /// Line and column of the value, if the file has it.
    #[must_use]
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        match self {
            Self::Default => None,
            Self::File { line, column } | Self::Variables { line, column, .. } => {
                Some((*line, *column))
            }
        }
    }
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { line, .. } => write!(f, "line {line}"),
            Self::Variables { line, names, .. } => {
                write!(f, "line {line}, ${}", names.join(", $"))
            }
        }
    }
}

/// The outermost key around a key.
pub(crate) fn section_of(key: &str) -> &str {
    key.split(['.', '[']).next().unwrap_or(key)
}

/// All facts of a file, in the order in which they were asked for.
#[derive(Debug, Clone, Default)]
pub struct FileFacts {
    all: Vec<KeyFact>,
    by_key: HashMap<String, usize>,
    sections: HashMap<String, SourceLocation>,
}

impl FileFacts {
    /// The keys, in the order of the sections.
    #[must_use]
    pub fn all(&self) -> &[KeyFact] {
        &self.all
    }

    /// The position of a key's section among the sections, in the order in which they were read.
    pub fn section_order(&self) -> impl Fn(&str) -> usize + use<> {
        let mut sections: Vec<String> = Vec::new();
        for fact in &self.all {
            let section = section_of(&fact.key);
            if !sections.iter().any(|known| known == section) {
                sections.push(section.to_owned());
            }
        }
        move |key| {
            let found = sections.iter().position(|known| known == section_of(key));
            found.unwrap_or(sections.len())
        }
    }

    pub(crate) fn all_mut(&mut self) -> &mut [KeyFact] {
        &mut self.all
    }

    /// The facts of one key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&KeyFact> {
        self.by_key.get(key).and_then(|index| self.all.get(*index))
    }

    /// Adds facts. Later ones about the same key replace earlier ones.
    pub(crate) fn note(&mut self, fact: KeyFact) {
        match self.by_key.get(&fact.key).and_then(|index| self.all.get_mut(*index)) {
            Some(known) => *known = fact,
            None => {
                self.by_key.insert(fact.key.clone(), self.all.len());
                self.all.push(fact);
            }
        }
    }

    pub(crate) fn in_effect(&mut self, key: &str, value: String) {
        if let Some(known) = self.by_key.get(key).and_then(|index| self.all.get_mut(*index)) {
            known.value = value;
        }
    }

    pub(crate) fn section(&mut self, path: &str, location: SourceLocation) {
        self.sections.insert(path.to_owned(), location);
    }

    /// The location of a key, or of the nearest section around it.
    pub(crate) fn location(&self, key: &str) -> SourceLocation {
        if let Some((line, column)) = self.get(key).and_then(|fact| fact.origin.line_and_column()) {
            return SourceLocation { line, column, length: 1 };
        }
        let mut path = key;
        loop {
            if let Some(location) = self.sections.get(path).filter(|location| location.line > 0) {
                return *location;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = path.get(..end).unwrap_or_default(),
                None => return SourceLocation::default(),
            }
        }
    }
}
