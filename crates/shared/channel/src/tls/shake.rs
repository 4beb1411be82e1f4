//! The handshake, by rustls, over any stream of bytes.

use std::io;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::{ClientConfig, Error, ProtocolVersion, ServerConfig};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::fault::in_words;
use super::library::{Library, MOST_OLD_BODY};
use super::records::{Records, first_record};
use super::session::Session;
use super::unbuffered::{Step, Unbuffered};

/// Most bytes of a peer that wait for their rest during the handshake: its certificates are the longest message.
const MOST_RECEIVED: usize = 128 * 1024;
/// Bytes that are read at once.
const READ: usize = 4 * 1024;
/// The kinds of records: changes of ciphers, alerts, messages of the handshake, data.
const KINDS: std::ops::RangeInclusive<u8> = 20..=23;

/// A stream after the handshake.
#[derive(Debug)]
pub(crate) struct Shaken<S> {
    pub(crate) stream: S,
    pub(crate) session: Session,
    /// The certificates of the peer, leaf first.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    /// Records that followed the handshake.
    pub(crate) sealed: Vec<u8>,
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
    // rustls is given one record at a time: those that follow the handshake are not for rustls.
    let (mut record, mut out, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        match tls.step(&mut record, &mut out, &mut plain) {
            Ok(Step::Again) => {}
            Ok(Step::Send) => {
                let sent = send(&mut stream, &mut out).await;
                // A peer that has left already may have said something that is worth reading.
                if tls.common().is_handshaking() {
                    sent?;
                }
            }
            Ok(Step::Ready) if !tls.common().is_handshaking() => break,
            Ok(Step::Receive | Step::Ready) => {
                while !take_record(&mut received, &mut record) {
                    receive(&mut stream, &mut received, record.len()).await?;
                }
            }
            Ok(Step::Closed) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => {
                tls.take_alert(&mut record, &mut out);
                let _ = send(&mut stream, &mut out).await;
                return Err(invalid(error));
            }
        }
    }
    if !record.is_empty() || !plain.is_empty() {
        return Err(invalid(Error::General("text behind the end of the handshake".to_owned())));
    }
    let certificates = tls.common().peer_certificates().unwrap_or_default();
    let certificates = certificates.iter().map(|der| der.clone().into_owned()).collect();
    let session = if tls.common().protocol_version() == Some(ProtocolVersion::TLSv1_3) {
        let (secrets, successor) = tls.into_keys().map_err(invalid)?;
        Session::Records(Box::new(Records::new(secrets, successor).map_err(invalid)?))
    } else {
        Session::Library(Box::new(Library::new(tls)))
    };
    Ok(Shaken { stream, session, certificates, sealed: received })
}

/// Moves the first record, if it is whole. What is no record goes as it is: rustls refuses it.
fn take_record(received: &mut Vec<u8>, record: &mut Vec<u8>) -> bool {
    let is_known = received.first().is_none_or(|kind| KINDS.contains(kind));
    let length = match first_record(received, MOST_OLD_BODY) {
        Ok(length) if is_known => length.filter(|length| *length <= received.len()),
        _ => Some(received.len()),
    };
    let Some(length) = length else { return false };
    record.extend(received.drain(..length));
    true
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, out: &mut Vec<u8>) -> io::Result<()> {
    let written = stream.write_all(out).await;
    out.clear();
    written?;
    stream.flush().await
}

async fn receive<S: AsyncRead + Unpin>(
    stream: &mut S,
    received: &mut Vec<u8>,
    held: usize,
) -> io::Result<()> {
    if received.len() + held >= MOST_RECEIVED {
        return Err(invalid(Error::PeerSentOversizedRecord));
    }
    received.reserve(READ);
    match stream.read_buf(received).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn invalid(error: Error) -> io::Error {
    match in_words(&error) {
        Some(reason) => io::Error::new(io::ErrorKind::InvalidData, reason),
        None => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}
