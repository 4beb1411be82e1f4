//! Routers without a section of their file, and the functions that they lack
//! (docs/router-config.md).

use std::net::TcpListener;
use std::path::Path;

use weft_config::RouterConfig;
use weft_wire::ProtoBody;
use weft_wire::ctrl::{
    self, DestType, Listener, PeerState, PeerStateChange, PeerStateChanges, Route, RouteErrorCode,
    RouteResult, route,
};
use weft_wire::edge_ctrl::data_model::SubscribeToDataModelRequest;

use super::support::{Peer, Pki, TestController, capable, soon, until};
use super::whole::config_with;
use crate::{Router, Runtimes};

/// A router of a file with these sections, and its controller.
struct Started {
    router: Router,
    peer: Peer,
    home: tempfile::TempDir,
    _controller: TestController,
}

async fn start(more: &str) -> Started {
    let pki = Pki::new();
    let home = tempfile::tempdir().unwrap();
    let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
    let config = config_with(&pki, home.path(), controller.addr().port(), None, more);
    let router = soon(Router::start(&config, Runtimes::own().unwrap())).await.unwrap();
    let peer = controller.router().await;
    Started { router, peer, home, _controller: controller }
}

impl Started {
    /// The answer of the router to a command to dial a destination for a circuit.
    async fn dials(&mut self, destination: &str) -> RouteResult {
        let mut route = Route {
            circuit_id: "c1".into(),
            attempt: 1,
            egress: Some(route::Egress {
                binding: "transport".into(),
                address: "E".into(),
                destination: destination.into(),
                ..route::Egress::default()
            }),
            forwards: vec![route::Forward {
                src_address: "I".into(),
                dst_address: "E".into(),
                dst_type: DestType::End.into(),
            }],
            ..Route::default()
        };
        route.set_time_left(5_000_000_000);
        self.peer.send(route.to_message()).await;
        let result = self.peer.expect(ctrl::content_type::ROUTE_RESULT).await;
        RouteResult::from_message(&result).unwrap()
    }
}

fn application() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    (listener, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn three_sections_are_a_router_of_the_fabric() {
    let mut started = start("").await;
    soon(started.router.online()).await;
    started.peer.is_known().await;
    assert!(started.router.edge_addresses().is_empty());
    assert!(started.router.link_addresses().is_empty());
    assert!(started.peer.hello.listeners.listeners.is_empty());
    assert!(!started.peer.has(SubscribeToDataModelRequest::CONTENT_TYPE));
    let files = |home: &Path| std::fs::read_dir(home).unwrap().count();
    let before = files(started.home.path());
    soon(started.router.shutdown()).await;
    assert_eq!(files(started.home.path()), before, "no data model is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_edge_no_sdk_connects() {
    let started = start("").await;
    soon(started.router.online()).await;
    assert!(started.router.edge_addresses().is_empty());
    soon(started.router.shutdown()).await;
    // A listener for SDKs is refused in words.
    let text = "v: 3\nidentity: {cert: a, server_cert: s, key: b}\nctrl: {endpoint: 'tls:c:1'}\n\
        listeners: [{binding: edge, address: 'tls:127.0.0.1:1', advertise: 'localhost:1'}]\n";
    let none = |_: &str| None;
    let refused = RouterConfig::from_str(text, Path::new("router.yml"), &none).unwrap_err();
    assert!(refused.to_string().contains("needs the section `edge`"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_link_no_other_router_is_dialed() {
    let (listener, address) = application();
    listener.set_nonblocking(true).unwrap();
    let news = || {
        let listener = Listener {
            address: address.replace("tcp:127.0.0.1", "tls:localhost"),
            protocol: "tls".into(),
            groups: vec!["default".into()],
            ..Listener::default()
        };
        let change = PeerStateChange {
            id: "r2".into(),
            version: "v2.1.0".into(),
            state: PeerState::Healthy.into(),
            listeners: vec![listener],
            server_keys: Vec::new(),
        };
        PeerStateChanges { changes: vec![change] }.to_message()
    };
    let mut started = start("").await;
    started.peer.is_known().await;
    started.peer.send(news()).await;
    // A router that answers a later message has read the earlier one.
    let _ = started.dials("tcp:127.0.0.1:1").await;
    assert_eq!(started.router.data().link_count(), 0);
    soon(started.router.shutdown()).await;
    assert!(listener.accept().is_err(), "nobody dialed");

    let mut linked = start("link: {dialers: [{binding: transport}]}\n").await;
    linked.peer.is_known().await;
    linked.peer.send(news()).await;
    until(|| listener.accept().is_ok()).await;
    soon(linked.router.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_dialers_nothing_is_terminated() {
    let (_listener, address) = application();
    let mut started = start("").await;
    let error = started.dials(&address).await.result.unwrap_err();
    assert_eq!(error.code, RouteErrorCode::MisconfiguredTerminator);
    assert!(error.text.contains("no dialer for binding transport"), "{}", error.text);
    soon(started.router.shutdown()).await;

    for binding in ["transport", "tunnel"] {
        let mut dialing = start(&format!("dialers: [{{binding: {binding}}}]\n")).await;
        dialing.dials(&address).await.result.unwrap();
        soon(dialing.router.shutdown()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_is_taken_leaves_nothing_behind() {
    let pki = Pki::new();
    let home = tempfile::tempdir().unwrap();
    let (first, second) = (application().0, application().0);
    let free = first.local_addr().unwrap().port();
    let taken = second.local_addr().unwrap().port();
    drop(first);
    let more = format!(
        "edge: {{}}\nlisteners:\n- {{binding: edge, address: 'tls:127.0.0.1:{free}', advertise: 'localhost:1'}}\n\
         - {{binding: edge, address: 'tls:127.0.0.1:{taken}', advertise: 'localhost:1'}}\n"
    );
    let config = config_with(&pki, home.path(), 1, None, &more);
    let handle = tokio::runtime::Handle::current();
    let started = soon(Router::start(&config, Runtimes::given(handle.clone(), handle))).await;
    assert!(started.is_err());
    until(|| TcpListener::bind(("127.0.0.1", free)).is_ok()).await;
}
