//! The renewal of the certificate in an identity file, so that the file has a certificate that counts at
//! every moment, also after a crash.
//!
//! A new certificate is written beside its file before the controller confirms it, and renamed over the file
//! afterwards. A program that ends in between leaves it there ([`RenewableFile::left`]): if the controller
//! refuses the certificate of the file, the one beside it is the one that counts
//! (docs/protocol/auth.md 12).

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::certificate::Certificate;
use crate::error::{Error, Result};
use crate::file::{self, Access, Beside};
use crate::identity::{Identity, IdentitySection};
use crate::identity_file::IdentityFile;
use crate::key::PrivateKey;
use crate::location::Location;
use crate::pem;
use crate::renewal_note::RenewalNote;
use crate::text::without_mark;
use crate::trust::TrustBundle;

/// The ending of a file with a new certificate: `.laptop.json.renewed`.
const ENDING: &str = "renewed";

/// Held while files are written: several contexts of one process may use one identity file.
static WRITING: Mutex<()> = Mutex::new(());

fn writing() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An identity file whose certificate is renewed.
#[derive(Debug, Clone)]
pub struct RenewableFile {
    path: PathBuf,
}

/// A new certificate of an identity.
#[derive(Debug, Clone, Copy)]
pub struct NewCertificate<'a> {
    /// The certificate and its chain, as PEM.
    pub chain: &'a str,
    /// The new key, if it has another one than the former certificate.
    pub key: Option<&'a PrivateKey>,
    /// The trust bundle of the network, as PEM. Certificates that the file lacks are added to those in it.
    pub ca: &'a str,
}

/// A new certificate beside the file that it is to replace. It stays there when the value is dropped.
#[derive(Debug)]
pub struct PreparedFile {
    beside: Option<Beside>,
    target: PathBuf,
    identity: Identity,
}

impl RenewableFile {
    /// The identity file at this path.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path of the identity file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity, as it is in the file now.
    ///
    /// # Errors
    /// When the file cannot be read, or as [`Identity::load`].
    pub fn read(&self) -> Result<Identity> {
        Identity::load(&self.section()?)
    }

    /// The identity with the certificate that a renewal has left beside the file, if one has.
    ///
    /// # Errors
    /// As [`RenewableFile::read`].
    pub fn left(&self) -> Result<Option<Identity>> {
        let section = self.section()?;
        let target = self.target(&section)?;
        let Some(beside) = file::beside_of(&target, ENDING).filter(|path| path.exists()) else {
            return Ok(None);
        };
        let section = match target == self.path {
            true => IdentityFile::read(&beside)?.section(),
            false => IdentitySection { cert: beside.display().to_string(), ..section },
        };
        Identity::load(&section).map(Some)
    }

    /// Puts the certificate that a renewal has left beside the file in its place.
    ///
    /// # Errors
    /// When it cannot be read, or the file cannot be replaced.
    pub fn settle(&self) -> Result<()> {
        let target = self.target(&self.section()?)?;
        let Some(beside) = file::beside_of(&target, ENDING) else { return Ok(()) };
        let _writing = writing();
        Beside::write(&target, &file::read(&beside)?, Access::AsBefore)?.put()?;
        // A certificate that counts does no harm beside its file.
        let _ = std::fs::remove_file(&beside);
        Ok(())
    }

    /// The last attempt to renew the certificate, if it is noted beside the file.
    ///
    /// # Errors
    /// When the note cannot be read.
    pub fn note(&self) -> Result<Option<RenewalNote>> {
        RenewalNote::read(&self.target(&self.section()?)?)
    }

    /// Notes an attempt to renew the certificate beside the file, in the place of the former note.
    ///
    /// # Errors
    /// When the note cannot be written.
    pub fn write_note(&self, note: &RenewalNote) -> Result<()> {
        let target = self.target(&self.section()?)?;
        let _writing = writing();
        note.write(&target)
    }

    /// Removes the note about the last attempt, if there is one.
    ///
    /// # Errors
    /// When the identity file cannot be read.
    pub fn remove_note(&self) -> Result<()> {
        RenewalNote::remove(&self.target(&self.section()?)?);
        Ok(())
    }

    /// Checks that a new certificate could be written.
    ///
    /// # Errors
    /// When neither the file nor its folder can be written to.
    pub fn check(&self) -> Result<()> {
        let target = self.target(&self.section()?)?;
        let _writing = writing();
        Beside::write(&target, &file::read(&target)?, Access::AsBefore).map(drop)
    }

