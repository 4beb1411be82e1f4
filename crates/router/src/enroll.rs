//! How a router gets its certificates: from a one-time token to the files of its `identity`
//! section.
//!
//! The key is made here and never leaves this machine. It is written before the token is used,
//! which also shows that the directory is writable. The certificates and the bundle are written
//! after the controller's answer, each file whole or not at all
//! (docs/protocol/edge-control-plane.md 17.1).

use std::fs;
use std::path::{Path, PathBuf};

use weft_client::enroll::{CertificateNames, RouterCerts, enroll_router};
use weft_config::router::{ControllerEndpoint, ControllerEndpoints, CsrConfig};
use weft_config::{EndpointsFile, RouterConfig};
use weft_identity::{
    Certificate, KeyAlgorithm, Location, PrivateKey, San, SubjectName, write_for_owner,
};

use crate::control;

/// A router that has been enrolled.
#[derive(Debug, Clone)]
pub struct Enrolled {
    /// Id of the router.
    pub id: String,
    /// The addresses at which the router will look for controllers.
    pub endpoints: Vec<String>,
}

/// Why a router was not enrolled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrollError {
    /// The configuration file has no section for the names in the certificates.
    #[error(
        "the section `edge.csr` (or `csr`) is missing: it names what the certificates are to be \
         valid for"
    )]
    NoCsr,
    /// A value of the identity section is not a file.
    #[error("{section}.{key}: {problem}; enrollment writes this file")]
    NotAFile {
        /// The section.
        section: String,
        /// The key in it.
        key: &'static str,
        /// The reason.
        problem: String,
    },
    /// The server certificate is to have a key of its own.
    #[error(
        "{section}.server_key names another file than {section}.key: enrollment makes one key for \
         both certificates, leave `server_key` out"
    )]
    ServerKey {
        /// The section.
        section: String,
    },
    /// The token is not known to the controller any more.
    #[error(
        "the controller does not know this enrollment token: it has been used already or was \
         withdrawn; re-enroll the router to get a new one ({0})"
    )]
    Spent(String),
    /// The token is too old.
    #[error("the enrollment token has expired; re-enroll the router to get a new one ({0})")]
    Expired(String),
    /// No address of a controller is known.
    #[error(
        "neither the configuration (`ctrl.endpoint`) nor the token says where the controller is"
    )]
    NoEndpoints,
    /// A file or directory could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A key or certificate is not usable.
    #[error(transparent)]
    Identity(#[from] weft_identity::Error),
    /// The controller refused, or could not be reached.
    #[error(transparent)]
    Client(weft_client::Error),
}

impl From<weft_client::Error> for EnrollError {
    fn from(error: weft_client::Error) -> Self {
        match error.api().map(|api| (api.code().to_owned(), api.to_string())) {
            Some((code, text)) if code == "INVALID_ENROLLMENT_TOKEN" => Self::Spent(text),
            Some((code, text)) if code == "ENROLLMENT_EXPIRED" => Self::Expired(text),
            _ => Self::Client(error),
        }
    }
}

/// Enrolls the router of a configuration with a one-time token (JWT).
///
/// # Errors
/// When the configuration does not name the files to write, the token is not valid, or the
/// controller cannot be reached. Only the key has been written in these cases; after a failed
/// write, other files may have been.
pub async fn enroll(config: &RouterConfig, jwt: &str) -> Result<Enrolled, EnrollError> {
    let names = names(config.csr.as_ref().ok_or(EnrollError::NoCsr)?);
    let files = Files::of(config)?;
    let key = files.key()?;
    let certs = enroll_router(jwt.trim(), &key, &names, control::proxies(config)).await?;
    warn_of_missing(&names.sans, &certs.server_cert);
    files.write(&certs)?;
    let endpoints = endpoints(config, &certs.controllers)?;
    remember(&config.ctrl.endpoints_file, &endpoints)?;
    if let Some(edge) = &config.edge {
        forget(&edge.db)?;
        if !certs.is_edge {
            tracing::warn!(
                "the token is for a router without edge: with the section `edge` of the file it \
                 listens for SDKs, but no controller tells it of any"
            );
        }
    }
    tracing::info!(router = %certs.id, ?endpoints, "enrolled");
    Ok(Enrolled { id: certs.id, endpoints })
}

/// The names asked for in the certificates, also when they are renewed.
pub(crate) fn names(csr: &CsrConfig) -> CertificateNames {
    let subject = SubjectName {
        country: csr.country.clone(),
        province: csr.province.clone(),
        locality: csr.locality.clone(),
        organization: csr.organization.clone(),
        organizational_unit: csr.organizational_unit.clone(),
        common_name: String::new(),
    };
    let sans = &csr.sans;
    let sans = (sans.dns.iter().cloned().map(San::Dns))
        .chain(sans.ip.iter().copied().map(San::Ip))
        .chain(sans.email.iter().cloned().map(San::Email))
        .chain(sans.uri.iter().cloned().map(San::Uri))
        .collect();
    CertificateNames { subject, sans }
}

