//! The data model as a router gets it.

use std::time::Duration;

use serde_json::{Value, json};
use weft_auth::token_keys::Stage;
use weft_contract::resource::edge_router::sync_status;
use weft_wire::ProtoBody;
use weft_wire::edge_ctrl::content_type as is;
use weft_wire::edge_ctrl::data_model::event::Model;
use weft_wire::edge_ctrl::data_model::public_key::{Format, Usage};
use weft_wire::edge_ctrl::data_model::{
    Action, ChangeSet, DataState, RelatedEntityType, SubscribeToDataModelRequest, subscription_id,
};

use super::support::{Net, Peer, until};
use crate::Caller;

fn subscribe(index: u64, timeline: &str, subscription: &str) -> SubscribeToDataModelRequest {
    SubscribeToDataModelRequest {
        current_index: index,
        subscription_duration_seconds: 300,
        renew: false,
        timeline_id: timeline.into(),
        subscription_id: subscription.into(),
    }
}

async fn full(peer: &mut Peer, subscription: &str) -> DataState {
    peer.send(subscribe(0, "", subscription).to_message()).await;
    let message = peer.expect(is::DATA_STATE).await;
    assert_eq!(subscription_id(&message), Some(subscription));
    DataState::from_message(&message).unwrap()
}

/// The next change set in the chain.
pub(super) async fn change(peer: &mut Peer) -> ChangeSet {
    loop {
        let message = peer.expect(is::DATA_STATE_CHANGE_SET).await;
        let set = ChangeSet::from_message(&message).unwrap();
        if !set.is_synthetic {
            return set;
        }
    }
}

fn position(state: &DataState, what: impl Fn(&Model) -> bool) -> usize {
    let found =
        |event: &weft_wire::edge_ctrl::data_model::Event| event.model.as_ref().is_some_and(&what);
    state.events.iter().position(found).unwrap()
}

#[tokio::test]
async fn a_router_gets_everything_and_then_changes() {
    let net = Net::new().await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": true})).await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let state = full(&mut peer, "s1").await;
    assert_eq!(state.end_index, net.plane.model_index());
    assert!(!state.timeline_id.is_empty());
    let config_type = position(&state, |it| matches!(it, Model::ConfigType(_)));
    let identity = position(&state, |it| matches!(it, Model::Identity(_)));
    let own = position(&state, |it| matches!(it, Model::Service(it) if it.id == service.as_str()));
    let routers = position(&state, |it| matches!(it, Model::Router(_)));
    let policy = position(&state, |it| matches!(it, Model::ServicePolicy(_)));
    let members = position(&state, |it| matches!(it, Model::ServicePolicyChange(_)));
    let key = position(&state, |it| matches!(it, Model::PublicKey(_)));
    assert!(config_type < identity && identity < own && own < routers);
    assert!(routers < policy && policy < members && members < key);
    let own = net.bed.controller.auth().keys().session.leaf().fingerprint().to_owned();
    let usages = state.events.iter().find_map(|event| match &event.model {
        Some(Model::PublicKey(key)) if key.kid == own => Some(key.usages.clone()),
        _ => None,
    });
    assert_eq!(usages.unwrap(), [Usage::ClientX509CertValidation as i32]);
    let status = || net.bed.controller.kernel().online().sync_status(router.id.as_str());
    until(|| status() == sync_status::DONE).await;

    let other =
        net.create("createService", json!({"name": "db", "encryptionRequired": false})).await;
    let set = change(&mut peer).await;
    assert_eq!(set.previous_index, state.end_index);
    assert!(set.index > state.end_index);
    assert!(matches!(&set.changes[0].model, Some(Model::Service(it)) if it.id == other));
    let joined = set.changes.iter().filter_map(|event| match &event.model {
        Some(Model::ServicePolicyChange(it)) => Some(it),
        _ => None,
    });
    let joined: Vec<_> = joined.collect();
    assert_eq!(joined.len(), 2, "both policies mean all services");
    assert!(joined.iter().all(|it| it.add && it.related_entity_ids == [other.clone()]));
    assert_eq!(joined[0].related_entity_type(), RelatedEntityType::Service);

    net.manage("deleteService", &[&other], Value::Null).await;
    let gone = change(&mut peer).await;
    assert_eq!(gone.previous_index, set.index);
    let deleted = gone.changes.iter().position(|event| event.action() == Action::Delete).unwrap();
    let left = gone
        .changes
        .iter()
        .position(|event| matches!(&event.model, Some(Model::ServicePolicyChange(it)) if !it.add));
    assert!(left.unwrap() < deleted);

    // A change that routers cannot see does not change the index.
    let before = net.plane.model_index();
    net.bed
        .manage(&net.admin, "patchService", &[service.as_str()], json!({"tags": {"a": "b"}}))
        .await
        .unwrap();
    peer.settled().await;
    assert_eq!(net.plane.model_index(), before);
}

