//! What happens to intercepted clients.

use std::{io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use tokio::net::TcpStream;

use crate::{
    places::Place,
    records::{RecordQuestion, Records},
    service::Protocol,
    sessions,
};

/// Takes intercepted clients.
pub trait Carry: Send + Sync + 'static {
    /// A client that wants to use a service. What takes time belongs into a task: clients that come
    /// after this one wait.
    fn carry(&self, arrival: Arrival, client: Client);

    /// Asks the host of a service, by its id, for records of a name that the service has by a wildcard.
    /// None if it gives no answer. Dropped, the question is over.
    fn records(
        &self,
        _service: &Arc<str>,
        _question: RecordQuestion,
    ) -> BoxFuture<'static, Option<Records>> {
        std::future::ready(None).boxed()
    }
}

impl<F: Fn(Arrival, Client) + Send + Sync + 'static> Carry for F {
    fn carry(&self, arrival: Arrival, client: Client) {
        self(arrival, client);
    }
}

/// Who came, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Id of the service.
    pub service: Arc<str>,
    /// How.
    pub protocol: Protocol,
    /// The client.
    pub source: SocketAddr,
    /// Where the client wanted to go.
    pub destination: SocketAddr,
    /// The name that the client knows the destination by, if it is one that was handed out here.
    pub hostname: Option<Arc<str>>,
}

/// A client.
#[derive(Debug)]
pub enum Client {
    /// A connection.
    Tcp(TcpClient),
    /// Datagrams.
    Udp(UdpSession),
}

/// A connection. It counts against the limits as long as this lives.
#[derive(Debug)]
pub struct TcpClient {
    /// The connection.
    pub stream: TcpStream,
    /// What it counts as.
    pub place: Place,
}

/// Datagrams between a client and a destination. Dropped, it is over: the next datagram begins
/// another.
#[derive(Debug)]
pub struct UdpSession(pub(crate) sessions::Session);

/// The way back to the client of a session.
#[derive(Debug, Clone)]
pub struct UdpReplies(pub(crate) Arc<sessions::Live>);

impl UdpSession {
    /// The client's next datagram; none once the session is over. Safe to drop and call again.
    pub async fn recv(&mut self) -> Option<Bytes> {
        self.0.recv().await
    }

    /// The way back to the client.
    #[must_use]
    pub fn replies(&self) -> UdpReplies {
        UdpReplies(self.0.live())
    }
}

impl UdpReplies {
    /// Sends a datagram to the client, from the destination that the client knows.
    pub async fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.0.send(datagram).await
    }
}
