//! The fabric API and its neighbours in the management API, over HTTP.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Bed, FABRIC, MANAGEMENT, Session};

const NONE: Value = Value::Null;

async fn made(admin: &Session<'_>, collection: &str, body: Value) -> String {
    let seen = admin.call(Method::POST, &format!("{FABRIC}/{collection}"), &body).await;
    assert_eq!(seen.status, 201, "{collection}: {seen:?}");
    let id = seen.data()["id"].as_str().unwrap().to_owned();
    assert_eq!(seen.data()["_links"]["self"]["href"], format!("./{collection}/{id}").as_str());
    id
}

/// A list, with its envelope checked.
async fn listed(session: &Session<'_>, path: &str) -> Vec<Value> {
    let seen = session.get(path).await;
    assert_eq!(seen.status, 200, "{path}: {seen:?}");
    let body = seen.json();
    let meta = &body["meta"];
    assert!(!meta["filterableFields"].as_array().unwrap().is_empty(), "{path}");
    let found = body["data"].as_array().unwrap().clone();
    assert_eq!(meta["pagination"]["totalCount"], found.len(), "{path}");
    found
}

#[tokio::test]
async fn services_routers_and_terminators_live_their_lives() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let service = made(&admin, "services", json!({"name": "mesh", "tags": {"a": 1}})).await;
    let router = json!({"id": "r1", "name": "one", "cost": 5, "noTraversal": false,
        "fingerprint": "A".repeat(40), "disabled": true});
    assert_eq!(made(&admin, "routers", router).await, "r1", "the caller chooses");
    let terminator = json!({"service": service, "router": "r1", "address": "tcp:localhost:80",
        "binding": "transport", "instanceId": "i", "instanceSecret": "c2VjcmV0", "cost": 3,
        "precedence": "required"});
    let terminator = made(&admin, "terminators", terminator).await;

    let shown = admin.get(&format!("{FABRIC}/services/{service}")).await.data();
    assert_eq!(
        (&shown["terminatorStrategy"], &shown["maxIdleTimeMillis"], &shown["tags"]),
        (&json!("smartrouting"), &json!(0), &json!({"a": 1}))
    );
    let shown = admin.get(&format!("{FABRIC}/routers/r1")).await.data();
    assert_eq!((&shown["cost"], &shown["disabled"]), (&json!(5), &json!(true)));
    assert_eq!(
        (&shown["fingerprint"], &shown["connected"]),
        (&json!("a".repeat(40)), &json!(false))
    );
    let shown = admin.get(&format!("{FABRIC}/terminators/{terminator}")).await.data();
    assert_eq!((&shown["instanceId"], &shown["precedence"]), (&json!("i"), &json!("required")));
    assert_eq!(
        (&shown["router"]["entity"], &shown["router"]["name"]),
        (&json!("routers"), &json!("one"))
    );
    assert_eq!(shown["service"]["name"], "mesh");
    for path in [format!("services/{service}"), "routers/r1".to_owned()] {
        let below = listed(&admin, &format!("{FABRIC}/{path}/terminators")).await;
        assert_eq!(below[0]["id"], terminator.as_str());
    }

    for (path, method, body, check) in [
        (
            format!("services/{service}"),
            Method::PATCH,
            json!({"maxIdleTimeMillis": 7}),
            ("maxIdleTimeMillis", json!(7)),
        ),
        (
            format!("services/{service}"),
            Method::PUT,
            json!({"name": "mesh2"}),
            ("maxIdleTimeMillis", json!(0)),
        ),
        (
            "routers/r1".into(),
            Method::PATCH,
            json!({"disabled": false}),
            ("disabled", json!(false)),
        ),
        (
            "routers/r1".into(),
            Method::PUT,
            json!({"name": "uno", "cost": 9, "noTraversal": true,
            "fingerprint": ""}),
            ("fingerprint", NONE),
        ),
        (
            format!("terminators/{terminator}"),
            Method::PATCH,
            json!({"hostId": "h"}),
            ("hostId", json!("h")),
        ),
    ] {
        let seen = admin.call(method.clone(), &format!("{FABRIC}/{path}"), &body).await;
        assert_eq!((seen.status, seen.data()), (200, json!({})), "{method} {path}: {seen:?}");
        let shown = admin.get(&format!("{FABRIC}/{path}")).await.data();
        assert_eq!(shown[check.0], check.1, "{method} {path}");
    }

    // The edge does not know the service. It shows the router, and changes neither.
    admin.get(&format!("{MANAGEMENT}/services/{service}")).await.is_error(404, "NOT_FOUND");
    let at = format!("{MANAGEMENT}/routers/r1");
    assert_eq!(admin.get(&at).await.data()["name"], "uno");
    let body = json!({"name": "dos"});
    admin.call(Method::PATCH, &at, &body).await.is_error(409, "CAN_NOT_UPDATE_ROUTER");

    for (method, path, body, status, field) in [
        (
            Method::POST,
            "routers",
            json!({"id": "r1", "name": "x", "cost": 1, "noTraversal": true}),
            400,
            "id",
        ),
        (Method::POST, "routers", json!({"name": "x", "cost": 1, "noTraversal": true}), 400, "id"),
        (
            Method::POST,
            "routers",
            json!({"id": "r2", "name": "uno", "cost": 1, "noTraversal": true}),
            400,
            "name",
        ),
        (
            Method::POST,
            "routers",
            json!({"id": "r2", "name": "x", "cost": 65_536, "noTraversal": true}),
            400,
            "cost",
        ),
        (
            Method::POST,
            "routers",
            json!({"id": "r2", "name": "x", "cost": 1, "noTraversal": true, "fingerprint": "zz"}),
            400,
            "fingerprint",
        ),
        (
            Method::POST,
            "services",
            json!({"name": "y", "terminatorStrategy": "odd"}),
            400,
            "terminatorStrategy",
        ),
        (
            Method::POST,
            "services",
            json!({"name": "y", "maxIdleTimeMillis": -1}),
            400,
            "maxIdleTimeMillis",
        ),
        (
            Method::POST,
            "terminators",
            json!({"service": "x", "router": "r1", "address": "a", "binding": "b"}),
            400,
            "service",
        ),
        (
            Method::POST,
            "terminators",
            json!({"service": service, "router": "x", "address": "a", "binding": "b"}),
            400,
            "router",
        ),
        (
            Method::POST,
            "terminators",
            json!({"service": service, "router": "r1", "address": "", "binding": "b"}),
            400,
            "address",
        ),
        (
            Method::POST,
            "terminators",
            json!({"service": service, "router": "r1", "address": "a", "binding": "b", "instanceSecret": "?"}),
            400,
            "instanceSecret",
        ),
    ] {
        let seen = admin.call(method, &format!("{FABRIC}/{path}"), &body).await;
        let error = seen.is_error(status, "COULD_NOT_VALIDATE");
        assert_eq!(error["cause"]["field"], field, "{body}");
    }
    for path in
        [format!("terminators/{terminator}"), format!("services/{service}"), "routers/r1".into()]
    {
        let at = format!("{FABRIC}/{path}");
        assert_eq!(admin.call(Method::DELETE, &at, &NONE).await.status, 200, "{path}");
        admin.get(&at).await.is_error(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn the_fabric_shows_and_changes_what_the_edge_made() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "web", "encryptionRequired": true, "roleAttributes": ["x"]});
    let service = admin.create("services", body).await;
    let router =
        admin.create("edge-routers", json!({"name": "er1", "isTunnelerEnabled": true})).await;
    assert_eq!(listed(&admin, &format!("{FABRIC}/routers?filter=name=%22er1%22")).await.len(), 1);
    let at = format!("{FABRIC}/services/{service}");
    let seen = admin.call(Method::PUT, &at, &json!({"name": "web2"})).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    let edge = admin.get(&format!("{MANAGEMENT}/services/{service}")).await.data();
    assert_eq!((&edge["name"], &edge["encryptionRequired"]), (&json!("web2"), &json!(true)));
    assert_eq!(edge["roleAttributes"], json!(["x"]));
    let at = format!("{FABRIC}/routers/{router}");
    let seen = admin.call(Method::PATCH, &at, &json!({"name": "er2"})).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    let identity = admin.get(&format!("{MANAGEMENT}/identities/{router}")).await.data();
    assert_eq!(identity["name"], "er2", "its tunneler goes by the same name");
    assert_eq!(admin.call(Method::DELETE, &at, &NONE).await.status, 200);
    admin.get(&format!("{MANAGEMENT}/identities/{router}")).await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn routers_without_edge_are_offered_under_two_paths() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for path in ["routers", "transit-routers"] {
        let base = format!("{MANAGEMENT}/{path}");
        let body = json!({"name": path, "cost": 4, "disabled": true, "noTraversal": true});
        let seen = admin.call(Method::POST, &base, &body).await;
        assert_eq!(seen.status, 201, "{seen:?}");
        let id = seen.data()["id"].as_str().unwrap().to_owned();
        assert_eq!(
            seen.data()["_links"]["self"]["href"],
            format!("./transit-routers/{id}").as_str()
        );
        let at = format!("{base}/{id}");
        let shown = admin.get(&at).await.data();
        assert_eq!((&shown["disabled"], &shown["isVerified"]), (&json!(true), &json!(false)));
        assert!(shown["enrollmentJwt"].as_str().unwrap().split('.').count() == 3);
        assert!(shown["enrollmentExpiresAt"].is_string() && shown["fingerprint"].is_null());
        let token = shown["enrollmentToken"].as_str().unwrap();
        let enrollments = listed(&admin, &format!("{MANAGEMENT}/enrollments")).await;
        assert!(enrollments.iter().any(|it| it["token"] == token && it["method"] == "trott"));
        for (method, body) in
            [(Method::PUT, json!({"name": "again"})), (Method::PATCH, json!({"cost": 8}))]
        {
            assert_eq!(admin.call(method, &at, &body).await.status, 200);
        }
        let shown = admin.get(&at).await.data();
        assert_eq!(
            (&shown["name"], &shown["cost"], &shown["disabled"]),
            (&json!("again"), &json!(8), &json!(false))
        );
        assert_eq!(listed(&admin, &format!("{base}?filter=cost=8")).await.len(), 1);
        assert_eq!(admin.call(Method::DELETE, &at, &NONE).await.status, 200);
        admin.get(&at).await.is_error(404, "NOT_FOUND");
        assert!(listed(&admin, &format!("{MANAGEMENT}/enrollments")).await.is_empty());
    }
    let edge = admin.create("edge-routers", json!({"name": "er1"})).await;
    let at = format!("{MANAGEMENT}/transit-routers/{edge}");
    let shown = admin.get(&at).await.data();
    assert_eq!(shown["name"], "er1", "references lead here");
    assert_eq!(shown["isVerified"], false, "as among edge routers");
    let body = json!({"name": "er2"});
    admin.call(Method::PUT, &at, &body).await.is_error(409, "CAN_NOT_UPDATE_ROUTER");
}

