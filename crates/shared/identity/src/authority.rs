//! Certificate authorities: roots, intermediates, and the certificates that they issue.
//!
//! Certificates are encoded here field by field, without a general library, because subject, issuer
//! and key must stay byte for byte as they were: a re-encoded issuer name breaks the chain, and
//! requests of SDKs carry names and keys in every legal form.

use std::time::{Duration, SystemTime};

use aws_lc_rs::rand;
use time::{Month, OffsetDateTime};
use yasna::models::{GeneralizedTime, UTCTime};
use yasna::{DERWriter, DERWriterSeq, Tag};

use crate::certificate::{Certificate, San};
use crate::error::{Error, Result};
use crate::extension::{self, usage};
use crate::key::PrivateKey;
use crate::name::SubjectName;
use crate::public::{KeyAlgorithm, PublicKey, Signature};
use crate::request::CertificateRequest;
use crate::rules::Purposes;
use crate::spiffe::SpiffeId;

/// Time by which a certificate's validity begins before it is issued, for clocks that are behind
/// (docs/protocol/auth.md 2.4).
pub const BACKDATE: Duration = Duration::from_secs(60);
/// Validity of authorities made by weft: 3650 days.
pub const AUTHORITY_LIFE: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Extended key usage of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPurpose {
    /// Client authentication.
    Client,
    /// Server authentication.
    Server,
    /// Both.
    Both,
}

/// A certificate to be issued.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// Subject in DER.
    pub subject: Vec<u8>,
    /// The key to be certified.
    pub public: PublicKey,
    /// Subject alternative names.
    pub sans: Vec<San>,
    /// Extended key usage.
    pub purpose: KeyPurpose,
    /// Beginning of the validity.
    pub not_before: SystemTime,
    /// End of the validity.
    pub not_after: SystemTime,
}

impl Leaf {
    /// Client certificate of an identity, for one year: the subject as requested; the SPIFFE id is
    /// the only alternative name (docs/protocol/auth.md 2.4).
    #[must_use]
    pub fn for_identity(request: &CertificateRequest, id: &SpiffeId, now: SystemTime) -> Self {
        Self {
            sans: vec![San::Uri(id.to_string())],
            ..Self::as_requested(request, KeyPurpose::Client, now)
        }
    }

    /// Renewed client certificate of an identity: the alternative names of the current certificate,
    /// so that the SPIFFE id stays (docs/protocol/auth.md 12.1).
    #[must_use]
    pub fn renewed(request: &CertificateRequest, current: &Certificate, now: SystemTime) -> Self {
        Self {
            sans: current.sans().to_vec(),
            ..Self::as_requested(request, KeyPurpose::Client, now)
        }
    }

    /// Certificate of an API session: the identity's id is the whole subject (docs/protocol/auth.md
    /// 2.4).
    ///
    /// # Errors
    /// When the identity's id is too long for a common name.
    pub fn for_session(
        request: &CertificateRequest,
        identity_id: &str,
        id: &SpiffeId,
        life: Duration,
        now: SystemTime,
    ) -> Result<Self> {
        Ok(Self {
            subject: SubjectName::common_name(identity_id).to_der()?,
            public: request.public_key().clone(),
            sans: vec![San::Uri(id.to_string())],
            purpose: KeyPurpose::Client,
            not_before: now,
            not_after: now + life,
        })
    }

    /// Certificate of a router, client or server, for one year. The subject is as requested if its
    /// only common name is the router's id, otherwise just that common name. The alternative names
    /// are the router's SPIFFE id and the names that it was granted.
    ///
    /// # Errors
    /// When the id is too long for a common name.
    pub fn for_router(
        request: &CertificateRequest,
        id: &str,
        spiffe: &SpiffeId,
        granted: impl IntoIterator<Item = San>,
        purpose: KeyPurpose,
        now: SystemTime,
    ) -> Result<Self> {
        let mut leaf = Self::as_requested(request, purpose, now);
        if !request.is_only_named(id) {
            leaf.subject = SubjectName::common_name(id).to_der()?;
        }
        leaf.sans.push(San::Uri(spiffe.to_string()));
        leaf.sans.extend(granted);
        Ok(leaf)
    }

