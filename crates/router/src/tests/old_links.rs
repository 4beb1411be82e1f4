//! Links with routers that make no groups of connections: one connection carries payloads and acks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls_pki_types::CertificateDer;
use tokio::sync::mpsc;
use weft_channel::{
    AcceptOptions, Admission, ChannelAcceptor, ChannelHandle, ChannelOptions, DialOptions,
    Established, HelloGate, Inbox, InboxLimits, ListenerLimits, PeerHello, Refusal, Registration,
    SharedListener, dial, inbox,
};
use weft_identity::tls::{ClientAuth, ClientTls, ServerTls, client_config, server_config};
use weft_wire::ctrl::{
    self, DestType, Listener, PeerState, PeerStateChange, PeerStateChanges, Route, RouteResult,
    RouterLinks, route,
};
use weft_wire::hello::{alpn, header, underlay};
use weft_wire::link::LinkHello;
use weft_wire::payload::{Ack, Payload};
use weft_wire::{Address, Headers, Message, Outcome, ProtoBody as _, Scheme};

use super::support::{Peer, Pki, TestController, capable, soon, until};
use super::whole::config_with;
use crate::{Router, Runtimes};

const LINKS: &str = "link: {listeners: [{binding: transport, bind: 'tls:127.0.0.1:0', advertise: \
                     'tls:localhost:0'}], dialers: [{binding: transport, split: false}]}\n";

/// The end of a link at an old router.
struct OldEnd {
    link: String,
    channel: ChannelHandle,
    inbox: Inbox,
}

impl OldEnd {
    fn start(link: String, established: Established) -> Self {
        let (behaviour, inbox) = inbox(InboxLimits::default());
        Self { link, channel: established.start(behaviour), inbox }
    }

    /// Sends a payload and an ack of the circuit, and checks that both arrive at the other link.
    async fn reaches(&self, other: &mut Self, number: i32) {
        let data = format!("payload {number}").into();
        let payload = Payload { sequence: number, data, ..Payload::default() };
        let ack = Ack { sequences: vec![number], ..Ack::default() };
        self.channel.send(payload.clone().into_message("c1")).await.unwrap();
        self.channel.send(ack.clone().into_message("c1")).await.unwrap();
        let (mut payloads, mut acks) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let message = soon(other.inbox.recv()).await.unwrap();
            match Payload::from_message(&message) {
                Ok(payload) => payloads.push(payload),
                Err(_) => acks.push(Ack::from_message(&message).unwrap()),
            }
        }
        assert_eq!((payloads, acks), (vec![payload], vec![ack]));
    }
}

/// An old router that takes links. The answers to hellos name no group.
struct OldListener {
    registration: Registration,
    links: mpsc::UnboundedReceiver<(bool, Established)>,
}

/// The answer of router `old` to every hello, without a group.
fn admission() -> Admission {
    Admission {
        listener_id: "old".into(),
        identity: Vec::new(),
        headers: Headers::new(),
        channel: ChannelOptions::link("new"),
        group: None,
    }
}

struct OldGate(mpsc::UnboundedSender<(bool, Established)>);

impl HelloGate for OldGate {
    async fn check(&self, _: &PeerHello) -> Result<Admission, Refusal> {
        Ok(admission())
    }

    async fn established(&self, channel: Established) {
        let asked_for_a_group = channel.peer().headers.get_bool(header::IS_GROUPED) == Some(true);
        let _ = self.0.send((asked_for_a_group, channel));
    }
}

impl OldListener {
    async fn new(pki: &Pki) -> Self {
        let (sender, links) = mpsc::unbounded_channel();
        Self { registration: listen(pki, "old", OldGate(sender)).await, links }
    }
}

/// A listener for links, with a certificate of this router.
async fn listen(pki: &Pki, name: &str, gate: impl HelloGate) -> Registration {
    let acceptor = ChannelAcceptor::new(gate, AcceptOptions::default());
    let listener = SharedListener::bind("127.0.0.1:0", ListenerLimits::default()).await.unwrap();
    let tls = ServerTls { alpn: &[], client_auth: ClientAuth::Require };
    let config = Arc::new(server_config(&pki.identity(name), &tls).unwrap());
    let source = Arc::new(move || Some(config.clone()));
    listener.register(&[alpn::LINK], source, Arc::new(acceptor)).unwrap()
}

