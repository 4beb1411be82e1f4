//! The text of a file, to show lines of it.

use std::fmt;
use std::sync::Arc;

/// The text of a file. It may have secrets and is never printed as a whole.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FileText(Arc<str>);

impl FileText {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// A line, the first being 1.
    #[must_use]
    pub fn line(&self, number: usize) -> Option<&str> {
        self.0.lines().nth(number.checked_sub(1)?)
    }
}

impl fmt::Debug for FileText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({} bytes)", self.0.len())
    }
}