#[tokio::test]
async fn a_router_resumes_by_index_also_after_a_restart() {
    let net = Net::new().await;
    net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let state = full(&mut peer, "s1").await;
    peer.leave();
    net.create("createService", json!({"name": "one", "encryptionRequired": false})).await;
    net.create("createService", json!({"name": "two", "encryptionRequired": false})).await;

    let mut peer = net.connect(&router).await;
    let resume = subscribe(state.end_index, &state.timeline_id, "s2");
    peer.send(resume.to_message()).await;
    let first = change(&mut peer).await;
    assert_eq!(first.previous_index, state.end_index);
    let second = change(&mut peer).await;
    assert_eq!(second.previous_index, first.index);
    assert!(!peer.has(is::DATA_STATE));

    let index = net.plane.model_index();
    let net = net.restarted().await;
    assert_eq!(net.plane.model_index(), index, "logins do not move it");
    let mut peer = net.connect(&router).await;
    peer.send(subscribe(first.index, &state.timeline_id, "s3").to_message()).await;
    let again = change(&mut peer).await;
    assert_eq!((again.index, again.previous_index), (second.index, first.index));
    peer.settled().await;
    assert!(!peer.has(is::DATA_STATE));

    // A claim of another timeline, or of an index in the future, gets everything.
    peer.send(subscribe(first.index, "elsewhere", "s4").to_message()).await;
    let all = DataState::from_message(&peer.expect(is::DATA_STATE).await).unwrap();
    assert_eq!(all.end_index, index);
    peer.send(subscribe(index + 1000, &state.timeline_id, "s5").to_message()).await;
    peer.expect(is::DATA_STATE).await;
}

#[tokio::test]
async fn a_model_taken_anew_is_sent_anew_at_the_same_index() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let state = full(&mut peer, "s1").await;
    net.plane.0.model.restart(net.bed.controller.kernel().snapshot());
    let again = DataState::from_message(&peer.expect(is::DATA_STATE).await).unwrap();
    assert_eq!(again.end_index, net.plane.model_index());

    // The index that a router had before the restart counts no more: it gets everything.
    let claim = subscribe(state.end_index.max(again.end_index), &state.timeline_id, "s2");
    peer.send(claim.to_message()).await;
    let message = peer.expect(is::DATA_STATE).await;
    assert_eq!(subscription_id(&message), Some("s2"));
    net.open_service(json!({"name": "web", "encryptionRequired": true})).await;
    assert!(change(&mut peer).await.previous_index >= again.end_index);
}

/// The public keys of a message, and which of them are to be forgotten.
fn keys(events: &[weft_wire::edge_ctrl::data_model::Event]) -> (Vec<String>, Vec<String>) {
    let (mut made, mut gone) = (Vec::new(), Vec::new());
    for event in events {
        if let Some(Model::PublicKey(key)) = &event.model {
            match event.action() {
                Action::Delete => gone.push(key.kid.clone()),
                _ => made.push(key.kid.clone()),
            }
        }
    }
    (made, gone)
}

/// Waits for a change set with the key `made` that tells the router to forget the key `gone`.
async fn told(peer: &mut Peer, made: &str, gone: Option<&str>) {
    loop {
        let message = peer.expect(is::DATA_STATE_CHANGE_SET).await;
        let set = ChangeSet::from_message(&message).unwrap();
        let (known, forgotten) = keys(&set.changes);
        let is_gone = gone.is_none_or(|gone| forgotten.iter().any(|kid| kid == gone));
        if set.is_synthetic && known.iter().any(|kid| kid == made) && is_gone {
            return;
        }
    }
}

