//! Identities with permissions that are no administrators: operations that stay closed to them
//! (docs/protocol/management-api.md 4).

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode};

use super::{NONE, refusal};
use crate::testing::{Bed, to};
use crate::{Caller, Result};

/// An identity with these permissions, logged in.
async fn clerk(bed: &Bed, admin: &Caller, name: &str, permissions: &[&str]) -> (String, Caller) {
    let body =
        json!({"name": name, "type": "Default", "isAdmin": false, "permissions": permissions});
    let id = bed.create(admin, "createIdentity", body).await;
    let body =
        json!({"identityId": id, "method": "updb", "username": name, "password": "geheimnis"});
    bed.create(admin, "createAuthenticator", body).await;
    (id, bed.login(name, "geheimnis").await.unwrap())
}

async fn ticket(bed: &Bed, caller: &Caller, identity: &str) -> Value {
    let identity = bed.manage(caller, "detailIdentity", &[identity], NONE).await.unwrap();
    identity["enrollment"]["ott"].clone()
}

#[tokio::test]
async fn tickets_of_identities_are_for_those_who_may_read_enrollments() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (_, reader) = clerk(&bed, &admin, "reader", &["identity.read"]).await;
    let made_here = ["identity.read", "identity.create"];
    let (_, maker) = clerk(&bed, &admin, "maker", &made_here).await;
    let (_, giver) = clerk(&bed, &admin, "giver", &["identity.read", "enrollment"]).await;
    let (_, auditor) = clerk(&bed, &admin, "auditor", &["admin_readonly"]).await;
    let new = |name: &str, permissions: Value| {
        json!({"name": name, "type": "Default", "isAdmin": false, "permissions": permissions,
            "enrollment": {"ott": true}})
    };
    let plain = bed.create(&admin, "createIdentity", new("plain", json!([]))).await;
    let known = ticket(&bed, &admin, &plain).await;
    assert_ne!(known["token"], "");
    assert_eq!(ticket(&bed, &giver, &plain).await, known);
    assert_eq!(ticket(&bed, &maker, &plain).await, known);
    let seen = ticket(&bed, &reader, &plain).await;
    assert_eq!((&seen["token"], &seen["jwt"]), (&json!(""), &json!("")));
    assert_eq!(seen["expiresAt"], known["expiresAt"]);
    // The holder of an identity's ticket gets its permissions.
    let body = new("privileged", json!(["service"]));
    let privileged = bed.create(&admin, "createIdentity", body).await;
    let known = ticket(&bed, &admin, &privileged).await;
    assert_ne!(known["token"], "");
    assert_eq!(ticket(&bed, &maker, &privileged).await, NONE);
    for clerk in [&giver, &auditor] {
        assert_eq!(ticket(&bed, clerk, &privileged).await, NONE);
        let list = bed.manage(clerk, "listEnrollments", &[], NONE).await.unwrap();
        assert!(!list.to_string().contains(known["token"].as_str().unwrap()));
    }
    let id = known["id"].as_str().unwrap();
    let expires = json!({"expiresAt": "2026-02-02T00:00:00Z"});
    let failure = refusal(&bed, &giver, "refreshEnrollment", id, expires).await;
    assert_eq!(failure.code(), ErrorCode::Unauthorized);
}

#[tokio::test]
async fn only_administrators_see_services_as_another_identity() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "laptop", "type": "Default", "isAdmin": false});
    let laptop = bed.create(&admin, "createIdentity", body).await;
    let reads = ["service.read", "identity.read"];
    let (_, reader) = clerk(&bed, &admin, "reader", &reads).await;
    let (_, auditor) = clerk(&bed, &admin, "auditor", &["admin_readonly"]).await;
    let list = async |caller: &Caller| {
        let call = to(Api::Management, "listServices", &[]);
        let call = call.with_query("asIdentity", &laptop).with_query("configTypes", "all");
        bed.controller.call(caller.clone(), call).await
    };
    for clerk in [&reader, &auditor] {
        assert_eq!(list(clerk).await.unwrap_err().code(), ErrorCode::Unauthorized);
        bed.manage(clerk, "listServices", &[], NONE).await.unwrap();
    }
    assert_eq!(list(&admin).await.unwrap().status, 200);
}

