//! Logins, enrollment and certificates.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use weft_auth::admission::Sender;
use weft_auth::sessions::SessionNotice;
use weft_contract::{Api, ErrorCode};
use weft_identity::Certificate;
use weft_identity::token::{Expect, verify_with_certificate};
use weft_kernel::clock::system_time;

use crate::testing::{Bed, NOW, PASSWORD, USERNAME, csr, to};
use crate::{Caller, Challenge, Origin, Who};

#[tokio::test]
async fn passwords_log_in_and_nothing_else_does() {
    let bed = Bed::new().await;
    let admin = bed.login(USERNAME, PASSWORD).await.unwrap();
    assert!(admin.is_admin());
    for (name, password) in [(USERNAME, "falsch"), ("nobody", PASSWORD)] {
        let failure = bed.login(name, password).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::InvalidAuth);
        assert_eq!(failure.cause(), None);
    }
    let unknown = bed.with_token("5d1d7c4e-0000-4000-8000-000000000000");
    assert!(matches!(unknown.who, Who::Nobody(Some(Challenge::InvalidSession))));
    let nobody = Caller::nobody(Origin::default());
    let failure = bed.manage(&nobody, "listIdentities", &[], Value::Null).await.unwrap_err();
    assert!(failure.challenge().unwrap().starts_with("zt-session realm"));
    let call = to(Api::Client, "authenticate", &[]).with_query("method", "charm");
    let failure = bed.controller.call(nobody, call).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::InvalidAuthMethod);
}

#[tokio::test]
async fn sessions_end_without_activity_and_survive_a_restart() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let token = admin.login().unwrap().session.token.clone();
    bed.clock.advance(Duration::from_secs(29 * 60));
    assert!(bed.with_token(&token).is_admin());
    bed.clock.advance(Duration::from_secs(29 * 60));
    bed.controller.auth().sessions().sweep(bed.controller.kernel().now());
    let again = bed.restarted().await;
    assert!(again.with_token(&token).is_admin(), "activity was stored, the session loaded");
    again.clock.advance(Duration::from_secs(31 * 60));
    assert!(!again.with_token(&token).is_admin());
    again
        .controller
        .auth()
        .sessions()
        .end_due(&again.controller.kernel().snapshot(), again.controller.kernel().now());
    assert!(again.controller.auth().sessions().all().is_empty());
}

#[tokio::test]
async fn activity_is_stored_also_when_the_clock_was_set_back() {
    const MINUTE: Duration = Duration::from_secs(60);
    let bed = Bed::new().await;
    bed.clock.turn_back(20 * MINUTE);
    let token = bed.admin().await.login().unwrap().session.token.clone();
    bed.clock.advance(15 * MINUTE);
    assert!(bed.with_token(&token).is_admin());
    bed.controller.auth().sessions().sweep(bed.controller.kernel().now());
    // The clock of the restarted controller is 5 minutes later.
    let again = bed.restarted().await;
    again.clock.advance(12 * MINUTE);
    assert!(again.with_token(&token).is_admin(), "17 minutes without activity, 32 since the login");
}

