//! Values of variables, hidden in what is printed about a file: whoever wrote the file may name any variable of the
//! person who checks it.

/// The shortest part of a value that is hidden, in characters: shorter ones occur in every sentence.
const SHORTEST: usize = 4;

/// The variables that a file names, with their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Veil(Vec<(String, String)>);

impl Veil {
    /// Notes a variable that the file names.
    pub(crate) fn note(&mut self, name: &str, value: String) {
        if !self.0.iter().any(|(known, _)| known == name) {
            self.0.push((name.to_owned(), value));
        }
    }

    /// What is to be hidden: each value, and each word of a value, because messages name parts of values, too. A value
    /// goes before its words.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let mut parts: Vec<(&str, &str)> = Vec::new();
        for (name, value) in &self.0 {
            let is_word = |c: char| c.is_alphanumeric() || "_-.".contains(c);
            let words = value.split(|c: char| !is_word(c)).map(|word| word.trim_matches('.'));
            parts.extend(words.chain([value.trim()]).map(|part| (part, name.as_str())));
        }
        parts.retain(|(part, _)| part.chars().count() >= SHORTEST);
        parts.sort_by_key(|(part, _)| std::cmp::Reverse(part.len()));
        Parts(parts)
    }
}

/// Parts of values, each with the name of its variable.
#[derive(Debug)]
pub(crate) struct Parts<'v>(Vec<(&'v str, &'v str)>);

impl Parts<'_> {
    /// A text with `$NAME` in place of each part.
    pub(crate) fn hidden_in(&self, text: &str) -> String {
        let mut hidden = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let here = self.0.iter().find(|(part, _)| begins_with(rest, part));
            let length = match here {
                Some((part, name)) => {
                    hidden.push('$');
                    hidden.push_str(name);
                    part.len()
                }
                None => {
                    hidden.push(first);
                    first.len_utf8()
                }
            };
            rest = rest.get(length..).unwrap_or_default();
        }
        hidden
    }
}

/// Some values are taken in lower case.
fn begins_with(text: &str, part: &str) -> bool {
    text.get(..part.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_their_parts_are_hidden() {
        let mut veil = Veil::default();
        for (name, value) in [
            ("TOKEN", "aws:Secret-Key/x+y=="),
            ("PORT", "80"),
            ("TWO", "line one\nline \"two\""),
            ("NONE", ""),
        ] {
            veil.note(name, value.to_owned());
        }
        for (text, hidden) in [
            ("cannot read /etc/aws:Secret-Key/x+y==/a", "cannot read /etc/$TOKEN/a"),
            (
                "invalid port `secret-key`, not `SECRET-KEY/`",
                "invalid port `$TOKEN`, not `$TOKEN/`",
            ),
            ("80 is no port", "80 is no port"),
            ("found \"line one\\nline \\\"two\\\"\"", "found \"$TWO one\\n$TWO \\\"two\\\"\""),
            ("ä is no Secret-Keyä", "ä is no $TOKENä"),
        ] {
            assert_eq!(veil.parts().hidden_in(text), hidden);
        }
    }
}
