use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode, openapi};
use weft_identity::{Authority, AuthoritySpec};
use weft_model::{Kind, OnDelete};

use crate::testing::{Bed, to};
use crate::{Caller, Failure};

const NONE: Value = Value::Null;

async fn refusal(bed: &Bed, caller: &Caller, operation: &str, id: &str, body: Value) -> Failure {
    let path: &[&str] = if id.is_empty() { &[] } else { &[id] };
    match bed.manage(caller, operation, path, body).await {
        Ok(data) => panic!("{operation} was done: {data}"),
        Err(failure) => failure,
    }
}

/// The descriptions of operations list the references that can forbid a deletion.
#[test]
fn refusals_of_deletions_are_described() {
    let described = openapi::document(Api::Management);
    let links = Kind::ALL.iter().flat_map(|kind| kind.links());
    for link in links.filter(|link| link.on_delete == OnDelete::Refuse) {
        let path = format!("/{}/{{id}}", link.to.collection());
        let responses = &described["paths"][&path]["delete"]["responses"];
        assert!(responses.get("409").is_some(), "{path}: {responses}");
    }
}

#[tokio::test]
async fn a_new_network_has_its_seeds() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let types = bed.list(&admin, "listConfigTypes", "true limit none").await;
    assert_eq!(types.len(), 10);
    let host = types.iter().find(|it| it["id"] == "NH5p4FpGR").unwrap();
    assert_eq!((&host["name"], &host["target"]), (&json!("host.v1"), &json!("service")));
    let policies = bed.list(&admin, "listAuthPolicies", "").await;
    assert_eq!(policies[0]["primary"]["updb"]["minPasswordLength"], 5);
    let kinds = bed.list(&admin, "listIdentityTypes", "").await;
    assert_eq!(kinds.len(), 5);
    let me = bed.list(&admin, "listIdentities", "isDefaultAdmin = true").await;
    assert_eq!(me[0]["authenticators"]["updb"]["username"], "admin");
    assert_eq!(me[0]["permissions"], NONE);
    let id = me[0]["id"].as_str().unwrap();
    let failure = refusal(&bed, &admin, "deleteIdentity", id, NONE).await;
    assert_eq!(failure.code(), ErrorCode::EntityCanNotBeDeleted);
    assert!(bed.controller.init_admin("Another", "another", "geheim").await.is_err());
}

#[tokio::test]
async fn names_are_there_and_unique_on_create_and_update() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = |name: &str| json!({"name": name, "encryptionRequired": false});
    let web = bed.create(&admin, "createService", body("web")).await;
    bed.create(&admin, "createService", body("db")).await;
    for (operation, id) in [("createService", ""), ("updateService", &web), ("patchService", &web)]
    {
        let failure = refusal(&bed, &admin, operation, id, body("db")).await;
        assert_eq!(
            (failure.code(), failure.field_name()),
            (ErrorCode::CouldNotValidate, Some("name"))
        );
        assert_eq!(failure.cause().unwrap().reason.as_deref(), Some("name must be unique"));
        let failure = refusal(&bed, &admin, operation, id, body(" ")).await;
        assert_eq!(failure.cause().unwrap().reason.as_deref(), Some("name is required"));
    }
    let failure = refusal(&bed, &admin, "createService", "", json!({"name": "x"})).await;
    assert_eq!(failure.field_name(), Some("encryptionRequired"));
    let failure = refusal(&bed, &admin, "updateService", "nope", body("x")).await;
    assert_eq!(failure.code(), ErrorCode::NotFound);
}

