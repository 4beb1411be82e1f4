//! Variables in strings (docs/protocol/config.md 1.2).
//!
//! `$NAME` and `${NAME}` are replaced by the variable's value, or removed without one. The value is
//! not searched for further variables. There is no escape and no default value: the text between
//! the braces is a name.

use super::tree::{Node, SourceLocation, YamlValue};

/// The source of variables.
pub trait Environment {
    /// The value of a variable.
    fn variable(&self, name: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String>> Environment for F {
    fn variable(&self, name: &str) -> Option<String> {
        self(name)
    }
}

/// The variables of the process. `TMP`, `TEMP` and `TMPDIR` are the system's directory for
/// temporary files.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<String> {
        if matches!(name, "TMP" | "TEMP" | "TMPDIR") {
            return Some(std::env::temp_dir().to_string_lossy().into_owned());
        }
        // On some systems a name with these characters cannot be read.
        if name.is_empty() || name.contains(['=', '\0']) {
            return None;
        }
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }
}

/// Replaces variables in every string of a tree; keys and numbers stay as they are. Variables that
/// are not set are passed to `unset`, with the location of the string.
pub(crate) fn expand(
    node: &mut Node,
    environment: &dyn Environment,
    unset: &mut dyn FnMut(SourceLocation, String),
) {
    match &mut node.value {
        YamlValue::Text { text, substituted } if text.contains('$') => {
            let names = names_in(text);
            for name in names.iter().filter(|name| environment.variable(name).is_none()) {
                unset(node.location, name.clone());
            }
            *text = expand_text(text, environment);
            *substituted = true;
            node.variables = names;
        }
        YamlValue::List(items) => {
            items.iter_mut().for_each(|item| expand(item, environment, unset));
        }
        YamlValue::Map(entries) => {
            entries.iter_mut().for_each(|entry| expand(&mut entry.node, environment, unset));
        }
        _ => {}
    }
}

/// The names of the variables in a text.
fn names_in(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let after = rest.get(at + 1..).unwrap_or_default();
        let (name, length) = name_at(after);
        if let Some(name) = name.filter(|name| !out.iter().any(|known| known == name)) {
            out.push(name.to_owned());
        }
        rest = after.get(length..).unwrap_or_default();
    }
    out
}

pub(crate) fn expand_text(text: &str, environment: &dyn Environment) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let after = after.get(1..).unwrap_or_default();
        let (name, length) = name_at(after);
        match name {
            Some(name) => out.push_str(&environment.variable(name).unwrap_or_default()),
            None if length == 0 => out.push('$'),
            None => {}
        }
        rest = after.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// The name after a dollar sign, and the length of the text that belongs to it. Without a name the
/// length is 0, and the dollar sign stays.
fn name_at(text: &str) -> (Option<&str>, usize) {
    let Some(first) = text.chars().next() else { return (None, 0) };
    if first == '{' {
        return match text.find('}') {
            Some(end) => (text.get(1..end).filter(|name| !name.is_empty()), end + 1),
            None => (None, 1),
        };
    }
    if matches!(first, '$' | '*' | '#' | '@' | '!' | '?' | '-' | '0'..='9') {
        return (text.get(..1), 1);
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        return (text.get(..end), end);
    }
    (None, 0)
}
