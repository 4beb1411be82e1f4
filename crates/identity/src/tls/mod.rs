//! TLS configurations: which certificates are presented and which are trusted
//! (docs/protocol/channel.md 3.2).
//!
//! Versions 1.2 and 1.3, forward secret authenticated suites only, post-quantum hybrid key exchange
//! preferred. The cryptographic provider is always given; nothing depends on a process default.

mod client;
mod server;

use std::sync::{Arc, OnceLock};

use rustls::{
    DigitallySignedStruct, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::CertificateDer;

pub use client::{
    ClientTls, CollectedChain, Trust, client_config, collecting_client_config, verify_server,
};
pub use server::{
    ClientAuth, JudgeClient, ServerTls, server_config, server_config_for, server_config_of_versions,
};

/// ALPN of HTTP/2.
pub const ALPN_H2: &[u8] = b"h2";
/// ALPN of HTTP/1.1.
pub const ALPN_HTTP1: &[u8] = b"http/1.1";

/// The one cryptographic provider of weft.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider())))
}

/// Verification of the signatures of a handshake.
#[derive(Debug)]
struct Signatures(Arc<CryptoProvider>);

impl Signatures {
    fn tls12(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn tls13(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A refusal as the TLS error whose alert fits it.
fn refusal(error: &crate::Error) -> rustls::Error {
    tracing::debug!(%error, "peer certificate refused");
    rustls::Error::InvalidCertificate(rustls::CertificateError::Other(rustls::OtherError(
        Arc::new(Refusal(error.to_string())),
    )))
}

/// A refusal as the error type that rustls wants.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

/// An error of TLS in words: the reason itself if a certificate was refused here. The library shows such a
/// reason as its type.
#[must_use]
pub fn in_words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(reason)) => {
            reason.to_string()
        }
        other => other.to_string(),
    }
}
