//! TLS configurations of servers: what a server shows, and which certificates it asks clients for.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};
use rustls_pki_types::{CertificateDer, UnixTime};

use super::{Signatures, provider, refusal};
use crate::error::Result;
use crate::identity::KeyedChain;
use crate::live::LiveIdentity;

/// A function that judges the chain of a client during the handshake, leaf first.
pub type JudgeClient = dyn Fn(&[CertificateDer<'_>]) -> Result<()> + Send + Sync;

/// The client certificate that a server asks for. In every case except [`ClientAuth::None`] the
/// handshake proves that the client holds the key of its leaf.
#[derive(Clone)]
pub enum ClientAuth {
    /// No certificate is asked for (outer TLS of WebSockets).
    None,
    /// A certificate is asked for and may be absent; the caller verifies its chain (web).
    Request,
    /// A certificate is required; the caller verifies its chain (control, links).
    Require,
    /// A certificate is required and judged during the handshake (edge). The judge is called in
    /// every handshake, so that its answer may change.
    Judge(Arc<JudgeClient>),
}

impl fmt::Debug for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Request => "Request",
            Self::Require => "Require",
            Self::Judge(_) => "Judge",
        })
    }
}

/// Settings of a TLS server.
#[derive(Debug, Clone)]
pub struct ServerTls<'a> {
    /// Application protocols, preferred first; empty: ALPN is not used.
    pub alpn: &'a [&'a [u8]],
    /// The client certificate that is asked for.
    pub client_auth: ClientAuth,
}

/// A server configuration that presents one of the identity's server certificates: the first that
/// fits the name and the signature schemes that the client offers, or else the first
/// (docs/protocol/config.md 2.3). An alternative one that is not valid now is none of them.
///
/// # Errors
/// When the cryptographic provider lacks an algorithm that weft needs.
pub fn server_config(identity: &Arc<LiveIdentity>, tls: &ServerTls<'_>) -> Result<ServerConfig> {
    server_config_of_versions(identity, tls, rustls::DEFAULT_VERSIONS)
}

/// [`server_config`] with these versions of TLS only (docs/protocol/config.md 3.4).
///
/// # Errors
/// When the cryptographic provider lacks an algorithm that weft needs, or there is no version.
pub fn server_config_of_versions(
    identity: &Arc<LiveIdentity>,
    tls: &ServerTls<'_>,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ServerConfig> {
    let identity = Arc::clone(identity);
    build(
        Arc::new(Presented(Box::new(move |hello| {
            choose(identity.current().served(SystemTime::now()), hello).map(KeyedChain::tls)
        }))),
        tls,
        versions,
    )
}

/// [`server_config`] for certificates that do not come from an identity.
///
/// # Errors
/// When the cryptographic provider lacks an algorithm that weft needs.
pub fn server_config_for(chains: Vec<KeyedChain>, tls: &ServerTls<'_>) -> Result<ServerConfig> {
    build(
        Arc::new(Presented(Box::new(move |hello| {
            choose(chains.iter(), hello).map(KeyedChain::tls)
        }))),
        tls,
        rustls::DEFAULT_VERSIONS,
    )
}

fn build(
    presented: Arc<Presented>,
    tls: &ServerTls<'_>,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ServerConfig> {
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)?;
    let verify = |mandatory, judge| {
        Arc::new(AnyClient { signatures: Signatures(provider), mandatory, judge })
    };
    let mut resumable = true;
    let builder = match &tls.client_auth {
        ClientAuth::None => builder.with_no_client_auth(),
        ClientAuth::Request => builder.with_client_cert_verifier(verify(false, None)),
        ClientAuth::Require => {
            resumable = false;
            builder.with_client_cert_verifier(verify(true, None))
        }
        ClientAuth::Judge(judge) => {
            resumable = false;
            builder.with_client_cert_verifier(verify(true, Some(Arc::clone(judge))))
        }
    };
    let mut config = builder.with_cert_resolver(presented);
    config.alpn_protocols = tls.alpn.iter().map(|name| name.to_vec()).collect();
    if !resumable {
        // A resumed session would use the client certificate of an earlier handshake, which is judged no
        // more and may have expired.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

fn choose<'a>(
    chains: impl Iterator<Item = &'a KeyedChain> + Clone,
    hello: &ClientHello<'_>,
) -> Option<&'a KeyedChain> {
    let fits = |chain: &&KeyedChain| {
        hello.server_name().is_none_or(|name| chain.leaf().covers_host(name))
            && chain.key().tls().choose_scheme(hello.signature_schemes()).is_some()
    };
    chains.clone().find(fits).or_else(|| chains.clone().next())
}

type Choose = dyn Fn(&ClientHello<'_>) -> Option<Arc<CertifiedKey>> + Send + Sync;

struct Presented(Box<Choose>);

impl ResolvesServerCert for Presented {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        (self.0)(&hello)
    }
}

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Presented")
    }
}

/// Accepts any certificate whose key the handshake proves, unless a judge refuses it.
struct AnyClient {
    signatures: Signatures,
    mandatory: bool,
    judge: Option<Arc<JudgeClient>>,
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Clients choose a certificate by these hints; without hints they send the one they have.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if let Some(judge) = &self.judge {
            let chain: Vec<CertificateDer<'_>> =
                std::iter::once(end_entity).chain(intermediates).cloned().collect();
            judge(&chain).map_err(|error| refusal(&error))?;
        }
        Ok(ClientCertVerified::assertion())
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

impl fmt::Debug for AnyClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyClient").field("mandatory", &self.mandatory).finish_non_exhaustive()
    }
}
