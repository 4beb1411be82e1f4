//! Answers that differ from those of the original on purpose (docs/differences.md).

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode, Response};

use super::cas::{authority, body as ca_body, verified};
use super::{NONE, refusal, refuses, with};
use crate::testing::{Bed, to};
use crate::{Caller, Origin};

/// A policy for passwords of so many characters, of every sort if it is strict.
fn policy(length: u32, is_strict: bool) -> Value {
    json!({"name": "strict", "primary": {
        "cert": {"allowed": true, "allowExpiredCerts": false},
        "extJwt": {"allowed": false, "allowedSigners": []},
        "updb": {"allowed": true, "lockoutDurationMinutes": 0, "maxAttempts": 0,
            "minPasswordLength": length, "requireMixedCase": is_strict,
            "requireNumberChar": is_strict, "requireSpecialChar": is_strict}},
        "secondary": {"requireTotp": false}})
}

#[tokio::test]
async fn what_names_nothing_in_a_create_is_a_wrong_field() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let identity = json!({"name": "x", "type": "User", "isAdmin": false, "authPolicyId": "nope"});
    let enrollment =
        json!({"identityId": "nope", "method": "ott", "expiresAt": "2026-02-02T00:00:00Z"});
    let terminator =
        json!({"service": "nope", "router": "nope", "binding": "transport", "address": "tcp:a:1"});
    let service = json!({"name": "x", "encryptionRequired": true, "configs": ["nope"]});
    for (operation, body, field) in [
        ("createIdentity", identity, "authPolicyId"),
        ("createEnrollment", enrollment, "identityId"),
        ("createConfig", json!({"name": "x", "configTypeId": "nope", "data": {}}), "type"),
        ("createService", service, "configs"),
        ("createTerminator", terminator, "service"),
    ] {
        refuses(&bed, &admin, operation, "", vec![(body, field)]).await;
    }
}

#[tokio::test]
async fn lists_below_nothing_are_missing_where_the_documents_say_so() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let nested = weft_contract::resource::operations(Api::Management).filter(|operation| {
        operation.path.contains("/{id}/") && matches!(operation.response, Response::List(_))
    });
    let mut missing = 0;
    for operation in nested {
        let answer = bed.manage(&admin, operation.id, &["nope"], NONE).await;
        if operation.statuses.contains(&404) {
            let code = answer.as_ref().map_err(|failure| failure.code());
            assert_eq!(code, Err(ErrorCode::NotFound), "{}", operation.id);
            missing += 1;
        } else {
            assert_eq!(answer.unwrap(), json!([]), "{}", operation.id);
        }
    }
    assert!(missing > 10, "{missing}");
}

#[tokio::test]
async fn what_is_in_use_says_by_whom() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let data = json!({"protocol": "tcp", "address": "localhost", "port": 80});
    let config = json!({"name": "web-host", "configTypeId": "NH5p4FpGR", "data": data});
    let config = bed.create(&admin, "createConfig", config).await;
    let service = json!({"name": "web", "encryptionRequired": true});
    let service = bed.create(&admin, "createService", service).await;
    let (laptop, _) = bed.enroll(&admin, "laptop").await;
    let policy = bed.create(&admin, "createAuthPolicy", policy(5, false)).await;
    let patch = json!({"authPolicyId": policy});
    bed.manage(&admin, "patchIdentity", &[&laptop], patch).await.unwrap();
    let own = json!([{"serviceId": service, "configId": config}]);
    bed.manage(&admin, "associateIdentitysServiceConfigs", &[&laptop], own).await.unwrap();
    for (operation, id, user) in [
        ("deleteConfigType", "NH5p4FpGR", config.as_str()),
        ("deleteConfig", config.as_str(), laptop.as_str()),
        ("deleteAuthPolicy", policy.as_str(), laptop.as_str()),
    ] {
        let failure = refusal(&bed, &admin, operation, id, NONE).await;
        let found = (failure.status(), failure.code());
        assert_eq!(found, (409, ErrorCode::CanNotDeleteReferencedEntity), "{operation}");
        assert!(failure.to_string().contains(user), "{operation}: {failure}");
    }
}

