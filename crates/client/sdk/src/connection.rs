//! A connection for the application: a stream of bytes in both directions.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use weft_e2e::ends::Peer;
use weft_xgress::{CircuitCloseReason, Delivery};

use crate::circuit::{Circuit, Ended, Unwritten};
use crate::exchange::Outcome;
use crate::hop::Hop;
use crate::inner::Guard;
use crate::sealing::{Inward, Keys};

/// The description of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The service.
    pub service: String,
    /// The circuit's id, for operators; `None` if the router does not send it.
    pub circuit_id: Option<Arc<str>>,
    /// At a host: see [`Incoming::caller_id`](crate::Incoming::caller_id). At the dialer: the name that it gave.
    pub caller_id: Option<String>,
    /// At a host: the id of the dialer's identity, verified by its router; older routers do not send
    /// it.
    pub dialer_identity: Option<String>,
    /// At a host: the name of the dialer's identity, verified by its router; older routers do not
    /// send it.
    pub dialer_name: Option<String>,
    /// Data that the dialer's application sent with the dial.
    pub app_data: Option<Bytes>,
}

/// A connection to the other application, over the overlay.
///
/// It is [`AsyncRead`] and [`AsyncWrite`]. `read` and `write` of tokio's extension traits are cancel safe on it; `read_exact`,
/// `write_all` and others that take several steps are not. Shutting it down ends one direction: the peer reads the
/// end, and its data can still be read here. Dropping it ends both directions; data written before
/// is still sent.
///
/// A write is sent at once, in payloads of at most 32 KiB. While earlier payloads wait (for the
/// window of the circuit, or because other circuits send), small writes leave together in one
/// payload. Where the borders of messages matter, [`WriteHalf::try_write_message`] keeps them.
#[derive(Debug)]
pub struct Connection {
    reader: ReadHalf,
    writer: WriteHalf,
}

/// Ends the circuit when both halves are dropped.
#[derive(Debug)]
struct Shared {
    circuit: Arc<Circuit>,
    info: Info,
    encrypted: bool,
    /// Keeps the channel open.
    _guard: Arc<Guard>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.circuit.close();
    }
}

/// The half of a [`Connection`] that is read.
#[derive(Debug)]
pub struct ReadHalf {
    shared: Arc<Shared>,
    inward: Inward,
    /// What a proof of both ends leaves, until it is there.
    proof: Option<oneshot::Receiver<Outcome>>,
    /// The other end, once it has proved itself.
    peer: Option<Peer>,
    /// Decrypted bytes that were not read yet.
    rest: Bytes,
    state: Reading,
}

/// The half of a [`Connection`] that is written. Dropping it ends this direction.
#[derive(Debug)]
pub struct WriteHalf {
    shared: Arc<Shared>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Open,
    Ended,
    Failed(&'static str),
}

impl Connection {
    pub(crate) fn new(
        circuit: Arc<Circuit>,
        keys: Option<Keys>,
        info: Info,
        guard: Arc<Guard>,
    ) -> Self {
        let encrypted = keys.is_some();
        let inward = match keys {
            None => Inward::Plain,
            Some(keys) => {
                let (outward, inward, header) = keys.start();
                circuit.seal(outward, header);
                inward
            }
        };
        Self::of(circuit, encrypted, inward, info, guard)
    }

    /// A connection whose ends have proved themselves.
    pub(crate) fn opened(
        circuit: Arc<Circuit>,
        proved: Outcome,
        info: Info,
        guard: Arc<Guard>,
    ) -> Self {
        let Outcome { peer, inward } = proved;
        let mut connection = Self::of(circuit, true, inward, info, guard);
        connection.reader.peer = peer;
        connection
    }

    /// A connection whose ends are proving themselves.
    pub(crate) fn proving(
        circuit: Arc<Circuit>,
        proof: oneshot::Receiver<Outcome>,
        info: Info,
        guard: Arc<Guard>,
    ) -> Self {
        let mut connection = Self::of(circuit, true, Inward::Plain, info, guard);
        connection.reader.proof = Some(proof);
        connection
    }

    fn of(
        circuit: Arc<Circuit>,
        encrypted: bool,
        inward: Inward,
        info: Info,
        guard: Arc<Guard>,
    ) -> Self {
        let shared = Arc::new(Shared { circuit, info, encrypted, _guard: guard });
        let reader = ReadHalf {
            shared: Arc::clone(&shared),
            inward,
            proof: None,
            peer: None,
            rest: Bytes::new(),
            state: Reading::Open,
        };
        Self { reader, writer: WriteHalf { shared } }
    }

