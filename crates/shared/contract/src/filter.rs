//! Texts of the filter language, for callers that write filters
//! (docs/protocol/management-api.md 2.5).

/// A text in double quotes, with everything escaped that would end it or change its meaning.
#[must_use]
pub fn filter_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{c}' => quoted.push_str("\\f"),
            // The language cannot express other control characters, which no name contains.
            control if control.is_control() => {}
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_escapes() {
        assert_eq!(filter_text("a\"b\\c\n\u{1}"), "\"a\\\"b\\\\c\\n\"");
    }
}
