//! Services that demand that both ends prove who they are.

use bytes::Bytes;
use serde_json::{Value, json};
use weft_contract::Api;
use weft_e2e::KeyPair;
use weft_e2e::ending::{HostKey, marker};
use weft_e2e::proof::{Greeting, Opening};
use weft_model::Id;
use weft_model::entity::{ServiceSession, Terminator};
use weft_wire::ctrl::CircuitRequest;
use weft_wire::edge_ctrl::{
    CreateCircuitV2, CreateTerminatorResult, CreateTerminatorV2Request,
    CreateTunnelCircuitV2Request, CreateTunnelCircuitV2Response, CreateTunnelTerminatorRequestV2,
    CreateTunnelTerminatorResponseV2, CreatedCircuit, EdgeError, EndStatementRequest,
    EndStatementResponse, ErrorCode,
};
use weft_wire::{Message, PeerData, ProtoBody};

use super::circuits::{dial_request, dial_with};
use super::sdk::{Sdk, create};
use super::support::{Net, Peer, until};
use super::terminators::host;
use crate::testing::to;

const DEMAND: &str = "service web demands that both ends prove who they are";

/// A network with a service, and a router.
async fn network() -> (Net, Peer, Id) {
    let net = Net::new().await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": true})).await;
    let router = net.router("er1").await;
    let peer = net.connect(&router).await;
    (net, peer, service)
}

impl Net {
    async fn demand(&self, service: &Id, demanded: bool) {
        let patch = json!({"authenticatedEnds": demanded});
        self.manage("patchService", &[service.as_str()], patch).await;
    }
}

/// The list of those who have named no key, and whether one is demanded.
async fn unproven(net: &Net, service: &Id, query: &[(&str, &str)]) -> (Vec<Value>, bool) {
    let call = to(Api::Weft, "listUnprovenEnds", &[service.as_str()]);
    let call = query.iter().fold(call, |call, (name, value)| call.with_query(name, value));
    let listed = net.bed.controller.call(net.admin.clone(), call).await.unwrap().data();
    assert_eq!(listed["total"], 3);
    (listed["ends"].as_array().unwrap().clone(), listed["demanded"] == true)
}

/// A dial of this client; `proves` says which ends announce a proof.
async fn dialed(
    peer: &mut Peer,
    laptop: &Sdk<'_>,
    service: &Id,
    proves: [bool; 2],
) -> Result<CreatedCircuit, EdgeError> {
    let key = KeyPair::generate(&mut rand::rng()).unwrap().public_key();
    let own = key.as_bytes().to_vec();
    let dialer = [(1003, own.into()), (1025, marker("abc", proves[0].then_some(&[6; 16])).into())];
    let ask = CreateCircuitV2 { peer_data: dialer.into(), ..laptop.dialing(service).await };
    let told = HostKey {
        key,
        seals_end: true,
        proves: proves[1].then_some(Greeting {
            hint: [7; 16],
            fresh: [8; 16],
            proof: Opening::None,
        }),
    };
    let reply = dial_with(peer, ask.to_message().unwrap(), |_| {
        Some(Ok(PeerData::from([(1003, told.to_bytes())])))
    })
    .await;
    CreatedCircuit::from_message(&reply).map_err(|_| EdgeError::from_message(&reply).unwrap())
}

fn refused(reply: &Message) -> String {
    EdgeError::from_message(reply).unwrap().text
}

