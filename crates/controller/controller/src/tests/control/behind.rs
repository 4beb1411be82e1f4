//! A controller that knows less than a router, which has heard the rest from another controller.

use std::time::{Duration, SystemTime};

use serde_json::json;
use weft_identity::San;
use weft_model::Timestamp;
use weft_wire::ProtoBody as _;
use weft_wire::edge_ctrl::content_type as is;
use weft_wire::edge_ctrl::data_model::{ChangeSet, DataState, SubscribeToDataModelRequest};

use super::super::cluster::Shared;
use super::model::change;
use super::support::{Net, Peer, quick, until};
use crate::testing::{PASSWORD, USERNAME};

/// The index up to which a router has everything, and its timeline.
async fn whole(peer: &mut Peer) -> (u64, String) {
    peer.send(SubscribeToDataModelRequest::default().to_message()).await;
    let state = DataState::from_message(&peer.expect(is::DATA_STATE).await).unwrap();
    (state.end_index, state.timeline_id)
}

#[tokio::test]
async fn a_controller_that_is_behind_a_router_sends_it_nothing_until_it_has_caught_up() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let shared = Shared::at(Timestamp(now.as_millis() as i64));
    let sans = || vec![San::Dns("localhost".into()), San::Ip([127, 0, 0, 1].into())];
    let at = |name: &str| format!("tls:{name}.example:6262");
    let one = shared.start_at("one", &shared.links(), at("one"), sans()).await;
    one.controller.init_admin("Default Admin", USERNAME, PASSWORD).await.unwrap();
    let links = shared.links();
    let two = shared.start_at("two", &links, at("two"), sans()).await;
    let revision = |net: &Net| net.bed.controller.kernel().snapshot().revision();
    let has_admin = one.controller.kernel().snapshot().revision();
    until(|| two.controller.kernel().snapshot().revision() >= has_admin).await;
    let (one, two) = (Net::on(one, quick()).await, Net::on(two, quick()).await);
    let router = one.router("er").await;
    until(|| revision(&two) >= revision(&one)).await;
    let mut first = one.connect(&router).await;
    let (_, timeline_id) = whole(&mut first).await;

    // The second one is cut off; meanwhile a service comes, of which the router hears.
    links.iter().for_each(|link| link.set_cut(true));
    let service = async |name: &str| {
        one.open_service(json!({"name": name, "encryptionRequired": false})).await;
    };
    service("late").await;
    let mut known = change(&mut first).await.index;
    while known < one.plane.model_index() {
        known = change(&mut first).await.index;
    }
    let mut second = two.connect(&router).await;
    let ask = SubscribeToDataModelRequest {
        current_index: known,
        subscription_duration_seconds: 300,
        timeline_id,
        ..SubscribeToDataModelRequest::default()
    };
    second.send(ask.to_message()).await;
    // The subscription crosses a socket.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(two.plane.model_index() < known);
    assert!(!second.has(is::DATA_STATE), "an older model brings withdrawn rights back");
    // The keys for tokens come with the connection.
    while second.has(is::DATA_STATE_CHANGE_SET) {
        let message = second.expect(is::DATA_STATE_CHANGE_SET).await;
        assert!(ChangeSet::from_message(&message).unwrap().is_synthetic);
    }

    // It has caught up, and goes on where the router is.
    links.iter().for_each(|link| link.set_cut(false));
    until(|| two.plane.model_index() >= known).await;
    one.create("createService", json!({"name": "later", "encryptionRequired": false})).await;
    let next = change(&mut second).await;
    assert_eq!((next.previous_index, next.index), (known, known + 1));
    assert!(!second.has(is::DATA_STATE));
    assert_eq!(one.plane.model_index(), two.plane.model_index());
}
