//! The controller's file of weft, made of that of the original: the sections that weft has, with other places of the
//! database, of keys and of certificates. Comments are not kept.

use std::path::PathBuf;

use serde_json::{Map, Value as Json};

use crate::yaml::{self, Node, Value};

/// Sections that weft's controller does without: where the original keeps its model, and outputs.
const LEFT_OUT: [(&str, &str); 9] = [
    ("db", "it names weft's store now"),
    ("raft", "the network is in one file now"),
    ("cluster", "the network is in one file now"),
    ("events", "weft writes no events yet"),
    ("metrics", "weft shows its metrics at the binding `metrics`"),
    ("profile", "profiles are switched on by hand"),
    ("trace", "traces are switched on by hand"),
    ("example", "it has no effect"),
    ("mgmt", "weft serves its APIs in the section `web`"),
];
/// Keys of an identity section, each the location of PEM text.
const OF_IDENTITIES: [&str; 5] = ["cert", "key", "server_cert", "server_key", "ca"];

/// A file that was converted.
pub(super) struct Converted {
    /// The text.
    pub(super) text: String,
    /// Sections that are not in it, each with its line in the file of the original, and why.
    pub(super) left_out: Vec<(usize, String, &'static str)>,
}

/// A key, a certificate, or authorities, to which the file refers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// Path of the key in the file, such as `web[0].identity.server_cert`.
    pub(super) path: String,
    /// The line in the file, from 1.
    pub(super) line: usize,
    /// The value, as it stands in the file.
    pub(super) location: String,
}

impl Reference {
    /// Whether it is a private key.
    pub(super) fn is_key(&self) -> bool {
        self.path.ends_with(".key") || self.path.ends_with(".server_key")
    }
}

/// All references of a file, in its order.
pub(super) fn references(document: &Node) -> Vec<Reference> {
    let mut found = Vec::new();
    if let Some(section) = member(document, "identity") {
        identity(section, "identity", &mut found);
    }
    let web = member(document, "web").map(|node| &node.value);
    if let Some(Value::List(servers)) = web {
        for (at, server) in servers.iter().enumerate() {
            if let Some(section) = member(server, "identity") {
                identity(section, &format!("web[{at}].identity"), &mut found);
            }
        }
    }
    let signer = member(document, "edge")
        .and_then(|edge| member(edge, "enrollment"))
        .and_then(|enrollment| member(enrollment, "signingCert"));
    if let Some(section) = signer {
        for key in ["cert", "key", "ca"] {
            location(section, "edge.enrollment.signingCert", key, &mut found);
        }
    }
    found.sort_by_key(|reference| reference.line);
    found
}

fn identity(section: &Node, path: &str, found: &mut Vec<Reference>) {
    for key in OF_IDENTITIES {
        location(section, path, key, found);
    }
    if let Some(Value::List(others)) = member(section, "alt_server_certs").map(|node| &node.value) {
        for (at, other) in others.iter().enumerate() {
            for key in ["server_cert", "server_key"] {
                location(other, &format!("{path}.alt_server_certs[{at}]"), key, found);
            }
        }
    }
}

fn location(section: &Node, path: &str, key: &str, found: &mut Vec<Reference>) {
    let Some(node) = member(section, key) else { return };
    if let Value::Scalar(Json::String(location)) = &node.value
        && !location.trim().is_empty()
    {
        let (path, location) = (format!("{path}.{key}"), location.clone());
        found.push(Reference { path, line: node.line, location });
    }
}

fn member<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    node.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
}

/// The file of weft, with its store at `database`. `places` are the new values of references, by path.
pub(super) fn converted(
    document: &Node,
    database: &str,
    places: &dyn Fn(&str) -> Option<String>,
) -> Converted {
    let mut left_out = Vec::new();
    let mut members = Map::new();
    members.insert("v".to_owned(), 3.into());
    members.insert("db".to_owned(), database.into());
    for entry in document.entries().unwrap_or_default() {
        match LEFT_OUT.iter().find(|(key, _)| *key == entry.key) {
            Some((_, why)) => left_out.push((entry.line, entry.key.clone(), *why)),
            None if entry.key == "v" => {}
            None => {
                members.insert(entry.key.clone(), entry.node.to_json());
            }
        }
    }
    let mut json = Json::Object(members);
    for reference in references(document) {
        if let Some(place) = places(&reference.path)
            && let Some(value) = json.pointer_mut(&pointer(&reference.path))
        {
            *value = place.into();
        }
    }
    Converted { text: yaml::write(&json), left_out }
}

/// A path of keys as a pointer into JSON.
fn pointer(path: &str) -> String {
    format!("/{}", path.replace('[', ".").replace(']', "").replace('.', "/"))
}

/// The name of the file in which a referenced key or certificate is kept.
pub(super) fn file_name(path: &str) -> PathBuf {
    format!("{}.pem", path.replace('[', "-").replace(']', "")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
v: 3
db: ctrl.db
# who it is
identity:
  cert: a.cert
  key: ${HOME}/a.key
  alt_server_certs:
    - server_cert: b.cert
      server_key: b.key
ctrl:
  listener: tls:0.0.0.0:6262
events: {jsonLogger: {}}
edge:
  enrollment:
    signingCert: {cert: s.cert, key: 'pkcs11://x'}
web:
  - name: one
    identity:
      ca: ''
      cert: |
        pem:text
";

    fn document() -> Node {
        yaml::read(TEXT).unwrap().remove(0)
    }

    #[test]
    fn references_are_found_with_their_lines() {
        let found: Vec<_> = references(&document());
        let paths: Vec<_> = found.iter().map(|it| (it.line, it.path.as_str())).collect();
        let expected = [
            (5, "identity.cert"),
            (6, "identity.key"),
            (8, "identity.alt_server_certs[0].server_cert"),
            (9, "identity.alt_server_certs[0].server_key"),
            (15, "edge.enrollment.signingCert.cert"),
            (15, "edge.enrollment.signingCert.key"),
            // A text in several lines begins behind its key.
            (21, "web[0].identity.cert"),
        ];
        assert_eq!(paths, expected);
        let keys: Vec<_> = found.iter().map(Reference::is_key).collect();
        assert_eq!(keys, [false, true, false, true, false, true, false]);
        let name = file_name("web[0].identity.cert");
        assert_eq!(name.to_str(), Some("web-0.identity.cert.pem"));
    }

    #[test]
    fn the_file_has_other_places_and_no_section_of_the_originals_model() {
        let places = |path: &str| Some(format!("/new/{}", file_name(path).display()));
        let converted = converted(&document(), "/new/db", &places);
        let json = yaml::read(&converted.text).unwrap().remove(0).to_json();
        assert_eq!(json["db"], "/new/db");
        assert_eq!(json["identity"]["key"], "/new/identity.key.pem");
        let alt = &json["identity"]["alt_server_certs"][0];
        assert_eq!(alt["server_key"], "/new/identity.alt_server_certs-0.server_key.pem");
        assert_eq!(json["web"][0]["identity"]["cert"], "/new/web-0.identity.cert.pem");
        assert_eq!(json["web"][0]["identity"]["ca"], "");
        assert_eq!(json["ctrl"]["listener"], "tls:0.0.0.0:6262");
        assert!(json.get("events").is_none());
        let keys: Vec<_> =
            converted.left_out.iter().map(|(line, key, _)| (*line, &**key)).collect();
        assert_eq!(keys, [(2, "db"), (12, "events")]);
    }
}
