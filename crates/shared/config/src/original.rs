//! The controller file of the original (1.6, 2.0, 2.1) as one of weft's controller.
//!
//! The text becomes a tree, keys without an equivalent leave the tree, and what is left is read as a controller of weft
//! reads it; what that refuses or changes is put right or named. Then the tree is written as text, with the comments of
//! the keys that stayed. Anchors, aliases and merges are written out; variables stay as they are. Nothing is read but the
//! text and the variables.
//!
//! ```
//! use weft_config::original::Conversion;
//!
//! let text = "v: 3\n# the network\ndb: /old/ctrl.db\nmetrics: {influxdb: {}}\n";
//! let converted = Conversion::new("/var/lib/weft/weft.db", &|_: &str| None).convert(text).unwrap();
//! assert!(converted.text.starts_with("v: 3\n# the network\ndb: \"/var/lib/weft/weft.db\"\n"));
//! assert_eq!((converted.notes[1].line, &*converted.notes[1].key), (4, "metrics"));
//! ```

mod comments;
mod edit;
mod keys;
mod note;
mod references;
mod storage;
mod suit;
mod write;

use std::fmt;

use edit::Editor;
pub use keys::{KeyFate, OriginalKey, original_keys};
pub use note::{KeyNote, KeyOutcome};
use references::Relocate;
pub use references::{KeyReference, ReferenceSource};
pub use storage::OriginalDatabase;

use crate::file::MAX_FILE_BYTES;
use crate::yaml::{self, Environment, SourceLocation, SyntaxError, YamlValue};

/// How a file is converted.
#[derive(Clone, Copy)]
pub struct Conversion<'a> {
    database: &'a str,
    environment: &'a dyn Environment,
    relocate: Option<&'a Relocate<'a>>,
}

/// A file of weft's controller, and what is different in it.
#[derive(Clone, PartialEq, Eq)]
pub struct ConvertedFile {
    /// The text. It may have secrets.
    pub text: String,
    /// What was left out, changed, or has to be put right by hand, in the order of the lines.
    pub notes: Vec<KeyNote>,
    /// Keys, certificates and authorities that the file of the original refers to.
    pub references: Vec<KeyReference>,
    /// The database of the original; none if the file names none.
    pub database: Option<OriginalDatabase>,
}

impl fmt::Debug for ConvertedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConvertedFile")
            .field("bytes", &self.text.len())
            .field("notes", &self.notes)
            .field("references", &self.references)
            .field("database", &self.database)
            .finish()
    }
}

impl<'a> Conversion<'a> {
    /// A conversion to a file with this path of weft's store (`db`), and with the variables of this environment.
    #[must_use]
    pub fn new(database: &'a str, environment: &'a dyn Environment) -> Self {
        Self { database, environment, relocate: None }
    }

    /// Gives keys and certificates other locations: none = the location stays.
    #[must_use]
    pub fn relocating(self, to: &'a dyn Fn(&KeyReference) -> Option<String>) -> Self {
        Self { relocate: Some(to), ..self }
    }

    /// Converts the text of a file.
    ///
    /// # Errors
    /// When it is larger than [`MAX_FILE_BYTES`], not YAML, or no map.
    pub fn convert(&self, text: &str) -> Result<ConvertedFile, SyntaxError> {
        let begin = SourceLocation { line: 1, column: 1, length: 1 };
        let refused = |location: SourceLocation, message: String| SyntaxError {
            line: location.line,
            column: location.column,
            message,
        };
        if text.len() > MAX_FILE_BYTES {
            let message = format!("the file is larger than {MAX_FILE_BYTES} bytes");
            return Err(refused(begin, message));
        }
        let tree = yaml::parse(text)?;
        if !matches!(tree.root.value, YamlValue::Map(_)) {
            let message = "this is no controller's file: it is no map of sections".to_owned();
            return Err(refused(tree.root.location, message));
        }
        let mut editor = Editor::new(tree, text);
        let database = storage::replace(&mut editor, self.database, self.environment);
        keys::leave_out(&mut editor);
        let references = references::find(&mut editor, self.environment, self.relocate);
        suit::suit(&mut editor, self.environment);
        let Editor { tree, text: layout, mut notes, .. } = editor;
        // What is missing has no line, and comes last.
        let place = |note: &KeyNote| (note.line == 0, note.line, note.key.clone());
        notes.sort_by_key(place);
        Ok(ConvertedFile { text: write::text(&tree, layout), notes, references, database })
    }
}

/// A tree as text, with the comments and scalars of another text: for tests, without a conversion.
#[cfg(test)]
pub(crate) fn written(tree: &yaml::Node, text: &str) -> String {
    write::text(tree, comments::Layout::of(text))
}
