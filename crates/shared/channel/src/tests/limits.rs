//! The limits of peers.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use weft_wire::hello::Hello;
use weft_wire::{FrameError, FrameLimits, frame};

use super::support::*;
use crate::pump::{Received, TlsPump};
use crate::{tls, *};

mod strangers;

const QUICK: Duration = Duration::from_millis(300);

async fn server(accept: AcceptOptions, limits: ListenerLimits) -> Server {
    let channel = ChannelOptions { heartbeat: None, ..ChannelOptions::control("server") };
    Server::with(channel, None, accept, limits).await
}

/// Reads until the peer has closed, however it did.
async fn closed_by_peer<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> Vec<u8> {
    let mut seen = Vec::new();
    let _ = soon(stream.read_to_end(&mut seen)).await;
    seen
}

#[tokio::test]
async fn half_open_tls_and_slow_hellos_are_cut() {
    let limits = ListenerLimits { handshake_timeout: QUICK, ..ListenerLimits::default() };
    let impatient = server(AcceptOptions::default(), limits).await;
    let mut socket = TcpStream::connect(impatient.addr()).await.unwrap();
    assert!(closed_by_peer(&mut socket).await.is_empty());

    // This limit may end before a handshake does.
    let accept = AcceptOptions { hello_timeout: QUICK, ..AcceptOptions::default() };
    let server = server(accept, ListenerLimits::default()).await;
    let mut stream = server.authority.raw(server.addr(), &[]).await.unwrap();
    // The listener may have closed the connection already.
    let _ = stream.write_all(&frame::MAGIC).await;
    assert!(closed_by_peer(&mut stream).await.is_empty());
    let slow = soon(dial(server.dial_options("slow"))).await.unwrap_err();
    assert!(matches!(slow, DialError::Hello { .. }), "{slow}");
}

#[tokio::test]
async fn malformed_hellos_are_closed_without_answer() {
    let server = Server::new(None).await;
    let mut other = Hello::new("x").to_message();
    other.content_type = 1;
    let mut broken = frame::encode(&Hello::new("x").to_message());
    broken[12] = 3;
    broken.extend_from_slice(&[0; 3]);
    let long = frame::encode(&Hello::new("x".repeat(4193)).to_message());
    for bytes in [frame::encode(&other), broken, long] {
        let mut stream = server.authority.raw(server.addr(), &[]).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        assert!(closed_by_peer(&mut stream).await.is_empty());
    }
}

#[tokio::test]
async fn a_malformed_frame_closes_its_connection_and_no_other() {
    let mut server = Server::new(None).await;
    let (dialer, _, _, mut inbox) = server.pair().await;
    let mut stream = server.authority.raw(server.addr(), &[]).await.unwrap();
    let mut bytes = frame::encode(&Hello::new("raw").to_message());
    bytes.extend_from_slice(&frame::encode(&message(1, "fine")));
    bytes.extend_from_slice(b"GET / HTTP/1.1\r\n");
    stream.write_all(&bytes).await.unwrap();
    let (behaviour, mut raw_inbox) = crate::inbox(InboxLimits::default());
    let raw = server.next().await.start(behaviour);
    let reason = soon(raw.closed()).await;
    assert!(
        matches!(reason, CloseReason::Frame(FrameError::Magic { found }) if &found == b"GET "),
        "{reason}"
    );
    assert_eq!(soon(raw_inbox.recv()).await.unwrap().text(), "fine");
    dialer.send(message(1, "still here")).await.unwrap();
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "still here");
}

#[tokio::test]
async fn frames_over_the_limit_close_the_connection_and_are_not_sent() {
    let limits = FrameLimits::new(100, 1000);
    let channel = ChannelOptions {
        heartbeat: None,
        frames: limits,
        sends: limits,
        ..ChannelOptions::control("server")
    };
    let mut server =
        Server::with(channel, None, AcceptOptions::default(), ListenerLimits::default()).await;
    let (dialer, _, listener, _) = server.pair().await;
    let large = message(1, &"x".repeat(1001));
    assert!(matches!(
        listener.try_send(large.clone()),
        Err(SendError::TooLarge { length: 1001, limit: 1000 })
    ));
    dialer.send(large).await.unwrap();
    let reason = soon(listener.closed()).await;
    assert!(matches!(reason, CloseReason::Frame(FrameError::BodyTooLong { .. })), "{reason}");
}

