//! What a client has once it is logged in: its services and routers, service sessions, terminators.

use std::time::Duration;

use serde_json::{Value, json};
use weft_auth::posture::viewer::evaluated;
use weft_auth::service_session::RefusalCode;
use weft_auth::sessions::SessionNotice;
use weft_contract::{Api, ErrorCode, headers};
use weft_identity::Certificate;
use weft_kernel::online::RouterFacts;
use weft_model::entity::{Identity, PolicyType, Precedence, ServiceSession};
use weft_model::{Base, Id};
use weft_network::terminators::{Refused, ReportedTerminator, TerminatorPatch, Terminators};

use crate::Caller;
use crate::testing::{Bed, NOW, csr, to, until};

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
    bed.controller.kernel().online().put_router(&net.router, 1, facts());
    let first = bed.client(&net.client, "createSession", &[], ask.clone()).await.unwrap();
    assert_eq!(first["edgeRouters"][0]["urls"]["tls"], "tls://er1.example:3022");
    assert_eq!(first["edgeRouters"][0]["name"], "er1");
    let again = bed.client(&net.client, "createSession", &[], ask).await.unwrap();
    assert_eq!(first["id"], again["id"]);

    let api_token = &net.client.login().unwrap().session.token;
    let token = first["token"].as_str().unwrap();
    let check = |token: &str, wanted| {
        bed.controller.auth().check_service_session(&net.router, api_token, token, wanted)
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
        bed.controller.auth().sign(&claims).unwrap()
    };
    let other = issued_by("https://other.example:1280");
    assert_eq!(code(check(&other, PolicyType::Dial)), RefusalCode::InvalidSession);
    let own = issued_by("https://ctrl.example:1280");
    assert!(check(&own, PolicyType::Dial).is_ok());
    let unknown = bed.controller.auth().check_service_session(
        &net.router,
        "5d1d7c4e-0000-4000-8000-000000000000",
        token,
        PolicyType::Dial,
    );
    assert_eq!(code(unknown), RefusalCode::InvalidApiSession);
    let elsewhere = bed.controller.auth().check_service_session(
        &Id::new("other"),
        api_token,
        token,
        PolicyType::Dial,
    );
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

/// SDKs ask for the routers of a service with the token of their service session, and make a new one when it is refused.
#[tokio::test]
async fn a_service_session_of_a_former_login_is_refused() {
    let bed = Bed::new().await;
    let net = net(&bed).await;
    let ask = json!({"serviceId": net.service, "type": "Bind"});
    let made = bed.client(&net.client, "createSession", &[], ask.clone()).await.unwrap();
    let token = made["token"].as_str().unwrap().to_owned();
    let routers = async |who: &Caller, token: &str| {
        let mut call = to(Api::Client, "listServiceEdgeRouters", &[&net.service]);
        call.headers.push((headers::SESSION_TOKEN.to_owned(), token.to_owned()));
        bed.controller.call(who.clone(), call).await.map(drop).map_err(|failure| failure.code())
    };
    assert_eq!(routers(&net.client, &token).await, Ok(()));
    assert_eq!(routers(&net.client, "").await, Ok(()));
    assert_eq!(routers(&net.client, "eyJ").await, Err(ErrorCode::Unauthorized));
    let api_token = &net.client.login().unwrap().session.token;
    assert_eq!(routers(&net.client, api_token).await, Err(ErrorCode::Unauthorized));

    bed.client(&net.client, "deleteCurrentAPISession", &[], Value::Null).await.unwrap();
    let again = bed.login_with(&net.chain).await.unwrap().data()["token"].clone();
    let again = bed.with_token(again.as_str().unwrap());
    assert_eq!(routers(&again, &token).await, Err(ErrorCode::Unauthorized));
    let next = bed.client(&again, "createSession", &[], ask).await.unwrap();
    assert_eq!(routers(&again, next["token"].as_str().unwrap()).await, Ok(()));
}

#[tokio::test]
async fn clients_see_their_services_and_routers() {
    let bed = Bed::new().await;
    let net = net(&bed).await;
    bed.controller.kernel().online().put_router(&net.router, 2, facts());
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
    let ordinal =
        |id: &str| bed.controller.kernel().snapshot().ordinal_of::<Identity>(&Id::new(id));
    let changed = |id: &str| bed.controller.auth().service_changes().last(ordinal(id).unwrap());
    until("the service is noticed", || changed(&other).is_some()).await;
    assert_eq!((changed(&id), last().await), (None, at_login));
}