#[tokio::test]
async fn put_clears_and_patch_keeps() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "web", "encryptionRequired": true, "roleAttributes": ["b", "a", "b"],
        "tags": {"site": "berlin"}, "maxIdleTimeMillis": 5});
    let id = bed.create(&admin, "createService", body).await;
    let read = || async { bed.manage(&admin, "detailService", &[&id], NONE).await.unwrap() };
    assert_eq!(read().await["roleAttributes"], json!(["a", "b"]));
    let patch = json!({"maxIdleTimeMillis": 7, "tags": null, "encryptionRequired": false});
    bed.manage(&admin, "patchService", &[&id], patch).await.unwrap();
    let now = read().await;
    assert_eq!(now["maxIdleTimeMillis"], 7);
    assert_eq!(now["tags"], json!({"site": "berlin"}));
    assert_eq!(now["encryptionRequired"], true, "ignored by PATCH");
    bed.manage(&admin, "updateService", &[&id], json!({"name": "web"})).await.unwrap();
    let now = read().await;
    assert_eq!((&now["tags"], &now["roleAttributes"]), (&json!({}), &NONE));
    assert_eq!((&now["maxIdleTimeMillis"], &now["encryptionRequired"]), (&json!(0), &json!(false)));
    assert_eq!(now["permissions"], json!(["Invalid"]));
}

/// The test clock stands still until the test moves it.
#[tokio::test]
async fn every_change_is_later_than_the_one_before() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let web = json!({"name": "web", "encryptionRequired": true});
    let policy = json!({"name": "p", "semantic": "AnyOf", "type": "Dial"});
    let made = [
        ("Service", web.clone(), bed.create(&admin, "createService", web).await),
        ("ServicePolicy", policy.clone(), bed.create(&admin, "createServicePolicy", policy).await),
        ("ConfigType", json!({"name": "host.v1"}), "NH5p4FpGR".to_owned()),
    ];
    for (kind, put, id) in &made {
        let read = async || {
            let of = bed.manage(&admin, &format!("detail{kind}"), &[id], NONE).await.unwrap();
            let at = |member: &str| of[member].as_str().unwrap().to_owned();
            (at("createdAt"), at("updatedAt"))
        };
        let mut before = read().await;
        for (verb, body) in
            [("patch", json!({})), ("update", put.clone()), ("patch", json!({"tags": {"a": "b"}}))]
        {
            for _ in 0..2 {
                let operation = format!("{verb}{kind}");
                bed.manage(&admin, &operation, &[id], body.clone()).await.unwrap();
                let now = read().await;
                assert_eq!(now.0, before.0, "{operation}");
                assert!(now.1 > before.1, "{operation}: {now:?} after {before:?}");
                before = now;
            }
        }
        bed.clock.advance(std::time::Duration::from_secs(60));
        bed.manage(&admin, &format!("patch{kind}"), &[id], json!({})).await.unwrap();
        assert_eq!(
            read().await.1,
            bed.controller.kernel().now().to_string(),
            "the clock has overtaken it"
        );
    }
    // A delete also changes the entities from which it removes a reference.
    let check =
        bed.create(&admin, "createPostureCheck", json!({"name": "m", "typeId": "MFA"})).await;
    let id = &made[1].2;
    let body = json!({"postureCheckRoles": [format!("@{check}")]});
    bed.manage(&admin, "patchServicePolicy", &[id], body).await.unwrap();
    let before = bed.manage(&admin, "detailServicePolicy", &[id], NONE).await.unwrap();
    bed.manage(&admin, "deletePostureCheck", &[&check], NONE).await.unwrap();
    let after = bed.manage(&admin, "detailServicePolicy", &[id], NONE).await.unwrap();
    assert_eq!(after["postureCheckRoles"], NONE);
    assert!(after["updatedAt"].as_str() > before["updatedAt"].as_str());
}

