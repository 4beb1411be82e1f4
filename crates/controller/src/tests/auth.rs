use std::time::Duration;

use serde_json::{Value, json};
use weft_auth::service_session::RefusalCode;
use weft_auth::sessions::SessionNotice;
use weft_contract::{Api, ErrorCode};
use weft_identity::Certificate;
use weft_identity::token::{Expect, verify_with_certificate};
use weft_kernel::clock::system_time;
use weft_kernel::online::RouterFacts;
use weft_model::Id;
use weft_model::entity::{Identity, PolicyType, Precedence};
use weft_network::terminators::{Refused, ReportedTerminator, Terminators, Update};

use crate::testing::{Bed, NOW, PASSWORD, USERNAME, csr, to, until};
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
    bed.controller.sessions().sweep(bed.controller.now());
    let again = bed.restarted().await;
    assert!(again.with_token(&token).is_admin(), "activity was stored, the session loaded");
    again.clock.advance(Duration::from_secs(31 * 60));
    assert!(!again.with_token(&token).is_admin());
    again.controller.sessions().end_due(&again.controller.snapshot(), again.controller.now());
    assert!(again.controller.sessions().all().is_empty());
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
    let leaf = bed.controller.keys().enrollment.leaf().clone();
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
    assert_ne!(whole["updatedAt"], short["updatedAt"]);
    let revision = bed.controller.snapshot().revision();
    login(&chain).await;
    assert_eq!(bed.controller.snapshot().revision(), revision, "nothing new to be noted");
    assert_eq!(login(&chain[..1]).await["lastAuthResolvedToRoot"], false);
}

#[tokio::test]
async fn a_login_that_notes_its_chain_tells_routers_nothing_of_the_others() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (id, chain) = bed.enroll(&admin, "laptop").await;
    bed.login_with(&chain[..1]).await.unwrap();
    let mut told = bed.controller.sessions().subscribe();
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
    let found = bed.controller.router_by_fingerprint(&fingerprint).unwrap();
    assert!(found.is_verified);
    bed.manage(&admin, "reEnrollEdgeRouter", &[&id], Value::Null).await.unwrap();
    assert!(bed.controller.router_by_fingerprint(&fingerprint).is_none());
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
    let found = bed.controller.router_by_fingerprint(cert.fingerprint()).unwrap();
    assert!(found.is_verified && found.base.id.as_str() == id);
}

/// A service that the caller may dial and host over a connected router.
struct Net {
    service: String,
    router: Id,
    client: Caller,
    chain: Vec<Certificate>,
}

async fn net(bed: &Bed) -> Net {
    let admin = bed.admin().await;
    let router = bed.router(&admin, "er1", json!({})).await;
    let all = json!(["#all"]);
    let service =
        bed.create(&admin, "createService", json!({"name": "web", "encryptionRequired": true}));
    let service = service.await;
    let body = json!({"name": "erp", "semantic": "AnyOf", "identityRoles": all,
        "edgeRouterRoles": all});
    bed.create(&admin, "createEdgeRouterPolicy", body).await;
    let body = json!({"name": "serp", "semantic": "AnyOf", "serviceRoles": all,
        "edgeRouterRoles": all});
    bed.create(&admin, "createServiceEdgeRouterPolicy", body).await;
    for kind in ["Dial", "Bind"] {
        let body = json!({"name": kind, "type": kind, "semantic": "AnyOf",
            "identityRoles": all, "serviceRoles": all});
        bed.create(&admin, "createServicePolicy", body).await;
    }
    let (_, chain) = bed.enroll(&admin, "laptop").await;
    let token = bed.login_with(&chain).await.unwrap().data()["token"].clone();
    Net { service, router, client: bed.with_token(token.as_str().unwrap()), chain }
}