#[tokio::test]
async fn routers_are_told_of_sessions() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let mut told = bed.controller.auth().sessions().subscribe();
    let (id, chain) = bed.enroll(&admin, "laptop").await;
    let token = bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let session = loop {
        match told.next().await.unwrap() {
            SessionNotice::Added(session) => break session,
            SessionNotice::Updated(_) => {}
            other => panic!("{other:?}"),
        }
    };
    let known = bed.controller.auth().legacy_sessions();
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
        host_proves: false,
    };
    Terminators::of(bed.controller.kernel()).put(reported.clone()).await.unwrap();
    Terminators::of(bed.controller.kernel()).put(reported.clone()).await.unwrap();
    let other = ReportedTerminator { host: Id::new("x"), ..reported.clone() };
    let refused = Terminators::of(bed.controller.kernel()).put(other).await.unwrap_err();
    assert!(matches!(refused, Refused::Conflict(_)));
    let update = TerminatorPatch { cost: Some(7), precedence: Some(Precedence::Failed) };
    Terminators::of(bed.controller.kernel())
        .update(&net.router, &reported.id, update)
        .await
        .unwrap();
    let seen = bed.list(&bed.admin().await, "listTerminators", "service.name = \"web\"").await;
    assert_eq!((&seen[0]["cost"], &seen[0]["precedence"]), (&json!(7), &json!("failed")));
    let stranger = Id::new("stranger");
    let ids = [reported.id.clone()];
    Terminators::of(bed.controller.kernel()).remove(&stranger, &ids).await.unwrap();
    assert!(bed.controller.kernel().snapshot().contains(weft_model::Kind::Terminator, &ids[0]));
    let terminators = Terminators::of(bed.controller.kernel());
    let remove = || {
        let caller = weft_kernel::Caller::router(&net.router, "remove terminators");
        terminators.remove_if(caller, &net.router, &ids, |_| true)
    };
    let (first, second) = tokio::join!(remove(), remove());
    assert_eq!(first.unwrap() + second.unwrap(), 1, "a terminator is removed once");
    assert!(!bed.controller.kernel().snapshot().contains(weft_model::Kind::Terminator, &ids[0]));
}

#[tokio::test]
async fn nothing_is_signed_for_whoever_does_not_see_it() {
    let bed = Bed::new().await;
    let net = net(&bed).await;
    let admin = bed.admin().await;
    bed.controller.kernel().online().put_router(&net.router, 1, facts());
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

#[tokio::test]
async fn a_list_evaluates_the_policies_of_its_client_once() {
    let bed = Bed::new().await;
    let net = net(&bed).await;
    let admin = bed.admin().await;
    bed.create(&admin, "createPostureCheck", json!({"name": "code", "typeId": "MFA"})).await;
    for name in ["two", "three", "four", "five"] {
        bed.create(&admin, "createService", json!({"name": name, "encryptionRequired": true}))
            .await;
    }
    let before = evaluated();
    let listed = bed.client(&net.client, "listServices", &[], Value::Null).await.unwrap();
    assert_eq!(evaluated() - before, 1);
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 5);
    for service in listed {
        assert_eq!(service["permissions"], json!(["Bind", "Dial"]));
        assert_eq!(service["postureQueries"].as_array().unwrap().len(), 2, "{service}");
    }
}

#[tokio::test]
async fn a_nested_list_of_services_evaluates_the_policies_of_its_caller_once() {
    let bed = Bed::new().await;
    let net = net(&bed).await;
    let admin = bed.admin().await;
    bed.create(&admin, "createService", json!({"name": "two", "encryptionRequired": true})).await;
    let client = net.client.login().unwrap().identity.clone();
    let policy = bed.list(&admin, "listServicePolicies", "").await[0]["id"].clone();
    let parents = [
        ("listIdentityServices", client.as_str()),
        ("listServicePolicyServices", policy.as_str().unwrap()),
    ];
    for (operation, parent) in parents {
        let before = evaluated();
        let listed = bed.manage(&admin, operation, &[parent], Value::Null).await.unwrap();
        assert_eq!(listed.as_array().unwrap().len(), 2, "{operation}");
        assert_eq!(evaluated() - before, 1, "{operation}");
    }
}

#[tokio::test]
async fn opaque_service_tokens_of_the_original_go_on() {
    let bed = Bed::new().await;
    let net = net(&bed).await;
    bed.controller.kernel().online().put_router(&net.router, 1, facts());
    let auth = bed.controller.auth();
    let own = net.client.login().unwrap().session.token.clone();
    let login = auth.sessions().by_token(&own, NOW).unwrap();
    let session = |id: &str, token: &str| ServiceSession {
        base: Base::new(Id::new(id), NOW),
        token: token.into(),
        api_session_id: login.base.id.clone(),
        identity_id: login.identity_id.clone(),
        service_id: Id::new(&net.service),
        session_type: PolicyType::Bind,
    };
    auth.sessions().plant_service(session("old1", "1dcd9b6e-5a4b"));
    let check = |api_token: &str, token: &str, wanted| {
        let checked = auth.check_service_session(&net.router, api_token, token, wanted);
        checked.map(|checked| checked.session.to_string()).map_err(|refusal| refusal.code)
    };
    let own: &str = &own;
    let other = bed.admin().await.login().unwrap().session.token.clone();
    for (api_token, token, wanted, expected) in [
        // Routers before 2.0 leave the token of the API session out.
        ("", "1dcd9b6e-5a4b", PolicyType::Bind, Ok("old1".to_owned())),
        (own, "1dcd9b6e-5a4b", PolicyType::Bind, Ok("old1".to_owned())),
        ("", "1dcd9b6e-5a4b", PolicyType::Dial, Err(RefusalCode::WrongSessionType)),
        (&*other, "1dcd9b6e-5a4b", PolicyType::Bind, Err(RefusalCode::InvalidApiSession)),
        // An id is no secret.
        ("", "old1", PolicyType::Bind, Err(RefusalCode::InvalidApiSession)),
        (own, "old1", PolicyType::Bind, Err(RefusalCode::InvalidSession)),
        ("", "", PolicyType::Bind, Err(RefusalCode::InvalidApiSession)),
    ] {
        assert_eq!(check(api_token, token, wanted), expected, "{api_token} {token} {wanted}");
    }
    auth.sessions().end(std::slice::from_ref(&login.base.id));
    let ended = check("", "1dcd9b6e-5a4b", PolicyType::Bind);
    assert_eq!(ended, Err(RefusalCode::InvalidApiSession));
}
