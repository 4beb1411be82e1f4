//! Circuits.

use std::time::Duration;

use serde_json::{Value, json};
use weft_contract::Api;
use weft_model::Id;
use weft_model::entity::Terminator;
use weft_network::NetworkOptions;
use weft_wire::ctrl::{
    self, CarriedCircuits, CircuitConfirmation, Fault, Route, RouteError, RouteErrorCode,
    RouteResult, Unroute,
};
use weft_wire::edge_ctrl::{
    CreateCircuitV3, CreateTerminatorResult, CreateTunnelCircuitV2Request,
    CreateTunnelCircuitV2Response, EdgeError, ErrorCode, RetryHint, content_type as is,
};
use weft_wire::{Message, PeerData, ProtoBody};

use super::support::{LONG, Net, Peer, TestRouter, hurried, quick, soon, until};
use super::terminators::{host, hosts_none};
use crate::testing::to;

pub(super) fn dial_request() -> Message {
    CreateTunnelCircuitV2Request {
        service_name: "web".into(),
        terminator_instance_id: String::new(),
        peer_data: [(1003, "dialer".into()), (1112, "1.2.3.4:5".into())].into(),
        ..CreateTunnelCircuitV2Request::default()
    }
    .to_message()
}

/// Asks for a circuit; `answer` gives the result of each route.
pub(super) async fn dial_with(
    peer: &mut Peer,
    request: Message,
    mut answer: impl FnMut(&Route) -> Option<Result<PeerData, RouteError>>,
) -> Message {
    let channel = peer.channel.clone();
    let ask = async move { channel.request(request, LONG).await.unwrap() };
    tokio::pin!(ask);
    loop {
        tokio::select! {
            reply = &mut ask => return reply,
            message = peer.expect(ctrl::content_type::ROUTE) => {
                let route = Route::from_message(&message).unwrap();
                let Some(result) = answer(&route) else { continue };
                respond(peer, &message, &route, result).await;
            }
        }
    }
}

/// Answers a route.
pub(super) async fn respond(
    peer: &Peer,
    message: &Message,
    route: &Route,
    result: Result<PeerData, RouteError>,
) {
    let (circuit_id, attempt) = (route.circuit_id.clone(), route.attempt);
    let result = RouteResult { circuit_id, attempt, result };
    peer.send(result.to_message().in_reply_to(message)).await;
}

pub(super) fn fine() -> Option<Result<PeerData, RouteError>> {
    Some(Ok([(1003, "host".into()), (1110, "9.9.9.9:80".into())].into()))
}

fn failed(code: RouteErrorCode) -> Option<Result<PeerData, RouteError>> {
    Some(Err(RouteError { code, text: "no luck".into() }))
}

/// A network with a service that the router's tunneler hosts.
pub(super) async fn hosted() -> (Net, TestRouter, Peer, Id) {
    hosted_with(quick()).await
}

pub(super) async fn hosted_with(options: NetworkOptions) -> (Net, TestRouter, Peer, Id) {
    let net = Net::with(options).await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": true})).await;
    let router = net.router("er1").await;
    let peer = net.connect(&router).await;
    assert_eq!(host(&peer, &service, "t1").await.result(), CreateTerminatorResult::Success);
    (net, router, peer, service)
}

pub(super) async fn made(peer: &mut Peer) -> (CreateTunnelCircuitV2Response, Route) {
    let mut told = None;
    let reply = dial_with(peer, dial_request(), |route| {
        told = Some(route.clone());
        fine()
    })
    .await;
    (CreateTunnelCircuitV2Response::from_message(&reply).unwrap(), told.unwrap())
}

