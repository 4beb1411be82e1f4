//! Reading a section key by key.
//!
//! Every getter names a key, its default and its bounds. It notes a mistake with its location and goes
//! on with the default, so that one reading shows all mistakes of a file. The facts of its key are
//! kept as a [`KeyFact`](crate::KeyFact): the value in effect, its source, the allowed values. When
//! a section has been read, the keys that no getter named are the unknown ones.

mod item;
mod values;

use std::cell::{Cell, RefCell};

use crate::error::KeyAt;
use crate::facts::{FileFacts, KeyFact, ValueOrigin};
use crate::yaml::{MapEntry, Node, SourceLocation, YamlValue};
use crate::{secret, suggest};

/// Problems, warnings and facts of one file, while it is read.
#[derive(Debug, Default)]
pub(crate) struct Context {
    pub(crate) problems: RefCell<Vec<KeyAt>>,
    pub(crate) warnings: RefCell<Vec<KeyAt>>,
    pub(crate) facts: RefCell<FileFacts>,
    /// True if nothing that the file names is looked at.
    pub(crate) is_alone: bool,
}

impl Context {
    fn problem(&self, problem: KeyAt) {
        self.problems.borrow_mut().push(problem);
    }

    pub(crate) fn warn(&self, warning: KeyAt) {
        self.warnings.borrow_mut().push(warning);
    }
}

/// A map of the file. An absent one is empty and gives defaults for everything.
#[derive(Debug)]
pub(crate) struct Section<'t> {
    cx: &'t Context,
    path: String,
    location: SourceLocation,
    entries: Option<&'t [MapEntry]>,
    asked: RefCell<Vec<&'static str>>,
    /// True if upper and lower case are the same in keys.
    any_case: Cell<bool>,
    /// True if unknown keys are not reported.
    open: Cell<bool>,
}

/// An element of a list.
#[derive(Debug)]
pub(crate) struct Item<'t> {
    cx: &'t Context,
    pub(crate) path: String,
    pub(crate) node: &'t Node,
}

impl<'t> Section<'t> {
    /// The type of a key without effect.
    const IGNORED: &'static str = "ignored";

    /// The file itself.
    pub(crate) fn root(cx: &'t Context, node: &'t Node) -> Self {
        let entries = match &node.value {
            YamlValue::Map(entries) => Some(entries.as_slice()),
            YamlValue::Null => None,
            other => {
                let text = format!("the file must be a map, it is {}", other.kind());
                cx.problem(KeyAt::new("", text).at(node.location));
                None
            }
        };
        Self::new(cx, String::new(), node.location, entries)
    }

    fn new(
        cx: &'t Context,
        path: String,
        location: SourceLocation,
        entries: Option<&'t [MapEntry]>,
    ) -> Self {
        Self {
            cx,
            path,
            location,
            entries,
            asked: RefCell::new(Vec::new()),
            any_case: Cell::new(false),
            open: Cell::new(false),
        }
    }

    /// True if the section is in the file.
    pub(crate) fn is_present(&self) -> bool {
        self.entries.is_some()
    }

    /// True if nothing that the file names is looked at.
    pub(crate) fn is_alone(&self) -> bool {
        self.cx.is_alone
    }

    /// Its path in the file.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The path of a key in it.
    pub(crate) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Upper and lower case are the same in the keys of this section.
    pub(crate) fn any_case(&self) {
        self.any_case.set(true);
    }

    /// Unknown keys are not reported for this section.
    pub(crate) fn allow_unknown(&self) {
        self.open.set(true);
    }

    fn entry(&self, key: &'static str) -> Option<&'t MapEntry> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        let same = |entry: &&MapEntry| {
            entry.key == key || (self.any_case.get() && entry.key.eq_ignore_ascii_case(key))
        };
        let entry = self.entries?.iter().find(same)?;
        (entry.node.value != YamlValue::Null).then_some(entry)
    }

    /// True if a key has a value.
    pub(crate) fn has(&self, key: &'static str) -> bool {
        self.entry(key).is_some()
    }

    /// Notes a mistake in a key; for an absent key its location is that of the section.
    pub(crate) fn problem(&self, key: &'static str, message: impl Into<String>) {
        self.cx.problem(self.about(key, message));
    }

    /// Notes that a key is missing, at the location of the key that asks for it.
    pub(crate) fn problem_beside(
        &self,
        key: &'static str,
        beside: &'static str,
        message: impl Into<String>,
    ) {
        let location =
            self.entry(beside).map_or_else(SourceLocation::default, |entry| entry.location);
        self.cx.problem(KeyAt::new(self.path_of(key), message).at(location));
    }

    /// Notes a value that is none of the allowed words.
    pub(crate) fn unknown_word(&self, key: &'static str, message: String, words: &[&str]) {
        let word = self.entry(key).and_then(|entry| entry.node.value.rendered());
        let near = word.and_then(|word| suggest::nearest(&word, words.iter().copied()));
        let problem = KeyAt { allowed: Some(words.join(", ")), ..self.about(key, message) };
        self.cx.problem(KeyAt { suggestion: near.map(str::to_owned), ..problem });
    }

    /// Warns about a key.
    pub(crate) fn warn(&self, key: &'static str, message: impl Into<String>) {
        self.cx.warn(self.about(key, message));
    }

    fn about(&self, key: &'static str, message: impl Into<String>) -> KeyAt {
        let path = self.path_of(key);
        let entry = self.entry(key);
        let found = entry.and_then(|entry| shown(&path, &entry.node));
        let value = entry.and_then(|entry| entry.node.value.rendered()).unwrap_or_default();
        let message = secret::without(&path, &value, message.into());
        KeyAt { found, ..KeyAt::new(path, message).at(self.location_of(key)) }
    }

