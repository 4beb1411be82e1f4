//! Hello, greeting, reports, reconnects.

use std::time::Duration;

use weft_config::EndpointsFile;
use weft_wire::ctrl::{
    self, CtrlDetail, CtrlEndpoint, InspectRequest, InspectResponse, RouterLinks,
    UpdateCtrlAddresses,
};
use weft_wire::edge_ctrl::{
    ApiSessionHeartbeat, ClientHello, ConnectEvents, ServerHello, ValidateSessionsRequest,
    content_type, header, supports_data_model,
};
use weft_wire::{Capabilities, Message, ProtoBody, controller_capability, router_capability};

use super::support::{Network, Pki, TestController, TestRouter, capable, until};
use crate::seam::Control;

#[tokio::test(flavor = "multi_thread")]
async fn a_router_says_who_it_is_and_answers_the_greeting() {
    let mut network = Network::new().await;
    let hello = &network.peer.hello;
    assert!(hello.version.as_ref().unwrap().release().unwrap().at_least(2, 0, 0));
    assert!(hello.capabilities.has(router_capability::MULTI_CHANNEL));
    assert!(hello.capabilities.has(router_capability::ROUTER_DATA_MODEL));
    assert!(!hello.capabilities.has(router_capability::POSTURE_CHECKS));
    assert_eq!(network.peer.channel.peer().id.as_deref(), Some("router1"));
    let links: RouterLinks = network.peer.get().await;
    assert!(links.full_refresh && links.links.is_empty());

    let greeting = ServerHello::new("v2.1.0").greet();
    let reply = network.peer.channel.request(greeting, Duration::from_secs(10)).await.unwrap();
    assert!(supports_data_model(&reply));
    assert_eq!(reply.headers.get_u64(header::DATA_MODEL_INDEX), Some(0));
    let answer = ClientHello::from_message(&reply).unwrap();
    assert_eq!(answer.listeners[0].advertise.as_ref().unwrap().value, "tls:localhost:3022");
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_without_signed_service_sessions_is_refused() {
    let pki = Pki::new();
    let home = tempfile::tempdir().unwrap();
    let old: Capabilities = (1..=4).collect();
    let mut controller = TestController::at(&pki, "127.0.0.1:0", old).await;
    let router = TestRouter::start(&pki, home.path(), controller.addr());
    let peer = controller.router().await;
    super::support::soon(peer.channel.closed()).await;
    assert!(!*router.access.online().borrow());
    router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_controller_is_found_again_at_once() {
    let mut network = Network::new().await;
    network.peer.give_model(Vec::new(), 7).await;
    network.router.online().await;
    network.restart_controller(capable()).await;
    until(|| network.peer.has(content_type::SUBSCRIBE_TO_DATA_MODEL)).await;
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_controllers_are_followed_and_remembered() {
    let network = Network::new().await;
    let mut second = TestController::at(&network.pki, "127.0.0.1:0", capable()).await;
    let detail = |id: &str, port: u16| CtrlDetail {
        id: id.into(),
        endpoints: vec![CtrlEndpoint { address: format!("tls:localhost:{port}"), groups: vec![] }],
    };
    let update = UpdateCtrlAddresses {
        index: 5,
        is_leader: true,
        controllers: vec![
            detail("ctrl1", network.controller.addr().port()),
            detail("ctrl2", second.addr().port()),
        ],
        ..UpdateCtrlAddresses::default()
    };
    network.peer.send(update.to_message()).await;
    // The second controller has the id ctrl1, too, so that the router closes the connection. The
    // test is only that the router has dialed it.
    let _ = second.router().await;
    let path = network.home.path().join("endpoints.yml");
    let read = || std::fs::read_to_string(&path).ok().as_deref().and_then(EndpointsFile::from_text);
    until(|| read().is_some_and(|file| file.controllers.len() == 2)).await;
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connected_identities_and_sessions_in_use_are_reported() {
    let mut network = Network::new().await;
    let first: ConnectEvents = network.peer.get().await;
    assert!(first.full_state && first.events.is_empty());
    network.router.control.identity_connections("alice", 1);
    let came: ConnectEvents = network.peer.get().await;
    assert!(!came.full_state && came.events[0].is_connected);
    assert_eq!(came.events[0].identity_id, "alice");
    network.router.control.identity_connections("alice", 0);
    let went: ConnectEvents = network.peer.get().await;
    assert!(!went.events[0].is_connected);
    assert!(!network.peer.has(ApiSessionHeartbeat::CONTENT_TYPE));
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_sessions_are_asked_about_in_parts() {
    let mut network = Network::new().await;
    let ids: Vec<String> = (0..1001).map(|number| format!("s{number}")).collect();
    network.router.control.validate_service_sessions(&"ctrl1".into(), ids.clone());
    let mut asked = Vec::new();
    for length in [1000, 1] {
        let question: ValidateSessionsRequest = network.peer.get().await;
        assert_eq!(question.session_tokens.len(), length);
        asked.extend(question.session_tokens);
    }
    assert_eq!(asked, ids);
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inner_values_are_shown_and_unknown_messages_ignored() {
    let network = Network::new().await;
    network.peer.send(Message::new(29_999, "from a later release")).await;
    let asked = InspectRequest {
        requested_values: vec!["Links".into(), "router-controllers".into(), "nonsense".into()],
    };
    let timeout = Duration::from_secs(10);
    let reply = network.peer.channel.request(asked.to_message(), timeout).await.unwrap();
    let response = InspectResponse::from_message(&reply).unwrap();
    assert!(response.success);
    let names: Vec<_> = response.values.iter().map(|value| value.name.as_str()).collect();
    assert_eq!(names, ["Links", "router-controllers"]);
    assert!(response.values[1].value.contains("\"ctrl1\""));
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_protobuf_closes_the_connection_and_the_router_comes_again() {
    let mut network = Network::new().await;
    for content_type in [
        ctrl::content_type::ROUTE,
        ctrl::content_type::UNROUTE,
        ctrl::content_type::INSPECT_REQUEST,
        ctrl::content_type::SETTINGS,
        content_type::API_SESSION_ADDED,
        content_type::SESSION_REMOVED,
    ] {
        let message = Message::new(content_type, "no protobuf \u{1}\u{2}");
        // The router may have closed the connection before the message counts as sent.
        let _ = network.peer.channel.send(message).await;
        network.peer.channel.closed().await;
        network.peer = network.controller.router().await;
    }
    network.router.control.shutdown().await;
}

#[test]
fn the_bit_for_adoption_is_out_of_the_way() {
    assert!(!capable().has(controller_capability::ADOPTS_CIRCUITS));
}
