//! Opaque sessions, connected identities.

use std::time::Duration;

use serde_json::{Value, json};
use weft_contract::resource::identity::ConnectionStatus;
use weft_contract::{Api, ErrorCode};
use weft_identity::Certificate;
use weft_wire::ProtoBody;
use weft_wire::edge_ctrl::{
    ApiSessionAdded, ApiSessionHeartbeat, ApiSessionRemoved, ConnectEvents, IdentityConnectEvents,
    RequestClientReSync, SessionRemoved, SyncState, ValidateSessionsRequest, content_type as is,
};

use super::support::{Net, Peer, soon};
use crate::testing::{PASSWORD, USERNAME, csr, to};
use crate::{Caller, Origin};

async fn added(peer: &mut Peer) -> (ApiSessionAdded, SyncState) {
    let message = peer.expect(is::API_SESSION_ADDED).await;
    let state = SyncState::from_message(&message).unwrap();
    (ApiSessionAdded::from_message(&message).unwrap(), state)
}

/// All sessions in a report of everything, without the last one, which belongs to no identity.
async fn everything(peer: &mut Peer) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let (part, state) = added(peer).await;
        assert!(part.is_full_state);
        all.extend(part.api_sessions);
        if state.is_last {
            break;
        }
    }
    if let Some(end) = all.pop() {
        assert!(end.identity_id.is_empty() && end.cert_fingerprints.is_empty(), "{end:?}");
        assert!(all.iter().all(|it| it.id < end.id && it.token != end.token));
    }
    all.into_iter().map(|it| it.id).collect()
}

async fn removed(peer: &mut Peer) -> ApiSessionRemoved {
    ApiSessionRemoved::from_message(&peer.expect(is::API_SESSION_REMOVED).await).unwrap()
}

/// A policy that lets identities use routers.
async fn policy(net: &Net, identities: &[&str], routers: &[&str]) -> String {
    let name = format!("{identities:?} {routers:?}");
    let body = json!({"name": name, "semantic": "AnyOf", "identityRoles": identities,
        "edgeRouterRoles": routers});
    net.create("createEdgeRouterPolicy", body).await
}

