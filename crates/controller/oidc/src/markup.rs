//! HTML in which every text of others is escaped: only literals of this program are written as they stand.

/// HTML that is being written.
#[derive(Debug, Default)]
pub(crate) struct Markup(String);

impl Markup {
    /// Writes HTML of this program.
    #[must_use]
    pub(crate) fn html(mut self, literal: &'static str) -> Self {
        self.0.push_str(literal);
        self
    }

    /// Writes a text, within an element or a quoted attribute. Characters that change the order of others, and control
    /// characters, are shown as unknown ones, so that no name pretends to be another.
    #[must_use]
    pub(crate) fn text(mut self, text: &str) -> Self {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c if c.is_control() || is_mark(c) => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        self
    }

    /// Writes what a function writes.
    #[must_use]
    pub(crate) fn with(self, write: impl FnOnce(Self) -> Self) -> Self {
        write(self)
    }

    /// Writes something for each of some things.
    #[must_use]
    pub(crate) fn each<T>(
        self,
        things: impl IntoIterator<Item = T>,
        write: impl FnMut(Self, T) -> Self,
    ) -> Self {
        things.into_iter().fold(self, write)
    }

    /// What was written.
    #[must_use]
    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// Characters that nobody sees and that change what others look like.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{61c}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let markup = Markup::default().html("<p title=\"").text("\"><script>'&").html("\">");
        assert_eq!(markup.finish(), "<p title=\"&quot;&gt;&lt;script&gt;&#39;&amp;\">");
        let marks = Markup::default().text("a\u{202e}b\nc\u{0}");
        assert_eq!(marks.finish(), "a\u{fffd}b\u{fffd}c\u{fffd}");
    }
}
