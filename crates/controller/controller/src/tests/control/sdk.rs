//! Requests of routers for SDKs, with the tokens of their sessions.

use serde_json::{Value, json};
use weft_contract::Api;
use weft_model::Id;
use weft_model::entity::{Router, Terminator};
use weft_wire::ctrl::CircuitRequest;
use weft_wire::edge_ctrl::{
    CreateCircuitRequest, CreateCircuitResponse, CreateCircuitV2, CreateTerminatorResult,
    CreateTerminatorV2Request, CreateTerminatorV2Response, CreateTunnelCircuitV2Request,
    CreatedCircuit, EdgeError, ErrorCode, RetryHint, content_type as is,
};
use weft_wire::{Message, PeerData, ProtoBody};

use super::circuits::{dial_with, fine};
use super::support::{Net, Peer};
use crate::testing::to;
use crate::{Caller, Result};

/// A network with a service for every identity, and a router.
async fn network() -> (Net, Peer, Id) {
    let net = Net::new().await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let router = net.router("er1").await;
    let peer = net.connect(&router).await;
    (net, peer, service)
}

/// A client with an identity of its own.
pub(super) struct Sdk<'n> {
    net: &'n Net,
    pub(super) identity: String,
    pub(super) token: String,
    client: Caller,
}

impl<'n> Sdk<'n> {
    pub(super) async fn new(net: &'n Net, name: &str) -> Self {
        let (identity, chain) = net.bed.enroll(&net.admin, name).await;
        let token = net.bed.login_with(&chain).await.unwrap().data()["token"].clone();
        let token = token.as_str().unwrap().to_owned();
        let client = net.bed.with_token(&token);
        Self { net, identity, token, client }
    }

    /// A client that has named a key of an end.
    pub(super) async fn end(net: &'n Net, name: &str) -> Self {
        let (identity, chain) = net.bed.enroll(&net.admin, name).await;
        let token = net.bed.login_as_end(&chain).await;
        let client = net.bed.with_token(&token);
        Self { net, identity, token, client }
    }

    /// The controller's statement about it as an end.
    pub(super) async fn stated(&self, session: &str, instance: &str) -> Result<Value> {
        let call = to(Api::Client, "stateSessionEnd", &[session]);
        let call = call.with_query("instance", instance);
        Ok(self.net.bed.controller.call(self.client.clone(), call).await?.data())
    }

    /// Why there is no service session.
    pub(super) async fn refused(&self, service: &Id, kind: &str) -> String {
        let ask = json!({"serviceId": service.as_str(), "type": kind});
        let made = self.net.bed.client(&self.client, "createSession", &[], ask).await;
        made.unwrap_err().to_string()
    }

