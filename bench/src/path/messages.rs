//! A connection whose every write is a payload of its own, as a datagram is.

use std::{
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weft_sdk::{Connection, ReadHalf, WriteHalf};

/// Bytes of the longest payload.
const LONGEST: usize = 32 * 1024;

/// A connection of messages.
pub(super) struct Messages {
    reader: ReadHalf,
    writer: WriteHalf,
}

impl Messages {
    pub(super) fn new(connection: Connection) -> Self {
        let (reader, writer) = connection.into_split();
        Self { reader, writer }
    }
}

impl AsyncRead for Messages {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Messages {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(pin!(self.writer.writable()).poll(cx))?;
        let message = data.get(..LONGEST).unwrap_or(data);
        Poll::Ready(self.writer.try_write_message(message).map(|()| message.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}
