//! The keys, certificates and authorities that the controller's file of the original names: what they are, and whether
//! weft can use them. Nothing is written but copies of files; no key leaves a token.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use time::OffsetDateTime;
use weft_identity::{Certificate, KeyAlgorithm, Location, PrivateKey, write_private};

use super::file::{Reference, file_name};
use super::original::OriginalFile;
use crate::failure::{Result, chain};

/// The folder of keys and certificates in that of a controller.
pub(super) const FOLDER: &str = "pki";

/// One reference of the file, and what it leads to.
pub(super) struct Trusted {
    pub(super) reference: Reference,
    /// The path of the file; empty if the text stands in the controller's file.
    place: String,
    /// What it is, in words.
    what: String,
    /// Why weft cannot use it, and what to do.
    pub(super) problem: Option<String>,
    /// The text.
    content: Vec<u8>,
    /// The file in [`FOLDER`] that gets the text.
    name: PathBuf,
}

/// Looks at everything that a file refers to.
pub(super) fn read(file: &OriginalFile) -> Result<Vec<Trusted>> {
    let mut all: Vec<Trusted> = Vec::new();
    for reference in super::file::references(file)? {
        let mut one = look(file, reference);
        // Two references to one file stay references to one file.
        let same = all.iter().find(|it| !it.place.is_empty() && it.place == one.place);
        if let Some(same) = same {
            one.name.clone_from(&same.name);
        }
        all.push(one);
    }
    Ok(all)
}

fn look(file: &OriginalFile, reference: Reference) -> Trusted {
    let name = file_name(&reference.path);
    let mut found = Trusted {
        place: String::new(),
        what: String::new(),
        problem: None,
        content: Vec::new(),
        name,
        reference,
    };
    let value = found.reference.location.clone();
    if let Some(engine) = engine(&value) {
        found.place = format!("the engine {engine}");
        found.problem = Some(of_engine(&found.reference, engine));
        return found;
    }
    let location = match Location::parse(&value) {
        Ok(Location::File(path)) => {
            let path = file.beside(&path);
            found.place = path.display().to_string();
            Ok(Location::File(path))
        }
        other => other,
    };
    match location.and_then(|location| location.read()) {
        Ok(content) => found.content = content,
        Err(error) => found.problem = Some(chain(&error)),
    }
    if found.problem.is_none() {
        let what = match found.reference.is_key() {
            true => PrivateKey::from_pem(&found.content).map(|key| key_in_words(key.algorithm())),
            false => Certificate::from_pem(&found.content).map(|all| certificates_in_words(&all)),
        };
        match what {
            Ok(what) => found.what = what,
            Err(error) => found.problem = Some(chain(&error)),
        }
    }
    found
}

/// The engine that a location names, such as `pkcs11`.
fn engine(value: &str) -> Option<&str> {
    let (scheme, rest) = value.split_once(':')?;
    if scheme == "engine" {
        return Some(rest.trim_start_matches('/').split([':', '?', '/']).next().unwrap_or(rest));
    }
    matches!(Location::parse(value), Err(weft_identity::Error::Scheme(_))).then_some(scheme)
}

fn of_engine(reference: &Reference, engine: &str) -> String {
    let what = if reference.path.starts_with("edge.enrollment.signingCert") {
        "make another signer, with a key in a file, below the same root"
    } else {
        "issue the controller another certificate, with a key in a file, below the same authority and with the same names"
    };
    format!(
        "the key is in the engine `{engine}`; weft uses keys in files, and copies none out of a token: {what}, name both \
         in a copy of the controller's file, and import with that"
    )
}

fn key_in_words(algorithm: KeyAlgorithm) -> String {
    match algorithm {
        KeyAlgorithm::EcP256 => "key, EC P-256".to_owned(),
        KeyAlgorithm::EcP384 => "key, EC P-384".to_owned(),
        KeyAlgorithm::EcP521 => "key, EC P-521".to_owned(),
        KeyAlgorithm::Rsa { bits } => format!("key, RSA {bits}"),
        KeyAlgorithm::Ed25519 => "key, Ed25519".to_owned(),
    }
}

fn certificates_in_words(all: &[Certificate]) -> String {
    let Some(first) = all.first() else { return "no certificate".to_owned() };
    let name = first.common_name().unwrap_or_else(|| first.subject());
    let ends = OffsetDateTime::from(first.not_after()).date();
    let kind = if first.is_ca() { "authority" } else { "certificate" };
    match all.len() {
        1 => format!("{kind} `{name}`, valid until {ends}"),
        number => format!("{number} certificates, the first `{name}`, valid until {ends}"),
    }
}