/// The names that were asked for and are not in a certificate.
fn missing<'a>(asked: &'a [San], pem: &str) -> Vec<&'a San> {
    let chain = Certificate::from_pem(pem.as_bytes()).unwrap_or_default();
    let given = chain.first().map(Certificate::sans).unwrap_or_default();
    asked.iter().filter(|name| !given.contains(name)).collect()
}

/// Warns of names that the controller left out of a certificate.
pub(crate) fn warn_of_missing(asked: &[San], pem: &str) {
    let missing = missing(asked, pem);
    if !missing.is_empty() {
        let names: Vec<String> = missing.into_iter().map(ToString::to_string).collect();
        tracing::warn!(
            names = names.join(", "),
            "the controller left these names of the section `csr` out of the certificate"
        );
    }
}

/// The files that enrollment writes.
struct Files {
    key: PathBuf,
    cert: PathBuf,
    server_cert: PathBuf,
    ca: PathBuf,
}

impl Files {
    fn of(config: &RouterConfig) -> Result<Self, EnrollError> {
        let section = &config.identity;
        let named = if section.section.is_empty() { "identity" } else { &section.section };
        if !section.server_key.is_empty() && section.server_key != section.key {
            return Err(EnrollError::ServerKey { section: named.to_owned() });
        }
        let file = |key: &'static str, value: &str| {
            let problem = |problem: &str| EnrollError::NotAFile {
                section: named.to_owned(),
                key,
                problem: problem.to_owned(),
            };
            if value.trim().is_empty() {
                return Err(problem("is missing"));
            }
            match Location::parse(value) {
                Ok(Location::File(path)) => Ok(path),
                Ok(Location::Inline(_)) => Err(problem("is the PEM text itself, name a file")),
                Err(error) => Err(problem(&error.to_string())),
            }
        };
        Ok(Self {
            key: file("key", &section.key)?,
            cert: file("cert", &section.cert)?,
            server_cert: file("server_cert", &section.server_cert)?,
            ca: file("ca", &section.ca)?,
        })
    }

    /// Reads the key, or makes a new one (P-256), and makes the directories of all files.
    fn key(&self) -> Result<PrivateKey, EnrollError> {
        for path in [&self.key, &self.cert, &self.server_cert, &self.ca] {
            make_directory_of(path)?;
        }
        match fs::read(&self.key) {
            Ok(text) => Ok(PrivateKey::from_pem(&text)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let key = PrivateKey::generate(KeyAlgorithm::EcP256)?;
                write_for_owner(&self.key, key.to_pem().as_bytes())?;
                Ok(key)
            }
            Err(source) => Err(EnrollError::Write { path: self.key.clone(), source }),
        }
    }

    /// Writes the certificates; the client certificate comes last, because the identity is complete
    /// with it.
    fn write(&self, certs: &RouterCerts) -> Result<(), EnrollError> {
        write_for_owner(&self.ca, certs.ca.as_bytes())?;
        write_for_owner(&self.server_cert, certs.server_cert.as_bytes())?;
        Ok(write_for_owner(&self.cert, certs.cert.as_bytes())?)
    }
}

fn make_directory_of(path: &Path) -> Result<(), EnrollError> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => fs::create_dir_all(parent)
            .map_err(|source| EnrollError::Write { path: parent.to_owned(), source }),
        None => Ok(()),
    }
}

/// The addresses of controllers in the configuration, or else those of the token.
fn endpoints(config: &RouterConfig, token: &[String]) -> Result<Vec<String>, EnrollError> {
    let configured: Vec<String> = config.ctrl.endpoints.iter().map(ToString::to_string).collect();
    let endpoints = if configured.is_empty() { token.to_vec() } else { configured };
    if endpoints.is_empty() { Err(EnrollError::NoEndpoints) } else { Ok(endpoints) }
}

/// Writes the endpoints file. The ids of controllers are added when the router meets them.
fn remember(path: &Path, endpoints: &[String]) -> Result<(), EnrollError> {
    make_directory_of(path)?;
    let endpoint =
        |address: &String| ControllerEndpoint { address: address.clone(), groups: Vec::new() };
    let controller = ControllerEndpoints {
        id: String::new(),
        endpoints: endpoints.iter().map(endpoint).collect(),
    };
    let file = EndpointsFile { endpoints: endpoints.to_vec(), controllers: vec![controller] };
    Ok(write_for_owner(path, file.to_text().as_bytes())?)
}