    /// True if certificate and key are in the identity file itself. Only then both can be replaced at the same
    /// moment.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn holds_key(&self) -> Result<bool> {
        let section = self.section()?;
        let is_inside =
            |value: &str| Ok::<_, Error>(matches!(Location::parse(value)?, Location::Inline(_)));
        Ok(is_inside(&section.cert)? && is_inside(&section.key)?)
    }

    /// Writes a new certificate beside its file.
    ///
    /// # Errors
    /// When the certificate is not one for the key, or cannot be written.
    pub fn prepare(&self, new: &NewCertificate<'_>) -> Result<PreparedFile> {
        let section = self.section()?;
        let target = self.target(&section)?;
        let (contents, section) = match target == self.path {
            true => self.with(new)?,
            false => {
                let cert = format!("pem:{}", new.chain);
                (new.chain.as_bytes().to_vec(), IdentitySection { cert, ..section })
            }
        };
        let identity = Identity::load(&section)?;
        let _writing = writing();
        let beside = Beside::write_as(&target, &contents, Access::AsBefore, ENDING)?;
        Ok(PreparedFile { beside: Some(beside), target, identity })
    }

    fn section(&self) -> Result<IdentitySection> {
        Ok(IdentityFile::read(&self.path)?.section())
    }

    /// The file that has the certificate: the identity file, or the one that it names.
    fn target(&self, section: &IdentitySection) -> Result<PathBuf> {
        Ok(match Location::parse(&section.cert)? {
            Location::File(path) if !section.cert.is_empty() => path,
            _ => self.path.clone(),
        })
    }

    /// The identity file with a new certificate. Everything else stays, also members that weft does not know.
    fn with(&self, new: &NewCertificate<'_>) -> Result<(Vec<u8>, IdentitySection)> {
        let wrong = |reason: String| Error::Document { what: "identity file", reason };
        let text = file::read(&self.path)?;
        let mut document: Value = serde_json::from_slice(&without_mark(&text)?)
            .map_err(|error| wrong(error.to_string()))?;
        let id = document.get_mut("id").and_then(Value::as_object_mut);
        let id = id.ok_or_else(|| wrong("it has no object `id`".to_owned()))?;
        let mut set = |member: &str, text: &str| {
            id.insert(member.to_owned(), Value::String(format!("pem:{text}")));
        };
        set("cert", new.chain);
        if let Some(key) = new.key {
            set("key", &key.to_pem());
        }
        if let Location::Inline(ca) = Location::parse(&self.section()?.ca)? {
            set("ca", &with_all(&ca, new.ca)?);
        }
        let mut contents =
            serde_json::to_vec_pretty(&document).map_err(|error| wrong(error.to_string()))?;
        contents.push(b'\n');
        let section = IdentityFile::from_json(&contents)?.section();
        Ok((contents, section))
    }
}

/// A bundle with those of other certificates that it lacks.
fn with_all(ca: &str, others: &str) -> Result<String> {
    let mut all = Certificate::from_pem(ca.as_bytes())?;
    for other in TrustBundle::from_pem(others.as_bytes())?.certificates() {
        if !all.contains(other) {
            all.push(other.clone());
        }
    }
    Ok(all.iter().map(|one| pem::encode("CERTIFICATE", one.der())).collect())
}

impl PreparedFile {
    /// The identity with the new certificate.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Puts the new certificate in the place of the former one; again after a failure. Another program may have
    /// written beside the file meanwhile, so that the contents come from memory.
    ///
    /// # Errors
    /// When the file cannot be replaced. The new certificate stays beside it, if it is there.
    pub fn put(&mut self) -> Result<()> {
        let Some(beside) = &self.beside else { return Ok(()) };
        {
            let _writing = writing();
            Beside::write(&self.target, beside.contents(), Access::AsBefore)?.put()?;
        }
        self.remove();
        Ok(())
    }

    /// Removes the new certificate, which does not count.
    pub fn discard(mut self) {
        self.remove();
    }

    fn remove(&mut self) {
        let _writing = writing();
        if let Some(mut beside) = self.beside.take()
            && !beside.is_as_written()
        {
            // It is the certificate of another program.
            beside.leave();
        }
    }
}

impl Drop for PreparedFile {
    fn drop(&mut self) {
        if let Some(beside) = &mut self.beside {
            beside.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::SystemTime;

    use super::*;
    use crate::{Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, Leaf, SubjectName};

    struct Network {
        root: Authority,
        home: tempfile::TempDir,
    }

    impl Network {
        fn new() -> Self {
            let spec = AuthoritySpec::new("root");
            let root = Authority::make_root(&spec, SystemTime::now()).unwrap();
            Self { root, home: tempfile::tempdir().unwrap() }
        }

        fn key() -> PrivateKey {
            PrivateKey::generate(KeyAlgorithm::EcP256).unwrap()
        }

        fn issue(&self, key: &PrivateKey) -> String {
            let (subject, now) = (SubjectName::common_name("me"), SystemTime::now());
            let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Client, now);
            self.root.issue(&leaf.unwrap()).unwrap().to_pem()
        }

        fn ca(&self) -> String {
            self.root.certificate().to_pem()
        }

        fn path(&self, name: &str) -> PathBuf {
            self.home.path().join(name)
        }

        /// An identity file with these locations.
        fn file(&self, key: &str, cert: &str) -> RenewableFile {
            let document = serde_json::json!({"ztAPI": "https://c:1280", "mine": 1,
                "id": {"key": key, "cert": cert, "ca": format!("pem:{}", self.ca()), "oidc": {}}});
            fs::write(self.path("me.json"), document.to_string()).unwrap();
            RenewableFile::new(self.path("me.json"))
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.home.path()).unwrap();
            let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
            let mut names: Vec<_> = entries.map(|entry| name(entry.unwrap())).collect();
            names.sort();
            names
        }
    }

