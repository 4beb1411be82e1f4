//! A whole router from a configuration file, and the renewal of its certificates.

use std::path::Path;
use std::time::Duration;

use weft_config::{ProcessEnvironment, RouterConfig};
use weft_identity::tls::{ClientTls, client_config};
use weft_identity::{Certificate, CertificateRequest, KeyPurpose, KeyedChain, Leaf, San, SpiffeId};
use weft_wire::edge_ctrl::{
    ClientHello, EnrollmentCertsResponse, EnrollmentExtendRouterRequest, ServerHello, content_type,
};
use weft_wire::{Message, ProtoBody};

use super::events;
use super::support::{Pki, TestController, capable, soon};
use crate::{Router, Runtimes, StartError};

fn localhost() -> [San; 1] {
    [San::Dns("localhost".into())]
}

pub(super) fn write_chain(path: &Path, chain: &KeyedChain) {
    std::fs::write(path, weft_identity::to_pem(chain.chain())).unwrap();
}

/// A configuration whose identity lies in `home`, with a client certificate of this validity.
pub(super) fn config(pki: &Pki, home: &Path, port: u16, valid: Option<Duration>) -> RouterConfig {
    let more = "edge: {csr: {sans: {dns: [localhost]}}}\n\
         listeners:\n- {binding: edge, address: 'tls:127.0.0.1:0', options: {advertise: 'localhost:0'}}\n\
         - {binding: tunnel, options: {mode: host}}\n";
    config_with(pki, home, port, valid, more)
}

/// The usual configuration with further sections.
pub(super) fn config_with(
    pki: &Pki,
    home: &Path,
    port: u16,
    valid: Option<Duration>,
    more: &str,
) -> RouterConfig {
    let server = pki.leaf("router1", &localhost(), KeyPurpose::Server);
    let client = match valid {
        Some(valid) => pki.leaf_for(server.key(), "router1", &[], KeyPurpose::Client, valid),
        None => pki.leaf_for(server.key(), "router1", &[], KeyPurpose::Client, YEAR),
    };
    write_chain(&home.join("server.pem"), &server);
    write_chain(&home.join("client.pem"), &client);
    std::fs::write(home.join("key.pem"), server.key().to_pem()).unwrap();
    std::fs::write(home.join("ca.pem"), pki.root().to_pem()).unwrap();
    let text = format!(
        "v: 3\nidentity: {{cert: {0}/client.pem, server_cert: {0}/server.pem, key: {0}/key.pem, \
         ca: {0}/ca.pem}}\nctrl: {{endpoint: 'tls:localhost:{port}'}}\n\
         {more}",
        home.display()
    );
    let loaded = RouterConfig::from_str(&text, &home.join("router.yml"), &ProcessEnvironment);
    loaded.unwrap().config
}

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[tokio::test(flavor = "multi_thread")]
async fn a_router_comes_online_and_goes_down_cleanly() {
    let pki = Pki::new();
    let home = tempfile::tempdir().unwrap();
    let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
    let config = config(&pki, home.path(), controller.addr().port(), None);
    let router = soon(Router::start(&config, Runtimes::own().unwrap())).await.unwrap();
    assert_eq!(router.id(), "router1");
    soon(router.reach_controller()).await.unwrap();
    let mut peer = controller.router().await;
    let greeting = ServerHello::new("v2.1.0").greet();
    let reply = peer.channel.request(greeting, Duration::from_secs(10)).await.unwrap();
    let port = router.edge_addresses()[0].port();
    let said = ClientHello::from_message(&reply).unwrap();
    let advertised = &said.listeners[0].advertise.as_ref().unwrap().value;
    assert_eq!(*advertised, format!("tls:localhost:{port}"), "the free port that was taken");

    let client = pki.leaf("alice", &[], KeyPurpose::Client);
    assert!(refused(&pki, port, &client).await, "no authority is known yet");
    peer.give_model(vec![events::key(pki.root())], 3).await;
    soon(router.online()).await;
    assert!(admitted(&pki, port, &client).await);
    let stranger = Pki::new().leaf("mallory", &[], KeyPurpose::Client);
    assert!(refused(&pki, port, &stranger).await);

    soon(router.shutdown()).await;
    soon(peer.channel.closed()).await;
    assert!(home.path().join("router.yml.proto.gzip").exists(), "the model is kept");
}

