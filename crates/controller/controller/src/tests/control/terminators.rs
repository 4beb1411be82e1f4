//! Terminators of routers.

use std::time::Duration;

use serde_json::json;
use weft_kernel::Caller;
use weft_model::entity::{Precedence, Terminator};
use weft_model::{Base, Id};
use weft_network::NetworkOptions;
use weft_wire::ctrl::{
    self, RouterTerminatorState, TerminatorPrecedence, ValidateTerminatorsV2Request,
    ValidateTerminatorsV2Response,
};
use weft_wire::edge_ctrl::{
    CreateTerminatorResult, CreateTunnelTerminatorRequestV2, CreateTunnelTerminatorResponseV2,
    EdgeError, ErrorCode, UpdateTunnelTerminatorRequest, content_type as is,
};
use weft_wire::{Message, Outcome, ProtoBody};

use super::circuits::hosted;
use super::support::{LONG, Net, Peer, quick, soon, until};

/// Hosts a service at the address `id`.
pub(super) async fn host(peer: &Peer, service: &Id, id: &str) -> CreateTunnelTerminatorResponseV2 {
    let request = CreateTunnelTerminatorRequestV2 {
        service_id: service.to_string(),
        address: id.into(),
        peer_data: [(1003, "static".into())].into(),
        cost: 5,
        start_time: 77,
        ..CreateTunnelTerminatorRequestV2::default()
    };
    let reply = peer.ask(request.to_message()).await;
    CreateTunnelTerminatorResponseV2::from_message(&reply).unwrap()
}

