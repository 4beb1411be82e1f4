//! Routers that may connect, and the first messages to them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weft_channel::{DialError, HelloGate as _};
use weft_contract::resource::edge_router::sync_status;
use weft_identity::{KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, PrivateKey, San, SubjectName};
use weft_model::Id;
use weft_model::entity::Router;
use weft_network::NetworkOptions;
use weft_wire::ctrl::{
    self, ControllerHello, PeerState, PeerStateChanges, UpdateCtrlAddresses, VerifyRouter,
};
use weft_wire::edge_ctrl::data_model::ChangeSet;
use weft_wire::edge_ctrl::{
    self, EnrollmentCertsResponse, EnrollmentExtendRouterRequest,
    EnrollmentExtendRouterVerifyRequest, ExtendVerifyResult, content_type,
};
use weft_wire::hello::{HelloResult, underlay};
use weft_wire::{Outcome, ProtoBody, controller_capability};

use super::support::{Net, Peer, TestRouter, authority, quick, soon, until};

fn refused(result: Result<Peer, DialError>) -> String {
    match result.err().expect("was let in") {
        DialError::Refused { text, .. } => text,
        DialError::Hello { .. } => "closed".to_owned(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_router_is_welcomed() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let established = soon(weft_channel::dial(net.options(&router))).await.unwrap();
    let headers = established.peer().headers.clone();
    assert_eq!(established.peer().id.as_deref(), Some("ctrl1"));
    let result = HelloResult { success: true, text: String::new(), headers: headers.clone() };
    let said = ControllerHello::from_result(&result);
    assert!(said.version.is_some());
    assert!(said.capabilities.has(controller_capability::JWT_LEGACY_SESSIONS));
    assert!(said.capabilities.has(controller_capability::ADOPTS_CIRCUITS));
    let apis = headers.get_str(2002).unwrap();
    assert!(apis.contains(r#""edge-client":[{"url":"https://c/edge/client/v1","version":"v1"}]"#));

    let mut peer = Peer::start(established);
    let greeting = peer.expect(content_type::SERVER_HELLO).await;
    assert!(edge_ctrl::supports_data_model(&greeting));
    peer.leave();
    let online = net.bed.controller.kernel().online();
    until(|| !online.is_online(router.id.as_str())).await;

    let mut peer = net.connect(&router).await;
    let facts = online.router(router.id.as_str()).unwrap();
    assert_eq!(facts.protocols["tls"], "tls://er1.example:3022");
    assert_eq!(facts.version.version, "v2.1.0");
    let keys = peer.expect(content_type::DATA_STATE_CHANGE_SET).await;
    let keys = ChangeSet::from_message(&keys).unwrap();
    // The certificate, the root, and two keys of tokens.
    assert!(keys.is_synthetic && keys.changes.len() == 4);
    let members = peer.expect(ctrl::content_type::UPDATE_CTRL_ADDRESSES).await;
    let members = UpdateCtrlAddresses::from_message(&members).unwrap();
    assert!(members.is_leader && members.index > 0 && members.addresses.is_empty());
    assert_eq!(members.controllers[0].endpoints[0].address, "tls:ctrl.example:6262");
    // A further connection joins the same channel.
    until(|| peer.channel.underlays().iter().any(|it| it.kind == underlay::CTRL_HIGH)).await;
    assert_eq!(net.network.routers().all().len(), 1);
}

#[tokio::test]
async fn strangers_are_refused() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let other = net.router("er2").await;

    let unknown = TestRouter { id: Id::new("nobody"), chain: router.chain.clone() };
    assert!(refused(net.dial(&unknown).await).starts_with("unknown/unenrolled router"));
    let borrowed = TestRouter { id: other.id.clone(), chain: router.chain.clone() };
    assert!(refused(net.dial(&borrowed).await).starts_with("incorrect fingerprint"));

    let foreign = authority("root");
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let subject = SubjectName::common_name(router.id.as_str());
    let now = std::time::SystemTime::now();
    let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Client, now).unwrap();
    let leaf = foreign.issue(&leaf).unwrap();
    // A certificate of the network behind the leaf proves nothing.
    let filler = router.chain.leaf().clone();
    let chain = KeyedChain::new(vec![leaf, filler], key).unwrap();
    let forged = TestRouter { id: router.id.clone(), chain };
    assert_eq!(refused(net.dial(&forged).await), "closed");

    let fresh = net.create("createEdgeRouter", json!({"name": "er3"})).await;
    let fresh = TestRouter { id: Id::new(&fresh), chain: router.chain.clone() };
    assert!(refused(net.dial(&fresh).await).starts_with("router enrollment incomplete"));

    net.manage("patchEdgeRouter", &[other.id.as_str()], json!({"disabled": true})).await;
    assert!(refused(net.dial(&other).await).starts_with("router is disabled"));
    assert!(net.network.routers().all().is_empty());
}

#[tokio::test]
async fn a_router_sends_no_long_message_of_a_kind_that_is_short() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let peer = net.connect(&router).await;
    // An unknown field of 2 MiB.
    let mut body = vec![0x7a, 0x80, 0x80, 0x80, 0x01];
    body.resize(body.len() + (2 << 20), 0);
    let long = |content_type| weft_wire::Message::new(content_type, body.clone());
    peer.send(long(ctrl::content_type::METRICS)).await;
    peer.settled().await;
    peer.send(long(ctrl::content_type::FAULT)).await;
    soon(peer.channel.closed()).await;
}

#[tokio::test]
async fn a_certificate_of_no_router_is_cut_before_its_hello() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let keys = &net.bed.controller.auth().keys();
    let gate = weft_control::gate::Gate(Arc::clone(&net.plane.0));
    let der = |chain: &KeyedChain| vec![chain.leaf().der().clone()];
    gate.screen(&der(&router.chain)).unwrap();
    // A certificate of the network that is no router's.
    gate.screen(&der(&keys.session)).unwrap_err();
    gate.screen(&[]).unwrap_err();
    // The address is in use; a peer without such a certificate gets no answer, not even a refusal.
    let stranger = TestRouter { id: router.id.clone(), chain: keys.session.clone() };
    assert_eq!(refused(net.dial(&stranger).await), "closed");
}

