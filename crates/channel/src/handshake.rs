//! The hello on a fresh TLS stream, before the connection has its task.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsStream;
use weft_wire::frame::{self, Decoder};
use weft_wire::{FrameError, FrameLimits, Message};

/// Why a first message could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Reads one message and not a byte more, because later bytes belong to the connection's task.
pub(crate) async fn read_message<S>(
    stream: &mut S,
    limits: FrameLimits,
) -> Result<Message, ReadError>
where
    S: AsyncRead + Unpin,
{
    let mut decoder = Decoder::new(limits);
    let mut buffer = [0; 2048];
    loop {
        let wanted = decoder.missing().clamp(1, buffer.len());
        let count = stream.read(&mut buffer[..wanted]).await?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let mut input = buffer.get(..count).unwrap_or_default();
        if let Some(message) = decoder.decode(&mut input)? {
            return Ok(message);
        }
        // A frame without headers and body is complete without another byte.
        if decoder.missing() == 0
            && let Some(message) = decoder.decode(&mut &[][..])?
        {
            return Ok(message);
        }
    }
}

/// Writes one message.
pub(crate) async fn write_message<S>(stream: &mut S, message: &Message) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    stream.write_all(&frame::encode(message)).await?;
    stream.flush().await
}

/// Takes a TLS stream apart: the socket, and the state of TLS.
pub(crate) fn into_parts<S>(stream: TlsStream<S>) -> (S, rustls::Connection) {
    match stream {
        TlsStream::Client(stream) => {
            let (socket, tls) = stream.into_inner();
            (socket, tls.into())
        }
        TlsStream::Server(stream) => {
            let (socket, tls) = stream.into_inner();
            (socket, tls.into())
        }
    }
}