#[tokio::test]
async fn configs_obey_the_schema_of_their_type() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let config = |data: Value| json!({"name": "c", "configTypeId": "NH5p4FpGR", "data": data});
    let failure = refusal(&bed, &admin, "createConfig", "", config(json!({"port": "x"}))).await;
    assert_eq!(failure.code(), ErrorCode::CouldNotValidate);
    let good = json!({"protocol": "tcp", "address": "localhost", "port": 80.0});
    let id = bed.create(&admin, "createConfig", config(good)).await;
    let read = bed.manage(&admin, "detailConfig", &[&id], NONE).await.unwrap();
    assert_eq!(read["data"]["port"], json!(80));
    assert_eq!(read["configType"]["name"], "host.v1");
    let unknown = json!({"name": "d", "configTypeId": "nope", "data": {}});
    let failure = refusal(&bed, &admin, "createConfig", "", unknown).await;
    assert_eq!((failure.status(), failure.field_name()), (400, Some("type")));
    let failure = refusal(&bed, &admin, "deleteConfigType", "NH5p4FpGR", NONE).await;
    assert_eq!(failure.code(), ErrorCode::CanNotDeleteReferencedEntity);
    let body = json!({"name": "web", "encryptionRequired": false, "configs": [id]});
    let service = bed.create(&admin, "createService", body).await;
    let second = bed.create(
        &admin,
        "createConfig",
        json!({"name": "c2",
        "configTypeId": "NH5p4FpGR", "data": {"protocol": "tcp", "address": "x", "port": 1}}),
    );
    let second = second.await;
    let both = json!({"configs": [id, second]});
    let failure = refusal(&bed, &admin, "patchService", &service, both).await;
    assert_eq!(failure.field_name(), Some("configs"));
    bed.manage(&admin, "deleteConfig", &[&id], NONE).await.unwrap();
    let read = bed.manage(&admin, "detailService", &[&service], NONE).await.unwrap();
    assert_eq!(read["configs"], NONE);
}

#[tokio::test]
async fn policies_show_names_and_lose_what_is_deleted() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "web", "encryptionRequired": false, "roleAttributes": ["public"]});
    let service = bed.create(&admin, "createService", body).await;
    let body = |roles: Value| {
        json!({"name": "p", "type": "Dial", "semantic": "AllOf",
        "serviceRoles": roles, "identityRoles": ["#all"]})
    };
    for (roles, field) in [
        (json!(["web"]), "serviceRoles"),
        (json!(["@nope"]), "serviceRoles"),
        (json!(["#all", "#x"]), "serviceRoles"),
    ] {
        let failure = refusal(&bed, &admin, "createServicePolicy", "", body(roles)).await;
        assert_eq!((failure.status(), failure.field_name()), (400, Some(field)));
    }
    let mut invalid = body(json!([]));
    invalid["type"] = json!("Invalid");
    let failure = refusal(&bed, &admin, "createServicePolicy", "", invalid).await;
    assert_eq!(failure.field_name(), Some("type"));
    let roles = json!([format!("@{service}"), "#public"]);
    let id = bed.create(&admin, "createServicePolicy", body(roles)).await;
    let read = || async { bed.manage(&admin, "detailServicePolicy", &[&id], NONE).await.unwrap() };
    let shown = read().await["serviceRolesDisplay"].clone();
    assert_eq!(shown[1], json!({"name": "@web", "role": format!("@{service}")}));
    let services = bed.manage(&admin, "listServicePolicyServices", &[&id], NONE).await.unwrap();
    assert_eq!(services[0]["name"], "web");
    bed.manage(&admin, "patchServicePolicy", &[&id], json!({"type": "Bind"})).await.unwrap();
    assert_eq!(read().await["type"], "Bind");
    bed.manage(&admin, "deleteService", &[&service], NONE).await.unwrap();
    assert_eq!(read().await["serviceRoles"], json!(["#public"]));
}

#[tokio::test]
async fn names_have_an_end_and_move_no_cursor() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = |name: &str| json!({"name": name, "encryptionRequired": true});
    let (longest, too_long) = ("n".repeat(1024), "n".repeat(1025));
    for name in ["a\u{1b}[2Jb", "a\nb", "a\u{9b}b", "\u{7f}", "a\0", &too_long] {
        let failure = refusal(&bed, &admin, "createService", "", body(name)).await;
        assert_eq!((failure.status(), failure.field_name()), (400, Some("name")), "{name:?}");
    }
    let id = bed.create(&admin, "createService", body(&longest)).await;
    bed.create(&admin, "createService", body("Zoë's 日本 🙂")).await;
    for operation in ["patchService", "updateService"] {
        let failure = refusal(&bed, &admin, operation, &id, body("\r")).await;
        assert_eq!((failure.status(), failure.field_name()), (400, Some("name")));
    }
    let user = json!({"method": "updb", "identityId": id, "username": "a\u{1b}[2Jb", "password": "password"});
    let failure = refusal(&bed, &admin, "createAuthenticator", "", user).await;
    assert_eq!(failure.status(), 400);
}