#[tokio::test]
async fn routers_hear_of_other_keys_and_forget_those_of_before() {
    let net = Net::new().await;
    let (router, late) = (net.router("er1").await, net.router("er2").await);
    let mut peer = net.connect(&router).await;
    full(&mut peer, "s1").await;
    let old = net.bed.controller.auth().keys().session.leaf().fingerprint().to_owned();
    let other = net.exchange_keys();
    let new = other.session.leaf().fingerprint().to_owned();
    told(&mut peer, &new, Some(&old)).await;
    // A router that connects now gets a full state that has the new key.
    let mut second = net.connect(&late).await;
    let (made, gone) = keys(&full(&mut second, "s2").await.events);
    assert!(made.contains(&new) && !made.contains(&old) && gone.is_empty(), "{made:?}");
    // A router that was away is told when it resumes.
    let position = subscribe(net.plane.model_index(), &net.timeline(), "s3");
    peer.leave();
    until(|| net.network.routers().get(router.id.as_str()).is_none()).await;
    let mut peer = net.connect(&router).await;
    peer.send(position.to_message()).await;
    told(&mut peer, &new, Some(&old)).await;
}

/// Names of the keys of tokens in this stage.
fn in_stage(net: &Net, is: impl Fn(Stage) -> bool) -> Vec<String> {
    let known = net.bed.controller.auth().known_token_keys();
    known.into_iter().filter(|key| is(key.stage)).map(|key| key.kid).collect()
}

#[tokio::test]
async fn routers_know_a_key_of_tokens_before_it_signs_and_forget_a_stolen_one() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let is_ahead = |stage| matches!(stage, Stage::Ahead { .. });
    let is_signing = |stage| matches!(stage, Stage::Signing { .. });
    let (first, second) = (in_stage(&net, is_signing), in_stage(&net, is_ahead));
    let events = full(&mut peer, "s1").await.events;
    let (made, _) = keys(&events);
    assert!(made.contains(&first[0]) && made.contains(&second[0]));
    let key = events.iter().find_map(|event| match &event.model {
        Some(Model::PublicKey(key)) if key.kid == second[0] => Some(key),
        _ => None,
    });
    let key = key.unwrap();
    assert_eq!(key.format(), Format::PkixPublicKey);
    assert_eq!(key.usages().collect::<Vec<_>>(), [Usage::JwtValidation]);
    assert_eq!(weft_identity::fingerprint(&key.data), second[0]);

    net.bed.clock.advance(Duration::from_secs(3 * 3600));
    net.bed.controller.auth().roll_token_keys(&Caller::system()).unwrap();
    assert_eq!(in_stage(&net, is_signing), second);
    let third = in_stage(&net, is_ahead).remove(0);
    told(&mut peer, &third, None).await;

    // The router is away when the signing key is found to be stolen.
    let position = subscribe(net.plane.model_index(), &net.timeline(), "s2");
    peer.leave();
    until(|| net.network.routers().get(router.id.as_str()).is_none()).await;
    let dropped =
        net.bed.controller.auth().drop_stolen_token_keys(&Caller::system(), None).await.unwrap();
    assert_eq!(dropped.sessions, 0);
    assert!(dropped.keys.contains(&second[0]) && dropped.keys.contains(&third));
    let signing = in_stage(&net, is_signing).remove(0);
    let mut peer = net.connect(&router).await;
    peer.send(position.to_message()).await;
    told(&mut peer, &signing, Some(&second[0])).await;
}