#[tokio::test]
async fn further_authenticators_and_changed_certificates_are_wrong_fields() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (laptop, chain) = bed.enroll(&admin, "laptop").await;
    let second = json!({"identityId": laptop, "method": "cert", "certPem": chain[0].to_pem()});
    let failure = refusal(&bed, &admin, "createAuthenticator", "", second).await;
    assert_eq!(
        (failure.status(), failure.code()),
        (400, ErrorCode::MaxAuthenticatorMethodsReached)
    );
    let login = bed.login_with(&chain).await.unwrap().data();
    let me = bed.with_token(login["token"].as_str().unwrap());
    let id = login["authenticatorId"].as_str().unwrap();
    let body = json!({"currentPassword": "x", "username": "laptop", "password": "geheimes"});
    for operation in ["updateCurrentIdentityAuthenticator", "patchCurrentIdentityAuthenticator"] {
        let failure = bed.client(&me, operation, &[id], body.clone()).await.unwrap_err();
        assert_eq!(failure.status(), 400, "{operation}: {failure}");
    }
}

#[tokio::test]
async fn tickets_name_their_ca_their_user_and_their_identity() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let ours = authority(&bed, "ours");
    let ca =
        verified(&bed, &admin, &ours, with(&ca_body("ours", &ours), "identityRoles", json!([])))
            .await;
    let identity = json!({"name": "anna", "type": "User", "isAdmin": false});
    let identity = bed.create(&admin, "createIdentity", identity).await;
    let ticket = |more: Value| {
        let mut body = json!({"identityId": identity, "expiresAt": "2026-02-01T00:00:00Z"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let of_ca = bed
        .create(&admin, "createEnrollment", ticket(json!({"method": "ottca", "caId": ca})))
        .await;
    let of_user = bed
        .create(&admin, "createEnrollment", ticket(json!({"method": "updb", "username": "anna.b"})))
        .await;
    let read = async |id: &str| bed.manage(&admin, "detailEnrollment", &[id], NONE).await.unwrap();
    let (of_ca_now, of_user_now) = (read(&of_ca).await, read(&of_user).await);
    assert_eq!((&of_ca_now["caId"], &of_ca_now["ca"]["name"]), (&json!(ca), &json!("ours")));
    assert_eq!((&of_user_now["username"], &of_user_now["ca"]), (&json!("anna.b"), &NONE));
    let reference = &of_user_now["identity"];
    assert_eq!(
        (&reference["name"], &reference["urlName"], &reference["entity"]),
        (&json!("anna"), &json!("identities"), &json!("identities"))
    );
    // A refreshed one keeps its id, and says so.
    let until = json!({"expiresAt": "2026-03-01T00:00:00Z"});
    let refreshed = bed.manage(&admin, "refreshEnrollment", &[&of_user], until).await.unwrap();
    assert_eq!(refreshed["id"], json!(of_user));
    assert!(refreshed["_links"]["self"]["href"].is_string(), "{refreshed}");
}

#[tokio::test]
async fn routers_are_made_disabled_and_have_both_lists_of_policies() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for (create, detail) in [
        ("createEdgeRouter", "detailEdgeRouter"),
        ("createRouter", "detailRouter"),
        ("createTransitRouter", "detailTransitRouter"),
    ] {
        let id = bed.create(&admin, create, json!({"name": create, "disabled": true})).await;
        let made = bed.manage(&admin, detail, &[&id], NONE).await.unwrap();
        assert_eq!(made["disabled"], json!(true), "{create}");
    }
    let with = json!({"isTunnelerEnabled": true, "appData": {"of": "router"}});
    let router = bed.router(&admin, "er", with).await;
    // The identity of its tunneler has data of its own.
    let own = json!({"appData": {"of": "identity"}});
    bed.manage(&admin, "patchIdentity", &[router.as_str()], own.clone()).await.unwrap();
    let other = json!({"cost": 11, "appData": {"of": "another"}});
    bed.manage(&admin, "patchEdgeRouter", &[router.as_str()], other).await.unwrap();
    let identity = bed.manage(&admin, "detailIdentity", &[router.as_str()], NONE).await.unwrap();
    assert_eq!(identity["appData"], own["appData"]);
    bed.create(&admin, "createService", json!({"name": "web", "encryptionRequired": true})).await;
    let all = json!({"name": "all", "semantic": "AnyOf", "identityRoles": ["#all"],
        "edgeRouterRoles": ["#all"]});
    bed.create(&admin, "createEdgeRouterPolicy", all).await;
    let of_services = json!({"name": "dial", "type": "Dial", "semantic": "AnyOf",
        "identityRoles": ["#all"], "serviceRoles": ["#all"]});
    bed.create(&admin, "createServicePolicy", of_services).await;
    let of_routers = json!({"name": "routers", "semantic": "AnyOf", "serviceRoles": ["#all"],
        "edgeRouterRoles": ["#all"]});
    bed.create(&admin, "createServiceEdgeRouterPolicy", of_routers).await;
    let names = async |operation: &str| {
        let list = bed.manage(&admin, operation, &[router.as_str()], NONE).await.unwrap();
        let names = list.as_array().unwrap().iter().map(|one| one["name"].clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("listEdgeRouterServicePolicies").await, ["dial"]);
    assert_eq!(names("listEdgeRouterServiceEdgeRouterPolicies").await, ["routers"]);
}

#[tokio::test]
async fn identities_keep_the_type_that_they_were_made_with() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let types = bed.list(&admin, "listIdentityTypes", "true sort by name").await;
    let types: Vec<_> = types.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(types, ["Default", "Device", "Router", "Service", "User"]);
    for kind in ["Default", "Device", "Service", "User"] {
        let body = json!({"name": kind, "type": kind, "isAdmin": false});
        let id = bed.create(&admin, "createIdentity", body).await;
        let made = bed.manage(&admin, "detailIdentity", &[&id], NONE).await.unwrap();
        assert_eq!(made["typeId"], json!(kind));
    }
}

#[tokio::test]
async fn a_deleted_entity_is_taken_out_of_those_that_merely_name_it() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let data = json!({"protocol": "tcp", "address": "localhost", "port": 80});
    let config = json!({"name": "web-host", "configTypeId": "NH5p4FpGR", "data": data});
    let config = bed.create(&admin, "createConfig", config).await;
    let service = json!({"name": "web", "encryptionRequired": true, "configs": [config]});
    let service = bed.create(&admin, "createService", service).await;
    bed.manage(&admin, "deleteConfig", &[&config], NONE).await.unwrap();
    let left = bed.manage(&admin, "detailService", &[&service], NONE).await.unwrap();
    assert!(!left["configs"].to_string().contains(&config), "{left}");
}

