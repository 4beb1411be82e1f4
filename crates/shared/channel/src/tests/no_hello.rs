//! Peers that keep a connection busy and never say hello.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use weft_wire::hello::Hello;
use weft_wire::{FrameLimits, Message, frame};

use super::support::*;
use crate::handshake::HelloStream;
use crate::tls::{self, Secured};
use crate::{datagram, *};

/// A time limit for hellos that ends within a test.
const SHORT: Duration = Duration::from_millis(300);
/// The pause between two pieces of an endless talk.
const PAUSE: Duration = Duration::from_millis(2);

/// Types of messages that need no hello to be understood: ping, latency, its answer, heartbeat, and the probe of routers
/// before 2.0.
const CHATTER: [i32; 5] = [1, 3, 4, 5, -33];

/// Listeners over every transport, with one time limit for hellos.
struct Everywhere {
    authority: Authority,
    tls: Registration,
    websocket: Registration,
    datagrams: DatagramRegistration,
    /// The channels that a hello opened.
    channels: mpsc::UnboundedReceiver<Established>,
}

impl Everywhere {
    async fn new(hello_timeout: Duration) -> Self {
        let authority = Authority::new();
        let (sender, channels) = mpsc::unbounded_channel();
        let channel = ChannelOptions { heartbeat: None, ..ChannelOptions::control("server") };
        let gate = Gate { channel, group: None, channels: sender };
        let options = AcceptOptions { hello_timeout, ..AcceptOptions::default() };
        let acceptor = ChannelAcceptor::new(gate, options);
        // No peer waits behind another one, and none is closed to make room.
        let limits = ListenerLimits {
            pending: 1,
            pending_per_source: 1,
            grace: 4 * LONG,
            ..ListenerLimits::default()
        };
        let listener = || SharedListener::bind("127.0.0.1:0", ListenerLimits::default());
        let tls = listener().await.unwrap();
        let source = authority.source();
        let tls = tls.register(&["weft-test"], source, Arc::new(acceptor.clone())).unwrap();
        let inner = authority.source();
        let upgrading =
            WebSocketAcceptor::new(acceptor.clone(), inner, WebSocketOptions::default());
        let websocket = listener().await.unwrap();
        let outer = authority.without_clients();
        let websocket = websocket.register(&["http/1.1"], outer, Arc::new(upgrading)).unwrap();
        let settings = authority.dtls();
        let listen = DatagramListen {
            limits,
            settings: Arc::new(move || Some(settings.clone())),
            options: DatagramOptions::default(),
            runtime: None,
        };
        let datagrams = listen_datagrams("127.0.0.1:0", listen, acceptor).await.unwrap();
        Self { authority, tls, websocket, datagrams, channels }
    }

    /// A connection over TLS before its hello.
    async fn over_tls(&self) -> Secured {
        let socket = TcpStream::connect(self.tls.local_addr()).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let client = self.authority.client();
        soon(tls::connect(&client, Vec::new(), name, socket)).await.unwrap().into()
    }

    /// A WebSocket whose inner TLS has not begun.
    async fn line(&self) -> crate::websocket::WebSocketLine {
        let outer = self.authority.raw(self.websocket.local_addr(), &["http/1.1"]);
        soon(crate::websocket::dial(soon(outer).await.unwrap().into(), "localhost")).await.unwrap()
    }

    /// A connection over a WebSocket before its hello.
    async fn over_websocket(&self) -> Secured {
        let name = "localhost".try_into().unwrap();
        let (client, line) = (self.authority.client(), self.line().await);
        soon(tls::connect(&client, Vec::new(), name, line)).await.unwrap().into()
    }

    /// A connection over DTLS before its hello.
    async fn over_datagrams(&self) -> impl HelloStream + use<> {
        let with =
            DatagramDial { settings: self.authority.dtls(), options: DatagramOptions::default() };
        let to = self.datagrams.local_addr();
        let place = ("127.0.0.1", to.port());
        soon(datagram::dial(place, (Asker::Process, None), LONG, &with)).await.unwrap()
    }

    /// Waits until the one place for unknown peers over DTLS is free: a peer that says hello gets it.
    async fn datagrams_have_a_place(&mut self) {
        let mut peer = self.over_datagrams().await;
        peer.write(&Hello::new("polite").to_message()).await.unwrap();
        soon(self.channels.recv()).await.unwrap();
    }
}