#[tokio::test]
async fn a_circuit_of_the_tunneler() {
    let (net, router, mut peer, service) = hosted().await;
    let (circuit, route) = made(&mut peer).await;
    let egress = route.egress.unwrap();
    assert_eq!((egress.binding.as_str(), egress.destination.as_str()), ("tunnel", "t1"));
    assert_eq!(egress.peer_data[&1003], "dialer");
    assert_eq!(route.circuit_id, circuit.circuit_id);
    assert_eq!(circuit.address, route.forwards[0].src_address);
    assert_eq!(circuit.peer_data, [(1003, "host".into())].into());
    assert_eq!(circuit.tags["serviceId"], service.as_str());
    assert_eq!(circuit.tags["hostId"], router.id.as_str());
    let known = net.network.circuits().get(&circuit.circuit_id).unwrap();
    assert_eq!(known.addresses.terminator_local, "9.9.9.9:80");
    assert_eq!(known.addresses.initiator_local, "1.2.3.4:5");
    assert_eq!(net.network.dynamic_cost(&Id::new("t1")), 2);

    // A fault of a router beside the path is ignored; one of a router on it ends the circuit.
    let other = net.router("er2").await;
    let stranger = net.connect(&other).await;
    stranger.send(Fault::circuit(true, &*circuit.circuit_id).to_message()).await;
    stranger.settled().await;
    assert!(net.network.circuits().get(&circuit.circuit_id).is_some());
    peer.send(Fault::circuit(false, &*circuit.circuit_id).to_message()).await;
    let unroute = Unroute::from_message(&peer.expect(ctrl::content_type::UNROUTE).await).unwrap();
    assert_eq!((unroute.circuit_id, unroute.now), (circuit.circuit_id, false));
    assert!(net.network.circuits().is_empty());
    assert_eq!(net.network.dynamic_cost(&Id::new("t1")), 0);
}

#[tokio::test]
async fn an_end_that_is_gone_before_the_answer_ends_the_circuit() {
    let (net, _, mut peer, _) = hosted().await;
    let channel = peer.channel.clone();
    let asked = tokio::spawn(async move { channel.request(dial_request(), LONG).await.unwrap() });
    let message = peer.expect(ctrl::content_type::ROUTE).await;
    let Route { circuit_id, attempt, .. } = Route::from_message(&message).unwrap();
    // Ignored: the circuit does not go over this router.
    let other = net.router("er2").await;
    let stranger = net.connect(&other).await;
    stranger.send(Fault::circuit(false, &*circuit_id).to_message()).await;
    stranger.settled().await;
    peer.send(Fault::circuit(false, &*circuit_id).to_message()).await;
    // The dialer does not wait for the router.
    let error = EdgeError::from_message(&asked.await.unwrap()).unwrap();
    assert!(error.text.contains("ended while it was made"), "{}", error.text);
    let result = RouteResult { circuit_id: circuit_id.clone(), attempt, result: fine().unwrap() };
    peer.send(result.to_message().in_reply_to(&message)).await;
    for _ in ["at once", "after the late answer"] {
        let unroute = peer.expect(ctrl::content_type::UNROUTE).await;
        let unroute = Unroute::from_message(&unroute).unwrap();
        assert_eq!((unroute.circuit_id, unroute.now), (circuit_id.clone(), true));
    }
    assert!(net.network.circuits().is_empty());
    assert_eq!(net.network.dynamic_cost(&Id::new("t1")), 0);
}

#[tokio::test]
async fn a_fault_of_an_earlier_attempt_is_not_about_the_next() {
    let (net, _, mut peer, _) = hosted().await;
    let channel = peer.channel.clone();
    let asked = tokio::spawn(async move { channel.request(dial_request(), LONG).await.unwrap() });
    let first = peer.expect(ctrl::content_type::ROUTE).await;
    let answer = |message: &Message, result| {
        let Route { circuit_id, attempt, .. } = Route::from_message(message).unwrap();
        let result = RouteResult { circuit_id: circuit_id.clone(), attempt, result };
        (circuit_id, result.to_message().in_reply_to(message))
    };
    let (before, failure) = answer(&first, failed(RouteErrorCode::DialTimedOut).unwrap());
    peer.send(failure).await;
    let second = peer.expect(ctrl::content_type::ROUTE).await;
    // The end of the first attempt is reported only now, and then the attempt answers with a
    // success.
    peer.send(Fault::circuit(false, &*before).to_message()).await;
    peer.settled().await;
    peer.send(answer(&first, fine().unwrap()).1).await;
    let unroute = Unroute::from_message(&peer.expect(ctrl::content_type::UNROUTE).await).unwrap();
    assert_eq!((&unroute.circuit_id, unroute.now), (&before, true));
    let (now, success) = answer(&second, fine().unwrap());
    assert_ne!(before, now);
    peer.send(success).await;
    let made = CreateTunnelCircuitV2Response::from_message(&asked.await.unwrap()).unwrap();
    assert_eq!(made.circuit_id, now);
    assert_eq!(net.network.circuits().len(), 1);
    assert!(!peer.has(ctrl::content_type::UNROUTE));
}

