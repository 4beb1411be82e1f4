//! Controllers that dial the router, and the cases in which the router dials them, too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use weft_channel::{
    ChannelOptions, DialError, DialOptions, GroupPolicy, Listeners, Registration, TlsSource, dial,
};
use weft_config::{ProcessEnvironment, RouterConfig};
use weft_identity::tls::{ClientAuth, ClientTls, ServerTls, client_config, server_config};
use weft_identity::{KeyPurpose, San};
use weft_wire::ctrl::{
    ControllerHello, CtrlDetail, CtrlEndpoint, RouterHello, UpdateCtrlAddresses,
};
use weft_wire::edge_ctrl::data_model::{CurrentIndex, SealedRevision, SubscribeToDataModelRequest};
use weft_wire::edge_ctrl::{self, ErrorCode};
use weft_wire::hello::{Hello, HelloResult, alpn};
use weft_wire::{
    Address, Capabilities, Message, Outcome, ProtoBody as _, Scheme, VersionInfo,
    controller_capability,
};

use super::circuits::request;
use super::support::{LONG, Peer, Pki, TestController, TestRouter, capable, later, soon, until};
use crate::seam::{Control as _, NewCircuit, Refusal, TunnelCircuitRequest};

/// A router that waits for controllers, and tries to reach one of them at an address.
struct Waiting {
    pki: Pki,
    _home: tempfile::TempDir,
    router: TestRouter,
    listening: Registration,
}

impl Waiting {
    async fn new(controller: SocketAddr) -> Self {
        let (pki, home) = (Pki::new(), tempfile::tempdir().unwrap());
        let router = TestRouter::start(&pki, home.path(), controller);
        let text = "v: 3\nidentity: {cert: x, server_cert: x, key: x}\nctrl: {endpoint: 'tls:c:1', listeners: \
                    [{bind: 'tls:127.0.0.1:0', advertise: 'tls:localhost:0', groups: [red]}]}\n";
        let path = home.path().join("listens.yml");
        let config = RouterConfig::from_str(text, &path, &ProcessEnvironment).unwrap().config;
        let server = ServerTls { alpn: &[alpn::CTRL.as_bytes()], client_auth: ClientAuth::Require };
        let tls = Arc::new(server_config(&pki.identity("router1"), &server).unwrap());
        let tls: TlsSource = Arc::new(move || Some(tls.clone()));
        let (sockets, limit) = (Listeners::new(), Duration::from_secs(5));
        let listener = &config.ctrl.listeners[0];
        let (listening, told) =
            router.control.listen(&sockets, listener, limit, tls).await.unwrap();
        let port = listening.local_addr().port();
        assert_eq!(
            (told.address, told.groups),
            (format!("tls:localhost:{port}"), vec!["red".into()])
        );
        Self { pki, _home: home, router, listening }
    }

    /// A controller of this id dials the router.
    async fn dial(&self, id: &str, capabilities: Capabilities) -> Result<Peer, DialError> {
        let uri = San::Uri(format!("spiffe://net/controller/{id}"));
        let chain = self.pki.leaf(id, &[uri], KeyPurpose::Client);
        let identity = self.pki.client_identity(chain);
        let tls = Arc::new(client_config(&ClientTls::of_identity(&identity, &[])).unwrap());
        let mut hello = Hello::new(id);
        let version = Some(VersionInfo::from(&crate::Build::default()));
        ControllerHello { version, capabilities }.write(&mut hello.headers);
        let address = Address::new(Scheme::Tls, "localhost", self.listening.local_addr().port());
        let channel = ChannelOptions::control("router");
        let options = DialOptions::new(address, tls, alpn::CTRL, hello, channel);
        let group = Some(GroupPolicy::control_listener());
        let established = soon(dial(DialOptions { group, ..options })).await?;
        let headers = established.peer().headers.clone();
        let answer = HelloResult { success: true, text: String::new(), headers };
        Ok(Peer::start(established, RouterHello::from_result(&answer)))
    }
}

