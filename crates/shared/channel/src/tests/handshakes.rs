//! Peers whose handshake goes on and on: it ends at the time limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::*;
use crate::{tls, *};

/// A time limit for handshakes that ends within a test.
const SHORT: Duration = Duration::from_millis(300);
/// The pause between two bytes.
const PAUSE: Duration = Duration::from_millis(20);

/// Passes bytes on one by one, the first record at once if that is wanted; answers as they come. Ends with either side.
async fn trickle(
    from: impl AsyncRead + AsyncWrite,
    to: impl AsyncRead + AsyncWrite,
    first_at_once: bool,
) {
    let (mut from, mut answers_to) = tokio::io::split(from);
    let (mut answers, mut to) = tokio::io::split(to);
    let there = async {
        if first_at_once {
            let mut record = vec![0; 5];
            from.read_exact(&mut record).await?;
            let length = u16::from_be_bytes([record[3], record[4]]);
            record.resize(5 + usize::from(length), 0);
            from.read_exact(&mut record[5..]).await?;
            to.write_all(&record).await?;
        }
        loop {
            to.write_u8(from.read_u8().await?).await?;
            to.flush().await?;
            tokio::time::sleep(PAUSE).await;
        }
    };
    let there: std::pin::Pin<&mut dyn Future<Output = std::io::Result<()>>> = std::pin::pin!(there);
    tokio::select! {
        _ = there => {}
        _ = tokio::io::copy(&mut answers, &mut answers_to) => {}
    }
}

/// Makes a handshake in single bytes, and checks that the listener waits for its time limit and no longer.
async fn ends_late(
    client: &Arc<rustls::ClientConfig>,
    to: impl AsyncRead + AsyncWrite,
    first_at_once: bool,
    begun: Instant,
) {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let connecting = tls::connect(client, Vec::new(), "localhost".try_into().unwrap(), near);
    // With TLS 1.3 the handshake is done for the client once its part is on its way.
    soon(async { tokio::join!(connecting, trickle(far, to, first_at_once)) }).await.0.ok();
    assert!(begun.elapsed() >= SHORT, "nothing else ends it");
}

/// An acceptor whose time limit for hellos ends after any test.
fn acceptor() -> ChannelAcceptor<Gate> {
    let (channels, _) = tokio::sync::mpsc::unbounded_channel();
    let gate = Gate { channel: ChannelOptions::control("server"), group: None, channels };
    ChannelAcceptor::new(gate, AcceptOptions { hello_timeout: 4 * LONG, ..Default::default() })
}

/// Both versions of TLS; with each, the client's first message in single bytes, and what comes after it.
fn cases() -> impl Iterator<Item = (&'static rustls::SupportedProtocolVersion, bool)> {
    let versions = [&rustls::version::TLS12, &rustls::version::TLS13];
    versions.into_iter().flat_map(|version| [(version, false), (version, true)])
}

#[tokio::test]
async fn a_handshake_in_single_bytes_ends_at_the_time_limit() {
    for (version, first_at_once) in cases() {
        let (client, server) = Authority::new().with_versions(&[version]);
        let limits = ListenerLimits { handshake_timeout: SHORT, ..ListenerLimits::default() };
        let listener = SharedListener::bind("127.0.0.1:0", limits).await.unwrap();
        let tls: TlsSource = Arc::new(move || Some(server.clone()));
        let registration = listener.register(&["weft-test"], tls, Arc::new(acceptor())).unwrap();
        let begun = Instant::now();
        let socket = TcpStream::connect(registration.local_addr()).await.unwrap();
        ends_late(&client, socket, first_at_once, begun).await;
    }
}

#[tokio::test]
async fn a_handshake_in_single_bytes_within_a_websocket_ends_at_the_time_limit() {
    for (version, first_at_once) in cases() {
        let authority = Authority::new();
        let (client, server) = authority.with_versions(&[version]);
        let inner: TlsSource = Arc::new(move || Some(server.clone()));
        let options = WebSocketOptions { handshake_timeout: SHORT, ..WebSocketOptions::default() };
        let acceptor = Arc::new(WebSocketAcceptor::new(acceptor(), inner, options));
        let limits = ListenerLimits::default();
        let listener = SharedListener::bind("127.0.0.1:0", limits).await.unwrap();
        let outer = authority.without_clients();
        let registration = listener.register(&["http/1.1"], outer, acceptor).unwrap();
        let begun = Instant::now();
        let outer = authority.raw(registration.local_addr(), &["http/1.1"]);
        let outer = soon(outer).await.unwrap().into();
        let line = soon(crate::websocket::dial(outer, "localhost")).await.unwrap();
        ends_late(&client, line, first_at_once, begun).await;
    }
}
