//! Every resource through its life, over HTTP.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Bed, MANAGEMENT, Session};

/// A resource, a body that creates one, a full replacement and a patch.
struct Life {
    collection: &'static str,
    create: Value,
    replace: Value,
    patch: Value,
    /// A member that the patch changes.
    patched: &'static str,
}

async fn live(admin: &Session<'_>, life: &Life) {
    let collection = life.collection;
    let base = format!("{MANAGEMENT}/{collection}");
    let id = admin.create(collection, life.create.clone()).await;
    let at = format!("{base}/{id}");

    let detail = admin.get(&at).await;
    assert_eq!(detail.status, 200, "{detail:?}");
    assert_eq!(detail.header("content-type"), Some("application/json"));
    let data = detail.data();
    assert_eq!(data["id"], id.as_str());
    assert!(data["tags"].is_object() && data["_links"]["self"]["href"].is_string());
    assert!(detail.header("content-length").is_some());

    let filter = format!("?filter=id%20%3D%20%22{id}%22&limit=5&offset=0&sort=id%20%20asc");
    let list = admin.get(&format!("{base}{filter}")).await.json();
    assert_eq!(list["data"].as_array().unwrap().len(), 1, "{collection}: {list}");
    assert_eq!(list["meta"]["pagination"], json!({"limit": 5, "offset": 0, "totalCount": 1}));
    assert!(!list["meta"]["filterableFields"].as_array().unwrap().is_empty());

    for (method, body) in [(Method::PUT, &life.replace), (Method::PATCH, &life.patch)] {
        let seen = admin.call(method.clone(), &at, body).await;
        assert_eq!((seen.status, seen.data()), (200, json!({})), "{method} {collection}: {seen:?}");
    }
    let data = admin.get(&at).await.data();
    assert_eq!(data[life.patched], life.patch[life.patched], "{collection}");

    let seen = admin.call(Method::DELETE, &at, &Value::Null).await;
    assert_eq!((seen.status, seen.data()), (200, json!({})), "{collection}: {seen:?}");
    admin.get(&at).await.is_error(404, "NOT_FOUND");
    admin.call(Method::DELETE, &at, &Value::Null).await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn every_resource_is_made_listed_changed_and_removed() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let policy = |name: &str, roles: Value| {
        let mut body = json!({"name": name, "semantic": "AnyOf"});
        body.as_object_mut().unwrap().extend(roles.as_object().unwrap().clone());
        body
    };
    let router_policy = json!({"edgeRouterRoles": ["#all"], "identityRoles": ["#all"]});
    let service_router_policy = json!({"edgeRouterRoles": ["#all"], "serviceRoles": ["#all"]});
    let service_policy =
        json!({"type": "Dial", "serviceRoles": ["#all"], "identityRoles": ["#all"]});
    let lives = [
        Life {
            collection: "identities",
            create: json!({"name": "laptop", "type": "Default", "isAdmin": false}),
            replace: json!({"name": "laptop2", "type": "Default", "isAdmin": false}),
            patch: json!({"roleAttributes": ["a", "b"]}),
            patched: "roleAttributes",
        },
        Life {
            collection: "services",
            create: json!({"name": "web", "encryptionRequired": true}),
            replace: json!({"name": "web2"}),
            patch: json!({"roleAttributes": ["x"], "more": "ignored"}),
            patched: "roleAttributes",
        },
        Life {
            collection: "edge-routers",
            create: json!({"name": "er1"}),
            replace: json!({"name": "er2"}),
            patch: json!({"cost": 7}),
            patched: "cost",
        },
        Life {
            collection: "edge-router-policies",
            create: policy("erp", router_policy.clone()),
            replace: policy("erp2", router_policy),
            patch: json!({"semantic": "AllOf"}),
            patched: "semantic",
        },
        Life {
            collection: "service-edge-router-policies",
            create: policy("serp", service_router_policy.clone()),
            replace: policy("serp2", service_router_policy),
            patch: json!({"name": "serp3"}),
            patched: "name",
        },
        Life {
            collection: "service-policies",
            create: policy("sp", service_policy.clone()),
            replace: policy("sp2", service_policy),
            patch: json!({"type": "Bind"}),
            patched: "type",
        },
        Life {
            collection: "config-types",
            create: json!({"name": "own.v1", "schema": {"type": "object"}}),
            replace: json!({"name": "own.v2", "schema": {"type": "object"}}),
            patch: json!({"name": "own.v3"}),
            patched: "name",
        },
    ];
    for life in &lives {
        live(&admin, life).await;
    }

    for (name, none) in
        [("n1", json!({})), ("n2", json!({"schema": {}})), ("n3", json!({"schema": null}))]
    {
        let mut body = none;
        body["name"] = name.into();
        let free = admin.create("config-types", body).await;
        let shown = admin.get(&format!("/config-types/{free}")).await;
        assert_eq!(shown.data()["schema"], Value::Null, "{name}");
        let config = json!({"name": name, "configTypeId": free, "data": {"any": 1}});
        admin.create("configs", config).await;
    }

    let kind = admin.create("config-types", json!({"name": "t", "schema": {"type": "object"}}));
    let kind = kind.await;
    let config = json!({"name": "c", "configTypeId": kind, "data": {"port": 80}});
    live(
        &admin,
        &Life {
            collection: "configs",
            create: config,
            replace: json!({"name": "c2", "data": {"port": 81}}),
            patch: json!({"data": {"port": 82}}),
            patched: "data",
        },
    )
    .await;
}

