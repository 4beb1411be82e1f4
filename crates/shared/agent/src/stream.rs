//! Messages and answers on a connection, for both of its ends.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;
use weft_wire::frame::Decoder;
use weft_wire::{FrameLimits, Message};

use crate::limits::ANSWER_TIME;

/// Most bytes that are read at a time.
const CHUNK: usize = 4096;

/// Reads messages from a stream.
pub(crate) struct Messages {
    decoder: Decoder,
    /// Bytes that are not decoded yet.
    rest: Vec<u8>,
}

impl Messages {
    /// Messages that begin with these bytes.
    pub(crate) fn new(limits: FrameLimits, rest: Vec<u8>) -> Self {
        Self { decoder: Decoder::new(limits), rest }
    }

    /// Changes the limits of later messages.
    pub(crate) fn set_limits(&mut self, limits: FrameLimits) {
        self.decoder.set_limits(limits);
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) async fn next(&mut self, stream: &mut UnixStream) -> io::Result<Option<Message>> {
        loop {
            let mut input = &self.rest[..];
            let decoded = self.decoder.decode(&mut input).map_err(io::Error::other)?;
            let left = input.len();
            self.rest.drain(..self.rest.len().saturating_sub(left));
            if decoded.is_some() {
                return Ok(decoded);
            }
            self.rest.reserve(CHUNK);
            if (&mut *stream).take(CHUNK as u64).read_buf(&mut self.rest).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// Writes an answer; a client that does not read it is left.
pub(crate) async fn write(stream: &mut UnixStream, bytes: &[u8]) -> io::Result<()> {
    let written = timeout(ANSWER_TIME, stream.write_all(bytes)).await;
    written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
