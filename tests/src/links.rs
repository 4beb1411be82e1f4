//! Links that form again while no controller can be asked, and links to routers of old releases.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;
use weft_channel::{
    AcceptOptions, Admission, ChannelAcceptor, ChannelOptions, DialOptions, Established, HelloGate,
    InboxLimits, ListenerLimits, PeerHello, Refusal, SharedListener, dial, inbox,
};
use weft_contract::resource::edge_router;
use weft_identity::tls::{ClientAuth, ClientTls, ServerTls, client_config, server_config};
use weft_wire::ctrl::{Listener, Listeners, RouterHello};
use weft_wire::hello::{Hello, alpn};
use weft_wire::link::{LinkHello, SplitPart};
use weft_wire::{Address, Headers, Scheme, VersionInfo};

use crate::mesh::{links, network};
use crate::network::{Network, Peer, free_port, soon, until_some};
use crate::wires::Wires;

/// The port at which a router finds the controller.
fn controller_of(router: &mut Peer) -> u16 {
    let mut port = 0;
    router.change(|config| {
        let address: Address = config.ctrl.endpoints[0].to_string().parse().unwrap();
        port = address.port;
    });
    port
}

/// A router that reaches the controller over wires. `dials` tells whether it dials other routers.
async fn reached(network: &Network, link: u16, advertised: u16, dials: bool) -> (Peer, Wires) {
    let mut router = network.enrolled_router("victim", link, advertised).await;
    let wires = Wires::to(controller_of(&mut router)).await;
    router.change(|config| {
        config.ctrl.endpoints = vec![format!("tls:localhost:{}", wires.port).parse().unwrap()];
        if !dials {
            config.link.dialers.clear();
        }
    });
    router.start().await;
    (router, wires)
}

/// Cuts wires, and lets nothing through.
fn cut(wires: &Wires) {
    wires.pause(true);
    wires.cut();
}

