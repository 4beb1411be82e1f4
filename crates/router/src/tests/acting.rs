//! Keys of the file that act on the whole router.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use weft_config::{ProcessEnvironment, RouterConfig};
use weft_identity::tls::{ClientAuth, ClientTls, ServerTls, client_config, server_config};
use weft_identity::{Certificate, KeyPurpose, San};
use weft_wire::ctrl::{self, Fault, InspectRequest, RouterInterfacesUpdate};
use weft_wire::edge_ctrl::{ConnectEvents, CreateTunnelCircuitV2Response, content_type};
use weft_wire::{Message, Outcome, ProtoBody};

use super::events;
use super::support::{LONG, Peer, Pki, TestController, TestRouter, capable, later, soon};
use super::whole::{config_with, write_chain};
use crate::seam::{Control as _, TunnelCircuitRequest};
use crate::{Router, Runtimes, StartError};

async fn start(config: &RouterConfig) -> Router {
    soon(Router::start(config, Runtimes::own().unwrap())).await.unwrap()
}

/// The usual configuration with these contents in its section `ctrl`.
fn with_ctrl(pki: &Pki, home: &Path, port: u16, ctrl: &str) -> RouterConfig {
    let config = config_with(pki, home, port, None, "");
    let text = format!(
        "v: 3\nidentity: {{cert: a, server_cert: s, key: b}}\nctrl: {{endpoint: 'tls:localhost:{port}', {ctrl}}}\n"
    );
    let path = home.join("router.yml");
    let other = RouterConfig::from_str(&text, &path, &ProcessEnvironment).unwrap().config;
    RouterConfig { ctrl: other.ctrl, ..config }
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_are_dialed_from_an_address_or_an_interface() {
    let pki = Pki::new();
    let home = tempfile::tempdir().unwrap();
    let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
    let port = controller.addr().port();
    let loopback = if_addrs::get_if_addrs().unwrap();
    let loopback = loopback.into_iter().find(|one| one.is_loopback()).unwrap().name;
    for (bind, expected) in [("127.0.0.2", "127.0.0.2"), (loopback.as_str(), "127.0.0.1")] {
        let config = with_ctrl(&pki, home.path(), port, &format!("bind: {bind}"));
        let router = start(&config).await;
        let peer = controller.router().await;
        let remote = peer.channel.underlays().first().unwrap().remote;
        assert_eq!(remote.ip().to_string(), expected, "{bind}");
        soon(router.shutdown()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_reaches_nobody_says_so_after_a_while() {
    let pki = Pki::new();
    let home = tempfile::tempdir().unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let config = with_ctrl(&pki, home.path(), nobody, "startupTimeout: 50ms");
    let router = start(&config).await;
    let error = soon(router.reach_controller()).await.unwrap_err();
    assert!(matches!(error, StartError::NoController(_)), "{error}");
    soon(router.shutdown()).await;
    let config = with_ctrl(&pki, home.path(), nobody, "startupTimeout: 0s");
    let router = start(&config).await;
    let reached = tokio::time::timeout(Duration::from_millis(300), router.reach_controller()).await;
    assert!(reached.is_err(), "0 is for ever");
    soon(router.shutdown()).await;
}

/// A router that lets a controller be silent for so long, and the controller that it is connected to.
async fn with_patience(
    pki: &Pki,
    home: &Path,
    patience: Duration,
) -> (Router, TestController, Peer) {
    let mut controller = TestController::at(pki, "127.0.0.1:0", capable()).await;
    let options = format!("{{connectTimeout: {}s}}", LONG.as_secs());
    let ctrl = format!("defaultRequestTimeout: {}ms, options: {options}", patience.as_millis());
    let router = start(&with_ctrl(pki, home, controller.addr().port(), &ctrl)).await;
    let mut peer = controller.router().await;
    peer.is_known().await;
    (router, controller, peer)
}

fn circuit() -> TunnelCircuitRequest {
    TunnelCircuitRequest {
        service: "web".into(),
        instance: String::new(),
        peer_data: Default::default(),
        end_key: bytes::Bytes::new(),
        timeout: LONG,
    }
}

fn made(id: &str) -> CreateTunnelCircuitV2Response {
    CreateTunnelCircuitV2Response {
        circuit_id: id.into(),
        address: "a".into(),
        ..CreateTunnelCircuitV2Response::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_controller_is_waited_for_as_the_file_says() {
    let (pki, home) = (Pki::new(), tempfile::tempdir().unwrap());
    for limit in [Duration::from_millis(100), Duration::from_millis(900)] {
        let (router, _controller, mut peer) = with_patience(&pki, home.path(), limit).await;
        let begun = std::time::Instant::now();
        let refusal = soon(router.control.create_tunnel_circuit(circuit())).await.unwrap_err();
        let said = format!("controller ctrl1 did not answer within {limit:?}");
        assert!(refusal.message.contains(&said), "{refusal}");
        assert!(begun.elapsed() >= limit, "{:?}", begun.elapsed());
        // A circuit that it makes later ends.
        let message = peer.expect(content_type::CREATE_TUNNEL_CIRCUIT_V2_REQUEST).await;
        peer.reply(&message, made("late").to_message()).await;
        let fault = Fault::from_message(&peer.expect(ctrl::content_type::FAULT).await).unwrap();
        assert_eq!(fault, Fault::circuit(true, "late"));
        soon(router.shutdown()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_answers_pings_may_take_longer_for_a_circuit() {
    let (pki, home) = (Pki::new(), tempfile::tempdir().unwrap());
    let (router, _controller, mut peer) =
        with_patience(&pki, home.path(), Duration::from_secs(4)).await;
    let asked = tokio::spawn(router.control.create_tunnel_circuit(circuit()));
    let message = peer.expect(content_type::CREATE_TUNNEL_CIRCUIT_V2_REQUEST).await;
    // After the third ping more than the limit is over.
    for _ in 0..3 {
        let ping = peer.expect(weft_wire::content_type::PING).await;
        peer.reply(&ping, Outcome::success("ok").to_message()).await;
    }
    peer.reply(&message, made("c").to_message()).await;
    assert_eq!(soon(asked).await.unwrap().unwrap().id, "c");
    soon(router.shutdown()).await;
}

/// An HTTP proxy that connects to anything and counts.
async fn proxy() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counter = counter.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let target = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
                let mut far = TcpStream::connect(target).await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut far).await;
            });
        }
    });
    (address, count)
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_are_reached_through_a_proxy() {
    let pki = Pki::new();
    let home = tempfile::tempdir().unwrap();
    let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
    let (address, count) = proxy().await;
    let more = format!("proxy: {{type: http, address: '{address}'}}\n");
    let port = controller.addr().port();
    let config = config_with(&pki, home.path(), port, None, &more);
    let router = start(&config).await;
    controller.router().await;
    soon(router.online()).await;
    assert!(count.load(Ordering::SeqCst) > 0);
    soon(router.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interfaces_are_told_unless_that_is_switched_off() {
    let pki = Pki::new();
    let home = tempfile::tempdir().unwrap();
    let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
    let port = controller.addr().port();
    for (more, is_told) in [("", true), ("interfaceDiscovery: {disabled: true}\n", false)] {
        let router = start(&config_with(&pki, home.path(), port, None, more)).await;
        let mut peer = controller.router().await;
        if is_told {
            let told: RouterInterfacesUpdate = peer.get().await;
            assert!(told.interfaces.iter().any(|one| one.flags & 4 != 0), "{told:?}");
        } else {
            peer.is_known().await;
            let asked = Message::new(content_type::SERVER_HELLO, "");
            let _ = peer.channel.request(asked, Duration::from_millis(500)).await;
            assert!(!peer.has(RouterInterfacesUpdate::CONTENT_TYPE));
        }
        soon(router.shutdown()).await;
    }
}

#[tokio::test]
async fn connected_identities_are_told_unless_that_is_switched_off() {
    let pki = Pki::new();
    let home = tempfile::tempdir().unwrap();
    let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
    let fast = "connectEvents: {batchInterval: 250ms";
    for (more, is_told) in [("}\n", true), (", enabled: false}\n", false)] {
        let more = format!("{fast}{more}");
        let router = TestRouter::start_with(&pki, home.path(), controller.addr(), &more);
        let mut peer = controller.router().await;
        peer.is_known().await;
        router.control.identity_connections("alice", 1);
        if is_told {
            soon(async {
                while !peer.get::<ConnectEvents>().await.events.iter().any(|one| one.is_connected) {
                }
            })
            .await;
        } else {
            later(Duration::from_secs(1)).await;
            // What the router says comes in order.
            let asked = InspectRequest { requested_values: vec!["router-controllers".into()] };
            soon(peer.channel.request(asked.to_message(), LONG)).await.unwrap();
            assert!(!peer.has(ConnectEvents::CONTENT_TYPE));
        }
        router.control.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_reached_through_the_router() {
    let pki = Pki::new();
    let home = tempfile::tempdir().unwrap();
    // A server of the network that answers each line with itself.
    let server = pki.leaf("api", &[San::Dns("localhost".into())], KeyPurpose::Server);
    let bundle = weft_identity::TrustBundle::new([pki.root().clone()]);
    let identity = weft_identity::Identity::new(None, vec![server], bundle);
    let tls = ServerTls { alpn: &[], client_auth: ClientAuth::Request };
    let tls = server_config(&weft_identity::LiveIdentity::fixed(identity), &tls).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = listener.local_addr().unwrap().port();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            assert!(stream.get_ref().1.peer_certificates().is_none(), "nobody's certificate");
            let mut said = [0; 5];
            stream.read_exact(&mut said).await.unwrap();
            stream.write_all(&said).await.unwrap();
        }
    });
    let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
    let more = format!(
        "edge: {{apiProxy: {{listener: '127.0.0.1:0', upstream: 'localhost:{upstream}'}}}}\nlisteners:\n\
         - {{binding: edge, address: 'tls:127.0.0.1:0', options: {{advertise: 'localhost:0'}}}}\n"
    );
    let config = config_with(&pki, home.path(), controller.addr().port(), None, &more);
    let router = start(&config).await;
    controller.router().await;
    let at = router.api_proxy_address().unwrap();

    let client = pki.client_identity(pki.leaf("alice", &[], KeyPurpose::Client));
    let tls = client_config(&ClientTls::of_identity(&client, &[])).unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
    let socket = TcpStream::connect(at).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, socket).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    let mut said = [0; 5];
    soon(stream.read_exact(&mut said)).await.unwrap();
    assert_eq!(&said, b"hello");
    soon(router.shutdown()).await;
    soon(async {
        while TcpStream::connect(at).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// The certificate that the router shows to a client that asks for this name.
async fn shown(pki: &Pki, port: u16, name: &'static str) -> Certificate {
    let identity = pki.client_identity(pki.leaf("alice", &[], KeyPurpose::Client));
    let tls = client_config(&ClientTls::of_identity(&identity, &[])).unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
    let socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let stream = connector.connect(ServerName::try_from(name).unwrap(), socket).await.unwrap();
    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
    Certificate::from_der(shown.into_owned()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_chosen_by_name_and_exchanged_while_the_router_runs() {
    let pki = Pki::new();
    let home = tempfile::tempdir().unwrap();
    let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
    let more = "edge: {}\nlisteners:\n\
        - {binding: edge, address: 'tls:127.0.0.1:0', options: {advertise: 'localhost:0'}}\n";
    let mut config = config_with(&pki, home.path(), controller.addr().port(), None, more);
    // A certificate in a file, its key in the configuration itself.
    let (file, name) = (home.path().join("alt.pem"), [San::Dns("alt.example".into())]);
    let first = pki.leaf("alt", &name, KeyPurpose::Server);
    write_chain(&file, &first);
    config.identity.alt_server_certs = vec![weft_identity::AltServerCert {
        server_cert: format!("file://{}", file.display()),
        server_key: format!("pem:{}", first.key().to_pem()),
    }];
    let router = start(&config).await;
    let mut peer = controller.router().await;
    peer.give_model(vec![events::key(pki.root())], 3).await;
    soon(router.online()).await;
    let port = router.edge_addresses()[0].port();
    assert!(shown(&pki, port, "localhost").await.covers_host("localhost"));
    assert_eq!(shown(&pki, port, "alt.example").await, *first.leaf());

    // A new file is renamed over the old one, as programs do that renew certificates.
    let second =
        pki.leaf_for(first.key(), "alt", &name, KeyPurpose::Server, Duration::from_secs(999));
    let beside = home.path().join("alt.new");
    write_chain(&beside, &second);
    std::fs::rename(beside, &file).unwrap();
    soon(async {
        while shown(&pki, port, "alt.example").await != *second.leaf() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    soon(router.shutdown()).await;
}
