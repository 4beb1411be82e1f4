//! Joins an end of a circuit with a socket: data and half-close in both directions, and end-to-end encryption if
//! the dialer sent a key.
//!
//! There is one task per socket or conversation. It reads the socket only while the end has room, so that a slow
//! peer slows the application down and takes no memory. Each read becomes one payload; with encryption, one message.

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, WriteHalf},
    net::{TcpStream, UdpSocket, tcp::OwnedWriteHalf},
    sync::mpsc,
    time::Instant,
};
use tokio_rustls::TlsStream;
use weft_e2e::ending::{Incoming, Outgoing};
use weft_e2e::{ConnectionKeys, Header, Opener, Sealer};
use weft_limits::Grant;
use weft_xgress::{Delivery, PAYLOAD_SIZE};

use super::talk::{TalkSocket, Talker};
use crate::forwarder::LocalEnd;

/// Largest datagram that is read, in bytes.
pub(crate) const MAX_DATAGRAM: usize = 65_507;
/// How long an application may read nothing after its circuit is closed. Then the rest is thrown away, and the
/// application's connection is reset.
const PATIENCE: Duration = Duration::from_secs(30);
/// A UDP conversation ends after this time without datagrams in either direction.
pub(crate) const UDP_IDLE: Duration = Duration::from_secs(60);

thread_local! {
    /// Sockets are read into this buffer, and the data is copied out in its exact size, so that a socket that is
    /// idle or sends little holds no large buffer.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_DATAGRAM]);
}

/// The encryption of both directions of a connection.
pub(crate) struct Crypto {
    session: ConnectionKeys,
    seals: Seals,
}

/// The directions whose ends are sealed, so that no router on the path can cut a direction short
/// ([`weft_e2e::ending`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seals {
    /// The end of this side's direction.
    pub(crate) own_end: bool,
    /// The end of the peer's direction, as far as it is known before the peer sends anything.
    pub(crate) peers_end: bool,
}

impl Crypto {
    /// Encryption with these keys.
    pub(crate) fn new(session: ConnectionKeys, seals: Seals) -> Self {
        Self { session, seals }
    }

    #[cfg(test)]
    pub(crate) fn seals(&self) -> Seals {
        self.seals
    }
}

/// A stream of bytes in both directions: a TCP socket, or TLS over one.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// The socket below.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// Carries data between an end and a stream until both directions are over. `first` was read from the stream
/// before.
pub(crate) async fn carry(
    end: Arc<LocalEnd>,
    stream: Stream,
    first: Bytes,
    crypto: Option<Crypto>,
) {
    match stream {
        Stream::Tcp(stream) => {
            let (reader, writer) = stream.into_split();
            carry_halves(&end, reader, writer, first, crypto).await;
        }
        Stream::Tls(stream) => {
            let (reader, writer) = tokio::io::split(*stream);
            carry_halves(&end, reader, writer, first, crypto).await;
        }
    }
}

async fn carry_halves(
    end: &LocalEnd,
    reader: impl AsyncRead + Unpin,
    writer: impl Writer,
    first: Bytes,
    crypto: Option<Crypto>,
) {
    let (sealing, opening) = directions(crypto);
    let reading = read_stream(end, reader, first, sealing);
    let delivering = deliver_stream(end, writer, opening, PATIENCE);
    tokio::pin!(reading, delivering);
    // Delivering lasts until the circuit is closed, whichever side closes it.
    tokio::select! {
        () = &mut delivering => {}
        () = &mut reading => delivering.await,
    }
}

/// The half of a stream that is written to.
trait Writer: AsyncWrite + Unpin {
    /// Makes the stream end with a reset when it is dropped, so that the application knows that data is missing.
    fn reset(self);
}

impl Writer for OwnedWriteHalf {
    fn reset(self) {
        let _ = self.as_ref().set_zero_linger();
        // Otherwise the regular end of the stream would be sent first.
        self.forget();
    }
}

impl Writer for WriteHalf<TlsStream<TcpStream>> {
    // A TLS stream without its closing message shows the same.
    fn reset(self) {}
}

/// The encryption of data that goes into the circuit.
enum Sealing {
    Plain,
    /// The header of the encrypted stream is sent first.
    Begin(Crypto),
    On(Box<Outgoing>),
}