    /// Who is at the other end, if both ends prove themselves. A dialer knows at once; at a host it may take until data
    /// comes. `None` if they do not:
    /// one of them is not weft's, the service requires no encryption, or a router on the path has prevented it.
    ///
    /// # Errors
    /// When the other end has not proved itself: the connection is over.
    ///
    /// # Cancel safety
    /// Cancel safe: the next call gives the same answer.
    pub async fn peer(&mut self) -> io::Result<Option<&Peer>> {
        poll_fn(|cx| self.reader.poll_proof(cx)).await;
        match self.reader.state {
            Reading::Failed(why) => Err(io::Error::new(io::ErrorKind::ConnectionReset, why)),
            _ => Ok(self.reader.peer.as_ref()),
        }
    }

    /// The description of the connection.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.reader.shared.info
    }

    /// The circuit's id, for operators; `None` if the router does not send it.
    #[must_use]
    pub fn circuit_id(&self) -> Option<&str> {
        self.info().circuit_id.as_deref()
    }

    /// True if the data is encrypted from end to end.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.reader.shared.encrypted
    }

    /// True if the flow control of the circuit is in this program, and not at the router.
    #[must_use]
    pub fn has_own_flow_control(&self) -> bool {
        self.reader.shared.circuit.is_own()
    }

    /// The circuit.
    #[cfg(test)]
    pub(crate) fn circuit(&self) -> &Arc<Circuit> {
        &self.reader.shared.circuit
    }

    /// Asks the hop of this number on the way to the other application for its name; the first is 1.
    /// If the way is shorter, its last hop answers.
    ///
    /// # Errors
    /// When no answer comes within `timeout`, when the connection is over, and when more than 16
    /// requests wait.
    ///
    /// # Cancel safety
    /// Cancel safe: a request that is given up waits for no answer any more.
    pub async fn hop(&self, number: u32, timeout: Duration) -> io::Result<Hop> {
        let begun = Instant::now();
        let refused = || io::Error::other("the connection is over, or too many requests wait");
        let answer = self.reader.shared.circuit.trace(number).ok_or_else(refused)?;
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(answer)) => Ok(Hop::new(answer, begun.elapsed())),
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the connection is over")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no hop answered in time")),
        }
    }

    /// Splits the connection into its directions, for use by different tasks.
    #[must_use]
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        (self.reader, self.writer)
    }

    /// Ends both directions and waits until all written data has arrived at the other end, the other application
    /// has closed the connection, or the circuit has given up. Whether the other application has read the data is its
    /// own affair: an answer says so.
    ///
    /// # Errors
    /// When the circuit has failed before the other end had all data that was written, or, with
    /// [`router_flow_control`](crate::EndpointBuilder::router_flow_control), before the router had it.
    ///
    /// # Cancel safety
    /// If it is given up, the connection is dropped: what was written is still sent, and nobody hears whether it arrived.
    pub async fn close(self) -> io::Result<()> {
        let circuit = Arc::clone(&self.reader.shared.circuit);
        let guard = Arc::clone(&self.reader.shared._guard);
        drop(self);
        let ended = circuit.done().await;
        drop(guard);
        match ended {
            Some(Ended { is_delivered: false, reason }) => {
                let why = match ended_by(reason) {
                    Reading::Failed(why) => why,
                    Reading::Open | Reading::Ended => "the other side takes no more data",
                };
                let text = format!("written data did not reach the other end: {why}");
                Err(io::Error::new(io::ErrorKind::ConnectionReset, text))
            }
            _ => Ok(()),
        }
    }
}

impl ReadHalf {
    /// The description of the connection.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.shared.info
    }

    /// The next payload of the peer: one message of a peer that sends messages, or a part of a
    /// stream, without a copy. `None` at the end.
    ///
    /// # Errors
    /// When the connection has failed.
    ///
    /// # Cancel safety
    /// Cancel safe: a call that is given up has taken nothing, so that it can be a branch of a `select!`.
    pub async fn read_message(&mut self) -> io::Result<Option<Bytes>> {
        poll_fn(|cx| self.poll_fill(cx)).await;
        match self.state {
            _ if !self.rest.is_empty() => Ok(Some(std::mem::take(&mut self.rest))),
            Reading::Failed(why) => Err(io::Error::new(io::ErrorKind::ConnectionReset, why)),
            Reading::Open | Reading::Ended => Ok(None),
        }
    }

    /// Takes what a proof of both ends leaves.
    fn poll_proof(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(proof) = &mut self.proof {
            match ready!(Pin::new(proof).poll(cx)) {
                Ok(Outcome { peer, inward }) => {
                    self.inward = inward;
                    self.peer = peer;
                }
                Err(_) => self.state = Reading::Failed("the dialer has not proved who it is"),
            }
            self.proof = None;
        }
        Poll::Ready(())
    }

    /// Takes deliveries of the circuit until there is data to read or the direction is over.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_proof(cx));
        while self.rest.is_empty() && self.state == Reading::Open {
            match ready!(self.shared.circuit.poll_read(cx)) {
                Delivery::Data { headers, data } => match self.inward.open(&headers, data) {
                    Ok(data) => self.rest = data,
                    Err(problem) => {
                        tracing::warn!(circuit = self.shared.info.circuit_id.as_deref(), %problem, "a connection is closed, because data of its peer cannot be decrypted");
                        self.state = Reading::Failed("the peer's data cannot be decrypted");
                        self.shared.circuit.abort();
                    }
                },
                Delivery::Fin { .. } => self.state = self.ended(Reading::Ended),
                Delivery::Closed(reason) => self.state = self.ended(ended_by(reason)),
            }
        }
        Poll::Ready(())
    }
}

