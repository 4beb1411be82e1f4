//! The hello on a fresh connection, before it has its task.

use crate::carrier::Carrier;
use crate::pump::TlsPump;
use crate::transport::Transport;
use rustls_pki_types::CertificateDer;
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

/// A connection before its hello.
pub(crate) trait Fresh: Send {
    /// The certificates of the peer, leaf first.
    fn certificates(&self) -> Vec<CertificateDer<'static>>;

    /// Reads one message.
    fn read(
        &mut self,
        limits: FrameLimits,
    ) -> impl Future<Output = Result<Message, ReadError>> + Send;

    /// Writes one message.
    fn write(&mut self, message: &Message) -> impl Future<Output = io::Result<()>> + Send;

    /// Writes bytes that are no message.
    fn write_bytes(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Tells the peer of the end.
    fn end(&mut self) -> impl Future<Output = ()> + Send;

    /// The transport with which the connection's task works.
    fn into_transport(self) -> Transport;
}

impl<S> Fresh for TlsStream<S>
where
    S: AsyncRead + AsyncWrite + Into<Carrier> + Unpin + Send,
{
    fn certificates(&self) -> Vec<CertificateDer<'static>> {
        let certificates = self.get_ref().1.peer_certificates().unwrap_or_default();
        certificates.iter().map(|der| der.clone().into_owned()).collect()
    }

    async fn read(&mut self, limits: FrameLimits) -> Result<Message, ReadError> {
        read_message(self, limits).await
    }

    async fn write(&mut self, message: &Message) -> io::Result<()> {
        write_message(self, message).await
    }

    async fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).await
    }

    async fn end(&mut self) {
        let _ = self.shutdown().await;
    }

    fn into_transport(self) -> Transport {
        let (carrier, tls) = into_parts(self);
        Transport::Tls(TlsPump::new(carrier, tls))
    }
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