    /// Certificate for a key of weft's own, as quickstart makes them.
    ///
    /// # Errors
    /// When the subject is too long.
    pub fn for_key(
        public: &PublicKey,
        subject: &SubjectName,
        sans: Vec<San>,
        purpose: KeyPurpose,
        now: SystemTime,
    ) -> Result<Self> {
        Ok(Self {
            subject: subject.to_der()?,
            public: public.clone(),
            sans,
            purpose,
            not_before: before(now),
            not_after: a_year_after(now),
        })
    }

    /// Whether a certificate says what it is issued for.
    fn is_said_by(&self, issued: &Certificate) -> bool {
        let purposes = issued.rules().purposes;
        let (client, server) = match self.purpose {
            KeyPurpose::Client => (true, false),
            KeyPurpose::Server => (false, true),
            KeyPurpose::Both => (true, true),
        };
        issued.subject_der() == self.subject
            && issued.public_key().is_ok_and(|key| *key == self.public)
            && issued.sans() == self.sans
            && !issued.may_issue()
            && issued.rules().fault.is_none()
            && purposes == Some(Purposes { any: false, client, server })
    }

    fn as_requested(request: &CertificateRequest, purpose: KeyPurpose, now: SystemTime) -> Self {
        Self {
            subject: request.subject_der().to_vec(),
            public: request.public_key().clone(),
            sans: Vec::new(),
            purpose,
            not_before: before(now),
            not_after: a_year_after(now),
        }
    }
}

/// A new authority to be made.
#[derive(Debug, Clone)]
pub struct AuthoritySpec {
    /// Subject.
    pub subject: SubjectName,
    /// Kind of key.
    pub key: KeyAlgorithm,
    /// Most authorities below this one in a chain; `None`: unlimited.
    pub path_len: Option<u8>,
    /// Trust domain, which the certificate has as a SPIFFE id.
    pub trust_domain: Option<String>,
    /// Validity.
    pub life: Duration,
}

impl AuthoritySpec {
    /// An authority with a P-256 key and a validity of ten years, below which chains may have any
    /// number of authorities.
    #[must_use]
    pub fn new(common_name: impl Into<String>) -> Self {
        Self {
            subject: SubjectName::common_name(common_name),
            key: KeyAlgorithm::EcP256,
            path_len: None,
            trust_domain: None,
            life: AUTHORITY_LIFE,
        }
    }
}

/// An authority: its certificate and its private key.
#[derive(Debug, Clone)]
pub struct Authority {
    certificate: Certificate,
    key: PrivateKey,
}

impl Authority {
    /// An authority of a certificate and its key.
    ///
    /// # Errors
    /// When certificate and key do not belong together, or the certificate is not one of an
    /// authority.
    pub fn new(certificate: Certificate, key: PrivateKey) -> Result<Self> {
        if certificate.public_key()? != key.public() {
            return Err(Error::KeyMismatch(certificate.subject().to_owned()));
        }
        if !certificate.is_ca() {
            return Err(Error::Issue(format!(
                "`{}` is not a certificate authority (no CA flag in its basic constraints)",
                certificate.subject()
            )));
        }
        Ok(Self { certificate, key })
    }

    /// Makes a root authority with a new key.
    ///
    /// # Errors
    /// When the key cannot be made or a name cannot be encoded.
    pub fn make_root(spec: &AuthoritySpec, now: SystemTime) -> Result<Self> {
        let key = PrivateKey::generate(spec.key)?;
        let subject = spec.subject.to_der()?;
        let key_id = key.public().key_id();
        let fields = Fields::of_authority(spec, &subject, key.public(), now)?;
        let certificate = fields.sign(&subject, &key_id, &key)?;
        Self::new(certificate, key)
    }