#[tokio::test]
async fn a_router_without_version_is_dropped() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let mut options = net.options(&router);
    options.hello.headers.remove(weft_wire::hello::header::HELLO_VERSION);
    let established = soon(weft_channel::dial(options)).await.unwrap();
    let peer = Peer::start(established);
    soon(peer.channel.closed()).await;
    assert!(net.network.routers().all().is_empty());
}

#[tokio::test]
async fn one_connection_per_router() {
    let patient = NetworkOptions { churn_limit: Duration::from_secs(60), ..quick() };
    let net = Net::with(patient).await;
    let router = net.router("er1").await;
    let first = net.connect(&router).await;
    assert!(refused(net.dial(&router).await).starts_with("router already connected"));
    first.settled().await;
    // There is room once the first one has gone.
    first.channel.close("test");
    until(|| net.network.routers().all().is_empty()).await;
    net.connect(&router).await;

    let hasty = Net::new().await;
    let router = hasty.router("er1").await;
    let first = hasty.connect(&router).await;
    let second = hasty.connect(&router).await;
    soon(first.channel.closed()).await;
    second.settled().await;
    assert!(hasty.bed.controller.kernel().online().is_online(router.id.as_str()));
}

#[tokio::test]
async fn disabled_and_deleted_routers_are_cut_off() {
    let net = Net::new().await;
    let (one, two) = (net.router("er1").await, net.router("er2").await);
    let (first, second) = (net.connect(&one).await, net.connect(&two).await);
    net.manage("patchEdgeRouter", &[one.id.as_str()], json!({"disabled": true})).await;
    soon(first.channel.closed()).await;
    net.manage("deleteEdgeRouter", &[two.id.as_str()], serde_json::Value::Null).await;
    soon(second.channel.closed()).await;
    let online = net.bed.controller.kernel().online();
    until(|| online.routers().is_empty()).await;
    assert_eq!(online.sync_status(one.id.as_str()), sync_status::DISCONNECTED);
}

/// Waits for news of a router to another one that it has this state now.
async fn becomes(told: &mut Peer, about: &TestRouter, state: PeerState) {
    loop {
        let message = told.expect(ctrl::content_type::PEER_STATE_CHANGE).await;
        let news = PeerStateChanges::from_message(&message).unwrap();
        let last = news.changes.iter().rfind(|change| change.id == about.id.as_str());
        if last.is_some_and(|last| last.state() == state) {
            return;
        }
    }
}

/// A router that is not trusted any more could otherwise still send over its links.
#[tokio::test]
async fn others_close_their_links_with_a_router_that_is_disabled() {
    let net = Net::new().await;
    let (one, two) = (net.router("er1").await, net.router("er2").await);
    let (mut first, second) = (net.connect(&one).await, net.connect(&two).await);
    becomes(&mut first, &two, PeerState::Healthy).await;
    let disabled = async |is: bool| {
        net.manage("patchEdgeRouter", &[two.id.as_str()], json!({ "disabled": is })).await;
    };
    disabled(true).await;
    soon(second.channel.closed()).await;
    becomes(&mut first, &two, PeerState::Removed).await;
    // Enabled again, the router is linked with again.
    disabled(false).await;
    let second = net.connect(&two).await;
    becomes(&mut first, &two, PeerState::Healthy).await;
    // A router that is not connected is disabled.
    second.channel.close("test");
    becomes(&mut first, &two, PeerState::Unhealthy).await;
    disabled(true).await;
    becomes(&mut first, &two, PeerState::Removed).await;
}

