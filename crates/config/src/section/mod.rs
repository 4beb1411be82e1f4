//! Reading a section key by key.
//!
//! Every getter names a key, its default and its bounds, notes what is wrong with its line, and
//! goes on with the default, so that one start shows all problems of a file. When a section has
//! been read, the keys nobody asked for are the unknown ones.

use std::{
    cell::{Cell, RefCell},
    ops::RangeInclusive,
    time::Duration,
};

use crate::{
    address::{Address, HostPort},
    duration::parse_duration,
    error::KeyAt,
    suggest,
    yaml::{Entry, Node, Value},
};

/// Problems and warnings of one file, while it is read.
#[derive(Debug, Default)]
pub(crate) struct Context {
    pub(crate) problems: RefCell<Vec<KeyAt>>,
    pub(crate) warnings: RefCell<Vec<KeyAt>>,
}

impl Context {
    pub(crate) fn problem(&self, key: impl Into<String>, line: usize, message: impl Into<String>) {
        let problem = KeyAt { key: key.into(), line, message: message.into() };
        self.problems.borrow_mut().push(problem);
    }

    pub(crate) fn warn(&self, key: impl Into<String>, line: usize, message: impl Into<String>) {
        let warning = KeyAt { key: key.into(), line, message: message.into() };
        self.warnings.borrow_mut().push(warning);
    }
}