#[tokio::test]
async fn an_ott_ticket_works_once_and_its_certificate_logs_in() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "laptop", "type": "Default", "isAdmin": false,
        "enrollment": {"ott": true}});
    let id = bed.create(&admin, "createIdentity", body).await;
    let identity = bed.manage(&admin, "detailIdentity", &[&id], Value::Null).await.unwrap();
    let ott = &identity["enrollment"]["ott"];
    let jwt = ott["jwt"].as_str().unwrap();
    let leaf = bed.controller.auth().keys().enrollment.leaf().clone();
    let claims: Value =
        verify_with_certificate(jwt, &leaf, &Expect::unexpired(system_time(NOW))).unwrap();
    assert_eq!(claims["iss"], "https://ctrl.example:1280");
    assert_eq!(claims["sub"], id.as_str());
    assert_eq!((&claims["em"], &claims["aud"]), (&json!("ott"), &json!([""])));
    assert_eq!(claims["jti"], ott["token"]);
    assert_eq!(claims["ctrls"], json!(["tls:ctrl.example:6262"]));
    assert_eq!(claims["exp"], NOW.plus(Duration::from_secs(180 * 60)).secs());

    let token = ott["token"].as_str().unwrap();
    for csr in ["", "-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"] {
        let call =
            to(Api::Client, "enrollOtt", &[]).with_json(&json!({"token": token, "clientCsr": csr}));
        let failure = bed.controller.call(Caller::nobody(Origin::default()), call).await;
        assert_eq!(failure.unwrap_err().code(), ErrorCode::CouldNotProcessCsr);
    }
    let chain = bed.use_ott(token, &id).await.unwrap();
    assert_eq!(chain.len(), 2, "leaf and intermediate");
    let spiffe: Vec<_> = chain[0].spiffe_uris().collect();
    assert_eq!(spiffe, [format!("spiffe://weft.test/identity/{id}")]);
    let failure = bed.use_ott(token, &id).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::InvalidEnrollmentToken);

    let reply = bed.login_with(&chain).await.unwrap();
    let data = reply.data();
    assert_eq!(data["identity"]["name"], "laptop");
    assert_eq!((&data["isCertExtendable"], &data["authQueries"]), (&json!(true), &json!([])));
    assert_eq!(data["expirationSeconds"], 1800);
    assert_eq!(data.get("improperClientCertChain"), None);
    assert_eq!(reply.headers[0].0, "zt-session");
    let short = bed.login_with(&chain[..1]).await.unwrap().data();
    assert_eq!(short["improperClientCertChain"], true);
}

#[tokio::test]
async fn an_authenticator_says_whether_its_chain_was_complete() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (_, chain) = bed.enroll(&admin, "laptop").await;
    let login = async |chain: &[Certificate]| {
        let data = bed.login_with(chain).await.unwrap().data();
        let me = bed.with_token(data["token"].as_str().unwrap());
        let own = bed.client(&me, "listCurrentIdentityAuthenticators", &[], Value::Null).await;
        own.unwrap()[0].clone()
    };
    let short = login(&chain[..1]).await;
    assert_eq!(short["lastAuthResolvedToRoot"], false);
    bed.clock.advance(Duration::from_secs(1));
    let whole = login(&chain).await;
    assert_eq!(whole["lastAuthResolvedToRoot"], true);
    assert_eq!(whole["certPem"], short["certPem"]);
    assert_eq!(whole["updatedAt"], short["updatedAt"], "a login changes no credential");
    let revision = bed.controller.kernel().snapshot().revision();
    login(&chain).await;
    assert_eq!(bed.controller.kernel().snapshot().revision(), revision, "nothing new to be noted");
    assert_eq!(login(&chain[..1]).await["lastAuthResolvedToRoot"], false);
}

#[tokio::test]
async fn a_login_that_notes_its_chain_tells_routers_nothing_of_the_others() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (id, chain) = bed.enroll(&admin, "laptop").await;
    bed.login_with(&chain[..1]).await.unwrap();
    let mut told = bed.controller.auth().sessions().subscribe();
    bed.login_with(&chain).await.unwrap();
    // The effects of this change come after those of the login.
    bed.manage(&admin, "deleteIdentity", &[&id], Value::Null).await.unwrap();
    loop {
        match told.next().await.unwrap() {
            SessionNotice::Added(_) => {}
            SessionNotice::Removed(_) => break,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn only_ones_own_authenticator_is_extended() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let mut own = Vec::new();
    for name in ["one", "other"] {
        let (_, chain) = bed.enroll(&admin, name).await;
        let data = bed.login_with(&chain).await.unwrap().data();
        let me = bed.with_token(data["token"].as_str().unwrap());
        own.push((me, data["authenticatorId"].as_str().unwrap().to_owned()));
    }
    let me = &own[0].0;
    for (id, code) in [(&*own[1].1, ErrorCode::Unauthorized), ("fake", ErrorCode::NotFound)] {
        for (operation, body) in [
            ("extendCurrentIdentityAuthenticator", json!({"clientCertCsr": "mangled"})),
            ("extendVerifyCurrentIdentityAuthenticator", json!({"clientCert": "mangled"})),
        ] {
            let failure = bed.client(me, operation, &[id], body).await.unwrap_err();
            assert_eq!(failure.code(), code, "{operation} {id}");
        }
    }
}

#[tokio::test]
async fn two_who_use_one_ticket_get_one_certificate() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "laptop", "type": "Default", "isAdmin": false,
        "enrollment": {"ott": true}});
    let id = bed.create(&admin, "createIdentity", body).await;
    let identity = bed.manage(&admin, "detailIdentity", &[&id], Value::Null).await.unwrap();
    let token = identity["enrollment"]["ott"]["token"].as_str().unwrap();
    let (first, second) = tokio::join!(bed.use_ott(token, &id), bed.use_ott(token, &id));
    assert_eq!(u8::from(first.is_ok()) + u8::from(second.is_ok()), 1);
}

