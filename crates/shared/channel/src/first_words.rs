//! The first message of TLS, by which a client names the protocol that it wants.

use std::io;

use rustls::server::{Accepted, Acceptor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Most bytes of a first message. Those of real clients have 200 bytes to 2 KiB.
const MOST: usize = 64 * 1024;
/// Bytes that are read at once.
const READ: usize = 2 * 1024;

/// A connection whose client has sent its first message of TLS.
pub(crate) struct FirstWords {
    pub(crate) socket: TcpStream,
    /// The message.
    pub(crate) accepted: Accepted,
    /// All bytes that were read, for a handshake that begins with them.
    pub(crate) received: Vec<u8>,
}

impl FirstWords {
    /// Reads the message. The client is told what is wrong with it.
    pub(crate) async fn read(mut socket: TcpStream) -> io::Result<Self> {
        let (mut acceptor, mut received) = (Acceptor::default(), Vec::new());
        loop {
            if received.len() >= MOST {
                return Err(invalid("a first message too long"));
            }
            received.reserve(READ);
            // No more than rustls takes at once: what it does not take would be lost to the handshake.
            let count = (&mut socket).take(READ as u64).read_buf(&mut received).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut new = received.get(received.len() - count..).unwrap_or_default();
            while !new.is_empty() {
                if acceptor.read_tls(&mut new)? == 0 {
                    return Err(invalid("bytes that TLS does not take"));
                }
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(Self { socket, accepted, received }),
                Ok(None) => {}
                Err((error, mut alert)) => {
                    let mut bytes = Vec::new();
                    alert.write_all(&mut bytes)?;
                    let _ = socket.write_all(&bytes).await;
                    return Err(invalid(error));
                }
            }
        }
    }
}

fn invalid(problem: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