#[tokio::test]
async fn a_router_with_a_tunneler_has_an_identity_and_a_policy() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let id = bed.router(&admin, "er1", json!({"isTunnelerEnabled": true})).await;
    let identity = bed.manage(&admin, "detailIdentity", &[id.as_str()], NONE).await.unwrap();
    assert_eq!((&identity["name"], &identity["typeId"]), (&json!("er1"), &json!("Router")));
    let policy = bed.manage(&admin, "detailEdgeRouterPolicy", &[id.as_str()], NONE).await.unwrap();
    assert_eq!(policy["name"], format!("edge-router-{id}-system"));
    assert_eq!((&policy["isSystem"], &policy["semantic"]), (&json!(true), &json!("AnyOf")));
    for (operation, code) in [
        ("deleteEdgeRouterPolicy", ErrorCode::EntityCanNotBeDeleted),
        ("patchEdgeRouterPolicy", ErrorCode::EntityCanNotBeUpdated),
        ("deleteIdentity", ErrorCode::EntityCanNotBeDeleted),
    ] {
        let body = if operation.starts_with("patch") { json!({"name": "x"}) } else { NONE };
        assert_eq!(refusal(&bed, &admin, operation, id.as_str(), body).await.code(), code);
    }
    let body = json!({"name": "er2"});
    bed.manage(&admin, "patchEdgeRouter", &[id.as_str()], body).await.unwrap();
    let identity = bed.manage(&admin, "detailIdentity", &[id.as_str()], NONE).await.unwrap();
    assert_eq!(identity["name"], "er2");
    let body = json!({"isTunnelerEnabled": false});
    bed.manage(&admin, "patchEdgeRouter", &[id.as_str()], body).await.unwrap();
    let snapshot = bed.controller.kernel().snapshot();
    assert!(!snapshot.contains(Kind::Identity, &id));
    assert!(!snapshot.contains(Kind::EdgeRouterPolicy, &id));
    let body = json!({"isTunnelerEnabled": true});
    bed.manage(&admin, "patchEdgeRouter", &[id.as_str()], body).await.unwrap();
    // A policy that names a router and the router's identity loses both entries.
    let named = json!([format!("@{id}")]);
    let body = json!({"name": "both", "semantic": "AnyOf", "identityRoles": named,
        "edgeRouterRoles": named});
    let policy = bed.create(&admin, "createEdgeRouterPolicy", body).await;
    bed.manage(&admin, "deleteEdgeRouter", &[id.as_str()], NONE).await.unwrap();
    assert!(!bed.controller.kernel().snapshot().contains(Kind::Identity, &id));
    let left = bed.manage(&admin, "detailEdgeRouterPolicy", &[&policy], NONE).await.unwrap();
    assert_eq!((&left["identityRoles"], &left["edgeRouterRoles"]), (&NONE, &NONE));
}

