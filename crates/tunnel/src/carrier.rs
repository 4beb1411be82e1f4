//! Clients that were accepted, and who carries them into the network.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::net::TcpStream;

use crate::{Datagrams, Refusal};

/// A service, as a carrier has to know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whether its data is encrypted from end to end.
    pub encryption_required: bool,
}

/// A client that was accepted.
#[derive(Debug)]
pub enum Client {
    /// A stream, with half-close.
    Tcp(TcpStream),
    /// Datagrams of one client.
    Udp(Datagrams),
}

impl Client {
    /// Closes a client that got nowhere, so that it can tell: not as if the service had answered with
    /// nothing.
    pub fn refuse(self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_zero_linger();
        }
    }
}

/// A client that wants to a service.
#[derive(Debug)]
pub struct Call {
    /// The service.
    pub service: Arc<Service>,
    /// Which instance of the service; empty for any.
    pub instance: String,
    /// What the host is told ([`AppData`](crate::AppData)).
    pub app_data: Bytes,
    /// How long the dial may take; none if the carrier is to say.
    pub timeout: Option<Duration>,
    /// Where the client was accepted.
    pub local: SocketAddr,
    /// Where the client comes from.
    pub remote: SocketAddr,
    /// The client.
    pub client: Client,
}

/// Carries clients to services.
pub trait Carrier: Send + Sync + 'static {
    /// Carries a client until it or the service is done. Dropping the future ends the client.
    ///
    /// # Errors
    /// When the service cannot be reached. Nothing was exchanged then, and the client is closed.
    fn carry(&self, call: Call) -> BoxFuture<'static, Result<(), Refusal>>;
}
