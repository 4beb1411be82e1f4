//! Channels over WebSockets, and listeners for them under attack.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::client::TlsStream;
use weft_wire::hello::Hello;
use weft_wire::{FrameLimits, Message, Scheme};

use super::plain;
use super::support::*;
use crate::websocket::WebSocketLine;
use crate::*;

const GET: &str = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\n\
    Upgrade: websocket\r\nOrigin: https://anywhere.example\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Extensions: permessage-deflate\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

async fn server(options: WebSocketOptions, limits: ListenerLimits) -> Server {
    let channel = ChannelOptions { heartbeat: None, ..ChannelOptions::control("server") };
    server_of(channel, options, limits).await
}

async fn server_of(
    channel: ChannelOptions,
    options: WebSocketOptions,
    limits: ListenerLimits,
) -> Server {
    let authority = Authority::new();
    let (sender, channels) = mpsc::unbounded_channel();
    let gate = Gate { channel, group: None, channels: sender };
    let acceptor = ChannelAcceptor::new(gate, AcceptOptions::default());
    let inner = authority.source();
    let acceptor = Arc::new(WebSocketAcceptor::new(acceptor, inner, options));
    let listener = SharedListener::bind("127.0.0.1:0", limits).await.unwrap();
    let outer = authority.without_clients();
    let registration = listener.register(&["http/1.1"], outer, acceptor).unwrap();
    Server { authority, registration, channels }
}

async fn usual() -> Server {
    server(WebSocketOptions::default(), ListenerLimits::default()).await
}

fn options(server: &Server) -> DialOptions {
    let mut options = server.dial_options("browser");
    options.address.scheme = Scheme::Wss;
    options
}

/// A connection with the outer TLS only.
async fn outer(server: &Server) -> TlsStream<TcpStream> {
    soon(server.authority.raw(server.addr(), &["h2", "http/1.1"])).await.unwrap()
}

/// A WebSocket whose inner TLS has not begun.
async fn opened(server: &Server) -> TlsStream<TcpStream> {
    let mut stream = outer(server).await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(soon(stream.read_u8()).await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    // The key of RFC 6455, section 1.3.
    assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
    assert!(!head.contains("extensions"), "what is encrypted is not compressed: {head}");
    stream
}

/// A frame of a client, masked with zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        short @ 0..=125 => out.push(0x80 | short as u8),
        middle @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
    out
}

/// The next frame of the server: its type and its payload.
async fn next(stream: &mut TlsStream<TcpStream>) -> Option<(u8, Vec<u8>)> {
    let reading = async {
        let first = stream.read_u8().await.ok()?;
        let length = stream.read_u8().await.ok()?;
        assert!(length < 126, "only short frames are expected");
        let mut payload = vec![0; usize::from(length)];
        stream.read_exact(&mut payload).await.ok()?;
        Some((first & 0x0f, payload))
    };
    soon(reading).await
}

/// The code with which the server closes a connection that has sent these bytes.
async fn closed_for(server: &Server, said: &[u8]) -> u16 {
    let mut stream = opened(server).await;
    stream.write_all(said).await.unwrap();
    let (kind, payload) = next(&mut stream).await.unwrap();
    assert_eq!(kind, CLOSE);
    let rest = soon(stream.read(&mut [0; 16])).await;
    assert!(matches!(rest, Ok(0) | Err(_)), "and closes");
    u16::from_be_bytes([payload[0], payload[1]])
}