#[tokio::test]
async fn tickets_end() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "late", "type": "Default", "isAdmin": false,
        "enrollment": {"ott": true}});
    let id = bed.create(&admin, "createIdentity", body).await;
    let identity = bed.manage(&admin, "detailIdentity", &[&id], Value::Null).await.unwrap();
    let ott = identity["enrollment"]["ott"].clone();
    bed.clock.advance(Duration::from_secs(181 * 60));
    let token = ott["token"].as_str().unwrap();
    let failure = bed.use_ott(token, &id).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::EnrollmentExpired);
    let admin = bed.admin().await;
    let body = json!({"expiresAt": "2026-01-03T00:00:00Z"});
    let enrollment = ott["id"].as_str().unwrap();
    let refreshed = bed.manage(&admin, "refreshEnrollment", &[enrollment], body).await.unwrap();
    assert_eq!(refreshed["id"], ott["id"]);
    let failure = bed.use_ott(token, &id).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::InvalidEnrollmentToken);
}

#[tokio::test]
async fn certificates_of_others_and_disabled_identities_are_refused() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (id, chain) = bed.enroll(&admin, "laptop").await;
    let stranger = Bed::new().await;
    let (_, foreign) = stranger.enroll(&stranger.admin().await, "laptop").await;
    let failure = bed.login_with(&foreign).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::InvalidAuth);
    // A CA certificate behind the leaf proves nothing, and neither does one before it.
    let mut swapped = chain.clone();
    swapped.swap(0, 1);
    assert!(bed.login_with(&swapped).await.is_err());

    let token = bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let token = token.as_str().unwrap();
    let body = json!({"durationMinutes": 10});
    bed.manage(&admin, "disableIdentity", &[&id], body).await.unwrap();
    assert!(bed.with_token(token).login().is_none());
    assert!(bed.login_with(&chain).await.is_err());
    bed.clock.advance(Duration::from_secs(11 * 60));
    assert!(bed.login_with(&chain).await.is_ok());
}

#[tokio::test]
async fn an_expired_certificate_is_up_to_the_policy() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (_, chain) = bed.enroll(&admin, "laptop").await;
    bed.clock.advance(Duration::from_secs(400 * 24 * 3600));
    assert!(bed.login_with(&chain).await.is_ok(), "the default policy allows it");
}

#[tokio::test]
async fn routers_enroll_under_their_own_name_only() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let id = bed.create(&admin, "createEdgeRouter", json!({"name": "er1"})).await;
    let router = bed.manage(&admin, "detailEdgeRouter", &[&id], Value::Null).await.unwrap();
    assert_eq!(router["isVerified"], false);
    let token = router["enrollmentToken"].as_str().unwrap();
    let with = |client: &str, server: &str| {
        let call = to(Api::Client, "enroll", &[])
            .with_query("method", "erott")
            .with_query("token", token)
            .with_json(&json!({"certCsr": client, "serverCertCsr": server}));
        bed.controller.call(Caller::nobody(Origin::default()), call)
    };
    let enroll = async |name: &str| with(&csr(name), &csr(name)).await;
    let failure = enroll("er2").await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::CouldNotProcessCsr);
    let cause = failure.cause().unwrap().code.clone();
    assert_eq!(cause.as_deref(), Some("EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID"));
    for (client, server, code) in [
        ("", &*csr(&id), ErrorCode::MissingOrInvalidCsr),
        (&csr(&id), " ", ErrorCode::MissingOrInvalidCsr),
        ("x", &csr(&id), ErrorCode::CouldNotProcessCsr),
        (&csr(&id), "x", ErrorCode::CouldNotProcessCsr),
    ] {
        assert_eq!(with(client, server).await.unwrap_err().code(), code);
    }
    let data = enroll(&id).await.unwrap().data();
    let members: Vec<_> = data.as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, ["ca", "cert", "serverCert"]);
    let cert = weft_identity::Certificate::from_pem(data["cert"].as_str().unwrap().as_bytes());
    let fingerprint = cert.unwrap()[0].fingerprint().to_owned();
    let found = bed.controller.kernel().router_by_fingerprint(&fingerprint).unwrap();
    assert!(found.is_verified);
    bed.manage(&admin, "reEnrollEdgeRouter", &[&id], Value::Null).await.unwrap();
    assert!(bed.controller.kernel().router_by_fingerprint(&fingerprint).is_none());
    let router = bed.manage(&admin, "detailEdgeRouter", &[&id], Value::Null).await.unwrap();
    assert_ne!(router["enrollmentToken"].as_str().unwrap(), token);
}

