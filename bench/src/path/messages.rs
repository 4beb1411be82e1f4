//! A connection whose every write is a payload of its own, as a datagram is.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncWrite, Join, join};
use weft_sdk::{Connection, ReadHalf, WriteHalf};

/// Bytes of the longest payload.
const LONGEST: usize = 32 * 1024;

/// The half of a connection that is written, in messages.
pub(super) struct Messages(WriteHalf);

impl Messages {
    /// The connection, with its writes in messages.
    pub(super) fn of(connection: Connection) -> Join<ReadHalf, Self> {
        let (reader, writer) = connection.into_split();
        join(reader, Self(writer))
    }
}

impl AsyncWrite for Messages {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(pin!(self.0.writable()).poll(cx))?;
        let message = data.get(..LONGEST).unwrap_or(data);
        Poll::Ready(self.0.try_write_message(message).map(|()| message.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
