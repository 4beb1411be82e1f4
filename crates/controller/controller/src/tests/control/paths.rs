//! Paths that change, and routers that report links and circuits of others.

use std::time::Duration;

use serde_json::{Value, json};
use weft_model::Id;
use weft_network::NetworkOptions;
use weft_wire::ctrl::{
    self, Fault, FaultSubject, LinkConnState, LinkStateUpdate, REROUTE_ATTEMPT, Route, RouteError,
    RouteErrorCode, RouteResult, RouterLinks, Unroute,
};
use weft_wire::edge_ctrl::{
    CreateTunnelCircuitV2Request, CreateTunnelCircuitV2Response, CreateTunnelTerminatorRequestV2,
};
use weft_wire::metrics::{Histogram, MetricsMessage, link_latency_name};
use weft_wire::{Message, PeerData, ProtoBody};

use super::circuits::{dial_with, fine};
use super::mesh::{destinations, link, route};
use super::support::{LONG, Net, Peer, TestRouter, quick, until};

/// Three routers: the first dials a service that the last hosts, over the link between them or over
/// the second.
struct Triangle {
    net: Net,
    routers: [TestRouter; 3],
    dialer: Peer,
    transit: Peer,
    host: Peer,
}

impl Triangle {
    async fn new(options: NetworkOptions) -> Self {
        let net = Net::with(options).await;
        let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
        let routers = [net.router("er1").await, net.router("er2").await, net.router("er3").await];
        let dialer = net.connect(&routers[0]).await;
        let transit = net.connect(&routers[1]).await;
        let host = net.connect(&routers[2]).await;
        let terminator = CreateTunnelTerminatorRequestV2 {
            service_id: service.to_string(),
            address: "t1".into(),
            ..CreateTunnelTerminatorRequestV2::default()
        };
        host.ask(terminator.to_message()).await;
        let links = vec![link("direct", &routers[2]), link("to", &routers[1])];
        dialer.send(RouterLinks { links, full_refresh: true }.to_message()).await;
        let links = vec![link("from", &routers[2])];
        transit.send(RouterLinks { links, full_refresh: true }.to_message()).await;
        dialer.settled().await;
        transit.settled().await;
        Self { net, routers, dialer, transit, host }
    }

    /// Both ends of each link measured its latency, in milliseconds.
    async fn measure(&self, latencies: &[(&str, u64)]) {
        for peer in [&self.dialer, &self.transit, &self.host] {
            let own = latencies.iter().filter(|(link, _)| {
                let link = self.net.network.links().get(link).unwrap();
                link.has_end(self.routers[self.number(peer)].id.as_str())
            });
            let histograms = own.map(|(link, millis)| {
                let mean = *millis as f64 * 1e6;
                (link_latency_name(link), Histogram { mean, ..Histogram::default() })
            });
            let report =
                MetricsMessage { histograms: histograms.collect(), ..MetricsMessage::default() };
            peer.send(report.to_message()).await;
            peer.settled().await;
        }
    }

    fn number(&self, peer: &Peer) -> usize {
        let peers = [&self.dialer, &self.transit, &self.host];
        peers.iter().position(|one| std::ptr::eq(*one, peer)).unwrap()
    }

    /// A circuit over the direct link: its id, and the address where it begins.
    async fn circuit(&mut self) -> (String, String) {
        let channel = self.dialer.channel.clone();
        let asked = tokio::spawn(async move { channel.request(dial(), LONG).await.unwrap() });
        assert_eq!(destinations(&route(&mut self.dialer).await)[0], "direct");
        route(&mut self.host).await;
        let made = CreateTunnelCircuitV2Response::from_message(&asked.await.unwrap()).unwrap();
        (made.circuit_id, made.address)
    }

    async fn has_path(&self, circuit: &str, links: &[&str]) {
        let circuits = self.net.network.circuits();
        until(|| circuits.get(circuit).is_some_and(|it| it.path.links == links)).await;
    }

    async fn refused(&self) -> Value {
        let asked = ["refused-reports".to_owned()];
        let inspected = self.net.network.inspect("^ctrl1$", &asked).await;
        inspected.values[0].value.clone()
    }
}

fn dial() -> Message {
    CreateTunnelCircuitV2Request {
        service_name: "web".into(),
        ..CreateTunnelCircuitV2Request::default()
    }
    .to_message()
}

fn done(message: &Message, result: Result<PeerData, RouteError>) -> Message {
    let Route { circuit_id, attempt, .. } = Route::from_message(message).unwrap();
    RouteResult { circuit_id, attempt, result }.to_message().in_reply_to(message)
}

