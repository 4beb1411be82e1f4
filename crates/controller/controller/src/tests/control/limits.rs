//! What one identity may fill.

use serde_json::json;
use weft_config::controller::PerIdentity;
use weft_model::Id;
use weft_model::entity::Terminator;
use weft_network::NetworkOptions;
use weft_wire::ProtoBody;
use weft_wire::ctrl::peer_data_key::DIALER_IDENTITY_NAME;
use weft_wire::edge_ctrl::{
    CreateCircuitV2, CreateTerminatorResult, CreateTerminatorV2Request, CreatedCircuit, EdgeError,
    RemoveTerminatorRequest, RetryHint,
};

use super::circuits::{dial_with, fine};
use super::sdk::{Sdk, create};
use super::support::{Net, Peer, quick, soon, until};

/// A network with a service for every identity and a router, in which each identity may have little.
async fn narrow(max_terminators: u32, max_circuits: u32) -> (Net, Peer, Id) {
    let per_identity = PerIdentity { max_terminators, max_circuits };
    let net = Net::with(NetworkOptions { per_identity, ..quick() }).await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let router = net.router("er1").await;
    let peer = net.connect(&router).await;
    (net, peer, service)
}

/// Whether the text of the metrics has this line.
async fn measures(net: &Net, name: &str, value: u64) -> bool {
    let text = net.network.prometheus(false).await;
    let text = String::from_utf8_lossy(&text);
    text.lines().any(|line| line.starts_with(name) && line.ends_with(&format!(" {value}")))
}

#[tokio::test]
async fn an_identity_hosts_so_many_terminators_and_keeps_no_other_from_hosting() {
    let (net, peer, service) = narrow(3, 9).await;
    let (greedy, modest) = (Sdk::new(&net, "greedy").await, Sdk::new(&net, "modest").await);
    let (asked, other) = (greedy.hosting(&service, "").await, modest.hosting(&service, "").await);
    let host = async |of: &CreateTerminatorV2Request, id: &str| {
        let request = CreateTerminatorV2Request { address: id.to_owned(), ..of.clone() };
        create(&peer, &request).await
    };
    let made = futures::future::join_all(["a", "b", "c", "d", "e"].map(|id| host(&asked, id)));
    let refused: Vec<_> = made
        .await
        .into_iter()
        .filter(|it| it.result() != CreateTerminatorResult::Success)
        .collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    let text = format!(
        "identity greedy ({}) has 3 terminators, as many as it may have; close some, or raise its limit with the tag \
         weftMaxTerminators of the identity or network.perIdentity.maxTerminators in the controller's file",
        greedy.identity
    );
    assert_eq!((refused[0].msg.as_str(), refused[0].retry_hint), (&*text, RetryHint::DEFAULT.0));
    assert!(measures(&net, "ziti_weft_terminators_refused", 2).await);
    assert_eq!(host(&other, "f").await.result(), CreateTerminatorResult::Success);
    // What exists is reported again, and one that goes makes room.
    assert_eq!(host(&asked, "a").await.result(), CreateTerminatorResult::Success);
    let remove = RemoveTerminatorRequest { terminator_id: "a".into(), ..Default::default() };
    peer.ask(remove.to_message()).await;
    assert_eq!(host(&asked, "g").await.result(), CreateTerminatorResult::Success);
    assert_ne!(host(&asked, "h").await.result(), CreateTerminatorResult::Success);
    let tags = json!({"tags": {"weftMaxTerminators": 4}});
    net.manage("patchIdentity", &[&greedy.identity], tags).await;
    assert_eq!(host(&asked, "h").await.result(), CreateTerminatorResult::Success);
    assert_ne!(host(&asked, "i").await.result(), CreateTerminatorResult::Success);
}

