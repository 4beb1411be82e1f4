//! The handshake, by rustls, over any stream of bytes.

use std::io;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::{ClientConfig, Error, ProtocolVersion, ServerConfig};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::library::Library;
use super::records::Records;
use super::session::Session;
use super::unbuffered::{Step, Unbuffered};

/// Most bytes of a peer that wait for their rest during the handshake: its certificates are the longest message.
const MOST_RECEIVED: usize = 128 * 1024;
/// Bytes that are read at once.
const READ: usize = 4 * 1024;

/// A stream after the handshake.
#[derive(Debug)]
pub(crate) struct Shaken<S> {
    pub(crate) stream: S,
    pub(crate) session: Session,
    /// The certificates of the peer, leaf first.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    /// Bytes that followed the handshake: sealed ones, and data that rustls has opened already.
    pub(crate) sealed: Vec<u8>,
    pub(crate) plain: Vec<u8>,
}

/// The handshake of a client that offers these protocols.
pub(crate) async fn connect<S>(
    config: &Arc<ClientConfig>,
    protocols: Vec<Vec<u8>>,
    name: ServerName<'static>,
    stream: S,
) -> io::Result<Shaken<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut config = ClientConfig::clone(config);
    config.alpn_protocols = protocols;
    config.enable_secret_extraction = true;
    let tls = UnbufferedClientConnection::new(Arc::new(config), name).map_err(invalid)?;
    shake(Unbuffered::Client(Box::new(tls)), stream, Vec::new()).await
}

/// The handshake of a server, of whose client these bytes have been read already.
pub(crate) async fn accept<S>(
    config: &Arc<ServerConfig>,
    stream: S,
    received: Vec<u8>,
) -> io::Result<Shaken<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut config = ServerConfig::clone(config);
    config.enable_secret_extraction = true;
    let tls = UnbufferedServerConnection::new(Arc::new(config)).map_err(invalid)?;
    shake(Unbuffered::Server(Box::new(tls)), stream, received).await
}

async fn shake<S>(
    mut tls: Unbuffered,
    mut stream: S,
    mut received: Vec<u8>,
) -> io::Result<Shaken<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut out, mut plain) = (Vec::new(), Vec::new());
    loop {
        match tls.step(&mut received, &mut out, &mut plain) {
            Ok(Step::Again) => {}
            Ok(Step::Send) => send(&mut stream, &mut out).await?,
            Ok(Step::Ready) if !tls.common().is_handshaking() => break,
            Ok(Step::Receive | Step::Ready) => receive(&mut stream, &mut received).await?,
            Ok(Step::Closed) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => {
                tls.take_alert(&mut received, &mut out);
                let _ = send(&mut stream, &mut out).await;
                return Err(invalid(error));
            }
        }
    }
    let certificates = tls.common().peer_certificates().unwrap_or_default();
    let certificates = certificates.iter().map(|der| der.clone().into_owned()).collect();
    let session = if tls.common().protocol_version() == Some(ProtocolVersion::TLSv1_3) {
        let (secrets, successor) = tls.into_keys().map_err(invalid)?;
        Session::Records(Box::new(Records::new(secrets, successor).map_err(invalid)?))
    } else {
        let received = std::mem::take(&mut received);
        Session::Library(Box::new(Library::new(tls, received)))
    };
    Ok(Shaken { stream, session, certificates, sealed: received, plain })
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, out: &mut Vec<u8>) -> io::Result<()> {
    stream.write_all(out).await?;
    out.clear();
    stream.flush().await
}

async fn receive<S: AsyncRead + Unpin>(stream: &mut S, received: &mut Vec<u8>) -> io::Result<()> {
    if received.len() >= MOST_RECEIVED {
        return Err(invalid(Error::PeerSentOversizedRecord));
    }
    received.reserve(READ);
    match stream.read_buf(received).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn invalid(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
