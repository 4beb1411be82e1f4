//! Bind points: their certificates and TLS configurations.

use std::sync::Arc;

use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use weft_channel::RegisterError;
use weft_config::web::{TlsVersion, WebOptions};
use weft_config::{HostPort, WebServer};
use weft_identity::LiveIdentity;
use weft_identity::tls::{ALPN_H2, ALPN_HTTP1, ClientAuth, ServerTls, server_config_of_versions};

use crate::scrape::NoScraper;

/// ALPN protocols of a bind point; the empty one is for clients that offer none.
pub const PROTOCOLS: &[&str] = &["h2", "http/1.1", ""];

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The identity of a server cannot be loaded or is not complete.
    #[error("web server `{server}`: {source}")]
    Identity {
        /// The server.
        server: String,
        /// The problem.
        source: weft_identity::Error,
    },
    /// No certificate names the host of the address that clients are told.
    #[error(
        "web server `{server}`: address not valid {address}: no server certificate names this \
         host; use one that does, or tell clients another address"
    )]
    Name {
        /// The server.
        server: String,
        /// The address.
        address: HostPort,
    },
    /// The certificate for reading metrics cannot be used.
    #[error("web server `{server}`: {source}")]
    Scraper {
        /// The server.
        server: String,
        /// The problem.
        source: NoScraper,
    },
    /// The address cannot be listened on.
    #[error("web server `{server}`: {source}")]
    Bind {
        /// The server.
        server: String,
        /// The problem.
        source: RegisterError,
    },
}

/// The identity of a server, if its section has one of its own.
///
/// # Errors
/// When the identity cannot be loaded or is not complete.
pub fn own_identity(config: &WebServer) -> Result<Option<Arc<LiveIdentity>>, StartError> {
    let Some(section) = &config.identity else { return Ok(None) };
    let section = section.clone();
    let identity = section.require_web().and_then(|()| LiveIdentity::load(section));
    identity
        .map(Some)
        .map_err(|source| StartError::Identity { server: config.name.clone(), source })
}

/// Checks that a certificate of the server names the address that clients are told; clients would
/// refuse any other (docs/protocol/config.md 3.2).
///
/// # Errors
/// When no certificate names the host of the address.
pub fn check_name(
    server: &str,
    address: &HostPort,
    identity: &LiveIdentity,
) -> Result<(), StartError> {
    let host = address.host.split('%').next().unwrap_or_default();
    let is_named = identity.current().servers().iter().any(|chain| chain.leaf().covers_host(host));
    if is_named {
        return Ok(());
    }
    Err(StartError::Name { server: server.to_owned(), address: address.clone() })
}

/// The TLS configuration of a bind point. It asks for a client certificate without requiring one;
/// each operation decides what a certificate is worth (docs/protocol/auth.md 1.2).
///
/// # Errors
/// When TLS cannot be set up.
pub fn tls(
    server: &str,
    options: &WebOptions,
    identity: &Arc<LiveIdentity>,
) -> Result<Arc<ServerConfig>, StartError> {
    let tls = ServerTls { alpn: &[ALPN_H2, ALPN_HTTP1], client_auth: ClientAuth::Request };
    let wanted = |version: &TlsVersion| (options.min_tls..=options.max_tls).contains(version);
    let known = [(TlsVersion::V1_2, &TLS12), (TlsVersion::V1_3, &TLS13)];
    let versions: Vec<&'static SupportedProtocolVersion> =
        known.into_iter().filter(|(version, _)| wanted(version)).map(|(_, it)| it).collect();
    server_config_of_versions(identity, &tls, &versions)
        .map(Arc::new)
        .map_err(|source| StartError::Identity { server: server.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use rustls::{Error, PeerIncompatible, ServerConnection};
    use weft_identity::{Identity, TrustBundle};

    use super::*;

    /// The beginning of a client that knows no version above the one that it names.
    fn hello(version: [u8; 2]) -> Vec<u8> {
        let mut body = version.to_vec();
        body.extend([7; 32]);
        // No session, one cipher suite, no compression, and one extension: signatures by P-256.
        body.extend([0, 0, 2, 0xc0, 0x2b, 1, 0, 0, 8, 0, 13, 0, 4, 0, 2, 4, 3]);
        let mut record = vec![22, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
        record.extend(body);
        record
    }

    #[test]
    fn old_versions_of_tls_are_taken_in_a_file_and_not_negotiated() {
        let options = WebOptions { min_tls: TlsVersion::V1_0, ..WebOptions::default() };
        let bundle = TrustBundle::new([]);
        let identity = LiveIdentity::fixed(Identity::new(None, Vec::new(), bundle));
        let config = tls("edge", &options, &identity).unwrap();
        let is_too_old = |version: [u8; 2]| {
            let mut server = ServerConnection::new(Arc::clone(&config)).unwrap();
            server.read_tls(&mut &hello(version)[..]).unwrap();
            let why = server.process_new_packets().unwrap_err();
            why == Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered)
        };
        assert!(is_too_old([3, 1]) && is_too_old([3, 2]));
        assert!(!is_too_old([3, 3]), "1.2 fails for want of a certificate");
    }
}
