//! Circuits that a router carries when it connects, after a restart of the controller or a lost connection.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weft_model::Id;
use weft_network::NetworkOptions;
use weft_network::routers::LiveRouter;
use weft_wire::ctrl::inspect_response::InspectValue;
use weft_wire::ctrl::route::Forward;
use weft_wire::ctrl::{
    self, CarriedCircuits, CircuitConfirmation, DestType, Fault, InspectRequest, InspectResponse,
    Route, RouterHello, Unroute,
};
use weft_wire::{ProtoBody, VersionInfo};

use super::circuits::{hosted, hosted_with, made};
use super::support::{quick, soon, until};

#[tokio::test]
async fn a_restart_breaks_no_circuit() {
    let (net, router, mut peer, _) = hosted().await;
    let (kept, route) = made(&mut peer).await;
    let (lost, _) = made(&mut peer).await;
    let net = net.restarted().await;
    soon(peer.channel.closed()).await;
    assert!(net.network.circuits().is_empty());

    let mut peer = net.connect(&router).await;
    let mut carried = route.clone();
    carried.context = None;
    let report = CarriedCircuits { routes: vec![carried], last: true, ..Default::default() };
    peer.send(report.to_message()).await;
    until(|| net.network.circuits().get(&kept.circuit_id).is_some()).await;
    let circuit = net.network.circuits().get(&kept.circuit_id).unwrap();
    assert!(circuit.is_whole && net.network.in_part() == 0);
    assert_eq!(
        circuit.tags.get("reportedBy"),
        Some(router.id.as_str()),
        "this run did not make it"
    );
    assert_eq!(circuit.terminator, Id::new("t1"));
    assert_eq!((circuit.ingress.as_str(), circuit.path.nodes.len()), (kept.address.as_str(), 1));
    assert_eq!(net.network.dynamic_cost(&Id::new("t1")), 2);

    // Idle circuits are confirmed if they are known; the router has reported which it carries.
    let ids = vec![kept.circuit_id.clone(), lost.circuit_id.clone()];
    let confirm = CircuitConfirmation { circuit_ids: ids, ..CircuitConfirmation::default() };
    peer.send(confirm.to_message()).await;
    let unroute = Unroute::from_message(&peer.expect(ctrl::content_type::UNROUTE).await).unwrap();
    assert_eq!(unroute.circuit_id, lost.circuit_id);
    assert!(!peer.has(ctrl::content_type::UNROUTE));

    // Circuits that a router does not report after it connects again have ended.
    net.bed.clock.advance(Duration::from_secs(5));
    peer.leave();
    until(|| net.network.routers().all().is_empty()).await;
    let peer = net.connect(&router).await;
    peer.send(
        CarriedCircuits { routes: Vec::new(), last: true, ..Default::default() }.to_message(),
    )
    .await;
    until(|| net.network.circuits().is_empty()).await;
    // An ended circuit is not adopted again.
    peer.send(
        CarriedCircuits { routes: vec![route], last: true, ..Default::default() }.to_message(),
    )
    .await;
    peer.settled().await;
    assert!(net.network.circuits().is_empty());
}

/// The router starts again and connects anew while its former report is handled.
#[tokio::test]
async fn a_circuit_of_a_late_report_is_not_younger_than_the_next_connection() {
    let (net, router, mut peer, _) = hosted().await;
    let (kept, route) = made(&mut peer).await;
    let net = net.restarted().await;
    soon(peer.channel.closed()).await;
    let _peer = net.connect(&router).await;
    let former = net.network.routers().get(router.id.as_str()).unwrap();
    let hello = RouterHello { version: Some(VersionInfo::default()), ..RouterHello::default() };
    let (channel, at) = (former.channel.clone(), former.connected_at);
    let newer = LiveRouter::new(router.id.clone(), channel, hello, ("print", None), at).unwrap();
    let newer = Arc::new(newer);
    let carried = Route { context: None, ..route };
    net.network.on_carried(
        &former,
        CarriedCircuits { routes: vec![carried], last: true, ..Default::default() },
    );
    assert!(net.network.circuits().get(&kept.circuit_id).is_some());
    net.network.connected(&newer).unwrap();
    net.network.on_carried(
        &newer,
        CarriedCircuits { routes: Vec::new(), last: true, ..Default::default() },
    );
    assert!(net.network.circuits().get(&kept.circuit_id).is_none());
}