#[tokio::test]
async fn bodies_of_another_type_and_characters_of_no_filter_are_refused_as_wrong_requests() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for filter in ["name = \"a\" ; true", "name = \"a\" $", "name % 3"] {
        let call = to(Api::Management, "listServices", &[]).with_query("filter", filter);
        let failure = bed.controller.call(admin.clone(), call).await.unwrap_err();
        let found = (failure.status(), failure.code());
        assert_eq!(found, (400, ErrorCode::InvalidFilter), "{filter}");
    }
    for (parameter, value, code) in [
        ("limit", "many", ErrorCode::InvalidPagination),
        ("offset", "-", ErrorCode::InvalidPagination),
        ("sort", "tags.a", ErrorCode::InvalidSortIdentifier),
    ] {
        let call = to(Api::Management, "listServices", &[]).with_query(parameter, value);
        let failure = bed.controller.call(admin.clone(), call).await.unwrap_err();
        assert_eq!((failure.status(), failure.code()), (400, code), "{parameter}={value}");
    }
    let nested = json!({"name": "x", "encryptionRequired": true, "tags": {"a": {"b": 1}}});
    refuses(&bed, &admin, "createService", "", vec![(nested, "tags.a")]).await;
    // A change of nothing is none.
    let service = json!({"name": "web", "encryptionRequired": true});
    let service = bed.create(&admin, "createService", service).await;
    bed.manage(&admin, "patchService", &[&service], json!({})).await.unwrap();
    // A disabled identity is answered for in the envelope.
    let (laptop, _) = bed.enroll(&admin, "laptop").await;
    let minutes = json!({"durationMinutes": 0});
    let answer = bed.manage(&admin, "disableIdentity", &[&laptop], minutes).await.unwrap();
    assert_eq!(answer, json!({}));
}