    /// Makes an intermediate authority with a new key.
    ///
    /// # Errors
    /// As [`Authority::make_root`], and when the path length of this authority allows no authority
    /// below.
    pub fn make_intermediate(&self, spec: &AuthoritySpec, now: SystemTime) -> Result<Self> {
        let key = PrivateKey::generate(spec.key)?;
        Self::new(self.certify(key.public(), spec, now)?, key)
    }

    /// Issues the certificate of an intermediate authority for the key of somebody else.
    ///
    /// # Errors
    /// As [`Authority::make_intermediate`].
    pub fn certify(
        &self,
        key: &PublicKey,
        spec: &AuthoritySpec,
        now: SystemTime,
    ) -> Result<Certificate> {
        if self.certificate.path_len() == Some(0) {
            return Err(Error::Issue(format!(
                "`{}` has path length 0 and may not issue authorities",
                self.certificate.subject()
            )));
        }
        let subject = spec.subject.to_der()?;
        let fields = Fields::of_authority(spec, &subject, key, now)?;
        fields.sign(self.certificate.subject_der(), &self.key_id()?, &self.key)
    }

    /// Issues a certificate.
    ///
    /// # Errors
    /// When a name cannot be encoded, or the validity is empty.
    pub fn issue(&self, leaf: &Leaf) -> Result<Certificate> {
        if leaf.not_after <= leaf.not_before {
            return Err(Error::Issue("it would end before it begins".into()));
        }
        let purposes: &[&[u64]] = match leaf.purpose {
            KeyPurpose::Client => &[extension::CLIENT_AUTH],
            KeyPurpose::Server => &[extension::SERVER_AUTH],
            KeyPurpose::Both => &[extension::CLIENT_AUTH, extension::SERVER_AUTH],
        };
        let key_usage =
            usage::DIGITAL_SIGNATURE | usage::KEY_ENCIPHERMENT | usage::DATA_ENCIPHERMENT;
        let fields = Fields {
            subject: &leaf.subject,
            public: &leaf.public,
            not_before: leaf.not_before,
            not_after: leaf.not_after,
            key_usage,
            purposes,
            names: extension::subject_alt_names(&leaf.sans, is_empty_name(&leaf.subject))?,
            authority: None,
        };
        let issued = fields.sign(self.certificate.subject_der(), &self.key_id()?, &self.key)?;
        // What is read is what counts: it has to be what was meant.
        match leaf.is_said_by(&issued) {
            true => Ok(issued),
            false => Err(Error::Issue("it would say something else than was meant".into())),
        }
    }

    /// The authority's certificate.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The authority's key.
    #[must_use]
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// The authority key identifier of issued certificates: the subject key identifier of this
    /// authority.
    fn key_id(&self) -> Result<Vec<u8>> {
        match self.certificate.subject_key_id() {
            Some(id) => Ok(id.to_vec()),
            None => Ok(self.certificate.public_key()?.key_id()),
        }
    }
}

/// The fields of a certificate, without its signature.
struct Fields<'a> {
    subject: &'a [u8],
    public: &'a PublicKey,
    not_before: SystemTime,
    not_after: SystemTime,
    key_usage: u16,
    purposes: &'a [&'a [u64]],
    /// The extension with the subject alternative names, in DER.
    names: Option<Vec<u8>>,
    /// `Some` for an authority: the most authorities below it in a chain, or `None` for no limit.
    authority: Option<Option<u8>>,
}

impl<'a> Fields<'a> {
    fn of_authority(
        spec: &AuthoritySpec,
        subject: &'a [u8],
        public: &'a PublicKey,
        now: SystemTime,
    ) -> Result<Self> {
        let domain = spec.trust_domain.as_ref().map(|domain| {
            San::Uri(SpiffeId::new(domain, crate::spiffe::SpiffeSubject::Domain).to_string())
        });
        Ok(Self {
            subject,
            public,
            not_before: before(now),
            not_after: now + spec.life,
            key_usage: usage::DIGITAL_SIGNATURE | usage::KEY_CERT_SIGN | usage::CRL_SIGN,
            purposes: &[],
            names: extension::subject_alt_names(domain.as_slice(), is_empty_name(subject))?,
            authority: Some(spec.path_len),
        })
    }

