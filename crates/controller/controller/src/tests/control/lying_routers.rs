//! Routers that report too many listeners, or report entities of other routers.

use std::time::Duration;

use serde_json::json;
use weft_model::Id;
use weft_network::NetworkOptions;
use weft_wire::ctrl::inspect_response::InspectValue;
use weft_wire::ctrl::{
    self, InspectRequest, InspectResponse, Listener, Listeners, PeerState, PeerStateChanges,
    RemoveTerminatorRequest, RemoveTerminatorsRequest, RouterLinks, TerminatorPrecedence,
    UpdateTerminatorRequest,
};
use weft_wire::edge_ctrl::{
    self, CreateTerminatorResult, CreateTunnelTerminatorRequestV2, CreateTunnelTerminatorResponseV2,
};
use weft_wire::{Message, ProtoBody};

use super::circuits::{hosted, made};
use super::mesh::link;
use super::support::{Net, Peer, TestRouter, quick, soon, until};

/// The number of refused reports of a router.
async fn refused(net: &Net, router: &TestRouter, report: &str) -> u64 {
    let inspected = net.network.inspect("^ctrl1$", &["refused-reports".to_owned()]).await;
    let all = inspected.values[0].value["routers"].as_array().unwrap().clone();
    let of = all.iter().find(|one| one["routerId"] == router.id.as_str());
    of.and_then(|one| one["reports"][report].as_u64()).unwrap_or(0)
}

/// A report of so many listeners.
fn listeners(count: usize, host: &str) -> Message {
    let listener = |number: usize| Listener {
        address: format!("tls:{host}:{}", number + 1),
        protocol: "tls".into(),
        groups: vec!["default".into()],
        local_binding: String::new(),
    };
    Listeners { listeners: (0..count).map(listener).collect(), ..Listeners::default() }.to_message()
}

/// The listeners of the first router in the next news.
async fn news(peer: &mut Peer) -> Vec<Listener> {
    let message = peer.expect(ctrl::content_type::PEER_STATE_CHANGE).await;
    PeerStateChanges::from_message(&message).unwrap().changes.swap_remove(0).listeners
}

#[tokio::test]
async fn a_router_tells_others_of_few_listeners_and_not_too_often() {
    let net = Net::new().await;
    let (liar, other) = (net.router("liar").await, net.router("other").await);
    let mut hears = net.connect(&other).await;
    let tells = net.connect(&liar).await;
    assert!(news(&mut hears).await.is_empty());
    tells.send(listeners(100, "a")).await;
    assert_eq!(news(&mut hears).await.len(), 16);
    assert_eq!(refused(&net, &liar, "tooManyLinkListeners").await, 84);
    // The same report is no news.
    tells.send(listeners(16, "a")).await;
    tells.settled().await;
    tells.send(listeners(1, "b")).await;
    assert_eq!(news(&mut hears).await.len(), 1);
    for number in 0..100 {
        tells.send(listeners(1, &format!("c{number}"))).await;
    }
    tells.settled().await;
    assert!(refused(&net, &liar, "tooManyLinkListeners").await >= 84 + 80);
    let known = net.network.routers().get(liar.id.as_str()).unwrap().listeners();
    assert_eq!(known.len(), 1);
    assert_eq!(refused(&net, &other, "tooManyLinkListeners").await, 0);
}

#[tokio::test]
async fn changes_of_terminators_of_other_routers_are_counted() {
    let (net, router, peer, service) = hosted().await;
    let liar = net.router("liar").await;
    let lies = net.connect(&liar).await;
    let count = async || refused(&net, &liar, "terminatorOfAnotherRouter").await;
    let remove = RemoveTerminatorRequest { terminator_id: "t1".into() };
    lies.ask(remove.to_message()).await;
    assert_eq!(count().await, 1);
    let update = UpdateTerminatorRequest {
        terminator_id: "t1".into(),
        update_precedence: true,
        precedence: TerminatorPrecedence::Failed.into(),
        ..UpdateTerminatorRequest::default()
    };
    lies.ask(update.to_message()).await;
    assert_eq!(count().await, 2);
    let hosted = edge_ctrl::RemoveTerminatorRequest {
        terminator_id: "t1".into(),
        ..edge_ctrl::RemoveTerminatorRequest::default()
    };
    lies.ask(hosted.to_message()).await;
    let kind = edge_ctrl::content_type::REMOVE_TUNNEL_TERMINATOR_REQUEST;
    lies.ask(Message::new(kind, "t1".to_owned())).await;
    assert_eq!(count().await, 4);
    let take = CreateTunnelTerminatorRequestV2 {
        service_id: service.to_string(),
        address: "t1".into(),
        ..CreateTunnelTerminatorRequestV2::default()
    };
    let taken = lies.ask(take.to_message()).await;
    let taken = CreateTunnelTerminatorResponseV2::from_message(&taken).unwrap();
    assert_ne!(taken.result(), CreateTerminatorResult::Success);
    assert_eq!(count().await, 5);
    let all = RemoveTerminatorsRequest {
        terminator_ids: vec!["t1".into(), "nobody".into(), "t1".into()],
    };
    lies.ask(all.to_message()).await;
    assert_eq!(count().await, 7);
    // The owner may do all of that.
    peer.ask(all.to_message()).await;
    peer.ask(remove.to_message()).await;
    assert_eq!(refused(&net, &router, "terminatorOfAnotherRouter").await, 0);
}

