//! A certificate authority: roots, intermediates, and the certificates a network issues.
//!
//! Certificates are written field by field rather than by a general library, because subject,
//! issuer and key must come out byte for byte as they went in: a re-encoded issuer name breaks the
//! chain, and requests of SDKs carry names and keys in every legal form.

use std::time::{Duration, SystemTime};

use aws_lc_rs::rand;
use time::{Month, OffsetDateTime};
use yasna::{
    DERWriter, DERWriterSeq, Tag,
    models::{GeneralizedTime, UTCTime},
};

use crate::{
    certificate::{Certificate, San},
    error::{Error, Result},
    extension::{self, usage},
    key::PrivateKey,
    name::Subject,
    public::{KeyAlgorithm, PublicKey, Signature},
    request::CertificateRequest,
    spiffe::SpiffeId,
};

/// How far before now certificates begin, against clocks that are behind (protocol: auth 2.4).
pub const BACKDATE: Duration = Duration::from_secs(60);
/// Life of the certificate of an API session made through the client API.
pub const SESSION_CERTIFICATE_LIFE: Duration = Duration::from_secs(12 * 3600);
/// Life of the certificate of an API session made in an OIDC login.
pub const OIDC_SESSION_CERTIFICATE_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);
/// Life of authorities made by weft.
pub const AUTHORITY_LIFE: Duration = Duration::from_secs(3650 * 24 * 3600);

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
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
    /// Names.
    pub sans: Vec<San>,
    /// Extended key usage.
    pub purpose: Purpose,
    /// First moment of validity.
    pub not_before: SystemTime,
    /// Last moment of validity.
    pub not_after: SystemTime,
}

impl Leaf {
    /// Client certificate of an identity: subject as requested, no names but the SPIFFE id, one
    /// year (protocol: auth 2.4).
    #[must_use]
    pub fn for_identity(request: &CertificateRequest, id: &SpiffeId, now: SystemTime) -> Self {
        Self {
            sans: vec![San::Uri(id.to_string())],
            ..Self::as_requested(request, Purpose::Client, now)
        }
    }

    /// Renewed client certificate of an identity: names as in the current certificate, so that the
    /// SPIFFE id stays (protocol: auth 12.1).
    #[must_use]
    pub fn renewed(request: &CertificateRequest, current: &Certificate, now: SystemTime) -> Self {
        Self { sans: current.sans().to_vec(), ..Self::as_requested(request, Purpose::Client, now) }
    }

    /// Certificate of an API session: the subject is only the identity's id (protocol: auth 2.4).
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
            subject: Subject::common_name(identity_id).to_der()?,
            public: request.public_key().clone(),
            sans: vec![San::Uri(id.to_string())],
            purpose: Purpose::Client,
            not_before: now,
            not_after: now + life,
        })
    }

    /// Certificate of a router, client or server, one year: the subject as requested if its only
    /// common name is the router's id, else just that; the router's SPIFFE id, and the names that
    /// it was granted.
    ///
    /// # Errors
    /// When the id is too long for a common name.
    pub fn for_router(
        request: &CertificateRequest,
        id: &str,
        spiffe: &SpiffeId,
        granted: impl IntoIterator<Item = San>,
        purpose: Purpose,
        now: SystemTime,
    ) -> Result<Self> {
        let mut leaf = Self::as_requested(request, purpose, now);
        if !request.is_only_named(id) {
            leaf.subject = Subject::common_name(id).to_der()?;
        }
        leaf.sans.push(San::Uri(spiffe.to_string()));
        leaf.sans.extend(granted);
        Ok(leaf)
    }

    /// Certificate for a key of our own, as quickstart makes them.
    ///
    /// # Errors
    /// When the subject is too long.
    pub fn for_key(
        public: &PublicKey,
        subject: &Subject,
        sans: Vec<San>,
        purpose: Purpose,
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

    fn as_requested(request: &CertificateRequest, purpose: Purpose, now: SystemTime) -> Self {
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

/// What a new authority is to be.
#[derive(Debug, Clone)]
pub struct AuthoritySpec {
    /// Its subject.
    pub subject: Subject,
    /// Its kind of key.
    pub key: KeyAlgorithm,
    /// How many authorities may stand below it; none = unlimited.
    pub path_len: Option<u8>,
    /// Trust domain it carries as a SPIFFE id.
    pub trust_domain: Option<String>,
    /// How long it lives.
    pub life: Duration,
}

impl AuthoritySpec {
    /// An authority with a P-256 key, ten years, and any number of authorities below it.
    #[must_use]
    pub fn new(common_name: impl Into<String>) -> Self {
        Self {
            subject: Subject::common_name(common_name),
            key: KeyAlgorithm::EcP256,
            path_len: None,
            trust_domain: None,
            life: AUTHORITY_LIFE,
        }
    }
}

/// An authority that can issue: its certificate and its key.
#[derive(Debug, Clone)]
pub struct Authority {
    certificate: Certificate,
    key: PrivateKey,
}

impl Authority {
    /// Puts a certificate and its key together.
    ///
    /// # Errors
    /// When they do not belong together, or the certificate is not one of an authority.
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
    /// When the key cannot be made or a name not be written.
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
    /// As [`Authority::make_root`], and when this authority may have none below it.
    pub fn make_intermediate(&self, spec: &AuthoritySpec, now: SystemTime) -> Result<Self> {
        if self.certificate.path_len() == Some(0) {
            return Err(Error::Issue(format!(
                "`{}` has path length 0 and may not issue authorities",
                self.certificate.subject()
            )));
        }
        let key = PrivateKey::generate(spec.key)?;
        let subject = spec.subject.to_der()?;
        let fields = Fields::of_authority(spec, &subject, key.public(), now)?;
        let certificate =
            fields.sign(self.certificate.subject_der(), &self.key_id()?, &self.key)?;
        Self::new(certificate, key)
    }

    /// Issues a certificate.
    ///
    /// # Errors
    /// When a name cannot be written, or the validity is empty.
    pub fn issue(&self, leaf: &Leaf) -> Result<Certificate> {
        if leaf.not_after <= leaf.not_before {
            return Err(Error::Issue("it would end before it begins".into()));
        }
        let purposes: &[&[u64]] = match leaf.purpose {
            Purpose::Client => &[extension::CLIENT_AUTH],
            Purpose::Server => &[extension::SERVER_AUTH],
            Purpose::Both => &[extension::CLIENT_AUTH, extension::SERVER_AUTH],
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
        fields.sign(self.certificate.subject_der(), &self.key_id()?, &self.key)
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

    /// The identifier that issued certificates refer to: the one in our own certificate.
    fn key_id(&self) -> Result<Vec<u8>> {
        match self.certificate.subject_key_id() {
            Some(id) => Ok(id.to_vec()),
            None => Ok(self.certificate.public_key()?.key_id()),
        }
    }
}

/// Everything of a certificate but who signs it.
struct Fields<'a> {
    subject: &'a [u8],
    public: &'a PublicKey,
    not_before: SystemTime,
    not_after: SystemTime,
    key_usage: u16,
    purposes: &'a [&'a [u64]],
    /// The extension with the alternative names, ready made.
    names: Option<Vec<u8>>,
    /// Path length, for an authority.
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
        // The algorithm stands inside the signed part as well, so it is asked for first.
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

/// Random, positive, never zero, below 2^159.
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

/// To the second, and never beyond the last year that a certificate can express.
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

/// The same day of the next year; the 29th of February becomes the 1st of March.
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
