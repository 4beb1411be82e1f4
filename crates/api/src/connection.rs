//! One connection: HTTP/1.1 or HTTP/2 over an accepted TLS stream, with its deadlines.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use weft_channel::{Accepted, PendingSlot};
use weft_identity::tls::ALPN_H2;
use weft_identity::{Certificate, MAX_PEER_CHAIN};

use crate::lines::RequestLines;
use crate::server::Site;
use crate::stall::Stalls;

/// Largest head of a request.
const MAX_HEAD: usize = 64 * 1024;
/// Header lines of a request.
const MAX_HEADERS: usize = 100;
/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 64;
/// Bytes in flight to us on one HTTP/2 stream, and on one connection.
const STREAM_WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// How much of one answer HTTP/2 holds before the peer takes it.
const SEND_BUFFER: usize = 256 * 1024;
/// Rounds of the question whether a silent HTTP/2 peer is there.
const PING: Duration = Duration::from_secs(20);
/// How long a peer that asked for nothing may take to end a connection that it was told to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Who is at the other end.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) remote: SocketAddr,
    /// What it proved to hold, leaf first, then fillers.
    pub(crate) certificates: Vec<Certificate>,
    /// Requests that are worked on.
    working: watch::Sender<usize>,
    /// Held until the first whole request head.
    pending: Mutex<Option<PendingSlot>>,
    /// The connection ends at once.
    cut: CancellationToken,
}

/// Counts as a request of a peer until dropped.
#[derive(Debug)]
pub(crate) struct Working(Arc<Peer>);

/// A long answer that is being sent, until dropped.
#[derive(Debug)]
pub(crate) struct Sending {
    _working: Working,
    _done: DropGuard,
}

impl Peer {
    pub(crate) fn new(
        remote: SocketAddr,
        certificates: Vec<Certificate>,
        pending: Option<PendingSlot>,
    ) -> Self {
        Self {
            remote,
            certificates,
            working: watch::Sender::new(0),
            pending: Mutex::new(pending),
            cut: CancellationToken::new(),
        }
    }

    /// A request has come.
    pub(crate) fn begin(self: &Arc<Self>) -> Working {
        self.leave_door();
        self.working.send_modify(|count| *count += 1);
        Working(Arc::clone(self))
    }

    /// A long answer begins. A peer that has not taken it within the limit is cut: nobody asks the
    /// body of an answer for more while its peer gives no leave to send, so it cannot end itself.
    pub(crate) fn send(self: &Arc<Self>, limit: Duration) -> Sending {
        let (done, peer) = (CancellationToken::new(), Arc::clone(self));
        let is_done = done.clone();
        tokio::spawn(async move {
            if tokio::time::timeout(limit, is_done.cancelled()).await.is_err() {
                tracing::debug!(peer = %peer.remote, "connection cut: an answer was not taken in time");
                peer.cut.cancel();
            }
        });
        Sending { _working: self.begin(), _done: done.drop_guard() }
    }

    /// Gives back the place among those who have not asked for anything yet.
    fn leave_door(&self) {
        drop(self.pending.lock().take());
    }

    /// Returns when nothing at all was asked within the limit.
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

    /// Returns when the peer has had its time to take its leave, and what it asked at the last
    /// moment its own.
    async fn farewell(&self, working: Duration) {
        tokio::time::sleep(FAREWELL).await;
        if *self.working.borrow() > 0 {
            tokio::time::sleep(working).await;
        }
    }

    /// Returns when nothing was asked for so long.
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

impl Site {
    /// Serves a connection to its end.
    pub(crate) async fn serve(self: Arc<Self>, accepted: Accepted) {
        let Accepted { stream, remote, protocol, pending, slot, .. } = accepted;
        let _slot = slot;
        let Some(_place) = self.shared.connections.take(remote.ip()) else {
            tracing::debug!(peer = %remote, "connection closed: too many from this address");
            return;
        };
        let peer = Arc::new(Peer::new(remote, certificates(&stream), Some(pending)));
        let result = if protocol.as_bytes() == ALPN_H2 {
            self.serve_http2(&peer, stream).await
        } else {
            self.serve_http1(&peer, stream).await
        };
        if let Err(error) = result {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::debug!(peer = %remote, %error, cause, "connection ended");
        }
    }

    async fn serve_http1(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        stream: TlsStream<TcpStream>,
    ) -> hyper::Result<()> {
        let stream = RequestLines::new(Stalls::new(stream, self.options.write_timeout));
        let (site, own) = (Arc::clone(self), Arc::clone(peer));
        let service = service_fn(move |request| {
            let (site, peer) = (Arc::clone(&site), Arc::clone(&own));
            async move { Ok::<_, Infallible>(site.exchange(&peer, request).await) }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            // Runs from the end of the last answer, so it is the limit of idleness too.
            .header_read_timeout(self.options.read_timeout.max(self.options.idle_timeout))
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let idle = std::future::pending();
        self.drive(peer, pin!(connection), idle, |it| it.graceful_shutdown()).await
    }

    async fn serve_http2(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        stream: TlsStream<TcpStream>,
    ) -> hyper::Result<()> {
        let stream = Stalls::new(stream, self.options.write_timeout);
        let (site, own) = (Arc::clone(self), Arc::clone(peer));
        let service = service_fn(move |request| {
            let (site, peer) = (Arc::clone(&site), Arc::clone(&own));
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
            .keep_alive_timeout(self.options.write_timeout);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let idle = peer.idle(self.options.idle_timeout);
        self.drive(peer, pin!(connection), idle, |it| it.graceful_shutdown()).await
    }

    /// Runs a connection until it ends, or until it is idle or the server stops; then it may
    /// finish what it is at, within a bound.
    async fn drive<C: Future<Output = hyper::Result<()>>>(
        &self,
        peer: &Peer,
        mut connection: Pin<&mut C>,
        idle: impl Future<Output = ()>,
        finish: impl FnOnce(Pin<&mut C>),
    ) -> hyper::Result<()> {
        let shared = &self.shared;
        let working = shared.limits.handler_timeout + self.options.write_timeout;
        let is_idle = tokio::select! {
            ended = connection.as_mut() => return ended,
            () = peer.cut.cancelled() => return Ok(()),
            () = idle => true,
            () = peer.silent(shared.limits.first_request) => true,
            () = shared.stopping.cancelled() => false,
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
            () = shared.stopped.cancelled() => Ok(()),
            () = bound => Ok(()),
        }
    }
}

/// The certificates that a peer showed, as far as they can be read. Without a readable leaf it
/// showed none: what stands behind proves nothing.
fn certificates(stream: &TlsStream<TcpStream>) -> Vec<Certificate> {
    let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let read = |der: &rustls::pki_types::CertificateDer<'_>| {
        Certificate::from_der(der.clone().into_owned()).ok()
    };
    shown.iter().take(MAX_PEER_CHAIN).map_while(read).collect()
}
