//! From a file to a configuration: read, parse, replace variables, check.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::{Error, Examined, KeyAt};
use crate::facts::KeyFact;
use crate::not_acted_upon;
use crate::section::{Context, Section};
use crate::source::FileText;
use crate::veil::Veil;
use crate::yaml::{self, Environment, YamlTree, YamlValue};

/// Largest configuration file that is read, in bytes.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A controller's.
    Controller,
    /// A router's.
    Router,
}

/// Reads the text of a file.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let lines = |bytes: &[u8]| 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
    let line = std::str::from_utf8(&bytes)
        .map_or_else(|error| lines(&bytes[..error.valid_up_to()]), |_| 1);
    weft_identity::text_of(bytes).map_err(|_| Error::Syntax {
        path: path.to_owned(),
        line,
        column: 1,
        message: "the text is not UTF-8".into(),
    })
}

/// Reads a text to its end and keeps all mistakes and warnings.
pub(crate) fn examine<T>(
    text: &str,
    path: &Path,
    environment: &dyn Environment,
    kind: Kind,
    read: impl FnOnce(&Section<'_>) -> T,
) -> Result<Examined<T>, Error> {
    if text.len() > MAX_FILE_BYTES {
        return Err(Error::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
    }
    let tree = yaml::parse(text).map_err(|error| Error::Syntax {
        path: path.to_owned(),
        line: error.line,
        column: error.column,
        message: error.message,
    })?;
    if let Some(looks_like) = other_kind(&tree.root.value, kind) {
        return Err(Error::OtherKind { path: path.to_owned(), looks_like });
    }
    Ok(examine_tree(tree, text, path, environment, kind, read))
}

/// The program whose file this is, if it is not one of `kind`: two files that were taken for each other
/// have dozens of mistakes, none of which says so.
fn other_kind(root: &YamlValue, kind: Kind) -> Option<&'static str> {
    let YamlValue::Map(entries) = root else { return None };
    let has = |keys: &[&str]| entries.iter().any(|entry| keys.contains(&entry.key.as_str()));
    let of_controller = has(&["db", "cluster"]);
    let of_router = has(&["link", "listeners", "forwarder"]);
    match kind {
        Kind::Controller if of_router && !of_controller => Some("router"),
        Kind::Router if of_controller && !of_router => Some("controller"),
        _ => None,
    }
}

/// Reads a tree to its end.
pub(crate) fn examine_tree<T>(
    tree: YamlTree,
    text: &str,
    path: &Path,
    environment: &dyn Environment,
    kind: Kind,
    read: impl FnOnce(&Section<'_>) -> T,
) -> Examined<T> {
    examine_in(Context::default(), tree, text, path, environment, kind, read)
}

/// Reads the tree of a controller's file to its end, and looks at nothing that the file names.
pub(crate) fn examine_alone<T>(
    tree: YamlTree,
    environment: &dyn Environment,
    read: impl FnOnce(&Section<'_>) -> T,
) -> Examined<T> {
    let cx = Context { is_alone: true, ..Context::default() };
    examine_in(cx, tree, "", Path::new(""), environment, Kind::Controller, read)
}

fn examine_in<T>(
    cx: Context,
    mut tree: YamlTree,
    text: &str,
    path: &Path,
    environment: &dyn Environment,
    kind: Kind,
    read: impl FnOnce(&Section<'_>) -> T,
) -> Examined<T> {
    for twice in &tree.twice {
        let text = format!(
            "the key is in the file twice; this one counts, and the one in line {} is ignored",
            twice.first.line
        );
        cx.warn(KeyAt::new(twice.key.clone(), text).at(twice.last));
    }
    let veil = RefCell::new(Veil::default());
    let noted = |name: &str| {
        let value = environment.variable(name);
        value.inspect(|value| veil.borrow_mut().note(name, value.clone()))
    };
    yaml::expand(&mut tree.root, &noted, &mut |location, name| {
        let text = format!("the variable `{name}` is not set; it is replaced by an empty text");
        cx.warn(KeyAt::new("", text).at(location));
    });
    let root = Section::root(&cx, &tree.root);
    check_version(&root, kind);
    let config = read(&root);
    // Dropping a section notes its unknown keys.
    drop(root);
    let facts = cx.facts.into_inner();
    let mut problems = cx.problems.into_inner();
    for problem in &mut problems {
        let fact = facts.get(&problem.key);
        problem.allowed = problem.allowed.take().or_else(|| fact.and_then(KeyFact::allowed_text));
    }
    let mut examined = Examined {
        config,
        path: path.to_owned(),
        source: FileText::new(text),
        problems,
        warnings: cx.warnings.into_inner(),
        not_acted_upon: not_acted_upon::of(&tree.root, kind),
        facts,
        veil: veil.into_inner(),
    };
    examined.sort();
    examined
}

/// `v: 3`, an integer (docs/protocol/config.md 1.4).
fn check_version(root: &Section<'_>, kind: Kind) {
    if !root.has("v") {
        let text = match kind {
            Kind::Controller => "no config version: see docs for information on config",
            Kind::Router => "config version mismatch: no configuration version specified",
        };
        root.problem("v", format!("{text}; write `v: 3`"));
        return;
    }
    let version = root.any_int("v");
    root.describe("v", "integer", "", "3");
    if version.is_some_and(|version| version != 3) {
        root.problem(
            "v",
            "config version mismatch: see docs for information on config updates; write `v: 3`",
        );
    }
}

/// True if a value is present.
pub(crate) fn is_set(value: &YamlValue) -> bool {
    *value != YamlValue::Null
}