/// The report of a controller that router `old` listens there.
fn news(at: &Registration, version: &str, server_keys: Vec<String>) -> Message {
    let listener = Listener {
        address: format!("tls:localhost:{}", at.local_addr().port()),
        protocol: "tls".into(),
        groups: vec!["default".into()],
        local_binding: String::new(),
    };
    let change = PeerStateChange {
        id: "old".into(),
        version: version.into(),
        state: PeerState::Healthy.into(),
        listeners: vec![listener],
        server_keys,
    };
    PeerStateChanges { changes: vec![change] }.to_message()
}

/// A further old router opens a link with one connection, whose type means nothing without a group.
async fn old_dialer(pki: &Pki, router: &Router, controller: &mut Peer, kind: &str) -> OldEnd {
    let hello = LinkHello {
        link_id: "from-old".into(),
        connection_id: "connection".into(),
        router_id: "older".into(),
        iteration: 1,
        ..LinkHello::default()
    };
    let mut hello = hello.to_hello();
    if !kind.is_empty() {
        hello.headers.set_str(header::TYPE, kind);
    }
    let tls = client_config(&ClientTls::of_identity(&pki.identity("older"), &[])).unwrap();
    let address = Address::new(Scheme::Tls, "localhost", router.link_addresses()[0].port());
    let channel = ChannelOptions::link("new");
    let dialing = dial(DialOptions::new(address, Arc::new(tls), alpn::LINK, hello, channel));
    let confirming = async {
        let asked = controller.expect(ctrl::content_type::VERIFY_ROUTER).await;
        controller.reply(&asked, Outcome::success("router verified").to_message()).await;
    };
    let (established, ()) = soon(async { tokio::join!(dialing, confirming) }).await;
    OldEnd::start("from-old".into(), established.unwrap())
}

/// A router at the address of another one. It counts its peers, and whether one of them said hello.
struct Impostor {
    peers: Arc<AtomicUsize>,
    hellos: Arc<AtomicUsize>,
}