#[tokio::test]
async fn operators_and_auditors_see_what_is_theirs() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let mut who = Vec::new();
    for (name, permissions) in [
        ("plain", json!([])),
        ("auditor", json!(["admin_readonly"])),
        ("operator", json!(["ops"])),
        ("reader", json!(["ops.read"])),
        ("ender", json!(["ops.delete"])),
    ] {
        let body =
            json!({"name": name, "type": "Default", "isAdmin": false, "permissions": permissions});
        let id = admin.create("identities", body).await;
        let body =
            json!({"identityId": id, "method": "updb", "username": name, "password": "geheimnis"});
        admin.create("authenticators", body).await;
        let seen = bed.login_answer(MANAGEMENT, name, "geheimnis").await;
        who.push((name, bed.session(seen.header("zt-session").unwrap())));
    }
    let inspect = json!({"appRegex": "nobody", "requestedValues": ["links"]});
    for (method, path, body, allowed) in [
        (Method::GET, "links", NONE, &["auditor", "operator", "reader"][..]),
        (Method::GET, "circuits", NONE, &["auditor", "operator", "reader"]),
        (Method::DELETE, "circuits/x", NONE, &["operator", "ender"]),
        (Method::DELETE, "links/x", NONE, &["operator", "ender"]),
        (Method::PATCH, "links/x", json!({"down": true}), &["operator"]),
        (Method::POST, "inspections", inspect, &["operator", "reader"]),
        (Method::GET, "services", NONE, &["auditor"]),
        (Method::GET, "routers", NONE, &["auditor"]),
        (Method::GET, "terminators", NONE, &["auditor"]),
        (Method::GET, "database/data-integrity-results", NONE, &["auditor"]),
        (Method::POST, "database/check-data-integrity", NONE, &[]),
        (Method::POST, "database", NONE, &[]),
        (Method::GET, "cluster/list-members", NONE, &["auditor"]),
    ] {
        let at = format!("{FABRIC}/{path}");
        for (name, session) in &who {
            let seen = session.call(method.clone(), &at, &body).await;
            let refused = seen.status == 401;
            assert_eq!(!refused, allowed.contains(name), "{name} {method} {path}: {seen:?}");
        }
        let seen = bed.request(method.clone(), &at).send().await.unwrap();
        assert_eq!(seen.status().as_u16(), 401, "nobody {method} {path}");
    }
    // Tokens of sessions are shown to administrators only.
    let (_, reader) = who.iter().find(|(name, _)| *name == "reader").unwrap();
    let all = listed(reader, &format!("{MANAGEMENT}/api-sessions?limit=-1")).await;
    assert!(all.len() > who.len() && all.iter().all(|it| it["token"] == ""), "{all:?}");
    let all = listed(&admin, &format!("{MANAGEMENT}/api-sessions?limit=-1")).await;
    assert!(all.iter().any(|it| it["token"] == admin.token.as_str()));
    let guess = format!("{MANAGEMENT}/api-sessions?filter=token%20contains%20%22a%22");
    reader.get(&guess).await.is_error(400, "INVALID_FILTER");
}