/// Deletes the data model of an earlier enrollment.
fn forget(path: &Path) -> Result<(), EnrollError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(EnrollError::Write { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use weft_config::ProcessEnvironment;
    use weft_identity::{Authority, AuthoritySpec, KeyPurpose, Leaf};

    use super::*;

    fn config(directory: &Path, more: &str) -> RouterConfig {
        let text = format!(
            "v: 3\nidentity:\n  cert: {0}/pki/client.pem\n  server_cert: {0}/pki/server.pem\n  \
             key: {0}/pki/key.pem\n  ca: {0}/pki/ca.pem\nctrl: {{}}\n{more}",
            directory.display()
        );
        RouterConfig::from_str(&text, &directory.join("router.yml"), &ProcessEnvironment)
            .unwrap()
            .config
    }

    #[tokio::test]
    async fn without_names_nothing_is_done() {
        let home = tempfile::tempdir().unwrap();
        let error = enroll(&config(home.path(), ""), "x").await.unwrap_err();
        assert!(matches!(error, EnrollError::NoCsr), "{error}");
        assert!(!home.path().join("pki").exists());
    }

    #[tokio::test]
    async fn the_key_is_there_before_the_token_is_spent() {
        let home = tempfile::tempdir().unwrap();
        let config = config(home.path(), "csr: {sans: {dns: [localhost]}}\n");
        let error = enroll(&config, "not a token").await.unwrap_err();
        assert!(matches!(error, EnrollError::Client(weft_client::Error::Token(_))), "{error}");
        let key = fs::read(home.path().join("pki/key.pem")).unwrap();
        enroll(&config, "not a token").await.unwrap_err();
        assert_eq!(fs::read(home.path().join("pki/key.pem")).unwrap(), key, "the key is kept");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(home.path().join("pki/key.pem")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn what_is_no_file_is_named() {
        let home = tempfile::tempdir().unwrap();
        let mut config = config(home.path(), "");
        config.identity.cert = "pem:-----BEGIN".into();
        let error = Files::of(&config).err().unwrap().to_string();
        assert!(error.starts_with("identity.cert: is the PEM text"), "{error}");
        config.identity.server_key = "/elsewhere".into();
        assert!(matches!(Files::of(&config), Err(EnrollError::ServerKey { .. })));
    }

    #[test]
    fn every_value_for_certificates_is_asked_for() {
        let home = tempfile::tempdir().unwrap();
        let csr = "edge:\n  csr: {country: DE, province: BE, locality: Berlin, organization: O, \
                   organizationalUnit: U, sans: {dns: [a.example], ip: [10.0.0.1], uri: ['u:1'], \
                   email: [a@b.example]}}\nlisteners: [{binding: edge, address: 'tls:0.0.0.0:1', \
                   advertise: 'a.example:1'}]\n";
        let csr = config(home.path(), csr).csr.unwrap();
        let CertificateNames { subject, sans } = names(&csr);
        let said = [
            &subject.country,
            &subject.province,
            &subject.locality,
            &subject.organization,
            &subject.organizational_unit,
        ];
        assert_eq!(said, ["DE", "BE", "Berlin", "O", "U"]);
        let expected = [
            San::Dns("a.example".into()),
            San::Ip([10, 0, 0, 1].into()),
            San::Email("a@b.example".into()),
            San::Uri("u:1".into()),
        ];
        assert_eq!(sans, expected);
    }

    #[test]
    fn names_that_a_certificate_lacks_are_known() {
        let now = std::time::SystemTime::now();
        let authority = Authority::make_root(&AuthoritySpec::new("root"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let (dns, mail) = (San::Dns("r.example".into()), San::Email("ops@r.example".into()));
        let (subject, given) = (SubjectName::common_name("r1"), vec![dns.clone()]);
        let leaf = Leaf::for_key(key.public(), &subject, given, KeyPurpose::Server, now).unwrap();
        let pem = authority.issue(&leaf).unwrap().to_pem();
        assert_eq!(missing(&[dns.clone(), mail.clone()], &pem), [&mail]);
        assert!(missing(std::slice::from_ref(&dns), &pem).is_empty());
    }

    #[test]
    fn endpoints_come_from_the_file_else_from_the_token() {
        let home = tempfile::tempdir().unwrap();
        let mut config = config(home.path(), "");
        assert!(matches!(endpoints(&config, &[]), Err(EnrollError::NoEndpoints)));
        let token = ["tls:t:1".to_owned()];
        assert_eq!(endpoints(&config, &token).unwrap(), token);
        config.ctrl.endpoints = vec!["tls:c:2".parse().unwrap()];
        assert_eq!(endpoints(&config, &token).unwrap(), ["tls:c:2"]);
        let file = home.path().join("deep/endpoints.yml");
        remember(&file, &token).unwrap();
        let read = EndpointsFile::from_text(&fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(read.endpoints, token);
        assert_eq!(read.controllers[0].endpoints[0].address, "tls:t:1");
    }
}