/// The decryption of data that comes out of the circuit.
enum Opening {
    Plain,
    /// The first data is the stream's header.
    Begin(ConnectionKeys, Incoming),
    On(Box<Opener>, Incoming),
}

fn directions(crypto: Option<Crypto>) -> (Sealing, Opening) {
    match crypto {
        None => (Sealing::Plain, Opening::Plain),
        Some(crypto) => {
            let incoming = Incoming::new(crypto.seals.peers_end);
            let opening = Opening::Begin(crypto.session.clone(), incoming);
            (Sealing::Begin(crypto), opening)
        }
    }
}

impl Sealing {
    /// Sends the header of the encrypted stream if it was not sent. False if the direction is over.
    async fn begin(&mut self, end: &LocalEnd) -> bool {
        let Self::Begin(crypto) = self else { return true };
        let (sealer, header) = Sealer::new(&crypto.session.tx, &mut rand::rng());
        *self = Self::On(Box::new(Outgoing::new(sealer, crypto.seals.own_end)));
        end.writable().await && end.write(Bytes::copy_from_slice(header.as_bytes())).is_ok()
    }

    fn apply(&mut self, data: &[u8]) -> Result<Bytes, weft_e2e::Error> {
        match self {
            Self::On(sealer) => sealer.seal(data),
            Self::Plain | Self::Begin(_) => Ok(Bytes::copy_from_slice(data)),
        }
    }

    /// Ends the direction, with a sealed end if the peer expects one.
    async fn finish(&mut self, end: &LocalEnd) {
        let last = if let Self::On(sealer) = self { sealer.end() } else { None };
        if let Some(last) = last
            && (!end.writable().await || end.write(last).is_err())
        {
            return;
        }
        end.finish();
    }
}

impl Opening {
    /// The application's data of a payload; `None` for the header of the encrypted stream.
    fn apply(&mut self, data: Bytes) -> Result<Option<Bytes>, weft_e2e::Error> {
        match self {
            Self::Plain => Ok(Some(data)),
            Self::Begin(session, ending) => {
                let header = Header::try_from(&data[..])?;
                *self = Self::On(Box::new(Opener::new(&session.rx, &header)), *ending);
                Ok(None)
            }
            Self::On(opener, ending) => {
                let opened = opener.open(&data)?;
                ending.note(&opened)?;
                Ok(Some(opened.plaintext))
            }
        }
    }

    /// True if the direction must not end now, because the sealed end that the peer promised has not come.
    fn is_cut(&self) -> bool {
        match self {
            Self::Plain => false,
            Self::Begin(_, ending) | Self::On(_, ending) => ending.is_cut(),
        }
    }
}

/// Reads the stream and writes to the circuit.
async fn read_stream(
    end: &LocalEnd,
    mut stream: impl AsyncRead + Unpin,
    first: Bytes,
    mut sealing: Sealing,
) {
    if !sealing.begin(end).await {
        return;
    }
    if !first.is_empty() {
        let Ok(first) = sealing.apply(&first) else { return end.abort() };
        if !end.writable().await || end.write(first).is_err() {
            return;
        }
    }
    while end.writable().await {
        let read = poll_fn(|cx| {
            SCRATCH.with_borrow_mut(|scratch| {
                let mut buffer = ReadBuf::new(scratch.get_mut(..PAYLOAD_SIZE).unwrap_or_default());
                ready!(Pin::new(&mut stream).poll_read(cx, &mut buffer))?;
                let data = buffer.filled();
                let sealed = if data.is_empty() { Ok(Bytes::new()) } else { sealing.apply(data) };
                Poll::Ready(sealed.map_err(io::Error::other))
            })
        });
        match read.await {
            Ok(data) if data.is_empty() => return sealing.finish(end).await,
            // The direction may have ended since there was room.
            Ok(data) => {
                if end.write(data).is_err() {
                    return;
                }
            }
            // TLS without its closing message: many programs end this way, and their earlier data counts.
            Err(problem) if problem.kind() == io::ErrorKind::UnexpectedEof => {
                return sealing.finish(end).await;
            }
            Err(problem) => {
                tracing::debug!(?end, %problem, "reading an application socket failed");
                return end.abort();
            }
        }
    }
}

