//! Accepted clients, and the interface to the part that carries them into the network.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::net::TcpStream;

use crate::app_writer::end_with_a_reset;
use crate::{Datagrams, Refusal};

/// A service, with the parts that a carrier needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// True if its data is encrypted from end to end.
    pub encryption_required: bool,
    /// True if both ends must prove who they are.
    pub authenticated_ends: bool,
}

/// An accepted client.
#[derive(Debug)]
pub enum Client {
    /// A stream, with half-close. It ends with a reset, unless it is carried to a regular end
    /// ([`AppWriter`](crate::AppWriter)).
    Tcp(TcpStream),
    /// Datagrams of one client.
    Udp(Datagrams),
}

impl Client {
    /// A client with this socket. If its service is not reached, the client can tell this from an empty answer.
    #[must_use]
    pub fn tcp(stream: TcpStream) -> Self {
        end_with_a_reset(&stream);
        Self::Tcp(stream)
    }
}

/// A client on its way to a service.
#[derive(Debug)]
pub struct Call {
    /// The service.
    pub service: Arc<Service>,
    /// The instance of the service; empty for any.
    pub instance: String,
    /// Data for the host ([`AppData`](crate::AppData)).
    pub app_data: Bytes,
    /// Time limit of the dial; `None` if the carrier decides.
    pub timeout: Option<Duration>,
    /// The address at which the client was accepted.
    pub local: SocketAddr,
    /// The address of the client.
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
