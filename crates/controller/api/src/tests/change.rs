//! weft's own API over HTTP: a network as a document, there and back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;
use weft_contract::headers::MAX_BODY;
use weft_contract::resource::change::MAX_DOCUMENT;
use weft_store::InjectedFault;

use super::{Bed, LONG, MANAGEMENT, PASSWORD, Session, section, send};
use crate::ApiLimits;

const WEFT: &str = "/weft/v1";

fn services(count: usize, padding: usize) -> Value {
    let tag = "x".repeat(padding);
    let services: Vec<Value> = (0..count)
        .map(|at| json!({"name": format!("service-{at}"), "tags": {"padding": tag}}))
        .collect();
    json!({"network": {"services": services}})
}

#[tokio::test]
async fn a_network_goes_there_and_back() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let network = json!({
        "services": [{"name": "web", "roleAttributes": ["intranet"]}],
        "identities": [{"name": "laptop", "roleAttributes": ["staff"]}],
        "service-policies": [{"name": "staff", "type": "Dial", "identityRoles": ["#staff"],
            "serviceRoles": ["#intranet"]}],
    });
    let body = json!({"network": network});
    let planned = admin.call(Method::POST, &format!("{WEFT}/plan"), &body).await;
    assert_eq!(planned.status, 200, "{planned:?}");
    let planned = planned.data();
    assert_eq!((&planned["created"], &planned["applied"]), (&json!(3), &json!(false)));
    assert_eq!(planned["access"]["services"][0]["gainedBy"], json!(["laptop"]));
    let body = json!({"network": network, "expectPlan": planned["plan"]});
    let applied = admin.call(Method::POST, &format!("{WEFT}/apply"), &body).await;
    assert_eq!((applied.status, &applied.data()["applied"]), (200, &json!(true)), "{applied:?}");
    let read = admin.get(&format!("{WEFT}/network?sections=services,identities")).await;
    assert_eq!(read.data()["network"]["services"], network["services"]);
    assert_eq!(read.data()["network"]["identities"], network["identities"]);
    // The change is done already, so the expected fingerprint does not matter.
    let again = admin.call(Method::POST, &format!("{WEFT}/apply"), &body).await;
    assert_eq!((again.status, &again.data()["changes"]), (200, &json!([])), "{again:?}");
    let other = json!({"network": {"services": [{"name": "db"}]}, "expectPlan": planned["plan"]});
    let other = admin.call(Method::POST, &format!("{WEFT}/apply"), &other).await;
    other.is_error(409, "PLAN_HAS_CHANGED");

    let wrong = json!({"network": {"services": [{"name": "web", "configs": ["nope"]}]}});
    let refused = admin.call(Method::POST, &format!("{WEFT}/apply"), &wrong).await;
    let error = refused.is_error(400, "COULD_NOT_VALIDATE");
    let problem = &error["cause"]["data"][0];
    assert_eq!((&problem["section"], &problem["field"]), (&json!("services"), &json!("configs.0")));
    admin
        .get(&format!("{WEFT}/network?sections=nothing"))
        .await
        .is_error(400, "COULD_NOT_VALIDATE");
    admin.get(&format!("{WEFT}/nothing")).await.is_error(404, "NOT_FOUND");
}

/// Logs in an identity with these permissions.
async fn somebody<'b>(bed: &'b Bed, name: &str, permissions: &[&str]) -> Session<'b> {
    let admin = bed.admin().await;
    let body = json!({"name": name, "type": "User", "isAdmin": false, "permissions": permissions});
    let id = admin.create("identities", body).await;
    let login = json!({"method": "updb", "identityId": id, "username": name, "password": PASSWORD});
    admin.create("authenticators", login).await;
    let seen = bed.login_answer(MANAGEMENT, name, PASSWORD).await;
    bed.session(seen.header("zt-session").unwrap())
}