impl HelloGate for Impostor {
    fn screen(&self, _: &[CertificateDer<'static>]) -> Result<(), Refusal> {
        self.peers.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn check(&self, _: &PeerHello) -> Result<Admission, Refusal> {
        self.hellos.fetch_add(1, Ordering::Relaxed);
        Ok(admission())
    }

    async fn established(&self, _: Established) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_answers_in_place_of_another_hears_nothing() {
    let (pki, home) = (Pki::new(), tempfile::tempdir().unwrap());
    let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
    let links = LINKS.replace(
        "split: false",
        "healthyDialBackoff: {minRetryInterval: 20ms, maxRetryInterval: 20ms}",
    );
    let config = config_with(&pki, home.path(), controller.addr().port(), None, &links);
    let router = soon(Router::start(&config, Runtimes::own().unwrap())).await.unwrap();
    let mut controller = controller.router().await;
    controller.get::<RouterLinks>().await;
    // Whatever its certificate says of hosts: it is that of another router, or has another key.
    for (name, keys) in [("other", Vec::new()), ("old", vec!["0".repeat(64)])] {
        let (peers, hellos) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let gate = Impostor { peers: Arc::clone(&peers), hellos: Arc::clone(&hellos) };
        let registration = listen(&pki, name, gate).await;
        controller.send(news(&registration, "v2.1.0", keys)).await;
        until(|| peers.load(Ordering::Relaxed) >= 3).await;
        assert_eq!(hellos.load(Ordering::Relaxed), 0, "{name}");
        assert!(kinds(&router).is_empty(), "{name}");
    }
    soon(router.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_judged_again_when_its_router_has_other_keys() {
    let (pki, home) = (Pki::new(), tempfile::tempdir().unwrap());
    let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
    let config = config_with(&pki, home.path(), controller.addr().port(), None, LINKS);
    let router = soon(Router::start(&config, Runtimes::own().unwrap())).await.unwrap();
    let mut controller = controller.router().await;
    controller.get::<RouterLinks>().await;

    let mut old = OldListener::new(&pki).await;
    let named = |keys| news(&old.registration, "v1.6.5", keys);
    controller.send(named(Vec::new())).await;
    let (_, established) = soon(old.links.recv()).await.unwrap();
    let mut dialed = OldEnd::start("dialed".into(), established);
    let dialing = old_dialer(&pki, &router, &mut controller, "").await;
    until(|| kinds(&router).len() == 2).await;

    // One of the keys that are named is shown.
    let shown = pki.identity("old").current().servers()[0].leaf().public_key().unwrap().print();
    let named_with = |more: &str| named(vec![more.repeat(64), shown.clone()]);
    controller.send(named_with("0")).await;
    controller.send(named_with("1")).await;
    // Another one has the place of the router now, or had it before.
    controller.send(named(vec!["0".repeat(64)])).await;
    assert!(soon(dialed.inbox.recv()).await.is_none(), "the link is closed");
    until(|| kinds(&router).len() == 1).await;
    assert!(!dialing.channel.is_closed());

    // Of a router that dialed, a controller is asked.
    let older = PeerStateChange {
        id: "older".into(),
        version: "v1.6.5".into(),
        state: PeerState::Healthy.into(),
        listeners: Vec::new(),
        server_keys: vec!["0".repeat(64)],
    };
    controller.send(PeerStateChanges { changes: vec![older] }.to_message()).await;
    let asked = controller.expect(ctrl::content_type::VERIFY_ROUTER).await;
    controller
        .reply(&asked, Outcome::failure("the certificate is not the router's").to_message())
        .await;
    until(|| dialing.channel.is_closed()).await;
    soon(router.shutdown()).await;
}

/// A circuit from one link to the other.
fn transit(one: &str, other: &str) -> Message {
    let forward = |from: &str, to: &str| route::Forward {
        src_address: from.into(),
        dst_address: to.into(),
        dst_type: DestType::Link.into(),
    };
    let forwards = vec![forward(one, other), forward(other, one)];
    let mut route = Route { circuit_id: "c1".into(), forwards, ..Route::default() };
    route.set_time_left(5_000_000_000);
    route.to_message()
}

/// The types of a router's connections, of all links.
fn kinds(router: &Router) -> Vec<String> {
    let reports = router.data().linking().unwrap().all_reports();
    reports.into_iter().flat_map(|report| report.connections).map(|one| one.kind).collect()
}

/// Links a router with two old ones, and sends payloads and acks through it in both directions.
async fn through(version: &str, asks_for_a_group: bool, kind: &str) {
    let (pki, home) = (Pki::new(), tempfile::tempdir().unwrap());
    let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
    let config = config_with(&pki, home.path(), controller.addr().port(), None, LINKS);
    let router = soon(Router::start(&config, Runtimes::own().unwrap())).await.unwrap();
    let mut controller = controller.router().await;
    controller.get::<RouterLinks>().await;

    let mut old = OldListener::new(&pki).await;
    controller.send(news(&old.registration, version, Vec::new())).await;
    let (asked, established) = soon(old.links.recv()).await.unwrap();
    assert_eq!(asked, asks_for_a_group);
    let reported = controller.get::<RouterLinks>().await.links.remove(0);
    let types = reported.conn_state.unwrap().conns.into_iter().map(|one| one.r#type);
    assert_eq!(types.collect::<Vec<_>>(), ["single"]);
    let mut dialed = OldEnd::start(reported.id, established);
    let mut dialing = old_dialer(&pki, &router, &mut controller, kind).await;
    until(|| kinds(&router).len() == 2).await;
    assert_eq!(kinds(&router), ["single"; 2]);

    // A link that a router has accepted takes routes a moment after its other end knows of it.
    let routed = async {
        loop {
            controller.send(transit(&dialed.link, &dialing.link)).await;
            let result = controller.expect(ctrl::content_type::ROUTE_RESULT).await;
            if RouteResult::from_message(&result).unwrap().result.is_ok() {
                return;
            }
        }
    };
    soon(routed).await;
    for number in 0..20 {
        dialed.reaches(&mut dialing, number).await;
        dialing.reaches(&mut dialed, number).await;
    }
    assert_eq!(kinds(&router), ["single"; 2]);
    assert_eq!((dialed.channel.underlays().len(), dialing.channel.underlays().len()), (1, 1));
    assert!(!dialed.channel.is_closed() && !dialing.channel.is_closed());
    soon(router.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_answers_without_a_group_has_one_connection_for_everything() {
    Box::pin(through("v2.1.0", true, "")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_before_1_6_6_has_one_connection_for_everything() {
    Box::pin(through("v1.6.5", false, "")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_type_of_a_connection_without_a_group_has_no_meaning() {
    Box::pin(through("v1.6.5", false, underlay::LINK_ACK)).await;
}
