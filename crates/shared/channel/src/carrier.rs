//! The connection below the TLS of a channel.

use std::io::{self, IoSlice, Write};

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::socket;
use crate::websocket::WebSocketLine;

/// The connection below the TLS of a channel.
#[derive(Debug)]
pub(crate) enum Carrier {
    Tcp(TcpStream),
    WebSocket(Box<WebSocketLine>),
}

impl From<TcpStream> for Carrier {
    fn from(socket: TcpStream) -> Self {
        Self::Tcp(socket)
    }
}

impl From<WebSocketLine> for Carrier {
    fn from(line: WebSocketLine) -> Self {
        Self::WebSocket(Box::new(line))
    }
}

impl Carrier {
    /// The TCP socket.
    pub(crate) fn tcp(&self) -> io::Result<&TcpStream> {
        match self {
            Self::Tcp(socket) => Ok(socket),
            Self::WebSocket(line) => line.tcp(),
        }
    }

    /// The peer's session was accepted: larger messages are allowed.
    pub(crate) fn judged(&mut self) {
        if let Self::WebSocket(line) = self {
            line.judged();
        }
    }

    /// Bytes that were read and are held until the rest of their message arrives.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Tcp(_) => 0,
            Self::WebSocket(line) => line.held(),
        }
    }

    /// Moves the socket to the runtime that the caller has entered. After an error the socket is still on
    /// its former runtime.
    pub(crate) fn rebind(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket::rebind(socket),
            Self::WebSocket(line) => line.rebind(),
        }
    }

    /// Waits until the socket can be read or written.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<()> {
        self.tcp()?.ready(interest).await.map(|_| ())
    }

    /// Writes the bytes that were taken and not written yet; `WouldBlock` if the socket does not
    /// take all.
    pub(crate) fn push(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(_) => Ok(()),
            Self::WebSocket(line) => line.flush(),
        }
    }

    /// Tells the peer that this side closes the connection, if the socket takes it at once.
    pub(crate) fn say_goodbye(&mut self) {
        if let Self::WebSocket(line) = self {
            line.say_goodbye();
        }
    }

    /// The time at which [`keep_alive`](Self::keep_alive) is to be called.
    pub(crate) fn keep_alive_at(&self) -> Option<Instant> {
        match self {
            Self::Tcp(_) => None,
            Self::WebSocket(line) => line.keep_alive_at(),
        }
    }

    /// Sends a keep-alive message when it is due. An error means that the peer is gone.
    pub(crate) fn keep_alive(&mut self, now: Instant) -> io::Result<()> {
        match self {
            Self::Tcp(_) => Ok(()),
            Self::WebSocket(line) => line.keep_alive(now),
        }
    }
}

/// Writes without waiting.
impl Write for Carrier {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_write_vectored(slices),
            Self::WebSocket(line) => line.send(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
