//! Opaque sessions, connected identities.

use serde_json::{Value, json};
use weft_contract::resource::identity::ConnectionStatus;
use weft_wire::ProtoBody;
use weft_wire::edge_ctrl::content_type as is;
use weft_wire::edge_ctrl::{
    ApiSessionAdded, ApiSessionHeartbeat, ApiSessionRemoved, ConnectEvents, IdentityConnectEvents,
    RequestClientReSync, SessionRemoved, SyncState, ValidateSessionsRequest,
};

use super::support::{Net, Peer, soon};

async fn added(peer: &mut Peer) -> (ApiSessionAdded, SyncState) {
    let message = peer.expect(is::API_SESSION_ADDED).await;
    let state = SyncState::from_message(&message).unwrap();
    (ApiSessionAdded::from_message(&message).unwrap(), state)
}

#[tokio::test]
async fn a_router_is_told_of_sessions() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let (all, state) = added(&mut peer).await;
    assert!(all.is_full_state && state.is_last && state.sequence == 0);
    assert_eq!(all.api_sessions.len(), 1, "that of the administrator");

    let (identity, chain) = net.bed.enroll(&net.admin, "laptop").await;
    let token = net.bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let (new, later) = added(&mut peer).await;
    assert!(!new.is_full_state && later.id > state.id);
    let session = &new.api_sessions[0];
    assert_eq!(
        (session.token.as_str(), &*session.identity_id),
        (token.as_str().unwrap(), &*identity)
    );
    assert_eq!(session.cert_fingerprints, [chain[0].fingerprint()]);

    let heartbeat = ApiSessionHeartbeat { tokens: vec![session.token.clone(), "gone".into()] };
    peer.send(heartbeat.to_message()).await;
    let gone = peer.expect(is::API_SESSION_REMOVED).await;
    assert_eq!(ApiSessionRemoved::from_message(&gone).unwrap().tokens, ["gone"]);
    let status = || {
        let controller = &net.bed.controller;
        controller.online().identity(&identity, controller.now())
    };
    assert_eq!(status(), ConnectionStatus::Online);

    let nobody = ConnectEvents { events: Vec::new(), full_state: true };
    peer.send(nobody.to_message()).await;
    peer.settled().await;
    assert_eq!(status(), ConnectionStatus::Offline);
    let one = IdentityConnectEvents {
        identity_id: identity.clone(),
        is_connected: true,
        connect_times: Vec::new(),
    };
    let stranger = IdentityConnectEvents { identity_id: "nobody".into(), ..one.clone() };
    peer.send(ConnectEvents { events: vec![one, stranger], full_state: false }.to_message()).await;
    peer.settled().await;
    assert_eq!(status(), ConnectionStatus::Online);
    assert_eq!(
        net.bed.controller.online().identity("nobody", net.bed.controller.now()),
        ConnectionStatus::Offline
    );

    net.manage("deleteIdentity", &[&identity], Value::Null).await;
    let gone = peer.expect(is::API_SESSION_REMOVED).await;
    let gone = ApiSessionRemoved::from_message(&gone).unwrap();
    assert_eq!((gone.tokens, gone.ids), (vec![session.token.clone()], vec![session.id.clone()]));

    peer.send(RequestClientReSync { reason: "test".into() }.to_message()).await;
    let (again, last) = added(&mut peer).await;
    assert!(again.is_full_state && last.id > later.id && again.api_sessions.len() == 1);
    peer.send(ValidateSessionsRequest { session_tokens: vec!["x".into()] }.to_message()).await;
    let ended = peer.expect(is::SESSION_REMOVED).await;
    let ended = SessionRemoved::from_message(&ended).unwrap();
    assert_eq!((ended.tokens, ended.ids), (vec!["x".to_owned()], vec!["x".to_owned()]));
}

#[tokio::test]
async fn many_sessions_come_in_parts() {
    let net = Net::new().await;
    for _ in 0..100 {
        net.bed.admin().await;
    }
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let (first, at) = added(&mut peer).await;
    assert_eq!((first.api_sessions.len(), at.is_last, at.sequence), (100, false, 0));
    let (second, last) = added(&mut peer).await;
    assert_eq!((second.api_sessions.len(), last.is_last, last.sequence), (1, true, 1));
    assert_eq!(at.id, last.id);
}

