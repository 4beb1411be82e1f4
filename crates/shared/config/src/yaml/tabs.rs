//! Tabs between a colon and a value, which YAML allows and the parser library does not.

use std::borrow::Cow;

use saphyr_parser::Parser;

/// Most tabs that are replaced: the text is read from its beginning for each.
const MAX_TABS: usize = 1000;
/// The refusal of the parser library.
const REFUSAL: &str = "':' must be followed by a valid YAML whitespace";

/// The text, with a space in place of each such tab. All places in it stay the same.
#[must_use]
pub(crate) fn spaces_after_colons(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..MAX_TABS {
        match refused_tab(&text) {
            Some(tab) => text.to_mut().replace_range(tab..=tab, " "),
            None => break,
        }
    }
    text
}

/// The first tab that the parser refuses. Tabs inside of texts are not among them.
fn refused_tab(text: &str) -> Option<usize> {
    if !text.contains(":\t") {
        return None;
    }
    let error = Parser::new_from_str(text).find_map(Result::err)?;
    if error.info() != REFUSAL {
        return None;
    }
    // The mark is behind the tabs.
    let (end, _) = text.char_indices().nth(error.marker().index())?;
    let begin = text.get(..end)?.trim_end_matches('\t').len();
    (begin < end).then_some(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_are_spaces_between_a_colon_and_a_value() {
        for (text, wanted) in [
            ("a: b\n", "a: b\n"),
            ("a:\tb\n", "a: b\n"),
            ("a:\t\t\tb\nc:\td\n", "a: \t\tb\nc: d\n"),
            ("ä:\tb\nü:\n  é:\tb\t# c:\td\n", "ä: b\nü:\n  é: b\t# c:\td\n"),
            ("a:\t-1\nb:\t2\n", "a: -1\nb: 2\n"),
            ("{a:\tb, c:\td}\n", "{a: b, c: d}\n"),
            // These are no separators.
            ("a: \"b:\tc\"\n", "a: \"b:\tc\"\n"),
            ("a: |\n  b:\tc\nd:\te\n", "a: |\n  b:\tc\nd: e\n"),
            ("a: 'b:\tc'\nd:\te\n", "a: 'b:\tc'\nd: e\n"),
            // Neither has the parser anything against these.
            ("a:\t\"b\"\nc:\t[1]\n", "a:\t\"b\"\nc:\t[1]\n"),
            ("a:\tb\n\tc: d\n", "a: b\n\tc: d\n"),
        ] {
            assert_eq!(spaces_after_colons(text), wanted, "{text:?}");
        }
    }
}