impl Trusted {
    /// The row of a report.
    pub(super) fn row(&self) -> Json {
        let place = if self.place.is_empty() { "in the controller's file" } else { &self.place };
        json!({
            "key": self.reference.path,
            "line": self.reference.line,
            "place": place,
            "what": self.what,
            "problem": self.problem,
        })
    }

    /// The text as a value of a controller's file.
    fn inline(&self) -> String {
        format!("pem:{}", String::from_utf8_lossy(&self.content))
    }
}

/// The value that names the text itself, by the path of the reference.
pub(super) fn inline(all: &[Trusted], path: &str) -> Option<String> {
    all.iter().find(|it| it.reference.path == path).map(Trusted::inline)
}

/// The place in the folder of a controller, by the path of the reference.
pub(super) fn place_in(all: &[Trusted], home: &Path, path: &str) -> Option<String> {
    let found = all.iter().find(|it| it.reference.path == path)?;
    Some(home.join(FOLDER).join(&found.name).display().to_string())
}

/// Writes every text into a folder that exists. Only the owner may read the files.
pub(super) fn write(all: &[Trusted], folder: &Path) -> Result<()> {
    for one in all {
        write_private(&folder.join(&one.name), &one.content)?;
    }
    Ok(())
}

/// Everything that weft reads of the controller's file, for a digest.
pub(super) fn contents(all: &[Trusted]) -> impl Iterator<Item = (&str, &[u8])> {
    all.iter().map(|one| (one.reference.path.as_str(), one.content.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::import::tests::pem;

    /// `FOLDER` in the text stands for the folder of the file.
    fn file(text: &str) -> (tempfile::TempDir, OriginalFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ctrl.yaml");
        let text = text.replace("FOLDER", folder.path().to_str().unwrap());
        std::fs::write(&path, &text).unwrap();
        let file = OriginalFile::parse(&path, &text).unwrap();
        (folder, file)
    }

    #[test]
    fn keys_in_engines_are_named_with_what_to_do() {
        let text = "identity:\n  key: pkcs11:object=ctrl?pin=1234\n  server_key: 'engine:parsec:k'\n\
                    edge: {enrollment: {signingCert: {key: 'parsec://k'}}}\n";
        let (_folder, file) = file(text);
        let found = read(&file).unwrap();
        let problems: Vec<_> = found.iter().map(|it| it.problem.clone().unwrap()).collect();
        assert_eq!(found.len(), 3);
        for (problem, (engine, advice)) in problems.iter().zip([
            ("pkcs11", "another certificate"),
            ("parsec", "another certificate"),
            ("parsec", "another signer"),
        ]) {
            assert!(problem.contains(engine) && problem.contains(advice), "{problem}");
        }
        assert!(!found[0].row().to_string().contains("1234"), "a PIN is not shown");
    }

    #[test]
    fn files_are_found_beside_the_controllers_file_and_copied_for_the_owner() {
        let (key, certificate) = pem("ctrl");
        let indented = certificate.replace('\n', "\n    ");
        let text = format!(
            "identity:\n  key: file://FOLDER/keys/a.key\n  server_key: keys/a.key\n  cert: |\n    {indented}\n  ca: none.pem\n"
        );
        let (folder, file) = file(&text);
        std::fs::create_dir(folder.path().join("keys")).unwrap();
        std::fs::write(folder.path().join("keys/a.key"), &key).unwrap();
        let found = read(&file).unwrap();
        let by = |path: &str| found.iter().find(|it| it.reference.path == path).unwrap();
        assert_eq!(by("identity.key").what, "key, EC P-256");
        assert!(by("identity.cert").what.contains("`ctrl`"), "{}", by("identity.cert").what);
        let problem = by("identity.ca").problem.clone().unwrap();
        assert!(problem.contains("none.pem"), "{problem}");
        let place = |path| place_in(&found, Path::new("/new"), path);
        assert_eq!(place("identity.server_key"), place("identity.key"), "one file stays one");
        write(&found, folder.path()).unwrap();
        let copied = folder.path().join("identity.key.pem");
        assert_eq!(std::fs::read_to_string(&copied).unwrap(), key);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&copied).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