/// Logs in with a certificate; returns id and token.
async fn login(net: &Net, chain: &[Certificate]) -> (String, String) {
    let data = net.bed.login_with(chain).await.unwrap().data();
    let text = |key: &str| data[key].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

#[tokio::test]
async fn a_router_is_told_of_sessions() {
    let net = Net::new().await;
    policy(&net, &["#all"], &["#all"]).await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let (all, state) = added(&mut peer).await;
    assert!(all.is_full_state && state.is_last && state.sequence == 0);
    assert!(all.api_sessions.is_empty(), "that of the administrator is of the management API");

    let (identity, chain) = net.bed.enroll(&net.admin, "laptop").await;
    let (id, token) = login(&net, &chain).await;
    let (new, later) = added(&mut peer).await;
    assert!(!new.is_full_state && later.id > state.id);
    let session = &new.api_sessions[0];
    assert_eq!((&session.token, &session.identity_id, &session.id), (&token, &identity, &id));
    assert_eq!(session.cert_fingerprints, [chain[0].fingerprint()]);

    let heartbeat = ApiSessionHeartbeat { tokens: vec![session.token.clone(), "gone".into()] };
    peer.send(heartbeat.to_message()).await;
    assert_eq!(removed(&mut peer).await.tokens, ["gone"]);
    let status = || {
        let controller = &net.bed.controller;
        controller.kernel().online().identity(&identity, controller.kernel().now())
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
        net.bed.controller.kernel().online().identity("nobody", net.bed.controller.kernel().now()),
        ConnectionStatus::Offline
    );

    net.manage("deleteIdentity", &[&identity], Value::Null).await;
    let gone = removed(&mut peer).await;
    assert_eq!((gone.tokens, gone.ids), (vec![token], vec![id]));

    let (_, chain) = net.bed.enroll(&net.admin, "phone").await;
    let (phone, _) = login(&net, &chain).await;
    added(&mut peer).await;
    peer.send(RequestClientReSync { reason: "test".into() }.to_message()).await;
    assert_eq!(everything(&mut peer).await, [phone]);
    peer.send(ValidateSessionsRequest { session_tokens: vec!["x".into()] }.to_message()).await;
    let ended = peer.expect(is::SESSION_REMOVED).await;
    let ended = SessionRemoved::from_message(&ended).unwrap();
    assert_eq!((ended.tokens, ended.ids), (vec!["x".to_owned()], vec!["x".to_owned()]));
}

#[tokio::test]
async fn a_router_learns_no_session_that_is_not_its_own() {
    let net = Net::new().await;
    let (one, other) = (net.router("er1").await, net.router("er2").await);
    let (laptop, chain) = net.bed.enroll(&net.admin, "laptop").await;
    let (phone, of_phone) = net.bed.enroll(&net.admin, "phone").await;
    let at = |identity: &str| format!("@{identity}");
    policy(&net, &[&at(&laptop)], &[&at(one.id.as_str())]).await;
    policy(&net, &[&at(&phone)], &[&at(other.id.as_str())]).await;
    let everybody = policy(&net, &["#all"], &["#nowhere"]).await;
    let (before, _) = login(&net, &chain).await;
    let (mut peer, mut stranger) = (net.connect(&one).await, net.connect(&other).await);
    assert_eq!(everything(&mut peer).await, std::slice::from_ref(&before));
    assert!(everything(&mut stranger).await.is_empty());

    // The login of the other client is the first session that the other router is told of.
    let (second, token) = login(&net, &chain).await;
    assert_eq!(added(&mut peer).await.0.api_sessions[0].id, second);
    let (own, _) = login(&net, &of_phone).await;
    let heard = added(&mut stranger).await.0.api_sessions;
    assert_eq!(heard.iter().map(|it| &it.id).collect::<Vec<_>>(), [&own]);

    // A router cannot keep a session alive that it may not know.
    net.bed.clock.advance(Duration::from_secs(60));
    let active = || {
        let sessions = net.bed.controller.auth().sessions();
        sessions.last_activity(&sessions.by_id(&second).unwrap())
    };
    let last = active();
    stranger.send(ApiSessionHeartbeat { tokens: vec![token.clone()] }.to_message()).await;
    assert_eq!(removed(&mut stranger).await.tokens, std::slice::from_ref(&token));
    assert_eq!(active(), last);
    peer.send(ApiSessionHeartbeat { tokens: vec![token.clone()] }.to_message()).await;
    peer.settled().await;
    assert_eq!(active(), net.bed.controller.kernel().now());

    // The router is not told of its end either: the next notice is about a session of its own.
    net.manage("deleteIdentity", &[&laptop], Value::Null).await;
    let mut gone = removed(&mut peer).await.ids;
    while gone.len() < 2 {
        gone.extend(removed(&mut peer).await.ids);
    }
    gone.sort_unstable();
    assert_eq!(gone, [before, second]);
    net.manage("deleteEdgeRouterPolicy", &[&everybody], Value::Null).await;
    net.manage("deleteIdentity", &[&phone], Value::Null).await;
    assert_eq!(removed(&mut stranger).await.ids, [own]);
}

#[tokio::test]
async fn a_router_learns_of_no_login_that_it_cannot_serve() {
    let net = Net::new().await;
    policy(&net, &["#all"], &["#all"]).await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    everything(&mut peer).await;
    // A login of the administrator with a password at the client API: it has no certificate that a
    // router could ask for.
    let call = to(Api::Client, "authenticate", &[])
        .with_query("method", "password")
        .with_json(&json!({"username": USERNAME, "password": PASSWORD}));
    let reply = net.bed.controller.call(Caller::nobody(Origin::default()), call).await.unwrap();
    let (id, token) = (reply.data()["id"].clone(), reply.data()["token"].clone());
    let client = net.bed.with_token(token.as_str().unwrap());
    assert!(net.bed.manage(&client, "listIdentities", &[], Value::Null).await.is_ok());
    // Routers are not told of a login by certificate at the management API either.
    let (_, chain) = net.bed.enroll(&net.admin, "operator").await;
    let origin = Origin { certificates: chain.clone(), ..Origin::default() };
    let call = to(Api::Management, "authenticate", &[]).with_query("method", "cert");
    net.bed.controller.call(Caller::nobody(origin), call).await.unwrap();
    // With a certificate for the session it can be used at routers, and from then on only with that
    // certificate.
    let body = json!({"csr": csr("x")});
    net.bed.client(&client, "createCurrentApiSessionCertificate", &[], body).await.unwrap();
    let told = added(&mut peer).await.0.api_sessions;
    assert_eq!((told.len(), told[0].id.as_str()), (1, id.as_str().unwrap()));
    let token = told[0].token.clone();
    let stolen = net.bed.with_token(&token);
    assert!(net.bed.client(&stolen, "getCurrentIdentity", &[], Value::Null).await.is_ok());
    let refused = net.bed.manage(&stolen, "listIdentities", &[], Value::Null).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unauthorized);
    // Once that certificate has expired, no router can use the session any more.
    let later = net.bed.controller.kernel().now().plus(Duration::from_secs(13 * 3600));
    net.bed.controller.auth().sessions().touch(&id.as_str().unwrap().into(), later);
    net.bed.clock.advance(Duration::from_secs(13 * 3600));
    assert_eq!(removed(&mut peer).await.tokens, [token]);
    assert!(net.bed.controller.auth().sessions().by_id(id.as_str().unwrap()).is_some());
}