#[tokio::test]
async fn nobody_sends_to_a_router_that_does_not_know_the_way_yet() {
    let mut mesh = Triangle::new(quick()).await;
    let (circuit, address) = mesh.circuit().await;
    mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
    // The ends are told the destinations for payloads from their new links, and continue with the
    // same ends.
    let new = route(&mut mesh.dialer).await;
    assert_eq!((new.attempt, destinations(&new)), (REROUTE_ATTEMPT, vec![address.as_str()]));
    assert_eq!(route(&mut mesh.host).await.forwards.len(), 1);
    let between = mesh.transit.expect(ctrl::content_type::ROUTE).await;
    let told = Route::from_message(&between).unwrap();
    assert_eq!(destinations(&told), ["from", "to"]);
    mesh.dialer.settled().await;
    mesh.host.settled().await;
    assert!(!mesh.dialer.has(ctrl::content_type::ROUTE));
    assert!(!mesh.host.has(ctrl::content_type::ROUTE));
    // The ends change only after the router between them knows the new routes.
    mesh.transit.send(done(&between, Ok(PeerData::new()))).await;
    assert_eq!(destinations(&route(&mut mesh.dialer).await), ["to"]);
    assert_eq!(destinations(&route(&mut mesh.host).await), ["from"]);
    mesh.has_path(&circuit, &["to", "from"]).await;

    // A better path: the router that the circuit leaves is told after the payloads on their way
    // have passed.
    let links = RouterLinks { links: vec![link("second", &mesh.routers[2])], full_refresh: false };
    mesh.dialer.send(links.to_message()).await;
    mesh.dialer.settled().await;
    assert!(mesh.net.network.change_link("to", Some(100_000), None));
    for _ in 0..2 {
        route(&mut mesh.dialer).await;
        route(&mut mesh.host).await;
    }
    mesh.has_path(&circuit, &["second"]).await;
    let left = mesh.transit.expect(ctrl::content_type::UNROUTE).await;
    assert_eq!(Unroute::from_message(&left).unwrap().circuit_id, circuit);
    assert!(!mesh.dialer.has(ctrl::content_type::UNROUTE));
    assert_eq!(mesh.net.network.circuits().len(), 1);
}

#[tokio::test]
async fn a_move_that_fails_twice_ends_the_circuit_everywhere() {
    let mut mesh = Triangle::new(quick()).await;
    let (circuit, _) = mesh.circuit().await;
    mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
    route(&mut mesh.dialer).await;
    route(&mut mesh.host).await;
    for _ in 0..2 {
        let message = mesh.transit.expect(ctrl::content_type::ROUTE).await;
        let error = RouteError { code: RouteErrorCode::Generic, text: "no luck".into() };
        mesh.transit.send(done(&message, Err(error))).await;
    }
    for peer in [&mut mesh.dialer, &mut mesh.transit, &mut mesh.host] {
        let end = Unroute::from_message(&peer.expect(ctrl::content_type::UNROUTE).await).unwrap();
        assert_eq!((end.circuit_id.as_str(), end.now), (circuit.as_str(), true));
    }
    assert!(mesh.net.network.circuits().is_empty());
    assert_eq!((mesh.net.network.waiting_moves(), mesh.net.network.without_path()), (0, 0));
}

#[tokio::test]
async fn a_fault_on_the_way_sends_the_route_again() {
    let mut mesh = Triangle::new(quick()).await;
    let (circuit, address) = mesh.circuit().await;
    let (subject, id) = (FaultSubject::Forward.into(), circuit.clone());
    let fault = Fault { subject, id, ..Fault::default() };
    mesh.dialer.send(fault.to_message()).await;
    let again = route(&mut mesh.dialer).await;
    assert_eq!((again.attempt, destinations(&again)), (REROUTE_ATTEMPT, vec!["direct", &address]));
    route(&mut mesh.host).await;
    let network = mesh.net.network.clone();
    let is_done =
        || network.circuits().get(&circuit).is_some_and(|it| it.moving.since_last().is_some());
    until(is_done).await;
    // A router that repeats the report all the time is ignored for a while.
    mesh.dialer.send(fault.to_message()).await;
    mesh.dialer.settled().await;
    assert_eq!(network.waiting_moves(), 0);
    assert!(!mesh.dialer.has(ctrl::content_type::ROUTE));
}

#[tokio::test]
async fn a_circuit_moves_to_a_much_cheaper_path() {
    let options = NetworkOptions { latency_interval: Duration::ZERO, ..quick() };
    let mut mesh = Triangle::new(options).await;
    mesh.measure(&[("direct", 20), ("to", 10), ("from", 10)]).await;
    let (circuit, _) = mesh.circuit().await;
    // Slightly cheaper: 51 against 42 plus a router.
    mesh.measure(&[("to", 5), ("from", 5)]).await;
    assert_eq!(mesh.net.network.improve().await, 0, "not worth a move");
    mesh.measure(&[("direct", 60)]).await;
    assert_eq!(mesh.net.network.improve().await, 1);
    assert_eq!(route(&mut mesh.dialer).await.attempt, REROUTE_ATTEMPT);
    route(&mut mesh.transit).await;
    route(&mut mesh.host).await;
    route(&mut mesh.dialer).await;
    route(&mut mesh.host).await;
    mesh.has_path(&circuit, &["to", "from"]).await;
    mesh.measure(&[("direct", 0)]).await;
    assert_eq!(mesh.net.network.improve().await, 0, "it was moved just now");
}