    fn leaf(identity: &Identity) -> String {
        identity.client().unwrap().leaf().to_pem()
    }

    #[test]
    fn a_new_certificate_and_key_replace_those_in_the_file_and_nothing_else() {
        let network = Network::new();
        let (key, rolled) = (Network::key(), Network::key());
        let former = network.issue(&key);
        let file = network.file(&format!("pem:{}", key.to_pem()), &format!("pem:{former}"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        }
        assert!(file.holds_key().unwrap());
        file.check().unwrap();
        assert_eq!(network.names(), ["me.json"]);
        let other = Authority::make_root(&AuthoritySpec::new("other"), SystemTime::now()).unwrap();
        let ca = format!("{}{}", network.ca(), other.certificate().to_pem());
        let chain = network.issue(&rolled);
        let new = NewCertificate { chain: &chain, key: Some(&rolled), ca: &ca };
        let mut prepared = file.prepare(&new).unwrap();
        assert_eq!(
            (leaf(&file.read().unwrap()), leaf(prepared.identity())),
            (former, chain.clone())
        );
        prepared.put().unwrap();
        drop(prepared);
        let read = file.read().unwrap();
        assert_eq!((leaf(&read), read.ca().certificates().len()), (chain, 2));
        assert_eq!(read.client().unwrap().key().public(), rolled.public());
        let document: Value = serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap();
        assert_eq!(
            (&document["mine"], document["id"]["oidc"].is_object()),
            (&Value::from(1), true)
        );
        assert_eq!(network.names(), ["me.json"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o640);
        }
    }

    #[test]
    fn a_certificate_in_a_file_of_its_own_is_replaced_there() {
        let network = Network::new();
        let key = Network::key();
        let cert = network.path("me.pem");
        fs::write(&cert, network.issue(&key)).unwrap();
        let file = network.file(&format!("pem:{}", key.to_pem()), &cert.display().to_string());
        assert!(!file.holds_key().unwrap());
        let document = fs::read(file.path()).unwrap();
        let (chain, ca) = (network.issue(&key), network.ca());
        let mut prepared =
            file.prepare(&NewCertificate { chain: &chain, key: None, ca: &ca }).unwrap();
        prepared.put().unwrap();
        assert_eq!(
            (fs::read_to_string(&cert).unwrap(), leaf(&file.read().unwrap())),
            (chain.clone(), chain)
        );
        assert_eq!(fs::read(file.path()).unwrap(), document);
        assert_eq!(network.names(), ["me.json", "me.pem"]);
    }

    #[test]
    fn a_certificate_that_was_not_put_in_its_place_is_found_there() {
        let network = Network::new();
        let key = Network::key();
        for inside in [true, false] {
            let cert = network.path("me.pem");
            let former = network.issue(&key);
            fs::write(&cert, &former).unwrap();
            let at = if inside { format!("pem:{former}") } else { cert.display().to_string() };
            let file = network.file(&format!("pem:{}", key.to_pem()), &at);
            assert!(file.left().unwrap().is_none());
            let (chain, ca) = (network.issue(&key), network.ca());
            let new = NewCertificate { chain: &chain, key: None, ca: &ca };
            file.prepare(&new).unwrap().discard();
            assert!(file.left().unwrap().is_none());
            // The program ends.
            drop(file.prepare(&new).unwrap());
            assert_eq!(leaf(&file.read().unwrap()), former);
            assert_eq!(leaf(&file.left().unwrap().unwrap()), chain);
            file.settle().unwrap();
            assert_eq!(leaf(&file.read().unwrap()), chain);
            assert!(file.left().unwrap().is_none());
        }
    }

    #[test]
    fn a_certificate_for_another_key_is_not_written() {
        let network = Network::new();
        let key = Network::key();
        let cert = network.issue(&key);
        let file = network.file(&format!("pem:{}", key.to_pem()), &format!("pem:{cert}"));
        let (chain, ca) = (network.issue(&Network::key()), network.ca());
        file.prepare(&NewCertificate { chain: &chain, key: None, ca: &ca }).unwrap_err();
        assert_eq!(network.names(), ["me.json"]);
    }

    #[test]
    fn where_nothing_can_be_written_nothing_is_begun() {
        // A folder in the way stands for a read-only place, also for root.
        let network = Network::new();
        let key = Network::key();
        let cert = network.issue(&key);
        let file = network.file(&format!("pem:{}", key.to_pem()), &format!("pem:{cert}"));
        let before = fs::read(file.path()).unwrap();
        fs::create_dir(network.path(&format!(".me.json.{}.new", std::process::id()))).unwrap();
        fs::create_dir(network.path(".me.json.renewed")).unwrap();
        file.check().unwrap_err();
        let ca = network.ca();
        file.prepare(&NewCertificate { chain: &cert, key: None, ca: &ca }).unwrap_err();
        assert_eq!(fs::read(file.path()).unwrap(), before);
    }
}
