//! Listeners before a controller that is made of a table, and applications on loopback.

mod conversations;
#[cfg(unix)]
mod local;
mod sources;

use std::{
    collections::HashMap,
    sync::{
        OnceLock, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use futures::{FutureExt, future::BoxFuture};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;
use weft_identity::tls::{ClientAuth, ClientTls, ServerTls, client_config, server_config};
use weft_limits::Budget;

use super::*;
use crate::{
    bindings::transport::{self, Dialer},
    forwarder::Timers,
    seam::{
        CircuitRequest, ControllerId, Egress, Forward, ForwardKind, TerminatorRequest,
        TerminatorUpdate, TunnelCircuitRequest,
    },
    tests::support::Pki,
};

const LONG: Duration = Duration::from_secs(60);

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("took too long")
}

async fn until(mut done: impl FnMut() -> bool) {
    soon(async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A controller: services by name, with the binding and the address that each is.
#[derive(Default)]
struct Table {
    this: OnceLock<Weak<Table>>,
    forwarder: OnceLock<Weak<Forwarder>>,
    services: Mutex<HashMap<String, (&'static str, String)>>,
    asked: AtomicU32,
    tls: Mutex<Option<Arc<rustls::ClientConfig>>>,
}

impl Table {
    async fn circuit(&self, request: BindingCircuitRequest) -> Result<MadeCircuit, Refusal> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let service = self.services.lock().get(&request.service).cloned();
        if request.service == "silent" {
            std::future::pending::<()>().await;
        }
        let (binding, destination) = service.ok_or_else(|| Refusal::plain("no such service"))?;
        let forwarder = self.forwarder.get().and_then(Weak::upgrade).unwrap();
        let controller: ControllerId = "ctrl".into();
        let (id, ingress, egress) =
            (format!("circuit{number}"), format!("in{number}"), format!("out{number}"));
        let set_up = forwarder.set_up(&id, &controller, Some(0)).unwrap();
        let end = Options::default();
        let tls = self.tls.lock().clone();
        let dialer = Dialer { end, connect_timeout: None, peer_timeout: None, tls };
        let egress = Egress {
            binding: binding.to_owned(),
            address: egress,
            destination,
            peer_data: request.peer_data,
            trace: None,
        };
        let dialed = transport::dial(&forwarder, set_up.circuit(), &egress, LONG, &dialer).await;
        let peer_data = dialed.map_err(|failure| Refusal::plain(failure.text))?;
        let forward = |source: &str, destination: &str, kind| Forward {
            source: source.to_owned(),
            destination: destination.to_owned(),
            kind,
        };
        let forwards = [
            forward(&ingress, &egress.address, ForwardKind::End),
            forward(&egress.address, &ingress, ForwardKind::Start),
        ];
        set_up.route(&forwards).unwrap();
        Ok(MadeCircuit { id, address: ingress, peer_data, controller })
    }
}

impl Control for Table {
    fn create_circuit(
        &self,
        _: CircuitRequest,
    ) -> BoxFuture<'static, Result<MadeCircuit, Refusal>> {
        async { Err(Refusal::plain("not here")) }.boxed()
    }

    fn create_tunnel_circuit(
        &self,
        _: TunnelCircuitRequest,
    ) -> BoxFuture<'static, Result<MadeCircuit, Refusal>> {
        async { Err(Refusal::plain("not here")) }.boxed()
    }

    fn create_binding_circuit(
        &self,
        request: BindingCircuitRequest,
    ) -> BoxFuture<'static, Result<MadeCircuit, Refusal>> {
        let this = self.this.get().and_then(Weak::upgrade).unwrap();
        async move { this.circuit(request).await }.boxed()
    }

    fn create_terminator(&self, _: TerminatorRequest) -> BoxFuture<'static, Result<(), Refusal>> {
        async { Err(Refusal::plain("not here")) }.boxed()
    }

    fn update_terminator(&self, _: &str, _: TerminatorUpdate) {}
    fn remove_terminators(&self, _: Vec<String>) {}
    fn health_event(&self, _: &str, _: bool) {}
    fn circuit_ended(&self, _: &ControllerId, circuit: &str, _: Role) {
        if let Some(forwarder) = self.forwarder.get().and_then(Weak::upgrade) {
            forwarder.unroute(circuit);
        }
    }
    fn forward_faults(&self, _: Option<&ControllerId>, _: Vec<String>) {}
    fn idle_circuits(&self, _: &ControllerId, _: Vec<(String, Duration)>) {}
    fn link_fault(&self, _: &str, _: u32) {}
    fn validate_service_sessions(&self, _: &ControllerId, _: Vec<String>) {}
    fn identity_connections(&self, _: &str, _: usize) {}
}

