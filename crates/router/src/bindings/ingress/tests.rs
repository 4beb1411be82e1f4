//! Listeners before a controller that is made of a table, and applications on loopback.

mod bed;
mod conversations;
#[cfg(unix)]
mod local;
mod proving;
mod sources;

use std::sync::atomic::Ordering;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use weft_identity::tls::{ClientAuth, ClientTls, ServerTls, client_config, server_config};

use self::bed::*;
use super::*;
use crate::tests::support::Pki;

#[tokio::test]
async fn a_proxy_leads_to_its_service_plain_and_encrypted() {
    let bed = Bed::new();
    let echo = echo().await;
    let data: Vec<u8> = (0..1_000_000_u32).map(|number| (number / 7) as u8).collect();
    for (name, binding) in [("plain", "transport"), ("secret", "edge_transport")] {
        bed.service(name, binding, echo.clone());
        let bound = bed.streams(Some(name)).await;
        assert!(soon(ask(bound, &data)).await == data, "{name}");
        let addresses = Addresses { local: None, remote: Some(bound) };
        let ingress = bed.ingress(None);
        let turn = ingress.turn(bound.ip()).await.unwrap();
        let opened = ingress.open(&turn, String::new(), name.into(), addresses, false).await;
        let opened = opened.unwrap();
        assert_eq!(opened.crypto.is_some(), binding == "edge_transport");
        opened.end.abort();
    }
    bed.empty().await;
}