fn facts() -> RouterFacts {
    let address = ("tls".to_owned(), "tls://er1.example:3022".to_owned());
    RouterFacts {
        hostname: "er1.example".into(),
        protocols: [address].into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn service_sessions_carry_a_token_that_routers_can_have_checked() {
    let bed = Bed::new().await;
    let net = net(&bed).await;
    let ask = json!({"serviceId": net.service, "type": "Dial"});
    bed.controller.online().put_router(&net.router, 1, facts());
    let first = bed.client(&net.client, "createSession", &[], ask.clone()).await.unwrap();
    assert_eq!(first["edgeRouters"][0]["urls"]["tls"], "tls://er1.example:3022");
    assert_eq!(first["edgeRouters"][0]["name"], "er1");
    let again = bed.client(&net.client, "createSession", &[], ask).await.unwrap();
    assert_eq!(first["id"], again["id"]);

    let api_token = &net.client.login().unwrap().session.token;
    let token = first["token"].as_str().unwrap();
    let check = |token: &str, wanted| {
        bed.controller.check_service_session(&net.router, api_token, token, wanted)
    };
    let checked = check(token, PolicyType::Dial).unwrap();
    assert_eq!(checked.service.base.id, net.service.as_str());
    assert_eq!(checked.session, first["id"].as_str().unwrap());
    let code = |result: Result<_, weft_auth::service_session::Refusal>| {
        result.map(|_: weft_auth::service_session::Checked| ()).unwrap_err().code
    };
    assert_eq!(code(check(token, PolicyType::Bind)), RefusalCode::WrongSessionType);
    assert_eq!(code(check("eyJ", PolicyType::Dial)), RefusalCode::InvalidSession);
    // A token that another network signed with the same key is refused.
    let (_, claims): (_, Value) = weft_identity::token::peek(token).unwrap();
    let issued_by = |issuer: &str| {
        let mut claims = claims.clone();
        claims["iss"] = json!(issuer);
        bed.controller.sign(&claims).unwrap()
    };
    let other = issued_by("https://other.example:1280");
    assert_eq!(code(check(&other, PolicyType::Dial)), RefusalCode::InvalidSession);
    let own = issued_by("https://ctrl.example:1280");
    assert!(check(&own, PolicyType::Dial).is_ok());
    let unknown = bed.controller.check_service_session(
        &net.router,
        "5d1d7c4e-0000-4000-8000-000000000000",
        token,
        PolicyType::Dial,
    );
    assert_eq!(code(unknown), RefusalCode::InvalidApiSession);
    let elsewhere =
        bed.controller.check_service_session(&Id::new("other"), api_token, token, PolicyType::Dial);
    assert_eq!(code(elsewhere), RefusalCode::InvalidEdgeRouterForSession);

    // The list has the sessions of all logins of the caller; for an administrator, those of all
    // identities.
    let list = async |who: &Caller| {
        bed.client(who, "listSessions", &[], Value::Null).await.unwrap()[0]["id"].clone()
    };
    let (_, chain) = bed.enroll(&bed.admin().await, "phone").await;
    let phone = bed.login_with(&chain).await.unwrap().data()["token"].clone();
    assert_eq!(list(&bed.with_token(phone.as_str().unwrap())).await, Value::Null);
    let other = bed.login_with(&net.chain).await.unwrap().data()["token"].clone();
    for who in [&net.client, &bed.with_token(other.as_str().unwrap()), &bed.admin().await] {
        assert_eq!(list(who).await, first["id"]);
    }

    let id = first["id"].as_str().unwrap();
    bed.client(&net.client, "deleteSession", &[id], Value::Null).await.unwrap();
    assert_eq!(code(check(token, PolicyType::Dial)), RefusalCode::InvalidSession);
}

#[tokio::test]
async fn clients_see_their_services_and_routers() {
    let bed = Bed::new().await;
    let net = net(&bed).await;
    bed.controller.online().put_router(&net.router, 2, facts());
    let services = bed.client(&net.client, "listServices", &[], Value::Null).await.unwrap();
    assert_eq!(services[0]["permissions"], json!(["Bind", "Dial"]));
    assert_eq!(services[0]["postureQueries"].as_array().unwrap().len(), 2);
    let routers =
        bed.client(&net.client, "getCurrentIdentityEdgeRouters", &[], Value::Null).await.unwrap();
    assert_eq!(routers[0]["supportedProtocols"]["tls"], "tls://er1.example:3022");
    assert_eq!(routers[0]["hostname"], "");
    let own = bed.client(&net.client, "getCurrentIdentity", &[], Value::Null).await.unwrap();
    assert_eq!(own["_links"]["self"]["href"], "./current-identity");
    let body = json!({"csr": csr("x")});
    let made =
        bed.client(&net.client, "createCurrentApiSessionCertificate", &[], body).await.unwrap();
    assert!(made["certificate"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
}

#[tokio::test]
async fn service_updates_move_when_the_services_of_the_caller_change() {
    let bed = Bed::new().await;
    let net = net(&bed).await;
    let ask = || bed.client(&net.client, "listServiceUpdates", &[], Value::Null);
    bed.clock.advance(Duration::from_secs(60));
    let before = ask().await.unwrap();
    let admin = bed.admin().await;
    let body = json!({"name": "renamed"});
    bed.manage(&admin, "patchService", &[&net.service], body).await.unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while ask().await.unwrap() == before {
        assert!(tokio::time::Instant::now() < deadline, "the change was not noticed");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn service_updates_stand_still_when_no_service_of_the_caller_changes() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (id, chain) = bed.enroll(&admin, "laptop").await;
    bed.clock.advance(Duration::from_secs(60));
    let reply = bed.login_with(&chain).await.unwrap();
    let client = bed.with_token(reply.data()["token"].as_str().unwrap());
    let last = || async {
        let said = bed.client(&client, "listServiceUpdates", &[], Value::Null).await.unwrap();
        said["lastChangeAt"].clone()
    };
    let at_login = last().await;
    assert_eq!(at_login, reply.data()["createdAt"], "nothing has changed since the login");
    bed.clock.advance(Duration::from_secs(60));
    let body = json!({"name": "empty", "type": "Dial", "semantic": "AnyOf",
        "identityRoles": ["#all"], "serviceRoles": ["#nothing"]});
    bed.create(&admin, "createServicePolicy", body).await;
    let body = json!({"name": "notebook", "roleAttributes": ["staff"]});
    bed.manage(&admin, "patchIdentity", &[&id], body).await.unwrap();
    // Changes are followed in order: when the last one shows, the others have been applied.
    let other = bed.enroll(&admin, "other").await.0;
    let body = json!({"name": "theirs", "type": "Dial", "semantic": "AnyOf",
        "identityRoles": [format!("@{other}")], "serviceRoles": ["#all"]});
    bed.create(&admin, "createServicePolicy", body).await;
    let body = json!({"name": "echo", "encryptionRequired": true});
    bed.create(&admin, "createService", body).await;
    let ordinal = |id: &str| bed.controller.snapshot().ordinal_of::<Identity>(&Id::new(id));
    let changed = |id: &str| bed.controller.service_changes().last(ordinal(id).unwrap());
    until("the service is noticed", || changed(&other).is_some()).await;
    assert_eq!((changed(&id), last().await), (None, at_login));
}

#[tokio::test]
async fn routers_are_told_of_sessions() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let mut told = bed.controller.sessions().subscribe();
    let (id, chain) = bed.enroll(&admin, "laptop").await;
    let token = bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let session = loop {
        match told.next().await.unwrap() {
            SessionNotice::Added(session) => break session,
            SessionNotice::Updated(_) => {}
            other => panic!("{other:?}"),
        }
    };
    let known = bed.controller.legacy_sessions();
    let known = known.iter().find(|it| it.id == session.base.id).unwrap();
    assert_eq!(known.fingerprints, [chain[0].fingerprint()]);
    assert_eq!(token, known.token.as_ref());
    bed.manage(&admin, "deleteIdentity", &[&id], Value::Null).await.unwrap();
    let ended = loop {
        match told.next().await.unwrap() {
            SessionNotice::Removed(ended) => break ended,
            SessionNotice::Updated(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ended, std::slice::from_ref(&session.base.id));
}

#[tokio::test]
async fn routers_make_change_and_remove_their_terminators() {
    let bed = Bed::new().await;
    let net = net(&bed).await;
    let reported = ReportedTerminator {
        id: Id::new("4f2c2b1e-7a0d-4f6e-9a53-0c2d7b9a6d11"),
        router: net.router.clone(),
        service: Id::new(&net.service),
        binding: "edge".into(),
        address: "4f2c2b1e-7a0d-4f6e-9a53-0c2d7b9a6d11".into(),
        instance_id: String::new(),
        instance_secret: Default::default(),
        peer_data: Default::default(),
        cost: 0,
        precedence: Precedence::Default,
        host: Id::new(net.client.identity().unwrap()),
    };
    Terminators::of(&bed.controller).put(reported.clone()).await.unwrap();
    Terminators::of(&bed.controller).put(reported.clone()).await.unwrap();
    let other = ReportedTerminator { host: Id::new("x"), ..reported.clone() };
    let refused = Terminators::of(&bed.controller).put(other).await.unwrap_err();
    assert!(matches!(refused, Refused::Conflict(_)));
    let update = Update { cost: Some(7), precedence: Some(Precedence::Failed) };
    Terminators::of(&bed.controller).update(&net.router, &reported.id, update).await.unwrap();
    let seen = bed.list(&bed.admin().await, "listTerminators", "service.name = \"web\"").await;
    assert_eq!((&seen[0]["cost"], &seen[0]["precedence"]), (&json!(7), &json!("failed")));
    let stranger = Id::new("stranger");
    let ids = [reported.id.clone()];
    Terminators::of(&bed.controller).remove(&stranger, &ids).await.unwrap();
    assert!(bed.controller.snapshot().contains(weft_model::Kind::Terminator, &ids[0]));
    Terminators::of(&bed.controller).remove(&net.router, &ids).await.unwrap();
    assert!(!bed.controller.snapshot().contains(weft_model::Kind::Terminator, &ids[0]));
}

#[tokio::test]
async fn the_public_keys_are_the_signer_and_the_roots() {
    let bed = Bed::new().await;
    let keys = bed.controller.public_keys();
    let leaf = bed.controller.keys().session.leaf().fingerprint().to_owned();
    assert_eq!(keys.len(), 2);
    assert!(keys[0].for_tokens && keys[0].for_clients && keys[0].kid == leaf);
    assert!(!keys[1].for_tokens && keys[1].for_clients);
}

#[tokio::test]
async fn logins_beyond_the_limit_are_asked_to_come_back() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (_, chain) = bed.enroll(&admin, "laptop").await;
    let enter = || bed.controller.admission().enter(|| false);
    let places: Vec<_> = std::iter::from_fn(|| enter().ok()).collect();
    assert_eq!(places.len(), 250, "the documented default");
    let failure = bed.login_with(&chain).await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (429, ErrorCode::ServerTooManyRequests));
    let failure = bed.login("nobody", "falsch").await.unwrap_err();
    assert_eq!(failure.status(), 429);
    bed.login(USERNAME, PASSWORD).await.unwrap();
    assert_eq!(bed.login(USERNAME, PASSWORD).await.unwrap_err().status(), 429);
    assert!(bed.manage(&admin, "listIdentities", &[], Value::Null).await.is_ok());
    drop(places);
    bed.login_with(&chain).await.unwrap();
}

#[tokio::test]
async fn nothing_is_signed_for_whoever_does_not_see_it() {
    let bed = Bed::new().await;
    let net = net(&bed).await;
    let admin = bed.admin().await;
    bed.controller.online().put_router(&net.router, 1, facts());
    let ask = json!({"serviceId": net.service, "type": "Dial"});
    bed.client(&net.client, "createSession", &[], ask).await.unwrap();
    let body = json!({"name": "new", "type": "Default", "isAdmin": false,
        "enrollment": {"ott": true}});
    bed.create(&admin, "createIdentity", body).await;
    for (name, permission) in [("auditor", "admin_readonly"), ("reader", "identity.read")] {
        let body = json!({"name": name, "type": "Default", "isAdmin": false,
            "permissions": [permission]});
        let id = bed.create(&admin, "createIdentity", body).await;
        let body =
            json!({"identityId": id, "method": "updb", "username": name, "password": "geheimnis"});
        bed.create(&admin, "createAuthenticator", body).await;
    }
    let signed = || weft_auth::signing::SIGNED.with(std::cell::Cell::get);
    let auditor = bed.login("auditor", "geheimnis").await.unwrap();
    let reader = bed.login("reader", "geheimnis").await.unwrap();
    let before = signed();
    let sessions = bed.list(&auditor, "listSessions", "").await;
    assert_eq!((sessions.len(), &sessions[0]["token"]), (1, &json!("")));
    let found = bed.list(&reader, "listIdentities", "name=\"new\"").await;
    assert_eq!(found[0]["enrollment"]["ott"]["jwt"], "");
    assert_eq!(signed(), before);
    let sessions = bed.list(&admin, "listSessions", "").await;
    assert_ne!(sessions[0]["token"], "");
    assert_eq!(signed(), before + 1);
}