#[tokio::test]
async fn messages_of_every_size_go_both_ways() {
    let mut server = usual().await;
    let options = options(&server);
    let (dialer, mut dialed, listener, mut accepted) = server.pair_of(options).await;
    assert_eq!(dialer.peer().id.as_deref(), Some("listener"));
    assert_eq!(listener.peer().id.as_deref(), Some("browser"));
    assert_eq!(listener.peer().certificates.len(), 1);
    assert_eq!(listener.peer().remote, dialer.peer().local);
    let body =
        |length: usize| -> Vec<u8> { (0..length).map(|at| (at * 7 + length) as u8).collect() };
    let lengths = [0, 1, 125, 126, 16_384, 65_535, 65_536, 5_000_000, 3, 100_000];
    let send = async |from: &ChannelHandle| {
        for length in lengths {
            from.send(Message::new(1, body(length))).await.unwrap();
        }
    };
    let hear = async |inbox: &mut Inbox| {
        for length in lengths {
            assert_eq!(soon(inbox.recv()).await.unwrap().body, body(length));
        }
    };
    tokio::join!(send(&dialer), send(&listener), hear(&mut accepted), hear(&mut dialed));
    dialer.close("done");
    soon(listener.closed()).await;
}

#[tokio::test]
async fn the_client_is_asked_whether_it_is_there() {
    let (interval, patience) = (Duration::from_secs(1), Duration::from_secs(10));
    let options_of_server =
        WebSocketOptions { ping_interval: interval, pong_timeout: patience, ..Default::default() };
    let mut server = server(options_of_server, ListenerLimits::default()).await;
    let (dialer, mut inbox_of_dialer, listener, mut heard) = server.pair_of(options(&server)).await;
    for _ in 0..20 {
        later(interval).await;
        // The dialer that reads this message has read the ping before it, and answers the ping.
        listener.send(message(7, "behind the ping")).await.unwrap();
        soon(inbox_of_dialer.recv()).await.unwrap();
    }
    assert!(!listener.is_closed() && !dialer.is_closed(), "it answers");
    dialer.send(message(7, "still there")).await.unwrap();
    assert_eq!(soon(heard.recv()).await.unwrap().text(), "still there");
    // A client that never reads does not answer pings.
    let silent = soon(dial(options(&server))).await.unwrap();
    let (behaviour, _inbox) = inbox(InboxLimits::default());
    let listener = server.next().await.start(behaviour);
    later(patience / 2).await;
    assert!(!listener.is_closed(), "there is time left");
    later(patience).await;
    let reason = soon(listener.closed()).await;
    assert!(reason.to_string().contains("no pong"), "{reason}");
    drop(silent);
}

#[tokio::test]
async fn frames_that_break_the_rules_are_named() {
    let server = usual().await;
    let large = vec![7; 64 * 1024 + 1];
    // The head of a frame that is too large is enough.
    let head = frame(0x80 | BINARY, &large)[..14].to_vec();
    assert_eq!(closed_for(&server, &head).await, 1009);
    let half = vec![7; 40_000];
    let fragments = [frame(BINARY, &half), frame(0, &half)].concat();
    assert_eq!(closed_for(&server, &fragments).await, 1009);
    assert_eq!(closed_for(&server, &frame(0x81, b"text")).await, 1003);
    assert_eq!(closed_for(&server, &frame(0x81, b"\xff\xfe")).await, 1003);
    for wrong in [
        &[0x80 | BINARY, 3, 1, 2, 3][..],
        &frame(0xc0 | BINARY, b"reserved bit"),
        &frame(0x83, b"no such kind"),
        &frame(0x80, b"nothing to continue"),
        &[frame(BINARY, b"a"), frame(0x80 | BINARY, b"b")].concat(),
        &frame(PING, b"in fragments"),
        &frame(0x80 | PING, &[7; 126]),
    ] {
        assert_eq!(closed_for(&server, wrong).await, 1002, "{:?}", &wrong[..2]);
    }
}

#[tokio::test]
async fn pings_and_closes_are_answered() {
    let server = usual().await;
    let mut stream = opened(&server).await;
    for said in ["one", "two"] {
        stream.write_all(&frame(0x80 | PING, said.as_bytes())).await.unwrap();
        assert_eq!(next(&mut stream).await, Some((PONG, said.as_bytes().to_vec())));
    }
    stream.write_all(&frame(0x80 | CLOSE, &1001_u16.to_be_bytes())).await.unwrap();
    assert_eq!(next(&mut stream).await, Some((CLOSE, 1001_u16.to_be_bytes().to_vec())));
    assert_eq!(next(&mut stream).await, None);
}