#[tokio::test]
async fn lists_that_nobody_gave_are_null_where_they_are_in_the_original() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let with = |more: Value| {
        let mut body = json!({"name": "x"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let policy = || with(json!({"semantic": "AnyOf", "type": "Dial"}));
    let now = std::time::SystemTime::now();
    let root = Authority::make_root(&AuthoritySpec::new("other"), now).unwrap();
    let pem = root.certificate().to_pem();
    let ca = json!({"certPem": pem, "identityRoles": [], "isAuthEnabled": false,
        "isAutoCaEnrollmentEnabled": false, "isOttCaEnrollmentEnabled": false});
    let signer = json!({"issuer": "i", "audience": "a", "enabled": true, "certPem": pem});
    let process = json!({"osType": "Linux", "path": "/x"});
    let (null, empty) = (NONE, json!([]));
    for (kind, body, members) in [
        (
            "Service",
            with(json!({"encryptionRequired": true})),
            &[("/roleAttributes", &null), ("/configs", &null)][..],
        ),
        (
            "Identity",
            with(json!({"type": "Device", "isAdmin": false})),
            &[("/roleAttributes", &empty), ("/permissions", &null), ("/interfaces", &null)],
        ),
        (
            "EdgeRouter",
            with(json!({})),
            &[
                ("/roleAttributes", &null),
                ("/configs", &null),
                ("/interfaces", &null),
                ("/capabilities", &null),
            ],
        ),
        ("TransitRouter", with(json!({})), &[("/configs", &null), ("/interfaces", &null)]),
        (
            "ServicePolicy",
            policy(),
            &[
                ("/serviceRoles", &null),
                ("/identityRoles", &null),
                ("/postureCheckRoles", &null),
                ("/serviceRolesDisplay", &empty),
                ("/postureCheckRolesDisplay", &empty),
            ],
        ),
        (
            "EdgeRouterPolicy",
            policy(),
            &[
                ("/edgeRouterRoles", &null),
                ("/identityRoles", &null),
                ("/identityRolesDisplay", &empty),
            ],
        ),
        (
            "ServiceEdgeRouterPolicy",
            policy(),
            &[("/edgeRouterRoles", &null), ("/serviceRoles", &null)],
        ),
        (
            "PostureCheck",
            with(json!({"typeId": "OS", "operatingSystems": [{"type": "Linux", "versions": []}]})),
            &[("/roleAttributes", &empty), ("/operatingSystems/0/versions", &null)],
        ),
        (
            "PostureCheck",
            with(json!({"typeId": "PROCESS", "process": process})),
            &[("/process/hashes", &null)],
        ),
        (
            "PostureCheck",
            with(json!({"typeId": "PROCESS_MULTI", "semantic": "AllOf", "processes": [process]})),
            &[("/processes/0/hashes", &empty), ("/processes/0/signerFingerprints", &empty)],
        ),
        ("ExternalJwtSigner", with(signer), &[("/scopes", &null)]),
        ("Ca", with(ca), &[("/identityRoles", &null), ("/externalIdClaim", &null)]),
    ] {
        let id = bed.create(&admin, &format!("create{kind}"), body).await;
        let made = bed.manage(&admin, &format!("detail{kind}"), &[&id], NONE).await.unwrap();
        for (member, value) in members {
            assert_eq!(made.pointer(member), Some(*value), "{kind} {member}: {made}");
        }
        bed.manage(&admin, &format!("delete{kind}"), &[&id], NONE).await.unwrap();
    }
}

#[tokio::test]
async fn a_revert_takes_the_place_of_an_open_enrollment() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (id, _) = bed.enroll(&admin, "laptop").await;
    let body = json!({"method": "updb", "identityId": id, "username": "anna",
        "password": "geheim!"});
    bed.create(&admin, "createAuthenticator", body).await;
    let until = "2026-02-01T00:00:00Z";
    for (method, username) in [("ott", ""), ("updb", "anna")] {
        let body = json!({"identityId": id, "method": method, "username": username,
            "expiresAt": until});
        bed.create(&admin, "createEnrollment", body).await;
    }
    for method in ["cert", "updb"] {
        let filter = format!("method = \"{method}\" and identity = \"{id}\"");
        let own = bed.list(&admin, "listAuthenticators", &filter).await;
        let own = own[0]["id"].as_str().unwrap();
        let body = json!({"expiresAt": until});
        let made = bed.manage(&admin, "reEnrollAuthenticator", &[own], body).await.unwrap();
        let method = if method == "cert" { "ott" } else { method };
        let filter = format!("method = \"{method}\"");
        let left = bed.list(&admin, "listEnrollments", &filter).await;
        assert_eq!(left.len(), 1);
        assert_eq!(left[0]["id"], made["id"]);
    }
    assert!(
        bed.list(&admin, "listAuthenticators", &format!("identity = \"{id}\"")).await.is_empty()
    );
}

#[tokio::test]
async fn deleting_an_identity_takes_what_is_its_own() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (id, _) = bed.enroll(&admin, "laptop").await;
    let enrollment = json!({"identityId": id, "method": "updb", "username": "laptop",
        "expiresAt": "2026-02-01T00:00:00Z"});
    bed.create(&admin, "createEnrollment", enrollment.clone()).await;
    let failure = refusal(&bed, &admin, "createEnrollment", "", enrollment).await;
    assert_eq!((failure.code(), failure.status()), (ErrorCode::EnrollmentExists, 409));
    bed.manage(&admin, "deleteIdentity", &[&id], NONE).await.unwrap();
    let snapshot = bed.controller.kernel().snapshot();
    assert!(snapshot.table(Kind::Enrollment).is_empty());
    assert_eq!(snapshot.table(Kind::Authenticator).len(), 1, "the admin's");
}

