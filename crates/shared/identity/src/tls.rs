//! TLS configurations: which certificates are presented and which are trusted
//! (docs/protocol/channel.md 3.2).
//!
//! Versions 1.2 and 1.3, forward secret authenticated suites only, post-quantum hybrid key exchange
//! preferred. The cryptographic provider is always given; nothing depends on a process default.

mod client;
mod server;

use std::sync::{Arc, OnceLock};

pub use client::{
    ClientTls, CollectedChain, Trust, client_config, collecting_client_config, verify_server,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::{DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
pub use server::{
    ClientAuth, JudgeClient, ServerTls, server_config, server_config_for, server_config_of_versions,
};
use webpki::RawPublicKeyEntity;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

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

/// Verification of the signatures of a handshake. The key of the peer's certificate is used whatever else the
/// certificate says: whether it proves anything is decided afterwards, and then said in words.
#[derive(Debug)]
struct Signatures(Arc<CryptoProvider>);

impl Signatures {
    fn tls12(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = key_of(cert)?;
        let key = RawPublicKeyEntity::try_from(&key).map_err(|_| malformed())?;
        let known = self.0.signature_verification_algorithms.mapping;
        // In TLS 1.2 a scheme leaves the curve open.
        let fitting = known.iter().filter(|(scheme, _)| *scheme == signature.scheme);
        let mut fitting = fitting.flat_map(|(_, algorithms)| algorithms.iter());
        match fitting.any(|one| key.verify_signature(*one, message, signature.signature()).is_ok())
        {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(rustls::CertificateError::BadSignature.into()),
        }
    }

    fn tls13(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key_of(cert)?, signature, known)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The key of a certificate.
fn key_of(cert: &CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'static>, rustls::Error> {
    let (_, cert) = X509Certificate::from_der(cert).map_err(|_| malformed())?;
    Ok(SubjectPublicKeyInfoDer::from(cert.public_key().raw.to_vec()))
}

fn malformed() -> rustls::Error {
    rustls::CertificateError::BadEncoding.into()
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