#[tokio::test]
async fn tickets_of_routers_are_for_those_who_may_change_routers() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (_, keeper) = clerk(&bed, &admin, "keeper", &["router"]).await;
    let may_make = ["router.read", "router.create"];
    let (_, maker) = clerk(&bed, &admin, "maker", &may_make).await;
    let (_, reader) = clerk(&bed, &admin, "reader", &["router.read"]).await;
    let (_, auditor) = clerk(&bed, &admin, "auditor", &["admin_readonly"]).await;
    let (_, giver) = clerk(&bed, &admin, "giver", &["enrollment"]).await;
    let (_, both) = clerk(&bed, &admin, "both", &["enrollment", "router.update"]).await;
    for (create, detail) in
        [("createEdgeRouter", "detailEdgeRouter"), ("createTransitRouter", "detailTransitRouter")]
    {
        let router = bed.create(&admin, create, json!({"name": create})).await;
        let show =
            async |caller: &Caller| bed.manage(caller, detail, &[&router], NONE).await.unwrap();
        let known = show(&keeper).await;
        assert!(known["enrollmentToken"].is_string() && known["enrollmentJwt"].is_string());
        assert_eq!(show(&maker).await["enrollmentToken"], known["enrollmentToken"]);
        for caller in [&reader, &auditor] {
            let seen = show(caller).await;
            assert_eq!((&seen["enrollmentToken"], &seen["enrollmentJwt"]), (&NONE, &NONE));
            assert_eq!(seen["enrollmentExpiresAt"], known["enrollmentExpiresAt"]);
        }
        tickets_are_told(&bed, &admin, &known, &[&both], &[&giver, &auditor]).await;
    }
}

/// Checks who is told the ticket of a router by the operations on enrollments, and who may renew it.
async fn tickets_are_told(
    bed: &Bed,
    admin: &Caller,
    router: &Value,
    told: &[&Caller],
    untold: &[&Caller],
) {
    let token = &router["enrollmentToken"];
    let all = bed.manage(admin, "listEnrollments", &[], NONE).await.unwrap();
    let its = all.as_array().unwrap().iter().find(|it| it["token"] == *token).unwrap();
    let id = its["id"].as_str().unwrap();
    let both = async |caller: &Caller| {
        let list = bed.manage(caller, "listEnrollments", &[], NONE).await.unwrap();
        let row = list.as_array().unwrap().iter().find(|it| it["id"] == id).unwrap().clone();
        [row, bed.manage(caller, "detailEnrollment", &[id], NONE).await.unwrap()]
    };
    for caller in untold {
        for seen in both(caller).await {
            assert_eq!((&seen["token"], &seen["jwt"]), (&json!(""), &json!("")));
            assert_eq!(seen["expiresAt"], its["expiresAt"]);
        }
    }
    for caller in told {
        for seen in both(caller).await {
            assert_eq!(seen["token"], *token);
            assert_ne!(seen["jwt"], "");
        }
    }
    let expires = json!({"expiresAt": "2026-02-02T00:00:00Z"});
    for caller in untold {
        let failure = refusal(bed, caller, "refreshEnrollment", id, expires.clone()).await;
        assert_eq!(failure.code(), ErrorCode::Unauthorized);
    }
    for caller in told {
        bed.manage(caller, "refreshEnrollment", &[id], expires.clone()).await.unwrap();
    }
}

