//! From a file to a configuration: read, parse, put variables in, check.

use std::{fs::File, io::Read as _, path::Path};

use crate::{
    error::{Error, Invalid, Loaded},
    not_acted_upon,
    section::{Context, Section},
    yaml::{self, Environment, Value},
};

/// Largest configuration file that is read, in bytes.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Which file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A controller's.
    Controller,
    /// A router's.
    Router,
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        let line = 1 + good.filter(|byte| **byte == b'\n').count();
        Error::Syntax {
            path: path.to_owned(),
            line,
            column: 1,
            message: "the text is not UTF-8".into(),
        }
    })
}

/// A configuration of a text.
pub(crate) fn load<T>(
    text: &str,
    path: &Path,
    environment: &dyn Environment,
    kind: Kind,
    read: impl FnOnce(&Section<'_>) -> T,
) -> Result<Loaded<T>, Error> {
    if text.len() > MAX_FILE_BYTES {
        return Err(Error::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
    }
    let mut tree = yaml::parse(text).map_err(|error| Error::Syntax {
        path: path.to_owned(),
        line: error.line,
        column: error.column,
        message: error.message,
    })?;
    yaml::expand(&mut tree, environment);
    let cx = Context::default();
    let root = Section::root(&cx, &tree);
    check_version(&root, kind);
    let config = read(&root);
    // Dropping a section notes its unknown keys.
    drop(root);
    let mut problems = cx.problems.into_inner();
    // In the order of the file; what is not in it comes last.
    problems.sort_by_key(|problem| if problem.line == 0 { usize::MAX } else { problem.line });
    if !problems.is_empty() {
        return Err(Invalid { path: path.to_owned(), problems }.into());
    }
    let mut warnings = cx.warnings.into_inner();
    warnings.sort_by_key(|warning| warning.line);
    Ok(Loaded {
        config,
        path: path.to_owned(),
        warnings,
        not_acted_upon: not_acted_upon::of(&tree, kind),
    })
}

/// `v: 3`, an integer (protocol: config 1.4).
fn check_version(root: &Section<'_>, kind: Kind) {
    if !root.has("v") {
        let text = match kind {
            Kind::Controller => "no config version: see docs for information on config",
            Kind::Router => "config version mismatch: no configuration version specified",
        };
        root.problem("v", format!("{text}; write `v: 3`"));
        return;
    }
    if root.any_int("v").is_some_and(|version| version != 3) {
        root.problem(
            "v",
            "config version mismatch: see docs for information on config updates; write `v: 3`",
        );
    }
}

/// Whether a value is there at all.
pub(crate) fn is_set(value: &Value) -> bool {
    *value != Value::Null
}