/// Reads the circuit and writes to the stream, until the circuit is closed.
async fn deliver_stream(
    end: &LocalEnd,
    mut stream: impl Writer,
    mut opening: Opening,
    patience: Duration,
) {
    let mut open = true;
    loop {
        match end.read().await {
            Delivery::Data { data, .. } if open => {
                let written = match opening.apply(data) {
                    Ok(None) => continue,
                    Ok(Some(data)) => tokio::select! {
                        biased;
                        // TLS keeps encrypted data until it is flushed.
                        written = async { stream.write_all(&data).await?; stream.flush().await } => written,
                        () = closed_for(end, patience) => {
                            tracing::debug!(
                                "an application does not read the rest of its circuit: its \
                                 connection is reset"
                            );
                            return stream.reset();
                        }
                    },
                    Err(problem) => Err(io::Error::other(problem)),
                };
                if let Err(problem) = written {
                    tracing::debug!(?end, %problem, "writing to an application socket failed");
                    end.delivery_failed();
                    open = false;
                }
            }
            Delivery::Data { .. } => {}
            // Data is missing, so that the application must not see a regular end.
            Delivery::Fin { .. } | Delivery::Closed(_) if opening.is_cut() => {
                tracing::debug!(?end, "the peer's data was cut off on the way");
                end.close();
                return stream.reset();
            }
            // TLS sends its closing message, for which the application may have no room.
            Delivery::Fin { .. } => tokio::select! {
                biased;
                over = stream.shutdown() => if over.is_err() {
                    end.close();
                },
                () = closed_for(end, patience) => return stream.reset(),
            },
            Delivery::Closed(_) => return,
        }
    }
}

/// Waits until the circuit has been closed for this long, and returns after twice that time at the latest.
async fn closed_for(end: &LocalEnd, patience: Duration) {
    let mut was_closed = end.is_closed();
    loop {
        tokio::time::sleep(patience).await;
        let is_closed = end.is_closed();
        if was_closed && is_closed {
            return;
        }
        was_closed = is_closed;
    }
}

/// A datagram that waits, and its memory.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The datagram.
    pub(crate) data: Bytes,
    /// The bytes drawn for it.
    pub(crate) grant: Grant,
}

/// The socket of a conversation in datagrams.
pub(crate) enum Datagrams {
    /// A socket of the conversation's own.
    Connected(UdpSocket),
    /// A listening socket that conversations share.
    Shared {
        /// The socket.
        socket: Arc<TalkSocket>,
        /// The client.
        peer: Talker,
        /// The first datagram of the client.
        first: Option<Waiting>,
        /// Further datagrams of the client.
        inbox: mpsc::Receiver<Waiting>,
    },
}

/// Carries datagrams between an end and a client or application, until the conversation is idle or closed.
pub(crate) async fn carry_datagrams(
    end: Arc<LocalEnd>,
    datagrams: Datagrams,
    crypto: Option<Crypto>,
    idle: Duration,
) {
    let active = Activity::default();
    let (sealing, opening) = directions(crypto);
    let idling = active.idle(idle);
    match datagrams {
        Datagrams::Connected(socket) => {
            let delivering = deliver_datagrams(&end, Answers::Own(&socket), opening, &active);
            tokio::select! {
                () = read_udp(&end, &socket, sealing, &active) => {}
                () = delivering => return,
                () = idling => {}
            }
        }
        Datagrams::Shared { socket, peer, first, inbox } => {
            let answers = Answers::Shared(&socket, &peer);
            let delivering = deliver_datagrams(&end, answers, opening, &active);
            tokio::select! {
                () = read_inbox(&end, first, inbox, sealing, &active) => {}
                () = delivering => return,
                () = idling => {}
            }
        }
    }
    end.close();
    // The end itself tells the peer that this side has closed.
    while !matches!(end.read().await, Delivery::Closed(_)) {}
}

/// Writes the datagrams that a listener received from one client to the circuit.
async fn read_inbox(
    end: &LocalEnd,
    mut first: Option<Waiting>,
    mut inbox: mpsc::Receiver<Waiting>,
    mut sealing: Sealing,
    active: &Activity,
) {
    if !sealing.begin(end).await {
        return;
    }
    while end.writable().await {
        let next = match first.take() {
            Some(first) => Some(first),
            None => inbox.recv().await,
        };
        let Some(Waiting { data, grant }) = next else { return };
        active.note();
        let data = match &sealing {
            Sealing::Plain => data,
            _ => match sealing.apply(&data) {
                Ok(sealed) => sealed,
                Err(_) => return,
            },
        };
        // The end draws for the data from here on.
        drop(grant);
        if end.write(data).is_err() {
            return;
        }
    }
}