/// A map of the file. An absent one is empty and gives defaults for everything.
#[derive(Debug)]
pub(crate) struct Section<'t> {
    cx: &'t Context,
    path: String,
    line: usize,
    entries: Option<&'t [Entry]>,
    asked: RefCell<Vec<&'static str>>,
    /// Whether upper and lower case are the same in keys.
    any_case: Cell<bool>,
    /// Whether unknown keys are nobody's business.
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
    /// The file itself.
    pub(crate) fn root(cx: &'t Context, node: &'t Node) -> Self {
        let entries = match &node.value {
            Value::Map(entries) => Some(entries.as_slice()),
            Value::Null => None,
            other => {
                cx.problem(
                    "",
                    node.line,
                    format!("the file must be a map, it is {}", other.kind()),
                );
                None
            }
        };
        Self::new(cx, String::new(), node.line, entries)
    }

    fn new(cx: &'t Context, path: String, line: usize, entries: Option<&'t [Entry]>) -> Self {
        Self {
            cx,
            path,
            line,
            entries,
            asked: RefCell::new(Vec::new()),
            any_case: Cell::new(false),
            open: Cell::new(false),
        }
    }

    /// Whether the section is in the file.
    pub(crate) fn is_present(&self) -> bool {
        self.entries.is_some()
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

    fn entry(&self, key: &'static str) -> Option<&'t Entry> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        let same = |entry: &&Entry| {
            entry.key == key || (self.any_case.get() && entry.key.eq_ignore_ascii_case(key))
        };
        let entry = self.entries?.iter().find(same)?;
        (entry.node.value != Value::Null).then_some(entry)
    }

    /// Whether a key has a value.
    pub(crate) fn has(&self, key: &'static str) -> bool {
        self.entry(key).is_some()
    }

    /// Notes a problem with a key; with one that is absent it is placed at the section.
    pub(crate) fn problem(&self, key: &'static str, message: impl Into<String>) {
        self.cx.problem(self.path_of(key), self.line_of(key), message);
    }

    /// Warns about a key.
    pub(crate) fn warn(&self, key: &'static str, message: impl Into<String>) {
        self.cx.warn(self.path_of(key), self.line_of(key), message);
    }

    fn line_of(&self, key: &'static str) -> usize {
        let absent = if self.entries.is_some() && !self.path.is_empty() { self.line } else { 0 };
        self.entry(key).map_or(absent, |entry| entry.line)
    }

    /// A map below this one.
    pub(crate) fn section(&self, key: &'static str) -> Section<'t> {
        let entry = self.entry(key);
        let entries = match entry.map(|entry| &entry.node.value) {
            Some(Value::Map(entries)) => Some(entries.as_slice()),
            Some(other) => {
                self.problem(key, format!("must be a map, it is {}", other.kind()));
                None
            }
            None => None,
        };
        let line = entry.map_or(0, |entry| entry.line);
        Section::new(self.cx, self.path_of(key), line, entries)
    }

    /// A list; absent is empty.
    pub(crate) fn list(&self, key: &'static str) -> Vec<Item<'t>> {
        self.list_or(key, "must be a list")
    }

    /// A list, with the words for something else in its place.
    pub(crate) fn list_or(&self, key: &'static str, message: &str) -> Vec<Item<'t>> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        match &entry.node.value {
            Value::List(nodes) => self.items(key, nodes),
            other => {
                self.problem(key, format!("{message}, it is {}", other.kind()));
                Vec::new()
            }
        }
    }

    fn items(&self, key: &'static str, nodes: &'t [Node]) -> Vec<Item<'t>> {
        let path = self.path_of(key);
        let item = |(index, node)| Item { cx: self.cx, path: format!("{path}[{index}]"), node };
        nodes.iter().enumerate().map(item).collect()
    }

    /// Every key of the section as an item, for maps with free keys.
    pub(crate) fn named(&self) -> Vec<(&'t str, Item<'t>)> {
        self.allow_unknown();
        let item = |entry: &'t Entry| {
            let path = self.path_of(&entry.key);
            (entry.key.as_str(), Item { cx: self.cx, path, node: &entry.node })
        };
        self.entries.unwrap_or_default().iter().map(item).collect()
    }

    /// A string.
    pub(crate) fn text(&self, key: &'static str) -> Option<String> {
        self.text_or(key, "must be a string")
    }

    /// A string, with the words for something else in its place.
    pub(crate) fn text_or(&self, key: &'static str, message: &str) -> Option<String> {
        match &self.entry(key)?.node.value {
            Value::Text { text, .. } => Some(text.clone()),
            other => {
                let hint = if other.rendered().is_some() { "; put it in quotes" } else { "" };
                self.problem(key, format!("{message}, it is {}{hint}", other.kind()));
                None
            }
        }
    }

    /// A string that must be there and not be blank.
    pub(crate) fn required_text(&self, key: &'static str, missing: &str) -> String {
        let text = if self.has(key) { self.text(key) } else { Some(String::new()) };
        match text {
            Some(text) if text.trim().is_empty() => {
                self.problem(key, missing);
                String::new()
            }
            Some(text) => text,
            None => String::new(),
        }
    }

    /// A string or a list of strings.
    pub(crate) fn texts(&self, key: &'static str) -> Vec<String> {
        match self.entry(key).map(|entry| &entry.node.value) {
            Some(Value::Text { text, .. }) => vec![text.clone()],
            Some(_) => {
                let items = self.list_or(key, "must be a string or a list of strings");
                items.iter().filter_map(Item::text).collect()
            }
            None => Vec::new(),
        }
    }

    /// A truth value: any scalar whose text is `true`.
    pub(crate) fn flag(&self, key: &'static str, default: bool) -> bool {
        let Some(entry) = self.entry(key) else { return default };
        let Some(text) = entry.node.value.rendered() else {
            self.problem(key, format!("must be true or false, it is {}", entry.node.value.kind()));
            return default;
        };
        let truth = text.eq_ignore_ascii_case("true");
        if !truth && !text.eq_ignore_ascii_case("false") {
            self.warn(key, format!("`{text}` counts as false; write true or false"));
        }
        truth
    }

    /// An integer within bounds.
    pub(crate) fn int<T>(&self, key: &'static str, default: T, bounds: RangeInclusive<i64>) -> T
    where
        T: TryFrom<i64>,
    {
        let Some(number) = self.any_int(key) else { return default };
        if number < *bounds.start() {
            self.problem(key, format!("{key} must be at least {}, got {number}", bounds.start()));
            return default;
        }
        match T::try_from(number) {
            Ok(number_in_type) if number <= *bounds.end() => number_in_type,
            _ => {
                self.problem(key, format!("{key} must be at most {}, got {number}", bounds.end()));
                default
            }
        }
    }

    /// Whether the value is written as an integer.
    pub(crate) fn is_int(&self, key: &'static str) -> bool {
        self.entry(key).is_some_and(|entry| matches!(entry.node.value, Value::Int(_)))
    }

    /// Any integer. A string counts only if a variable was put into it.
    pub(crate) fn any_int(&self, key: &'static str) -> Option<i64> {
        let value = &self.entry(key)?.node.value;
        match value {
            Value::Int(number) => Some(*number),
            Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
                Some(*number as i64)
            }
            Value::Text { text, substituted: true } => match text.trim().parse() {
                Ok(number) => Some(number),
                Err(_) => {
                    self.problem(key, format!("must be an integer, the variable gives `{text}`"));
                    None
                }
            },
            other => {
                self.problem(key, format!("must be an integer, it is {}", other.kind()));
                None
            }
        }
    }

    /// A number within bounds; integers are numbers too.
    pub(crate) fn number(
        &self,
        key: &'static str,
        default: f64,
        bounds: RangeInclusive<f64>,
    ) -> f64 {
        let Some(entry) = self.entry(key) else { return default };
        let number = match &entry.node.value {
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::Text { text, substituted: true } => text.trim().parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            self.problem(key, format!("must be a number, it is {}", entry.node.value.kind()));
            return default;
        };
        if bounds.contains(&number) {
            return number;
        }
        let (low, high) = (bounds.start(), bounds.end());
        if number < *low {
            self.problem(key, format!("{key} of {number} is lower than minimum value of {low}"));
        } else {
            self.problem(key, format!("{key} of {number} is larger than maximum value of {high}"));
        }
        default
    }

    /// A duration, not below zero.
    pub(crate) fn duration(&self, key: &'static str, default: Duration) -> Duration {
        self.opt_duration(key).unwrap_or(default)
    }

    /// A duration that may be absent, not below zero.
    pub(crate) fn opt_duration(&self, key: &'static str) -> Option<Duration> {
        let duration = self.signed_duration(key)?;
        if duration.negative {
            self.problem(key, "must not be negative");
            return None;
        }
        Some(duration.length)
    }

    /// A duration where zero and below mean never.
    pub(crate) fn duration_or_never(
        &self,
        key: &'static str,
        default: Duration,
    ) -> Option<Duration> {
        match self.signed_duration(key) {
            Some(duration) => {
                (!duration.negative && !duration.length.is_zero()).then_some(duration.length)
            }
            None => Some(default),
        }
    }

    /// A duration within bounds.
    pub(crate) fn duration_in(
        &self,
        key: &'static str,
        default: Duration,
        bounds: RangeInclusive<Duration>,
    ) -> Duration {
        let Some(duration) = self.opt_duration(key) else { return default };
        let show = crate::duration::show_duration;
        if duration < *bounds.start() {
            let (got, low) = (show(duration), show(*bounds.start()));
            self.problem(key, format!("{key} of {got} is lower than minimum value of {low}"));
            return default;
        }
        if duration > *bounds.end() {
            let (got, high) = (show(duration), show(*bounds.end()));
            self.problem(key, format!("{key} of {got} is larger than maximum value of {high}"));
            return default;
        }
        duration
    }

    /// A duration that is moved into its bounds with a warning.
    pub(crate) fn duration_clamped(
        &self,
        key: &'static str,
        default: Duration,
        bounds: RangeInclusive<Duration>,
    ) -> Duration {
        let duration = self.duration(key, default);
        let clamped = duration.clamp(*bounds.start(), *bounds.end());
        if clamped != duration {
            let show = crate::duration::show_duration;
            self.warn(
                key,
                format!("{} is out of bounds, {} is used", show(duration), show(clamped)),
            );
        }
        clamped
    }

    fn signed_duration(&self, key: &'static str) -> Option<crate::duration::SignedDuration> {
        let entry = self.entry(key)?;
        let parsed = match &entry.node.value {
            Value::Text { text, .. } => parse_duration(text),
            Value::Int(0) => parse_duration("0"),
            other => Err(format!("it is {}", other.kind())),
        };
        match parsed {
            Ok(duration) => Some(duration),
            Err(reason) => {
                self.problem(key, format!("must be a duration such as 5s or 1m30s: {reason}"));
                None
            }
        }
    }

    /// An address with type.
    pub(crate) fn address(&self, key: &'static str) -> Option<Address> {
        let text = self.text(key)?;
        match text.parse() {
            Ok(address) => Some(address),
            Err(reason) => {
                self.problem(key, reason);
                None
            }
        }
    }

    /// Host and port.
    pub(crate) fn host_port(&self, key: &'static str) -> Option<HostPort> {
        let text = self.text(key)?;
        match text.parse() {
            Ok(address) => Some(address),
            Err(reason) => {
                self.problem(key, format!("invalid value {text}: {reason}"));
                None
            }
        }
    }

    /// One word of a few.
    pub(crate) fn choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&'static str, T)],
        default: T,
    ) -> T {
        let Some(entry) = self.entry(key) else { return default };
        let text = entry.node.value.rendered().unwrap_or_default();
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text) {
            return *choice;
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        self.problem(key, format!("invalid value '{text}', must be one of {}", names.join(", ")));
        default
    }

    /// Keys that are accepted and change nothing, without a word.
    pub(crate) fn ignore(&self, keys: &[&'static str]) {
        self.asked.borrow_mut().extend_from_slice(keys);
    }
}

