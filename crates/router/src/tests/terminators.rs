//! Terminators: retries, refusals, reconnects, removal.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use weft_channel::clock::since_1970;
use weft_wire::ctrl::{
    InspectRequest, InspectResponse, RemoveTerminatorsRequest, Terminator,
    ValidateTerminatorsV2Request, ValidateTerminatorsV2Response,
};
use weft_wire::edge_ctrl::{
    CreateTerminatorResult, CreateTerminatorV2Request, CreateTerminatorV2Response,
    CreateTunnelTerminatorRequestV2, CreateTunnelTerminatorResponseV2, UpdateTerminatorRequest,
    content_type,
};
use weft_wire::{Outcome, ProtoBody};

use super::support::{LONG, Network, Peer, capable, later, soon, until};
use crate::seam::{
    AccessGrant, ApiSession, Control, Release, RetryHint, TerminatorHost, TerminatorPrecedence,
    TerminatorRequest, TerminatorUpdate, Use,
};

fn sdk(id: &str) -> TerminatorRequest {
    let session = ApiSession {
        id: "as1".into(),
        token: "api-token".into(),
        identity: "bob".into(),
        identity_name: None,
        legacy: true,
        controller: Some("ctrl1".into()),
        fingerprints: vec!["cd".into()],
        release: Release::default(),
    };
    TerminatorRequest {
        id: id.into(),
        host: TerminatorHost::Sdk {
            session: Arc::new(session),
            grant: AccessGrant {
                service: "web".into(),
                service_session: "ss1".into(),
                token: "service-token".into(),
                purpose: Use::Bind,
            },
        },
        instance: String::new(),
        instance_secret: Default::default(),
        peer_data: Default::default(),
        cost: 7,
        precedence: TerminatorPrecedence::Default,
    }
}