#[tokio::test]
async fn a_controller_alone_has_no_cluster_and_a_network_that_is_not_up_says_so() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for (method, path, body) in [
        (Method::GET, "list-members", NONE),
        (Method::POST, "add-member", json!({"address": "tls:x:1", "isVoter": true})),
        (Method::POST, "remove-member", json!({"id": "x"})),
        (Method::POST, "transfer-leadership", json!({})),
    ] {
        let at = format!("{FABRIC}/cluster/{path}");
        admin.call(method, &at, &body).await.is_error(400, "SERVER_NOT_RUNNING_IN_HA_MODE");
    }
    // No network runs behind these tests.
    assert!(listed(&admin, &format!("{FABRIC}/links")).await.is_empty());
    assert!(listed(&admin, &format!("{FABRIC}/circuits")).await.is_empty());
    let at = format!("{FABRIC}/circuits/x");
    assert_eq!(admin.call(Method::DELETE, &at, &NONE).await.status, 503);
    admin.get(&format!("{FABRIC}/raft/list-members")).await.is_error(404, "NOT_FOUND");
    admin.get(&format!("{FABRIC}//routers/")).await;
    let versions = bed.get("/version").await.data();
    assert_eq!(versions["apiVersions"]["fabric"]["v1"]["path"], FABRIC);
}

