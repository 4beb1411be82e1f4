//! The peer of a channel, and its connections.

use std::net::SocketAddr;

use rustls_pki_types::CertificateDer;
use weft_wire::Headers;

/// The peer of a channel, as its first connection showed it.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// The peer's certificates, leaf first. TLS has proved that the peer has the key of the leaf,
    /// and nothing about the others.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The address of the peer.
    pub remote: SocketAddr,
    /// The address of this side.
    pub local: SocketAddr,
    /// The id that the peer gave: the token of its hello, or the id of its result.
    pub id: Option<String>,
    /// The headers of the peer: of its hello if it dialed, of its result if it listened.
    pub headers: Headers,
    /// True if this side dialed.
    pub dialed: bool,
}

impl PeerInfo {
    /// The leaf certificate, whose key the peer has.
    pub fn leaf(&self) -> Option<&CertificateDer<'static>> {
        self.certificates.first()
    }
}

/// One connection of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnderlayInfo {
    /// The number of the connection in its channel, from 1.
    pub number: u64,
    /// The type in the hello; empty without one, and if the channel is no group.
    pub kind: String,
    /// The address of the peer.
    pub remote: SocketAddr,
    /// The address of this side.
    pub local: SocketAddr,
}