/// True if an SDK with this certificate completes a handshake.
async fn admitted(pki: &Pki, port: u16, client: &KeyedChain) -> bool {
    stays(pki, port, client, Duration::from_millis(500)).await
}

/// True if an SDK with this certificate is refused before its hello is overdue, which it is after 5
/// s.
async fn refused(pki: &Pki, port: u16, client: &KeyedChain) -> bool {
    !stays(pki, port, client, Duration::from_secs(4)).await
}

/// True if a connection with this certificate is still open after `wait`.
async fn stays(pki: &Pki, port: u16, client: &KeyedChain, wait: Duration) -> bool {
    use tokio::io::AsyncReadExt;
    let identity = pki.client_identity(client.clone());
    let tls = client_config(&ClientTls::of_identity(&identity, &[])).unwrap();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(tls));
    let socket = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let Ok(mut stream) = connector.connect(name, socket).await else { return false };
    // In TLS 1.3 the server refuses after the client's handshake is done: then the read fails. The
    // client sends nothing, so that the accepted connection stays silent until the hello is
    // overdue.
    let read = tokio::time::timeout(wait, stream.read_u8()).await;
    read.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_in_time() {
    let pki = Pki::new();
    let home = tempfile::tempdir().unwrap();
    let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
    let soon_over = Duration::from_secs(3600);
    let config = config(&pki, home.path(), controller.addr().port(), Some(soon_over));
    let handle = tokio::runtime::Handle::current();
    let runtimes = Runtimes::given(handle.clone(), handle);
    let router = Router::start(&config, runtimes).await.unwrap();
    let mut peer = controller.router().await;
    let request: EnrollmentExtendRouterRequest = peer.get().await;
    assert!(request.require_verification);
    let issue = |csr: &str, purpose| {
        let request = CertificateRequest::from_pem(csr).unwrap();
        assert_eq!(request.common_name(), Some("router1"));
        assert_eq!(request.sans(), localhost());
        let id = SpiffeId::router("weft", "router1");
        let now = std::time::SystemTime::now();
        let leaf = Leaf::for_router(&request, "router1", &id, localhost(), purpose, now);
        pki.issue(&leaf.unwrap())
    };
    let client = issue(&request.client_cert_csr, KeyPurpose::Client);
    let server = issue(&request.server_cert_csr, KeyPurpose::Server);
    let certs = EnrollmentCertsResponse {
        client_cert_pem: client.to_pem(),
        server_cert_pem: server.to_pem(),
        ca_certs_pem: String::new(),
    };
    peer.send(certs.to_message()).await;
    let confirm = peer.expect(content_type::EXTEND_VERIFY).await;
    let file = home.path().join("client.pem");
    let on_disk = || Certificate::from_pem(&std::fs::read(&file).unwrap()).unwrap().remove(0);
    assert_ne!(on_disk().fingerprint(), client.fingerprint(), "not before it is confirmed");
    peer.reply(&confirm, Message::new(content_type::ERROR, "")).await;
    super::support::until(|| on_disk().fingerprint() == client.fingerprint()).await;
    soon(router.shutdown()).await;
}

#[tokio::test]
async fn a_router_without_certificates_says_how_to_get_some() {
    let home = tempfile::tempdir().unwrap();
    let text = format!(
        "v: 3\nidentity: {{cert: {0}/c, key: {0}/k}}\nctrl: {{endpoint: 'tls:localhost:1'}}\n",
        home.path().display()
    );
    let path = home.path().join("router.yml");
    let config = RouterConfig::from_str(&text, &path, &ProcessEnvironment).unwrap().config;
    let handle = tokio::runtime::Handle::current();
    let error = Router::start(&config, Runtimes::given(handle.clone(), handle)).await.unwrap_err();
    assert!(matches!(error, StartError::Identity(_)));
    assert!(error.to_string().contains("enroll"), "{error}");
}
