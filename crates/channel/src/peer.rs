//! Who is at the other end.

use rustls_pki_types::CertificateDer;
use std::net::SocketAddr;
use weft_wire::Headers;

/// What is known of the peer of a channel, from its first connection.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// The certificates it presented, leaf first. TLS proved the key of the leaf and nothing about
    /// the others.
    pub certificates: Vec<CertificateDer<'static>>,
    /// Its address.
    pub remote: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// What it calls itself: the token of its hello, or the id of its hello result.
    pub id: Option<String>,
    /// Headers it sent: of its hello if it dialed, of its result if it listened.
    pub headers: Headers,
    /// Whether this side dialed.
    pub dialed: bool,
}

impl PeerInfo {
    /// The certificate whose key the peer proved to hold.
    pub fn leaf(&self) -> Option<&CertificateDer<'static>> {
        self.certificates.first()
    }
}

/// One connection of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnderlayInfo {
    /// Number of the connection on its channel, from 1.
    pub number: u64,
    /// Type given in the hello; empty if none was given.
    pub kind: String,
    /// Address of the peer.
    pub remote: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
}