/// An address at which no program listens.
fn nowhere() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_has_dialed_is_dialed_once_it_has_gone() {
    let at = nowhere();
    let waiting = Waiting::new(at).await;
    let mut peer = waiting.dial("ctrl1", capable()).await.unwrap();
    assert_eq!(peer.channel.peer().id.as_deref(), Some("router1"));
    assert!(peer.hello.version.as_ref().unwrap().release().unwrap().at_least(2, 0, 0));
    peer.is_known().await;
    peer.give_model(Vec::new(), 7).await;
    waiting.router.online().await;

    // The controller could be reached now. The router would otherwise try at least once a second.
    let mut reachable = TestController::at(&waiting.pki, &at.to_string(), capable()).await;
    let dialed = tokio::time::timeout(Duration::from_secs(2), reachable.router()).await;
    assert!(dialed.is_err() && !peer.channel.is_closed());
    let again = waiting.dial("ctrl1", capable()).await.err().unwrap().to_string();
    assert!(again.contains("already connected"), "{again}");

    peer.channel.close("test");
    let own = reachable.router().await;
    assert_eq!(own.channel.peer().id.as_deref(), Some("router1"));
    // The controller is connected now, and its own dial has told its id: no other controller can
    // take its place.
    until(|| waiting.router.controllers().get("ctrl1").is_some()).await;
    assert!(waiting.dial("ctrl1", capable()).await.is_err());
    let other = waiting.dial("ctrl2", capable()).await.err().unwrap().to_string();
    assert!(other.contains("none of the controllers that this router knows: ctrl1"), "{other}");
    waiting.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_of_a_controller_gives_way_to_one_of_the_router() {
    let waiting = Waiting::new(nowhere()).await;
    let mut peer = waiting.dial("ctrl1", capable()).await.unwrap();
    peer.is_known().await;
    waiting.router.controllers().give_way("ctrl2").await;
    assert!(!peer.channel.is_closed());
    waiting.router.controllers().give_way("ctrl1").await;
    soon(peer.channel.closed()).await;
    assert!(waiting.router.controllers().all().is_empty());
    waiting.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_belongs_to_the_network_no_more_is_cut_off() {
    let waiting = Waiting::new(nowhere()).await;
    let mut first = waiting.dial("ctrl1", capable()).await.unwrap();
    let mut second = waiting.dial("ctrl2", capable()).await.unwrap();
    first.is_known().await;
    second.is_known().await;
    let old: Capabilities = (1..=4).collect();
    assert!(waiting.dial("ctrl3", old).await.err().unwrap().to_string().contains("older than 2.0"));
    let list = |index: u64, ids: &[&str]| {
        let endpoint = CtrlEndpoint { address: format!("tls:{}", nowhere()), groups: vec![] };
        let detail = |id: &&str| CtrlDetail { id: (*id).into(), endpoints: vec![endpoint.clone()] };
        let controllers = ids.iter().map(detail).collect();
        UpdateCtrlAddresses { index, controllers, ..UpdateCtrlAddresses::default() }.to_message()
    };
    first.send(list(5, &["ctrl1", "ctrl2"])).await;
    // The router accepts the next list once it has applied this one.
    first.send(list(6, &["ctrl1"])).await;
    soon(second.channel.closed()).await;
    assert!(!first.channel.is_closed());
    waiting.router.control.shutdown().await;
}

/// A request for a circuit to two controllers: the one that was asked, and the other one.
async fn asked(waiting: &Waiting) -> (JoinHandle<Result<NewCircuit, Refusal>>, Message, [Peer; 2]) {
    let mut first = waiting.dial("ctrl1", capable()).await.unwrap();
    let mut second = waiting.dial("ctrl2", capable()).await.unwrap();
    first.is_known().await;
    second.is_known().await;
    let circuit = TunnelCircuitRequest {
        service: "web".into(),
        instance: String::new(),
        peer_data: Default::default(),
        end_key: bytes::Bytes::new(),
        timeout: Duration::from_secs(60),
    };
    let made = tokio::spawn(waiting.router.control.create_tunnel_circuit(circuit));
    tokio::select! {
        message = first.expect(REQUEST) => (made, message, [first, second]),
        message = second.expect(REQUEST) => (made, message, [second, first]),
    }
}

const REQUEST: i32 = edge_ctrl::content_type::CREATE_TUNNEL_CIRCUIT_V2_REQUEST;

fn made(id: &str) -> Message {
    let (circuit_id, address) = (id.into(), "a".into());
    edge_ctrl::CreateTunnelCircuitV2Response { circuit_id, address, ..Default::default() }
        .to_message()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_controller_is_asked_when_the_first_is_silent() {
    let waiting = Waiting::new(nowhere()).await;
    let begun = Instant::now();
    let (circuit, message, [silent, mut other]) = asked(&waiting).await;
    let again = other.expect(REQUEST).await;
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    other.reply(&again, made("second")).await;
    assert_eq!(soon(circuit).await.unwrap().unwrap().id, "second");
    // The circuit of a later answer is one that nobody waits for (`a_silent_controller_is_waited_for_as_the_file_says`).
    silent.reply(&message, made("first")).await;
    waiting.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_controller_is_asked_when_the_first_is_silent_and_the_second_lacks_routers() {
    let waiting = Waiting::new(nowhere()).await;
    let (circuit, _, [_silent, mut second]) = asked(&waiting).await;
    let mut third = waiting.dial("ctrl3", capable()).await.unwrap();
    third.is_known().await;
    let (again, mut others) = tokio::select! {
        again = second.expect(REQUEST) => (again, [second, third]),
        again = third.expect(REQUEST) => (again, [third, second]),
    };
    let lacks = edge_ctrl::EdgeError::new(ErrorCode::INTERNAL, edge_ctrl::RetryHint::DEFAULT, "no");
    let lacks = edge_ctrl::EdgeError { elsewhere: true, ..lacks };
    others[0].reply(&again, lacks.to_message()).await;
    let again = others[1].expect(REQUEST).await;
    others[1].reply(&again, made("third")).await;
    assert_eq!(soon(circuit).await.unwrap().unwrap().id, "third");
    waiting.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_answers_pings_is_waited_for() {
    let waiting = Waiting::new(nowhere()).await;
    let (circuit, message, [mut slow, mut other]) = asked(&waiting).await;
    for _ in 0..3 {
        let ping = slow.expect(weft_wire::content_type::PING).await;
        slow.reply(&ping, Outcome::success("ok").to_message()).await;
    }
    slow.reply(&message, made("first")).await;
    assert_eq!(soon(circuit).await.unwrap().unwrap().id, "first");
    assert!(!other.has(REQUEST));
    waiting.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_controller_is_asked_at_once_when_the_first_has_gone() {
    let waiting = Waiting::new(nowhere()).await;
    let (circuit, _, [gone, mut other]) = asked(&waiting).await;
    gone.channel.close("test");
    let again = other.expect(REQUEST).await;
    let no = edge_ctrl::EdgeError::new(ErrorCode::INTERNAL, edge_ctrl::RetryHint::START_OVER, "no");
    other.reply(&again, no.to_message()).await;
    let refusal = soon(circuit).await.unwrap().unwrap_err();
    assert_eq!(refusal.message, "no", "what the second one says");
    waiting.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_controller_is_asked_where_the_first_does_not_know_a_session_or_lacks_routers() {
    use edge_ctrl::content_type::CREATE_CIRCUIT_V2_REQUEST as REQUEST;
    let waiting = Waiting::new(nowhere()).await;
    let mut peers = Vec::new();
    for id in ["ctrl1", "ctrl2", "ctrl3"] {
        let mut peer = waiting.dial(id, capable()).await.unwrap();
        peer.is_known().await;
        peers.push(peer);
    }
    let unknown = |code| edge_ctrl::EdgeError::new(code, edge_ctrl::RetryHint::START_OVER, "ended");
    let lacks = edge_ctrl::EdgeError { elsewhere: true, ..unknown(ErrorCode::INTERNAL) };
    for is_known in [true, false] {
        let made = waiting.router.control.create_circuit(request(false, LONG));
        let made = tokio::spawn(made);
        let mut answered = 0;
        while answered < 3 {
            let mut asked = None;
            for (number, peer) in peers.iter_mut().enumerate() {
                if asked.is_none() && peer.has(REQUEST) {
                    asked = Some((number, peer.expect(REQUEST).await));
                }
            }
            let Some((number, message)) = asked else {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            };
            answered += 1;
            let reply = match answered {
                1 => unknown(ErrorCode::INVALID_API_SESSION).to_message(),
                3 if is_known => {
                    let (circuit_id, address) = ("third".into(), "a".into());
                    let created =
                        edge_ctrl::CreatedCircuit { circuit_id, address, ..Default::default() };
                    created.to_message(edge_ctrl::CircuitForm::V2).unwrap()
                }
                2 => lacks.to_message(),
                _ => unknown(ErrorCode::INVALID_SESSION).to_message(),
            };
            peers[number].reply(&message, reply).await;
        }
        match (soon(made).await.unwrap(), is_known) {
            (Ok(made), true) => assert_eq!(made.id, "third"),
            (Err(refusal), false) => assert_eq!(refusal.message, "ended"),
            (other, _) => panic!("{other:?}"),
        }
    }
    waiting.router.control.shutdown().await;
}

#[tokio::test]
async fn a_controller_that_knows_less_is_told_and_its_model_is_taken_no_more() {
    let waiting = Waiting::new(nowhere()).await;
    let takes = capable().with(controller_capability::TAKES_INDEXES);
    let mut behind = waiting.dial("ctrl1", takes).await.unwrap();
    behind.give_model(Vec::new(), 10).await;
    waiting.router.online().await;
    let mut ahead = waiting.dial("ctrl2", takes).await.unwrap();
    let mut of_old = waiting.dial("ctrl3", capable()).await.unwrap();
    of_old.is_known().await;
    ahead.is_known().await;
    let sealed = |revision: u64, seal: &'static [u8]| {
        let sealed = Some(SealedRevision { revision, seal: seal.into() });
        CurrentIndex { index: 10, sealed }
    };
    behind.send(sealed(10, b"ten").to_message()).await;
    of_old.send(CurrentIndex { index: 9, sealed: None }.to_message()).await;
    ahead.send(sealed(12, b"twelve").to_message()).await;
    let told = behind.expect(edge_ctrl::content_type::CURRENT_INDEX).await;
    assert_eq!(CurrentIndex::from_message(&told), Ok(sealed(12, b"twelve")));
    // The model comes from the one that has more, from where it is.
    let moved = async {
        loop {
            tokio::select! {
                moved = ahead.get::<SubscribeToDataModelRequest>() => return moved,
                () = later(LONG / 2) => {}
            }
        }
    };
    let moved = soon(moved).await;
    assert_eq!((moved.current_index, moved.renew), (10, false));
    for peer in [&mut ahead, &mut of_old] {
        assert!(!peer.has(edge_ctrl::content_type::CURRENT_INDEX));
    }
    waiting.router.control.shutdown().await;
}
