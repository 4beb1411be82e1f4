//! TLS configurations of clients: what a client shows, and which servers it trusts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::{Signatures, provider, refusal};
use crate::certificate::{Certificate, San};
use crate::error::{Error, Result};
use crate::host;
use crate::identity::KeyedChain;
use crate::live::LiveIdentity;
use crate::role::other_than_controller;
use crate::trust::{RequiredKeyUsage, TrustBundle, Verify};

/// Settings of a TLS client.
#[derive(Debug, Clone)]
pub struct ClientTls<'a> {
    /// Application protocols to offer; empty: ALPN is not used.
    pub alpn: &'a [&'a [u8]],
    /// The trust.
    pub trust: Trust,
    /// The identity whose client certificate is presented, if any.
    pub identity: Option<Arc<LiveIdentity>>,
    /// True if servers are controllers: certificates of routers and identities are refused, whatever host they are for.
    pub to_controllers: bool,
}

/// The certificates that a client trusts.
#[derive(Debug, Clone)]
pub enum Trust {
    /// A bundle.
    Bundle(TrustBundle),
    /// The bundle of an identity, as it is at the time of the handshake.
    Identity(Arc<LiveIdentity>),
}

impl Trust {
    fn verify(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Result<()> {
        let how = Verify { usage: RequiredKeyUsage::Server, ..Verify::default() };
        match self {
            Self::Bundle(bundle) => bundle.verify(chain, how, now),
            Self::Identity(identity) => identity.current().ca().verify(chain, how, now),
        }
        .map(|_| ())
    }
}

impl<'a> ClientTls<'a> {
    /// Settings for connections inside the network: trusts the identity's bundle and presents its
    /// client certificate.
    #[must_use]
    pub fn of_identity(identity: &Arc<LiveIdentity>, alpn: &'a [&'a [u8]]) -> Self {
        Self {
            alpn,
            trust: Trust::Identity(Arc::clone(identity)),
            identity: Some(Arc::clone(identity)),
            to_controllers: false,
        }
    }

    /// Trusts a bundle and presents no certificate.
    #[must_use]
    pub fn anonymous(bundle: TrustBundle, alpn: &'a [&'a [u8]]) -> Self {
        Self { alpn, trust: Trust::Bundle(bundle), identity: None, to_controllers: false }
    }

    /// Refuses servers whose certificates were issued to routers or identities.
    #[must_use]
    pub fn to_controllers(self) -> Self {
        Self { to_controllers: true, ..self }
    }
}

/// A client configuration that verifies the chain and the name of the server.
///
/// # Errors
/// When the cryptographic provider lacks an algorithm that weft needs.
pub fn client_config(tls: &ClientTls<'_>) -> Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Verifier::new(Judge::Trusts {
            trust: tls.trust.clone(),
            to_controllers: tls.to_controllers,
        }));
    let mut config = match &tls.identity {
        Some(identity) => {
            builder.with_client_cert_resolver(Arc::new(Presented(Arc::clone(identity))))
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = tls.alpn.iter().map(|name| name.to_vec()).collect();
    // A resumed session would keep an identity and a trust that were replaced meanwhile.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// A client configuration that trusts any server and keeps its chain, for the first step of an
/// enrollment: the signature of the enrollment token is then checked with the leaf's key. The
/// handshake still proves that the server holds that key. Only the chain may be taken from such a
/// connection.
///
/// # Errors
/// When the cryptographic provider lacks an algorithm that weft needs.
pub fn collecting_client_config(alpn: &[&[u8]]) -> Result<(ClientConfig, CollectedChain)> {
    let collected = CollectedChain::default();
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Verifier::new(Judge::Collects(collected.clone())))
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config.resumption = Resumption::disabled();
    Ok((config, collected))
}

/// The chain of the last server.
#[derive(Debug, Clone, Default)]
pub struct CollectedChain {
    chain: Arc<Mutex<Vec<CertificateDer<'static>>>>,
}

impl CollectedChain {
    /// The chain, leaf first. Complete only after the handshake.
    #[must_use]
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, chain: Vec<CertificateDer<'static>>) {
        *self.chain.lock().unwrap_or_else(PoisonError::into_inner) = chain;
    }
}

#[derive(Debug)]
struct Presented(Arc<LiveIdentity>);

impl ResolvesClientCert for Presented {
    fn resolve(&self, _hints: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let identity = self.0.current();
        let client = identity.client()?;
        client.key().tls().choose_scheme(schemes)?;
        Some(KeyedChain::tls(client))
    }

    fn has_certs(&self) -> bool {
        self.0.current().client().is_some()
    }
}

/// Verifies the chain and the name of a server, as a [`client_config`] does, and returns the leaf.
///
/// # Errors
/// When the chain leads to no trusted authority, or the leaf is not for this name.
pub fn verify_server(
    trust: &Trust,
    chain: &[CertificateDer<'_>],
    name: &ServerName<'_>,
    now: SystemTime,
) -> Result<Certificate> {
    trust.verify(chain, now).map_err(|error| of_host(error, name))?;
    let leaf = chain.first().ok_or(Error::NoCertificate)?;
    let leaf = Certificate::from_der(leaf.clone().into_owned())?;
    match host::is_covered(name, leaf.sans()) {
        true => Ok(leaf),
        false => Err(Error::Refused(not_for(&leaf, name))),
    }
}

/// The error, with the name of the server whose certificate is not valid now.
fn of_host(error: Error, name: &ServerName<'_>) -> Error {
    match error {
        Error::Validity(mut validity) => {
            validity.host = Some(name.to_str().into_owned());
            Error::Validity(validity)
        }
        other => other,
    }
}

/// The name that was dialed, and the names that the certificate is for.
fn not_for(leaf: &Certificate, name: &ServerName<'_>) -> String {
    let text = format!("it is not for `{}`", name.to_str());
    let names: Vec<String> = leaf.sans().iter().map(San::to_string).collect();
    match names.is_empty() {
        true => format!("{text}, and names no host"),
        false => format!("{text}, but for {}", names.join(", ")),
    }
}

/// Judges the certificates of servers.
#[derive(Debug)]
struct Verifier {
    signatures: Signatures,
    how: Judge,
}

#[derive(Debug)]
enum Judge {
    /// Refuses chains that are not trusted, and leaves for another name.
    Trusts { trust: Trust, to_controllers: bool },
    /// Accepts every chain, and keeps it.
    Collects(CollectedChain),
}

impl Verifier {
    fn new(how: Judge) -> Arc<Self> {
        Arc::new(Self { signatures: Signatures(provider()), how })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let chain = std::iter::once(end_entity).chain(intermediates).cloned();
        match &self.how {
            Judge::Trusts { trust, to_controllers } => {
                let chain: Vec<_> = chain.collect();
                let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(now.as_secs());
                let leaf = verify_server(trust, &chain, server_name, now);
                let leaf = leaf.map_err(|error| refusal(&error))?;
                if *to_controllers && let Some(other) = other_than_controller(&leaf) {
                    return Err(refusal(&Error::Refused(format!(
                        "it is that of {other}, which is no controller"
                    ))));
                }
            }
            Judge::Collects(collected) => {
                collected.set(chain.map(CertificateDer::into_owned).collect());
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.tls12(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.tls13(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.schemes()
    }
}
