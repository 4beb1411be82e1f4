//! The hello on a fresh connection, before it has its task.

use std::io;

use rustls_pki_types::CertificateDer;
use weft_wire::{FrameError, FrameLimits, Message};

use crate::transport::Transport;

/// Why a first message could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// A connection before its hello.
pub(crate) trait HelloStream: Send {
    /// The certificates of the peer, leaf first.
    fn certificates(&self) -> Vec<CertificateDer<'static>>;

    /// Reads one message.
    fn read(
        &mut self,
        limits: FrameLimits,
    ) -> impl Future<Output = Result<Message, ReadError>> + Send;

    /// Reads the answer to the hello with this sequence number. Messages that overtook it are kept for the connection's
    /// task.
    fn read_answer(
        &mut self,
        limits: FrameLimits,
        _sequence: i32,
    ) -> impl Future<Output = Result<Message, ReadError>> + Send {
        // Nothing overtakes anything in a stream.
        self.read(limits)
    }

    /// Writes one message.
    fn write(&mut self, message: &Message) -> impl Future<Output = io::Result<()>> + Send;

    /// Writes bytes that are no message.
    fn write_bytes(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Tells the peer of the end.
    fn end(&mut self) -> impl Future<Output = ()> + Send;

    /// The transport with which the connection's task works.
    fn into_transport(self) -> Transport;
}
