//! One connection: HTTP/1.1 or HTTP/2 over an accepted TLS stream, with its deadlines.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use weft_channel::{Accepted, PendingSlot};
use weft_config::web::WebOptions;
use weft_identity::tls::ALPN_H2;
use weft_identity::{Certificate, MAX_PEER_CHAIN};

use crate::lines::RequestLines;
use crate::peer_quota::PeerQuota;
use crate::stall::Stalls;

/// Largest head of a request, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// Most header lines of a request.
const MAX_HEADERS: usize = 100;
/// Most requests at the same time on one HTTP/2 connection.
const MAX_STREAMS: u32 = 64;
/// Flow-control window of an HTTP/2 stream and of a connection, in bytes.
const STREAM_WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Most bytes of one answer that HTTP/2 buffers until the peer takes them.
const SEND_BUFFER: usize = 256 * 1024;
/// Interval of the pings that tell whether a silent HTTP/2 peer is alive.
const PING: Duration = Duration::from_secs(20);
/// Time for a peer without requests to end its connection after it was told to.
const FAREWELL: Duration = Duration::from_secs(2);

/// The peer of a connection.
#[derive(Debug)]
pub struct Peer {
    /// The address of the peer.
    pub remote: SocketAddr,
    /// The certificates that the peer sent, leaf first. Only the leaf is proven; the others are
    /// fillers.
    pub certificates: Vec<Certificate>,
    /// The time at which the connection was made.
    pub since: Instant,
    /// Number of requests that are being worked on.
    working: watch::Sender<usize>,
    /// The peer's place at the door, kept until its first whole request head.
    pending: Mutex<Option<PendingSlot>>,
    /// Cancelled to end the connection at once.
    cut: CancellationToken,
}

/// A request of a peer that is being worked on, until this value is dropped.
#[derive(Debug)]
pub struct Working(Arc<Peer>);

/// A long answer that is being sent, until this value is dropped.
#[derive(Debug)]
pub struct Sending {
    _working: Working,
    _done: DropGuard,
}

impl Peer {
    /// A peer that showed these certificates. It holds its place at the door until its first
    /// request.
    #[must_use]
    pub fn new(
        remote: SocketAddr,
        certificates: Vec<Certificate>,
        pending: Option<PendingSlot>,
    ) -> Self {
        Self {
            remote,
            certificates,
            since: Instant::now(),
            working: watch::Sender::new(0),
            pending: Mutex::new(pending),
            cut: CancellationToken::new(),
        }
    }

    /// A request has come: work on it begins.
    pub fn begin(self: &Arc<Self>) -> Working {
        self.leave_door();
        self.working.send_modify(|count| *count += 1);
        Working(Arc::clone(self))
    }

    /// A long answer begins. The connection of a peer that has not taken the answer within `limit` is
    /// cut by a task of its own: while the peer accepts no data, the body of the answer is not polled
    /// and cannot end the connection.
    pub fn send(self: &Arc<Self>, limit: Duration) -> Sending {
        let (done, peer) = (CancellationToken::new(), Arc::clone(self));
        let is_done = done.clone();
        tokio::spawn(async move {
            if tokio::time::timeout(limit, is_done.cancelled()).await.is_err() {
                tracing::debug!(peer = %peer.remote, "connection closed: the client did not accept an answer in time");
                peer.cut.cancel();
            }
        });
        Sending { _working: self.begin(), _done: done.drop_guard() }
    }

    /// Gives back the place at the door, which is for peers without a request so far.
    fn leave_door(&self) {
        drop(self.pending.lock().take());
    }