#[tokio::test]
async fn a_reader_that_stops_makes_senders_wait() {
    let mut server = Server::new(None).await;
    let mut options = server.dial_options("dialer");
    options.channel.lanes = LaneLimits { messages: 8, bytes: 1 << 20 };
    let (ours, _our_inbox) = inbox(InboxLimits::default());
    let dialer = soon(dial(options)).await.unwrap().start(ours);
    let (theirs, mut their_inbox) = inbox(InboxLimits { messages: 4, bytes: 1 << 20 });
    let _listener = server.next().await.start(theirs);
    let body = "x".repeat(256 * 1024);
    let mut sent = 0;
    // All queues on the way fill up: inbox, TLS, both sockets, batch, lane.
    loop {
        let timeout = Duration::from_secs(2);
        match dialer.send_timeout(Lane::Default, message(1000 + sent, &body), timeout).await {
            Ok(()) => sent += 1,
            Err(SendError::Timeout) => break,
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 400, "100 MiB were taken without a reader");
    }
    assert!(matches!(dialer.try_send(message(0, &body)), Err(SendError::Full)));
    for number in 0..sent {
        assert_eq!(soon(their_inbox.recv()).await.unwrap().content_type, 1000 + number);
    }
    dialer.send(message(1, "open again")).await.unwrap();
    assert_eq!(soon(their_inbox.recv()).await.unwrap().text(), "open again");
}

#[tokio::test]
async fn a_peer_that_takes_nothing_is_cut_by_the_write_timeout() {
    let mut server = Server::new(None).await;
    let mut options = server.dial_options("dialer");
    options.channel.write_timeout = Some(Duration::from_millis(50));
    let (ours, _our_inbox) = inbox(InboxLimits::default());
    let dialer = soon(dial(options)).await.unwrap().start(ours);
    let _never_started = server.next().await;
    let body = "x".repeat(1 << 20);
    while dialer.send(message(1, &body)).await.is_ok() {}
    assert!(matches!(soon(dialer.closed()).await, CloseReason::WriteTimeout));
}

#[tokio::test]
async fn protocols_share_a_socket_by_alpn() {
    let listeners = Listeners::new();
    let authority = Authority::new();
    struct Greeter(&'static str);
    impl ConnectionHandler for Greeter {
        fn handle(&self, mut connection: Accepted) -> futures::future::BoxFuture<'static, ()> {
            let greeting = format!("{}:{}", self.0, connection.protocol);
            Box::pin(async move {
                let _ = connection.stream.write_all(greeting.as_bytes()).await;
                let _ = connection.stream.shutdown().await;
            })
        }
    }
    let limits = ListenerLimits::default();
    let bind = "127.0.0.1:0";
    let web = Arc::new(Greeter("web"));
    let control = Arc::new(Greeter("control"));
    let web = listeners
        .listen(bind, limits, &["h2", "http/1.1", ""], authority.source(), web)
        .await
        .unwrap();
    let taken =
        listeners.listen(bind, limits, &["x", ""], authority.source(), control.clone()).await;
    assert!(
        matches!(&taken, Err(RegisterError::Taken { protocol, .. }) if protocol.is_empty()),
        "{taken:?}"
    );
    let control =
        listeners.listen(bind, limits, &["ziti-ctrl"], authority.source(), control).await.unwrap();
    assert_eq!(web.local_addr(), control.local_addr());
    let greeting = async |alpn: &'static [&'static str]| {
        let mut stream = authority.raw(web.local_addr(), alpn).await.ok()?;
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        let text = String::from_utf8(closed_by_peer(&mut stream).await).unwrap();
        Some((text, agreed.map(|name| String::from_utf8(name).unwrap())))
    };
    let agreed = |text: &str, name: &str| Some((text.to_owned(), Some(name.to_owned())));
    assert_eq!(greeting(&["ziti-ctrl"]).await, agreed("control:ziti-ctrl", "ziti-ctrl"));
    assert_eq!(greeting(&["h2", "http/1.1"]).await, agreed("web:http/1.1", "http/1.1"));
    assert_eq!(greeting(&["h2", "spdy"]).await, agreed("web:h2", "h2"));
    assert_eq!(greeting(&[]).await, Some(("web:".to_owned(), None)));
    assert_eq!(greeting(&["nothing"]).await, None);
    drop(control);
    assert_eq!(greeting(&["ziti-ctrl"]).await, None);
    let addr = web.local_addr();
    drop(web);
    soon(async { while TcpStream::connect(addr).await.is_ok() {} }).await;
}

