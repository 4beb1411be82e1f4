//! Bindings of a router other than `edge`: services that a router may dial and host without a
//! session.

use std::time::Duration;

use serde_json::json;
use weft_model::entity::{PolicyType, ServicePolicy, Terminator};
use weft_network::NetworkOptions;
use weft_wire::ctrl::{CircuitFailed, CircuitRequest, CreateTerminatorRequest};
use weft_wire::{Message, Outcome, ProtoBody};

use super::circuits::made;
use super::support::{Net, Peer, hurried, until};
use super::terminators::host as host_by_tunneler;

fn host(service: &str) -> Message {
    CreateTerminatorRequest {
        service_id: service.to_owned(),
        binding: "transport".into(),
        address: "tcp:localhost:80".into(),
        ..CreateTerminatorRequest::default()
    }
    .to_message()
}

fn dial(service: &str) -> Message {
    CircuitRequest {
        ingress_id: "somebody".into(),
        service: service.to_owned(),
        ..CircuitRequest::default()
    }
    .to_message()
}

async fn hosts(peer: &mut Peer, service: &str) -> Result<(), String> {
    let outcome = Outcome::from_message(&peer.ask(host(service)).await).unwrap();
    if outcome.success { Ok(()) } else { Err(outcome.text) }
}

/// Why a dial failed. A service that may be dialed has no host here, so that the dial fails as
/// well.
async fn dials(peer: &mut Peer, service: &str) -> String {
    CircuitFailed::from_message(&peer.ask(dial(service)).await).unwrap().error
}

/// How long a router has for removing terminators without a host.
const LATER: Duration = Duration::from_millis(300);

/// A service in no policy.
async fn service(net: &Net) -> String {
    net.create("createService", json!({"name": "web", "encryptionRequired": false})).await
}

#[tokio::test]
async fn a_router_dials_and_hosts_nothing_that_nobody_gave_it() {
    let net = Net::new().await;
    let service = service(&net).await;
    let mut peer = net.connect(&net.router("er1").await).await;
    let revision = net.bed.controller.kernel().snapshot().revision();
    let refused = hosts(&mut peer, &service).await.unwrap_err();
    assert!(refused.contains("unrestrictedBindings"), "{refused}");
    let refused = dials(&mut peer, &service).await;
    assert!(refused.contains("unrestrictedBindings"), "{refused}");
    assert_eq!(net.bed.controller.kernel().snapshot().revision(), revision);
    assert!(net.network.circuits().is_empty());
}

#[tokio::test]
async fn policies_of_its_tunneler_give_a_router_its_bindings() {
    let net = Net::new().await;
    let service =
        net.open_service(json!({"name": "web", "encryptionRequired": false})).await.to_string();
    let mut peer = net.connect(&net.router("er1").await).await;
    let refused = dials(&mut peer, &service).await;
    assert!(!refused.contains("unrestrictedBindings"), "only nobody hosts it: {refused}");
    hosts(&mut peer, &service).await.unwrap();
}

#[tokio::test]
async fn the_operator_names_the_routers_whose_bindings_use_everything() {
    let net = Net::set(|settings| settings.unrestricted_bindings = vec!["er1".into()]).await;
    let service = service(&net).await;
    let (named, other) = (net.router("er1").await, net.router("er2").await);
    let mut named = net.connect(&named).await;
    assert!(!dials(&mut named, &service).await.contains("unrestrictedBindings"));
    hosts(&mut named, &service).await.unwrap();
    let mut other = net.connect(&other).await;
    assert!(hosts(&mut other, &service).await.is_err());
    assert!(dials(&mut other, &service).await.contains("unrestrictedBindings"));
}

/// Takes the right to host from everybody.
async fn nobody_may_host(net: &Net) {
    let snapshot = net.bed.controller.kernel().snapshot();
    let mut policies = snapshot.list::<ServicePolicy>();
    let policy = policies.find(|policy| policy.policy_type == PolicyType::Bind).unwrap();
    net.manage("deleteServicePolicy", &[policy.base.id.as_str()], json!(null)).await;
}

#[tokio::test]
async fn a_host_that_lost_its_right_is_dialed_no_more_though_its_router_keeps_the_terminator() {
    let options = NetworkOptions { unfounded_life: LATER, cycle: LATER / 3, ..hurried() };
    let net = Net::with(options).await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": true})).await;
    let mut peer = net.connect(&net.router("er1").await).await;
    hosts(&mut peer, service.as_str()).await.unwrap();
    host_by_tunneler(&peer, &service, "t1").await;
    let held = || net.bed.controller.kernel().snapshot().list::<Terminator>().count();
    made(&mut peer).await;
    assert_eq!((net.network.circuits().len(), held()), (1, 2));

    nobody_may_host(&net).await;
    let refused = dials(&mut peer, service.as_str()).await;
    assert!(refused.contains("lost the right to host"), "{refused}");
    assert_eq!(held(), 2, "its router has time for removing them");
    until(|| held() == 0).await;
    until(|| net.network.circuits().is_empty()).await;
}
