//! What is wrong with a file, where, and what to do; and what is worth a word though it is not
//! wrong.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// One thing in a file: its path, its line and something to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAt {
    /// Path of the key, e.g. `link.listeners[0].advertise`. Empty for the file as a whole.
    pub key: String,
    /// Line in the file, the first being 1; 0 when it is about something that is not there.
    pub line: usize,
    /// What there is to say.
    pub message: String,
}

impl fmt::Display for KeyAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        // Some messages name the path themselves, in the words operators know.
        let named = self.key.contains('.') && self.message.contains(&self.key);
        if self.key.is_empty() || named {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.key, self.message)
        }
    }
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is larger than any configuration.
    #[error("{}: larger than {limit} bytes; this is not a configuration file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: usize,
    },
    /// It is not YAML.
    #[error("{}:{line}:{column}: not valid YAML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, the first being 1.
        line: usize,
        /// Column, the first being 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// Its contents are not acceptable.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Everything that is not acceptable in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The file.
    pub path: PathBuf,
    /// At least one problem, in the order of reading.
    pub problems: Vec<KeyAt>,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}", self.path.display())?;
            if problem.line > 0 {
                write!(f, ":{}", problem.line)?;
            }
            let unplaced = KeyAt { line: 0, ..problem.clone() };
            write!(f, ": {unplaced}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}

/// A configuration, with what is worth a word at start.
#[derive(Debug, Clone)]
pub struct Loaded<T> {
    /// The configuration.
    pub config: T,
    /// The file it came from.
    pub path: PathBuf,
    /// Unknown keys, values that were adjusted, sections without effect.
    pub warnings: Vec<KeyAt>,
    /// Keys that are documented, were read and checked, and change nothing in weft.
    pub not_acted_upon: Vec<KeyAt>,
}

impl<T> Loaded<T> {
    /// The directory of the file; defaults of some paths lie in it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}