#[tokio::test]
async fn a_password_keeps_the_rules_of_its_policy_wherever_it_is_set() {
    const GOOD: &str = "Geheim-12";
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let policy = bed.create(&admin, "createAuthPolicy", policy(8, true)).await;
    let identity = json!({"name": "anna", "type": "User", "isAdmin": false, "authPolicyId": policy,
        "enrollment": {"updb": "anna"}});
    let anna = bed.create(&admin, "createIdentity", identity).await;
    let identity = bed.manage(&admin, "detailIdentity", &[&anna], NONE).await.unwrap();
    let ticket = identity["enrollment"]["updb"]["token"].as_str().unwrap();
    let enroll = |password: &str| {
        let body = json!({"username": "anna", "password": password});
        let call = to(Api::Client, "enrollUpdb", &[]).with_query("token", ticket).with_json(&body);
        bed.controller.call(Caller::nobody(Origin::default()), call)
    };
    let weak = ["Ge-1", "geheim-12", "GEHEIM-12", "Geheim-ab", "Geheim123"];
    for password in weak {
        let failure = enroll(password).await.unwrap_err();
        assert_eq!((failure.status(), failure.field_name()), (400, Some("password")), "{password}");
    }
    enroll(GOOD).await.unwrap();
    let me = bed.login("anna", GOOD).await.unwrap();
    let own = bed.client(&me, "listCurrentIdentityAuthenticators", &[], NONE).await.unwrap();
    let id = own[0]["id"].as_str().unwrap();
    for password in weak {
        let own = json!({"currentPassword": GOOD, "username": "anna", "password": password});
        let operation = "updateCurrentIdentityAuthenticator";
        let failure = bed.client(&me, operation, &[id], own).await.unwrap_err();
        assert_eq!((failure.status(), failure.field_name()), (400, Some("password")), "{password}");
        let by_admin = json!({"username": "anna", "password": password});
        refuses(&bed, &admin, "updateAuthenticator", id, vec![(by_admin, "password")]).await;
    }
    bed.manage(&admin, "deleteAuthenticator", &[id], NONE).await.unwrap();
    let made = |password: &str| json!({"identityId": anna, "method": "updb", "username": "anna", "password": password});
    for password in weak {
        refuses(&bed, &admin, "createAuthenticator", "", vec![(made(password), "password")]).await;
    }
    bed.create(&admin, "createAuthenticator", made(GOOD)).await;
}

#[tokio::test]
async fn the_fingerprint_of_a_router_is_one() {
    const PRINT: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567";
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let router = |print: &str| json!({"id": "r1", "name": "r1", "cost": 0, "noTraversal": false, "fingerprint": print});
    let fabric = async |operation: &str, path: &[&str], body: Value| {
        let call = to(Api::Fabric, operation, path).with_json(&body);
        bed.controller.call(admin.clone(), call).await
    };
    let colons = "0a:1b:2c:3d:4e:5f:60:71:82:93:a4:b5:c6:d7:e8:f9:01:23:45:67";
    let of_sha256 = "0".repeat(64);
    let wrong = ["x", &PRINT[1..], colons, &of_sha256, &PRINT.replace('0', "g")];
    for print in wrong {
        let failure = fabric("createRouter", &[], router(print)).await.unwrap_err();
        assert_eq!((failure.status(), failure.field_name()), (400, Some("fingerprint")), "{print}");
    }
    fabric("createRouter", &[], router(&PRINT.to_uppercase())).await.unwrap();
    let read = fabric("detailRouter", &["r1"], NONE).await.unwrap().data();
    assert_eq!(read["fingerprint"], PRINT);
    for print in wrong {
        let failure = fabric("patchRouter", &["r1"], json!({"fingerprint": print})).await;
        assert_eq!(failure.unwrap_err().field_name(), Some("fingerprint"), "{print}");
    }
}
