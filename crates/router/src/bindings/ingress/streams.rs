//! Connections of programs without an SDK: TCP, or TLS over it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsStream};
use tokio_util::sync::CancellationToken;
use weft_circuit::now;
use weft_limits::{FairSemaphore, Full, LogLines, Permit, Quota, source_of};

use super::request::{Line, Request, answer};
use super::{Addresses, Ingress, Opened};
use crate::bindings::socket::{self, Stream};

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLimits {
    /// Most connections at once; more are closed.
    pub(crate) connections: usize,
    /// Most connections from one source: one address of IPv4, one /64 network of IPv6.
    pub(crate) per_source: usize,
    /// How long a client may take for TLS and for its request.
    pub(crate) patience: Duration,
    /// After a client got no circuit, its source has one place less for this time.
    pub(crate) pause: Duration,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            connections: 65_536,
            per_source: 16_384,
            patience: Duration::from_secs(10),
            pause: Duration::from_secs(1),
        }
    }
}

/// Accepts connections until cancelled; existing ones go on. A connection without a circuit waits
/// for its turn while too many circuits are being made.
pub(crate) async fn serve_streams(
    ingress: Arc<Ingress>,
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    limits: StreamLimits,
    stop: CancellationToken,
) {
    let connections = FairSemaphore::new(Quota::new(limits.connections, limits.per_source));
    let mut lines = LogLines::new(now());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, remote)) => {
                let permit = match connections.try_acquire(source_of(remote.ip())) {
                    Ok(permit) => permit,
                    Err(full) => {
                        let (of, most) = match full {
                            Full::Key(_) => (" of one source", limits.per_source),
                            Full::Total => ("", limits.connections),
                        };
                        let why = format!("the limit of connections{of} is reached: {most}");
                        ingress.complain(remote, &why);
                        continue;
                    }
                };
                let (ingress, tls) = (Arc::clone(&ingress), tls.clone());
                let (stream, runtime) = match ingress.options.threads.bring(stream) {
                    Ok(brought) => brought,
                    Err(error) => {
                        ingress.complain(remote, &error.to_string());
                        continue;
                    }
                };
                runtime.spawn(async move {
                    let _permit = permit;
                    let served = serve(&ingress, stream, remote, tls, limits.patience);
                    let Err(Unserved { why, turn }) = served.await else { return };
                    ingress.complain(remote, &why);
                    if turn.is_some() {
                        // The client keeps its place, so that asking again and again waits, too.
                        tokio::time::sleep(limits.pause).await;
                    }
                });
            }
            Err(error) => {
                // No descriptors are left, or the client is gone already: go on after a pause.
                if let Some(left_out) = lines.due(now()) {
                    tracing::warn!(listener = %ingress.options.name, %error, left_out, "cannot accept");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Why a client got no circuit, and its place, if a controller was asked.
struct Unserved {
    why: String,
    turn: Option<Permit<IpAddr>>,
}

impl From<String> for Unserved {
    fn from(why: String) -> Self {
        Self { why, turn: None }
    }
}

async fn serve(
    ingress: &Ingress,
    stream: TcpStream,
    remote: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
    patience: Duration,
) -> Result<(), Unserved> {
    weft_channel::prepare(&stream, ingress.options.peer_timeout)
        .map_err(|error| error.to_string())?;
    if tls.is_none() && ingress.options.service.is_some() {
        // Nothing is said to a client whose circuit is not made: a regular end would be an empty answer.
        weft_tunnel::end_with_a_reset(&stream);
    }
    let begun = tokio::time::timeout(patience, async {
        let mut stream = match tls {
            None => Stream::Tcp(stream),
            Some(tls) => {
                let stream = TlsAcceptor::from(tls).accept(stream).await;
                Stream::Tls(Box::new(TlsStream::from(stream.map_err(|error| error.to_string())?)))
            }
        };
        let wanted = match &ingress.options.service {
            Some(service) => Ok((String::new(), service.clone(), Bytes::new())),
            None => ask(&mut stream).await,
        };
        Ok::<_, String>((stream, wanted))
    });
    let begun = begun.await.map_err(|_| "the client did not send its request in time".to_owned());
    let (mut stream, wanted) = begun??;
    let opened = match wanted {
        Ok((client, service, rest)) => {
            let local = stream.socket().local_addr().ok();
            let addresses = Addresses { local, remote: Some(remote) };
            open(ingress, client, service, (source_of(remote.ip()), addresses))
                .await
                .map(|opened| (opened, rest))
        }
        Err(why) => Err(why.into()),
    };
    let answers = ingress.options.service.is_none();
    let (Opened { id, end, crypto }, first) = match opened {
        Ok(opened) => opened,
        Err(unserved) => {
            if answers {
                // The client may be gone, and then hears nothing.
                let _ = tell(&mut stream, Err(&unserved.why), patience).await;
            }
            return Err(unserved);
        }
    };
    if answers && tell(&mut stream, Ok(&id), patience).await.is_err() {
        end.abort();
        return Ok(());
    }
    tracing::debug!(listener = %ingress.options.name, client = %remote, circuit = %id, "connected");
    socket::carry(end, stream, first, crypto).await;
    Ok(())
}

async fn open(
    ingress: &Ingress,
    client: String,
    service: String,
    (source, addresses): (IpAddr, Addresses),
) -> Result<Opened, Unserved> {
    let turn = ingress.turn(source).await.map_err(|refusal| refusal.message)?;
    let opened = ingress.open(&turn, client, service, addresses, false).await;
    opened.map_err(|refusal| Unserved { why: refusal.message, turn: Some(turn) })
}

/// Reads the request of a client: its name, the service, and the data that followed.
async fn ask(stream: &mut Stream) -> Result<(String, String, Bytes), String> {
    let mut line = Line::default();
    let mut buffer = [0; 1024];
    loop {
        let count = match stream {
            Stream::Tcp(stream) => stream.read(&mut buffer).await,
            Stream::Tls(stream) => stream.read(&mut buffer).await,
        };
        let data = match count {
            Ok(0) => {
                return Err(
                    "the client closed the connection before its request was complete".to_owned()
                );
            }
            Ok(count) => buffer.get(..count).unwrap_or_default(),
            Err(error) => return Err(error.to_string()),
        };
        if let Some((line, rest)) = line.take(data)? {
            let request = Request::parse(&line)?;
            return Ok((request.id, request.service, rest));
        }
    }
}

/// Answers the request of a client.
async fn tell(stream: &mut Stream, made: Result<&str, &str>, patience: Duration) -> io::Result<()> {
    let line = answer(made);
    let is_over = made.is_err();
    let telling = async {
        match stream {
            Stream::Tcp(stream) => write(stream, &line, is_over).await,
            Stream::Tls(stream) => write(stream, &line, is_over).await,
        }
    };
    tokio::time::timeout(patience, telling).await.map_err(|_| io::ErrorKind::TimedOut)?
}

async fn write(
    stream: &mut (impl AsyncWriteExt + Unpin),
    line: &[u8],
    is_over: bool,
) -> io::Result<()> {
    stream.write_all(line).await?;
    stream.flush().await?;
    if is_over { stream.shutdown().await } else { Ok(()) }
}