#[tokio::test]
async fn large_documents_are_taken_from_those_who_may_change_something() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let path = format!("{WEFT}/plan");
    let large = services(300, 10_000);
    assert!(large.to_string().len() > 2 * MAX_BODY);
    let small = services(1, 10);
    send(bed.request(Method::POST, &path).json(&small)).await.is_error(401, "UNAUTHORIZED");
    send(bed.request(Method::POST, &path).json(&large))
        .await
        .is_error(413, "REQUEST_ENTITY_TOO_LARGE");
    for (name, permissions, is_taken) in [
        ("plain", &[][..], false),
        ("reader", &["admin_readonly", "service.read", "ops.update"], false),
        ("keeper", &["service"], true),
        ("maker", &["service.create"], true),
    ] {
        let session = somebody(&bed, name, permissions).await;
        let seen = session.call(Method::POST, &path, &large).await;
        if is_taken {
            assert_eq!((seen.status, &seen.data()["created"]), (200, &json!(300)), "{name}");
        } else {
            seen.is_error(413, "REQUEST_ENTITY_TOO_LARGE");
            let seen = session.call(Method::POST, &path, &small).await;
            seen.is_error(401, "UNAUTHORIZED");
        }
    }
    let planned = admin.call(Method::POST, &path, &large).await;
    assert_eq!((planned.status, &planned.data()["created"]), (200, &json!(300)));

    let too_large = "x".repeat(MAX_DOCUMENT + 1);
    let request = bed.request(Method::POST, &path).header("zt-session", &admin.token);
    send(request.body(too_large)).await.is_error(413, "REQUEST_ENTITY_TOO_LARGE");
    // Operations without documents keep the usual limits, for every caller.
    for (method, path) in
        [(Method::POST, "/edge/management/v1/services"), (Method::GET, "/weft/v1/network")]
    {
        let request = bed.request(method, path).header("zt-session", &admin.token).json(&large);
        send(request).await.is_error(413, "REQUEST_ENTITY_TOO_LARGE");
    }
}

#[tokio::test]
async fn documents_have_more_time_than_others() {
    let limits = ApiLimits { handler_timeout: Duration::from_millis(1), ..ApiLimits::default() };
    let bed = Bed::with(section(), limits).await;
    let token = bed.controller.auth().open_operator_session().unwrap();
    let admin = bed.session(&token);
    bed.store.push(InjectedFault::Hangs);
    let body = json!({"name": "web", "encryptionRequired": true});
    let usual = admin.call(Method::POST, &format!("{MANAGEMENT}/services"), &body).await;
    // `OUTCOME_UNKNOWN` if the change was given to the store within the limit.
    assert_eq!(usual.status, 503);
    // The plan takes longer than the usual time limit, and less than that of documents.
    let seen = admin.call(Method::POST, &format!("{WEFT}/plan"), &services(1000, 10)).await;
    assert_eq!((seen.status, &seen.data()["created"]), (200, &json!(1000)));
}

#[tokio::test]
async fn what_is_answered_with_a_timeout_is_never_applied() {
    let limits = ApiLimits { document_timeout: Duration::ZERO, ..ApiLimits::default() };
    let bed = Bed::with(section(), limits).await;
    let admin = bed.admin().await;
    let before = bed.controller.kernel().snapshot().revision();
    let path = format!("{WEFT}/apply");
    admin.call(Method::POST, &path, &services(1000, 10)).await.is_error(503, "TIMEOUT");
    // The operation goes on; the end of the server waits for it.
    let Bed { controller, server, .. } = bed;
    server.shutdown(Duration::ZERO, LONG).await;
    assert_eq!(controller.kernel().snapshot().revision(), before);
}

#[tokio::test]
async fn what_is_being_written_when_the_time_is_over_has_an_unknown_outcome() {
    let limits = ApiLimits { document_timeout: Duration::from_secs(2), ..ApiLimits::default() };
    let bed = Bed::with(section(), limits).await;
    let admin = bed.admin().await;
    let written = Arc::new(Notify::new());
    bed.store.push(InjectedFault::Awaits(Arc::clone(&written)));
    let path = format!("{WEFT}/apply");
    let seen = admin.call(Method::POST, &path, &services(3, 10)).await;
    seen.is_error(503, "OUTCOME_UNKNOWN");
    written.notify_one();
    let deadline = Instant::now() + LONG;
    loop {
        let seen = admin.get(&format!("{MANAGEMENT}/services?limit=1")).await;
        if seen.json()["meta"]["pagination"]["totalCount"] == json!(3) {
            return;
        }
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_large_document_waits_for_a_place_before_anybody_is_asked() {
    let limits =
        ApiLimits { requests: 1, requests_per_source: 2, grace: 2 * LONG, ..ApiLimits::default() };
    let bed = Bed::with(section(), limits).await;
    // A request whose body does not come holds the only place.
    let mut stream = bed.connect(&[b"http/1.1"]).await;
    let head =
        "POST /authenticate?method=password HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let deadline = Instant::now() + LONG;
    while bed.get("/version").await.status != 429 {
        assert!(Instant::now() < deadline);
    }
    let request = bed.request(Method::POST, &format!("{WEFT}/plan"));
    send(request.json(&services(300, 10_000))).await.is_error(429, "SERVER_TOO_MANY_REQUESTS");
}