#[tokio::test]
async fn a_socket_with_nothing_to_read_gets_no_buffer_back() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    let authority = Authority::new();
    let server = authority.server();
    let accepting = tokio::spawn(async move { tls::accept(&server, far, Vec::new()).await });
    let name = "localhost".try_into().unwrap();
    let shaken = tls::connect(&authority.client(), Vec::new(), name, near).await.unwrap();
    let mut far = accepting.await.unwrap().unwrap().stream;
    let mut pump = TlsPump::new(shaken.stream, shaken.session, shaken.sealed);
    // The server's tickets.
    pump.ready(Interest::READABLE).await.unwrap();
    while pump.receive().unwrap() != Received::Blocked {
        while pump.has_input() {
            pump.decrypt().unwrap();
        }
    }
    far.write_all(&[22]).await.unwrap();
    pump.ready(Interest::READABLE).await.unwrap();
    assert_eq!(pump.receive().unwrap(), Received::Bytes(1));
    assert!(!pump.has_input());
    assert!(!pump.give_back(tokio::time::Instant::now()), "it was just used");
    let idle_at = pump.idle_at().unwrap();
    assert!(pump.give_back(idle_at));
    assert_eq!(pump.receive().unwrap(), Received::Blocked);
    assert_eq!(pump.idle_at(), None, "or the connection would wake up again at once, for ever");
}

#[tokio::test]
async fn what_waits_ends_with_a_channel_that_has_no_connection() {
    let server = Server::new(None).await;
    let established = soon(dial(server.dial_options("dialer"))).await.unwrap();
    let handle = established.handle();
    let mut asking = Box::pin(handle.request(message(7, "hello"), 100 * LONG));
    tokio::select! {
        biased;
        early = &mut asking => panic!("{early:?}"),
        () = std::future::ready(()) => {}
    }
    drop(established);
    assert!(matches!(soon(asking).await, Err(RequestError::Closed(_))));
}

/// A gate that admits peers before they are judged. Without a sender it refuses every certificate.
struct Screen(Option<tokio::sync::mpsc::UnboundedSender<Established>>);