async fn read_udp(end: &LocalEnd, socket: &UdpSocket, mut sealing: Sealing, active: &Activity) {
    if !sealing.begin(end).await {
        return;
    }
    while end.writable().await {
        if socket.readable().await.is_err() {
            return;
        }
        let read = SCRATCH.with_borrow_mut(|scratch| {
            let count = socket.try_recv(scratch)?;
            let data = scratch.get(..count).unwrap_or_default();
            sealing.apply(data).map_err(io::Error::other)
        });
        match read {
            Ok(data) => {
                active.note();
                if end.write(data).is_err() {
                    return;
                }
            }
            // An ICMP refusal of an earlier datagram shows up here; the conversation goes on.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused
                ) => {}
            Err(_) => return,
        }
    }
}

/// Where the datagrams out of a circuit go.
#[derive(Clone, Copy)]
enum Answers<'a> {
    /// To the peer of the conversation's own socket.
    Own(&'a UdpSocket),
    /// To one client of a shared socket.
    Shared(&'a TalkSocket, &'a Talker),
}

async fn deliver_datagrams(
    end: &LocalEnd,
    answers: Answers<'_>,
    mut opening: Opening,
    active: &Activity,
) {
    loop {
        match end.read().await {
            Delivery::Data { data, .. } => {
                active.note();
                match opening.apply(data) {
                    // Datagrams may be lost; one that cannot be sent is lost.
                    Ok(Some(data)) => drop(match answers {
                        Answers::Shared(socket, peer) => socket.send(&data, peer).await,
                        Answers::Own(socket) => socket.send(&data).await.map(drop),
                    }),
                    Ok(None) => {}
                    Err(_) => end.delivery_failed(),
                }
            }
            Delivery::Fin { .. } => end.close(),
            Delivery::Closed(_) => return,
        }
    }
}

/// Carries datagrams between an end and an accepted client, until either is done.
pub(crate) async fn carry_client(
    end: Arc<LocalEnd>,
    client: weft_tunnel::Datagrams,
    crypto: Option<Crypto>,
) {
    let (sealing, opening) = directions(crypto);
    let reading = read_client(&end, &client, sealing);
    let delivering = deliver_client(&end, &client, opening);
    tokio::select! {
        () = reading => {}
        () = delivering => return,
    }
    end.close();
    while !matches!(end.read().await, Delivery::Closed(_)) {}
}

async fn read_client(end: &LocalEnd, client: &weft_tunnel::Datagrams, mut sealing: Sealing) {
    if !sealing.begin(end).await {
        return;
    }
    while end.writable().await {
        let Some(data) = client.receive().await else { return };
        let Ok(data) = sealing.apply(&data) else { return };
        if end.write(data).is_err() {
            return;
        }
    }
}

async fn deliver_client(end: &LocalEnd, client: &weft_tunnel::Datagrams, mut opening: Opening) {
    loop {
        match end.read().await {
            Delivery::Data { data, .. } => match opening.apply(data) {
                Ok(Some(data)) => drop(client.answer(&data).await),
                Ok(None) => {}
                Err(_) => end.delivery_failed(),
            },
            Delivery::Fin { .. } => end.close(),
            Delivery::Closed(_) => return,
        }
    }
}

/// The time of the last datagram.
#[derive(Default)]
struct Activity {
    happened: AtomicBool,
    last: Mutex<Option<Instant>>,
}

impl Activity {
    fn note(&self) {
        self.happened.store(true, Ordering::Relaxed);
    }

