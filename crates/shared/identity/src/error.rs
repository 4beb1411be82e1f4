//! Errors of keys, certificates, requests and tokens.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fmt, io};

use time::OffsetDateTime;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Longest token that is read, in bytes.
pub const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// An error with its place and, where it helps, a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The operation: `read`, `write`, ...
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file could not be replaced; the new contents are in use.
    #[error("{source}; the new contents are in use, and a restart loses them{}", beside(new.as_deref()))]
    NotReplaced {
        /// The file.
        path: PathBuf,
        /// The file beside it that has the new contents.
        new: Option<PathBuf>,
        /// The problem.
        source: Box<Error>,
    },
    /// A file is larger than any key or certificate file may be.
    #[error("{} has {size} bytes, more than the {limit} that are read from such a file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A value of an `identity:` section is wrong.
    #[error("{section}.{key}: {source}")]
    Value {
        /// The section, e.g. `identity` or `web[0].identity`.
        section: String,
        /// The key below it, e.g. `cert`.
        key: String,
        /// The problem.
        source: Box<Error>,
    },
    /// A required value of an `identity:` section is absent.
    #[error("required configuration value [{section}.{key}] is missing or is blank")]
    MissingValue {
        /// The section.
        section: String,
        /// The key.
        key: &'static str,
    },
    /// A certificate has no key: neither its own key nor the section's `key` is given.
    #[error("{0}")]
    NoKeyFor(&'static str),
    /// The location names a scheme that is not supported.
    #[error(
        "location scheme not supported ({0}); give a file path, `file://<path>` or `pem:<PEM text>`"
    )]
    Scheme(String),
    /// Text without any usable certificate.
    #[error("no certificate found")]
    NoCertificate,
    /// Text without any usable private key.
    #[error(
        "no key found; expected an unencrypted `PRIVATE KEY`, `EC PRIVATE KEY` or `RSA PRIVATE KEY` PEM block"
    )]
    NoKey,
    /// A private key that cannot be used.
    #[error("private key not usable: {0}")]
    Key(String),
    /// A key and a certificate that do not belong together.
    #[error("the key does not belong to the certificate with subject `{0}`")]
    KeyMismatch(String),
    /// A public key of a kind that is not supported.
    #[error("public key not supported: {0}")]
    PublicKey(String),
    /// A certificate that cannot be read.
    #[error("certificate not readable: {0}")]
    Certificate(String),
    /// A certificate signing request that is not acceptable.
    #[error("certificate signing request refused: {0}")]
    Request(String),
    /// A certificate cannot be made.
    #[error("certificate cannot be issued: {0}")]
    Issue(String),
    /// A certificate does not pass verification.
    #[error("certificate refused: {0}")]
    Refused(String),
    /// A certificate that none of the trusted authorities has issued.
    #[error("certificate refused: `{subject}`: {reason}")]
    NotIssued {
        /// The subject of the certificate.
        subject: String,
        /// What is missing.
        reason: &'static str,
    },
    /// A certificate that is not valid at the time of this machine's clock.
    #[error(transparent)]
    Validity(Box<Validity>),
    /// A host that none of the server certificates names.
    #[error("identity is not valid for provided host: [{host}]. is valid for: [{names}]")]
    Host {
        /// The host that was asked for.
        host: String,
        /// The alternative names of the certificates, comma separated.
        names: String,
    },
    /// The URI is not a SPIFFE id of a known form.
    #[error("invalid SPIFFE id `{id}`: {reason}")]
    Spiffe {
        /// The text.
        id: String,
        /// The problem.
        reason: &'static str,
    },
    /// A token that is not acceptable.
    #[error("token refused: {0}")]
    Token(#[from] TokenError),
    /// A TLS configuration cannot be made.
    #[error("TLS configuration: {0}")]
    Tls(#[from] rustls::Error),
    /// A document (identity file, bundle, key set) that cannot be read.
    #[error("{what} not readable: {reason}")]
    Document {
        /// Kind of document.
        what: &'static str,
        /// The problem.
        reason: String,
    },
}

impl Error {
    /// Of two refusals of one certificate the one that says more about it: one with a rule rather than one that
    /// knows no issuer.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::NotIssued { .. } => other,
            telling => telling,
        }
    }

    /// Adds section and key of the configuration to the error.
    pub(crate) fn at(self, section: &str, key: impl Into<String>) -> Self {
        Self::Value { section: section.to_owned(), key: key.into(), source: Box::new(self) }
    }
}

