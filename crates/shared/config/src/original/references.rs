//! Keys, certificates and authorities that a file refers to (docs/protocol/config.md 2.2).

use std::fmt;
use std::path::PathBuf;

use super::edit::Editor;
use super::keys::general;
use super::note::KeyOutcome;
use crate::secret;
use crate::yaml::{Environment, Node, YamlValue, expand_text};

/// A key, a certificate, or authorities, to which a file refers.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyReference {
    /// The section, such as `identity`, `web[0].identity` or `edge.enrollment.signingCert`.
    pub section: String,
    /// What it is in the section, such as `server_cert` or `alt_server_certs[0].server_key`.
    pub key: String,
    /// Line in the file of the original, the first being 1.
    pub line: usize,
    /// Its location as weft takes it, with the values of variables. It may be a key itself.
    pub location: String,
    /// Where it is.
    pub source: ReferenceSource,
}

/// The other location of a key or certificate; none = its location stays.
pub(super) type Relocate<'a> = dyn Fn(&KeyReference) -> Option<String> + 'a;

/// Where a key or certificate is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferenceSource {
    /// In a file; relative paths begin at the folder in which the original's controller runs.
    File(PathBuf),
    /// In the file of the controller itself.
    Inline,
    /// In an engine (`pkcs11`, `parsec`), from which weft takes no key.
    Engine(String),
}

impl fmt::Debug for KeyReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if secret::is_secret(&self.key, &self.location) {
            secret::HIDDEN
        } else {
            &self.location
        };
        f.debug_struct("KeyReference")
            .field("section", &self.section)
            .field("key", &self.key)
            .field("line", &self.line)
            .field("location", &shown)
            .finish_non_exhaustive()
    }
}

/// Sections with locations, and their keys.
const LOCATIONS: [(&str, &[&str]); 3] = [
    ("identity", &OF_IDENTITIES),
    ("web[].identity", &OF_IDENTITIES),
    ("edge.enrollment.signingCert", &["cert", "key", "ca"]),
];
const OF_IDENTITIES: [&str; 7] = [
    "cert",
    "key",
    "server_cert",
    "server_key",
    "ca",
    "alt_server_certs[].server_cert",
    "alt_server_certs[].server_key",
];
/// What to do about a key in an engine.
const ENGINE: &str = "weft takes keys from files and from PEM text: export the key, or make a new one and have the same \
                      authority issue a certificate with the same names for it";

/// Finds all references, writes their locations as weft reads them, and moves those that have another place.
pub(super) fn find(
    editor: &mut Editor<'_>,
    environment: &dyn Environment,
    relocate: Option<&Relocate<'_>>,
) -> Vec<KeyReference> {
    let mut paths = Vec::new();
    collect(&editor.tree, String::new(), &mut paths);
    let mut references = Vec::new();
    for (section, key) in paths {
        let path = format!("{section}.{key}");
        let Some(YamlValue::Text { text, .. }) = editor.find(&path).map(|node| &node.value) else {
            continue;
        };
        let text = text.clone();
        let expanded = expand_text(&text, environment);
        if expanded.trim().is_empty() {
            continue;
        }
        // The original reads these two as names of files, and takes them as they are.
        let is_name = section.ends_with("signingCert") && key != "key";
        let (location, source) = located(&expanded, is_name);
        if location != expanded && !text.contains('$') {
            editor.replace(&path, YamlValue::text(location.clone()));
            let reason = "OpenZiti takes the value for a URL; this is the path that it opens";
            editor.note(&path, KeyOutcome::Changed, reason);
        }
        if let ReferenceSource::Engine(engine) = &source {
            let reason = format!("the key is in the engine `{engine}`; {ENGINE}");
            editor.note(&path, KeyOutcome::Unsolved, reason);
        }
        let line = editor.line(&path);
        let reference = KeyReference { section, key, line, location, source };
        if let Some(place) = relocate.and_then(|relocate| relocate(&reference)) {
            editor.replace(&path, YamlValue::text(place));
        }
        references.push(reference);
    }
    references
}

/// The paths of all locations, each as section and key.
fn collect(node: &Node, path: String, paths: &mut Vec<(String, String)>) {
    let general = general(&path);
    for (section, keys) in LOCATIONS {
        let key = general.strip_prefix(section).and_then(|rest| rest.strip_prefix('.'));
        if key.is_some_and(|key| keys.contains(&key)) {
            let dots = section.matches('.').count();
            let end = path.match_indices('.').nth(dots).map(|(at, _)| at);
            if let Some((section, key)) = end.and_then(|end| path.split_at_checked(end)) {
                paths.push((section.to_owned(), key.trim_start_matches('.').to_owned()));
            }
        }
    }
    match &node.value {
        YamlValue::Map(entries) => {
            for entry in entries {
                let dot = if path.is_empty() { "" } else { "." };
                collect(&entry.node, format!("{path}{dot}{}", entry.key), paths);
            }
        }
        YamlValue::List(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, format!("{path}[{index}]"), paths);
            }
        }
        _ => {}
    }
}

/// A location as weft takes it, and where that is.
fn located(value: &str, is_name: bool) -> (String, ReferenceSource) {
    let unchanged = |source| (value.to_owned(), source);
    if value.starts_with("pem:") || value.trim_start().starts_with("-----BEGIN") {
        return unchanged(ReferenceSource::Inline);
    }
    if is_name {
        return unchanged(ReferenceSource::File(value.into()));
    }
    if let Some(rest) = value.strip_prefix("file:") {
        // What stands before the path is the name of a host, which the original drops.
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let path = rest.find('/').and_then(|at| rest.get(at..)).unwrap_or(rest);
        let path = of_url(path);
        if path == rest {
            return unchanged(ReferenceSource::File(path.into()));
        }
        return (path.clone(), ReferenceSource::File(path.into()));
    }
    match scheme(value) {
        Some(engine) => unchanged(ReferenceSource::Engine(engine.to_owned())),
        None => {
            let path = of_url(value);
            (path.clone(), ReferenceSource::File(path.into()))
        }
    }
}

/// The scheme of a URL; one letter is a drive of Windows.
fn scheme(value: &str) -> Option<&str> {
    let (scheme, _) = value.split_once(':')?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some(scheme)
}

/// The path in a URL: without query and fragment, and with `%XX` as the byte that it stands for.
fn of_url(text: &str) -> String {
    let path = text.split(['?', '#']).next().unwrap_or_default();
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind
            .get(..2)
            .filter(|_| *first == b'%')
            .filter(|code| code.iter().all(u8::is_ascii_hexdigit));
        let byte =
            code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| path.to_owned())
}