#[tokio::test]
async fn databases_are_checked_over_both_apis() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for base in [MANAGEMENT, FABRIC] {
        let start = format!("{base}/database/check-data-integrity");
        let seen = admin.call(Method::POST, &start, &NONE).await;
        assert_eq!((seen.status, seen.data()), (202, json!({})));
        let results = format!("{base}/database/data-integrity-results");
        loop {
            let seen = admin.get(&results).await;
            assert_eq!(seen.json()["meta"]["pagination"]["limit"], -1);
            if seen.data()["inProgress"] == false {
                assert_eq!(seen.data()["results"], json!([]));
                break;
            }
        }
        // This store is in memory, without a file.
        let snapshot = format!("{base}/database/snapshot");
        let seen = admin.call(Method::POST, &snapshot, &NONE).await;
        assert_eq!(seen.is_error(400, "COULD_NOT_VALIDATE")["cause"]["field"], "path");
    }
    let at = format!("{FABRIC}/database/snapshot");
    for path in ["/etc/weft-copy", "../weft-copy"] {
        let seen = admin.call(Method::POST, &at, &json!({"path": path})).await;
        assert_eq!(seen.is_error(400, "COULD_NOT_VALIDATE")["cause"]["field"], "path", "{path}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("__DATE__-copy");
    let body = json!({"path": path.to_str().unwrap()});
    let seen = admin.call(Method::POST, &at, &body).await;
    let written = seen.data()["path"].as_str().unwrap().to_owned();
    assert!(std::path::Path::new(&written).exists() && !written.contains("__"), "{written}");
    let seen = admin.call(Method::POST, &at, &body).await;
    seen.is_error(429, "RATE_LIMITED");
    assert!(seen.header("retry-after").unwrap().parse::<u32>().unwrap() <= 60);
}
