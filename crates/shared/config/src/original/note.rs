//! What is said of a key that is not the same.

use std::fmt;

/// One key that is not the same in the file of weft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyNote {
    /// The line in the file of the original, the first being 1; 0 for a key that is missing there.
    pub line: usize,
    /// Path of the key there, such as `cluster.dataDir`; empty for a variable that is not set.
    pub key: String,
    /// What became of it.
    pub outcome: KeyOutcome,
    /// Why, and for [`KeyOutcome::Unsolved`] what to do.
    pub reason: String,
}

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyOutcome {
    /// It has no equivalent, and is not in the file.
    LeftOut,
    /// It is there with another value.
    Changed,
    /// It is there, and weft's controller does not start until somebody has put it right.
    Unsolved,
}

impl KeyOutcome {
    /// The outcome in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::LeftOut => "left out",
            Self::Changed => "changed",
            Self::Unsolved => "to be solved",
        }
    }
}

impl fmt::Display for KeyNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, key, outcome, reason } = self;
        if *line > 0 {
            write!(f, "line {line}: ")?;
        }
        if !key.is_empty() {
            write!(f, "{key}: ")?;
        }
        write!(f, "{}: {reason}", outcome.words())
    }
}