#[tokio::test]
async fn what_is_not_theirs_is_refused_counted_and_shown() {
    let mut mesh = Triangle::new(quick()).await;
    let (circuit, _) = mesh.circuit().await;
    let liar = &mesh.transit;
    let links = vec![link("direct", &mesh.routers[2]), link("mine", &mesh.routers[1])];
    liar.send(RouterLinks { links, full_refresh: false }.to_message()).await;
    let nowhere =
        ctrl::RouterLink { dest_router_id: "nobody".into(), ..link("n", &mesh.routers[0]) };
    liar.send(RouterLinks { links: vec![nowhere], full_refresh: false }.to_message()).await;
    for _ in 0..2 {
        liar.send(Fault::link("direct", 0).to_message()).await;
    }
    let state = LinkStateUpdate {
        link_id: "direct".into(),
        link_iteration: 1,
        conn_state: Some(LinkConnState { state_iteration: 9, conns: Vec::new() }),
    };
    liar.send(state.to_message()).await;
    liar.send(Fault::circuit(true, &*circuit).to_message()).await;
    let report = MetricsMessage {
        histograms: [(link_latency_name("direct"), Histogram::default())].into(),
        ..MetricsMessage::default()
    };
    liar.send(report.to_message()).await;
    liar.settled().await;

    let network = &mesh.net.network;
    let direct = network.links().get("direct").unwrap();
    assert_eq!((&direct.source, direct.cost()), (&mesh.routers[0].id, 130_001));
    assert_eq!(direct.connections.state_iteration, 0);
    assert_eq!(network.links().len(), 3);
    assert!(network.circuits().get(&circuit).is_some());
    let reports = json!({
        "linkOfAnotherRouter": 1,
        "linkToUnknownRouter": 1,
        "malformedLink": 1,
        "faultOfForeignLink": 3,
        "faultOfForeignCircuit": 1,
        "latencyOfForeignLink": 1,
    });
    let expected =
        json!({"routers": [{"routerId": mesh.routers[1].id.as_str(), "reports": reports}]});
    assert_eq!(mesh.refused().await, expected);
    let id = mesh.routers[1].id.clone();
    mesh.net.manage("deleteEdgeRouter", &[id.as_str()], Value::Null).await;
    let deadline = std::time::Instant::now() + LONG;
    while mesh.refused().await != json!({"routers": []}) {
        assert!(std::time::Instant::now() < deadline, "it is still remembered");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_router_that_is_no_longer_to_be_traversed_is_gone_around() {
    let mesh = Triangle::new(quick()).await;
    mesh.net.network.links().fault("direct", 0);
    let path = || {
        let graph = mesh.net.network.graph();
        graph.path(&mesh.routers[0].id, &mesh.routers[2].id).map(|path| path.links)
    };
    assert_eq!(path().unwrap(), ["to", "from"]);
    let transit = [mesh.routers[1].id.as_str()];
    let patch = |body: Value| mesh.net.manage("patchEdgeRouter", &transit, body);
    patch(json!({"noTraversal": true})).await;
    until(|| path().is_none()).await;
    patch(json!({"noTraversal": false})).await;
    until(|| path().is_some()).await;
}

#[tokio::test]
async fn the_next_attempt_goes_to_another_terminator() {
    let mut mesh = Triangle::new(quick()).await;
    let service = mesh.net.bed.controller.kernel().snapshot();
    let service =
        service.list::<weft_model::entity::Terminator>().next().unwrap().service_id.clone();
    let terminator = CreateTunnelTerminatorRequestV2 {
        service_id: service.to_string(),
        address: "here".into(),
        ..CreateTunnelTerminatorRequestV2::default()
    };
    mesh.dialer.ask(terminator.to_message()).await;
    let far = CreateTunnelTerminatorRequestV2 { address: "dear".into(), cost: 5_000, ..terminator };
    mesh.dialer.ask(far.to_message()).await;
    let mut dialed = Vec::new();
    let reply = dial_with(&mut mesh.dialer, dial(), |route| {
        dialed.push(route.egress.as_ref().unwrap().destination.clone());
        match dialed.len() {
            1 => Some(Err(RouteError { code: RouteErrorCode::DialTimedOut, text: "no".into() })),
            _ => fine(),
        }
    })
    .await;
    assert!(CreateTunnelCircuitV2Response::from_message(&reply).is_ok());
    assert_eq!(dialed, ["here", "dear"], "though it costs far more than a failure");
    assert_eq!(mesh.net.network.dynamic_cost(&Id::new("here")), 20);
}