#[tokio::test]
async fn terminators_and_enrollments_have_their_own_verbs() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let service = admin.create("services", json!({"name": "web", "encryptionRequired": true}));
    let service = service.await;
    let router = admin.create("edge-routers", json!({"name": "er1"})).await;
    live(
        &admin,
        &Life {
            collection: "terminators",
            create: json!({"service": service, "router": router, "binding": "transport",
                "address": "tcp:localhost:80"}),
            replace: json!({"service": service, "router": router, "binding": "transport",
                "address": "tcp:localhost:81"}),
            patch: json!({"cost": 9}),
            patched: "cost",
        },
    )
    .await;

    let identity = json!({"name": "laptop", "type": "Default", "isAdmin": false});
    let identity = admin.create("identities", identity).await;
    let enrollment = json!({"identityId": identity, "method": "ott",
        "expiresAt": "2099-01-01T00:00:00Z"});
    let enrollment = admin.create("enrollments", enrollment).await;
    let list = admin.get(&format!("{MANAGEMENT}/enrollments?limit=-1")).await.json();
    assert!(list["meta"]["pagination"]["limit"] == i64::MAX, "{list}");
    let jwt = admin.get(&format!("{MANAGEMENT}/enrollments/{enrollment}")).await.data();
    assert_eq!(jwt["jwt"].as_str().unwrap().split('.').count(), 3);
    let at = format!("{MANAGEMENT}/enrollments/{enrollment}");
    assert_eq!(admin.call(Method::DELETE, &at, &Value::Null).await.status, 200);

    let reenroll = format!("{MANAGEMENT}/edge-routers/{router}/re-enroll");
    assert_eq!(admin.call(Method::POST, &reenroll, &Value::Null).await.status, 200);
}

#[tokio::test]
async fn lists_take_roles_sorts_and_pages() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for (name, role) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let body = json!({"name": name, "encryptionRequired": true, "roleAttributes": [role]});
        admin.create("services", body).await;
    }
    let names = async |query: &str| {
        let list = admin.get(&format!("{MANAGEMENT}/services?{query}")).await.data();
        let all = list.as_array().unwrap().iter();
        all.map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("")
    };
    assert_eq!(names("roleFilter=%23x&sort=name%20desc&rejectUnauthorized=false").await, "ca");
    assert_eq!(names("roleFilter=%23x&roleFilter=%23y&roleSemantic=anyof&sort=name").await, "abc");
    assert_eq!(names("limit=1&offset=1&sort=name").await, "b");
    assert_eq!(names("filter=true%20sort%20by%20name%20skip%202%20limit%20none").await, "c");
    let error = admin.get(&format!("{MANAGEMENT}/services?limit=many")).await;
    assert_eq!(error.is_error(400, "INVALID_PAGINATION")["cause"]["field"], "limit");
    let attributes = admin.get(&format!("{MANAGEMENT}/service-role-attributes")).await.data();
    assert_eq!(attributes, json!(["x", "y"]));
    let summary = admin.get(&format!("{MANAGEMENT}/summary")).await.data();
    assert_eq!(summary["services"], 3);
    for collection in ["auth-policies", "authenticators", "controllers", "identity-types"] {
        let list = admin.get(&format!("{MANAGEMENT}/{collection}")).await;
        assert_eq!(list.status, 200, "{collection}: {list:?}");
        assert!(!list.data().as_array().unwrap().is_empty(), "{collection}");
        assert!(list.json()["meta"]["pagination"]["totalCount"].is_number());
    }
}
