//! Mistakes in a file: the location, the problem and a remedy; and warnings about values that are
//! valid.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::facts::{FileFacts, ValueOrigin};
use crate::show;
use crate::source::FileText;
use crate::veil::Veil;
use crate::yaml::SourceLocation;

/// A message about a key of a file, with its location.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyAt {
    /// Path of the key, e.g. `link.listeners[0].advertise`. Empty for the file as a whole.
    pub key: String,
    /// Line in the file, the first being 1; 0 if the key is not in the file.
    pub line: usize,
    /// Column in characters, the first being 1; 0 without a line.
    pub column: usize,
    /// Length of the marked text, in characters.
    pub length: usize,
    /// The message.
    pub message: String,
    /// The value in the file; none for lists, maps and absent keys.
    pub found: Option<String>,
    /// The allowed values.
    pub allowed: Option<String>,
    /// The value or key that was probably meant.
    pub suggestion: Option<String>,
}

impl KeyAt {
    /// A message about a key, without a location.
    #[must_use]
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), ..Self::default() }
    }

    pub(crate) fn at(self, location: SourceLocation) -> Self {
        let SourceLocation { line, column, length } = location;
        Self { line, column, length, ..self }
    }

    /// The message, with the key unless the message has it.
    #[must_use]
    pub fn text(&self) -> String {
        // Some messages have the path in them, in the words of the original.
        let named = self.key.contains('.') && self.message.contains(&self.key);
        if self.key.is_empty() || named {
            self.message.clone()
        } else {
            format!("{}: {}", self.key, self.message)
        }
    }

    /// The location, as `file:line:column`.
    #[must_use]
    pub fn location(&self, file: &Path) -> String {
        match self.line {
            0 => file.display().to_string(),
            line => format!("{}:{line}:{}", file.display(), self.column),
        }
    }
}

impl fmt::Display for KeyAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.text())
    }
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is larger than the limit.
    #[error("{}: larger than {limit} bytes; this is not a configuration file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: usize,
    },
    /// The file is not YAML.
    #[error("{}:{line}:{column}: not valid YAML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, the first being 1.
        line: usize,
        /// Column, the first being 1.
        column: usize,
        /// The mistake.
        message: String,
    },
    /// The file is a router's where a controller's is wanted, or the other way round.
    #[error(
        "{}: this looks like a {looks_like}'s file; `weft {looks_like} check` reads such a file",
        path.display()
    )]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// `controller` or `router`.
        looks_like: &'static str,
    },
    /// The file has mistakes.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// All mistakes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The file.
    pub path: PathBuf,
    /// The text of the file, to show lines of it.
    pub source: FileText,
    /// The mistakes, at least one, in the order of the file.
    pub problems: Vec<KeyAt>,
}

impl Invalid {
    /// Every mistake with its line and a mark below it.
    #[must_use]
    pub fn report(&self) -> String {
        let one = |problem| show::excerpt(&self.path, &self.source, show::Severity::Error, problem);
        self.problems.iter().map(one).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}: {}", problem.location(&self.path), problem.text())?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}

/// The names of variables, in place of a value.
fn names_of(names: &[String]) -> String {
    format!("(${})", names.join(", $"))
}

/// A file that was read to its end, with all mistakes and warnings.
#[derive(Debug, Clone)]
pub struct Examined<T> {
    /// The configuration; defaults replace mistakes.
    pub config: T,
    /// The path of the file.
    pub path: PathBuf,
    /// The text of the file, to show lines of it.
    pub source: FileText,
    /// The mistakes.
    pub problems: Vec<KeyAt>,
    /// Unknown keys, values that were adjusted, sections without effect.
    pub warnings: Vec<KeyAt>,
    /// Keys that are documented, were read and checked, and change nothing in weft.
    pub not_acted_upon: Vec<KeyAt>,
    /// Every key with its value.
    pub facts: FileFacts,
    /// The variables that the file names.
    pub(crate) veil: Veil,
}

impl<T> Examined<T> {
    /// A message about a key, at its location in the file, or at that of the nearest section around it.
    #[must_use]
    pub fn about(&self, key: &str, message: impl Into<String>) -> KeyAt {
        let found = self.facts.get(key).filter(|fact| fact.origin.line_and_column().is_some());
        let found = found.map(|fact| fact.value.clone()).filter(|value| !value.is_empty());
        KeyAt { found, ..KeyAt::new(key, message).at(self.facts.location(key)) }
    }

    /// Hides the values of variables in all messages and facts.
    pub fn hide_variables(&mut self) {
        let parts = self.veil.parts();
        let messages = [&mut self.problems, &mut self.warnings, &mut self.not_acted_upon];
        for about in messages.into_iter().flatten() {
            about.message = parts.hidden_in(&about.message);
            // Also a value that is too short to be found in a text.
            let origin = self.facts.get(&about.key).map(|fact| &fact.origin);
            if let (Some(found), Some(ValueOrigin::Variables { names, .. })) =
                (&mut about.found, origin)
            {
                *found = names_of(names);
            }
            for text in [&mut about.found, &mut about.suggestion].into_iter().flatten() {
                *text = parts.hidden_in(text);
            }
        }
        for fact in self.facts.all_mut() {
            fact.value = match &fact.origin {
                ValueOrigin::Variables { names, .. } => names_of(names),
                _ => parts.hidden_in(&fact.value),
            };
        }
    }

    /// Sorts mistakes and warnings by their locations; those without a location come last.
    pub fn sort(&mut self) {
        let location =
            |one: &KeyAt| if one.line == 0 { (usize::MAX, 0) } else { (one.line, one.column) };
        self.problems.sort_by_key(location);
        self.warnings.sort_by_key(location);
        self.problems.dedup();
    }

    /// The configuration, if the file has no mistakes.
    ///
    /// # Errors
    /// All mistakes of the file.
    pub fn accept(self) -> Result<Loaded<T>, Error> {
        let Self { config, path, source, problems, warnings, not_acted_upon, .. } = self;
        if problems.is_empty() {
            Ok(Loaded { config, path, warnings, not_acted_upon })
        } else {
            Err(Invalid { path, source, problems }.into())
        }
    }
}

/// A configuration, with warnings for the start.
#[derive(Debug, Clone)]
pub struct Loaded<T> {
    /// The configuration.
    pub config: T,
    /// The path of the file.
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
