//! Streams that end in order, and those that do not.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncReadExt;
use tokio::net::TcpSocket;
use weft_e2e::Sealer;
use weft_e2e::ending::Outgoing;

use super::*;
use crate::bindings::keys;
use crate::forwarder::tests::{before_a_socket, pass};

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

    fn poll_flush(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl EndingHalf for Endless {
    fn ended(self) {}
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

    fn poll_flush(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl EndingHalf for Slow {
    fn ended(self) {}
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
    let writer = AppWriter::new(writer);
    let carried = Arc::clone(&end);
    let mut delivering =
        tokio::spawn(async move { deliver_stream(&carried, writer, Opening::Plain, SHORT).await });
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
        let writer = AppWriter::new(writer);
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
        let writer = AppWriter::new(writer);
        let (_, opening) = directions(&end, Some(host)).await.unwrap();
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
                assert!(is_cut && problem.kind() == io::ErrorKind::ConnectionReset, "{problem}");
            }
        }
        delivering.abort();
    }
}

#[tokio::test]
async fn data_of_an_application_is_still_sent_after_the_peer_was_cut_off() {
    let offer = keys::Offer::new(true).unwrap();
    let host = keys::answer(&offer.peer_data()).unwrap().unwrap();
    let (host, told) = host.ready(true);
    let keys = offer.accepted(&told).unwrap().unwrap();
    let (sealer, header) = Sealer::new(&keys.session.tx, &mut rand::rng());
    let mut sealing = Outgoing::new(sealer, keys.seals.own_end);
    let (mut dialer, end) = before_a_socket();
    dialer.write(Bytes::copy_from_slice(header.as_bytes())).unwrap();
    dialer.write(sealing.seal(b"hello").unwrap()).unwrap();
    pass(&mut dialer, &end);
    let (socket, mut application) = narrow().await;
    let carried = carry(Arc::clone(&end), Stream::Tcp(socket), "answer".into(), Some(host));
    let carried = tokio::spawn(carried);
    // The answer is written in the same step as the greeting, at the latest.
    application.read_exact(&mut [0; 5]).await.unwrap();
    dialer.finish(std::time::Instant::now());
    pass(&mut dialer, &end);
    tokio::time::timeout(Duration::from_secs(20), carried).await.expect("an end").unwrap();
    assert!(!end.is_closed(), "the answer is not acknowledged yet");
}

#[tokio::test]
async fn a_connection_that_is_served_no_longer_has_not_ended() {
    let (mut dialer, end) = before_a_socket();
    dialer.write("hello".into()).unwrap();
    pass(&mut dialer, &end);
    let (socket, mut application) = narrow().await;
    let stream = Stream::Tcp(socket);
    let carrying = tokio::spawn(carry(Arc::clone(&end), stream, Bytes::new(), None));
    application.read_exact(&mut [0; 5]).await.unwrap();
    carrying.abort();
    let late = Duration::from_secs(20);
    let ended = tokio::time::timeout(late, application.read(&mut [0; 1])).await.unwrap();
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(end.is_closed(), "the other end is told");
}
