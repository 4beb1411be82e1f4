//! The interface to the program that carries the connections of intercepted clients.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::TcpStream;
use weft_limits::Permit;

use crate::conversations;
use crate::records::{RecordQuestion, Records};
use crate::service::Protocol;

/// Takes intercepted clients.
pub trait Carry: Send + Sync + 'static {
    /// Takes a client that wants to use a service. Slow work belongs into a task of its own, because
    /// later clients wait for this call.
    fn carry(&self, arrival: Arrival, client: InterceptedClient);

    /// Asks the host of a service (by id) for records of a name below one of the service's wildcards.
    /// `None` if the host gives no answer. Dropping the future ends the question.
    fn records(
        &self,
        _service: &Arc<str>,
        _question: RecordQuestion,
    ) -> BoxFuture<'static, Option<Records>> {
        std::future::ready(None).boxed()
    }
}

impl<F: Fn(Arrival, InterceptedClient) + Send + Sync + 'static> Carry for F {
    fn carry(&self, arrival: Arrival, client: InterceptedClient) {
        self(arrival, client);
    }
}

/// The source and the destination of an intercepted client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Id of the service.
    pub service: Arc<str>,
    /// The protocol of the client.
    pub protocol: Protocol,
    /// The address of the client.
    pub source: SocketAddr,
    /// The address that the client wanted to reach.
    pub destination: SocketAddr,
    /// The name of the destination, if its address was assigned to a name by this interceptor.
    pub hostname: Option<Arc<str>>,
}

/// A client.
#[derive(Debug)]
pub enum InterceptedClient {
    /// A connection.
    Tcp(TcpClient),
    /// Datagrams.
    Udp(UdpConversation),
}

/// An intercepted connection. It counts against the limits as long as this value lives.
#[derive(Debug)]
pub struct TcpClient {
    /// The connection.
    pub stream: TcpStream,
    /// The place of the connection within the limits.
    pub place: Permit<IpAddr>,
}

/// Datagrams between a client and a destination. Dropping the conversation ends it: the next
/// datagram begins another one.
#[derive(Debug)]
pub struct UdpConversation(pub(crate) conversations::Conversation);

/// The way back to the client of a conversation.
#[derive(Debug, Clone)]
pub struct UdpReplies(pub(crate) Arc<conversations::OpenConversation>);

impl UdpConversation {
    /// The client's next datagram; `None` once the conversation has ended. Cancel-safe.
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