#[tokio::test]
async fn what_a_router_is_told_of_a_session_opens_no_api_to_it() {
    let net = Net::new().await;
    policy(&net, &["#all"], &["#all"]).await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    everything(&mut peer).await;
    let (identity, chain) = net.bed.enroll(&net.admin, "laptop").await;
    net.manage("patchIdentity", &[&identity], json!({"isAdmin": true})).await;
    login(&net, &chain).await;
    let told = added(&mut peer).await.0.api_sessions.remove(0);
    let nothing = Vec::new();
    let own = router.chain.chain().to_vec();
    let (_, others) = net.bed.enroll(&net.admin, "phone").await;
    for shown in [nothing, own, others] {
        let thief = net.bed.with_token_and(&told.token, shown);
        assert!(thief.login().is_none());
        for (api, operation) in
            [(Api::Client, "getCurrentIdentity"), (Api::Management, "listIdentities")]
        {
            let call = to(api, operation, &[]);
            let refused = net.bed.controller.call(thief.clone(), call).await.unwrap_err();
            assert_eq!(refused.code(), ErrorCode::Unauthorized);
        }
    }
    let client = net.bed.with_token_and(&told.token, chain);
    assert!(net.bed.manage(&client, "listIdentities", &[], Value::Null).await.is_ok());
}

