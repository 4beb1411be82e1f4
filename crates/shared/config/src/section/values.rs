//! The getters: each reads one value, checks it, and keeps the facts of its key.

use std::ops::RangeInclusive;
use std::time::Duration;

use weft_wire::Address;

use super::{Item, Section};
use crate::address::{self, HostPort};
use crate::duration::{SignedDuration, parse_duration, show_duration};
use crate::secret;
use crate::yaml::{Node, YamlValue};

impl<'t> Section<'t> {
    /// A list; absent is empty.
    pub(crate) fn list(&self, key: &'static str) -> Vec<Item<'t>> {
        self.list_or(key, "must be a list")
    }

    /// A list; `message` is the mistake if the value is none.
    pub(crate) fn list_or(&self, key: &'static str, message: &str) -> Vec<Item<'t>> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        self.cx.facts.borrow_mut().section(&self.path_of(key), entry.location);
        match &entry.node.value {
            YamlValue::List(nodes) => self.items(key, nodes),
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

    /// A string.
    pub(crate) fn text(&self, key: &'static str) -> Option<String> {
        self.text_or(key, "must be a string")
    }

    /// A string; `message` is the mistake if the value is none.
    pub(crate) fn text_or(&self, key: &'static str, message: &str) -> Option<String> {
        let text = self.raw_text(key, message);
        self.note(key, "string", "", "", text.clone());
        text
    }

    fn raw_text(&self, key: &'static str, message: &str) -> Option<String> {
        match &self.entry(key)?.node.value {
            YamlValue::Text { text, .. } => Some(text.clone()),
            other => {
                let hint = if other.rendered().is_some() { "; put it in quotes" } else { "" };
                self.problem(key, format!("{message}, it is {}{hint}", other.kind()));
                None
            }
        }
    }

    /// A required string that is not blank.
    pub(crate) fn required_text(&self, key: &'static str, missing: &str) -> String {
        let text = if self.has(key) { self.text(key) } else { Some(String::new()) };
        self.describe(key, "string", "", "required");
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
        let texts = match self.entry(key).map(|entry| &entry.node.value) {
            Some(YamlValue::Text { text, .. }) => vec![text.clone()],
            Some(_) => {
                let items = self.list_or(key, "must be a string or a list of strings");
                items.iter().filter_map(Item::text).collect()
            }
            None => Vec::new(),
        };
        let value = self.has(key).then(|| format!("[{}]", texts.join(", ")));
        self.note(key, "list of strings", "", "", value);
        texts
    }

    /// A truth value: any scalar whose text is `true`.
    pub(crate) fn flag(&self, key: &'static str, default: bool) -> bool {
        let truth = self.raw_flag(key);
        let value = Some(truth.unwrap_or(default).to_string());
        self.note(key, "boolean", default.to_string(), "", value);
        truth.unwrap_or(default)
    }

    fn raw_flag(&self, key: &'static str) -> Option<bool> {
        let entry = self.entry(key)?;
        let Some(text) = entry.node.value.rendered() else {
            self.problem(key, format!("must be true or false, it is {}", entry.node.value.kind()));
            return None;
        };
        let truth = text.eq_ignore_ascii_case("true");
        if !truth && !text.eq_ignore_ascii_case("false") {
            self.warn(key, format!("`{text}` counts as false; write true or false"));
        }
        Some(truth)
    }

    /// An integer within bounds.
    pub(crate) fn int<T>(&self, key: &'static str, default: T, bounds: RangeInclusive<i64>) -> T
    where
        T: TryFrom<i64> + ToString,
    {
        let shown = default.to_string();
        let number = self.raw_int(key).filter(|number| self.is_within(key, *number, &bounds));
        let value = number.map(|number| number.to_string());
        self.note(key, "integer", shown, range_of(&bounds), value);
        number.and_then(|number| T::try_from(number).ok()).unwrap_or(default)
    }

    fn is_within(&self, key: &'static str, number: i64, bounds: &RangeInclusive<i64>) -> bool {
        let (low, high) = (bounds.start(), bounds.end());
        if number < *low {
            self.problem(key, format!("{key} must be at least {low}, got {number}"));
        } else if number > *high {
            self.problem(key, format!("{key} must be at most {high}, got {number}"));
        }
        bounds.contains(&number)
    }

    /// An integer; one outside of its bounds is replaced by the bound, with a warning. A negative
    /// one is a mistake.
    pub(crate) fn int_clamped<T>(
        &self,
        key: &'static str,
        default: T,
        bounds: RangeInclusive<i64>,
    ) -> T
    where
        T: TryFrom<i64> + ToString,
    {
        let number =
            self.raw_int(key).filter(|number| self.is_within(key, *number, &(0..=i64::MAX)));
        let clamped = number.map(|number| number.clamp(*bounds.start(), *bounds.end()));
        if let (Some(asked), Some(used)) = (number, clamped)
            && asked != used
        {
            self.warn(key, format!("{asked} is out of bounds, {used} is used"));
        }
        let value = clamped.map(|number| number.to_string());
        self.note(key, "integer", default.to_string(), range_of(&bounds), value);
        clamped.and_then(|number| T::try_from(number).ok()).unwrap_or(default)
    }

    /// True if the value is written as an integer.
    pub(crate) fn is_int(&self, key: &'static str) -> bool {
        self.entry(key).is_some_and(|entry| matches!(entry.node.value, YamlValue::Int(_)))
    }

    /// Any integer. A string counts only if it has a variable.
    pub(crate) fn any_int(&self, key: &'static str) -> Option<i64> {
        let number = self.raw_int(key);
        self.note(key, "integer", "", "", number.map(|number| number.to_string()));
        number
    }

    fn raw_int(&self, key: &'static str) -> Option<i64> {
        let value = &self.entry(key)?.node.value;
        match value {
            YamlValue::Int(number) => Some(*number),
            YamlValue::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
                Some(*number as i64)
            }
            YamlValue::Text { text, substituted: true } => match text.trim().parse() {
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

    /// A number within bounds, with or without a fraction.
    pub(crate) fn number(
        &self,
        key: &'static str,
        default: f64,
        bounds: RangeInclusive<f64>,
    ) -> f64 {
        let number = self.raw_number(key, &bounds);
        let allowed = format!("{}..{}", bounds.start(), bounds.end());
        let value = number.map(|number| number.to_string());
        self.note(key, "number", default.to_string(), allowed, value);
        number.unwrap_or(default)
    }

    fn raw_number(&self, key: &'static str, bounds: &RangeInclusive<f64>) -> Option<f64> {
        let entry = self.entry(key)?;
        let number = match &entry.node.value {
            YamlValue::Int(number) => Some(*number as f64),
            YamlValue::Float(number) => Some(*number),
            YamlValue::Text { text, substituted: true } => text.trim().parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            self.problem(key, format!("must be a number, it is {}", entry.node.value.kind()));
            return None;
        };
        let (low, high) = (bounds.start(), bounds.end());
        if bounds.contains(&number) {
            return Some(number);
        }
        if number > *high {
            self.problem(key, format!("{key} of {number} is larger than maximum value of {high}"));
        } else {
            self.problem(key, format!("{key} of {number} is lower than minimum value of {low}"));
        }
        None
    }

    /// A duration, zero or more.
    pub(crate) fn duration(&self, key: &'static str, default: Duration) -> Duration {
        let duration = self.raw_duration(key);
        self.note_duration(key, show_duration(default), "", duration);
        duration.unwrap_or(default)
    }

    /// An optional duration, zero or more.
    pub(crate) fn opt_duration(&self, key: &'static str) -> Option<Duration> {
        let duration = self.raw_duration(key);
        self.note_duration(key, String::new(), "", duration);
        duration
    }

    fn note_duration(
        &self,
        key: &'static str,
        default: String,
        allowed: &str,
        value: Option<Duration>,
    ) {
        self.note(key, "duration", default, allowed, value.map(show_duration));
    }

    fn raw_duration(&self, key: &'static str) -> Option<Duration> {
        let duration = self.signed_duration(key)?;
        if duration.negative {
            self.problem(key, "must not be negative");
            return None;
        }
        Some(duration.length)
    }

    /// A duration of which zero and less mean never.
    pub(crate) fn duration_or_never(
        &self,
        key: &'static str,
        default: Duration,
    ) -> Option<Duration> {
        let duration = match self.signed_duration(key) {
            Some(duration) => {
                (!duration.negative && !duration.length.is_zero()).then_some(duration.length)
            }
            None => Some(default),
        };
        let value = duration.map_or_else(|| "never".to_owned(), show_duration);
        self.note(key, "duration", show_duration(default), "0 or less: never", Some(value));
        duration
    }

    /// A duration within bounds.
    pub(crate) fn duration_in(
        &self,
        key: &'static str,
        default: Duration,
        bounds: RangeInclusive<Duration>,
    ) -> Duration {
        let (low, high) = (show_duration(*bounds.start()), show_duration(*bounds.end()));
        let duration = self.raw_duration(key).filter(|duration| {
            let got = show_duration(*duration);
            if duration < bounds.start() {
                self.problem(key, format!("{key} of {got} is lower than minimum value of {low}"));
            } else if duration > bounds.end() {
                self.problem(key, format!("{key} of {got} is larger than maximum value of {high}"));
            }
            bounds.contains(duration)
        });
        self.note_duration(key, show_duration(default), &format!("{low}..{high}"), duration);
        duration.unwrap_or(default)
    }

    /// A duration; one outside of its bounds is replaced by the bound, with a warning.
    pub(crate) fn duration_clamped(
        &self,
        key: &'static str,
        default: Duration,
        bounds: RangeInclusive<Duration>,
    ) -> Duration {
        let duration = self.raw_duration(key).unwrap_or(default);
        let clamped = duration.clamp(*bounds.start(), *bounds.end());
        if clamped != duration {
            let (asked, used) = (show_duration(duration), show_duration(clamped));
            self.warn(key, format!("{asked} is out of bounds, {used} is used"));
        }
        let (low, high) = (show_duration(*bounds.start()), show_duration(*bounds.end()));
        let allowed = format!("{low}..{high}");
        self.note_duration(key, show_duration(default), &allowed, Some(clamped));
        clamped
    }

    /// A duration above zero; one below the least that is used is replaced by it, with a warning.
    pub(crate) fn duration_above_zero(
        &self,
        key: &'static str,
        default: Duration,
        least: Duration,
    ) -> Duration {
        let asked = self.raw_duration(key);
        if asked == Some(Duration::ZERO) {
            self.problem(key, "must be more than 0s");
        } else if asked.is_some_and(|asked| asked < least) {
            let (asked, used) = (show_duration(asked.unwrap_or(least)), show_duration(least));
            self.warn(key, format!("{asked} is too often, {used} is used"));
        }
        let used = asked.map(|asked| asked.max(least));
        let allowed = format!("at least {}", show_duration(least));
        self.note_duration(key, show_duration(default), &allowed, used);
        used.unwrap_or(default)
    }

    fn signed_duration(&self, key: &'static str) -> Option<SignedDuration> {
        let entry = self.entry(key)?;
        let parsed = match &entry.node.value {
            YamlValue::Text { text, .. } => parse_duration(text),
            YamlValue::Int(0) => parse_duration("0"),
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

    /// An address with its protocol.
    pub(crate) fn address(&self, key: &'static str) -> Option<Address> {
        let text = self.raw_text(key, "must be a string");
        self.note(key, "address", "", "", text.clone());
        match address::parse(&text?) {
            Ok(address) => Some(address),
            Err(reason) => {
                self.problem(key, reason);
                None
            }
        }
    }

    /// Host and port.
    pub(crate) fn host_port(&self, key: &'static str) -> Option<HostPort> {
        let text = self.raw_text(key, "must be a string");
        self.note(key, "host:port", "", "", text.clone());
        let text = text?;
        match text.parse() {
            Ok(address) => Some(address),
            Err(reason) => {
                let said = match secret::is_secret(key, &text) {
                    true => "invalid value, expected <host>:<port>".to_owned(),
                    false => format!("invalid value {text}: {reason}"),
                };
                self.problem(key, said);
                None
            }
        }
    }

    /// One of some words; the default is one of them.
    pub(crate) fn choice<T: Copy + PartialEq>(
        &self,
        key: &'static str,
        choices: &[(&'static str, T)],
        default: T,
    ) -> T {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let usual = choices.iter().find(|(_, choice)| *choice == default);
        let usual = usual.map_or("", |(name, _)| name);
        let text = self.entry(key).map(|entry| entry.node.value.rendered().unwrap_or_default());
        let chosen = text.as_ref().and_then(|text| choices.iter().find(|(name, _)| name == text));
        self.note(key, "word", usual, names.join(", "), chosen.map(|(name, _)| (*name).to_owned()));
        if let (Some(text), None) = (&text, chosen) {
            let message = format!("invalid value '{text}', must be one of {}", names.join(", "));
            self.unknown_word(key, message, &names);
        }
        chosen.map_or(default, |(_, choice)| *choice)
    }
}

/// Bounds as text.
fn range_of(bounds: &RangeInclusive<i64>) -> String {
    if *bounds.end() == i64::MAX {
        format!("at least {}", bounds.start())
    } else {
        format!("{}..{}", bounds.start(), bounds.end())
    }
}