    /// Id and token of a service session.
    pub(super) async fn session(&self, service: &Id, kind: &str) -> (String, String) {
        let ask = json!({"serviceId": service.as_str(), "type": kind});
        let made = self.net.bed.client(&self.client, "createSession", &[], ask).await.unwrap();
        (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
    }

    /// A request for a circuit, with a session of its own.
    pub(super) async fn dialing(&self, service: &Id) -> CreateCircuitV2 {
        CreateCircuitV2 {
            session_token: self.session(service, "Dial").await.1,
            api_session_token: self.token.clone(),
            ..CreateCircuitV2::default()
        }
    }

    pub(super) async fn hosting(&self, service: &Id, id: &str) -> CreateTerminatorV2Request {
        CreateTerminatorV2Request {
            address: id.into(),
            session_token: self.session(service, "Bind").await.1,
            cost: 3,
            api_session_token: self.token.clone(),
            ..CreateTerminatorV2Request::default()
        }
    }
}

pub(super) async fn create(
    peer: &Peer,
    request: &CreateTerminatorV2Request,
) -> CreateTerminatorV2Response {
    let reply = peer.ask(request.to_message()).await;
    CreateTerminatorV2Response::from_message(&reply).unwrap()
}

fn refusal(reply: &Message) -> (ErrorCode, RetryHint) {
    assert_eq!(reply.content_type, is::ERROR);
    let error = EdgeError::from_message(reply).unwrap();
    (error.code, error.retry_hint)
}

#[tokio::test]
async fn an_sdk_hosts_and_dials() {
    let (net, mut peer, service) = network().await;
    let laptop = Sdk::new(&net, "laptop").await;
    let (dial_id, dial) = laptop.session(&service, "Dial").await;
    let host = laptop.hosting(&service, "hosted-1").await;
    let reply = create(&peer, &host).await;
    assert_eq!((reply.result(), reply.msg.as_str()), (CreateTerminatorResult::Success, ""));
    let wrong = CreateTerminatorV2Request { session_token: dial.clone(), ..host };
    let reply = create(&peer, &wrong).await;
    assert_eq!((reply.error_code, reply.retry_hint), (ErrorCode::WRONG_SESSION_TYPE.0, 2));

    let ask = CreateCircuitV2 {
        session_token: dial.clone(),
        api_session_token: laptop.token.clone(),
        ..CreateCircuitV2::default()
    };
    let reply = dial_with(&mut peer, ask.to_message().unwrap(), |route| {
        let egress = route.egress.as_ref().unwrap();
        assert_eq!((egress.binding.as_str(), egress.destination.as_str()), ("edge", "hosted-1"));
        assert_eq!(route.tags["hostId"], laptop.identity);
        fine()
    })
    .await;
    let circuit = CreatedCircuit::from_message(&reply).unwrap();
    assert_eq!(circuit.tags["clientId"], laptop.identity);
    assert_eq!(net.network.circuits().get(&circuit.circuit_id).unwrap().client, dial_id);

    let stolen = CreateCircuitV2 { api_session_token: "other".into(), ..ask };
    let reply = peer.ask(stolen.to_message().unwrap()).await;
    assert_eq!(refusal(&reply), (ErrorCode::INVALID_API_SESSION, RetryHint::START_OVER));
}

#[tokio::test]
async fn routers_may_ask_in_the_first_form() {
    let (net, mut peer, service) = network().await;
    let laptop = Sdk::new(&net, "laptop").await;
    let host = laptop.hosting(&service, "hosted-1").await;
    create(&peer, &host).await;
    let good = CreateCircuitRequest {
        session_token: laptop.session(&service, "Dial").await.1,
        api_session_token: laptop.token.clone(),
        ..CreateCircuitRequest::default()
    };
    let with = |api: &str, session: &str| CreateCircuitRequest {
        api_session_token: api.into(),
        session_token: session.into(),
        ..good.clone()
    };
    let start_over = |code| (code, RetryHint::START_OVER);
    for (wrong, expected) in [
        (with("eyJh.bogus.bogus", "eyJh.bogus.bogus"), start_over(ErrorCode::INVALID_API_SESSION)),
        (with("nobody", "nothing"), start_over(ErrorCode::INVALID_API_SESSION)),
        (with("", ""), start_over(ErrorCode::INVALID_API_SESSION)),
        (with(&laptop.token, "eyJh.bogus.bogus"), start_over(ErrorCode::INVALID_SESSION)),
        (with(&laptop.token, ""), start_over(ErrorCode::INVALID_SESSION)),
        (with(&laptop.token, &host.session_token), start_over(ErrorCode::WRONG_SESSION_TYPE)),
    ] {
        let reply = peer.ask(wrong.to_message()).await;
        assert_eq!(refusal(&reply), expected, "{}", reply.text());
    }
    assert!(net.network.circuits().is_empty());
    let reply = dial_with(&mut peer, good.to_message(), |_| fine()).await;
    let circuit = CreateCircuitResponse::from_message(&reply).unwrap();
    assert_eq!(circuit.tags["clientId"], laptop.identity);
    assert_eq!(circuit.peer_data[&1003], "host");
    let known = net.network.circuits().get(&circuit.circuit_id).unwrap();
    assert_eq!(known.ingress, circuit.address);
}

#[tokio::test]
async fn ghsa_7868_235p_7497_no_form_of_a_request_makes_a_circuit_of_anothers_session() {
    let (net, mut peer, service) = network().await;
    let (one, thief) = (Sdk::new(&net, "one").await, Sdk::new(&net, "thief").await);
    create(&peer, &one.hosting(&service, "hosted-1").await).await;
    let session = one.session(&service, "Dial").await.1;
    let first = |api: &str| CreateCircuitRequest {
        api_session_token: api.into(),
        session_token: session.clone(),
        ..CreateCircuitRequest::default()
    };
    let second = |api: &str| CreateCircuitV2 {
        api_session_token: api.into(),
        session_token: session.clone(),
        ..CreateCircuitV2::default()
    };
    for stolen in [first(&thief.token).to_message(), second(&thief.token).to_message().unwrap()] {
        let reply = peer.ask(stolen).await;
        assert_eq!(reply.content_type, is::ERROR, "{}", reply.text());
    }
    assert!(net.network.circuits().is_empty());
    let reply = dial_with(&mut peer, second(&one.token).to_message().unwrap(), |_| fine()).await;
    assert_eq!(CreatedCircuit::from_message(&reply).unwrap().tags["clientId"], one.identity);
}

#[tokio::test]
async fn a_host_hears_the_dialers_name_from_the_controller_whatever_dialer_and_router_wrote() {
    let (net, mut peer, service) = network().await;
    let laptop = Sdk::new(&net, "laptop").await;
    create(&peer, &laptop.hosting(&service, "hosted-1").await).await;
    let written: PeerData =
        [1008, 1115, 1116].map(|key| (key, "administrator".into())).into_iter().collect();
    let tunneled = CreateTunnelCircuitV2Request {
        service_name: "web".into(),
        peer_data: written.clone(),
        ..CreateTunnelCircuitV2Request::default()
    };
    let first = CreateCircuitRequest {
        session_token: laptop.session(&service, "Dial").await.1,
        api_session_token: laptop.token.clone(),
        peer_data: written.clone(),
        ..CreateCircuitRequest::default()
    };
    let second = CreateCircuitV2 {
        session_token: first.session_token.clone(),
        api_session_token: laptop.token.clone(),
        peer_data: PeerData::new(),
        ..CreateCircuitV2::default()
    };
    let bound =
        CircuitRequest { ingress_id: "somebody".into(), service: "web".into(), peer_data: written };
    let router =
        net.bed.controller.kernel().snapshot().list::<Router>().next().unwrap().base.id.clone();
    let router = (router.to_string(), "er1".to_owned());
    let sdk = (laptop.identity.clone(), "laptop".to_owned());
    for (request, (id, name)) in [
        (first.to_message(), sdk.clone()),
        (second.to_message().unwrap(), sdk),
        (tunneled.to_message(), router.clone()),
        (bound.to_message(), router),
    ] {
        dial_with(&mut peer, request, |route| {
            let told = &route.egress.as_ref().unwrap().peer_data;
            let told = [1115, 1116, 1008].map(|key| told.get(&key).map(|told| &told[..]));
            assert_eq!(told, [&id, &name, &name].map(|told| Some(told.as_bytes())));
            fine()
        })
        .await;
    }
}

#[tokio::test]
async fn an_instance_belongs_to_one_identity() {
    let (net, peer, service) = network().await;
    let (one, other) = (Sdk::new(&net, "one").await, Sdk::new(&net, "other").await);
    let host = async |sdk: &Sdk<'_>, id: &str, secret: &'static str| {
        let request = CreateTerminatorV2Request {
            instance_id: "blue".into(),
            instance_secret: secret.into(),
            ..sdk.hosting(&service, id).await
        };
        create(&peer, &request).await
    };
    assert_eq!(host(&one, "first", "a").await.result(), CreateTerminatorResult::Success);
    assert_eq!(host(&one, "second", "b").await.result(), CreateTerminatorResult::Success);
    let refused = host(&other, "third", "a").await;
    assert_eq!(refused.result(), CreateTerminatorResult::FailedOther);
    assert_eq!(
        (refused.error_code, refused.retry_hint),
        (ErrorCode::INVALID_INSTANCE_ID.0, RetryHint::NOT_RETRIABLE.0)
    );
    let text = "with shared identity blue belongs to different identity";
    assert!(refused.msg.starts_with("sibling terminator ") && refused.msg.ends_with(text));
    let snapshot = net.bed.controller.kernel().snapshot();
    assert!(snapshot.get::<Terminator>(&Id::new("third")).is_none());
    assert_eq!(host(&one, "first", "a").await.result(), CreateTerminatorResult::Success);
}
