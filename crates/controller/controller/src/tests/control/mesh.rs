//! Circuits over more than one router.

use std::time::Duration;

use serde_json::json;
use weft_model::Id;
use weft_network::NetworkOptions;
use weft_network::create::CircuitSpec;
use weft_wire::ctrl::{
    self, Fault, REROUTE_ATTEMPT, Route, RouteError, RouteErrorCode, RouteResult, RouterLink,
    RouterLinks, TerminatorPrecedence, Unroute,
};
use weft_wire::edge_ctrl::{
    CreateTunnelCircuitV2Request, CreateTunnelCircuitV2Response, CreateTunnelTerminatorRequestV2,
    content_type,
};
use weft_wire::{Message, PeerData, ProtoBody};

use super::support::{LONG, Net, Peer, TestRouter, quick, until};

pub(super) fn link(id: &str, to: &TestRouter) -> RouterLink {
    RouterLink {
        id: id.into(),
        dest_router_id: to.id.to_string(),
        iteration: 1,
        ..RouterLink::default()
    }
}

/// Answers the next route with success.
pub(super) async fn route(peer: &mut Peer) -> Route {
    let message = peer.expect(ctrl::content_type::ROUTE).await;
    let route = Route::from_message(&message).unwrap();
    let (circuit_id, attempt) = (route.circuit_id.clone(), route.attempt);
    let result = RouteResult { circuit_id, attempt, result: Ok(PeerData::new()) };
    peer.send(result.to_message().in_reply_to(&message)).await;
    route
}

pub(super) fn destinations(route: &Route) -> Vec<&str> {
    route.forwards.iter().map(|forward| forward.dst_address.as_str()).collect()
}

#[tokio::test]
async fn a_circuit_takes_another_link_and_ends_without_one() {
    let without_path = Duration::from_secs(2);
    let net = Net::with(NetworkOptions { without_path, ..quick() }).await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let (one, two) = (net.router("er1").await, net.router("er2").await);
    let (mut dialer, mut host) = (net.connect(&one).await, net.connect(&two).await);
    let terminator = CreateTunnelTerminatorRequestV2 {
        service_id: service.to_string(),
        address: "t1".into(),
        ..CreateTunnelTerminatorRequestV2::default()
    };
    host.ask(terminator.to_message()).await;
    let links = RouterLinks { links: vec![link("l1", &two)], full_refresh: true };
    dialer.send(links.to_message()).await;
    dialer.settled().await;

    let ask = CreateTunnelCircuitV2Request {
        service_name: "web".into(),
        ..CreateTunnelCircuitV2Request::default()
    };
    let channel = dialer.channel.clone();
    let asked = tokio::spawn(async move { channel.request(ask.to_message(), LONG).await.unwrap() });
    let (first, last) = (route(&mut dialer).await, route(&mut host).await);
    let circuit = CreateTunnelCircuitV2Response::from_message(&asked.await.unwrap()).unwrap();
    assert_eq!(destinations(&first), ["l1", circuit.address.as_str()]);
    assert!(first.egress.is_none() && last.egress.is_some());
    assert_eq!(destinations(&last)[0], "l1");

    // The link breaks while another one exists.
    let more = RouterLinks { links: vec![link("l2", &two)], full_refresh: false };
    dialer.send(more.to_message()).await;
    dialer.send(Fault::link("l1", 1).to_message()).await;
    let new = route(&mut dialer).await;
    assert_eq!((new.attempt, destinations(&new)), (REROUTE_ATTEMPT, vec![&*circuit.address]));
    assert!(route(&mut host).await.egress.is_none());
    let moved = route(&mut dialer).await;
    assert_eq!((moved.attempt, destinations(&moved)), (REROUTE_ATTEMPT, vec!["l2"]));
    assert_eq!(destinations(&route(&mut host).await), ["l2"]);
    let path = || net.network.circuits().get(&circuit.circuit_id).map(|it| it.path.links.clone());
    until(|| path() == Some(vec!["l2".to_owned()])).await;
    let fault = Fault::from_message(&host.expect(ctrl::content_type::FAULT).await).unwrap();
    assert_eq!(fault.id, "l1", "the other end hears of it");

    // A full report without the link counts as a break too, and now there is no path.
    dialer.send(RouterLinks { links: Vec::new(), full_refresh: true }.to_message()).await;
    for peer in [&mut dialer, &mut host] {
        let end = Unroute::from_message(&peer.expect(ctrl::content_type::UNROUTE).await).unwrap();
        assert_eq!((end.circuit_id.as_str(), end.now), (circuit.circuit_id.as_str(), true));
    }
    assert!(net.network.circuits().is_empty());
    assert!(net.network.links().all().is_empty());
}