#[tokio::test]
async fn a_router_that_is_cut_off_hears_that_its_circuits_end() {
    let (net, router, mut peer, _) = hosted().await;
    let disable = json!({"disabled": true});
    for (operation, body) in [("patchEdgeRouter", disable), ("deleteEdgeRouter", Value::Null)] {
        let (circuit, _) = made(&mut peer).await;
        net.manage(operation, &[router.id.as_str()], body).await;
        let end = Unroute::from_message(&peer.expect(ctrl::content_type::UNROUTE).await).unwrap();
        assert_eq!((end.circuit_id, end.now), (circuit.circuit_id, true), "{operation}");
        soon(peer.channel.closed()).await;
        assert!(net.network.circuits().is_empty());
        if operation == "patchEdgeRouter" {
            until(|| net.network.routers().all().is_empty()).await;
            let enable = json!({"disabled": false});
            net.manage("patchEdgeRouter", &[router.id.as_str()], enable).await;
            peer = net.connect(&router).await;
        }
    }
}

#[tokio::test]
async fn failures_are_tried_again_and_learnt_from() {
    let (net, _, mut peer, _) = hosted().await;
    // The first attempt is refused, the second works.
    let mut attempts = Vec::new();
    let reply = dial_with(&mut peer, dial_request(), |route| {
        attempts.push(route.attempt);
        if route.attempt == 0 { failed(RouteErrorCode::ConnectionRefused) } else { fine() }
    })
    .await;
    assert_eq!(reply.content_type, is::CREATE_TUNNEL_CIRCUIT_V2_RESPONSE);
    assert_eq!(attempts, [0, 1]);
    assert_eq!(net.network.dynamic_cost(&Id::new("t1")), 20);

    // The host does not know the terminator: the terminator is removed, and the service has none
    // left.
    let reply =
        dial_with(&mut peer, dial_request(), |_| failed(RouteErrorCode::InvalidTerminator)).await;
    assert_eq!(EdgeError::from_message(&reply).unwrap().code, ErrorCode::INTERNAL);
    let terminator =
        || net.bed.controller.kernel().snapshot().get::<Terminator>(&Id::new("t1")).cloned();
    until(|| terminator().is_none()).await;
    let reply = dial_with(&mut peer, dial_request(), |_| fine()).await;
    let error = EdgeError::from_message(&reply).unwrap();
    assert!(error.text.contains("has no terminators"), "{}", error.text);
    assert_eq!(net.network.circuits().len(), 1);
}

/// A router that keeps the ids of its terminators over a restart may answer a dial just before it makes the
/// terminator again.
#[tokio::test]
async fn a_terminator_that_is_reported_again_during_a_dial_is_not_removed_by_an_older_answer() {
    let options = NetworkOptions { validation_age: Duration::ZERO, ..quick() };
    let (net, _, mut peer, service) = hosted_with(options).await;
    let channel = peer.channel.clone();
    let asked = tokio::spawn(async move { channel.request(dial_request(), LONG).await.unwrap() });
    let first = peer.expect(ctrl::content_type::ROUTE).await;
    assert_eq!(host(&peer, &service, "t1").await.result(), CreateTerminatorResult::Success);
    let is_unknown = failed(RouteErrorCode::InvalidTerminator).unwrap();
    respond(&peer, &first, &Route::from_message(&first).unwrap(), is_unknown).await;
    let second = peer.expect(ctrl::content_type::ROUTE).await;
    respond(&peer, &second, &Route::from_message(&second).unwrap(), fine().unwrap()).await;
    assert_eq!(asked.await.unwrap().content_type, is::CREATE_TUNNEL_CIRCUIT_V2_RESPONSE);
    // The router is asked instead, and what it answers then counts.
    let question = peer.expect(ctrl::content_type::VALIDATE_TERMINATORS_V2).await;
    let terminator =
        || net.bed.controller.kernel().snapshot().get::<Terminator>(&Id::new("t1")).cloned();
    assert!(terminator().is_some());
    peer.send(hosts_none(&question)).await;
    until(|| terminator().is_none()).await;
}

