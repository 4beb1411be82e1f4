//! The handlers of protocols, and the connections that a listener passes to them.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsStream;

use crate::door::PendingSlot;
use crate::tls::Secured;

/// The TLS settings for the next handshake; `None` refuses the handshake.
pub type TlsSource = Arc<dyn Fn() -> Option<Arc<rustls::ServerConfig>> + Send + Sync>;

/// A TLS connection for a registered protocol.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: TlsStream<TcpStream>,
    /// The address of the peer.
    pub remote: SocketAddr,
    /// The address of this side.
    pub local: SocketAddr,
    /// The protocol that the peer named; empty if it named none.
    pub protocol: String,
    /// The place at the protocol's door. To be dropped when the peer is authenticated.
    pub pending: PendingSlot,
    /// The place among the connections. To be dropped when the connection ends.
    pub slot: ConnectionSlot,
}

/// A place among the connections of a protocol.
#[derive(Debug)]
pub struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
}

impl ConnectionSlot {
    pub(crate) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: permit }
    }
}

/// A connection for channels, whatever carries it, before its hello.
#[derive(Debug)]
pub(crate) struct Arrival<F> {
    pub(crate) stream: F,
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) protocol: String,
    pub(crate) pending: PendingSlot,
    pub(crate) slot: ConnectionSlot,
}

/// Handles the connections of a protocol that is not one of channels.
pub trait ConnectionHandler: Send + Sync + 'static {
    /// Handles one connection, in a task of its own.
    fn handle(&self, connection: Accepted) -> BoxFuture<'static, ()>;
}

/// Handles the connections of channels.
pub(crate) trait ChannelHandler: Send + Sync + 'static {
    /// Handles one connection, in a task of its own.
    fn handle(&self, connection: Arrival<Secured>) -> BoxFuture<'static, ()>;
}

/// The handler of the connections of a protocol, or of its channels.
#[derive(Clone)]
pub struct ProtocolHandler(pub(super) Handles);

#[derive(Clone)]
pub(super) enum Handles {
    Connections(Arc<dyn ConnectionHandler>),
    Channels(Arc<dyn ChannelHandler>),
}

impl<H: ConnectionHandler> From<Arc<H>> for ProtocolHandler {
    fn from(handler: Arc<H>) -> Self {
        Self(Handles::Connections(handler))
    }
}

impl ProtocolHandler {
    pub(crate) fn of_channels(handler: Arc<dyn ChannelHandler>) -> Self {
        Self(Handles::Channels(handler))
    }
}
