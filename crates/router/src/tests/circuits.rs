//! Circuits asked for, routes commanded, circuits adopted.

use std::sync::Arc;
use std::time::Duration;

use weft_wire::ctrl::{
    self, CarriedCircuits, CircuitConfirmation, DestType, Fault, FaultSubject, InspectRequest,
    InspectResponse, REROUTE_ATTEMPT, Route, RouteErrorCode, RouteResult, RouterLinks, Unroute,
    route,
};
use weft_wire::edge_ctrl::{
    CircuitForm, CreateCircuitV2, CreateTunnelCircuitV2Request, CreateTunnelCircuitV2Response,
    CreatedCircuit, EdgeError, ErrorCode, RetryHint as WireHint, content_type,
};
use weft_wire::{Message, ProtoBody, TRACE_PARENT, TraceContext, controller_capability};
use weft_xgress::Role;

use super::support::{Network, TestRouter, capable, until};
use crate::seam::{
    AccessGrant, ApiSession, CircuitRequest, Control, ControllerId, LinkControl, LinkReport,
    Release, RetryHint, TunnelCircuitRequest, Use,
};

pub(super) fn request(legacy: bool, timeout: Duration) -> CircuitRequest {
    let session = ApiSession {
        id: "as1".into(),
        token: "api-token".into(),
        identity: "alice".into(),
        identity_name: None,
        legacy,
        controller: legacy.then(|| "ctrl1".into()),
        fingerprints: vec!["ab".into()],
        release: Release::default(),
    };
    CircuitRequest {
        session: Arc::new(session),
        grant: AccessGrant {
            service: "web".into(),
            service_session: "ss1".into(),
            token: "service-token".into(),
            purpose: Use::Dial,
        },
        instance: "blue".into(),
        peer_data: [(1003, "key".into())].into(),
        timeout,
        trace: None,
    }
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn circuits_for_sdks_and_for_the_router() {
    let mut network = Network::new().await;
    let asked = tokio::spawn(network.router.control.create_circuit(request(true, LONG)));
    let message = network.peer.expect(content_type::CREATE_CIRCUIT_V2_REQUEST).await;
    assert!(!message.headers.contains(TRACE_PARENT));
    let read = CreateCircuitV2::from_message(&message).unwrap();
    assert_eq!(
        (read.session_token.as_str(), read.api_session_token.as_str()),
        ("service-token", "api-token")
    );
    assert_eq!((read.terminator_instance_id.as_str(), read.fingerprints.len()), ("blue", 1));
    let created = CreatedCircuit {
        circuit_id: "c1".into(),
        address: "a1".into(),
        peer_data: [(1003, "theirs".into())].into(),
        ..CreatedCircuit::default()
    };
    network.peer.reply(&message, created.to_message(CircuitForm::V2).unwrap()).await;
    let circuit = asked.await.unwrap().unwrap();
    assert_eq!((circuit.id.as_str(), circuit.address.as_str()), ("c1", "a1"));
    assert_eq!((&*circuit.controller, &circuit.peer_data[&1003][..]), ("ctrl1", &b"theirs"[..]));

    let tunnel = TunnelCircuitRequest {
        service: "web".into(),
        instance: String::new(),
        peer_data: Default::default(),
        end_key: bytes::Bytes::new(),
        timeout: LONG,
    };
    let asked = tokio::spawn(network.router.control.create_tunnel_circuit(tunnel));
    let message = network.peer.expect(content_type::CREATE_TUNNEL_CIRCUIT_V2_REQUEST).await;
    assert!(!message.headers.contains(TRACE_PARENT));
    assert_eq!(CreateTunnelCircuitV2Request::from_message(&message).unwrap().service_name, "web");
    let created = CreateTunnelCircuitV2Response {
        circuit_id: "c2".into(),
        address: "a2".into(),
        ..CreateTunnelCircuitV2Response::default()
    };
    network.peer.reply(&message, created.to_message()).await;
    assert_eq!(asked.await.unwrap().unwrap().id, "c2");
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_keep_their_codes_and_silence_is_one() {
    let mut network = Network::new().await;
    let trace = TraceContext { trace_id: [1; 16], span_id: [2; 8], is_sampled: true };
    let asked = CircuitRequest { trace: Some(trace), ..request(false, LONG) };
    let asked = tokio::spawn(network.router.control.create_circuit(asked));
    let message = network.peer.expect(content_type::CREATE_CIRCUIT_V2_REQUEST).await;
    assert_eq!(TraceContext::take(&message.headers), Some(trace));
    let error = EdgeError {
        circuit_id: Some("c9".into()),
        ..EdgeError::new(ErrorCode::ENCRYPTION_DATA_MISSING, WireHint::START_OVER, "no key")
    };
    network.peer.reply(&message, error.to_message()).await;
    let refusal = asked.await.unwrap().unwrap_err();
    assert_eq!((refusal.code, refusal.hint), (11, RetryHint::START_OVER));
    assert_eq!((refusal.message.as_str(), refusal.circuit.as_deref()), ("no key", Some("c9")));

    let asked = tokio::spawn(network.router.control.create_circuit(request(false, LONG)));
    let message = network.peer.expect(content_type::CREATE_CIRCUIT_V2_REQUEST).await;
    network.peer.reply(&message, EdgeError::default().to_message()).await;
    assert!(!asked.await.unwrap().unwrap_err().message.is_empty());

    let quick = request(false, Duration::from_millis(50));
    let refusal = network.router.control.create_circuit(quick).await.unwrap_err();
    assert!(refusal.message.contains("did not answer"), "{refusal}");

    let mut elsewhere = request(true, LONG);
    Arc::get_mut(&mut elsewhere.session).unwrap().controller = Some("ctrl7".into());
    let refusal = network.router.control.create_circuit(elsewhere).await.unwrap_err();
    assert_eq!(refusal.message, "no controller available, cannot create circuit");
    network.router.control.shutdown().await;
}

fn route_to(circuit: &str, attempt: u32) -> Message {
    let mut route = Route {
        circuit_id: circuit.into(),
        attempt,
        egress: Some(route::Egress {
            binding: "transport".into(),
            address: "E".into(),
            destination: "tcp:localhost:80".into(),
            peer_data: [(1003, "key".into())].into(),
        }),
        forwards: vec![route::Forward {
            src_address: "I".into(),
            dst_address: "E".into(),
            dst_type: DestType::End.into(),
        }],
        tags: [("serviceId".into(), "web".into())].into(),
        ..Route::default()
    };
    route.set_time_left(5_000_000_000);
    route.to_message()
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_are_carried_out_and_answered() {
    let mut network = Network::new().await;
    network.peer.send(route_to("c1", 1)).await;
    let result = network.peer.expect(ctrl::content_type::ROUTE_RESULT).await;
    assert!(result.reply_for().is_some());
    let result = RouteResult::from_message(&result).unwrap();
    assert_eq!((result.circuit_id.as_str(), result.attempt), ("c1", 1));
    assert_eq!(&result.result.unwrap()[&1110][..], b"local");
    network.peer.send(route_to("refused", 0)).await;
    let result = network.peer.expect(ctrl::content_type::ROUTE_RESULT).await;
    let error = RouteResult::from_message(&result).unwrap().result.unwrap_err();
    assert_eq!(
        (error.code, error.text.as_str()),
        (RouteErrorCode::ConnectionRefused, "nobody there")
    );
    {
        let routes = network.router.data.routes.lock();
        assert_eq!(routes[0].forwards.len(), 1);
        assert_eq!(routes[0].tags["serviceId"], "web");
    }
    network.peer.send(Unroute { circuit_id: "c1".into(), now: true, term: 0 }.to_message()).await;
    until(|| *network.router.data.unrouted.lock() == [("c1".to_owned(), true)]).await;

    let owner: ControllerId = "ctrl1".into();
    let control = &network.router.control;
    control.circuit_ended(&owner, "c1", Role::Terminator, None);
    let fault: Fault = network.peer.get().await;
    assert_eq!((fault.subject(), fault.id.as_str()), (FaultSubject::Egress, "c1"));
    control.forward_faults(None, vec!["c2".into(), "c3".into()]);
    let fault: Fault = network.peer.get().await;
    assert_eq!((fault.subject(), fault.id.as_str()), (FaultSubject::UnknownOwnerForward, "c2 c3"));
    control.idle_circuits(&owner, vec![("c4".into(), Duration::from_secs(60))]);
    let idle: CircuitConfirmation = network.peer.get().await;
    assert_eq!(idle.idle_times["c4"], 60_000_000_000);
    network.router.control.shutdown().await;
}

/// Moves a circuit to a link.
fn move_to(circuit: &str, link: &str) -> Message {
    let mut route = Route {
        circuit_id: circuit.into(),
        attempt: REROUTE_ATTEMPT,
        forwards: vec![route::Forward {
            src_address: "I".into(),
            dst_address: link.into(),
            dst_type: DestType::Link.into(),
        }],
        ..Route::default()
    };
    route.set_time_left(5_000_000_000);
    route.to_message()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_does_not_answer_delays_only_dials_to_it() {
    let mut network = Network::new().await;
    let more = "forwarder: {xgressDialWorkerCount: 2}\n";
    network.router.control.shutdown().await;
    let (pki, home, at) = (&network.pki, network.home.path(), network.controller.addr());
    network.router = TestRouter::start_with(pki, home, at, more);
    network.peer = network.controller.router().await;
    network.peer.is_known().await;
    for circuit in ["slow1", "slow2"] {
        network.peer.send(route_to(circuit, 0)).await;
    }
    // Moves are carried out beside the open dials, also those that name an end which is there.
    let mut with_end = Route::from_message(&move_to("moves2", "l1")).unwrap();
    let egress = Route::from_message(&route_to("", 0)).unwrap().egress.unwrap();
    with_end.egress = Some(route::Egress { address: "there".into(), ..egress });
    // So is a dial to another terminator.
    let mut other = Route::from_message(&route_to("other", 0)).unwrap();
    other.egress.as_mut().unwrap().destination = "tcp:localhost:81".into();
    for route in [move_to("moves1", "l1"), with_end.to_message(), other.to_message()] {
        network.peer.send(route).await;
        let result = network.peer.expect(ctrl::content_type::ROUTE_RESULT).await;
        assert!(RouteResult::from_message(&result).unwrap().result.is_ok());
    }
    let begun = || -> Vec<String> {
        let routes = network.router.data.routes.lock();
        routes.iter().map(|route| route.circuit.clone()).collect()
    };
    // Which of the two routes of one host is first is open: each has a task of its own.
    let slow = || begun().into_iter().filter(|id| id.starts_with("slow")).collect::<Vec<_>>();
    until(|| !slow().is_empty()).await;
    let first = slow();
    assert_eq!(first.len(), 1, "one worker of two is left to others");
    let unroute = Unroute { circuit_id: first[0].clone(), now: true, term: 0 };
    network.peer.send(unroute.to_message()).await;
    until(|| slow().iter().any(|id| *id != first[0])).await;
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_last_of_many_moves_counts() {
    let mut network = Network::new().await;
    let links: Vec<String> = (0..200).map(|number| format!("l{number}")).collect();
    for link in &links {
        network.peer.send(move_to("c1", link)).await;
    }
    for _ in &links {
        network.peer.expect(ctrl::content_type::ROUTE_RESULT).await;
    }
    let carried_out: Vec<String> = {
        let routes = network.router.data.routes.lock();
        routes.iter().map(|route| route.forwards[0].destination.clone()).collect()
    };
    assert_eq!(carried_out, links);
    network.restart_controller(capable().with(controller_capability::ADOPTS_CIRCUITS)).await;
    let carried: CarriedCircuits = network.peer.get().await;
    assert_eq!(carried.routes[0].forwards.last().unwrap().dst_address, links[199]);
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_with_too_many_ways_is_refused() {
    let mut network = Network::new().await;
    let mut answered = async |count: usize| {
        let mut route = Route::from_message(&move_to("c1", "l1")).unwrap();
        route.forwards = vec![route.forwards[0].clone(); count];
        network.peer.send(route.to_message()).await;
        let result = network.peer.expect(ctrl::content_type::ROUTE_RESULT).await;
        RouteResult::from_message(&result).unwrap().result
    };
    let refused = answered(65).await.unwrap_err();
    assert_eq!(refused.text, "the route has 65 ways, the limit is 64");
    answered(64).await.unwrap();
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unroute_does_not_overtake_its_route() {
    let mut network = Network::new().await;
    network.peer.send(route_to("slow", 0)).await;
    until(|| !network.router.data.routes.lock().is_empty()).await;
    // The data half is still setting the route up, and answers only afterwards.
    network.peer.send(Unroute { circuit_id: "slow".into(), now: true, term: 0 }.to_message()).await;
    let result = network.peer.expect(ctrl::content_type::ROUTE_RESULT).await;
    let error = RouteResult::from_message(&result).unwrap().result.unwrap_err();
    assert!(error.text.contains("taken down"), "{}", error.text);
    // No part of the route is kept, and a later circuit with its id is set up.
    let asked =
        InspectRequest { requested_values: vec!["router-circuits".into(), "router-drops".into()] };
    let timeout = Duration::from_secs(10);
    let reply = network.peer.channel.request(asked.to_message(), timeout).await.unwrap();
    let shown = InspectResponse::from_message(&reply).unwrap().values;
    assert_eq!(shown[0].value, r#"{"circuits":{}}"#);
    assert!(shown[1].value.contains(r#""full":7"#) && shown[1].value.contains(r#""stuck":1"#));
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_controller_hears_what_is_carried_if_it_adopts() {
    let mut network = Network::new().await;
    for circuit in ["c1", "c2"] {
        network.peer.send(route_to(circuit, 0)).await;
        network.peer.expect(ctrl::content_type::ROUTE_RESULT).await;
    }
    assert!(!network.peer.has(ctrl::content_type::CARRIED_CIRCUITS));
    network.peer.send(Unroute { circuit_id: "c2".into(), now: true, term: 0 }.to_message()).await;
    until(|| !network.router.data.unrouted.lock().is_empty()).await;
    let adopting = capable().with(controller_capability::ADOPTS_CIRCUITS);
    network.restart_controller(adopting).await;
    let carried: CarriedCircuits = network.peer.get().await;
    assert!(carried.last);
    assert_eq!(carried.routes.len(), 1);
    let route = &carried.routes[0];
    assert_eq!((route.circuit_id.as_str(), route.tags["serviceId"].as_str()), ("c1", "web"));
    let egress = route.egress.as_ref().unwrap();
    assert_eq!(egress.destination, "tcp:localhost:80");
    assert!(egress.peer_data.is_empty());
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_reported_also_after_circuits_that_fill_the_lane() {
    let mut network = Network::new().await;
    // Together these routes take more than the 8 MiB that may wait on a lane.
    for number in 0..20 {
        let mut route = Route::from_message(&route_to(&format!("c{number}"), 0)).unwrap();
        route.tags.insert("serviceId".into(), "x".repeat(450 * 1024));
        network.peer.send(route.to_message()).await;
        network.peer.expect(ctrl::content_type::ROUTE_RESULT).await;
    }
    let adopting = capable().with(controller_capability::ADOPTS_CIRCUITS);
    network.restart_controller(adopting).await;
    let links: RouterLinks = network.peer.get().await;
    assert!(links.full_refresh);
    let carried: CarriedCircuits = network.peer.get().await;
    assert!(carried.last && carried.routes.len() == 20);
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_while_a_controller_was_away_is_told_later() {
    let mut network = Network::new().await;
    let changes = network.router.controller_changes();
    let before = *changes.borrow();
    network.peer.channel.close("gone");
    let owner: ControllerId = "ctrl1".into();
    super::support::soon(network.peer.channel.closed()).await;
    // Wait until the router has noticed. Before that, the fault would be lost with the channel, and
    // only the report of carried circuits would tell the controller.
    until(|| *changes.borrow() != before).await;
    network.router.control.circuit_ended(&owner, "c1", Role::Initiator, None);
    network.peer = network.controller.router().await;
    let fault: Fault = network.peer.get().await;
    assert_eq!((fault.subject(), fault.id.as_str()), (FaultSubject::Ingress, "c1"));
    network.router.control.shutdown().await;
}

/// A link came up and broke again while the connection to the controller was lost.
#[tokio::test]
async fn a_controller_that_comes_back_hears_of_no_link_that_is_gone() {
    let mut network = Network::new().await;
    let link = LinkReport {
        id: "l1".into(),
        peer: "r2".into(),
        protocol: "tls".into(),
        address: "tls:r2:6004".into(),
        iteration: 3,
        state: 1,
        connections: Vec::new(),
    };
    // The router has not noticed yet that the channel is closed.
    let controller = network.router.controllers().all().remove(0);
    controller.channel.close("broken");
    network.router.control.link_up(link);
    network.router.control.link_fault("l2", 0);
    network.router.control.circuit_ended(&controller.id, "c1", Role::Initiator, None);
    network.peer = network.controller.router().await;
    let all: RouterLinks = network.peer.get().await;
    assert!(all.full_refresh && all.links.is_empty());
    let fault: Fault = network.peer.get().await;
    assert_eq!((fault.subject(), fault.id.as_str()), (FaultSubject::Ingress, "c1"));
    assert!(!network.peer.has(ctrl::content_type::ROUTER_LINKS), "an older report of a link");
    network.router.control.shutdown().await;
}

#[tokio::test]
async fn a_controller_hears_of_every_circuit_that_ends_however_many_end_at_once() {
    let mut network = Network::new().await;
    let owner: ControllerId = "ctrl1".into();
    let ids: Vec<String> = (0..3000).map(|number| format!("c{number}")).collect();
    for id in &ids {
        network.router.control.circuit_ended(&owner, id, Role::Initiator, None);
    }
    for id in &ids {
        let fault: Fault = network.peer.get().await;
        assert_eq!(fault.id, *id);
    }
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_hear_that_the_router_stops() {
    let mut network = Network::new().await;
    network.restart_controller(capable().with(controller_capability::ADOPTS_CIRCUITS)).await;
    network.router.control.drain();
    network.peer.expect(ctrl::content_type::ROUTER_DRAINS).await;
    // A controller that connects again meanwhile is told, too.
    network.restart_controller(capable().with(controller_capability::ADOPTS_CIRCUITS)).await;
    network.peer.expect(ctrl::content_type::ROUTER_DRAINS).await;
    network.restart_controller(capable()).await;
    network.peer.is_known().await;
    assert!(!network.peer.has(ctrl::content_type::ROUTER_DRAINS), "it would not know it");
    network.router.control.shutdown().await;
}