#[tokio::test]
async fn identities_keep_their_rules() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = |more: Value| {
        let mut body = json!({"name": "x", "type": "User", "isAdmin": false});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (more, field) in [
        (json!({"roleAttributes": ["#a"]}), "roleAttributes"),
        (json!({"permissions": ["identity.fly"]}), "permissions"),
        (json!({"authPolicyId": "nope"}), "authPolicyId"),
        (json!({"serviceHostingCosts": {"nope": 1}}), "serviceHostingCosts"),
        (json!({"defaultHostingCost": 70_000}), "defaultHostingCost"),
    ] {
        let failure = refusal(&bed, &admin, "createIdentity", "", body(more)).await;
        assert_eq!((failure.status(), failure.field_name()), (400, Some(field)));
    }
    let id = bed.create(&admin, "createIdentity", body(json!({"externalId": " "}))).await;
    let read = bed.manage(&admin, "detailIdentity", &[&id], NONE).await.unwrap();
    assert_eq!((&read["typeId"], &read["externalId"]), (&json!("User"), &NONE));
    assert_eq!(read["authPolicy"]["name"], "Default");
    assert_eq!(read["_links"]["auth-policies"]["href"], "./auth-policies/default");
    let advice = json!({"name": "web", "encryptionRequired": false});
    let service = bed.create(&admin, "createService", advice).await;
    let advice =
        bed.manage(&admin, "getIdentityPolicyAdvice", &[&id, &service], NONE).await.unwrap();
    assert_eq!(advice["isDialAllowed"], false);
}

#[tokio::test]
async fn permissions_do_not_lead_to_more() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "helpdesk", "type": "User", "isAdmin": false,
        "permissions": ["identity", "enrollment"]});
    let id = bed.create(&admin, "createIdentity", body).await;
    let body = json!({"identityId": id, "method": "updb", "username": "helpdesk",
        "password": "hilfe-hilfe"});
    bed.create(&admin, "createAuthenticator", body).await;
    let helpdesk = bed.login("helpdesk", "hilfe-hilfe").await.unwrap();
    let boss =
        json!({"name": "boss", "type": "User", "isAdmin": true, "enrollment": {"ott": true}});
    let refused = refusal(&bed, &helpdesk, "createIdentity", "", boss.clone()).await;
    assert_eq!(refused.code(), ErrorCode::Unauthorized);
    let boss = bed.create(&admin, "createIdentity", boss).await;
    let enrollment = bed.list(&admin, "listEnrollments", "").await[0]["id"].clone();
    let enrollment = enrollment.as_str().unwrap();
    assert!(bed.list(&helpdesk, "listEnrollments", "").await.is_empty());
    for (operation, id, body) in [
        ("detailEnrollment", enrollment, NONE),
        ("deleteEnrollment", enrollment, NONE),
        ("refreshEnrollment", enrollment, json!({"expiresAt": "2026-02-01T00:00:00Z"})),
        ("patchIdentity", &boss, json!({"name": "x"})),
        ("patchIdentity", &id, json!({"permissions": ["admin_readonly"]})),
        ("patchIdentity", &id, json!({"isAdmin": true})),
        ("deleteIdentity", &boss, NONE),
        ("disableIdentity", &boss, json!({"durationMinutes": 0})),
        ("listServices", "", NONE),
    ] {
        let refused = refusal(&bed, &helpdesk, operation, id, body).await;
        assert_eq!(refused.code(), ErrorCode::Unauthorized, "{operation}");
    }
    let nested = bed.manage(&helpdesk, "getIdentityEnrollments", &[&boss], NONE).await.unwrap();
    assert_eq!(nested, json!([]));
    let seen = bed.manage(&helpdesk, "detailIdentity", &[&boss], NONE).await.unwrap();
    assert_eq!(seen["enrollment"], json!({}));
    let body = json!({"name": "x", "type": "User", "isAdmin": false});
    bed.create(&helpdesk, "createIdentity", body).await;
}