/// A router with its controller.
struct Bed {
    table: Arc<Table>,
    forwarder: Arc<Forwarder>,
    stop: CancellationToken,
    draining: CancellationToken,
}

impl Bed {
    fn new() -> Self {
        let table = Arc::new(Table::default());
        table.this.set(Arc::downgrade(&table)).unwrap();
        let timers = Timers::start(&tokio::runtime::Handle::current());
        let forwarder = Forwarder::new(table.clone(), timers, Budget::new(64 << 20));
        table.forwarder.set(Arc::downgrade(&forwarder)).unwrap();
        let stop = CancellationToken::new();
        Self { table, forwarder, draining: stop.child_token(), stop }
    }

    fn service(&self, name: &str, binding: &'static str, address: String) {
        self.table.services.lock().insert(name.to_owned(), (binding, address));
    }

    fn ingress(&self, service: Option<&str>) -> Arc<Ingress> {
        let options = IngressOptions {
            threads: weft_channel::Threads::of(tokio::runtime::Handle::current()),
            name: "test".into(),
            service: service.map(str::to_owned),
            end: Options::default(),
            circuit_timeout: LONG,
            peer_timeout: None,
        };
        Ingress::new(self.forwarder.clone(), self.table.clone(), options)
    }

    async fn streams(&self, service: Option<&str>) -> SocketAddr {
        self.tls_streams(service, None).await
    }

    async fn tls_streams(
        &self,
        service: Option<&str>,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> SocketAddr {
        let limits = StreamLimits { patience: Duration::from_secs(2), ..StreamLimits::default() };
        self.limited_streams(service, tls, limits).await
    }

    async fn limited_streams(
        &self,
        service: Option<&str>,
        tls: Option<Arc<rustls::ServerConfig>>,
        limits: StreamLimits,
    ) -> SocketAddr {
        let address = "tcp:127.0.0.1:0".parse().unwrap();
        let listener = bind_streams(&address).await.unwrap();
        let bound = listener.local_addr().unwrap();
        let ingress = self.ingress(service);
        tokio::spawn(serve_streams(ingress, listener, tls, limits, self.stop.clone()));
        bound
    }

    async fn datagrams(&self, service: Option<&str>, limits: DatagramLimits) -> SocketAddr {
        let address = "udp4:127.0.0.1:0".parse().unwrap();
        let socket = bind_datagrams(&address).await.unwrap();
        let bound = socket.local_addr().unwrap();
        let ingress = self.ingress(service);
        let ends = DatagramEnds { draining: self.draining.clone(), stop: self.stop.clone() };
        tokio::spawn(serve_datagrams(ingress, socket, limits, ends));
        bound
    }

    /// Waits until nothing is left of any circuit.
    async fn empty(&self) {
        until(|| self.forwarder.counts() == (0, 0) && self.forwarder.budget().used() == 0).await;
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// An application that sends its input back, and ends when its peer has ended.
async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    format!("tcp:{address}")
}

async fn udp_echo() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok((count, peer)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..count], peer).await;
        }
    });
    format!("udp:{address}")
}

/// Sends, ends, and reads until the other side ends, too.
async fn ask(address: SocketAddr, said: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut got = Vec::new();
    let writing = async {
        writer.write_all(said).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let (_, read) = tokio::join!(writing, reader.read_to_end(&mut got));
    read.unwrap();
    got
}

async fn talker() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

async fn hear(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let (count, _) = soon(socket.recv_from(&mut buffer)).await.unwrap();
    buffer.truncate(count);
    buffer
}

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
async fn a_client_of_a_service_that_there_is_not_is_closed() {
    let bed = Bed::new();
    let bound = bed.streams(Some("nowhere")).await;
    assert_eq!(soon(ask(bound, b"")).await, b"");
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    bed.service("refusing", "transport", format!("tcp:{gone}"));
    let bound = bed.streams(Some("refusing")).await;
    assert_eq!(soon(ask(bound, b"")).await, b"");
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