#[tokio::test]
async fn terminators_of_a_lost_router_keep_no_host_from_another_router() {
    let (net, _, service) = narrow(3, 9).await;
    let (lost, other) = (net.router("lost").await, net.router("other").await);
    let peer = net.connect(&lost).await;
    let host = Sdk::new(&net, "host").await;
    let asked = host.hosting(&service, "").await;
    let host = async |peer: &Peer, id: &str| {
        let request = CreateTerminatorV2Request { address: id.to_owned(), ..asked.clone() };
        create(peer, &request).await.result()
    };
    for id in ["a", "b", "c"] {
        assert_eq!(host(&peer, id).await, CreateTerminatorResult::Success);
    }
    let other = net.connect(&other).await;
    peer.leave();
    until(|| net.network.routers().get(lost.id.as_str()).is_none()).await;
    for id in ["d", "e", "f"] {
        assert_eq!(host(&other, id).await, CreateTerminatorResult::Success);
    }
    assert_ne!(host(&other, "g").await, CreateTerminatorResult::Success);
    let all = net.bed.controller.kernel().snapshot();
    assert_eq!(all.list::<Terminator>().count(), 6, "the lost router keeps its terminators");
}

#[tokio::test]
async fn a_router_that_comes_and_goes_lets_no_host_pass_its_limit() {
    let (net, _, service) = narrow(3, 9).await;
    let (flapping, other) = (net.router("flapping").await, net.router("other").await);
    let peer = net.connect(&flapping).await;
    let host = Sdk::new(&net, "host").await;
    let asked = host.hosting(&service, "").await;
    let host = async |peer: &Peer, id: &str| {
        let request = CreateTerminatorV2Request { address: id.to_owned(), ..asked.clone() };
        create(peer, &request).await.result() == CreateTerminatorResult::Success
    };
    for id in ["a", "b", "c"] {
        assert!(host(&peer, id).await);
    }
    let second = net.connect(&other).await;
    let is_away = |id: &str| net.network.routers().get(id).is_none();
    peer.leave();
    until(|| is_away(flapping.id.as_str())).await;
    assert!(host(&second, "d").await);
    net.bed.clock.advance(std::time::Duration::from_secs(60));
    let peer = net.connect(&flapping).await;
    assert!(!host(&peer, "e").await, "it is counted again as soon as it is back");
    assert!(!host(&second, "e").await);
    // However many routers are away, there are twice as many terminators at most.
    peer.leave();
    second.leave();
    until(|| is_away(flapping.id.as_str()) && is_away(other.id.as_str())).await;
    let third = net.connect(&net.router("third").await).await;
    assert!(host(&third, "e").await && host(&third, "f").await);
    assert!(!host(&third, "g").await);
}

#[tokio::test]
async fn an_identity_dials_so_many_circuits_and_keeps_no_other_from_dialing() {
    let (net, mut peer, service) = narrow(9, 2).await;
    let (greedy, modest) = (Sdk::new(&net, "greedy").await, Sdk::new(&net, "modest").await);
    create(&peer, &modest.hosting(&service, "hosted").await).await;
    let asks = [greedy.dialing(&service).await, greedy.dialing(&service).await];
    let mut dial = async |ask: &CreateCircuitV2| {
        dial_with(&mut peer, ask.to_message().unwrap(), |_| fine()).await
    };
    let first = CreatedCircuit::from_message(&dial(&asks[0]).await).unwrap();
    CreatedCircuit::from_message(&dial(&asks[1]).await).unwrap();
    let refused = EdgeError::from_message(&dial(&asks[0]).await).unwrap();
    let text = format!(
        "identity greedy ({}) has 2 circuits, as many as it may have; close some, or raise its limit with the tag \
         weftMaxCircuits of the identity or network.perIdentity.maxCircuits in the controller's file",
        greedy.identity
    );
    assert_eq!((refused.text.as_str(), refused.retry_hint), (&*text, RetryHint::DEFAULT));
    assert!(measures(&net, "ziti_weft_circuits_refused", 1).await);
    let other = modest.dialing(&service).await;
    assert!(CreatedCircuit::from_message(&dial(&other).await).is_ok());
    assert!(net.network.remove_circuit(&first.circuit_id, true));
    assert!(CreatedCircuit::from_message(&dial(&asks[0]).await).is_ok());
    assert!(EdgeError::from_message(&dial(&asks[1]).await).is_ok());
    net.manage("patchIdentity", &[&greedy.identity], json!({"tags": {"weftMaxCircuits": "3"}}))
        .await;
    assert!(CreatedCircuit::from_message(&dial(&asks[1]).await).is_ok());
    assert!(EdgeError::from_message(&dial(&asks[1]).await).is_ok());
}