#[tokio::test]
async fn tls_is_spoken_at_listeners_and_to_applications() {
    let bed = Bed::new();
    let identity = Pki::new().identity("router");
    let client = Arc::new(client_config(&ClientTls::of_identity(&identity, &[])).unwrap());
    let server = ServerTls { alpn: &[], client_auth: ClientAuth::None };
    let server = Arc::new(server_config(&identity, &server).unwrap());
    let application = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = application.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(server.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = application.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut got = Vec::new();
            stream.read_to_end(&mut got).await.unwrap();
            stream.write_all(&got).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    bed.service("app", "transport", format!("tls:localhost:{port}"));
    bed.service("stranger", "transport", format!("tls:127.0.0.1:{port}"));
    let connector = TlsConnector::from(client.clone());
    let ask = async |service: &str| {
        let bound = bed.tls_streams(Some(service), Some(server.clone())).await;
        let stream = TcpStream::connect(bound).await.unwrap();
        let mut stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
        let said = vec![7; 300_000];
        stream.write_all(&said).await?;
        // Its direction ends, and it still reads.
        stream.shutdown().await?;
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await?;
        Ok::<_, io::Error>(got == said)
    };
    // Without settings, and with a certificate for another name, there is no circuit.
    assert!(!soon(ask("app")).await.unwrap_or(false));
    *bed.table.tls.lock() = Some(client.clone());
    assert!(!soon(ask("stranger")).await.unwrap_or(false));
    assert!(soon(ask("app")).await.unwrap());
    bed.empty().await;
}

#[tokio::test]
async fn conversations_go_on_while_a_router_drains_and_none_begin() {
    let bed = Bed::new();
    bed.service("echo", "transport_udp", udp_echo().await);
    let bound = bed.datagrams(Some("echo"), DatagramLimits::default()).await;
    let (known, new) = (talker().await, talker().await);
    known.send_to(b"before", bound).await.unwrap();
    assert_eq!(hear(&known).await, b"before");
    bed.draining.cancel();
    new.send_to(b"too late", bound).await.unwrap();
    for _ in 0..5 {
        known.send_to(b"after", bound).await.unwrap();
        assert_eq!(hear(&known).await, b"after");
    }
    assert_eq!(bed.table.asked.load(Ordering::Relaxed), 1, "one circuit");
}

#[tokio::test]
async fn tls_that_ends_without_a_goodbye_has_ended_after_what_it_said() {
    const ANSWER: usize = 1_000_000;
    let bed = Bed::new();
    let identity = Pki::new().identity("router");
    let client = Arc::new(client_config(&ClientTls::of_identity(&identity, &[])).unwrap());
    let server = ServerTls { alpn: &[], client_auth: ClientAuth::None };
    let mut server = server_config(&identity, &server).unwrap();
    // Data that a client leaves unread would make its end a reset.
    server.send_tls13_tickets = 0;
    let server = Arc::new(server);
    *bed.table.tls.lock() = Some(client.clone());

    let application = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = application.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(server.clone());
    let answering = tokio::spawn(async move {
        let (stream, _) = application.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let mut asked = [0; 5];
        stream.read_exact(&mut asked).await.unwrap();
        stream.write_all(&vec![7; ANSWER]).await.unwrap();
        stream.flush().await.unwrap();
        // TCP ends without the closing message of TLS; data of the client is still delivered.
        stream.get_mut().0.shutdown().await.unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        heard
    });
    bed.service("app", "transport", format!("tls:localhost:{port}"));
    let bound = bed.streams(Some("app")).await;
    let mut stream = TcpStream::connect(bound).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    let mut got = Vec::new();
    soon(stream.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got.len(), ANSWER);
    stream.write_all(b"and to you").await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(soon(answering).await.unwrap(), "and to you");
    drop(stream);

    let application = TcpListener::bind("127.0.0.1:0").await.unwrap();
    bed.service("sink", "transport", format!("tcp:{}", application.local_addr().unwrap()));
    let bound = bed.tls_streams(Some("sink"), Some(server)).await;
    let stream = TcpStream::connect(bound).await.unwrap();
    let connector = TlsConnector::from(client);
    let mut stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    stream.write_all(&vec![7; ANSWER]).await.unwrap();
    stream.flush().await.unwrap();
    drop(stream);
    let (mut taken, _) = soon(application.accept()).await.unwrap();
    let mut got = Vec::new();
    soon(taken.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got.len(), ANSWER);
    drop(taken);
    bed.empty().await;
}

#[tokio::test]
async fn a_client_of_a_service_that_there_is_not_is_reset() {
    let bed = Bed::new();
    let is_reset = async |bound| {
        // The reset may come before the connection counts as made.
        let read = async { TcpStream::connect(bound).await?.read(&mut [0; 1]).await };
        soon(read).await.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset
    };
    let bound = bed.streams(Some("nowhere")).await;
    assert!(is_reset(bound).await, "a regular end would be an empty answer");
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    bed.service("refusing", "transport", format!("tcp:{gone}"));
    let bound = bed.streams(Some("refusing")).await;
    assert!(is_reset(bound).await);
    bed.empty().await;
}

#[tokio::test]
async fn a_transport_listener_asks_for_the_service() {
    let bed = Bed::new();
    bed.service("echo", "transport", echo().await);
    let bound = bed.streams(None).await;
    // Data comes right behind the line, and in the answer right behind the answer.
    let got = soon(ask(bound, b"{\"id\":\"me\",\"svcId\":\"echo\"}\nhello")).await;
    let mut lines = BufReader::new(&got[..]);
    let mut line = String::new();
    lines.read_line(&mut line).await.unwrap();
    let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&answer["scc"], &answer["msg"]), (&true.into(), &"".into()));
    assert!(answer["circuitId"].as_str().unwrap().starts_with("circuit"));
    assert_eq!(lines.buffer(), b"hello");

    let long = vec![b'x'; 9_000];
    for (said, reason) in [
        (&b"{\"svcId\":\"nowhere\"}\n"[..], "no such service"),
        (b"{\"svcId\":\"\"}\n", "must name a service"),
        (b"GET / HTTP/1.1\n", "invalid request"),
        (&long, "longer than 8192 bytes"),
        (b"{\"svcId\":\"echo\"}", "closed the connection before"),
    ] {
        let mut stream = TcpStream::connect(bound).await.unwrap();
        stream.write_all(said).await.unwrap();
        if !said.ends_with(b"\n") {
            stream.shutdown().await.unwrap();
        }
        let mut line = String::new();
        soon(BufReader::new(&mut stream).read_line(&mut line)).await.unwrap();
        let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["scc"], false);
        assert!(answer["msg"].as_str().unwrap().contains(reason), "{answer}");
    }
    // A client without a request is disconnected.
    let mut silent = TcpStream::connect(bound).await.unwrap();
    assert_eq!(soon(silent.read(&mut [0; 8])).await.unwrap_or(0), 0);
    bed.empty().await;
}

