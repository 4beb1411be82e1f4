//! Joins an end with a stream of bytes.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, WriteHalf},
    net::{TcpStream, tcp::OwnedWriteHalf},
};
use tokio_rustls::TlsStream;
use weft_xgress::{Delivery, PAYLOAD_SIZE};

use super::{
    crypto::{Crypto, Opening, Sealing, directions},
    scratch::SCRATCH,
};
use crate::forwarder::LocalEnd;

/// How long an application may read nothing after its circuit is closed. Then the rest is thrown away, and
/// the application's connection is reset.
const PATIENCE: Duration = Duration::from_secs(30);

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
    writer: impl ResettableHalf,
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
trait ResettableHalf: AsyncWrite + Unpin {
    /// Makes the stream end with a reset when it is dropped, so that the application knows that data is
    /// missing.
    fn reset(self);
}

impl ResettableHalf for OwnedWriteHalf {
    fn reset(self) {
        let _ = self.as_ref().set_zero_linger();
        // Without this call, the drop of the half would send the regular end of the stream first.
        self.forget();
    }
}

impl ResettableHalf for WriteHalf<TlsStream<TcpStream>> {
    // A TLS stream that ends without its closing message shows the application the same.
    fn reset(self) {}
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
    mut stream: impl ResettableHalf,
    mut opening: Opening,
    patience: Duration,
) {
    let (mut open, mut is_whole) = (true, false);
    loop {
        match end.read().await {
            Delivery::Data { data, .. } if open => {
                let written = match opening.apply(data) {
                    Ok(None) => continue,
                    Ok(Some(data)) => match write(end, &mut stream, &data, patience).await {
                        Some(written) => written,
                        None => {
                            tracing::debug!(
                                "an application does not read the rest of its circuit: its \
                                 connection is reset"
                            );
                            return stream.reset();
                        }
                    },
                    Err(problem) => {
                        tracing::debug!(?end, %problem, "the peer's data cannot be decrypted");
                        end.abort();
                        return stream.reset();
                    }
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
            Delivery::Fin { .. } => {
                is_whole = true;
                tokio::select! {
                    biased;
                    // The application has gone; its own data may be cut.
                    over = stream.shutdown() => if over.is_err() {
                        end.delivery_failed();
                    },
                    () = closed_for(end, patience) => return stream.reset(),
                }
            }
            Delivery::Closed(reason) if is_whole || reason.is_orderly() => return,
            Delivery::Closed(reason) => {
                tracing::debug!(?end, ?reason, "a circuit ended before its peer's data did");
                return stream.reset();
            }
        }
    }
}

/// Writes data of the circuit. `None` if the application has taken nothing for the time `patience` after the circuit
/// was closed; an application that reads slowly has that time again with every byte that it takes.
async fn write(
    end: &LocalEnd,
    stream: &mut (impl AsyncWrite + Unpin),
    data: &[u8],
    patience: Duration,
) -> Option<io::Result<()>> {
    let mut left = data;
    while !left.is_empty() {
        let taken = tokio::select! {
            biased;
            taken = stream.write(left) => taken,
            () = closed_for(end, patience) => return None,
        };
        left = match taken {
            Ok(0) => return Some(Err(io::ErrorKind::WriteZero.into())),
            Ok(taken) => left.get(taken..).unwrap_or_default(),
            Err(problem) => return Some(Err(problem)),
        };
    }
    // TLS keeps encrypted data until it is flushed.
    tokio::select! {
        biased;
        flushed = stream.flush() => Some(flushed),
        () = closed_for(end, patience) => None,
    }
}

/// Waits until the circuit has been closed for the time `patience`; returns twice that time after
/// the close at the latest.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::{io::AsyncReadExt, net::TcpSocket};
    use weft_e2e::{Sealer, ending::Outgoing};

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

    impl ResettableHalf for Endless {
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

    /// A stream that takes a byte each half of the patience.
    struct Slow {
        pause: Pin<Box<tokio::time::Sleep>>,
        taken: Arc<AtomicUsize>,
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            ready!(self.pause.as_mut().poll(cx));
            self.pause = Box::pin(tokio::time::sleep(PATIENCE / 2));
            self.taken.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Ok(1))
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
            Poll::Ready(Ok(()))
        }
    }

    impl ResettableHalf for Slow {
        fn reset(self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn an_application_that_reads_slowly_gets_all_of_a_circuit_that_is_closed() {
        let (mut dialer, end) = before_a_socket();
        dialer.write(vec![7; 20].into()).unwrap();
        dialer.finish(weft_circuit::now());
        pass(&mut dialer, &end);
        end.unrouted();
        let taken = Arc::new(AtomicUsize::new(0));
        let pause = Box::pin(tokio::time::sleep(Duration::ZERO));
        let slow = Slow { pause, taken: Arc::clone(&taken) };
        deliver_stream(&end, slow, Opening::Plain, PATIENCE).await;
        assert_eq!(taken.load(Ordering::Relaxed), 20);
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
        // The received data is incomplete, and the application can tell.
        let mut got = Vec::new();
        let ended = application.read_to_end(&mut got).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn an_application_can_tell_a_lost_circuit_from_the_end_of_the_data() {
        for is_whole in [false, true] {
            let (mut dialer, end) = before_a_socket();
            dialer.write("hello".into()).unwrap();
            if is_whole {
                dialer.finish(std::time::Instant::now());
            }
            pass(&mut dialer, &end);
            let (socket, mut application) = narrow().await;
            let (reader, writer) = socket.into_split();
            let carried = Arc::clone(&end);
            let delivering = tokio::spawn(async move {
                deliver_stream(&carried, writer, Opening::Plain, PATIENCE).await;
                drop(reader);
            });
            let late = Duration::from_secs(20);
            let mut got = [0; 5];
            tokio::time::timeout(late, application.read_exact(&mut got)).await.unwrap().unwrap();
            end.unrouted();
            let ended = tokio::time::timeout(late, application.read(&mut [0; 1])).await;
            match ended.expect("an end") {
                Ok(more) => assert!(is_whole && more == 0),
                Err(problem) => {
                    assert!(!is_whole && problem.kind() == io::ErrorKind::ConnectionReset);
                }
            }
            delivering.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_sealed_stream_that_was_cut_short_has_not_ended() {
        for is_cut in [false, true] {
            let offer = keys::Offer::new(true).unwrap();
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
