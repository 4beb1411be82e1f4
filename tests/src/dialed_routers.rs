//! Controllers that dial routers: networks in which routers cannot dial controllers, and attackers at the
//! addresses of routers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use weft_channel::{
    AcceptOptions, Admission, ChannelAcceptor, ChannelOptions, DialError, DialOptions, Established,
    GroupPolicy, HelloGate, InboxLimits, ListenerLimits, Listeners, PeerHello, Refusal,
    Registration, TlsSource, dial, inbox,
};
use weft_contract::resource::edge_router;
use weft_identity::tls::{ClientAuth, ClientTls, ServerTls, client_config, server_config};
use weft_identity::{Identity, LiveIdentity};
use weft_wire::ctrl::{ControllerHello, CtrlChanListener, CtrlChanListeners, RouterHello};
use weft_wire::hello::{Hello, alpn};
use weft_wire::{
    Address, Capabilities, Headers, Scheme, VersionInfo, controller_capability, router_capability,
};

use crate::mesh::{at, network};
use crate::network::{LONG, Network, Peer, free_port, soon, until_some};
use crate::sdk::{dial as dial_service, echo, round_trip};

/// Tells the controller where a router takes controllers.
async fn announce(network: &Network, router: &Peer, port: u16) {
    let listeners = json!({format!("tls:localhost:{port}"): ["default"]});
    let body = json!({"ctrlChanListeners": listeners});
    network.patch(&edge_router::KIND, &router.id, &body).await;
}

async fn entity(network: &Network, router: &Peer) -> Value {
    network.admin.get(&edge_router::KIND, &router.id).await.unwrap()
}

/// Whether the controller has dialed the router that is connected; none if it is not.
fn was_dialed(network: &Network, router: &Peer) -> Option<bool> {
    network.circuits().routers().get(&router.id).map(|live| live.dialed)
}

/// The number of the channel with a router; none if it is not connected.
fn connection(network: &Network, router: &Peer) -> Option<u64> {
    network.circuits().routers().get(&router.id).map(|live| live.number())
}