#[tokio::test]
async fn routers_hear_of_each_other() {
    let net = Net::new().await;
    let (one, two) = (net.router("er1").await, net.router("er2").await);
    let mut first = net.connect(&one).await;
    let second = net.connect(&two).await;
    let next = first.expect(ctrl::content_type::PEER_STATE_CHANGE).await;
    let next = PeerStateChanges::from_message(&next).unwrap();
    assert_eq!(next.changes[0].id, two.id.as_str());
    assert_eq!(next.changes[0].state(), PeerState::Healthy);
    second.channel.close("test");
    let next = first.expect(ctrl::content_type::PEER_STATE_CHANGE).await;
    let next = PeerStateChanges::from_message(&next).unwrap();
    assert_eq!(next.changes[0].state(), PeerState::Unhealthy);

    let ask = |fingerprint: &str| VerifyRouter {
        router_id: two.id.to_string(),
        fingerprints: vec![fingerprint.to_owned()],
    };
    let right = first.ask(ask(two.chain.leaf().fingerprint()).to_message()).await;
    assert_eq!(Outcome::from_message(&right).unwrap(), Outcome::success("router verified"));
    let wrong = first.ask(ask(one.chain.leaf().fingerprint()).to_message()).await;
    assert!(!Outcome::from_message(&wrong).unwrap().success);
}

#[tokio::test]
async fn certificates_are_renewed_without_locking_anybody_out() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let key = router.chain.key().clone();
    let subject = SubjectName::common_name(router.id.as_str());
    let csr = weft_identity::CertificateRequest::make_pem(&key, &subject, &[]).unwrap();
    let request = EnrollmentExtendRouterRequest {
        client_cert_csr: csr.clone(),
        server_cert_csr: csr,
        require_verification: true,
    };
    peer.send(request.to_message()).await;
    let issued = peer.expect(content_type::ENROLLMENT_CERTS_RESPONSE).await;
    let issued = EnrollmentCertsResponse::from_message(&issued).unwrap();
    let confirm = |pem: &str| EnrollmentExtendRouterVerifyRequest { client_cert_pem: pem.into() };
    let old = router.chain.leaf().to_pem();
    let chain = weft_identity::Certificate::from_pem(issued.client_cert_pem.as_bytes()).unwrap();
    let other = peer.ask(confirm(&chain[1].to_pem()).to_message()).await;
    assert_eq!(ExtendVerifyResult::from_message(&other).unwrap().code, "VERIFY_ERROR");
    let done = peer.ask(confirm(&issued.client_cert_pem).to_message()).await;
    assert_eq!(ExtendVerifyResult::from_message(&done).unwrap().code, "");

    // The old certificate is still accepted, then the new one too, and then only the new one.
    let id = router.id.as_str();
    net.connect(&router).await;
    let renewed =
        TestRouter { id: router.id.clone(), chain: KeyedChain::new(chain.clone(), key).unwrap() };
    net.connect(&renewed).await;
    let current = || {
        let router = net.bed.controller.kernel().snapshot();
        router.get::<Router>(&Id::new(id)).unwrap().fingerprint.clone().unwrap()
    };
    until(|| *current() == *chain[0].fingerprint()).await;
    assert_ne!(old, chain[0].to_pem());
    assert_eq!(refused(net.dial(&router).await), "closed");
}

#[tokio::test]
async fn no_router_renews_to_a_name_that_is_not_its_own() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let subject = SubjectName::common_name(router.id.as_str());
    let ask = |sans: &[San]| {
        let csr = weft_identity::CertificateRequest::make_pem(&key, &subject, sans).unwrap();
        EnrollmentExtendRouterRequest {
            client_cert_csr: csr.clone(),
            server_cert_csr: csr,
            require_verification: true,
        }
        .to_message()
    };
    // The controller is running and does not answer.
    peer.send(ask(&[San::Dns("ctrl.example".into())])).await;
    let other = San::Uri("spiffe://weft.test/identity/somebody".into());
    let listens = San::Dns("r.example".into());
    peer.send(ask(&[other, listens.clone()])).await;
    let issued = peer.expect(content_type::ENROLLMENT_CERTS_RESPONSE).await;
    let issued = EnrollmentCertsResponse::from_message(&issued).unwrap();
    let own = San::Uri(format!("spiffe://weft.test/router/{}", router.id));
    for pem in [&issued.client_cert_pem, &issued.server_cert_pem] {
        let chain = weft_identity::Certificate::from_pem(pem.as_bytes()).unwrap();
        assert_eq!(chain[0].sans(), [own.clone(), listens.clone()]);
    }
    peer.settled().await;
    assert!(!peer.has(content_type::ENROLLMENT_CERTS_RESPONSE));
}

/// Nothing else would close the router's channel, so that the router would take the stopped
/// controller for a live one.
#[tokio::test]
async fn a_router_that_comes_while_the_controller_stops_is_sent_away() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    net.network.stop().await;
    let peer = net.dial(&router).await.unwrap();
    soon(peer.channel.closed()).await;
    assert!(net.network.routers().all().is_empty());
}
