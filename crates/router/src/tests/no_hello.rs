//! Peers that have a certificate of the network, keep a connection busy and never say hello, at every
//! listener.

use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weft_identity::tls::{ClientTls, client_config};
use weft_identity::{KeyPurpose, San};
use weft_wire::hello::{Hello, alpn};
use weft_wire::{Message, frame};

use super::events;
use super::support::{Pki, TestController, capable, later, soon};
use super::whole::config_with;
use crate::{Router, Runtimes};

const LISTENERS: &str = "edge: {csr: {sans: {dns: [localhost]}}}\n\
    listeners: [{binding: edge, address: 'tls:127.0.0.1:0', options: {advertise: 'localhost:0'}}]\n\
    link: {listeners: [{binding: transport, bind: 'tls:127.0.0.1:0', advertise: 'tls:localhost:0'}]}\n";

/// Types of messages that need no hello to be understood: ping, latency, its answer, and heartbeat.
const CHATTER: [i32; 4] = [1, 3, 4, 5];

/// The time limits for hellos are 5 s and 10 s.
const OVERDUE: Duration = Duration::from_secs(11);

/// A router that listens for controllers, for routers and for SDKs.
struct Listening {
    pki: Pki,
    router: Router,
    /// The protocols and ports of its listeners.
    places: [(&'static str, u16); 3],
}

impl Listening {
    async fn new() -> Self {
        let (pki, home) = (Pki::new(), tempfile::tempdir().unwrap());
        let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
        let port = controller.addr().port();
        let mut config = config_with(&pki, home.path(), port, None, LISTENERS);
        let listeners = "v: 3\nidentity: {cert: a, server_cert: s, key: b, ca: c}\nctrl: {endpoint: 'tls:c:1', \
            listeners: [{bind: 'tls:127.0.0.1:0', advertise: 'tls:localhost:0'}]}\n";
        let text = |_: &str| None;
        let with = weft_config::RouterConfig::from_str(listeners, &home.path().join("x"), &text);
        config.ctrl.listeners = with.unwrap().config.ctrl.listeners;
        let runtimes = Runtimes::given(Handle::current(), Handle::current());
        let router = soon(Router::start(&config, runtimes)).await.unwrap();
        let mut peer = controller.router().await;
        peer.give_model(vec![events::key(pki.root())], 3).await;
        soon(router.online()).await;
        let told = peer.hello.ctrl_chan_listeners.listeners[0].address.clone();
        let places = [
            (alpn::CTRL, told.rsplit(':').next().unwrap().parse().unwrap()),
            (alpn::LINK, router.link_addresses()[0].port()),
            (alpn::EDGE, router.edge_addresses()[0].port()),
        ];
        Self { pki, router, places }
    }

    /// A connection before its hello.
    async fn connect(&self, (protocol, port): (&str, u16)) -> TlsStream<TcpStream> {
        // Other certificates are refused at the listener for controllers before any hello.
        let controller = [San::Uri("spiffe://net/controller/ctrl1".into())];
        let leaf = self.pki.leaf("ctrl1", &controller, KeyPurpose::Client);
        let identity = self.pki.client_identity(leaf);
        let offered = [protocol.as_bytes()];
        let tls = client_config(&ClientTls::of_identity(&identity, &offered)).unwrap();
        let connector = TlsConnector::from(Arc::new(tls));
        let socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        soon(connector.connect(name, socket)).await.unwrap()
    }
}

/// Waits until the router has closed a connection, without a word.
async fn is_closed(stream: &mut TlsStream<TcpStream>) {
    let mut heard = Vec::new();
    let _ = soon(stream.read_to_end(&mut heard)).await;
    assert!(heard.is_empty(), "{heard:?}");
}

#[tokio::test]
async fn a_message_before_the_hello_closes_a_connection_at_every_listener() {
    let listening = Listening::new().await;
    for place in listening.places {
        for content_type in CHATTER {
            let mut stream = listening.connect(place).await;
            let said = frame::encode(&Message::new(content_type, "are you there?"));
            // The router may have closed the connection after the first message.
            let talking = async {
                while stream.write_all(&said).await.is_ok() && stream.flush().await.is_ok() {
                    tokio::task::yield_now().await;
                }
            };
            soon(talking).await;
            is_closed(&mut stream).await;
        }
    }
    soon(listening.router.shutdown()).await;
}

#[tokio::test]
async fn the_beginning_of_a_hello_is_cut_by_the_time_limit_at_every_listener() {
    let listening = Listening::new().await;
    let hello = frame::encode(&Hello::new("ctrl1").to_message());
    for place in listening.places {
        let mut stream = listening.connect(place).await;
        stream.write_all(&hello[..10]).await.unwrap();
        stream.flush().await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(100), stream.read_u8()).await;
        assert!(early.is_err(), "{}: it is waited for the rest", place.0);
        later(OVERDUE).await;
        is_closed(&mut stream).await;
    }
    soon(listening.router.shutdown()).await;
}