#[tokio::test]
async fn terminators_are_created_once_changed_and_removed() {
    let (net, router, peer, service) = hosted().await;
    let again = host(&peer, &service, "t1").await;
    assert_eq!((again.result(), again.start_time), (CreateTerminatorResult::Success, 77));
    let of_router =
        |id: &str| net.bed.controller.kernel().snapshot().get::<Terminator>(&Id::new(id)).cloned();
    let one = of_router("t1").unwrap();
    assert_eq!((&*one.binding, one.cost, &one.host_id), ("tunnel", 5, &router.id));

    let other = net.router("er2").await;
    let stranger = net.connect(&other).await;
    let conflict = host(&stranger, &service, "t1").await;
    assert_eq!(conflict.result(), CreateTerminatorResult::FailedOther);
    assert_eq!(
        (conflict.terminator_id.as_str(), conflict.error_code, conflict.retry_hint),
        ("t1", 1, 3)
    );
    let blank = host(&peer, &service, " ").await;
    assert_eq!((blank.error_code, blank.retry_hint), (8, 3));

    let update = UpdateTunnelTerminatorRequest {
        terminator_id: "t1".into(),
        precedence: TerminatorPrecedence::Required.into(),
        update_precedence: true,
        ..UpdateTunnelTerminatorRequest::default()
    };
    let reply = peer.ask(update.to_message()).await;
    assert_eq!(reply.content_type, is::UPDATE_TUNNEL_TERMINATOR_RESPONSE);
    assert_eq!(of_router("t1").unwrap().precedence, Precedence::Required);
    let reply = stranger.ask(update.to_message()).await;
    assert_eq!(EdgeError::from_message(&reply).unwrap().code, ErrorCode::INVALID_TERMINATOR);

    let quiesce = peer.ask(Message::new(ctrl::content_type::QUIESCE_ROUTER, "")).await;
    assert_eq!(Outcome::from_message(&quiesce).unwrap(), Outcome::success("router quiesced"));
    assert_eq!(of_router("t1").unwrap().precedence, Precedence::Failed);
    peer.ask(Message::new(ctrl::content_type::DEQUIESCE_ROUTER, "")).await;
    assert_eq!(of_router("t1").unwrap().precedence, Precedence::Required);

    let remove = ctrl::RemoveTerminatorsRequest { terminator_ids: vec!["t1".into(), "?".into()] };
    let reply = stranger.ask(remove.to_message()).await;
    assert!(Outcome::from_message(&reply).unwrap().success);
    assert!(of_router("t1").is_some(), "only those of the asking router");
    peer.ask(remove.to_message()).await;
    assert!(of_router("t1").is_none());

    peer.send(Message::new(ctrl::content_type::DECOMMISSION_ROUTER, "")).await;
    soon(peer.channel.closed()).await;
    let gone = net.bed.list(&net.admin, "listEdgeRouters", r#"name="er1""#).await;
    assert!(gone.is_empty());
}

#[tokio::test]
async fn the_data_of_a_terminator_has_limits() {
    let (net, _, peer, service) = hosted().await;
    let request = |peer_data: usize, instance: usize| CreateTunnelTerminatorRequestV2 {
        service_id: service.to_string(),
        address: "large".into(),
        peer_data: [(1003, vec![7; peer_data].into())].into(),
        instance_id: "i".repeat(instance),
        ..CreateTunnelTerminatorRequestV2::default()
    };
    for (peer_data, instance, allowed) in
        [(16_000, 1024, true), (17_000, 0, false), (1_000_000, 0, false), (0, 1025, false)]
    {
        let reply = peer.ask(request(peer_data, instance).to_message()).await;
        let reply = CreateTunnelTerminatorResponseV2::from_message(&reply).unwrap();
        let is_made = reply.result() == CreateTerminatorResult::Success;
        assert_eq!(is_made, allowed, "{peer_data} {instance} {}", reply.msg);
        let made =
            net.bed.controller.kernel().snapshot().get::<Terminator>(&Id::new("large")).is_some();
        assert_eq!(made, allowed);
        peer.ask(Message::new(is::REMOVE_TUNNEL_TERMINATOR_REQUEST, "large")).await;
    }
}

#[tokio::test]
async fn a_removal_may_follow_its_creation_at_once() {
    let (net, _, peer, service) = hosted().await;
    let remove = |id: &str| Message::new(is::REMOVE_TUNNEL_TERMINATOR_REQUEST, id.to_owned());
    for number in 0..20 {
        let id = format!("quick-{number}");
        let (made, removed) = tokio::join!(host(&peer, &service, &id), peer.ask(remove(&id)));
        assert_eq!(made.result(), CreateTerminatorResult::Success);
        let answer = is::REMOVE_TUNNEL_TERMINATOR_RESPONSE;
        assert_eq!(removed.content_type, answer, "{}", removed.text());
        assert!(net.bed.controller.kernel().snapshot().get::<Terminator>(&Id::new(&id)).is_none());
    }
}

#[tokio::test]
async fn terminators_are_validated_when_a_router_connects() {
    let net = Net::with(NetworkOptions { validation_age: Duration::ZERO, ..quick() }).await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let router = net.router("er1").await;
    let peer = net.connect(&router).await;
    for id in ["t1", "t2"] {
        host(&peer, &service, id).await;
    }
    peer.leave();
    until(|| net.network.routers().all().is_empty()).await;
    let mut peer = net.connect(&router).await;
    let asked = peer.expect(ctrl::content_type::VALIDATE_TERMINATORS_V2).await;
    let request = ValidateTerminatorsV2Request::from_message(&asked).unwrap();
    assert!(request.fix_invalid && request.terminators.len() == 2);
    // A connection that replaces another is asked as well.
    let mut peer = net.connect(&router).await;
    let asked = peer.expect(ctrl::content_type::VALIDATE_TERMINATORS_V2).await;
    let request = ValidateTerminatorsV2Request::from_message(&asked).unwrap();
    assert_eq!(request.terminators.len(), 2);
    let states = request.terminators.iter().map(|one| {
        let (valid, marker) = (one.id == "t1", one.marker);
        (one.id.clone(), RouterTerminatorState { valid, marker, ..Default::default() })
    });
    let answer = ValidateTerminatorsV2Response { states: states.collect() };
    peer.send(answer.to_message().in_reply_to(&asked)).await;
    let known =
        |id: &str| net.bed.controller.kernel().snapshot().get::<Terminator>(&Id::new(id)).is_some();
    until(|| !known("t2")).await;
    assert!(known("t1"));
}

/// The answer of a router to a question about its terminators, of which it hosts none.
pub(super) fn hosts_none(asked: &Message) -> Message {
    let request = ValidateTerminatorsV2Request::from_message(asked).unwrap();
    let states = request.terminators.iter().map(|one| {
        let marker = one.marker;
        (one.id.clone(), RouterTerminatorState { marker, ..Default::default() })
    });
    let answer = ValidateTerminatorsV2Response { states: states.collect() };
    answer.to_message().in_reply_to(asked)
}

/// A router that keeps the ids of its terminators over a restart makes them again, while it answers that
/// it does not host them yet.
#[tokio::test]
async fn a_terminator_that_is_made_again_is_not_removed_by_an_older_answer() {
    let net = Net::with(NetworkOptions { validation_age: Duration::ZERO, ..quick() }).await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let router = net.router("er1").await;
    let first = net.connect(&router).await;
    for id in ["again", "gone"] {
        host(&first, &service, id).await;
    }
    let mut peer = net.connect(&router).await;
    let asked = peer.expect(ctrl::content_type::VALIDATE_TERMINATORS_V2).await;
    assert_eq!(host(&peer, &service, "again").await.result(), CreateTerminatorResult::Success);
    peer.send(hosts_none(&asked)).await;
    let known =
        |id: &str| net.bed.controller.kernel().snapshot().get::<Terminator>(&Id::new(id)).is_some();
    until(|| !known("gone")).await;
    assert!(known("again"));
}

#[tokio::test]
async fn a_terminator_that_is_made_again_while_others_are_removed_stays() {
    let net = Net::with(NetworkOptions { validation_age: Duration::ZERO, ..quick() }).await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let router = net.router("er1").await;
    let first = net.connect(&router).await;
    let ids: Vec<String> = (0..300).map(|number| format!("t{number}")).collect();
    futures::future::join_all(ids.iter().map(|id| host(&first, &service, id))).await;
    let mut peer = net.connect(&router).await;
    let asked = peer.expect(ctrl::content_type::VALIDATE_TERMINATORS_V2).await;
    peer.send(hosts_none(&asked)).await;
    // They are removed in parts, while the router makes most of them again.
    let (gone, again) = ids.split_at(100);
    let made = again.iter().map(|id| host(&peer, &service, id));
    for made in futures::future::join_all(made).await {
        assert_eq!(made.result(), CreateTerminatorResult::Success);
    }
    let known = |id: &String| {
        net.bed.controller.kernel().snapshot().get::<Terminator>(&Id::new(id)).is_some()
    };
    until(|| !gone.iter().any(known)).await;
    assert!(again.iter().all(known));
}

#[tokio::test]
async fn a_router_with_many_terminators_is_quiesced_in_parts() {
    let (net, router, peer, service) = hosted().await;
    let (of, at) = (service.clone(), router.id.clone());
    let caller = Caller::own("test");
    let made = net.bed.controller.kernel().decide(&caller, move |decision| {
        for number in 0..2500 {
            let base = Base::new(Id::new(&format!("many{number}")), decision.now());
            let (service_id, router_id) = (of.clone(), at.clone());
            decision.put(Terminator { base, service_id, router_id, ..Terminator::default() });
        }
        Ok(())
    });
    made.await.unwrap();
    let with = |precedence: Precedence| {
        let snapshot = net.bed.controller.kernel().snapshot();
        snapshot.list::<Terminator>().filter(|it| it.precedence == precedence).count()
    };
    let before = net.bed.controller.kernel().snapshot().revision();
    peer.ask(Message::new(ctrl::content_type::QUIESCE_ROUTER, "")).await;
    assert_eq!(with(Precedence::Failed), 2501);
    assert!(
        net.bed.controller.kernel().snapshot().revision().0 >= before.0 + 3,
        "others can write between"
    );
    peer.ask(Message::new(ctrl::content_type::DEQUIESCE_ROUTER, "")).await;
    assert_eq!((with(Precedence::Failed), with(Precedence::Default)), (0, 2501));
}

#[tokio::test]
async fn a_quiesce_that_a_newer_request_replaces_does_not_say_that_it_is_done() {
    let (net, router, peer, service) = hosted().await;
    let (of, at) = (service.clone(), router.id.clone());
    let caller = Caller::own("test");
    let made = net.bed.controller.kernel().decide(&caller, move |decision| {
        for number in 0..5000 {
            let base = Base::new(Id::new(&format!("many{number}")), decision.now());
            let (service_id, router_id) = (of.clone(), at.clone());
            decision.put(Terminator { base, service_id, router_id, ..Terminator::default() });
        }
        Ok(())
    });
    made.await.unwrap();
    let ask = async |kind: i32| {
        let reply = peer.channel.request(Message::new(kind, ""), LONG).await.unwrap();
        Outcome::from_message(&reply).unwrap()
    };
    let (older, newer) = tokio::join!(
        ask(ctrl::content_type::QUIESCE_ROUTER),
        ask(ctrl::content_type::DEQUIESCE_ROUTER)
    );
    assert!(!older.success && older.text.contains("newer"), "{older:?}");
    assert_eq!(newer, Outcome::success("router dequiesced"));
    let snapshot = net.bed.controller.kernel().snapshot();
    assert!(snapshot.list::<Terminator>().all(|it| it.precedence != Precedence::Failed));
}

#[tokio::test]
async fn terminators_are_validated_also_when_the_clock_was_set_back() {
    const AGE: Duration = Duration::from_secs(60);
    const OFTEN: Duration = Duration::from_millis(20);
    let options = NetworkOptions { validation_age: AGE, validation_interval: OFTEN, ..quick() };
    let net = Net::with(options).await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    host(&peer, &service, "t1").await;
    net.bed.clock.turn_back(Duration::from_secs(3600));
    let asked = peer.expect(ctrl::content_type::VALIDATE_TERMINATORS_V2).await;
    let request = ValidateTerminatorsV2Request::from_message(&asked).unwrap();
    assert_eq!(request.terminators.len(), 1);
}