#[tokio::test]
async fn a_host_that_answers_no_dials_leaves_places_for_dials_to_others() {
    let (net, mut peer, web) = narrow(9, 9_999).await;
    let silent = json!({"name": "silent", "encryptionRequired": false});
    let silent = Id::new(&net.create("createService", silent).await);
    let (bad, good) = (Sdk::new(&net, "bad").await, Sdk::new(&net, "good").await);
    create(&peer, &bad.hosting(&silent, "bad").await).await;
    create(&peer, &good.hosting(&web, "good").await).await;
    // Each of these may have half of the places for its dials.
    for name in ["bad", "lured"] {
        let dialer = if name == "bad" { &bad } else { &Sdk::new(&net, name).await };
        let ask = dialer.dialing(&silent).await;
        for _ in 0..600 {
            peer.send(ask.to_message().unwrap()).await;
        }
    }
    let ask = good.dialing(&web).await;
    let is_made = soon(async {
        loop {
            let reply = dial_with(&mut peer, ask.to_message().unwrap(), |route| {
                let to_good = route.egress.as_ref().is_some_and(|end| end.destination == "good");
                if to_good { fine() } else { None }
            });
            if CreatedCircuit::from_message(&reply.await).is_ok() {
                return;
            }
        }
    });
    is_made.await;
    until(|| net.network.circuits().in_making() == 256).await;
}

#[tokio::test]
async fn a_dialer_that_is_never_answered_keeps_no_other_from_the_host() {
    let (net, mut peer, web) = narrow(9, 9_999).await;
    let host = Sdk::new(&net, "host").await;
    create(&peer, &host.hosting(&web, "hosted").await).await;
    let greedy = Sdk::new(&net, "greedy").await;
    let ask = greedy.dialing(&web).await;
    for _ in 0..256 {
        peer.send(ask.to_message().unwrap()).await;
    }
    until(|| net.network.circuits().in_making() == 256).await;
    let modest = Sdk::new(&net, "modest").await.dialing(&web).await;
    // The host answers the dialer whose name it knows.
    let reply = soon(dial_with(&mut peer, modest.to_message().unwrap(), |route| {
        let dialer = &route.egress.as_ref()?.peer_data[&DIALER_IDENTITY_NAME];
        if dialer == "modest" { fine() } else { None }
    }));
    assert!(CreatedCircuit::from_message(&reply.await).is_ok());
}

#[tokio::test]
async fn a_dial_goes_on_to_another_host_when_one_is_full() {
    let (net, mut peer, web) = narrow(9, 9_999).await;
    let (full, other) = (Sdk::new(&net, "full").await, Sdk::new(&net, "other").await);
    // All of these are tried before the other host, which costs more.
    for id in ["f1", "f2", "f3", "f4", "f5"] {
        let asked = full.hosting(&web, "").await;
        create(&peer, &CreateTerminatorV2Request { address: id.to_owned(), ..asked }).await;
    }
    let dialer = Sdk::new(&net, "dialer").await;
    let ask = dialer.dialing(&web).await;
    for _ in 0..256 {
        peer.send(ask.to_message().unwrap()).await;
    }
    until(|| net.network.circuits().in_making() == 256).await;
    let asked = other.hosting(&web, "").await;
    let dear = CreateTerminatorV2Request { address: "o1".into(), cost: 9_000, ..asked };
    create(&peer, &dear).await;
    let reply = soon(dial_with(&mut peer, ask.to_message().unwrap(), |route| {
        let is_other = route.egress.as_ref().is_some_and(|end| end.destination == "o1");
        if is_other { fine() } else { None }
    }));
    assert!(CreatedCircuit::from_message(&reply.await).is_ok());
}
