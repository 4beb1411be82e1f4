//! Sessions, tokens, certificates, decisions.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use weft_channel::Lane;
use weft_identity::{KeyPurpose, KeyedChain, San, SpiffeId};
use weft_wire::edge_ctrl::data_model::{
    PolicyType, RelatedEntityType, Revocation, SubscribeToDataModelRequest, revocation_type,
};
use weft_wire::edge_ctrl::{
    ApiSessionAdded, ApiSessionRemoved, EncodedApiSession, SessionRemoved, SyncState, content_type,
};
use weft_wire::{ProtoBody, controller_capability};

use super::events;
use super::support::{LONG, Network, api_session, capable, later, soon, until};
use crate::access::AccessHalf;
use crate::seam::{Access, AccessEvent, ApiSession, Release, Use};

/// How long the router of a test waits for keys and sessions that do not arrive.
const SHORT: Duration = Duration::from_millis(200);

fn chain(of: &KeyedChain) -> Vec<Bytes> {
    of.chain().iter().map(|one| Bytes::copy_from_slice(one.der())).collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// A network whose router knows a key, alice, a service, and that alice may dial it.
async fn network() -> (Network, String, AccessHalf) {
    network_waiting(LONG).await
}

/// A network whose router waits for `lookup_timeout` for unknown keys and sessions.
async fn network_waiting(lookup_timeout: Duration) -> (Network, String, AccessHalf) {
    let mut network = Network::waiting(lookup_timeout).await;
    let mut all = vec![
        events::new_identity("alice"),
        events::new_service("web"),
        events::new_service("other"),
    ];
    all.extend(events::policy("p1", PolicyType::Dial, "alice", "web"));
    all.push(events::key(network.pki.signer.leaf()));
    all.push(events::key(network.pki.root()));
    let id = network.peer.give_model(all, 10).await;
    network.router.online().await;
    let access = network.router.access.clone();
    (network, id, access)
}

fn access_claims(fingerprint: &str) -> Value {
    json!({
        "sub": "alice", "jti": "j1", "z_asid": "as1", "z_cfs": [fingerprint], "z_t": "a",
        "aud": ["openziti"], "iat": now() - 5, "exp": now() + 600, "z_ct": null, "amr": null,
    })
}

fn service_claims(service: &str, kind: &str) -> Value {
    json!({
        "sub": service, "jti": "ss1", "z_asid": "as1", "z_iid": "alice", "z_t": "s", "z_st": kind,
        "aud": ["openziti"], "iat": now(), "exp": now() + 600, "z_leg": false,
    })
}

async fn log_in(network: &Network, access: &AccessHalf) -> (Arc<ApiSession>, KeyedChain) {
    let client = network.pki.leaf("alice", &[], KeyPurpose::Client);
    let token = network.pki.tokens().sign(&access_claims(client.leaf().fingerprint())).unwrap();
    let session = soon(access.authenticate(token.into(), chain(&client))).await.unwrap();
    (session, client)
}

async fn next(events: &mut BoxStream<'static, AccessEvent>) -> AccessEvent {
    soon(events.next()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_says_much_is_read_later_and_nothing_is_lost() {
    const COUNT: usize = 3000;
    let mut network = Network::new().await;
    let access = network.router.access.clone();
    network.peer.give_model(vec![], 10).await;
    network.router.online().await;
    let client = network.pki.leaf("alice", &[], KeyPurpose::Client);
    let fingerprint = client.leaf().fingerprint().to_owned();
    let channel = network.peer.channel.clone();
    // The worker is busy while all these messages come.
    let busy = access.hold_up().await;
    let saying = tokio::spawn(async move {
        for n in 0..COUNT {
            let api_sessions = vec![api_session(&format!("s{n}"), "alice", &fingerprint)];
            let added = ApiSessionAdded { is_full_state: false, api_sessions }.to_message();
            channel.send_timeout(Lane::Default, added, LONG).await.unwrap();
        }
    });
    until(|| access.waiting() == 1000).await;
    drop(busy);
    soon(saying).await.unwrap();
    for n in (0..COUNT).rev().step_by(60) {
        let session = access.authenticate(format!("token-s{n}").into(), chain(&client));
        assert_eq!(soon(session).await.unwrap().id, format!("s{n}"));
    }
    assert!(!network.peer.has(content_type::REQUEST_CLIENT_RE_SYNC));
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opaque_sessions_are_announced_used_and_ended() {
    let mut network = Network::new().await;
    let access = network.router.access.clone();
    let mut events = access.events();
    network.peer.give_model(vec![], 10).await;
    let client = network.pki.leaf("alice", &[], KeyPurpose::Client);
    // The SDK is faster than the announcement.
    let waiting = tokio::spawn(access.authenticate("token-s1".into(), chain(&client)));
    let announced = |client: &KeyedChain| {
        EncodedApiSession::from(&api_session("s1", "alice", client.leaf().fingerprint()))
    };
    let state = SyncState { id: "run1".into(), is_last: true, sequence: 0 };
    network.peer.send(EncodedApiSession::added(true, &[announced(&client)], &state)).await;
    let session = soon(waiting).await.unwrap().unwrap();
    assert!(session.legacy);
    assert_eq!(
        (session.identity.as_str(), session.controller.as_deref()),
        ("alice", Some("ctrl1"))
    );
    let again = soon(access.authenticate("token-s1".into(), chain(&client))).await.unwrap();
    assert!(Arc::ptr_eq(&session, &again), "one session, one value");

    let stranger = network.pki.leaf("mallory", &[], KeyPurpose::Client);
    let refusal = soon(access.authenticate("token-s1".into(), chain(&stranger))).await.unwrap_err();
    assert_eq!(refusal.code, 2);
    network.peer.send(EncodedApiSession::updated([&announced(&stranger)])).await;
    until(|| {
        use futures::FutureExt;
        access
            .authenticate("token-s1".into(), chain(&stranger))
            .now_or_never()
            .is_some_and(|r| r.is_ok())
    })
    .await;

    let told = AccessEvent::SessionsTold { controller: "ctrl1".into() };
    assert_eq!(next(&mut events).await, told);

    let removed = ApiSessionRemoved { tokens: vec!["token-s1".into()], ids: vec![] };
    network.peer.send(removed.to_message()).await;
    assert_eq!(next(&mut events).await, AccessEvent::SessionEnded { session: "s1".into() });
    assert!(!access.stands(&session), "for those that missed the event");
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_sessions_are_judged_here() {
    let (network, id, access) = network().await;
    let mut events = access.events();
    let (session, client) = log_in(&network, &access).await;
    assert_eq!((session.legacy, session.identity_name.as_deref()), (false, Some("alice name")));
    assert!(access.admits(&chain(&client)));

    let tokens = network.pki.tokens();
    let sign = |claims: &Value| tokens.sign(claims).unwrap();
    let dial = sign(&service_claims("web", "Dial"));
    let grant = access.judge(&session, dial.as_bytes(), Use::Dial).unwrap();
    assert_eq!((grant.service.as_str(), grant.service_session.as_str()), ("web", "ss1"));
    let code =
        |token: &str, purpose| access.judge(&session, token.as_bytes(), purpose).unwrap_err().code;
    assert_eq!(code(&dial, Use::Bind), 4, "wrong kind");
    assert_eq!(code(&sign(&service_claims("other", "Dial")), Use::Dial), 14, "no policy");
    let mut foreign = service_claims("web", "Dial");
    foreign["z_asid"] = "as2".into();
    assert_eq!(code(&sign(&foreign), Use::Dial), 3);
    let mut stolen = service_claims("web", "Dial");
    stolen["z_iid"] = "bob".into();
    assert_eq!(code(&sign(&stolen), Use::Dial), 3);
    assert_eq!(code("nonsense", Use::Dial), 6);
    assert_eq!(code("eyJub25zZW5zZSJ9", Use::Dial), 3);
    assert!(access.judge(&session, b"web", Use::Dial).is_ok(), "a service named outright");

    let gone = events::members("p1", RelatedEntityType::Identity, &["alice"], false);
    network.peer.change(&id, 10, 11, vec![gone]).await;
    let lost =
        AccessEvent::Lost { identity: "alice".into(), service: "web".into(), purpose: Use::Dial };
    assert_eq!(next(&mut events).await, lost);
    assert_eq!(code(&dial, Use::Dial), 14);

    // The other one is of an SDK of another router.
    let ids = vec!["ss2".to_owned(), "ss1".to_owned()];
    let removed = SessionRemoved { tokens: ids.clone(), ids };
    network.peer.send(removed.to_message()).await;
    let ended = AccessEvent::ServiceSessionsEnded {
        session: "as1".into(),
        service_sessions: ["ss1".to_owned()].into(),
    };
    assert_eq!(next(&mut events).await, ended);
    assert_eq!(code(&dial, Use::Dial), 3, "ended");
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn posture_is_judged_by_controllers_of_weft_and_fails_where_nobody_judges_it() {
    let (mut network, id, access) = network().await;
    let (session, _) = log_in(&network, &access).await;
    let mut checked = events::policy("p2", PolicyType::Dial, "alice", "other");
    checked.push(events::posture_check("c1"));
    checked.push(events::members("p2", RelatedEntityType::PostureCheck, &["c1"], true));
    network.peer.change(&id, 10, 11, checked).await;
    let dial = network.pki.tokens().sign(&service_claims("other", "Dial")).unwrap();
    let judged = || access.judge(&session, dial.as_bytes(), Use::Dial);
    // The controller is not of weft: it leaves the checks of such sessions to routers.
    until(|| judged().is_err_and(|it| it.code == 15 && it.failing_checks == ["c1"])).await;
    network.restart_controller(capable().with(controller_capability::ADOPTS_CIRCUITS)).await;
    until(|| judged().is_ok()).await;

    // Nor is the grant lost when the model changes for another reason.
    let web = network.pki.tokens().sign(&service_claims("web", "Dial")).unwrap();
    assert!(access.judge(&session, web.as_bytes(), Use::Dial).is_ok());
    let mut told = access.events();
    let id = network.peer.get::<SubscribeToDataModelRequest>().await.subscription_id;
    let renamed = events::create(events::Model::Service(events::service("other")));
    let gone = |policy| events::members(policy, RelatedEntityType::Identity, &["alice"], false);
    for (index, change) in [(11, renamed), (12, gone("p1")), (13, gone("p2"))] {
        network.peer.change(&id, index, index + 1, vec![change]).await;
    }
    for service in ["web", "other"] {
        let (identity, service) = ("alice".to_owned(), service.to_owned());
        let lost = AccessEvent::Lost { identity, service, purpose: Use::Dial };
        assert_eq!(next(&mut told).await, lost);
    }
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_disabled_and_renewed() {
    let (network, id, access) = network().await;
    let mut events = access.events();
    let (session, client) = log_in(&network, &access).await;
    let mut newer = access_claims(client.leaf().fingerprint());
    newer["exp"] = (now() + 6000).into();
    newer["jti"] = "j2".into();
    let tokens = network.pki.tokens();
    let token = tokens.sign(&newer).unwrap();
    let renewed = access.renew(&session, token.clone().into()).unwrap();
    assert_eq!((renewed.id.as_str(), renewed.token.as_str()), ("as1", token.as_str()));
    newer["z_asid"] = "as2".into();
    assert_eq!(access.renew(&session, tokens.sign(&newer).unwrap().into()).unwrap_err().code, 2);
    assert_eq!(access.renew(&session, "opaque".into()).unwrap_err().code, 12);

    assert!(access.stands(&session) && access.stands(&renewed));
    let revocation = Revocation {
        id: "as1".into(),
        r#type: revocation_type::API_SESSION.into(),
        ..Revocation::default()
    };
    let revoked = events::create(events::Model::Revocation(revocation));
    network.peer.change(&id, 10, 11, vec![revoked]).await;
    assert_eq!(next(&mut events).await, AccessEvent::SessionEnded { session: "as1".into() });
    assert!(!access.stands(&session) && !access.stands(&renewed));
    let again = soon(access.authenticate(renewed.token.clone().into(), chain(&client))).await;
    assert_eq!(again.unwrap_err().message, "the session is revoked");

    let mut disabled = events::identity("alice");
    disabled.disabled = true;
    network.peer.change(&id, 11, 12, vec![events::create(events::Model::Identity(disabled))]).await;
    assert_eq!(next(&mut events).await, AccessEvent::IdentityGone { identity: "alice".into() });
    network.router.control.shutdown().await;
}

#[tokio::test]
async fn a_session_ends_with_its_token() {
    let (network, _, access) = network().await;
    let mut events = access.events();
    let (session, client) = log_in(&network, &access).await;
    assert!(access.stands(&session));
    later(Duration::from_secs(601)).await;
    assert_eq!(next(&mut events).await, AccessEvent::SessionEnded { session: "as1".into() });
    assert!(!access.stands(&session));
    // A grant that is asked for now would be left behind.
    assert_eq!(access.judge(&session, b"web", Use::Dial).unwrap_err().code, 3);
    let again = soon(access.authenticate(session.token.clone().into(), chain(&client))).await;
    assert_eq!(again.unwrap_err().code, 2);
    network.router.control.shutdown().await;
}

#[tokio::test]
async fn what_a_session_used_is_forgotten_once_no_connection_holds_it() {
    let (network, id, access) = network().await;
    let mut events = access.events();
    let (session, _) = log_in(&network, &access).await;
    let dial = network.pki.tokens().sign(&service_claims("web", "Dial")).unwrap();
    access.judge(&session, dial.as_bytes(), Use::Dial).unwrap();
    let same = ApiSession {
        id: session.id.clone(),
        token: String::new(),
        identity: session.identity.clone(),
        identity_name: None,
        legacy: false,
        controller: None,
        fingerprints: Vec::new(),
        release: Release::default(),
    };
    drop(session);
    assert!(access.stands(&same));
    later(Duration::from_secs(6)).await;
    until(|| !access.stands(&same)).await;
    // Nobody hears that the access is lost, or that the service session has ended.
    let gone = events::members("p1", RelatedEntityType::Identity, &["alice"], false);
    network.peer.change(&id, 10, 11, vec![gone]).await;
    let ids = vec!["ss1".to_owned()];
    network.peer.send(SessionRemoved { tokens: ids.clone(), ids }.to_message()).await;
    let mut disabled = events::identity("alice");
    disabled.disabled = true;
    network.peer.change(&id, 11, 12, vec![events::create(events::Model::Identity(disabled))]).await;
    assert_eq!(next(&mut events).await, AccessEvent::IdentityGone { identity: "alice".into() });
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_stands_no_longer_than_its_identity() {
    let (network, id, access) = network().await;
    let (session, _) = log_in(&network, &access).await;
    assert!(access.stands(&session));
    let mut disabled = events::identity("alice");
    disabled.disabled = true;
    network.peer.change(&id, 10, 11, vec![events::create(events::Model::Identity(disabled))]).await;
    until(|| access.index() == 11).await;
    assert!(!access.stands(&session));
    network.peer.change(&id, 11, 12, vec![events::new_identity("alice")]).await;
    until(|| access.index() == 12).await;
    assert!(access.stands(&session));
    let gone = events::delete(events::Model::Identity(events::identity("alice")));
    network.peer.change(&id, 12, 13, vec![gone]).await;
    until(|| access.index() == 13).await;
    assert!(!access.stands(&session));
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_the_network_name_who_they_are_for() {
    let (network, _, access) = network().await;
    let tokens = network.pki.tokens();
    let token = tokens.sign(&access_claims("another certificate")).unwrap();
    let named = |id: SpiffeId| {
        let sans = [San::Uri(id.to_string())];
        network.pki.leaf("x", &sans, KeyPurpose::Client)
    };
    let of = |client: &KeyedChain| access.authenticate(token.clone().into(), chain(client));
    assert!(soon(of(&named(SpiffeId::identity("t", "alice")))).await.is_ok());
    assert!(soon(of(&named(SpiffeId::api_session("t", "alice", "as1", "c")))).await.is_ok());
    assert!(soon(of(&named(SpiffeId::api_session("t", "alice", "as2", "c")))).await.is_err());
    assert!(soon(of(&named(SpiffeId::identity("t", "bob")))).await.is_err());
    assert!(soon(of(&network.pki.leaf("x", &[], KeyPurpose::Client))).await.is_err());
    let elsewhere = super::support::Pki::new();
    let sans = [San::Uri(SpiffeId::identity("t", "alice").to_string())];
    let foreign = elsewhere.leaf("x", &sans, KeyPurpose::Client);
    assert!(soon(of(&foreign)).await.is_err(), "another network's certificate");
    assert!(!access.admits(&chain(&foreign)) && !access.admits(&[]));
    network.router.control.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_and_expired_tokens_are_refused() {
    let (network, _, access) = network_waiting(SHORT).await;
    let client = network.pki.leaf("alice", &[], KeyPurpose::Client);
    let fingerprint = client.leaf().fingerprint();
    let mut expired = access_claims(fingerprint);
    expired["exp"] = (now() - 1).into();
    let mut refresh = access_claims(fingerprint);
    refresh["z_t"] = "r".into();
    let mut elsewhere = access_claims(fingerprint);
    elsewhere["aud"] = json!(["somebody"]);
    let tokens = network.pki.tokens();
    for claims in [&expired, &refresh, &elsewhere] {
        let token = tokens.sign(claims).unwrap();
        let refusal = soon(access.authenticate(token.into(), chain(&client))).await.unwrap_err();
        assert_eq!(refusal.code, 2, "{refusal}");
    }
    let other = super::support::Pki::new().tokens().sign(&access_claims(fingerprint)).unwrap();
    let began = std::time::Instant::now();
    assert!(soon(access.authenticate(other.into(), chain(&client))).await.is_err());
    assert!(began.elapsed() >= SHORT, "an unknown key may still arrive");
    for token in [&b""[..], b"ey", b"ey.ey.ey", b"\xff\xfe"] {
        let refused = access.authenticate(Bytes::copy_from_slice(token), chain(&client));
        assert!(soon(refused).await.is_err());
    }
    network.router.control.shutdown().await;
}