    /// Returns after this time without datagrams.
    async fn idle(&self, limit: Duration) {
        loop {
            tokio::time::sleep(limit / 4).await;
            let mut last = self.last.lock();
            let now = Instant::now();
            if self.happened.swap(false, Ordering::Relaxed) || last.is_none() {
                *last = Some(now);
            } else if last.is_some_and(|last| now - last >= limit) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncReadExt, net::TcpSocket};

    use super::*;
    use crate::{
        bindings::keys,
        forwarder::tests::{before_a_socket, pass},
    };

    /// A socket that takes little, and its application.
    async fn narrow() -> (TcpStream, TcpStream) {
        let listener = TcpSocket::new_v4().unwrap();
        listener.set_recv_buffer_size(4096).unwrap();
        listener.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = listener.listen(1).unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(4096).unwrap();
        let (socket, accepted) =
            tokio::join!(socket.connect(listener.local_addr().unwrap()), listener.accept());
        (socket.unwrap(), accepted.unwrap().0)
    }

    /// A stream that takes everything but its end.
    struct Endless;

    impl AsyncWrite for Endless {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            data: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(data.len()))
        }

        fn poll_flush(
            self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(
            self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl Writer for Endless {
        fn reset(self) {}
    }

    #[tokio::test]
    async fn an_application_that_does_not_take_the_goodbye_is_given_up() {
        const SHORT: Duration = Duration::from_millis(50);
        let (mut dialer, end) = before_a_socket();
        dialer.write("hello".into()).unwrap();
        dialer.finish(std::time::Instant::now());
        pass(&mut dialer, &end);
        let carried = Arc::clone(&end);
        let mut delivering = tokio::spawn(async move {
            deliver_stream(&carried, Endless, Opening::Plain, SHORT).await;
        });
        let early = tokio::time::timeout(5 * SHORT, &mut delivering).await;
        assert!(early.is_err(), "the application may take its time");
        end.unrouted();
        let late = Duration::from_secs(20);
        tokio::time::timeout(late, delivering).await.expect("given up").unwrap();
    }

    #[tokio::test]
    async fn an_application_that_takes_nothing_is_waited_for_while_its_circuit_lives() {
        const SHORT: Duration = Duration::from_millis(50);
        let (mut dialer, end) = before_a_socket();
        let (socket, mut application) = narrow().await;
        while dialer.can_write() {
            dialer.write(vec![7; PAYLOAD_SIZE].into()).unwrap();
        }
        pass(&mut dialer, &end);
        let (_reader, writer) = socket.into_split();
        let carried = Arc::clone(&end);
        let mut delivering =
            tokio::spawn(
                async move { deliver_stream(&carried, writer, Opening::Plain, SHORT).await },
            );
        let early = tokio::time::timeout(5 * SHORT, &mut delivering).await;
        assert!(early.is_err(), "the application may take its time");
        end.unrouted();
        let late = Duration::from_secs(20);
        tokio::time::timeout(late, delivering).await.expect("given up").unwrap();
        drop(_reader);
        // What it gets is not whole, and it can tell.
        let mut got = Vec::new();
        let ended = application.read_to_end(&mut got).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn a_sealed_stream_that_was_cut_short_has_not_ended() {
        for is_cut in [false, true] {
            let offer = keys::Offer::new(true);
            let host = keys::answer(&offer.peer_data()).unwrap().unwrap();
            let (host, told) = host.ready(true);
            let keys = offer.accepted(&told).unwrap().unwrap();
            let (sealer, header) = Sealer::new(&keys.session.tx, &mut rand::rng());
            let mut sealing = Outgoing::new(sealer, keys.seals.own_end);
            let (mut dialer, end) = before_a_socket();
            dialer.write(Bytes::copy_from_slice(header.as_bytes())).unwrap();
            dialer.write(sealing.seal(b"hello").unwrap()).unwrap();
            let last = sealing.end().unwrap();
            if !is_cut {
                dialer.write(last).unwrap();
            }
            dialer.finish(std::time::Instant::now());
            pass(&mut dialer, &end);
            let (socket, mut application) = narrow().await;
            let (reader, writer) = socket.into_split();
            let (_, opening) = directions(Some(host));
            let carried = Arc::clone(&end);
            let delivering = tokio::spawn(async move {
                deliver_stream(&carried, writer, opening, PATIENCE).await;
                drop(reader);
            });
            let mut got = Vec::new();
            let late = Duration::from_secs(20);
            let ended = tokio::time::timeout(late, application.read_to_end(&mut got)).await;
            match ended.expect("an end") {
                Ok(_) => assert!(!is_cut && got == b"hello"),
                Err(problem) => {
                    assert!(
                        is_cut && problem.kind() == io::ErrorKind::ConnectionReset,
                        "{problem}"
                    );
                }
            }
            delivering.abort();
        }
    }
}