/// The only host has no room at first: it is not asked again at once.
#[tokio::test]
async fn an_end_without_room_is_given_a_moment() {
    let (_net, _, mut peer, _) = hosted().await;
    let mut asked = Vec::new();
    let reply = dial_with(&mut peer, dial_request(), |_| {
        asked.push(std::time::Instant::now());
        match asked.len() {
            1 => failed(RouteErrorCode::ResourcesNotAvailable),
            _ => fine(),
        }
    })
    .await;
    assert_eq!(reply.content_type, is::CREATE_TUNNEL_CIRCUIT_V2_RESPONSE);
    assert_eq!(asked.len(), 2);
    assert!(asked[1] - asked[0] >= Duration::from_millis(500));
}

#[tokio::test]
async fn attempts_that_nobody_answers_run_out_of_time() {
    let (net, _, mut peer, _) = hosted_with(hurried()).await;
    let before = std::time::Instant::now();
    let reply = dial_with(&mut peer, dial_request(), |_| None).await;
    let error = EdgeError::from_message(&reply).unwrap();
    assert_eq!((error.code, error.retry_hint), (ErrorCode::INTERNAL, RetryHint::DEFAULT));
    assert!(error.text.contains("exceeded maximum [2] retries"), "{}", error.text);
    assert!(before.elapsed() >= hurried().route_timeout * 2);
    assert!(!error.circuit_id.unwrap().is_empty());
    assert!(net.network.circuits().is_empty());
}

#[tokio::test]
async fn a_late_success_is_taken_down() {
    let (net, _, mut peer, _) = hosted_with(hurried()).await;
    let mut late = None;
    let reply = dial_with(&mut peer, dial_request(), |route| {
        late = Some(route.clone());
        None
    })
    .await;
    assert_eq!(reply.content_type, is::ERROR);
    let route = late.unwrap();
    let result = RouteResult {
        circuit_id: route.circuit_id.clone(),
        attempt: route.attempt,
        result: Ok(PeerData::new()),
    };
    peer.send(result.to_message()).await;
    // Routers that have not answered are told, too: one unroute for each attempt, and one after the answer.
    let mut told = Vec::new();
    for _ in 0..3 {
        let unroute = peer.expect(ctrl::content_type::UNROUTE).await;
        let unroute = Unroute::from_message(&unroute).unwrap();
        assert!(unroute.now);
        told.push(unroute.circuit_id);
    }
    assert_ne!(told[0], told[1]);
    assert_eq!(told[1..], [route.circuit_id.clone(), route.circuit_id]);
    assert!(net.network.circuits().is_empty());
}

#[tokio::test]
async fn keys_are_insisted_on() {
    let (net, _, mut peer, _) = hosted().await;
    let without = CreateTunnelCircuitV2Request {
        service_name: "web".into(),
        ..CreateTunnelCircuitV2Request::default()
    };
    let reply = peer.ask(without.to_message()).await;
    let error = EdgeError::from_message(&reply).unwrap();
    assert_eq!(
        (error.code, error.retry_hint),
        (ErrorCode::ENCRYPTION_DATA_MISSING, RetryHint::START_OVER)
    );
    let unknown = CreateTunnelCircuitV2Request { service_name: "?".into(), ..without };
    let reply = peer.ask(unknown.to_message()).await;
    assert_eq!(EdgeError::from_message(&reply).unwrap().code, ErrorCode::INVALID_SERVICE);
    // Incomplete requests are answered too.
    let reply = peer.ask(Message::new(is::CREATE_CIRCUIT_V2_REQUEST, "")).await;
    assert_eq!(EdgeError::from_message(&reply).unwrap().code, ErrorCode::INTERNAL);
    let v3 = CreateCircuitV3 {
        identity_id: "i".into(),
        service_id: "s".into(),
        api_session_token: "ey".into(),
        ..CreateCircuitV3::default()
    };
    let without = CreateCircuitV3 { api_session_token: String::new(), ..v3.clone() };
    for v3 in [v3, without] {
        let reply = peer.ask(v3.to_message().unwrap()).await;
        assert_eq!(EdgeError::from_message(&reply).unwrap().code, ErrorCode::INVALID_API_SESSION);
    }
    assert!(dial_with(&mut peer, dial_request(), |_| fine()).await.body.len() > 1);
    assert_eq!(net.network.circuits().len(), 1);
}