impl ReadHalf {
    /// Turns an unsealed end into an error, if the peer seals its end.
    fn ended(&self, state: Reading) -> Reading {
        match state {
            Reading::Ended if self.inward.is_cut() => {
                Reading::Failed("the peer's data was cut off on the way")
            }
            state => state,
        }
    }
}

/// The result of a read when the circuit ended without the end of the peer's direction.
fn ended_by(reason: CircuitCloseReason) -> Reading {
    match reason {
        CircuitCloseReason::Finished | CircuitCloseReason::PeerClosed => Reading::Ended,
        CircuitCloseReason::PeerGaveUp => {
            Reading::Failed("the other side gave the connection up before its data had ended")
        }
        CircuitCloseReason::NotStarted => Reading::Failed("the dialer did not begin in time"),
        CircuitCloseReason::Unacknowledged => Reading::Failed("the peer stopped acknowledging"),
        CircuitCloseReason::Unrouted => {
            Reading::Failed("the circuit was ended, or its router is gone")
        }
        CircuitCloseReason::Aborted => Reading::Failed("the connection to the router is gone"),
        CircuitCloseReason::Protocol => Reading::Failed("the peer broke the protocol"),
        CircuitCloseReason::Exhausted => Reading::Failed("the circuit carried all it can count"),
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        ready!(this.poll_fill(cx));
        if this.rest.is_empty() {
            return Poll::Ready(match this.state {
                Reading::Failed(why) => Err(io::Error::new(io::ErrorKind::ConnectionReset, why)),
                _ => Ok(()),
            });
        }
        let length = this.rest.len().min(buffer.remaining());
        buffer.put_slice(this.rest.get(..length).unwrap_or_default());
        this.rest.advance(length);
        if this.rest.is_empty() {
            // Frees the payload's memory before the next one is taken.
            this.rest = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl WriteHalf {
    /// The description of the connection.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.shared.info
    }

    /// Waits until both directions are over, whichever side ended them.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        let circuit = Arc::clone(&self.shared.circuit);
        async move {
            circuit.done().await;
        }
    }

    /// Gives the connection up in both directions: data that is on its way is dropped, and the other application
    /// reads an error instead of the end. For a relay whose own side was reset.
    pub fn reset(&mut self) {
        self.shared.circuit.abort();
    }

    /// Waits until there is room for a write, so that the caller need not hold data meanwhile. The next
    /// write is taken then, whatever happens to the room meanwhile.
    ///
    /// # Errors
    /// When this direction has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn writable(&self) -> io::Result<()> {
        poll_fn(|cx| self.shared.circuit.poll_writable(cx)).await.map_err(|_| ended())
    }

    /// Writes all of `data`, up to [`MAX_MESSAGE`] bytes, as one message: a peer that reads messages
    /// gets it whole, for instance a datagram. There has to be room for it
    /// ([`writable`](Self::writable)).
    ///
    /// # Errors
    /// When there is no room, the data is too long, or this direction has ended.
    pub fn try_write_message(&mut self, data: &[u8]) -> io::Result<()> {
        if data.len() > MAX_MESSAGE {
            let text = format!("a message of {} bytes is too long", data.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.shared.circuit.write_message(data).map_err(io::Error::from)
    }
}

impl From<Unwritten> for io::Error {
    fn from(reason: Unwritten) -> Self {
        match reason {
            Unwritten::Full => io::ErrorKind::WouldBlock.into(),
            Unwritten::Ended => ended(),
            Unwritten::Sealing(problem) => io::Error::other(problem),
        }
    }
}

/// The longest message, in bytes: the longest datagram of UDP.
pub const MAX_MESSAGE: usize = 65_507;

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection takes no more data")
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        this.shared.circuit.poll_write(cx, data).map_err(io::Error::from)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Written data needs no push: the channel takes it as soon as the window allows.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.circuit.finish();
        Poll::Ready(Ok(()))
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        self.shared.circuit.finish();
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}