#[tokio::test]
async fn transit_routers_are_given_their_name() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let id = bed.create(&admin, "createTransitRouter", json!({"name": "tr1"})).await;
    let router = bed.manage(&admin, "detailTransitRouter", &[&id], Value::Null).await.unwrap();
    let enroll = |client: &str| {
        let call = to(Api::Client, "enroll", &[])
            .with_query("method", "trott")
            .with_query("token", router["enrollmentToken"].as_str().unwrap())
            .with_json(&json!({"certCsr": client, "serverCertCsr": csr("whoever")}));
        bed.controller.call(Caller::nobody(Origin::default()), call)
    };
    assert_eq!(enroll("").await.unwrap_err().code(), ErrorCode::CouldNotProcessCsr);
    let data = enroll(&csr("whoever")).await.unwrap().data();
    let cert = data["cert"].as_str().unwrap().as_bytes();
    let cert = &weft_identity::Certificate::from_pem(cert).unwrap()[0];
    assert_eq!(cert.common_name(), Some(id.as_str()));
    let found = bed.controller.kernel().router_by_fingerprint(cert.fingerprint()).unwrap();
    assert!(found.is_verified && found.base.id.as_str() == id);
}

#[tokio::test]
async fn the_public_keys_are_those_of_tokens_the_own_certificate_and_the_roots() {
    let bed = Bed::new().await;
    let keys = bed.controller.auth().public_keys();
    let leaf = bed.controller.auth().keys().session.leaf().fingerprint().to_owned();
    let (of_tokens, others) = keys.split_at(2);
    assert!(of_tokens.iter().all(|key| key.for_tokens && !key.for_clients && !key.is_certificate));
    assert_eq!(others.len(), 2);
    assert!(others.iter().all(|key| !key.for_tokens && key.for_clients && key.is_certificate));
    assert_eq!(others[0].kid, leaf);
}

#[tokio::test]
async fn logins_beyond_the_limit_are_asked_to_come_back() {
    let bed = Bed::with(|settings| settings.logins.longest_wait = Duration::ZERO).await;
    let admin = bed.admin().await;
    let (_, chain) = bed.enroll(&admin, "laptop").await;
    let program = Sender::of(&Caller::system());
    let admission = bed.controller.auth().admission();
    let mut places = Vec::new();
    while let Ok(place) = admission.enter(program, "", Instant::now(), || false).await {
        places.push(place);
    }
    assert_eq!(places.len(), 250, "the documented default");
    let failure = bed.login_with(&chain).await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (429, ErrorCode::ServerTooManyRequests));
    let failure = bed.login("nobody", "falsch").await.unwrap_err();
    assert_eq!(failure.status(), 429);
    // A certificate that is nobody's does not use up the administrator's turn by a name.
    let origin = Origin { certificates: chain.clone(), ..Origin::default() };
    let call = to(Api::Client, "authenticate", &[])
        .with_query("method", "cert")
        .with_json(&json!({"username": USERNAME}));
    let failure = bed.controller.call(Caller::nobody(origin), call).await.unwrap_err();
    assert_eq!(failure.status(), 429);
    bed.login(USERNAME, PASSWORD).await.unwrap();
    assert_eq!(bed.login(USERNAME, PASSWORD).await.unwrap_err().status(), 429);
    assert!(bed.manage(&admin, "listIdentities", &[], Value::Null).await.is_ok());
    drop(places);
    bed.login_with(&chain).await.unwrap();
}