#[tokio::test]
async fn filters_follow_links_only_to_what_their_caller_may_read() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let reads = ["service-policy.read"];
    let (_, clerk_of_policies) = clerk(&bed, &admin, "policies", &reads).await;
    let reads = ["service-policy.read", "identity.read"];
    let (_, clerk_of_both) = clerk(&bed, &admin, "both", &reads).await;
    let body = json!({"name": "all", "semantic": "AnyOf", "type": "Dial",
        "serviceRoles": ["#all"], "identityRoles": ["#all"]});
    bed.create(&admin, "createServicePolicy", body).await;
    let list = async |caller: &Caller, filter: &str| {
        let call = to(Api::Management, "listServicePolicies", &[]).with_query("filter", filter);
        bed.controller.call(caller.clone(), call).await
    };
    for filter in [
        "not isEmpty(from identities where isAdmin = true and name contains \"a\")",
        "count(from identities where name contains \"a\") > 0",
        "anyOf(identities.tags.x) = \"y\" or true",
        "count(identities) > 2",
        "anyOf(identities) contains \"a\" or true",
        "not isEmpty(identities)",
    ] {
        let failure = list(&clerk_of_policies, filter).await.unwrap_err();
        let found = (failure.status(), failure.code());
        assert_eq!(found, (400, ErrorCode::InvalidFilter), "{filter}");
        let found = list(&clerk_of_both, filter).await.unwrap().data();
        assert_eq!(found[0]["name"], "all", "{filter}");
    }
    let services = "isEmpty(from services where name = \"x\")";
    assert_eq!(list(&clerk_of_both, services).await.unwrap_err().status(), 400);
}

#[tokio::test]
async fn only_administrators_say_how_much_an_identity_may_have() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (own, clerk) = clerk(&bed, &admin, "clerk", &["identity", "router"]).await;
    let body =
        |tags: Value| json!({"name": "laptop", "type": "Default", "isAdmin": false, "tags": tags});
    let applied = async |caller: &Caller, tags: Value| {
        let network = json!({"identities": [body(tags)]});
        let call = to(Api::Weft, "applyChange", &[]).with_json(&json!({"network": network}));
        bed.controller.call(caller.clone(), call).await.map(drop)
    };
    let done = async |caller: &Caller, operation: &str, id: &[&str], body: Value| {
        bed.manage(caller, operation, id, body).await.map(drop)
    };
    for tag in ["weftMaxTerminators", "weftMaxCircuits"] {
        let much = json!({tag: 900_000});
        let fails = async |failure: Result<()>| {
            let failure = failure.unwrap_err();
            assert_eq!(failure.code(), ErrorCode::Unauthorized, "{failure}");
            assert!(failure.to_string().contains(tag), "{failure}");
        };
        fails(done(&clerk, "createIdentity", &[], body(much.clone())).await).await;
        fails(applied(&clerk, much.clone()).await).await;
        let laptop = bed.create(&admin, "createIdentity", body(json!({tag: 5}))).await;
        let patch = json!({"tags": much});
        fails(done(&clerk, "patchIdentity", &[&laptop], patch.clone()).await).await;
        fails(done(&clerk, "patchIdentity", &[&laptop], json!({"tags": {}})).await).await;
        fails(done(&clerk, "patchIdentity", &[&own], patch.clone()).await).await;
        // All else of it is the clerk's to change.
        let others = json!({"tags": {tag: 5, "floor": 3}, "roleAttributes": ["staff"]});
        done(&clerk, "patchIdentity", &[&laptop], others).await.unwrap();
        done(&admin, "patchIdentity", &[&laptop], patch).await.unwrap();
        for absurd in [json!(1_000_001), json!("1e9"), json!(-1), json!("many")] {
            let patch = json!({"tags": {tag: absurd}});
            let failure = done(&admin, "patchIdentity", &[&laptop], patch).await.unwrap_err();
            let failure = failure.to_string();
            let told = format!("{tag} must be a whole number from 0 to 1000000");
            assert!(failure.contains(&told), "{failure}");
            assert!(applied(&admin, json!({tag: absurd})).await.is_err());
        }
        done(&admin, "patchIdentity", &[&laptop], json!({"tags": {tag: " 1000000 "}}))
            .await
            .unwrap();
        applied(&admin, json!({})).await.unwrap();
        done(&clerk, "deleteIdentity", &[&laptop], NONE).await.unwrap();
    }
}
