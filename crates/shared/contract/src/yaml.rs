//! Values as YAML text, written so that readers of YAML 1.1 and of 1.2 read the same.

use serde_json::{Map, Value};

/// Spaces of one level of indentation.
const INDENT: usize = 2;

/// A value as a YAML document: block style, two spaces, members in their order.
#[must_use]
pub fn write(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Array(items) if !items.is_empty() => list(items, 0, &mut text),
        Value::Object(members) if !members.is_empty() => map(members, 0, false, &mut text),
        Value::String(word) => text.push_str(&format!("{}\n", quoted(word))),
        other => text.push_str(&format!("{}\n", scalar(other, 0))),
    }
    text
}

/// Writes the members of a map, each on its own line; the first continues the present line.
fn map(members: &Map<String, Value>, level: usize, inline: bool, text: &mut String) {
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 || !inline {
            indent(level, text);
        }
        text.push_str(&key(name));
        text.push(':');
        below(value, level, text);
    }
}

/// Writes the value behind a key.
fn below(value: &Value, level: usize, text: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('\n');
            map(members, level + INDENT, false, text);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            list(items, level + INDENT, text);
        }
        other => {
            text.push(' ');
            text.push_str(&scalar(other, level + INDENT));
            text.push('\n');
        }
    }
}

fn list(items: &[Value], level: usize, text: &mut String) {
    for item in items {
        indent(level, text);
        text.push('-');
        match item {
            Value::Object(members) if !members.is_empty() => {
                text.push(' ');
                map(members, level + INDENT, true, text);
            }
            Value::Array(inner) if !inner.is_empty() => {
                text.push('\n');
                list(inner, level + INDENT, text);
            }
            other => {
                text.push(' ');
                text.push_str(&scalar(other, level + INDENT));
                text.push('\n');
            }
        }
    }
}

fn indent(level: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', level));
}

fn scalar(value: &Value, level: usize) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => number(&value.to_string()),
        Value::String(value) => block(value, level).unwrap_or_else(|| quoted(value)),
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
    }
}

/// Adds a point to a number with an exponent, which readers expect.
fn number(text: &str) -> String {
    match text.split_once(['e', 'E']) {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => text.to_owned(),
    }
}

fn key(name: &str) -> String {
    // Longer keys would need another form.
    quoted(name)
}

/// Several lines as a block behind `|`; `None` if the text cannot be written so.
fn block(text: &str, level: usize) -> Option<String> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let is_block = body.contains('\n')
        && !body.ends_with('\n')
        && body.lines().all(|line| !line.ends_with([' ', '\t']))
        && !body.starts_with([' ', '\n', '\t'])
        && text.chars().all(|c| c == '\n' || c == '\t' || is_printable(c));
    if !is_block {
        return None;
    }
    let mut block = if text.ends_with('\n') { "|" } else { "|-" }.to_owned();
    for line in body.split('\n') {
        block.push('\n');
        if !line.is_empty() {
            indent(level, &mut block);
            block.push_str(line);
        }
    }
    Some(block)
}

/// One line: unquoted if it cannot be misread, else in quotes.
fn quoted(text: &str) -> String {
    if is_bare(text) {
        return text.to_owned();
    }
    if text.chars().all(is_printable) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other if is_printable(other) => quoted.push(other),
            other if u32::from(other) <= 0xffff => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(other)));
            }
            other => quoted.push_str(&format!("\\U{:08x}", u32::from(other))),
        }
    }
    quoted.push('"');
    quoted
}

fn is_printable(character: char) -> bool {
    matches!(character, ' '..='~' | '\u{a0}'..='\u{61b}' | '\u{61d}'..='\u{2027}' | '\u{202f}'..='\u{2065}' | '\u{206a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

/// True if a text needs no quotes: it begins with a letter, has no special characters, and is no
/// word with a meaning.
fn is_bare(text: &str) -> bool {
    const WORDS: &[&str] =
        &["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"];
    let begins = text.chars().next().is_some_and(|first| first.is_alphabetic() || first == '/');
    begins
        && !text.ends_with([' ', ':'])
        && text.chars().all(|c| {
            c.is_alphanumeric() && is_printable(c)
                || matches!(c, ' ' | '.' | '_' | '-' | '/' | ':' | '@' | '+' | '(' | ')' | ';')
        })
        && !text.contains(": ")
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_are_indented_as_people_expect() {
        let text = write(&json!({
            "services": [
                {"name": "web", "configs": ["web-host"], "tags": {}, "roleAttributes": []},
                {"name": "db", "data": {"port": 80, "address": "10.0.0.1"}},
            ],
            "pem": "-----BEGIN\nabc\n-----END\n",
            "roles": ["#all", "@laptop", "yes", "plain words", "https://x:1/y"],
        }));
        assert_eq!(
            text,
            "services:\n\
             \x20 - name: web\n\
             \x20   configs:\n\
             \x20     - web-host\n\
             \x20   tags: {}\n\
             \x20   roleAttributes: []\n\
             \x20 - name: db\n\
             \x20   data:\n\
             \x20     port: 80\n\
             \x20     address: '10.0.0.1'\n\
             pem: |\n\
             \x20 -----BEGIN\n\
             \x20 abc\n\
             \x20 -----END\n\
             roles:\n\
             \x20 - '#all'\n\
             \x20 - '@laptop'\n\
             \x20 - 'yes'\n\
             \x20 - plain words\n\
             \x20 - https://x:1/y\n"
        );
    }
}