    fn sign(&self, issuer: &[u8], issuer_key_id: &[u8], key: &PrivateKey) -> Result<Certificate> {
        // The signed part names the algorithm too, so it is determined first.
        let how = signature_of(key.algorithm());
        let serial = new_serial()?;
        let contents = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
                writer.next().write_bigint_bytes(&serial, true);
                extension::write_algorithm(writer.next(), how);
                writer.next().write_der(issuer);
                writer.next().write_sequence(|writer| {
                    write_time(writer.next(), self.not_before);
                    write_time(writer.next(), self.not_after);
                });
                writer.next().write_der(self.subject);
                writer.next().write_der(self.public.spki());
                writer.next().write_tagged(Tag::context(3), |writer| {
                    writer.write_sequence(|writer| self.write_extensions(writer, issuer_key_id));
                });
            });
        });
        Certificate::from_der(extension::signed(&contents, key)?)
    }

    fn write_extensions(&self, writer: &mut DERWriterSeq<'_>, issuer_key_id: &[u8]) {
        extension::key_usage(writer.next(), self.key_usage);
        if !self.purposes.is_empty() {
            extension::extended_key_usage(writer.next(), self.purposes);
        }
        if let Some(path_len) = self.authority {
            extension::authority_constraints(writer.next(), path_len);
            extension::subject_key_id(writer.next(), &self.public.key_id());
        }
        extension::authority_key_id(writer.next(), issuer_key_id);
        if let Some(names) = &self.names {
            writer.next().write_der(names);
        }
    }
}

fn signature_of(key: KeyAlgorithm) -> Signature {
    match key {
        KeyAlgorithm::EcP256 => Signature::EcdsaSha256,
        KeyAlgorithm::EcP384 => Signature::EcdsaSha384,
        KeyAlgorithm::EcP521 => Signature::EcdsaSha512,
        KeyAlgorithm::Rsa { .. } => Signature::RsaPkcs1Sha256,
        KeyAlgorithm::Ed25519 => Signature::Ed25519,
    }
}

/// A random serial number: positive, below 2^159.
fn new_serial() -> Result<[u8; 20]> {
    let mut serial = [0; 20];
    rand::fill(&mut serial).map_err(|_| Error::Issue("no random numbers".into()))?;
    serial[0] &= 0x7f;
    serial[19] |= 1;
    Ok(serial)
}

fn write_time(writer: DERWriter<'_>, time: SystemTime) {
    let moment = moment(time);
    if (1950..2050).contains(&moment.year()) {
        writer.write_utctime(&UTCTime::from_datetime(moment));
    } else {
        writer.write_generalized_time(&GeneralizedTime::from_datetime(moment));
    }
}

/// A time in whole seconds, limited to the last year that a certificate can express.
fn moment(time: SystemTime) -> OffsetDateTime {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(seconds)
        .ok()
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .unwrap_or(OffsetDateTime::new_utc(time::Date::MAX, time::Time::MIDNIGHT))
}

fn before(now: SystemTime) -> SystemTime {
    now.checked_sub(BACKDATE).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Returns the same day of the next year; 29 February becomes 1 March.
fn a_year_after(now: SystemTime) -> SystemTime {
    let today = moment(now);
    let next = today.replace_year(today.year() + 1).or_else(|_| {
        today.replace_day(1)?.replace_month(Month::March)?.replace_year(today.year() + 1)
    });
    let seconds = next.map_or(0, |next| (next - today).whole_seconds().unsigned_abs());
    now + Duration::from_secs(seconds)
}

fn is_empty_name(der: &[u8]) -> bool {
    der == [0x30, 0]
}