#[tokio::test]
async fn a_handshake_in_single_bytes_and_fragments_comes_through() {
    // The inner TLS of this client goes through a proxy that cuts its messages.
    let mut server = usual().await;
    let through = TcpCutter::to(server.addr()).await;
    let mut options = options(&server);
    options.address.port = through;
    let (dialer, _inbox, _listener, mut heard) = server.pair_of(options).await;
    dialer.send(message(7, &"x".repeat(100_000))).await.unwrap();
    assert_eq!(soon(heard.recv()).await.unwrap().text().len(), 100_000);
}

/// A proxy that passes the first bytes on one by one, so that no message arrives as a whole.
struct TcpCutter;

impl TcpCutter {
    async fn to(target: std::net::SocketAddr) -> u16 {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (near, _) = listener.accept().await.unwrap();
            let far = TcpStream::connect(target).await.unwrap();
            near.set_nodelay(true).unwrap();
            far.set_nodelay(true).unwrap();
            let (near, far) = (near.into_split(), far.into_split());
            let pass = async |mut from: tokio::net::tcp::OwnedReadHalf,
                              mut to: tokio::net::tcp::OwnedWriteHalf| {
                let mut buffer = [0; 4096];
                let mut passed = 0;
                loop {
                    let size = if passed < 8_000 { 1 + passed % 7 } else { buffer.len() };
                    let Ok(count @ 1..) = from.read(&mut buffer[..size]).await else { break };
                    if to.write_all(&buffer[..count]).await.is_err() {
                        break;
                    }
                    passed += count;
                }
            };
            tokio::join!(pass(near.0, far.1), pass(far.0, near.1));
        });
        port
    }
}

#[tokio::test]
async fn other_requests_get_an_answer_of_http() {
    let server = usual().await;
    let long = format!("GET /ws HTTP/1.1\r\nX: {}", "x".repeat(20_000));
    for (said, status) in [
        (GET.replace("/ws", "/other"), 404),
        (GET.replace("GET", "POST"), 400),
        (GET.replace("Upgrade: websocket\r\n", ""), 400),
        (GET.replace(": 13", ": 8"), 400),
        (GET.replace("dGhlIHNhbXBsZSBub25jZQ==", "short"), 400),
        ("GET /ws HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400),
        ("nonsense\r\n\r\n".to_owned(), 400),
        (long, 400),
    ] {
        let mut stream = outer(&server).await;
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // The unread rest of a long head resets the connection.
        let _ = soon(stream.read_to_end(&mut answer)).await;
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{said:?}: {answer}");
    }
    // A client that offers HTTP/2 only is refused.
    assert!(server.authority.raw(server.addr(), &["h2"]).await.is_err());
}

#[tokio::test]
async fn who_says_nothing_is_closed_at_every_step() {
    let short = Duration::from_millis(100);
    let options =
        WebSocketOptions { read_timeout: short, handshake_timeout: short, ..Default::default() };
    let server = server(options, ListenerLimits::default()).await;
    let mut silent = [outer(&server).await, opened(&server).await];
    for stream in &mut silent {
        let read = soon(stream.read(&mut [0; 16])).await;
        assert!(matches!(read, Ok(0) | Err(_)));
    }
}

#[tokio::test]
async fn silent_websockets_make_room_for_others() {
    let limits = ListenerLimits {
        pending: 4,
        pending_per_source: 4,
        grace: Duration::ZERO,
        ..ListenerLimits::default()
    };
    let mut server = server(WebSocketOptions::default(), limits).await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(opened(&server).await);
    }
    let options = options(&server);
    let (dialer, _inbox, _listener, _heard) = server.pair_of(options).await;
    assert!(!dialer.is_closed());
}