#[tokio::test]
async fn lists_filter_sort_page_and_narrow_by_role() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for (name, attributes) in [("b", json!(["x"])), ("a", json!(["x", "y"])), ("c", json!(["y"]))] {
        let body = json!({"name": name, "encryptionRequired": false, "roleAttributes": attributes});
        bed.create(&admin, "createService", body).await;
    }
    let names = |found: &[Value]| {
        found.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let sorted = bed.list(&admin, "listServices", "true sort by name desc limit 2").await;
    assert_eq!(names(&sorted), ["c", "b"]);
    let call = to(Api::Management, "listServices", &[])
        .with_query("filter", "anyOf(roleAttributes) = \"x\"")
        .with_query("sort", "name")
        .with_query("limit", "1");
    let reply = bed.controller.call(admin.clone(), call).await.unwrap();
    assert_eq!(names(reply.data().as_array().unwrap()), ["a"]);
    let meta = reply.meta().unwrap();
    let pagination = meta.pagination.unwrap();
    assert_eq!((pagination.limit, pagination.offset, pagination.total_count), (1, 0, 2));
    assert!(meta.filterable_fields.as_ref().unwrap().contains(&"name".to_owned()));
    let by_role = |semantic: &str| {
        let call = to(Api::Management, "listServices", &[])
            .with_query("roleFilter", "#x")
            .with_query("roleFilter", "#y")
            .with_query("roleSemantic", semantic);
        bed.controller.call(admin.clone(), call)
    };
    assert_eq!(by_role("allof").await.unwrap().data().as_array().unwrap().len(), 1);
    assert_eq!(by_role("AnyOf").await.unwrap().data().as_array().unwrap().len(), 3);
    assert_eq!(by_role("Some").await.unwrap_err().field_name(), Some("semantic"));
    for (name, value, code) in [
        ("filter", "nope = 1", ErrorCode::InvalidFilter),
        ("sort", "nope", ErrorCode::InvalidSortIdentifier),
        ("limit", "x", ErrorCode::InvalidPagination),
    ] {
        let call = to(Api::Management, "listServices", &[]).with_query(name, value);
        let failure = bed.controller.call(admin.clone(), call).await.unwrap_err();
        assert_eq!((failure.code(), failure.status()), (code, 400), "{name}");
    }
    let attributes = bed.list(&admin, "listServiceRoleAttributes", "id contains \"x\"").await;
    assert_eq!(attributes, [json!("x")]);
}

#[tokio::test]
async fn overrides_reach_the_client_and_hold_their_config() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (id, chain) = bed.enroll(&admin, "laptop").await;
    let config = |name: &str, port: u16| {
        json!({"name": name, "configTypeId": "NH5p4FpGR",
        "data": {"protocol": "tcp", "address": "localhost", "port": port}})
    };
    let own = bed.create(&admin, "createConfig", config("own", 1)).await;
    let other = bed.create(&admin, "createConfig", config("other", 2)).await;
    let body = json!({"name": "web", "encryptionRequired": false, "configs": [own]});
    let service = bed.create(&admin, "createService", body).await;
    let body = json!({"name": "p", "type": "Dial", "semantic": "AnyOf",
        "serviceRoles": ["#all"], "identityRoles": ["#all"]});
    bed.create(&admin, "createServicePolicy", body).await;
    let pairs = json!([{"serviceId": service, "configId": other}]);
    let associate = "associateIdentitysServiceConfigs";
    bed.manage(&admin, associate, &[&id], pairs.clone()).await.unwrap();
    let failure = refusal(&bed, &admin, "deleteConfig", &other, NONE).await;
    assert_eq!(failure.code(), ErrorCode::CanNotDeleteReferencedEntity);
    let token = bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let client = bed.with_token(token.as_str().unwrap());
    let call = to(Api::Client, "listServices", &[]).with_query("configTypes", "all");
    let seen = bed.controller.call(client.clone(), call).await.unwrap().data();
    assert_eq!(seen[0]["config"]["host.v1"]["port"], 2);
    let remove = "disassociateIdentitysServiceConfigs";
    bed.manage(&admin, remove, &[&id], pairs).await.unwrap();
    let call = to(Api::Client, "listServices", &[]).with_query("configTypes", "host.v1");
    let seen = bed.controller.call(client, call).await.unwrap().data();
    assert_eq!(seen[0]["config"]["host.v1"]["port"], 1);
}

