//! A text that is looked for in bytes that come in parts, for `expectInBody` of health checks. Each byte is compared
//! once or twice, however small the parts are and whatever the text is, and no part is kept.

/// A search for a text.
#[derive(Debug)]
pub(crate) struct TextSearch<'a> {
    text: &'a [u8],
    /// For each beginning of the text, from the one of a single byte: the length of the longest shorter
    /// beginning that is at its end.
    shorter: Vec<usize>,
    /// The length of the longest beginning of the text that is at the end of the bytes so far.
    matching: usize,
}

impl<'a> TextSearch<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let text = text.as_bytes();
        let mut search = Self { text, shorter: vec![0], matching: 0 };
        for byte in text.iter().skip(1) {
            search.step(*byte);
            search.shorter.push(search.matching);
        }
        search.matching = 0;
        search
    }

    /// True if the text is in the bytes so far, and ends in this part of them.
    pub(crate) fn ends_in(&mut self, part: &[u8]) -> bool {
        part.iter().any(|byte| {
            self.step(*byte);
            self.matching == self.text.len()
        })
    }

    fn step(&mut self, byte: u8) {
        while self.text.get(self.matching) != Some(&byte) {
            let Some(last) = self.matching.checked_sub(1) else { return };
            self.matching = self.shorter.get(last).copied().unwrap_or_default();
        }
        self.matching += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_is_found_where_it_ends(
            text in "[aé]{1,6}",
            bytes in proptest::collection::vec(prop_oneof![Just(b'a'), Just(0xc3), Just(0xa9)], 0..80),
            size in 1..9_usize,
        ) {
            let first = bytes.windows(text.len()).position(|part| part == text.as_bytes());
            let end = first.map(|start| (start + text.len() - 1) / size);
            let mut search = TextSearch::new(&text);
            prop_assert_eq!(bytes.chunks(size).position(|part| search.ends_in(part)), end);
        }
    }
}
