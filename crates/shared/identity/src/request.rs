//! Certificate signing requests: made for weft's own keys, and read from SDKs and routers.
//!
//! Reading a request checks that its sender holds the key, and keeps the subject, the key and the
//! names. Usages, constraints and all other extensions are dropped, because the issuer decides them
//! (docs/protocol/auth.md 2.4).

use rustls_pki_types::pem::SectionKind;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer as _;
use yasna::Tag;
use yasna::models::ObjectIdentifier;

use crate::certificate::San;
use crate::error::{Error, Result};
use crate::key::PrivateKey;
use crate::name::SubjectName;
use crate::public::{PublicKey, Signature};
use crate::{der, distinguished, extension, pem};

/// Largest request that is read, in bytes.
pub const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// Most names in a request.
pub const MAX_REQUEST_NAMES: usize = 256;

const EXTENSION_REQUEST: &[u64] = &[1, 2, 840, 113_549, 1, 9, 14];

/// A signing request whose signature was verified.
#[derive(Debug, Clone)]
pub struct CertificateRequest {
    subject: Vec<u8>,
    common_name: Option<String>,
    common_names: usize,
    public: PublicKey,
    sans: Vec<San>,
}

impl CertificateRequest {
    /// Reads a request in PEM: exactly one block and nothing after it.
    ///
    /// # Errors
    /// When the text has another form, or as [`CertificateRequest::from_der`].
    pub fn from_pem(text: &str) -> Result<Self> {
        if text.len() > MAX_REQUEST_BYTES {
            return Err(too_large());
        }
        let mut blocks = pem::blocks(text.as_bytes(), SectionKind::Csr);
        let der = blocks.pop().ok_or_else(|| {
            Error::Request("expected one PEM block `CERTIFICATE REQUEST`, found none".into())
        })?;
        let after = text.rsplit("-----").next().unwrap_or_default();
        if !blocks.is_empty()
            || text.matches("-----BEGIN ").count() != 1
            || !after.trim().is_empty()
        {
            return Err(Error::Request("expected one PEM block and nothing after it".into()));
        }
        Self::from_der(&der)
    }

    /// Reads a request in DER and verifies its signature.
    ///
    /// # Errors
    /// When the request is malformed, its signature is wrong or of an unsupported kind, or the key is
    /// of an unsupported kind or size.
    pub fn from_der(der: &[u8]) -> Result<Self> {
        if der.len() > MAX_REQUEST_BYTES {
            return Err(too_large());
        }
        der::check(der).map_err(|what| Error::Request(format!("it is not DER: {what}")))?;
        let (rest, request) = X509CertificationRequest::from_der(der)
            .map_err(|error| Error::Request(error.to_string()))?;
        if !rest.is_empty() {
            return Err(Error::Request("bytes after the request".into()));
        }
        let info = &request.certification_request_info;
        // The subject is copied into a certificate.
        if !distinguished::is_whole(&info.subject) {
            return Err(Error::Request("its subject cannot be read to its end".into()));
        }
        let public = PublicKey::from_spki(info.subject_pki.raw)?;
        let how = Signature::from_oid(&request.signature_algorithm.algorithm).ok_or_else(|| {
            Error::Request(format!(
                "signature algorithm {} is not supported",
                request.signature_algorithm.algorithm
            ))
        })?;
        if !public.verify(how, info.raw, &request.signature_value.data) {
            return Err(Error::Request("its signature is not made by the key it carries".into()));
        }
        Ok(Self {
            common_names: info.subject.iter_common_name().count(),
            subject: info.subject.as_raw().to_vec(),
            common_name: distinguished::common_name(&info.subject),
            public,
            sans: names_of(&request)?,
        })
    }

    /// Makes a request in DER.
    ///
    /// # Errors
    /// When a name cannot be encoded or the key refuses to sign.
    pub fn make_der(key: &PrivateKey, subject: &SubjectName, sans: &[San]) -> Result<Vec<u8>> {
        let subject = subject.to_der()?;
        Self::make_with_subject(key, &subject, sans)
    }

    /// Makes a request in PEM.
    ///
    /// # Errors
    /// As [`CertificateRequest::make_der`].
    pub fn make_pem(key: &PrivateKey, subject: &SubjectName, sans: &[San]) -> Result<String> {
        Ok(pem::encode("CERTIFICATE REQUEST", &Self::make_der(key, subject, sans)?))
    }

    /// Makes a request in PEM for a certificate's subject, as renewal does
    /// (docs/protocol/edge-control-plane.md 17.3).
    ///
    /// # Errors
    /// As [`CertificateRequest::make_der`].
    pub fn renew_pem(key: &PrivateKey, subject_der: &[u8], sans: &[San]) -> Result<String> {
        let der = Self::make_with_subject(key, subject_der, sans)?;
        Ok(pem::encode("CERTIFICATE REQUEST", &der))
    }

    fn make_with_subject(key: &PrivateKey, subject: &[u8], sans: &[San]) -> Result<Vec<u8>> {
        let names = extension::subject_alt_names(sans, false)?;
        let info = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_u8(0);
                writer.next().write_der(subject);
                writer.next().write_der(key.public().spki());
                writer.next().write_tagged_implicit(Tag::context(0), |writer| {
                    writer.write_set(|writer| {
                        let Some(names) = &names else { return };
                        writer.next().write_sequence(|writer| {
                            writer
                                .next()
                                .write_oid(&ObjectIdentifier::from_slice(EXTENSION_REQUEST));
                            writer.next().write_set(|writer| {
                                writer.next().write_sequence(|writer| {
                                    writer.next().write_der(names);
                                });
                            });
                        });
                    });
                });
            });
        });
        extension::signed(&info, key)
    }

    /// The subject in DER, as the sender wrote it.
    #[must_use]
    pub fn subject_der(&self) -> &[u8] {
        &self.subject
    }

    /// The common name of the subject; of several, the last.
    #[must_use]
    pub fn common_name(&self) -> Option<&str> {
        self.common_name.as_deref()
    }

    /// True if the subject has this common name and no other.
    #[must_use]
    pub fn is_only_named(&self, name: &str) -> bool {
        self.common_names == 1 && self.common_name() == Some(name)
    }

    /// The key to be certified.
    #[must_use]
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// The requested DNS, IP, mail and URI names.
    #[must_use]
    pub fn sans(&self) -> &[San] {
        &self.sans
    }
}

fn names_of(request: &X509CertificationRequest<'_>) -> Result<Vec<San>> {
    let mut out = Vec::new();
    for extension in request.requested_extensions().into_iter().flatten() {
        if let ParsedExtension::SubjectAlternativeName(names) = extension {
            out.extend(names.general_names.iter().filter_map(San::from_general));
        }
    }
    if out.len() > MAX_REQUEST_NAMES {
        return Err(Error::Request(format!(
            "{} names, at most {MAX_REQUEST_NAMES} are issued",
            out.len()
        )));
    }
    Ok(out)
}

fn too_large() -> Error {
    Error::Request(format!("larger than {MAX_REQUEST_BYTES} bytes"))
}
