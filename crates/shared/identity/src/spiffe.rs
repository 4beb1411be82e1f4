//! SPIFFE ids: the subject of a certificate as a URI (docs/protocol/auth.md 2.3).
//!
//! `spiffe://<trust domain>/controller/<id>`, `.../router/<id>`, `.../identity/<id>` and
//! `.../identity/<id>/apiSession/<id>[/apiSessionCertificate/<id>]`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

const SCHEME: &str = "spiffe://";
/// Longest id that is read, in bytes.
const MAX_LEN: usize = 2048;

/// True if a URI has the scheme `spiffe`, in any case.
pub(crate) fn has_scheme(uri: &str) -> bool {
    uri.get(..SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCHEME))
}

/// A parsed SPIFFE id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpiffeId {
    /// The trust domain, without scheme.
    pub trust_domain: String,
    /// The subject.
    pub subject: SpiffeSubject,
}

/// Subject of a SPIFFE id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpiffeSubject {
    /// The trust domain itself; authorities carry such an id.
    Domain,
    /// A controller.
    Controller(String),
    /// A router.
    Router(String),
    /// An identity.
    Identity(String),
    /// One API session of an identity.
    ApiSession {
        /// The identity.
        identity: String,
        /// The session.
        session: String,
        /// The certificate of the session, if it is named.
        certificate: Option<String>,
    },
    /// A path that weft does not know, as segments.
    Other(Vec<String>),
}

impl SpiffeId {
    /// An id of `subject` in a trust domain, given with or without `spiffe://`.
    #[must_use]
    pub fn new(trust_domain: &str, subject: SpiffeSubject) -> Self {
        let domain = if has_scheme(trust_domain) {
            trust_domain.get(SCHEME.len()..).unwrap_or_default()
        } else {
            trust_domain
        };
        let domain = domain.split('/').next().unwrap_or_default();
        Self { trust_domain: domain.to_owned(), subject }
    }

    /// Id of a controller.
    #[must_use]
    pub fn controller(trust_domain: &str, id: &str) -> Self {
        Self::new(trust_domain, SpiffeSubject::Controller(id.to_owned()))
    }

    /// Id of a router.
    #[must_use]
    pub fn router(trust_domain: &str, id: &str) -> Self {
        Self::new(trust_domain, SpiffeSubject::Router(id.to_owned()))
    }

    /// Id of an identity.
    #[must_use]
    pub fn identity(trust_domain: &str, id: &str) -> Self {
        Self::new(trust_domain, SpiffeSubject::Identity(id.to_owned()))
    }

    /// Id of a certificate of an API session.
    #[must_use]
    pub fn api_session(trust_domain: &str, identity: &str, session: &str, cert: &str) -> Self {
        Self::new(
            trust_domain,
            SpiffeSubject::ApiSession {
                identity: identity.to_owned(),
                session: session.to_owned(),
                certificate: Some(cert.to_owned()),
            },
        )
    }

    /// Ids of the identity and, if named, of the API session.
    #[must_use]
    pub fn identity_and_session(&self) -> Option<(&str, Option<&str>)> {
        match &self.subject {
            SpiffeSubject::Identity(id) => Some((id, None)),
            SpiffeSubject::ApiSession { identity, session, .. } => Some((identity, Some(session))),
            _ => None,
        }
    }
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.trust_domain)?;
        match &self.subject {
            SpiffeSubject::Domain => Ok(()),
            SpiffeSubject::Controller(id) => write!(f, "/controller/{id}"),
            SpiffeSubject::Router(id) => write!(f, "/router/{id}"),
            SpiffeSubject::Identity(id) => write!(f, "/identity/{id}"),
            SpiffeSubject::ApiSession { identity, session, certificate } => {
                write!(f, "/identity/{identity}/apiSession/{session}")?;
                match certificate {
                    Some(certificate) => write!(f, "/apiSessionCertificate/{certificate}"),
                    None => Ok(()),
                }
            }
            SpiffeSubject::Other(segments) => {
                segments.iter().try_for_each(|segment| write!(f, "/{segment}"))
            }
        }
    }
}

impl FromStr for SpiffeId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |reason| {
            let shown: String = text.chars().take(200).collect();
            Error::Spiffe { id: shown, reason }
        };
        if text.len() > MAX_LEN {
            return Err(wrong("longer than 2048 bytes"));
        }
        if !has_scheme(text) {
            return Err(wrong("does not begin with `spiffe://`"));
        }
        if text.contains(['?', '#']) {
            return Err(wrong("has a query or fragment"));
        }
        let rest = text.get(SCHEME.len()..).unwrap_or_default();
        let (domain, path) = rest.split_once('/').unwrap_or((rest, ""));
        if domain.is_empty() || domain.contains(['@', ':']) {
            return Err(wrong("has no plain trust domain"));
        }
        let segments: Vec<&str> =
            if path.is_empty() { Vec::new() } else { path.split('/').collect() };
        if segments.iter().any(|segment| segment.is_empty()) {
            return Err(wrong("has an empty path segment"));
        }
        let subject = subject_of(&segments);
        Ok(Self { trust_domain: domain.to_owned(), subject })
    }
}

fn subject_of(segments: &[&str]) -> SpiffeSubject {
    match *segments {
        [] => SpiffeSubject::Domain,
        ["controller", id] => SpiffeSubject::Controller(id.to_owned()),
        ["router", id] => SpiffeSubject::Router(id.to_owned()),
        ["identity", id] => SpiffeSubject::Identity(id.to_owned()),
        ["identity", identity, "apiSession", session] => SpiffeSubject::ApiSession {
            identity: identity.to_owned(),
            session: session.to_owned(),
            certificate: None,
        },
        ["identity", identity, "apiSession", session, "apiSessionCertificate", certificate] => {
            SpiffeSubject::ApiSession {
                identity: identity.to_owned(),
                session: session.to_owned(),
                certificate: Some(certificate.to_owned()),
            }
        }
        _ => SpiffeSubject::Other(segments.iter().map(|&segment| segment.to_owned()).collect()),
    }
}