#[tokio::test]
async fn a_router_that_missed_the_removal_of_another_is_told_when_it_reports_the_link() {
    let net = Net::new().await;
    let (one, gone) = (net.router("one").await, net.router("gone").await);
    net.manage("deleteEdgeRouter", &[gone.id.as_str()], serde_json::Value::Null).await;
    let mut peer = net.connect(&one).await;
    let links = RouterLinks { links: vec![link("l1", &gone)], full_refresh: true };
    peer.send(links.to_message()).await;
    let told = loop {
        let message = peer.expect(ctrl::content_type::PEER_STATE_CHANGE).await;
        let mut changes = PeerStateChanges::from_message(&message).unwrap().changes;
        changes.retain(|change| change.id == gone.id.as_str());
        if let Some(told) = changes.pop() {
            break told;
        }
    };
    assert_eq!(told.state(), PeerState::Removed);
}

#[tokio::test]
async fn a_circuit_that_did_not_count_is_not_counted_off() {
    let (net, _router, mut peer, service) = hosted().await;
    let strategy = async |name: &str| {
        let body = json!({"terminatorStrategy": name});
        net.manage("patchService", &[service.as_str()], body).await;
    };
    let cost = || net.network.dynamic_cost(&Id::new("t1"));
    strategy("random").await;
    let (uncounted, _) = made(&mut peer).await;
    assert_eq!(cost(), 0);
    strategy("smartrouting").await;
    let (counted, _) = made(&mut peer).await;
    assert_eq!(cost(), 2);
    assert!(net.network.remove_circuit(&uncounted.circuit_id, true));
    assert_eq!(cost(), 2);
    assert!(net.network.remove_circuit(&counted.circuit_id, true));
    until(|| cost() == 0).await;
}

/// Answers an inspection with values.
async fn answer(peer: &mut Peer, values: &[(&str, String)]) -> Vec<String> {
    let asked = peer.expect(ctrl::content_type::INSPECT_REQUEST).await;
    let values = values
        .iter()
        .map(|(name, value)| InspectValue { name: (*name).into(), value: value.clone() });
    let answer = InspectResponse { success: true, errors: Vec::new(), values: values.collect() };
    peer.send(answer.to_message().in_reply_to(&asked)).await;
    InspectRequest::from_message(&asked).unwrap().requested_values
}

#[tokio::test]
async fn a_router_fills_no_inspection_and_keeps_no_other_value_out() {
    let net = Net::new().await;
    let routers = [net.router("er1").await, net.router("er2").await, net.router("er3").await];
    let [mut large, mut huge, mut honest] = [
        net.connect(&routers[0]).await,
        net.connect(&routers[1]).await,
        net.connect(&routers[2]).await,
    ];
    let names = ["links".to_owned(), "config".to_owned()];
    let links = ("links", "{\"links\":[]}".to_owned());
    let large_value = ("config", "x".repeat(9 << 20));
    let huge_values = [("config", "[".repeat(17 << 20)), links.clone()];
    // On a busy machine a large answer may come too late; then nothing is told of it.
    let told = soon(async {
        loop {
            let answers = async {
                answer(&mut large, &[large_value.clone(), links.clone()]).await;
                answer(&mut huge, &huge_values).await;
                answer(&mut honest, std::slice::from_ref(&links)).await;
            };
            let (told, ()) = tokio::join!(net.network.inspect("^er", &names), answers);
            if told.errors.len() + told.values.len() == 4 {
                return told;
            }
        }
    })
    .await;
    let from = told.values.iter().map(|it| (it.app_id.as_str(), it.name.as_str()));
    let mut from: Vec<_> = from.collect();
    let mut expected = [(routers[0].id.as_str(), "links"), (routers[2].id.as_str(), "links")];
    from.sort_unstable();
    expected.sort_unstable();
    assert_eq!(from, expected);
    assert!(told.values.iter().all(|it| it.value == json!({"links": []})));
    let error = |router: &TestRouter| {
        let of = told.errors.iter().find_map(|it| it.strip_prefix(&format!("{}: ", router.id)));
        of.unwrap_or_default().to_owned()
    };
    assert!(error(&routers[0]).starts_with("the value config is left out"), "{:?}", told.errors);
    assert!(error(&routers[1]).starts_with("the answer is left out"), "{:?}", told.errors);
    assert!(!told.success && told.errors.len() == 2);
}

#[tokio::test]
async fn a_router_that_describes_none_of_its_circuits_costs_no_more_than_their_list() {
    const CIRCUITS: usize = 20_000;
    let carried_grace = Duration::from_millis(10);
    let net = Net::with(NetworkOptions { carried_grace, ..quick() }).await;
    let liar = net.router("liar").await;
    let mut peer = net.connect(&liar).await;
    let listed = (0..CIRCUITS).map(|number| {
        let id = format!("c{number}");
        let circuit = json!({"id": id, "ctrlId": "ctrl1", "routes": {"A": "B"},
            "destinations": {"B": "xgress"}});
        (id, circuit)
    });
    let listed = json!({"circuits": serde_json::Map::from_iter(listed)}).to_string();
    soon(async {
        answer(&mut peer, &[("router-circuits", listed)]).await;
        let mut asked = 0;
        while asked < CIRCUITS {
            asked += answer(&mut peer, &[]).await.len();
        }
        peer.settled().await;
    })
    .await;
    assert!(net.network.circuits().is_empty());
}