/// A circuit whose id the router of the dialer has chosen: all attempts to make it have this id.
fn chosen_id(router: &TestRouter, service: &Id) -> CircuitSpec {
    CircuitSpec {
        router: router.id.clone(),
        service: service.clone(),
        instance: String::new(),
        client: "somebody".to_owned(),
        is_of_session: false,
        dialer_proves: false,
        peer_data: PeerData::new(),
        tags: Default::default(),
        id: Some("chosen".to_owned()),
    }
}

fn answer(route: &Message, result: Result<PeerData, RouteError>) -> Message {
    let Route { circuit_id, attempt, .. } = Route::from_message(route).unwrap();
    RouteResult { circuit_id, attempt, result }.to_message().in_reply_to(route)
}

fn no_luck() -> RouteError {
    RouteError { code: RouteErrorCode::Generic, text: "no luck".into() }
}

#[tokio::test]
async fn the_end_of_an_earlier_attempt_ends_no_later_one() {
    let net = Net::with(NetworkOptions { route_timeout: LONG, ..quick() }).await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let (one, two) = (net.router("er1").await, net.router("er2").await);
    let (mut dialer, mut host) = (net.connect(&one).await, net.connect(&two).await);
    for address in ["first", "second"] {
        let terminator = CreateTunnelTerminatorRequestV2 {
            service_id: service.to_string(),
            address: address.into(),
            ..CreateTunnelTerminatorRequestV2::default()
        };
        host.ask(terminator.to_message()).await;
    }
    let links = RouterLinks { links: vec![link("l1", &two)], full_refresh: true };
    dialer.send(links.to_message()).await;
    dialer.settled().await;
    let (network, spec) = (net.network.clone(), chosen_id(&one, &service));
    let asked =
        tokio::spawn(
            async move { network.create_circuit(&spec, &mut weft_spans::Span::none()).await },
        );
    route(&mut host).await;
    let failing = dialer.expect(ctrl::content_type::ROUTE).await;
    dialer.send(answer(&failing, Err(no_luck()))).await;
    let again = [
        dialer.expect(ctrl::content_type::ROUTE).await,
        host.expect(ctrl::content_type::ROUTE).await,
    ];
    // The host of the first attempt has hung up meanwhile.
    host.send(Fault::circuit(false, "chosen").in_attempt(0).to_message()).await;
    host.settled().await;
    dialer.send(answer(&again[0], Ok(PeerData::new()))).await;
    host.send(answer(&again[1], Ok(PeerData::new()))).await;
    assert_eq!(asked.await.unwrap().unwrap().id, "chosen");
    host.send(Fault::circuit(false, "chosen").in_attempt(1).to_message()).await;
    until(|| net.network.circuits().is_empty()).await;
}

#[tokio::test]
async fn a_late_success_of_an_earlier_attempt_is_taken_down() {
    let net = Net::with(NetworkOptions { route_timeout: LONG, ..quick() }).await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let (one, two) = (net.router("er1").await, net.router("er2").await);
    let (mut dialer, mut host) = (net.connect(&one).await, net.connect(&two).await);
    let terminator = |id: &str, precedence: TerminatorPrecedence| CreateTunnelTerminatorRequestV2 {
        service_id: service.to_string(),
        address: id.into(),
        precedence: precedence.into(),
        ..CreateTunnelTerminatorRequestV2::default()
    };
    host.ask(terminator("first", TerminatorPrecedence::Required).to_message()).await;
    dialer.ask(terminator("second", TerminatorPrecedence::Default).to_message()).await;
    let links = RouterLinks { links: vec![link("l1", &two)], full_refresh: true };
    dialer.send(links.to_message()).await;
    dialer.settled().await;

    let spec = chosen_id(&one, &service);
    let network = net.network.clone();
    let asked =
        tokio::spawn(
            async move { network.create_circuit(&spec, &mut weft_spans::Span::none()).await },
        );
    let slow = host.expect(ctrl::content_type::ROUTE).await;
    let failing = dialer.expect(ctrl::content_type::ROUTE).await;
    // The next attempt goes to the other host.
    let remove = Message::new(content_type::REMOVE_TUNNEL_TERMINATOR_REQUEST, "first".to_owned());
    host.ask(remove).await;
    dialer.send(answer(&failing, Err(no_luck()))).await;
    let second = dialer.expect(ctrl::content_type::ROUTE).await;
    assert_eq!(Route::from_message(&second).unwrap().attempt, 1);
    host.send(answer(&slow, Ok(PeerData::new()))).await;
    let end = Unroute::from_message(&host.expect(ctrl::content_type::UNROUTE).await).unwrap();
    assert!(end.now);
    // A circuit of a router on the path of the current attempt is not unrouted.
    dialer.send(answer(&failing, Ok(PeerData::new()))).await;
    dialer.send(answer(&second, Ok(PeerData::new()))).await;
    assert_eq!(asked.await.unwrap().unwrap().id, end.circuit_id);
    dialer.settled().await;
    assert!(!dialer.has(ctrl::content_type::UNROUTE));
    assert_eq!(net.network.circuits().len(), 1);
}
