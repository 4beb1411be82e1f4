//! Subscription, changes, gaps, resuming, the file.

use std::time::Duration;

use futures::StreamExt;
use weft_channel::ChannelHandle;
use weft_wire::edge_ctrl::data_model::{
    ChangeSet, DataState, PolicyType, SubscribeToDataModelRequest, ValidateRequest,
    ValidateResponse, for_subscription,
};
use weft_wire::{Message, ProtoBody};

use super::events;
use super::support::{Network, TestRouter, capable, soon, until};
use crate::seam::Access;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_state_then_changes_then_a_gap() {
    let mut network = Network::new().await;
    let first: SubscribeToDataModelRequest = network.peer.get().await;
    assert_eq!((first.current_index, first.renew, first.timeline_id.as_str()), (0, false, ""));
    let state = DataState {
        events: vec![events::new_identity("alice")],
        end_index: 10,
        timeline_id: "line1".into(),
        ..DataState::default()
    };
    network.peer.send(state.to_message_for(&first.subscription_id)).await;
    network.router.online().await;
    let access = network.router.access.clone();
    assert_eq!(access.position(), ("line1".to_owned(), 10));

    let id = &first.subscription_id;
    network.peer.change("another subscription", 10, 11, Vec::new()).await;
    network.peer.change(id, 10, 12, Vec::new()).await;
    until(|| access.index() == 12).await;
    network.peer.change(id, 10, 12, Vec::new()).await;
    network.peer.change(id, 14, 15, Vec::new()).await;
    let again: SubscribeToDataModelRequest = network.peer.get().await;
    assert_eq!((again.current_index, again.renew), (12, false));
    assert_eq!(again.timeline_id, "line1");
    assert_ne!(again.subscription_id, *id);
    network.peer.change(&again.subscription_id, 12, 14, Vec::new()).await;
    network.peer.change(&again.subscription_id, 14, 15, Vec::new()).await;
    until(|| access.index() == 15).await;
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_state_does_not_take_the_place_of_a_model() {
    let mut network = Network::new().await;
    let alice = events::new_identity("alice");
    let id = network.peer.give_model(vec![alice], 10).await;
    network.router.online().await;
    let access = network.router.access.clone();
    let empty = Message::new(DataState::CONTENT_TYPE, "");
    network.peer.send(for_subscription(empty, &id)).await;
    // A later question is answered from the present model.
    let request = ValidateRequest::default().to_message();
    let answer = soon(network.peer.channel.request(request, Duration::from_secs(30))).await;
    let answer = ValidateResponse::from_message(&answer.unwrap()).unwrap();
    assert!(!answer.diffs.is_empty(), "alice is not in what was compared with");
    assert_eq!(access.position(), ("line1".to_owned(), 10));
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_for_another_subscription_are_not_read() {
    let mut network = Network::new().await;
    let id = network.peer.give_model(Vec::new(), 10).await;
    network.router.online().await;
    let access = network.router.access.clone();
    // A change set that cannot be decoded would end the connection.
    let unreadable = Message::new(ChangeSet::CONTENT_TYPE, &[0xff; 9][..]);
    network.peer.send(for_subscription(unreadable.clone(), "another subscription")).await;
    network.peer.change(&id, 10, 11, Vec::new()).await;
    until(|| access.index() == 11).await;
    assert!(!network.peer.channel.is_closed());
    network.peer.send(for_subscription(unreadable, &id)).await;
    soon(network.peer.channel.closed()).await;
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_resumed_by_index_after_either_side_restarted() {
    let mut network = Network::new().await;
    network.peer.give_model(vec![events::new_identity("alice")], 10).await;
    network.router.online().await;
    network.restart_controller(capable()).await;
    let resumed: SubscribeToDataModelRequest = network.peer.get().await;
    assert_eq!((resumed.current_index, resumed.timeline_id.as_str()), (10, "line1"));
    network.router.online().await;

    network.router.control.shutdown().await;
    let addr = network.controller.addr();
    let router = TestRouter::start(&network.pki, network.home.path(), addr);
    assert_eq!(router.access.position(), ("line1".to_owned(), 10));
    let mut peer = network.controller.router().await;
    let resumed: SubscribeToDataModelRequest = peer.get().await;
    assert_eq!((resumed.current_index, resumed.timeline_id.as_str()), (10, "line1"));
    router.online().await;
    router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_taken_anew_at_the_same_index_is_the_one_that_is_kept() {
    let mut network = Network::new().await;
    network.peer.give_model(vec![events::new_identity("alice")], 10).await;
    network.router.online().await;
    network.router.control.shutdown().await;
    let addr = network.controller.addr();
    let start = || TestRouter::start(&network.pki, network.home.path(), addr);
    let bob = vec![events::new_identity("bob")];

    let wanted = DataState {
        events: bob.clone(),
        end_index: 10,
        timeline_id: "line1".into(),
        ..DataState::default()
    };
    let ask = ValidateRequest { state: Some(wanted), fix: false }.to_message();
    let is_bobs = async |channel: &ChannelHandle| {
        let reply = channel.request(ask.clone(), Duration::from_secs(10)).await.unwrap();
        ValidateResponse::from_message(&reply).unwrap().diffs.is_empty()
    };

    let router = start();
    let mut peer = network.controller.router().await;
    assert!(!is_bobs(&peer.channel).await);
    peer.give_model(bob, 10).await;
    soon(async { while !is_bobs(&peer.channel).await {} }).await;
    router.control.shutdown().await;

    let router = start();
    let peer = network.controller.router().await;
    assert!(is_bobs(&peer.channel).await);
    router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_handled_while_the_model_is_written() {
    let mut network = Network::new().await;
    let access = network.router.access.clone();
    let file = network.home.path().join("router.yml.proto.gzip");
    {
        let _disk = access.hold_up_saving();
        let id = network.peer.give_model(vec![events::new_identity("alice")], 10).await;
        network.router.online().await;
        until(|| access.is_saving()).await;
        network.peer.change(&id, 10, 11, vec![events::new_identity("bob")]).await;
        until(|| access.index() == 11).await;
        assert!(access.is_saving() && !file.exists());
    }
    until(|| file.exists()).await;
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_set_aside_and_the_model_fetched_anew() {
    let mut network = Network::new().await;
    network.peer.give_model(vec![events::new_identity("alice")], 10).await;
    network.router.online().await;
    network.router.control.shutdown().await;
    let addr = network.controller.addr();
    let file = network.home.path().join("router.yml.proto.gzip");
    let aside = network.home.path().join("router.yml.proto.gzip.damaged");
    let whole = std::fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x55;
    for damaged in [b"not gzip".to_vec(), whole[..whole.len() - 9].to_vec(), flipped] {
        std::fs::write(&file, &damaged).unwrap();
        let router = TestRouter::start(&network.pki, network.home.path(), addr);
        assert_eq!(router.access.position(), (String::new(), 0));
        assert_eq!(std::fs::read(&aside).unwrap(), damaged);
        assert!(!file.exists());
        let mut peer = network.controller.router().await;
        peer.give_model(vec![events::new_identity("alice")], 10).await;
        router.online().await;
        router.control.shutdown().await;

        let again = TestRouter::start(&network.pki, network.home.path(), addr);
        assert_eq!(again.access.position(), ("line1".to_owned(), 10), "written anew");
        network.controller.router().await;
        again.control.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_read_is_left_as_it_is() {
    let mut network = Network::new().await;
    network.peer.give_model(vec![events::new_identity("alice")], 10).await;
    network.router.online().await;
    network.router.control.shutdown().await;
    let addr = network.controller.addr();
    let file = network.home.path().join("router.yml.proto.gzip");
    let aside = network.home.path().join("router.yml.proto.gzip.damaged");
    // A folder in place of the file: it can be opened and not read, by root, too.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let router = TestRouter::start(&network.pki, network.home.path(), addr);
    assert_eq!(router.access.position(), (String::new(), 0));
    assert!(file.is_dir() && !aside.exists());
    router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_of_the_tunneler_follow_policies_and_configs() {
    let mut network = Network::new().await;
    let mut services = network.router.access.tunnel_services();
    assert!(soon(services.next()).await.unwrap().is_empty());
    let mut web = events::service("web");
    let mut all = vec![events::new_identity("router1")];
    all.extend(events::config(&mut web, "host.v1", "{\"port\":80}"));
    all.push(events::create(events::Model::Service(web.clone())));
    all.extend(events::policy("p1", PolicyType::Bind, "router1", "web"));
    let id = network.peer.give_model(all, 10).await;
    let hosted = soon(services.next()).await.unwrap();
    assert_eq!(hosted.len(), 1);
    assert_eq!(hosted[0].configs["host.v1"], "{\"port\":80}");
    assert_eq!(
        (hosted[0].name.as_str(), hosted[0].identity.name.as_str()),
        ("web name", "router1 name")
    );
    assert!(hosted[0].can_bind && !hosted[0].can_dial);
    let dial = events::policy("p2", PolicyType::Dial, "router1", "web");
    network.peer.change(&id, 10, 11, dial).await;
    let both = soon(services.next()).await.unwrap();
    assert_eq!(both.len(), 1);
    assert!(both[0].can_bind && both[0].can_dial);
    network.peer.change(&id, 11, 12, vec![events::delete(events::Model::Service(web))]).await;
    assert!(soon(services.next()).await.unwrap().is_empty());
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_finds_and_mends_differences() {
    let mut network = Network::new().await;
    network.peer.give_model(vec![events::new_identity("alice")], 10).await;
    network.router.online().await;
    let wanted = DataState {
        events: vec![events::new_identity("bob")],
        end_index: 10,
        timeline_id: "line1".into(),
        ..DataState::default()
    };
    let ask = ValidateRequest { state: Some(wanted.clone()), fix: true }.to_message();
    let timeout = Duration::from_secs(10);
    let reply = network.peer.channel.request(ask, timeout).await.unwrap();
    let response = ValidateResponse::from_message(&reply).unwrap();
    let diffs: Vec<_> =
        response.diffs.iter().map(|d| (d.entity_id.as_str(), d.diff_type.as_str())).collect();
    assert_eq!(diffs, [("bob", "removed"), ("alice", "added")]);
    let again: SubscribeToDataModelRequest = network.peer.get().await;
    assert_eq!(again.current_index, 10);
    let ask = ValidateRequest { state: Some(wanted), fix: false }.to_message();
    let reply = network.peer.channel.request(ask, timeout).await.unwrap();
    assert!(ValidateResponse::from_message(&reply).unwrap().diffs.is_empty());
    network.router.control.shutdown().await;
}