async fn answer(peer: &mut Peer, result: CreateTerminatorResult, code: u32, hint: u32) -> String {
    let request: CreateTerminatorV2Request = peer.get().await;
    let response = CreateTerminatorV2Response {
        terminator_id: request.address.clone(),
        result: result.into(),
        msg: "said so".into(),
        error_code: code,
        retry_hint: hint,
    };
    // The answer is not sent as a reply: the router finds the terminator by its id.
    peer.send(response.to_message()).await;
    request.address
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_is_retried_and_a_refusal_is_final() {
    let mut network = Network::new().await;
    let control = network.router.control.clone();
    let made = tokio::spawn(control.create_terminator(sdk("t1")));
    assert_eq!(answer(&mut network.peer, CreateTerminatorResult::FailedBusy, 1, 1).await, "t1");
    answer(&mut network.peer, CreateTerminatorResult::Success, 0, 0).await;
    soon(made).await.unwrap().unwrap();

    let refused = tokio::spawn(control.create_terminator(sdk("t2")));
    answer(&mut network.peer, CreateTerminatorResult::FailedOther, 3, 2).await;
    let refusal = soon(refused).await.unwrap().unwrap_err();
    assert_eq!((refusal.code, refusal.hint), (3, RetryHint::START_OVER));
    assert_eq!(refusal.message, "said so");
    network.router.control.shutdown().await;
}

#[tokio::test]
async fn an_inspection_and_a_request_say_the_time_of_day() {
    let mut network = Network::new().await;
    // Shorter than the silence after which a control channel is closed.
    let (before, time) = (since_1970(), Duration::from_secs(24));
    let is_moved = |at: Duration| at.abs_diff(before + time) < time / 2;
    later(time).await;
    let host = TerminatorHost::Tunnel { service: "web".into(), end_key: bytes::Bytes::new() };
    let request = TerminatorRequest { host, ..sdk("t1") };
    let made = tokio::spawn(network.router.control.create_terminator(request));
    let message = network.peer.expect(CreateTunnelTerminatorRequestV2::CONTENT_TYPE).await;
    let asked = CreateTunnelTerminatorRequestV2::from_message(&message).unwrap();
    assert!(is_moved(Duration::from_millis(asked.start_time as u64)), "{asked:?}");

    let values = vec!["ert-terminators".to_owned(), "metrics".to_owned()];
    let inspect = InspectRequest { requested_values: values }.to_message();
    let reply = network.peer.channel.request(inspect, LONG).await.unwrap();
    let shown = InspectResponse::from_message(&reply).unwrap().values;
    let shown = shown.iter().map(|one| serde_json::from_str(&one.value).unwrap());
    let [terminators, metrics] = &shown.collect::<Vec<Value>>()[..] else { panic!("{reply:?}") };
    let entry = &terminators["entries"][0];
    for member in ["createTime", "lastAttempt"] {
        let at = OffsetDateTime::parse(entry[member].as_str().unwrap(), &Rfc3339).unwrap();
        assert!(is_moved(Duration::from_secs(at.unix_timestamp() as u64)), "{entry}");
    }
    let at = metrics["timestamp"]["seconds"].as_u64().unwrap();
    assert!(is_moved(Duration::from_secs(at)), "{metrics}");
    made.abort();
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_failures_of_no_known_cause_are_a_refusal() {
    let mut network = Network::new().await;
    let refused = tokio::spawn(network.router.control.create_terminator(sdk("t1")));
    for _ in 0..3 {
        answer(&mut network.peer, CreateTerminatorResult::FailedOther, 1, 0).await;
    }
    assert_eq!(soon(refused).await.unwrap().unwrap_err().code, 1);
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reconnect_terminators_are_confirmed_or_made_again() {
    let mut network = Network::new().await;
    let control = network.router.control.clone();
    for id in ["t1", "t2"] {
        let made = tokio::spawn(control.create_terminator(sdk(id)));
        answer(&mut network.peer, CreateTerminatorResult::Success, 0, 0).await;
        soon(made).await.unwrap().unwrap();
    }
    network.router.data.alive.lock().extend(["t1".to_owned(), "t2".to_owned()]);
    network.restart_controller(capable()).await;
    let asked = |id: &str| Terminator {
        id: id.into(),
        binding: "edge".into(),
        address: id.into(),
        marker: 42,
    };
    let request = ValidateTerminatorsV2Request {
        terminators: vec![asked("t1"), asked("unknown")],
        fix_invalid: true,
        post_create: true,
    };
    let timeout = Duration::from_secs(10);
    let reply = network.peer.channel.request(request.to_message(), timeout).await.unwrap();
    let states = ValidateTerminatorsV2Response::from_message(&reply).unwrap().states;
    assert!(states["t1"].valid && states["t1"].marker == 42);
    assert!(!states["unknown"].valid);
    assert_eq!(answer(&mut network.peer, CreateTerminatorResult::Success, 0, 0).await, "t2");
    assert!(!network.peer.has(content_type::CREATE_TERMINATOR_V2_REQUEST));
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_and_removals_reach_the_controller() {
    let mut network = Network::new().await;
    let control = network.router.control.clone();
    let made = tokio::spawn(control.create_terminator(sdk("t1")));
    answer(&mut network.peer, CreateTerminatorResult::Success, 0, 0).await;
    soon(made).await.unwrap().unwrap();
    let update = TerminatorUpdate { cost: Some(99), precedence: None };
    control.update_terminator("t1", update);
    let message = network.peer.expect(content_type::UPDATE_TERMINATOR_REQUEST).await;
    let read = UpdateTerminatorRequest::from_message(&message).unwrap();
    assert_eq!((read.cost, read.update_cost, read.update_precedence), (99, true, false));
    let done = weft_wire::Message::new(content_type::UPDATE_TERMINATOR_RESPONSE, "");
    network.peer.reply(&message, done).await;

    control.remove_terminators(vec!["t1".into(), "t0".into()]);
    let message = network.peer.expect(RemoveTerminatorsRequest::CONTENT_TYPE).await;
    network.peer.reply(&message, Outcome::busy().to_message()).await;
    let message = network.peer.expect(RemoveTerminatorsRequest::CONTENT_TYPE).await;
    let read = RemoveTerminatorsRequest::from_message(&message).unwrap();
    assert_eq!(read.terminator_ids, ["t0", "t1"]);
    network.peer.reply(&message, Outcome::success("").to_message()).await;
    control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_not_taken_is_told_again_as_it_is_then() {
    let mut network = Network::new().await;
    let control = network.router.control.clone();
    let made = tokio::spawn(control.create_terminator(sdk("t1")));
    answer(&mut network.peer, CreateTerminatorResult::Success, 0, 0).await;
    soon(made).await.unwrap().unwrap();
    control.update_terminator("t1", TerminatorUpdate { cost: Some(99), precedence: None });
    let message = network.peer.expect(content_type::UPDATE_TERMINATOR_REQUEST).await;
    let newer = TerminatorUpdate { cost: None, precedence: Some(TerminatorPrecedence::Failed) };
    control.update_terminator("t1", newer);
    let busy = weft_wire::Message::new(content_type::ERROR, "no leader");
    network.peer.reply(&message, busy).await;
    let message = network.peer.expect(content_type::UPDATE_TERMINATOR_REQUEST).await;
    let read = UpdateTerminatorRequest::from_message(&message).unwrap();
    assert_eq!((read.cost, read.update_cost, read.update_precedence), (99, true, true));
    let done = weft_wire::Message::new(content_type::UPDATE_TERMINATOR_RESPONSE, "");
    network.peer.reply(&message, done).await;
    control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maker_that_gives_up_leaves_nothing_behind() {
    let mut network = Network::new().await;
    let making = network.router.control.create_terminator(sdk("t1"));
    let _: CreateTerminatorV2Request = network.peer.get().await;
    drop(making);
    let removed: RemoveTerminatorsRequest = network.peer.get().await;
    assert_eq!(removed.terminator_ids, ["t1"]);
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_router_hosts_too() {
    let mut network = Network::new().await;
    let request = TerminatorRequest {
        host: TerminatorHost::Tunnel { service: "web".into(), end_key: bytes::Bytes::new() },
        ..sdk("t1")
    };
    let made = tokio::spawn(network.router.control.create_terminator(request));
    let read: CreateTunnelTerminatorRequestV2 = network.peer.get().await;
    assert_eq!((read.service_id.as_str(), read.address.as_str(), read.cost), ("web", "t1", 7));
    let response = CreateTunnelTerminatorResponseV2 {
        terminator_id: "t1".into(),
        start_time: read.start_time,
        ..CreateTunnelTerminatorResponseV2::default()
    };
    network.peer.send(response.to_message()).await;
    soon(made).await.unwrap().unwrap();
    until(|| !network.peer.has(content_type::CREATE_TUNNEL_TERMINATOR_REQUEST_V2)).await;
    network.router.control.shutdown().await;
}