/// A certificate that is not valid yet, or no more, by the clock of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validity {
    /// The peer that presented the certificate, if it was dialed by a name.
    pub(crate) host: Option<String>,
    /// The subject of the certificate.
    pub(crate) subject: String,
    /// True if the certificate is of an authority above the peer's own certificate.
    pub(crate) of_authority: bool,
    /// First moment at which the certificate is valid.
    pub(crate) from: SystemTime,
    /// Last moment at which the certificate is valid.
    pub(crate) until: SystemTime,
    /// The time of the clock.
    pub(crate) now: SystemTime,
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the certificate ")?;
        if self.of_authority {
            f.write_str("of the authority ")?;
        }
        match &self.host {
            Some(host) if self.of_authority => write!(f, "`{}` of {host}", self.subject)?,
            Some(host) => write!(f, "of {host} (`{}`)", self.subject)?,
            None => write!(f, "`{}`", self.subject)?,
        }
        let early = self.now < self.from;
        let border = if early { self.from } else { self.until };
        let (minute, now) = (minutes(border), minutes(self.now));
        // Seconds tell two times of the same minute apart.
        let (border, now) =
            if minute == now { (seconds(border), seconds(self.now)) } else { (minute, now) };
        let (verb, advice) = match early {
            true => ("is valid from", "check the clock"),
            false => ("was valid until", "renew the certificate, or check the clock"),
        };
        write!(f, " {verb} {border} UTC, and this machine's clock says {now} UTC: {advice}")
    }
}

impl std::error::Error for Validity {}

/// `2026-11-28 01:56`, in UTC.
fn minutes(time: SystemTime) -> String {
    let at = OffsetDateTime::from(time);
    format!("{} {:02}:{:02}", at.date(), at.hour(), at.minute())
}

/// `2026-11-28 01:56:07`, in UTC.
fn seconds(time: SystemTime) -> String {
    format!("{}:{:02}", minutes(time), OffsetDateTime::from(time).second())
}

fn beside(new: Option<&Path>) -> String {
    let text = |new: &Path| format!(" unless {} is moved to its place", new.display());
    new.map(text).unwrap_or_default()
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The token is longer than [`MAX_TOKEN_BYTES`].
    #[error("{0} bytes, at most {MAX_TOKEN_BYTES} are read")]
    TooLong(usize),
    /// The text is not three parts of base64 with JSON in the first two.
    #[error("not a JSON Web Token: {0}")]
    Malformed(&'static str),
    /// The header names no key.
    #[error("the header names no key (`kid`)")]
    NoKeyId,
    /// The header names an unknown key.
    #[error("signed with the unknown key `{0}`")]
    UnknownKey(String),
    /// The algorithm does not fit the kind of key.
    #[error("algorithm `{0}` does not fit the key")]
    Algorithm(String),
    /// The signature is not of this key.
    #[error("the signature is wrong")]
    Signature,
    /// The token has expired.
    #[error("expired")]
    Expired,
    /// The token is not valid yet.
    #[error("not valid yet")]
    NotYet,
    /// The token has no expiry, and one is required.
    #[error("without expiry (`exp`)")]
    NoExpiry,
    /// The expiry is too far ahead.
    #[error("its expiry (`exp`) is more than {0} days ahead")]
    ExpiresLate(u64),
    /// The issuer is another than expected.
    #[error("issued by `{0}`")]
    Issuer(String),
    /// The audience is another than expected.
    #[error("meant for another audience")]
    Audience,
    /// The claims have another form than expected.
    #[error("claims: {0}")]
    Claims(String),
}