impl HelloGate for Screen {
    fn screen(
        &self,
        certificates: &[rustls_pki_types::CertificateDer<'static>],
    ) -> Result<(), Refusal> {
        assert_eq!(certificates.len(), 1);
        self.0.as_ref().map(|_| ()).ok_or_else(|| Refusal::close("nobody has this certificate"))
    }

    async fn check(&self, _: &PeerHello) -> Result<Admission, Refusal> {
        let channel = ChannelOptions {
            heartbeat: None,
            unjudged: Some(FrameLimits::UNJUDGED),
            ..ChannelOptions::control("server")
        };
        let (identity, headers) = (Vec::new(), weft_wire::Headers::new());
        Ok(Admission { listener_id: "x".into(), identity, headers, channel, group: None })
    }

    async fn established(&self, channel: Established) {
        let _ = self.0.as_ref().unwrap().send(channel);
    }
}

async fn screened(
    channels: Option<tokio::sync::mpsc::UnboundedSender<Established>>,
) -> (Authority, Registration) {
    let authority = Authority::new();
    let listener = SharedListener::bind("127.0.0.1:0", ListenerLimits::default()).await.unwrap();
    // The listener waits long for a hello.
    let accept = AcceptOptions { hello_timeout: 2 * LONG, ..AcceptOptions::default() };
    let acceptor = Arc::new(ChannelAcceptor::new(Screen(channels), accept));
    let registration = listener.register(&["weft-test"], authority.source(), acceptor).unwrap();
    (authority, registration)
}

#[tokio::test]
async fn a_certificate_that_nobody_has_is_cut_before_any_hello() {
    let (authority, registration) = screened(None).await;
    let mut stream = authority.raw(registration.local_addr(), &[]).await.unwrap();
    assert!(closed_by_peer(&mut stream).await.is_empty());
}

#[tokio::test]
async fn a_peer_sends_small_messages_until_it_is_judged() {
    let (channels, mut admitted) = tokio::sync::mpsc::unbounded_channel();
    let (authority, registration) = screened(Some(channels)).await;
    let at = registration.local_addr();
    let (small, large) = ("x".repeat(32 * 1024), "x".repeat(1024 * 1024));
    for is_judged in [false, true] {
        let (ours, _our_inbox) = inbox(InboxLimits::default());
        let dialer = soon(dial(authority.dial_options(at, "dialer"))).await.unwrap().start(ours);
        let (theirs, mut their_inbox) = inbox(InboxLimits::default());
        let listener = soon(admitted.recv()).await.unwrap().start(theirs);
        dialer.send(message(1, &small)).await.unwrap();
        assert_eq!(soon(their_inbox.recv()).await.unwrap().body.len(), small.len());
        if is_judged {
            listener.judged();
        }
        dialer.send(message(2, &large)).await.unwrap();
        let got = soon(their_inbox.recv()).await;
        assert_eq!(got.map(|message| message.body.len()), is_judged.then_some(large.len()));
        let reason = listener.closed_because();
        let is_refused = matches!(reason, Some(CloseReason::Frame(FrameError::BodyTooLong { .. })));
        assert_eq!(is_refused, !is_judged);
    }
}

#[tokio::test]
async fn messages_that_never_end_share_one_budget_and_make_room() {
    const PART: usize = 3 << 20;
    let memory = FrameMemory::new(8 << 20);
    let channel = ChannelOptions {
        heartbeat: None,
        frame_memory: Some(memory.clone()),
        ..ChannelOptions::control("server")
    };
    let (accept, limits) = (AcceptOptions::default(), ListenerLimits::default());
    let mut server = Server::with(channel, None, accept, limits).await;
    // Each client announces a message of 60 MiB and sends its beginning.
    let mut begun = frame::encode(&Hello::new("raw").to_message());
    let head_at = begun.len();
    begun.extend_from_slice(&frame::encode(&message(1, "")));
    begun[head_at + 16..head_at + 20].copy_from_slice(&(60_u32 << 20).to_le_bytes());
    begun.resize(begun.len() + PART, b'x');
    let mut raw = Vec::new();
    for _ in 0..6 {
        let mut stream = server.authority.raw(server.addr(), &[]).await.unwrap();
        stream.write_all(&begun[..head_at]).await.unwrap();
        let (behaviour, inbox) = crate::inbox(InboxLimits::default());
        let channel = server.next().await.start(behaviour);
        // The connections that had to make room are closed.
        let _ = soon(stream.write_all(&begun[head_at..])).await;
        let _ = stream.flush().await;
        raw.push((stream, channel, inbox));
    }
    let makes_room = |reason| matches!(reason, Some(CloseReason::FrameMemory));
    until(|| raw.iter().any(|(_, channel, _)| makes_room(channel.closed_because()))).await;
    until(|| memory.used() <= 8 << 20).await;
    // The large message of another client arrives as a whole.
    let (dialer, _, _, mut inbox) = server.pair().await;
    dialer.send(message(7, &"y".repeat(PART))).await.unwrap();
    assert_eq!(soon(inbox.recv()).await.unwrap().body.len(), PART);
    drop(raw);
    until(|| memory.used() == 0).await;
}

#[tokio::test]
async fn every_form_of_an_address_is_listened_on() {
    for (bind, dialed) in [
        (":0", &["127.0.0.1", "::1"][..]),
        ("[::]:0", &["127.0.0.1", "::1"]),
        ("0.0.0.0:0", &["127.0.0.1"]),
        ("[::1]:0", &["::1"]),
        ("[::ffff:127.0.0.1]:0", &["127.0.0.1"]),
    ] {
        let listener = SharedListener::bind(bind, ListenerLimits::default()).await.unwrap();
        let port = listener.local_addr().port();
        for ip in dialed {
            let ip: std::net::IpAddr = ip.parse().unwrap();
            let connected = tokio::net::TcpStream::connect((ip, port)).await;
            assert!(connected.is_ok(), "{bind} from {ip}");
        }
    }
}