    /// The location of a key's value, or for a list or map that of the key. The location of an absent key
    /// is that of the section.
    fn location_of(&self, key: &'static str) -> SourceLocation {
        match self.entry(key) {
            Some(entry) => location_of(entry),
            None if self.entries.is_some() && !self.path.is_empty() => self.location,
            None => SourceLocation::default(),
        }
    }

    /// Keeps the facts of a key. Without a value in the file, its value is the default.
    fn note(
        &self,
        key: &'static str,
        kind: &'static str,
        default: impl Into<String>,
        allowed: impl Into<String>,
        value: Option<String>,
    ) {
        let path = self.path_of(key);
        let default = default.into();
        let origin = match self.entry(key) {
            Some(entry) => ValueOrigin::of(location_of(entry), &entry.node),
            None => ValueOrigin::Default,
        };
        let value = value.unwrap_or_else(|| default.clone());
        let value =
            if secret::is_secret(&path, &value) { secret::HIDDEN.to_owned() } else { value };
        let allowed = allowed.into();
        let fact = KeyFact { key: path, kind, default, allowed, value, origin };
        self.cx.facts.borrow_mut().note(fact);
    }

    /// Replaces the facts of a getter: the allowed values, and the value if the key is absent.
    pub(crate) fn describe(
        &self,
        key: &'static str,
        kind: &'static str,
        default: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        let default = default.into();
        let path = self.path_of(key);
        let given = self.cx.facts.borrow().get(&path).map(|fact| fact.value.clone());
        let given = given.or_else(|| self.entry(key).and_then(|entry| shown(&path, &entry.node)));
        let value = given.filter(|_| self.has(key));
        self.note(key, kind, default, allowed, value);
    }

    /// Notes that the value in effect is not that of the file.
    pub(crate) fn in_effect(&self, key: &'static str, value: impl Into<String>) {
        self.cx.facts.borrow_mut().in_effect(&self.path_of(key), value.into());
    }

    /// A map below this one.
    pub(crate) fn section(&self, key: &'static str) -> Section<'t> {
        let entry = self.entry(key);
        let entries = match entry.map(|entry| &entry.node.value) {
            Some(YamlValue::Map(entries)) => Some(entries.as_slice()),
            Some(other) => {
                self.problem(key, format!("must be a map, it is {}", other.kind()));
                None
            }
            None => None,
        };
        let location = entry.map_or_else(SourceLocation::default, |entry| entry.location);
        let path = self.path_of(key);
        self.cx.facts.borrow_mut().section(&path, location);
        Section::new(self.cx, path, location, entries)
    }

    /// Every key of the section as an item, for maps with free keys.
    pub(crate) fn named(&self) -> Vec<(&'t str, Item<'t>)> {
        self.allow_unknown();
        let item = |entry: &'t MapEntry| {
            let path = self.path_of(&entry.key);
            (entry.key.as_str(), Item { cx: self.cx, path, node: &entry.node })
        };
        self.entries.unwrap_or_default().iter().map(item).collect()
    }

    /// Accepts keys without effect, silently.
    pub(crate) fn ignore(&self, keys: &[&'static str]) {
        for &key in keys {
            let value = self.entry(key).map(|entry| match shown(key, &entry.node) {
                Some(text) => text,
                None => entry.node.value.kind().to_owned(),
            });
            self.note(key, Self::IGNORED, "", "", value);
        }
    }

    /// Notes an unknown key. A misspelling of another key that the file lacks is a mistake, because
    /// its value would be lost. Any other unknown key may be for another program and is ignored, as
    /// in the original.
    fn unknown(&self, entry: &MapEntry, asked: &[&'static str]) {
        let absent = |key: &&&'static str| {
            let given = |entry: &MapEntry| {
                entry.key == **key || (self.any_case.get() && entry.key.eq_ignore_ascii_case(key))
            };
            !self.entries.unwrap_or_default().iter().any(given)
        };
        let candidates = asked.iter().filter(absent).copied();
        let path = self.path_of(&entry.key);
        match suggest::nearest(&entry.key, candidates) {
            Some(near) => {
                let text = format!("unknown key; did you mean `{near}`?");
                let problem = KeyAt::new(path, text).at(entry.location);
                self.cx.problem(KeyAt { suggestion: Some(near.to_owned()), ..problem });
            }
            None => {
                let near = suggest::nearest(&entry.key, asked.iter().copied());
                let text = match near {
                    Some(near) => format!("unknown key, it is ignored; did you mean `{near}`?"),
                    None => "unknown key, it is ignored".to_owned(),
                };
                let warning = KeyAt::new(path, text).at(entry.location);
                let suggestion = near.map(str::to_owned);
                self.cx.warn(KeyAt { suggestion, ..warning });
            }
        }
    }
}

impl Drop for Section<'_> {
    /// Keys that no getter named are unknown.
    fn drop(&mut self) {
        if self.open.get() {
            return;
        }
        let asked = self.asked.borrow();
        for entry in self.entries.unwrap_or_default() {
            let known = asked.iter().any(|key| {
                *key == entry.key || (self.any_case.get() && entry.key.eq_ignore_ascii_case(key))
            });
            if !known && entry.key != "<<" {
                self.unknown(entry, &asked);
            }
        }
    }
}

fn location_of(entry: &MapEntry) -> SourceLocation {
    // The value of an alias is at another location.
    let is_here = entry.node.location.line == entry.location.line;
    let is_scalar = entry.node.value.rendered().is_some();
    if is_here && is_scalar { entry.node.location } else { entry.location }
}

/// A value in the form to be shown; none for lists and maps.
fn shown(path: &str, node: &Node) -> Option<String> {
    let text = node.value.rendered()?;
    Some(if secret::is_secret(path, &text) { secret::HIDDEN.to_owned() } else { text })
}