#[tokio::test]
async fn each_direction_ends_by_itself() {
    let bed = Bed::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    bed.service("app", "transport", format!("tcp:{}", listener.local_addr().unwrap()));
    let bound = bed.streams(Some("app")).await;
    let mut client = TcpStream::connect(bound).await.unwrap();
    let (mut app, _) = soon(listener.accept()).await.unwrap();
    // The application ends first and still reads.
    app.write_all(b"bye").await.unwrap();
    app.shutdown().await.unwrap();
    let mut got = Vec::new();
    soon(client.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got, b"bye");
    client.write_all(b"and to you").await.unwrap();
    client.shutdown().await.unwrap();
    let mut got = Vec::new();
    soon(app.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got, b"and to you");
    drop((client, app));
    bed.empty().await;
}

#[tokio::test]
async fn an_application_that_takes_nothing_holds_its_client_back() {
    let bed = Bed::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    bed.service("app", "transport", format!("tcp:{}", listener.local_addr().unwrap()));
    let bound = bed.streams(Some("app")).await;
    let client = TcpStream::connect(bound).await.unwrap();
    let (mut app, _) = soon(listener.accept()).await.unwrap();
    let chunk = vec![7; 64 * 1024];
    let mut written = 0;
    // Until nothing is taken for a second: then everything on the way is full.
    while let Ok(ready) = tokio::time::timeout(Duration::from_secs(1), client.writable()).await {
        ready.unwrap();
        written += client.try_write(&chunk).unwrap_or(0);
        assert!(written < 256 << 20, "it is never held back");
    }
    assert!(bed.forwarder.budget().used() < 32 << 20);
    drop(client);
    let mut got = 0;
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count) = soon(app.read(&mut buffer)).await
        && count > 0
    {
        got += count;
    }
    assert_eq!(got, written, "nothing is lost");
    drop(app);
    bed.empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_connections_leave_nothing() {
    const AT_ONCE: usize = 50;
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let bed = Bed::new();
    bed.service("echo", "transport", echo().await);
    let bound = bed.streams(Some("echo")).await;
    assert_eq!(soon(ask(bound, b"warm")).await, b"warm");
    bed.empty().await;
    let tasks = tokio::runtime::Handle::current().metrics();
    let (open, alive) = (descriptors(), tasks.num_alive_tasks());
    let rounds = (0..AT_ONCE).map(|number| async move {
        for _ in 0..10_000 / AT_ONCE {
            let said = number.to_string();
            assert_eq!(ask(bound, said.as_bytes()).await, said.as_bytes());
        }
    });
    tokio::time::timeout(5 * LONG, futures::future::join_all(rounds)).await.unwrap();
    bed.empty().await;
    until(|| tasks.num_alive_tasks() <= alive).await;
    // Other tests of this process open some, too.
    until(|| descriptors() <= open + 500).await;
    assert_eq!(bed.table.asked.load(Ordering::Relaxed), 10_001);
}

#[tokio::test]
async fn every_form_of_an_address_is_listened_on() {
    for (text, families) in [
        ("tcp:0.0.0.0:0", &["127.0.0.1"][..]),
        ("tcp:[::1]:0", &["::1"]),
        ("tcp:[::ffff:127.0.0.1]:0", &["127.0.0.1"]),
        ("tcp:[::]:0", &["127.0.0.1", "::1"]),
        ("tcp::0", &["127.0.0.1", "::1"]),
        ("tcp:localhost:0", &[]),
    ] {
        let listener = bind_streams(&text.parse().unwrap()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for ip in families {
            let ip: std::net::IpAddr = ip.parse().unwrap();
            let (dialed, taken) =
                tokio::join!(TcpStream::connect((ip, port)), soon(listener.accept()));
            assert!(dialed.is_ok() && taken.is_ok(), "{text} from {ip}");
        }
    }
    for (text, is_v4) in [("udp4:localhost:0", true), ("udp6:[::1]:0", false), ("udp6::0", false)] {
        let socket = bind_datagrams(&text.parse().unwrap()).await.unwrap();
        assert_eq!(socket.local_addr().unwrap().is_ipv4(), is_v4, "{text}");
    }
    let wrong = bind_datagrams(&"udp6:127.0.0.1:0".parse().unwrap()).await.unwrap_err();
    assert!(wrong.to_string().contains("no address for udp6"), "{wrong}");
}