#[tokio::test]
async fn a_full_model_that_cannot_be_encoded_is_never_sent_as_an_empty_one() {
    let net = Net::new().await;
    net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let fails = &net.plane.0.model.fails;
    fails.store(true, std::sync::atomic::Ordering::Release);
    peer.send(subscribe(0, "", "s1").to_message()).await;
    let status = || net.bed.controller.kernel().online().sync_status(router.id.as_str());
    until(|| status() == sync_status::IN_PROGRESS).await;
    // Changes during the encoding are told after it as well.
    net.create("createService", json!({"name": "db", "encryptionRequired": false})).await;
    peer.settled().await;
    assert!(!peer.has(is::DATA_STATE));

    fails.store(false, std::sync::atomic::Ordering::Release);
    let message = peer.expect(is::DATA_STATE).await;
    let state = DataState::from_message(&message).unwrap();
    position(&state, |it| matches!(it, Model::Service(it) if it.name == "web"));
    position(&state, |it| matches!(it, Model::PublicKey(_)));
    until(|| status() == sync_status::DONE).await;
}

/// The next configs that a router is sent beside the chain.
async fn managed(peer: &mut Peer) -> Vec<(String, String)> {
    loop {
        let message = peer.expect(is::DATA_STATE_CHANGE_SET).await;
        let set = ChangeSet::from_message(&message).unwrap();
        let config = |event: weft_wire::edge_ctrl::data_model::Event| match event.model {
            Some(Model::Config(config)) => Some((config.name, config.data_json)),
            _ => None,
        };
        let is_synthetic = set.is_synthetic;
        let configs: Vec<_> = set.changes.into_iter().filter_map(config).collect();
        assert!(is_synthetic || configs.is_empty());
        if !configs.is_empty() {
            return configs;
        }
    }
}

#[tokio::test]
async fn a_router_hears_of_its_own_configs_and_of_no_others() {
    let net = Net::new().await;
    let (router, other) = (net.router("er1").await, net.router("er2").await);
    let (mut peer, mut other_peer) = (net.connect(&router).await, net.connect(&other).await);
    let make = async |name: &str, queue: u32| {
        let data = json!({"payloadSenderQueueSize": queue});
        let body = json!({"name": name, "configTypeId": "router.link.v1", "data": data});
        net.create("createConfig", body).await
    };
    let (own, others) = (make("own", 1).await, make("others", 2).await);
    let give = async |router: &str, configs: Value| {
        net.manage("patchEdgeRouter", &[router], json!({"configs": configs})).await;
    };
    give(router.id.as_str(), json!([own])).await;
    let state = full(&mut peer, "s1").await;
    let is_config = |event: &weft_wire::edge_ctrl::data_model::Event| {
        matches!(event.model, Some(Model::Config(_)))
    };
    assert!(!state.events.iter().any(is_config), "the state is the same for all");
    let named = state.events.iter().find_map(|event| match &event.model {
        Some(Model::Router(it)) if it.id == router.id.as_str() => Some(it.configs.clone()),
        _ => None,
    });
    assert_eq!(named, Some(vec![own.clone()]));
    let text = |queue: u32| format!("{{\"payloadSenderQueueSize\":{queue}}}");
    assert_eq!(managed(&mut peer).await, [("own".to_owned(), text(1))]);

    // The other router is sent its own configs, and each router the changes of its own.
    full(&mut other_peer, "s2").await;
    give(other.id.as_str(), json!([others])).await;
    assert_eq!(managed(&mut other_peer).await, [("others".to_owned(), text(2))]);
    let data = json!({"data": {"payloadSenderQueueSize": 3}});
    net.manage("patchConfig", &[&others], data).await;
    assert_eq!(managed(&mut other_peer).await, [("others".to_owned(), text(3))]);
    let data = json!({"data": {"payloadSenderQueueSize": 4}});
    net.manage("patchConfig", &[&own], data).await;
    // No config of the other router came in between.
    assert_eq!(managed(&mut peer).await, [("own".to_owned(), text(4))]);
    // A deleted config is not named any more.
    net.manage("deleteConfig", &[&own], Value::Null).await;
    loop {
        let set = change(&mut peer).await;
        let of_router = |event: &weft_wire::edge_ctrl::data_model::Event| match &event.model {
            Some(Model::Router(it)) => it.id == router.id.as_str() && it.configs.is_empty(),
            _ => false,
        };
        if set.changes.iter().any(of_router) {
            break;
        }
    }
}