impl Drop for Section<'_> {
    /// What nobody asked for is unknown.
    fn drop(&mut self) {
        if self.open.get() {
            return;
        }
        let asked = self.asked.borrow();
        for entry in self.entries.unwrap_or_default() {
            let known = asked.iter().any(|key| {
                *key == entry.key || (self.any_case.get() && entry.key.eq_ignore_ascii_case(key))
            });
            if known || entry.key == "<<" {
                continue;
            }
            let message = match suggest::nearest(&entry.key, asked.iter().copied()) {
                Some(near) => format!("unknown key, it is ignored; did you mean `{near}`?"),
                None => "unknown key, it is ignored".to_owned(),
            };
            self.cx.warn(self.path_of(&entry.key), entry.line, message);
        }
    }
}

impl<'t> Item<'t> {
    /// The item as a map.
    pub(crate) fn section(&self) -> Option<Section<'t>> {
        self.section_or("must be a map")
    }

    /// The item as a map, with the words for something else in its place.
    pub(crate) fn section_or(&self, message: &str) -> Option<Section<'t>> {
        match &self.node.value {
            Value::Map(entries) => {
                Some(Section::new(self.cx, self.path.clone(), self.node.line, Some(entries)))
            }
            other => {
                self.problem(format!("{message}, it is {}", other.kind()));
                None
            }
        }
    }

    /// The item as a string.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.node.value {
            Value::Text { text, .. } => Some(text.clone()),
            other => {
                self.problem(format!("must be a string, it is {}", other.kind()));
                None
            }
        }
    }

    /// The item as an address.
    pub(crate) fn address(&self) -> Option<Address> {
        let text = self.text()?;
        match text.parse() {
            Ok(address) => Some(address),
            Err(reason) => {
                self.problem(reason);
                None
            }
        }
    }

    /// Notes a problem with the item.
    pub(crate) fn problem(&self, message: impl Into<String>) {
        self.cx.problem(self.path.clone(), self.node.line, message);
    }
}
