//! Certificates: names, usages, dates, fingerprints and chains.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls_pki_types::pem::SectionKind;
use rustls_pki_types::{CertificateDer, ServerName};
use sha1::{Digest as _, Sha1};
use sha2::Sha256;
use x509_parser::asn1_rs::Tag;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate, X509Version};

use crate::der::{self, Element};
use crate::error::{Error, Result, Validity};
use crate::public::PublicKey;
use crate::rules::Rules;
use crate::signed::{self, NotSigned};
use crate::{distinguished, host, pem};

/// Longest chain that is built or followed, the leaf included.
pub(crate) const MAX_CHAIN: usize = 16;

/// A subject alternative name. Names of other kinds are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum San {
    /// A host name, possibly with a leading `*.`.
    Dns(String),
    /// An address.
    Ip(IpAddr),
    /// A mail address.
    Email(String),
    /// A URI; SPIFFE ids are URIs.
    Uri(String),
}

impl San {
    pub(crate) fn from_general(name: &GeneralName<'_>) -> Option<Self> {
        match name {
            GeneralName::DNSName(text) => Some(Self::Dns((*text).to_owned())),
            GeneralName::RFC822Name(text) => Some(Self::Email((*text).to_owned())),
            GeneralName::URI(text) => Some(Self::Uri((*text).to_owned())),
            GeneralName::IPAddress(bytes) => match bytes.len() {
                4 => <[u8; 4]>::try_from(*bytes).ok().map(|octets| Self::Ip(octets.into())),
                16 => <[u8; 16]>::try_from(*bytes).ok().map(|octets| Self::Ip(octets.into())),
                _ => None,
            },
            _ => None,
        }
    }
}

impl fmt::Display for San {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(text) | Self::Email(text) | Self::Uri(text) => f.write_str(text),
            Self::Ip(address) => address.fmt(f),
        }
    }
}

/// A parsed certificate. Cheap to clone.
#[derive(Clone)]
pub struct Certificate {
    inner: Arc<Inner>,
}

struct Inner {
    der: CertificateDer<'static>,
    fingerprint: String,
    subject: Vec<u8>,
    issuer: Vec<u8>,
    subject_text: String,
    version_1: bool,
    common_name: Option<String>,
    sans: Vec<San>,
    not_before: SystemTime,
    not_after: SystemTime,
    rules: Rules,
    subject_key_id: Option<Vec<u8>>,
    spki: Vec<u8>,
    public: Result<PublicKey, String>,
}

impl Certificate {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// When the bytes are not a certificate, or more bytes follow it.
    pub fn from_der(der: impl Into<CertificateDer<'static>>) -> Result<Self> {
        let der = der.into();
        let inner = parse(&der).map_err(Error::Certificate)?;
        Ok(Self { inner: Arc::new(Inner { der, ..inner }) })
    }

    /// Reads all certificates of a PEM text. Blocks that are not readable certificates are skipped
    /// (docs/protocol/config.md 2.2).
    ///
    /// # Errors
    /// When no certificate is left.
    pub fn from_pem(text: &[u8]) -> Result<Vec<Self>> {
        let found: Vec<Self> = pem::blocks(text, SectionKind::Certificate)
            .into_iter()
            .filter_map(|der| Self::from_der(der).ok())
            .collect();
        if found.is_empty() { Err(Error::NoCertificate) } else { Ok(found) }
    }