/// A WebSocket of a browser whose hello was answered.
async fn admitted(server: &Server) -> WebSocketLine {
    let stream = tokio_rustls::TlsStream::from(outer(server).await);
    let line = soon(crate::websocket::dial(stream, "localhost")).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let connector = tokio_rustls::TlsConnector::from(server.authority.client());
    let mut stream = soon(connector.connect(name, line)).await.unwrap();
    let hello = Hello::new("browser").to_message();
    soon(plain::write_message(&mut stream, &hello)).await.unwrap();
    soon(plain::read_message(&mut stream, FrameLimits::HELLO)).await.unwrap();
    stream.into_inner().0
}

#[tokio::test]
async fn messages_are_small_until_the_session_is_judged() {
    let channel = ChannelOptions {
        heartbeat: None,
        unjudged: Some(FrameLimits::UNJUDGED),
        ..ChannelOptions::control("server")
    };
    let limits = ListenerLimits::default();
    let mut server = server_of(channel, WebSocketOptions::default(), limits).await;
    // The heads of a message of 100,000 bytes, and of one that is too large.
    let [middle, large] =
        [100_000, 300_000].map(|length| frame(0x80 | BINARY, &vec![7; length])[..14].to_vec());
    for (is_judged, head, limit) in
        [(false, &middle, Some(65_536)), (true, &middle, None), (true, &large, Some(262_144))]
    {
        let mut browser = admitted(&server).await;
        let (behaviour, _inbox) = inbox(InboxLimits::default());
        let listener = server.next().await.start(behaviour);
        if is_judged {
            listener.judged();
        }
        browser.send_raw(head).unwrap();
        match limit {
            Some(limit) => {
                let reason = soon(listener.closed()).await.to_string();
                assert!(reason.contains(&format!("more than {limit} bytes")), "{reason}");
            }
            None => {
                let waited = tokio::time::timeout(Duration::from_millis(300), listener.closed());
                assert!(waited.await.is_err(), "{:?}", listener.closed_because());
            }
        }
    }
}

#[tokio::test]
async fn what_is_held_of_messages_that_are_not_whole_is_counted() {
    let memory = FrameMemory::new(8 << 20);
    let channel = ChannelOptions {
        heartbeat: None,
        frame_memory: Some(memory.clone()),
        ..ChannelOptions::control("server")
    };
    let limits = ListenerLimits::default();
    let mut server = server_of(channel, WebSocketOptions::default(), limits).await;
    let mut browser = admitted(&server).await;
    let (behaviour, _inbox) = inbox(InboxLimits::default());
    let listener = server.next().await.start(behaviour);
    // A fragment, and the first half of the next one.
    let fragment = vec![7; 60_000];
    browser.send_raw(&frame(BINARY, &fragment)).unwrap();
    until(|| memory.used() >= 60_000).await;
    // A ping between fragments frees no memory.
    browser.send_raw(&frame(0x80 | PING, b"there?")).unwrap();
    let begun = frame(0x80, &fragment);
    browser.send_raw(&begun[..30_000]).unwrap();
    until(|| memory.used() >= 89_900).await;
    assert!(memory.used() < 91_000);
    browser.send_raw(&begun[30_000..]).unwrap();
    // The whole message is not TLS.
    soon(listener.closed()).await;
    drop(browser);
    until(|| memory.used() == 0).await;
}

#[tokio::test]
async fn a_browser_that_sends_much_is_not_counted_as_holding_it() {
    let memory = FrameMemory::new(8 << 20);
    let channel = ChannelOptions {
        heartbeat: None,
        frame_memory: Some(memory.clone()),
        ..ChannelOptions::control("server")
    };
    let limits = ListenerLimits::default();
    let mut server = server_of(channel, WebSocketOptions::default(), limits).await;
    let (dialer, _inbox, _listener, mut heard) = server.pair_of(options(&server)).await;
    for _ in 0..300 {
        dialer.send(message(7, &"x".repeat(50_000))).await.unwrap();
        assert_eq!(soon(heard.recv()).await.unwrap().body.len(), 50_000);
    }
    dialer.send(message(7, "x")).await.unwrap();
    soon(heard.recv()).await.unwrap();
    until(|| memory.used() == 0).await;
}