/// Waits until the listener has closed, without a word.
async fn is_closed(mut stream: impl HelloStream) {
    let answer = soon(stream.read(FrameLimits::HELLO)).await;
    assert!(answer.is_err(), "{answer:?}");
}

#[tokio::test]
async fn messages_before_the_hello_close_a_connection_at_once() {
    // No time limit closes a connection in this test.
    let mut everywhere = Everywhere::new(4 * LONG).await;
    for content_type in CHATTER {
        let said = Message::new(content_type, "are you there?");
        let mut stream = everywhere.over_tls().await;
        stream.write(&said).await.unwrap();
        is_closed(stream).await;
        let mut stream = everywhere.over_websocket().await;
        stream.write(&said).await.unwrap();
        is_closed(stream).await;
        let mut stream = everywhere.over_datagrams().await;
        stream.write(&said).await.unwrap();
        everywhere.datagrams_have_a_place().await;
    }
    assert!(everywhere.channels.try_recv().is_err(), "none became a channel");
}

#[tokio::test]
async fn a_hello_that_is_announced_too_long_is_not_waited_for() {
    let everywhere = Everywhere::new(4 * LONG).await;
    for (at, length) in [(12, 16_385_u32), (16, 4_193)] {
        let mut head = frame::encode(&Hello::new("").to_message())[..20].to_vec();
        head[at..at + 4].copy_from_slice(&length.to_le_bytes());
        let mut stream = everywhere.over_tls().await;
        stream.write_bytes(&head).await.unwrap();
        is_closed(stream).await;
    }
}

#[tokio::test]
async fn a_hello_in_single_bytes_with_changes_of_keys_ends_at_the_time_limit() {
    let (everywhere, begun) = (Everywhere::new(SHORT).await, Instant::now());
    let socket = TcpStream::connect(everywhere.tls.local_addr()).await.unwrap();
    let connector = TlsConnector::from(everywhere.authority.client());
    let connecting = connector.connect("localhost".try_into().unwrap(), socket);
    let mut stream = soon(connecting).await.unwrap();
    // At this pace the hello would take longer than any part of a test may.
    let pace = 2 * LONG / 4_000;
    let hello = frame::encode(&Hello::new("x".repeat(4_000)).to_message());
    let talking = async {
        for byte in hello {
            stream.get_mut().1.refresh_traffic_keys().unwrap();
            let said = async {
                stream.write_all(&[byte]).await?;
                stream.flush().await
            };
            if said.await.is_err() {
                return;
            }
            let heard = tokio::time::timeout(pace, stream.read_u8()).await;
            if let Ok(heard) = heard {
                return assert!(heard.is_err(), "no word comes back");
            }
        }
    };
    soon(talking).await;
    assert!(begun.elapsed() >= SHORT, "nothing else ends it");
}

#[tokio::test]
async fn pings_of_a_websocket_are_no_hello() {
    let (everywhere, begun) = (Everywhere::new(SHORT).await, Instant::now());
    let connector = TlsConnector::from(everywhere.authority.client());
    let line = everywhere.line().await;
    let mut stream = soon(connector.connect("localhost".try_into().unwrap(), line)).await.unwrap();
    // A ping without data, masked with zeros.
    let ping = [0x89, 0x80, 0, 0, 0, 0];
    let talking = async {
        loop {
            let said = stream.get_mut().0.send_raw(&ping);
            let mut buffer = [0; 64];
            let reading = tokio::time::timeout(PAUSE, stream.read(&mut buffer)).await;
            if said.is_err() || reading.is_ok() {
                return;
            }
        }
    };
    soon(talking).await;
    assert!(begun.elapsed() >= SHORT, "nothing else ends it");
}

#[tokio::test]
async fn datagrams_without_frames_are_no_hello() {
    let (mut everywhere, begun) = (Everywhere::new(SHORT).await, Instant::now());
    let mut stream = everywhere.over_datagrams().await;
    let talking = async {
        loop {
            stream.write_bytes(&[1; 30]).await.unwrap();
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = talking => {}
        () = everywhere.datagrams_have_a_place() => {}
    }
    assert!(begun.elapsed() >= SHORT, "nothing else ends it");
}
