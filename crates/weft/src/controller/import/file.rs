//! The controller's file of weft, made of that of the original, with other places of the database, of keys and of
//! certificates.

use std::path::PathBuf;

use weft_config::ProcessEnvironment;
use weft_config::original::{Conversion, ConvertedFile, KeyReference};

use super::original::{OriginalFile, at};
use crate::failure::Result;

/// A key, a certificate, or authorities, to which the file refers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// Path of the key in the file, such as `web[0].identity.server_cert`.
    pub(super) path: String,
    /// The line in the file, from 1.
    pub(super) line: usize,
    /// The value, with those of variables.
    pub(super) location: String,
}

impl Reference {
    /// Whether it is a private key.
    pub(super) fn is_key(&self) -> bool {
        self.path.ends_with(".key") || self.path.ends_with(".server_key")
    }
}

/// All references of a file, in its order.
pub(super) fn references(file: &OriginalFile) -> Result<Vec<Reference>> {
    let found = converted(file, "", &|_| None)?.references.into_iter();
    let found = found.map(|it| Reference { path: path(&it), line: it.line, location: it.location });
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|reference| reference.line);
    Ok(found)
}

fn path(reference: &KeyReference) -> String {
    format!("{}.{}", reference.section, reference.key)
}

/// The file of weft, with its store at `database`. `places` are the new values of references, by path.
pub(super) fn converted(
    file: &OriginalFile,
    database: &str,
    places: &dyn Fn(&str) -> Option<String>,
) -> Result<ConvertedFile> {
    let place = |reference: &KeyReference| places(&path(reference));
    let converted =
        Conversion::new(database, &ProcessEnvironment).relocating(&place).convert(&file.text);
    converted
        .map_err(|error| at(&file.path, format_args!("line {}: {}", error.line, error.message)))
}

/// The name of the file in which a referenced key or certificate is kept.
pub(super) fn file_name(path: &str) -> PathBuf {
    format!("{}.pem", path.replace('[', "-").replace(']', "")).into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weft_config::original::KeyOutcome;

    use super::*;
    use crate::yaml;

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
commandHandler: {maxQueueSize: 5}
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

    fn file() -> OriginalFile {
        OriginalFile::parse(Path::new("ctrl.yaml"), TEXT).unwrap()
    }

    #[test]
    fn references_are_found_with_their_lines() {
        let found = references(&file()).unwrap();
        let paths: Vec<_> = found.iter().map(|it| (it.line, it.path.as_str())).collect();
        let expected = [
            (5, "identity.cert"),
            (6, "identity.key"),
            (8, "identity.alt_server_certs[0].server_cert"),
            (9, "identity.alt_server_certs[0].server_key"),
            (15, "edge.enrollment.signingCert.cert"),
            (15, "edge.enrollment.signingCert.key"),
            (20, "web[0].identity.cert"),
        ];
        assert_eq!(paths, expected);
        let keys: Vec<_> = found.iter().map(Reference::is_key).collect();
        assert_eq!(keys, [false, true, false, true, false, true, false]);
        let name = file_name("web[0].identity.cert");
        assert_eq!(name.to_str(), Some("web-0.identity.cert.pem"));
    }

    #[test]
    fn the_file_has_other_places_keeps_its_comments_and_tells_what_it_leaves_out() {
        let places = |path: &str| Some(format!("/new/{}", file_name(path).display()));
        let converted = converted(&file(), "/new/db", &places).unwrap();
        assert!(converted.text.contains("# who it is\nidentity:"), "{}", converted.text);
        let json = yaml::read(&converted.text).unwrap().remove(0).to_json();
        assert_eq!(json["db"], "/new/db");
        assert_eq!(json["identity"]["key"], "/new/identity.key.pem");
        let alt = &json["identity"]["alt_server_certs"][0];
        assert_eq!(alt["server_key"], "/new/identity.alt_server_certs-0.server_key.pem");
        assert_eq!(json["web"][0]["identity"]["cert"], "/new/web-0.identity.cert.pem");
        assert!(json["web"][0]["identity"].get("ca").is_none(), "an empty one is none");
        assert_eq!(json["ctrl"]["listener"], "tls:0.0.0.0:6262");
        assert!(json["commandHandler"]["maxQueueSize"].is_null());
        let left_out = converted.notes.iter().filter(|note| note.outcome == KeyOutcome::LeftOut);
        let left_out: Vec<_> = left_out.map(|note| (note.line, note.key.as_str())).collect();
        assert_eq!(left_out, [(12, "commandHandler.maxQueueSize"), (19, "web[0].identity.ca")]);
    }
}