#[tokio::test]
async fn what_is_no_protobuf_is_answered_and_closes_the_connection() {
    let (net, _, mut peer, _) = hosted().await;
    assert!(dial_with(&mut peer, dial_request(), |_| fine()).await.body.len() > 1);
    let other = net.router("er2").await;
    for content_type in [
        is::CREATE_CIRCUIT_REQUEST,
        is::CREATE_TUNNEL_CIRCUIT_V2_REQUEST,
        is::UPDATE_TUNNEL_TERMINATOR_REQUEST,
        is::REMOVE_TUNNEL_TERMINATOR_REQUEST,
    ] {
        let peer = net.connect(&other).await;
        let reply = peer.ask(Message::new(content_type, vec![0xff])).await;
        assert_eq!(reply.content_type, is::ERROR, "{}", reply.text());
        soon(peer.channel.closed()).await;
    }
    // A report needs no answer.
    let reporter = net.connect(&other).await;
    reporter.send(Message::new(ctrl::content_type::FAULT, vec![0xff])).await;
    soon(reporter.channel.closed()).await;
    assert_eq!(net.network.circuits().len(), 1, "others go on");
    assert!(!peer.channel.is_closed());
}

#[tokio::test]
async fn a_circuit_that_need_not_end_at_once_delivers_what_routers_hold() {
    let (net, _, mut peer, _) = hosted().await;
    for (body, now) in [
        (json!({"immediate": false}), false),
        (json!({}), false),
        (json!({"immediate": true}), true),
    ] {
        let (circuit, _) = made(&mut peer).await;
        let id = circuit.circuit_id.as_str();
        let own = net.network.circuits().get(id).unwrap();
        assert_eq!(own.tags.get("reportedBy"), None);
        let call = to(Api::Fabric, "deleteCircuit", &[id]).with_json(&body);
        net.bed.controller.call(net.admin.clone(), call).await.unwrap();
        let end = Unroute::from_message(&peer.expect(ctrl::content_type::UNROUTE).await).unwrap();
        assert_eq!((end.circuit_id.as_str(), end.now), (id, now), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_unroute_is_lost_however_many_circuits_end_at_once() {
    const ALL: usize = 100_000;
    let net = Net::new().await;
    let router = net.router("r1").await;
    let mut peer = net.connect(&router).await;
    // The router carries no circuits of an earlier run.
    peer.send(
        CarriedCircuits { routes: Vec::new(), last: true, ..Default::default() }.to_message(),
    )
    .await;
    // More unroutes than a lane and the buffers of a connection hold, while the router reads nothing.
    let ids: Vec<String> =
        (0..ALL).map(|number| format!("unknown-circuit-{number:0100}")).collect();
    for circuit_ids in ids.chunks(1000) {
        let circuit_ids = circuit_ids.to_vec();
        let confirm = CircuitConfirmation { circuit_ids, ..CircuitConfirmation::default() };
        peer.send(confirm.to_message()).await;
    }
    for id in ids {
        let unroute = peer.expect(ctrl::content_type::UNROUTE).await;
        assert_eq!(
            Unroute::from_message(&unroute).unwrap(),
            Unroute { term: 0, circuit_id: id, now: true }
        );
    }
    peer.settled().await;
}