/// How often the link between two routers was dialed, once the controller knows of more dials than
/// `before`.
async fn dials(network: &Network, one: &Peer, other: &Peer, before: u32) -> u32 {
    until_some(async || {
        let all = network.circuits().links().all();
        let link = all.iter().find(|link| link.has_end(&one.id) && link.has_end(&other.id))?;
        (link.iteration > before).then_some(link.iteration)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_formed_without_a_controller_are_confirmed_when_it_is_back() {
    let network = network().await;
    let port = free_port();
    let wires = Wires::to(port).await;
    let (victim, control) = reached(&network, port, wires.port, false).await;
    // These dial the victim, and not each other.
    let good = network.router_behind("good", free_port(), free_port()).await;
    let off = network.router_behind("off", free_port(), free_port()).await;
    let gone = network.router_behind("gone", free_port(), free_port()).await;
    links(&victim, 3).await;
    let first = dials(&network, &good, &victim, 0).await;
    cut(&control);
    cut(&wires);
    links(&victim, 0).await;
    wires.pause(false);
    links(&victim, 3).await;
    let formed = dials(&network, &good, &victim, first).await;
    network.patch(&edge_router::KIND, &off.id, &json!({"disabled": true})).await;
    network.admin.delete(&edge_router::KIND, &gone.id).await.unwrap();
    assert_eq!(victim.router().data().link_count(), 3);
    control.pause(false);
    links(&victim, 1).await;
    assert_eq!(dials(&network, &good, &victim, first).await, formed);
    // They are not let in again.
    let refused = victim.router().data().links_refused();
    until_some(async || (victim.router().data().links_refused() > refused).then_some(())).await;
    assert_eq!(victim.router().data().link_count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_hears_late_that_the_router_it_dialed_was_removed() {
    let network = network().await;
    let port = free_port();
    let mut gone = network.enrolled_router("gone", port, port).await;
    gone.change(|config| config.link.dialers.clear());
    gone.start().await;
    let (victim, control) = reached(&network, free_port(), free_port(), true).await;
    links(&victim, 1).await;
    cut(&control);
    network.admin.delete(&edge_router::KIND, &gone.id).await.unwrap();
    until_some(async || network.circuits().links().all().is_empty().then_some(())).await;
    assert_eq!(victim.router().data().link_count(), 1);
    control.pause(false);
    links(&victim, 0).await;
}

/// A router of an old release: it takes links that are no groups.
struct Old {
    hellos: Arc<Mutex<Vec<LinkHello>>>,
    channels: mpsc::UnboundedSender<Established>,
}

impl HelloGate for Old {
    async fn check(&self, peer: &PeerHello) -> Result<Admission, Refusal> {
        if peer.hello.is_grouped() {
            return Err(Refusal::close("groups are not understood"));
        }
        self.hellos.lock().push(LinkHello::from_hello(&peer.hello).unwrap());
        Ok(Admission {
            listener_id: "old".into(),
            identity: Vec::new(),
            headers: Headers::new(),
            channel: ChannelOptions::link("old"),
            group: None,
        })
    }

    async fn established(&self, channel: Established) {
        let _ = self.channels.send(channel);
    }
}

/// The hellos with which a router opens a link to a router of a release that has no groups.
async fn hellos(split: bool, release: &str) -> (Vec<LinkHello>, usize) {
    let network = network().await;
    let mut old = network.enrolled_router("old", free_port(), free_port()).await;
    let hellos = Arc::<Mutex<Vec<LinkHello>>>::default();
    let (channels, mut opened) = mpsc::unbounded_channel();
    let gate = Old { hellos: Arc::clone(&hellos), channels };
    let acceptor = Arc::new(ChannelAcceptor::new(gate, AcceptOptions::default()));
    let listener = SharedListener::bind("127.0.0.1:0", ListenerLimits::default()).await.unwrap();
    let alpn = [alpn::LINK.as_bytes()];
    let tls = ServerTls { alpn: &alpn, client_auth: ClientAuth::Require };
    let tls = Arc::new(server_config(&old.identity(), &tls).unwrap());
    let source = Arc::new(move || Some(Arc::clone(&tls)));
    let listening = listener.register(&[alpn::LINK], source, acceptor).unwrap();

    let controller = Address::new(Scheme::Tls, "127.0.0.1", controller_of(&mut old));
    let mut hello = Hello::new(old.id.as_str());
    let listener = Listener {
        address: format!("tls:127.0.0.1:{}", listening.local_addr().port()),
        protocol: "tls".into(),
        groups: vec!["default".into()],
        local_binding: String::new(),
    };
    RouterHello {
        version: VersionInfo::from_header(&format!("{release}|r|d|linux|amd64")),
        listeners: Listeners { listeners: vec![listener] },
        ..RouterHello::default()
    }
    .write(&mut hello.headers);
    let tls = Arc::new(client_config(&ClientTls::of_identity(&old.identity(), &[])).unwrap());
    let channel = ChannelOptions::control("old");
    let told = DialOptions::new(controller, tls, alpn::CTRL, hello, channel);
    let (behaviour, _inbox) = inbox(InboxLimits::default());
    let _control = soon(dial(told)).await.unwrap().start(behaviour);

    let mut router = network.enrolled_router("new", free_port(), free_port()).await;
    router.change(|config| config.link.dialers.iter_mut().for_each(|one| one.split = split));
    router.start().await;
    let mut kept = Vec::new();
    for _ in 0..if split { 2 } else { 1 } {
        let (behaviour, inbox) = inbox(InboxLimits::default());
        kept.push((soon(opened.recv()).await.unwrap().start(behaviour), inbox));
    }
    links(&router, 1).await;
    let said = hellos.lock().clone();
    (said, router.router().data().link_count())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_router_is_dialed_with_one_connection_or_two() {
    let (said, count) = Box::pin(hellos(true, "v1.6.5")).await;
    assert_eq!((said.len(), count), (2, 1));
    assert_eq!(said[0].part, Some(SplitPart::Payload));
    assert_eq!(said[1].part, Some(SplitPart::Ack));
    assert_eq!(said[0].connection_id, said[1].connection_id);
    assert_eq!((said[0].dialed_version.as_str(), said[0].iteration), ("v1.6.5", 1));
    let (said, count) = Box::pin(hellos(false, "v1.5.0")).await;
    assert_eq!((said.len(), count), (1, 1));
    assert_eq!(said[0].part, None);
}