#[tokio::test]
async fn whoever_cannot_prove_itself_is_cut_when_that_is_demanded_and_told_why() {
    let (net, mut peer, service) = network().await;
    let (old, new) = (Sdk::new(&net, "old").await, Sdk::end(&net, "new").await);
    let request = old.hosting(&service, "t-old").await;
    assert_eq!(create(&peer, &request).await.result(), CreateTerminatorResult::Success);
    let (dial, token) = old.session(&service, "Dial").await;
    let circuit = dialed(&mut peer, &old, &service, [false, false]).await.unwrap();
    let has = |id: &str| net.network.circuits().get(id).is_some();
    assert!(has(&circuit.circuit_id));
    let kept = new.session(&service, "Dial").await.0;

    // Before the demand it is listed who would be cut.
    let (cut, demanded) = unproven(&net, &service, &[]).await;
    let roles: Vec<_> = cut.iter().map(|end| end["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["Bind", "Bind", "Dial"]);
    assert!(cut.iter().all(|end| end["identity"]["name"] == "old"));
    assert_eq!((&cut[0]["terminator"], demanded), (&json!("t-old"), false));
    let (page, _) = unproven(&net, &service, &[("offset", "1"), ("limit", "1")]).await;
    assert_eq!(page, cut[1..2]);

    net.demand(&service, true).await;
    until(|| !has(&circuit.circuit_id)).await;
    let session = |id: &str| net.bed.controller.auth().sessions().service(id);
    assert_eq!(session(&dial).map(|it: std::sync::Arc<ServiceSession>| it.base.id.clone()), None);
    assert!(session(&kept).is_some());
    for kind in ["Dial", "Bind"] {
        let text = old.refused(&service, kind).await;
        assert!(text.contains(DEMAND) && text.contains("use an SDK"), "{text}");
    }
    // The tokens of before do not help, and nobody is led to the host of before.
    let ask = CreateCircuitV2 {
        session_token: token,
        api_session_token: old.token.clone(),
        ..CreateCircuitV2::default()
    };
    let reply = peer.ask(ask.to_message().unwrap()).await;
    assert_eq!(refused(&reply), "Invalid Session");
    assert_eq!(create(&peer, &request).await.result(), CreateTerminatorResult::FailedOther);
    let error = dialed(&mut peer, &new, &service, [true, true]).await.unwrap_err();
    assert!(error.text.contains("cannot prove who they are"), "{}", error.text);

    let request = new.hosting(&service, "t-new").await;
    assert_eq!(create(&peer, &request).await.result(), CreateTerminatorResult::Success);
    let made = net.bed.controller.kernel().snapshot().get::<Terminator>(&Id::new("t-new")).cloned();
    assert!(made.unwrap().host_proves);
    dialed(&mut peer, &new, &service, [true, true]).await.unwrap();
    // An announcement that is missing is named.
    for (proves, text) in [
        ([false, true], "the dial announces no proof"),
        ([true, false], "the host announces no proof"),
    ] {
        let error = dialed(&mut peer, &new, &service, proves).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ACCESS_DENIED);
        assert!(error.text.contains(DEMAND) && error.text.contains(text), "{}", error.text);
    }
    until(|| net.network.circuits().all().len() == 1).await;

    net.demand(&service, false).await;
    old.session(&service, "Dial").await;
}

#[tokio::test]
async fn a_router_that_proves_nothing_neither_dials_nor_hosts_what_demands_it() {
    let (net, mut peer, service) = network().await;
    assert_eq!(host(&peer, &service, "t1").await.result(), CreateTerminatorResult::Success);
    let reply = dial_with(&mut peer, dial_request(), |_| super::circuits::fine()).await;
    assert!(EdgeError::from_message(&reply).is_err());
    until(|| net.network.circuits().all().len() == 1).await;

    net.demand(&service, true).await;
    until(|| net.network.circuits().all().is_empty()).await;
    let reply = peer.ask(dial_request()).await;
    assert!(refused(&reply).contains("names no key of an end"), "{}", refused(&reply));
    let reply = host(&peer, &service, "t2").await;
    assert!(reply.msg.contains(DEMAND), "{}", reply.msg);
    let ask = CircuitRequest { service: "web".into(), ..CircuitRequest::default() };
    let reply = peer.ask(ask.to_message()).await;
    let failed = weft_wire::ctrl::CircuitFailed::from_message(&reply).unwrap();
    assert!(failed.error.contains("this binding of a router proves nothing"), "{}", failed.error);
}

#[tokio::test]
async fn a_demand_needs_encryption_and_stays_where_nobody_speaks_of_it() {
    let net = Net::new().await;
    let plain = json!({"name": "plain", "encryptionRequired": false, "authenticatedEnds": true});
    let refused = net.bed.manage(&net.admin, "createService", &[], plain).await.unwrap_err();
    assert_eq!(refused.field_name(), Some("authenticatedEnds"));
    let body = json!({"name": "web", "encryptionRequired": true, "authenticatedEnds": true});
    let service = net.create("createService", body).await;
    let now = async || net.manage("detailService", &[&service], Value::Null).await;
    assert_eq!(now().await["authenticatedEnds"], true);
    // A console that does not know the member does not switch it off.
    let body = json!({"name": "web2", "encryptionRequired": true});
    net.manage("updateService", &[&service], body).await;
    assert_eq!(
        (&now().await["authenticatedEnds"], &now().await["name"]),
        (&json!(true), &json!("web2"))
    );
    let body = json!({"name": "web2", "encryptionRequired": false});
    let done = net.bed.manage(&net.admin, "updateService", &[&service], body).await;
    assert_eq!(done.unwrap_err().field_name(), Some("authenticatedEnds"));
    let body = json!({"name": "web2", "encryptionRequired": false, "authenticatedEnds": false});
    net.manage("updateService", &[&service], body).await;
    assert_eq!(now().await["authenticatedEnds"], false);
}

/// The claims of a statement.
fn claims(statement: &str) -> Value {
    let (_, claims): (_, Value) = weft_identity::token::peek(statement).unwrap();
    claims
}

#[tokio::test]
async fn a_statement_names_an_instance_only_for_its_host() {
    let (net, peer, service) = network().await;
    let (new, other) = (Sdk::end(&net, "new").await, Sdk::end(&net, "other").await);
    let hosting = new.hosting(&service, "t-new").await;
    let hosting = CreateTerminatorV2Request { instance_id: "one".into(), ..hosting };
    assert_eq!(create(&peer, &hosting).await.result(), CreateTerminatorResult::Success);
    let (host, dialer) =
        (new.session(&service, "Bind").await.0, new.session(&service, "Dial").await.0);
    let stranger = other.session(&service, "Bind").await.0;
    for (sdk, session, instance, given) in [
        (&new, &host, "one", true),
        (&new, &host, "", true),
        (&new, &host, "two", false),
        (&new, &dialer, "one", false),
        (&other, &stranger, "one", false),
    ] {
        let stated = sdk.stated(session, instance).await;
        assert_eq!(stated.is_ok(), given, "{session} {instance}");
        match stated {
            Ok(stated) => {
                let named = claims(stated["statement"].as_str().unwrap());
                assert_eq!(named["instance"].as_str().unwrap_or_default(), instance);
            }
            Err(refused) => assert_eq!(refused.field_name(), Some("instance")),
        }
    }
}

#[tokio::test]
async fn a_router_hears_who_its_tunneler_is_for_what_it_may_do() {
    let (net, mut peer, service) = network().await;
    let key = Bytes::from([&[4][..], &[9; 64]].concat());
    let ask = EndStatementRequest {
        key: key.clone(),
        service_id: service.to_string(),
        ..EndStatementRequest::default()
    };
    let reply = peer.ask(ask.to_message()).await;
    let stated = EndStatementResponse::from_message(&reply).unwrap();
    let named = claims(&stated.statement);
    assert_eq!((&named["name"], &named["role"]), (&json!("er1"), &json!("Dial")));
    assert_eq!(
        (&named["service"], &named["session"]),
        (&json!(service.as_str()), &json!(stated.session))
    );
    for wrong in [
        EndStatementRequest { key: Bytes::from_static(b"no key"), ..ask.clone() },
        EndStatementRequest { service_id: "nothing".into(), ..ask.clone() },
        EndStatementRequest { hosts: true, instance_id: "one".into(), ..ask.clone() },
    ] {
        assert!(EdgeError::from_message(&peer.ask(wrong.to_message()).await).is_ok());
    }
    // With a key the router takes part in what demands one.
    assert_eq!(host_with(&peer, &service, &key).await, CreateTerminatorResult::Success);
    let unproved = tunneled(&mut peer, &key, false).await;
    let proved = tunneled(&mut peer, &key, true).await;
    net.demand(&service, true).await;
    let has = |circuit: &str| net.network.circuits().get(circuit).is_some();
    until(|| !has(&unproved)).await;
    assert!(has(&proved), "a circuit goes on whose ends announced their proofs");
    assert!(has(&tunneled(&mut peer, &key, true).await));
    assert_eq!(host_with(&peer, &service, &key).await, CreateTerminatorResult::Success);
}

/// Hosts the service at the router's own tunneler, which names this key.
async fn host_with(peer: &Peer, service: &Id, key: &Bytes) -> CreateTerminatorResult {
    let request = CreateTunnelTerminatorRequestV2 {
        service_id: service.to_string(),
        address: "t1".into(),
        end_key: key.clone(),
        ..CreateTunnelTerminatorRequestV2::default()
    };
    let reply = peer.ask(request.to_message()).await;
    CreateTunnelTerminatorResponseV2::from_message(&reply).unwrap().result()
}

/// A circuit of the router's own tunneler, whose ends announce proofs or not.
async fn tunneled(peer: &mut Peer, key: &Bytes, proves: bool) -> String {
    let own = KeyPair::generate(&mut rand::rng()).unwrap().public_key();
    let greeting = Greeting { hint: [7; 16], fresh: [8; 16], proof: Opening::None };
    let told = HostKey { key: own, seals_end: true, proves: proves.then_some(greeting) };
    let marker = marker("abc", proves.then_some(&[6; 16]));
    let dial = CreateTunnelCircuitV2Request {
        service_name: "web".into(),
        peer_data: [(1003, own.as_bytes().to_vec().into()), (1025, marker.into())].into(),
        end_key: key.clone(),
        ..CreateTunnelCircuitV2Request::default()
    };
    let reply =
        dial_with(peer, dial.to_message(), |_| Some(Ok(PeerData::from([(1003, told.to_bytes())]))))
            .await;
    CreateTunnelCircuitV2Response::from_message(&reply).unwrap().circuit_id
}
