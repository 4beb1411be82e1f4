//! Errors of TLS, with what the peer is told of them.

use std::io;

use rustls::CertificateError;

/// An error of TLS, with the alert that tells the peer of it (RFC 8446, section 6.2).
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) alert: u8,
    pub(crate) error: rustls::Error,
}

impl Fault {
    /// The peer sent what it must not send now.
    pub(super) fn unexpected(problem: &str) -> Self {
        Self { alert: 10, error: rustls::Error::General(problem.to_owned()) }
    }

    /// A record was changed on its way, or sealed by somebody else.
    pub(super) fn forged() -> Self {
        Self { alert: 20, error: rustls::Error::DecryptError }
    }

    /// A record is longer than TLS allows.
    pub(super) fn oversized() -> Self {
        Self { alert: 22, error: rustls::Error::PeerSentOversizedRecord }
    }

    /// A field has a value that it must not have.
    pub(super) fn illegal(problem: &str) -> Self {
        Self { alert: 47, error: rustls::Error::General(problem.to_owned()) }
    }

    /// A message makes no sense.
    pub(super) fn malformed(problem: &str) -> Self {
        Self { alert: 50, error: rustls::Error::General(problem.to_owned()) }
    }

    /// This side failed.
    pub(super) fn internal(error: rustls::Error) -> Self {
        Self { alert: 80, error }
    }
}

/// The reason why this program refused the certificate of the peer. The library shows such a reason as its
/// type.
pub(super) fn in_words(error: &rustls::Error) -> Option<String> {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(reason)) => {
            Some(reason.to_string())
        }
        _ => None,
    }
}

/// An error of a handshake of the library, with [`in_words`] in place of the library's text.
pub(crate) fn refusal_in_words(error: io::Error) -> io::Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    match tls.and_then(in_words) {
        Some(reason) => io::Error::new(error.kind(), reason),
        None => error,
    }
}
