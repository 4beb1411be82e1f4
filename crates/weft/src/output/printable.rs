//! Text from others, made safe for a terminal or a log: it cannot move the cursor, change colours,
//! hide or reorder the text beside it, or begin a line. Such characters are shown as `\u{1b}`.

use std::fmt::{self, Write};

/// Text of several lines, escaped except for ends of lines. Tabs become spaces.
pub(crate) fn lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\t', " ");
    escaped(&text, |one| one == '\n')
}

/// Text in one line, escaped.
pub(crate) fn line(text: &str) -> String {
    escaped(text, |_| false)
}

/// JSON text, escaped so that its meaning stays the same.
pub(crate) fn json(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    for one in text.chars() {
        // Outside of strings JSON has no such characters except ends of lines.
        match one {
            '\n' => said.push('\n'),
            // Every such character has a code of at most four hexadecimal digits, as JSON wants it.
            one if is_unprintable(one) => said.push_str(&format!("\\u{:04x}", u32::from(one))),
            one => said.push(one),
        }
    }
    said
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut said = String::with_capacity(text.len());
    // Writing to a string does not fail.
    let _ = Escaped { to: &mut said, stays }.write_str(text);
    said
}

/// A writer that escapes its text.
struct Escaped<'a, W, F> {
    to: &'a mut W,
    stays: F,
}

impl<W: Write, F: Fn(char) -> bool> Write for Escaped<'_, W, F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(|one| is_unprintable(one) && !(self.stays)(one)) {
            let (before, from) = rest.split_at(at);
            self.to.write_str(before)?;
            let mut chars = from.chars();
            if let Some(one) = chars.next() {
                write!(self.to, "{}", one.escape_default())?;
            }
            rest = chars.as_str();
        }
        self.to.write_str(rest)
    }
}

/// Writes a value in one line.
pub(crate) fn write_line(to: &mut impl Write, value: fmt::Arguments<'_>) -> fmt::Result {
    Escaped { to, stays: |_| false }.write_fmt(value)
}

/// True for control characters, ends of lines, and characters that change the direction of text.
fn is_unprintable(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{61c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_move_a_cursor_is_shown_as_what_it_is() {
        let name = "a\u{1b}[2J\u{9b}1m\u{7}\u{202e}b\r\nc\td\u{7f}";
        assert_eq!(line(name), r"a\u{1b}[2J\u{9b}1m\u{7}\u{202e}b\r\nc\td\u{7f}");
        assert_eq!(lines(name), "a\\u{1b}[2J\\u{9b}1m\\u{7}\\u{202e}b\nc d\\u{7f}");
        assert_eq!(line("Zoë's host 日本 🙂"), "Zoë's host 日本 🙂");
    }

    #[test]
    fn json_says_the_same_without_what_moves_a_cursor() {
        let value = serde_json::json!({"a\u{9b}": ["\u{7f}\u{202e}\u{1b}\n", "ü", "\\u009b"]});
        let text = json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|one| one == '\n' || !is_unprintable(one)), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