    /// The certificate in DER.
    #[must_use]
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.inner.der
    }

    /// The certificate as one PEM block.
    #[must_use]
    pub fn to_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.inner.der)
    }

    /// Fingerprint: SHA-1 of the DER in lowercase hex, by which certificates are named everywhere
    /// (docs/protocol/auth.md 2.2).
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.inner.fingerprint
    }

    /// SHA-256 of the DER in lowercase hex.
    #[must_use]
    pub fn sha256(&self) -> String {
        hex::encode(Sha256::digest(&*self.inner.der))
    }

    /// The common name of the subject; of several, the last.
    #[must_use]
    pub fn common_name(&self) -> Option<&str> {
        self.inner.common_name.as_deref()
    }

    /// The subject as text, for messages.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.inner.subject_text
    }

    /// The subject in DER.
    #[must_use]
    pub fn subject_der(&self) -> &[u8] {
        &self.inner.subject
    }

    /// The issuer in DER.
    #[must_use]
    pub fn issuer_der(&self) -> &[u8] {
        &self.inner.issuer
    }

    /// The subject alternative names, in order.
    #[must_use]
    pub fn sans(&self) -> &[San] {
        &self.inner.sans
    }

    /// The alternative names that begin with `spiffe://`.
    pub fn spiffe_uris(&self) -> impl Iterator<Item = &str> {
        self.inner.sans.iter().filter_map(|san| match san {
            San::Uri(uri) if crate::spiffe::has_scheme(uri) => Some(uri.as_str()),
            _ => None,
        })
    }

    /// Beginning of the validity.
    #[must_use]
    pub fn not_before(&self) -> SystemTime {
        self.inner.not_before
    }

    /// End of the validity.
    #[must_use]
    pub fn not_after(&self) -> SystemTime {
        self.inner.not_after
    }

    /// True if `now` is in the validity.
    #[must_use]
    pub fn is_valid_at(&self, now: SystemTime) -> bool {
        self.inner.not_before <= now && now <= self.inner.not_after
    }

    /// Checks that `now` is in the validity.
    ///
    /// # Errors
    /// When it is not: with both times.
    pub fn check_valid_at(&self, now: SystemTime) -> Result<()> {
        self.check_valid(false, now)
    }

    /// [`Certificate::check_valid_at`], also for an authority above the certificate of a peer.
    pub(crate) fn check_valid(&self, of_authority: bool, now: SystemTime) -> Result<()> {
        if self.is_valid_at(now) {
            return Ok(());
        }
        Err(Error::Validity(Box::new(Validity {
            host: None,
            subject: self.subject().to_owned(),
            of_authority,
            from: self.not_before(),
            until: self.not_after(),
            now,
        })))
    }

    /// True for version 1 of X.509, which has no extensions.
    #[must_use]
    pub fn is_version_1(&self) -> bool {
        self.inner.version_1
    }

    /// True for a certificate authority, by the basic constraints.
    #[must_use]
    pub fn is_ca(&self) -> bool {
        self.inner.rules.is_ca
    }

    /// Most authorities below this one in a chain; `None`: unlimited.
    #[must_use]
    pub fn path_len(&self) -> Option<u32> {
        self.inner.rules.path_len
    }

    /// True if the extended key usage names server authentication or any usage.
    #[must_use]
    pub fn has_server_auth(&self) -> bool {
        self.inner.rules.purposes.is_some_and(|purposes| purposes.any || purposes.server)
    }

    /// The subject key identifier.
    #[must_use]
    pub fn subject_key_id(&self) -> Option<&[u8]> {
        self.inner.subject_key_id.as_deref()
    }

    /// The public key.
    ///
    /// # Errors
    /// When the kind of the key is not supported.
    pub fn public_key(&self) -> Result<&PublicKey> {
        self.inner.public.as_ref().map_err(|reason| Error::PublicKey(reason.clone()))
    }

    /// True for a root: an authority that signed itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        (self.is_ca() || self.is_version_1()) && self.is_issued_by(self)
    }

    /// True if the certificate may issue others, as far as its basic constraints say: it is an authority, or
    /// a root of version 1 of X.509, which has no extension that could mark it.
    pub(crate) fn may_issue(&self) -> bool {
        self.is_ca() || self.is_root()
    }

    /// What its extensions demand.
    pub(crate) fn rules(&self) -> &Rules {
        &self.inner.rules
    }

    /// True if both certificates are for one name and key.
    pub(crate) fn is_of_same_holder(&self, other: &Self) -> bool {
        self.inner.subject == other.inner.subject && self.inner.spki == other.inner.spki
    }

    /// True if `issuer` signed this certificate, by name and signature. Dates and usages are not
    /// checked.
    #[must_use]
    pub fn is_issued_by(&self, issuer: &Self) -> bool {
        self.inner.issuer == issuer.inner.subject && self.check_signature_by(issuer).is_ok()
    }

    /// Checks that the key of `issuer` signed this certificate.
    pub(crate) fn check_signature_by(&self, issuer: &Self) -> Result<(), NotSigned> {
        signed::check(&self.inner.der, &issuer.inner.spki)
    }

    /// True if an alternative name covers `host`: an exact or wildcard DNS name, or an address. The
    /// common name never counts.
    #[must_use]
    pub fn covers_host(&self, host: &str) -> bool {
        ServerName::try_from(host).is_ok_and(|name| host::is_covered(&name, self.sans()))
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.inner.der == other.inner.der
    }
}