    /// Returns if the peer sends no request within `limit`.
    async fn silent(&self, limit: Duration) {
        let mut working = self.working.subscribe();
        let asks = async {
            while self.pending.lock().is_some() {
                if working.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(limit, asks).await.is_ok() {
            std::future::pending().await
        }
    }

    /// Returns when the time for the peer to end the connection is over, and then the time for the
    /// answers to requests that came meanwhile.
    async fn farewell(&self, working: Duration) {
        tokio::time::sleep(FAREWELL).await;
        if *self.working.borrow() > 0 {
            tokio::time::sleep(working).await;
        }
    }

    /// Returns when the connection had no request for `limit`.
    async fn idle(&self, limit: Duration) {
        let mut working = self.working.subscribe();
        loop {
            if working.wait_for(|count| *count == 0).await.is_err() {
                return;
            }
            if tokio::time::timeout(limit, working.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.working.send_modify(|count| *count -= 1);
    }
}

/// Terms that every connection of a bind point is served on.
#[derive(Debug, Clone)]
pub struct ConnectionTerms {
    /// Timeouts from the file.
    pub options: WebOptions,
    /// Permits for connections.
    pub connections: Arc<PeerQuota>,
    /// Time for the first whole request head to come.
    pub first_request: Duration,
    /// Time for an answer to a request.
    pub working: Duration,
    /// Cancelled when the server takes no more requests.
    pub stopping: CancellationToken,
    /// Cancelled when the server cuts all connections.
    pub stopped: CancellationToken,
}

/// A server's side of HTTP: it answers the requests of connections.
pub trait Site: Send + Sync + 'static {
    /// The body of a response.
    type ResponseBody: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static;

    /// The terms of all connections.
    fn terms(&self) -> &ConnectionTerms;

    /// Answers a request.
    fn exchange(
        &self,
        peer: &Arc<Peer>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::ResponseBody>> + Send;
}

/// Serves a connection to its end.
pub async fn serve<S: Site>(site: Arc<S>, accepted: Accepted) {
    let Accepted { stream, remote, protocol, pending, slot, .. } = accepted;
    let _slot = slot;
    let Some(_place) = site.terms().connections.take(remote.ip()) else {
        tracing::debug!(peer = %remote, "connection closed: too many from this address");
        return;
    };
    let peer = Arc::new(Peer::new(remote, certificates(remote, &stream), Some(pending)));
    let result = if protocol.as_bytes() == ALPN_H2 {
        serve_http2(&site, &peer, stream).await
    } else {
        serve_http1(&site, &peer, stream).await
    };
    if let Err(error) = result {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        tracing::debug!(peer = %remote, %error, cause, "connection ended");
    }
}

async fn serve_http1<S: Site>(
    site: &Arc<S>,
    peer: &Arc<Peer>,
    stream: TlsStream<TcpStream>,
) -> hyper::Result<()> {
    let terms = site.terms();
    let stream = RequestLines::new(Stalls::new(stream, terms.options.write_timeout));
    let (own_site, own) = (Arc::clone(site), Arc::clone(peer));
    let service = service_fn(move |request| {
        let (site, peer) = (Arc::clone(&own_site), Arc::clone(&own));
        async move { Ok::<_, Infallible>(site.exchange(&peer, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // The timeout runs from the end of the last answer: it limits idle time too.
        .header_read_timeout(terms.options.read_timeout.max(terms.options.idle_timeout))
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let idle = std::future::pending();
    drive(terms, peer, pin!(connection), idle, |it| it.graceful_shutdown()).await
}

async fn serve_http2<S: Site>(
    site: &Arc<S>,
    peer: &Arc<Peer>,
    stream: TlsStream<TcpStream>,
) -> hyper::Result<()> {
    let terms = site.terms();
    let stream = Stalls::new(stream, terms.options.write_timeout);
    let (own_site, own) = (Arc::clone(site), Arc::clone(peer));
    let service = service_fn(move |request| {
        let (site, peer) = (Arc::clone(&own_site), Arc::clone(&own));
        async move { Ok::<_, Infallible>(site.exchange(&peer, request).await) }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(Some(PING))
        .keep_alive_timeout(terms.options.write_timeout);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let idle = peer.idle(terms.options.idle_timeout);
    drive(terms, peer, pin!(connection), idle, |it| it.graceful_shutdown()).await
}

/// Runs a connection until it ends, is idle, or the server stops. Requests in progress may then
/// finish, within the time for an answer.
async fn drive<C: Future<Output = hyper::Result<()>>>(
    terms: &ConnectionTerms,
    peer: &Peer,
    mut connection: Pin<&mut C>,
    idle: impl Future<Output = ()>,
    finish: impl FnOnce(Pin<&mut C>),
) -> hyper::Result<()> {
    let working = terms.working + terms.options.write_timeout;
    let is_idle = tokio::select! {
        ended = connection.as_mut() => return ended,
        () = peer.cut.cancelled() => return Ok(()),
        () = idle => true,
        () = peer.silent(terms.first_request) => true,
        () = terms.stopping.cancelled() => false,
    };
    peer.leave_door();
    finish(connection.as_mut());
    let bound = async {
        match is_idle {
            true => peer.farewell(working).await,
            false => tokio::time::sleep(working).await,
        }
    };
    tokio::select! {
        ended = connection => ended,
        () = peer.cut.cancelled() => Ok(()),
        () = terms.stopped.cancelled() => Ok(()),
        () = bound => Ok(()),
    }
}

/// The certificates that a peer sent, without those that cannot be read. Empty if that is the leaf: the
/// others prove nothing without a leaf.
fn certificates(remote: SocketAddr, stream: &TlsStream<TcpStream>) -> Vec<Certificate> {
    let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let read = |der: &rustls::pki_types::CertificateDer<'_>| {
        Certificate::from_der(der.clone().into_owned())
    };
    let Some((leaf, others)) = shown.split_first() else { return Vec::new() };
    match read(leaf) {
        Ok(leaf) => {
            let others = others.iter().take(MAX_PEER_CHAIN).flat_map(read);
            std::iter::once(leaf).chain(others).collect()
        }
        Err(error) => {
            tracing::debug!(peer = %remote, %error, "the client showed a certificate that counts as none");
            Vec::new()
        }
    }
}
