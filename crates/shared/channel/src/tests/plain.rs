//! Messages on streams of TLS, for peers that tests play.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use weft_wire::frame::{self, Decoder};
use weft_wire::{FrameLimits, Message};

use crate::handshake::ReadError;

/// Reads one message and not a byte more, because later bytes belong to the connection's task.
pub(super) async fn read_message<S>(
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
pub(super) async fn write_message<S>(stream: &mut S, message: &Message) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    stream.write_all(&frame::encode(message)).await?;
    stream.flush().await
}