#[tokio::test]
async fn a_change_of_policies_makes_sessions_known_and_withdraws_them() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let (identity, chain) = net.bed.enroll(&net.admin, "laptop").await;
    let (id, _) = login(&net, &chain).await;
    let mut peer = net.connect(&router).await;
    assert!(everything(&mut peer).await.is_empty());
    // Earlier sessions are told again a while after the report of everything.
    let heard = async |peer: &mut Peer, wanted: &str| loop {
        let (told, _) = added(peer).await;
        assert!(!told.is_full_state);
        if told.api_sessions.iter().any(|it| it.id == wanted) {
            break;
        }
    };
    let come = async |peer: &mut Peer| heard(peer, &id).await;
    let gone =
        async |peer: &mut Peer| assert_eq!(removed(peer).await.ids, std::slice::from_ref(&id));
    let own = router.id.as_str();

    let named = policy(&net, &["#staff"], &["#office"]).await;
    net.manage("patchEdgeRouter", &[own], json!({"roleAttributes": ["office"]})).await;
    net.manage("patchIdentity", &[&identity], json!({"roleAttributes": ["staff"]})).await;
    come(&mut peer).await;
    net.manage("patchIdentity", &[&identity], json!({"roleAttributes": []})).await;
    gone(&mut peer).await;
    net.manage("patchIdentity", &[&identity], json!({"roleAttributes": ["staff"]})).await;
    come(&mut peer).await;
    net.manage("patchEdgeRouter", &[own], json!({"roleAttributes": []})).await;
    gone(&mut peer).await;
    net.manage("patchEdgeRouterPolicy", &[&named], json!({"edgeRouterRoles": ["#all"]})).await;
    come(&mut peer).await;
    let second = policy(&net, &["#all"], &["#all"]).await;
    net.manage("deleteEdgeRouterPolicy", &[&named], Value::Null).await;
    // One of the two policies was enough.
    let (later, _) = login(&net, &chain).await;
    heard(&mut peer, &later).await;
    net.manage("deleteEdgeRouterPolicy", &[&second], Value::Null).await;
    let mut all = removed(&mut peer).await.ids;
    all.sort_unstable();
    assert_eq!(all, [id.clone(), later]);
}

#[tokio::test]
async fn sessions_that_rest_on_nothing_any_more_end_at_routers() {
    let net = Net::new().await;
    policy(&net, &["#all"], &["#all"]).await;
    let (identity, chain) = net.bed.enroll(&net.admin, "laptop").await;
    let (other, of_other) = net.bed.enroll(&net.admin, "phone").await;
    let (id, _) = login(&net, &chain).await;
    let (of_phone, _) = login(&net, &of_other).await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    assert_eq!(everything(&mut peer).await, [id.clone(), of_phone.clone()]);
    let body = json!({"name": "strict", "secondary": {"requireTotp": false}, "primary": {
        "cert": {"allowed": false, "allowExpiredCerts": false},
        "extJwt": {"allowed": true, "allowedSigners": []},
        "updb": {"allowed": true, "lockoutDurationMinutes": 0, "maxAttempts": 0,
            "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
            "requireSpecialChar": false}}});
    let strict = net.create("createAuthPolicy", body).await;
    net.manage("patchIdentity", &[&identity], json!({"authPolicyId": strict})).await;
    assert_eq!(removed(&mut peer).await.ids, [id]);
    // Sessions that end by time are told as well, while they are in use.
    net.manage("patchAuthPolicy", &[&strict], json!({"primary": {"cert": {"allowed": true}}}))
        .await;
    net.manage("patchIdentity", &[&other], json!({"authPolicyId": strict})).await;
    let year = Duration::from_secs(366 * 24 * 3600);
    let sessions = net.bed.controller.auth().sessions();
    sessions.touch(&of_phone.as_str().into(), net.bed.controller.kernel().now().plus(year));
    net.bed.clock.advance(year);
    assert_eq!(removed(&mut peer).await.ids, [of_phone]);
}

#[tokio::test]
async fn many_sessions_come_in_parts() {
    let net = Net::new().await;
    policy(&net, &["#all"], &["#all"]).await;
    for (name, count) in [("laptop", 60), ("phone", 60), ("tablet", 60), ("watch", 21)] {
        let (_, chain) = net.bed.enroll(&net.admin, name).await;
        for _ in 0..count {
            login(&net, &chain).await;
        }
    }
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let (first, at) = added(&mut peer).await;
    assert_eq!((first.api_sessions.len(), at.is_last, at.sequence), (200, false, 0));
    let (second, last) = added(&mut peer).await;
    assert_eq!((second.api_sessions.len(), last.is_last, last.sequence), (2, true, 1));
    assert_eq!(at.id, last.id);
    let ids: Vec<_> = first.api_sessions.iter().chain(&second.api_sessions).collect();
    assert!(ids.is_sorted_by_key(|it| &it.id));
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
    policy(&net, &["#all"], &["#all"]).await;
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
        controller.kernel().online().identity(id, controller.kernel().now())
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