#[tokio::test]
async fn a_router_that_a_circuit_had_left_before_a_restart_forgets_it() {
    let (net, router, mut peer, _) = hosted().await;
    let (kept, route) = made(&mut peer).await;
    let other = net.router("er2").await;
    let net = net.restarted().await;
    soon(peer.channel.closed()).await;
    let mut left = net.connect(&other).await;
    let forward = |from: &str, to: &str| Forward {
        src_address: from.to_owned(),
        dst_address: to.to_owned(),
        dst_type: DestType::Link.into(),
    };
    let forwards = vec![forward("one", "two"), forward("two", "one")];
    let circuit_id = kept.circuit_id.clone();
    let piece = Route { circuit_id, forwards, ..Route::default() };
    left.send(
        CarriedCircuits { routes: vec![piece], last: true, ..Default::default() }.to_message(),
    )
    .await;
    until(|| net.network.in_part() == 1).await;
    // The path of the circuit leads over the first router alone.
    let peer = net.connect(&router).await;
    let carried = Route { context: None, ..route };
    peer.send(
        CarriedCircuits { routes: vec![carried], last: true, ..Default::default() }.to_message(),
    )
    .await;
    let told = left.expect(ctrl::content_type::UNROUTE).await;
    assert_eq!(Unroute::from_message(&told).unwrap().circuit_id, kept.circuit_id);
    assert!(net.network.circuits().get(&kept.circuit_id).unwrap().is_whole);
}

#[tokio::test]
async fn routers_that_only_confirm_keep_their_circuits_too() {
    let (net, router, mut peer, _) = hosted().await;
    let (circuit, _) = made(&mut peer).await;
    let net = net.restarted().await;
    let mut peer = net.connect(&router).await;
    let ids = vec![circuit.circuit_id.clone()];
    let confirm = CircuitConfirmation { circuit_ids: ids, ..CircuitConfirmation::default() };
    peer.send(confirm.to_message()).await;
    peer.settled().await;
    assert!(!peer.has(ctrl::content_type::UNROUTE));
    assert!(!net.network.circuits().get(&circuit.circuit_id).unwrap().is_whole);
    assert_eq!(net.network.in_part(), 1);
    peer.send(Fault::circuit(true, &*circuit.circuit_id).to_message()).await;
    peer.expect(ctrl::content_type::UNROUTE).await;
    assert_eq!(net.network.in_part(), 0);
    peer.send(confirm.to_message()).await;
    peer.expect(ctrl::content_type::UNROUTE).await;
    assert!(net.network.circuits().is_empty());
}

#[tokio::test]
async fn a_router_that_tells_nothing_is_asked_what_it_lost() {
    let options = NetworkOptions { carried_grace: Duration::from_millis(10), ..quick() };
    let (net, router, mut peer, _) = hosted_with(options).await;
    let (kept, _) = made(&mut peer).await;
    let (lost, _) = made(&mut peer).await;
    net.bed.clock.advance(Duration::from_secs(5));
    peer.leave();
    until(|| net.network.routers().all().is_empty()).await;
    assert_eq!(net.network.circuits().len(), 2, "they live on over one router");

    let mut peer = net.connect(&router).await;
    let (young, _) = made(&mut peer).await;
    let mut asked = peer.expect(ctrl::content_type::INSPECT_REQUEST).await;
    // A question that fails is repeated.
    let failed = InspectResponse { success: false, ..InspectResponse::default() };
    peer.send(failed.to_message().in_reply_to(&asked)).await;
    asked = peer.expect(ctrl::content_type::INSPECT_REQUEST).await;
    let names = InspectRequest::from_message(&asked).unwrap().requested_values;
    assert_eq!(names, ["router-circuits", "router-edge-circuits"]);
    let listed = [&kept, &young].map(|circuit| {
        let id = &circuit.circuit_id;
        (id.clone(), json!({"id": id, "ctrlId": "ctrl1", "routes": {}, "destinations": {}}))
    });
    let listed = serde_json::Map::from_iter(listed);
    let value = json!({ "circuits": listed }).to_string();
    let values = vec![InspectValue { name: "router-circuits".into(), value }];
    let answer = InspectResponse { success: true, errors: Vec::new(), values };
    peer.send(answer.to_message().in_reply_to(&asked)).await;
    let unroute = Unroute::from_message(&peer.expect(ctrl::content_type::UNROUTE).await).unwrap();
    assert_eq!((unroute.circuit_id, unroute.now), (lost.circuit_id, true));
    assert_eq!(net.network.circuits().len(), 2);
    assert!(net.network.circuits().get(&young.circuit_id).is_some());
    assert_eq!(net.network.dynamic_cost(&Id::new("t1")), 4);
}