#[tokio::test]
async fn service_sessions_end_with_what_granted_them() {
    let net = Net::new().await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let (_, chain) = net.bed.enroll(&net.admin, "laptop").await;
    let token = net.bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let client = net.bed.with_token(token.as_str().unwrap());
    let session = async |kind: &str| {
        let ask = json!({"serviceId": service.as_str(), "type": kind});
        let made = net.bed.client(&client, "createSession", &[], ask).await.unwrap();
        made["id"].as_str().unwrap().to_owned()
    };
    let (dial, bind) = (session("Dial").await, session("Bind").await);
    let policy = net.bed.list(&net.admin, "listServicePolicies", r#"name="Dial""#).await;
    let policy = policy[0]["id"].as_str().unwrap().to_owned();
    net.manage("deleteServicePolicy", &[&policy], Value::Null).await;
    let ended = peer.expect(is::SESSION_REMOVED).await;
    let ended = SessionRemoved::from_message(&ended).unwrap();
    assert_eq!((ended.tokens, ended.ids), (vec![dial.clone()], vec![dial.clone()]));
    peer.send(ValidateSessionsRequest { session_tokens: vec![dial.clone(), bind] }.to_message())
        .await;
    let ended = SessionRemoved::from_message(&peer.expect(is::SESSION_REMOVED).await).unwrap();
    assert_eq!(ended.ids, [dial]);
}

#[tokio::test]
async fn a_session_that_is_not_complete_any_more_has_ended_for_routers() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    added(&mut peer).await;
    let (identity, chain) = net.bed.enroll(&net.admin, "laptop").await;
    net.bed.login_with(&chain).await.unwrap();
    let (new, _) = added(&mut peer).await;
    let session = &new.api_sessions[0];
    let policy = json!({"name": "strict", "secondary": {"requireTotp": true}, "primary": {
        "cert": {"allowed": true, "allowExpiredCerts": true},
        "extJwt": {"allowed": true, "allowedSigners": []},
        "updb": {"allowed": true, "lockoutDurationMinutes": 0, "maxAttempts": 0,
            "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
            "requireSpecialChar": false}}});
    let policy = net.bed.create(&net.admin, "createAuthPolicy", policy).await;
    let gone = async |peer: &mut Peer| {
        let gone = peer.expect(is::API_SESSION_REMOVED).await;
        let gone = ApiSessionRemoved::from_message(&gone).unwrap();
        assert_eq!(
            (&gone.tokens[..], &gone.ids[..]),
            (&[session.token.clone()][..], &[session.id.clone()][..])
        );
    };
    let back = async |peer: &mut Peer| {
        let (again, _) = added(peer).await;
        assert_eq!((again.is_full_state, &again.api_sessions[0].id), (false, &session.id));
    };
    net.manage("patchIdentity", &[&identity], json!({"authPolicyId": policy})).await;
    gone(&mut peer).await;
    let loose = json!({"secondary": {"requireTotp": false}});
    net.manage("patchAuthPolicy", &[&policy], loose).await;
    back(&mut peer).await;
    net.manage("patchAuthPolicy", &[&policy], json!({"secondary": {"requireTotp": true}})).await;
    gone(&mut peer).await;
    net.manage("patchIdentity", &[&identity], json!({"authPolicyId": "default"})).await;
    back(&mut peer).await;
}

#[tokio::test]
async fn who_was_connected_to_a_connection_that_was_replaced_is_not_any_more() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let (a, _) = net.bed.enroll(&net.admin, "a").await;
    let (b, _) = net.bed.enroll(&net.admin, "b").await;
    let full = |identities: &[&str]| {
        let event = |id: &&str| IdentityConnectEvents {
            identity_id: (*id).to_owned(),
            is_connected: true,
            connect_times: Vec::new(),
        };
        let events = identities.iter().map(event).collect();
        ConnectEvents { events, full_state: true }.to_message()
    };
    let status = |id: &str| {
        let controller = &net.bed.controller;
        controller.online().identity(id, controller.now())
    };
    let first = net.connect(&router).await;
    first.send(full(&[&*a, &*b])).await;
    first.settled().await;
    assert_eq!((status(&a), status(&b)), (ConnectionStatus::Online, ConnectionStatus::Online));
    let second = net.connect(&router).await;
    second.send(full(&[&*b])).await;
    second.settled().await;
    soon(first.channel.closed()).await;
    assert_eq!((status(&a), status(&b)), (ConnectionStatus::Offline, ConnectionStatus::Online));
}
