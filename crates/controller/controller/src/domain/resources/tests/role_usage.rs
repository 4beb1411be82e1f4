use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode};

use super::NONE;
use crate::testing::{Bed, to};

#[tokio::test]
async fn attributes_say_who_bears_and_who_names_them() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let identity = |name: &str, attributes: Value| json!({"name": name, "type": "Default", "isAdmin": false, "roleAttributes": attributes});
    let a = bed.create(&admin, "createIdentity", identity("a", json!(["staff", "x"]))).await;
    bed.create(&admin, "createIdentity", identity("b", json!(["staff"]))).await;
    let policy = json!({"name": "p", "type": "Dial", "semantic": "AnyOf",
        "identityRoles": ["#staff", "#nobody"], "serviceRoles": ["#all"]});
    let policy = bed.create(&admin, "createServicePolicy", policy).await;
    let everybody = json!({"name": "e", "semantic": "AnyOf", "identityRoles": ["#all"]});
    bed.create(&admin, "createEdgeRouterPolicy", everybody).await;

    let list = |operation: &'static str, query: Vec<(&'static str, &'static str)>| {
        let call = to(Api::Management, operation, &[]);
        let call = query.into_iter().fold(call, |call, (name, value)| call.with_query(name, value));
        bed.controller.call(admin.clone(), call)
    };
    let usage = "listIdentityRoleAttributeUsage";
    let all = list(usage, vec![("limit", "1")]).await.unwrap().data();
    let names: Vec<_> = all.as_array().unwrap().iter().map(|it| &it["roleAttribute"]).collect();
    assert_eq!(names, ["nobody", "staff", "x"], "only the filter pages");
    assert_eq!(
        all[1]["usage"],
        json!({"identities": {"count": 2},
        "servicePolicies": {"count": 1}, "edgeRouterPolicies": {"count": 0}})
    );

    let query = vec![("withIds", "true"), ("filter", "id contains \"x\" or id = \"nobody\"")];
    let some = list(usage, query).await.unwrap().data();
    assert_eq!(some[0]["usage"]["servicePolicies"], json!({"count": 1, "ids": [policy]}));
    assert_eq!(some[0]["usage"]["identities"], json!({"count": 0, "ids": []}));
    assert_eq!(some[1]["usage"]["identities"]["ids"], json!([a]));
    let wrong = list(usage, vec![("withIds", "maybe")]).await.unwrap_err();
    assert_eq!(wrong.field_name(), Some("withIds"));
    let wrong = list(usage, vec![("filter", "name = \"x\"")]).await.unwrap_err();
    assert_eq!(wrong.code(), ErrorCode::InvalidFilter);

    let services = list("listServiceRoleAttributeUsage", vec![]).await.unwrap();
    assert_eq!(services.data(), json!([]), "`#all` is no attribute");
    for operation in ["listEdgeRouterRoleAttributeUsage", "listPostureCheckRoleAttributeUsage"] {
        assert_eq!(bed.manage(&admin, operation, &[], NONE).await.unwrap(), json!([]));
    }
}

#[tokio::test]
async fn policies_are_counted_for_those_who_may_read_them() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "web", "encryptionRequired": true, "roleAttributes": ["web"]});
    bed.create(&admin, "createService", body).await;
    let policy = json!({"name": "p", "type": "Dial", "semantic": "AnyOf",
        "identityRoles": ["#all"], "serviceRoles": ["#web", "#mail"]});
    let policy = bed.create(&admin, "createServicePolicy", policy).await;
    let usage = async |permissions: Value| {
        let body = json!({"name": permissions.to_string(), "type": "Default", "isAdmin": false,
            "permissions": permissions});
        let reader = bed.create(&admin, "createIdentity", body).await;
        let body = json!({"identityId": reader, "method": "updb", "username": reader,
            "password": "geheimnis"});
        bed.create(&admin, "createAuthenticator", body).await;
        let reader = bed.login(&reader, "geheimnis").await.unwrap();
        let call = to(Api::Management, "listServiceRoleAttributeUsage", &[]);
        bed.controller.call(reader, call.with_query("withIds", "true")).await.unwrap().data()
    };
    let own = usage(json!(["service.read"])).await;
    assert_eq!(own.as_array().unwrap().len(), 1, "{own}");
    assert_eq!(own[0]["usage"].as_object().unwrap().keys().collect::<Vec<_>>(), ["services"]);
    let more = usage(json!(["service.read", "service-policy.read"])).await;
    assert_eq!(more[0]["roleAttribute"], "mail");
    let named = json!({"count": 1, "ids": [policy]});
    assert_eq!(more[1]["usage"]["servicePolicies"], named);
    assert_eq!(more[1]["usage"].get("serviceEdgeRouterPolicies"), None);
}