impl Eq for Certificate {}

impl std::hash::Hash for Certificate {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.inner.fingerprint.hash(state);
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("subject", &self.inner.subject_text)
            .field("fingerprint", &self.inner.fingerprint)
            .finish_non_exhaustive()
    }
}

/// SHA-1 of a certificate's DER in lowercase hex (docs/protocol/auth.md 2.2).
#[must_use]
pub fn fingerprint(der: &[u8]) -> String {
    hex::encode(Sha1::digest(der))
}

/// PEM blocks of several certificates, one after the other.
#[must_use]
pub fn to_pem<'a>(certificates: impl IntoIterator<Item = &'a Certificate>) -> String {
    certificates.into_iter().map(Certificate::to_pem).collect()
}

/// The chain from a leaf upwards through the candidates, by issuer name and signature, as far as it
/// goes. A root among the candidates is the chain's last element; callers that want none leave
/// roots out of the candidates.
#[must_use]
pub fn chain_up(leaf: &Certificate, candidates: &[Certificate]) -> Vec<Certificate> {
    let mut chain = vec![leaf.clone()];
    while chain.len() < MAX_CHAIN {
        let Some(last) = chain.last() else { break };
        let above = candidates
            .iter()
            .find(|candidate| !chain.contains(candidate) && last.is_issued_by(candidate));
        match above {
            Some(above) => chain.push(above.clone()),
            None => break,
        }
    }
    chain
}

/// Checks that the parts of a certificate are those that it may have, and each extension too.
fn check_shape(der: &[u8]) -> Option<()> {
    let whole = Element::only(der)?.children()?;
    let contents = whole.first()?.children()?;
    let is_versioned = contents.first()?.any.header.is_contextspecific();
    // Serial number, algorithm, issuer, validity, subject and key.
    let optional = contents.get(if is_versioned { 7 } else { 6 }..)?;
    let mut last = 0;
    for part in optional {
        let tag = part.any.tag().0;
        if !part.any.header.is_contextspecific() || !(last + 1..=3).contains(&tag) {
            return None;
        }
        last = tag;
        if tag == 3 {
            let [all] = part.children()?.try_into().ok()?;
            let all: Element<'_> = all;
            let fits = |one: &Element<'_>| {
                one.children().is_some_and(|parts| (2..=3).contains(&parts.len()))
            };
            if all.any.tag() != Tag::Sequence || !all.children()?.iter().all(fits) {
                return None;
            }
        }
    }
    Some(())
}

fn parse(der: &[u8]) -> Result<Inner, String> {
    der::check(der).map_err(|what| format!("it is not DER: {what}"))?;
    check_shape(der).ok_or("it has parts that a certificate does not have")?;
    let (rest, cert) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
    if !rest.is_empty() {
        return Err("bytes after the certificate".into());
    }
    for (name, what) in [(cert.subject(), "subject"), (cert.issuer(), "issuer")] {
        if !distinguished::is_whole(name) {
            return Err(format!("its {what} cannot be read to its end"));
        }
    }
    // An extension that cannot be read is a fault by the rules of the certificate.
    let sans = match cert.subject_alternative_name() {
        Ok(Some(names)) => names.value.general_names.iter().filter_map(San::from_general).collect(),
        Ok(None) | Err(_) => Vec::new(),
    };
    let subject_key_id = cert.iter_extensions().find_map(|ext| match ext.parsed_extension() {
        x509_parser::extensions::ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    });
    Ok(Inner {
        der: CertificateDer::from(Vec::new()),
        fingerprint: fingerprint(der),
        subject: cert.subject().as_raw().to_vec(),
        issuer: cert.issuer().as_raw().to_vec(),
        subject_text: distinguished::shown(cert.subject()),
        version_1: cert.version() == X509Version::V1,
        common_name: distinguished::common_name(cert.subject()),
        sans,
        not_before: from_unix(cert.validity().not_before.timestamp()),
        not_after: from_unix(cert.validity().not_after.timestamp()),
        rules: Rules::of(&cert),
        subject_key_id,
        spki: cert.public_key().raw.to_vec(),
        public: PublicKey::from_spki(cert.public_key().raw).map_err(|error| error.to_string()),
    })
}

fn from_unix(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let moved = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    };
    moved.unwrap_or(SystemTime::UNIX_EPOCH)
}