#[tokio::test]
async fn what_the_server_says_of_itself() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let version = bed.manage(&admin, "listVersion", &[], NONE).await.unwrap();
    assert_eq!(version["capabilities"], json!([]));
    assert_eq!(version["apiVersions"]["edge"], version["apiVersions"]["edge-client"]);
    let service = json!({"name": "web", "encryptionRequired": true});
    bed.create(&admin, "createService", service).await;
    let call = to(Api::Fabric, "createService", &[]).with_json(&json!({"name": "fabric"}));
    bed.controller.call(admin.clone(), call).await.unwrap();
    let summary = bed.manage(&admin, "listSummary", &[], NONE).await.unwrap();
    assert_eq!((&summary["services"], &summary["services.edge"]), (&json!(2), &json!(1)));
    assert_eq!((&summary["configTypes"], &summary["apiSessions"]), (&json!(10), &json!(1)));
    let call = to(Api::Client, "listWellKnownCas", &[]);
    let reply = bed.controller.call(admin, call).await.unwrap();
    let crate::Content::Raw { body, .. } = reply.content else { panic!("no envelope here") };
    assert_eq!(weft_identity::read_ca_store(&body).unwrap().len(), 2);
}

#[tokio::test]
async fn a_refused_delete_names_only_what_its_caller_may_read() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "c", "configTypeId": "NH5p4FpGR",
        "data": {"protocol": "tcp", "address": "localhost", "port": 1}});
    let config = bed.create(&admin, "createConfig", body).await;
    let body = json!({"name": "web", "encryptionRequired": false});
    let service = bed.create(&admin, "createService", body).await;
    let body = json!({"name": "secret", "type": "Default", "isAdmin": false});
    let identity = bed.create(&admin, "createIdentity", body).await;
    let pairs = json!([{"serviceId": service, "configId": config}]);
    bed.manage(&admin, "associateIdentitysServiceConfigs", &[&identity], pairs).await.unwrap();
    let refused = async |name: &str, permissions: Value| {
        let body = json!({"name": name, "type": "Default", "isAdmin": false,
            "permissions": permissions});
        let id = bed.create(&admin, "createIdentity", body).await;
        let body = json!({"identityId": id, "method": "updb", "username": name,
            "password": "geheimnis"});
        bed.create(&admin, "createAuthenticator", body).await;
        let caller = bed.login(name, "geheimnis").await.unwrap();
        let failure = refusal(&bed, &caller, "deleteConfig", &config, NONE).await;
        assert_eq!(failure.code(), ErrorCode::CanNotDeleteReferencedEntity);
        serde_json::to_value(failure.cause().unwrap()).unwrap().to_string()
    };
    let blind = refused("blind", json!(["config"])).await;
    assert!(blind.contains("entity type config referenced by identity"), "{blind}");
    assert!(!blind.contains(&identity), "{blind}");
    for (name, permissions) in [
        ("reader", json!(["config", "identity.read"])),
        ("allreader", json!(["config", "admin_readonly"])),
    ] {
        let told = refused(name, permissions).await;
        assert!(told.contains(&format!("[{identity}]")), "{told}");
    }
}