/// A router that no controller reaches, and that reaches none.
async fn apart(network: &Network, port: u16) -> Peer {
    let mut router = network.enrolled_router("apart", free_port(), free_port()).await;
    router.waits_at(port);
    router
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_reaches_no_controller_is_dialed() {
    let mut network = network().await;
    let port = free_port();
    let mut router = apart(&network, port).await;
    network.dial_routers();
    announce(&network, &router, port).await;
    router.start().await;
    assert_eq!(was_dialed(&network, &router), Some(true));

    network.service("echo", false).await;
    let endpoint = at(&network, &router, "both").await;
    echo(soon(endpoint.bind("echo")).await.unwrap());
    round_trip(dial_service(&endpoint, "echo").await, 100_000).await;

    // The router comes back after a restart of either side. The controller knows the address from the
    // router's hello.
    router.stop().await;
    until_some(async || was_dialed(&network, &router).is_none().then_some(())).await;
    router.start().await;
    network.restart_controller().await;
    network.dial_routers();
    until_some(async || was_dialed(&network, &router)).await;
    round_trip(dial_service(&endpoint, "echo").await, 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_router_says_of_its_listeners_is_kept_with_it() {
    let network = network().await;
    let port = free_port();
    let mut router = network.enrolled_router("er", free_port(), free_port()).await;
    announce(&network, &router, free_port()).await;
    router.takes_controllers_at(port);
    router.start().await;
    let said = json!({format!("tls:localhost:{port}"): ["default"]});
    let kept = async || {
        let known = entity(&network, &router).await["ctrlChanListeners"].clone();
        (known == said).then_some(())
    };
    until_some(kept).await;
    // A router that does not listen any more is not reached there.
    router.stop().await;
    router.change(|config| config.ctrl.listeners.clear());
    router.start().await;
    let gone = async || {
        let known = entity(&network, &router).await["ctrlChanListeners"].clone();
        (known == json!({})).then_some(())
    };
    until_some(gone).await;
}

/// A program that answers at an address as a router.
struct Answering {
    id: String,
    answered: Arc<AtomicUsize>,
}

impl HelloGate for Answering {
    async fn check(&self, _: &PeerHello) -> Result<Admission, Refusal> {
        let mut headers = Headers::new();
        let listener = CtrlChanListener { address: "tls:elsewhere:1".into(), groups: vec![] };
        RouterHello {
            version: VersionInfo::from_header("v2.1.0|r|d|linux|amd64"),
            capabilities: Capabilities::NONE.with(router_capability::MULTI_CHANNEL),
            ctrl_chan_listeners: CtrlChanListeners { listeners: vec![listener] },
            ..RouterHello::default()
        }
        .write(&mut headers);
        Ok(Admission {
            listener_id: self.id.clone(),
            identity: Vec::new(),
            headers,
            channel: ChannelOptions::control("controller"),
            group: Some(GroupPolicy::control_listener()),
        })
    }

    async fn established(&self, channel: Established) {
        self.answered.fetch_add(1, Ordering::SeqCst);
        let (behaviour, mut inbox) = inbox(InboxLimits::default());
        let channel = channel.start(behaviour);
        tokio::spawn(async move {
            let _open = channel;
            while inbox.recv().await.is_some() {}
        });
    }
}

/// Answers at a port as the router of an id, with other keys.
async fn answer(port: u16, keys: &Arc<LiveIdentity>, id: &str) -> (Registration, Arc<AtomicUsize>) {
    let answered = Arc::new(AtomicUsize::new(0));
    let gate = Answering { id: id.to_owned(), answered: Arc::clone(&answered) };
    let acceptor = Arc::new(ChannelAcceptor::new(gate, AcceptOptions::default()));
    let alpn_ctrl = [alpn::CTRL.as_bytes()];
    let tls = ServerTls { alpn: &alpn_ctrl, client_auth: ClientAuth::Require };
    let tls = Arc::new(server_config(keys, &tls).unwrap());
    let source: TlsSource = Arc::new(move || Some(Arc::clone(&tls)));
    let bind = format!("127.0.0.1:{port}");
    let registration = until_some(async || {
        let (limits, acceptor) = (ListenerLimits::default(), Arc::clone(&acceptor));
        let listeners = Listeners::new();
        listeners.listen(&bind, limits, &[alpn::CTRL], Arc::clone(&source), acceptor).await.ok()
    })
    .await;
    (registration, answered)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_answers_at_the_address_of_a_router_does_not_become_it() {
    let network = network().await;
    let port = free_port();
    let router = apart(&network, port).await;
    let liar = network.enrolled_router("liar", free_port(), free_port()).await;
    announce(&network, &router, port).await;
    network.dial_routers();
    // Another router with its own keys, under the name of the router and under its own; and it shows the
    // router's certificate, which is no secret, behind its own.
    let (own, others) = (liar.identity().current(), router.identity().current());
    let server = &own.servers()[0];
    let mut chain = vec![server.leaf().clone()];
    chain.extend_from_slice(others.client().unwrap().chain());
    let chain = weft_identity::KeyedChain::new(chain, server.key().clone()).unwrap();
    let both = Identity::new(None, vec![chain], own.ca().clone());
    for (keys, id) in [
        (liar.identity(), router.id.as_str()),
        (liar.identity(), liar.id.as_str()),
        (LiveIdentity::fixed(both), router.id.as_str()),
    ] {
        let (listening, answered) = answer(port, &keys, id).await;
        // The router was dialed again, so the first dial failed.
        until_some(async || (answered.load(Ordering::SeqCst) >= 2).then_some(())).await;
        for id in [&router.id, &liar.id] {
            assert!(network.circuits().routers().get(id).is_none());
        }
        drop(listening);
    }
    let known = entity(&network, &router).await;
    assert_eq!(known["isOnline"], json!(false));
    assert_eq!(known["ctrlChanListeners"], json!({format!("tls:localhost:{port}"): ["default"]}));
    // With the keys of the router it is the router.
    let (_listening, _) = answer(port, &router.identity(), &router.id).await;
    until_some(async || was_dialed(&network, &router)).await;
}

/// Connects to a router as a program that claims to be a controller.
async fn command(port: u16, keys: &Arc<LiveIdentity>, id: &str) -> Result<Established, DialError> {
    let tls = Arc::new(client_config(&ClientTls::of_identity(keys, &[])).unwrap());
    let mut hello = Hello::new(id);
    let capabilities = Capabilities::NONE.with(controller_capability::JWT_LEGACY_SESSIONS);
    let version = VersionInfo::from_header("v2.1.0|r|d|linux|amd64");
    ControllerHello { version, capabilities }.write(&mut hello.headers);
    let address = Address::new(Scheme::Tls, "localhost", port);
    let channel = ChannelOptions::control("controller");
    let options = DialOptions::new(address, tls, alpn::CTRL, hello, channel);
    soon(dial(DialOptions { group: Some(GroupPolicy::control_listener()), ..options })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_controller_commands_a_router_that_waits_for_one() {
    let network = network().await;
    let port = free_port();
    let mut router = apart(&network, port).await;
    let liar = network.enrolled_router("liar", free_port(), free_port()).await;
    announce(&network, &router, port).await;
    network.dial_routers();
    router.start().await;
    let client = network.identity_file("client").await;
    let client = LiveIdentity::load(client.section()).unwrap();
    let (other, own) = (liar.identity(), router.identity());
    for keys in [&client, &other, &own] {
        for id in ["ctrl1", "ctrl2", liar.id.as_str()] {
            // The handshake succeeds: the program is disconnected after it has shown its
            // certificate.
            let refused = command(port, keys, id).await.unwrap_err();
            assert!(matches!(refused, DialError::Hello { .. }), "{id}: {refused}");
        }
    }
    // The controller itself is accepted, and there is one channel with it.
    let controller = network.controller_identity();
    let other = command(port, &controller, "ctrl2").await.unwrap_err().to_string();
    assert!(other.contains("its hello has the id"), "{other}");
    let again = command(port, &controller, "ctrl1").await.unwrap_err().to_string();
    assert!(again.contains("already connected to controller ctrl1"), "{again}");
    assert_eq!(was_dialed(&network, &router), Some(true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_and_a_controller_that_dial_each_other_keep_one_channel() {
    let network = network().await;
    let port = free_port();
    let mut router = network.enrolled_router("er", free_port(), free_port()).await;
    router.takes_controllers_at(port);
    announce(&network, &router, port).await;
    network.dial_routers();
    for _ in 0..2 {
        router.start().await;
        // If both have dialed at the same moment, one channel gives way to the other one. It has stayed when it is there
        // for ten times as long as the controller waits before it looks again, and for longer than the router waits
        // between two dials.
        let has_stayed = async || {
            let first = connection(&network, &router)?;
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            (connection(&network, &router) == Some(first)).then_some(())
        };
        tokio::time::timeout(LONG, until_some(has_stayed)).await.unwrap();
        router.stop().await;
        let gone = async || connection(&network, &router).is_none().then_some(());
        tokio::time::timeout(LONG, until_some(gone)).await.unwrap();
    }
}
