//! The documented form of refusals, and paths that no API has.

use reqwest::Method;
use serde_json::{Value, json};
use weft_config::WebServer;
use weft_config::web::{AllowedOrigins, WebOptions};

use super::{Bed, CLIENT, MANAGEMENT, USERNAME, section, send};
use crate::ApiLimits;

#[tokio::test]
async fn unknown_paths_and_methods() {
    let bed = Bed::new().await;
    for path in ["/nothing", "/edge/management/v1/nothing", "/fabric/v1/nothing", "/edge/x"] {
        bed.get(path).await.is_error(404, "NOT_FOUND");
    }
    let seen = send(bed.request(Method::DELETE, &format!("{MANAGEMENT}/services"))).await;
    seen.is_error(405, "METHOD_NOT_ALLOWED");
    assert_eq!(seen.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
    let head = send(bed.request(Method::HEAD, "/version")).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
}

#[tokio::test]
async fn who_is_not_logged_in_is_told_what_is_missing() {
    let bed = Bed::new().await;
    let seen = bed.get(&format!("{MANAGEMENT}/identities")).await;
    seen.is_error(401, "UNAUTHORIZED");
    let challenge = seen.header("www-authenticate").unwrap();
    assert!(challenge.starts_with("zt-session realm=\"zt-session\" error=\"missing\""));
    assert!(challenge.contains(",Bearer realm=\"openziti-oidc\" error=\"missing\""));

    let stranger = bed.session("5d1d7c4e-0000-4000-8000-000000000000");
    let seen = stranger.get("/current-api-session").await;
    seen.is_error(401, "UNAUTHORIZED");
    assert!(seen.header("www-authenticate").unwrap().contains("error=\"invalid\""));

    let request = bed.request(Method::GET, &format!("{MANAGEMENT}/identities"));
    let seen = send(request.bearer_auth("eyJ.x.y")).await;
    seen.is_error(401, "UNAUTHORIZED");
    assert!(seen.header("www-authenticate").unwrap().starts_with("Bearer realm"));

    let seen = bed.login_answer(CLIENT, USERNAME, "falsch").await;
    assert_eq!(seen.is_error(401, "INVALID_AUTH")["cause"], Value::Null);
    assert_eq!(seen.header("www-authenticate"), None);
    let seen = send(bed.request(Method::POST, "/authenticate?method=charm")).await;
    seen.is_error(400, "INVALID_AUTH_METHOD");
}

#[tokio::test]
async fn bodies_are_refused_field_by_field() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let post = async |body: &'static str, media: &'static str| {
        let request = bed
            .request(Method::POST, &format!("{MANAGEMENT}/services"))
            .header("zt-session", &admin.token)
            .header("content-type", media)
            .body(body);
        send(request).await
    };
    let json = "application/json; charset=utf-8";
    post("{\"name\":", json).await.is_error(400, "COULD_NOT_PARSE_BODY");
    post("", json).await.is_error(400, "COULD_NOT_PARSE_BODY");
    post("[]", json).await.is_error(400, "COULD_NOT_PARSE_BODY");
    let error = post("{\"name\":\"x\"}", json).await.is_error(400, "COULD_NOT_VALIDATE");
    assert_eq!(error["cause"]["field"], "encryptionRequired");
    let error = post("{\"name\":5}", json).await.is_error(400, "COULD_NOT_VALIDATE");
    assert_eq!(error["cause"]["field"], "name");
    assert!(error["cause"]["reason"].as_str().unwrap().contains("string"));
    let good = "{\"name\":\"x\",\"encryptionRequired\":true}";
    assert_eq!(post(good, json).await.status, 201);
    let error = post(good, json).await.is_error(400, "COULD_NOT_VALIDATE");
    assert_eq!((&error["cause"]["field"], &error["cause"]["value"]), (&json!("name"), &json!("x")));
}

#[tokio::test]
async fn media_types_that_do_not_fit_are_refused() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let good = "{\"name\":\"x\",\"encryptionRequired\":true}";
    let services = format!("{MANAGEMENT}/services");
    for media in ["application/x-www-form-urlencoded", "text/yaml", "json", ""] {
        let request = bed.request(Method::POST, &services).header("zt-session", &admin.token);
        let request =
            if media.is_empty() { request } else { request.header("content-type", media) };
        let error = send(request.body(good)).await.is_error(415, "COULD_NOT_VALIDATE");
        assert_eq!(error["cause"]["field"], "Content-Type");
        assert_eq!(error["cause"]["value"], media);
        assert!(error["cause"]["reason"].as_str().unwrap().contains("send application/json"));
    }
    let get = async |path: &str, accept: &'static str| {
        send(bed.request(Method::GET, path).header("accept", accept)).await
    };
    for (path, accept) in [
        ("/version", "text/html"),
        ("/edge/management/v1/version", "application/json;q=0"),
        ("/.well-known/est/cacerts", "text/html"),
        ("/edge/client/v1/specs/edge-client/spec", "application/xml"),
    ] {
        let error = get(path, accept).await.is_error(406, "COULD_NOT_VALIDATE");
        assert_eq!(error["cause"]["field"], "Accept");
    }
    for (path, accept, media) in [
        ("/version", "*", "application/json"),
        ("/version", "text/html, */*;q=0.1", "application/json"),
        ("/version", "application/*", "application/json"),
        ("/.well-known/est/cacerts", "application/pkcs7-mime", "application/pkcs7-mime"),
        ("/.well-known/est/cacerts", "application/json", "application/pkcs7-mime"),
        ("/edge/client/v1/specs/edge-client/spec", "text/yaml", "text/yaml"),
    ] {
        let seen = get(path, accept).await;
        assert_eq!((seen.status, seen.header("content-type")), (200, Some(media)), "{path}");
    }
    // An unknown path is 404, whatever media types the client accepts.
    get("/edge/management/v1/nothing", "text/html").await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn refusals_of_the_model_keep_their_code() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let seen = admin.get(&format!("{MANAGEMENT}/services?filter=nonsense%20here")).await;
    seen.is_error(400, "INVALID_FILTER");
    admin
        .get(&format!("{MANAGEMENT}/services?sort=secret"))
        .await
        .is_error(400, "INVALID_SORT_IDENTIFIER");
    let seen = admin.get(&format!("{MANAGEMENT}/services/%2e%2e%2fx")).await;
    let error = seen.is_error(404, "NOT_FOUND");
    assert!(error["cause"]["message"].as_str().unwrap().contains("../x"));
    let kind = admin.create("config-types", json!({"name": "t", "schema": {"type": "object"}}));
    let kind = kind.await;
    admin.create("configs", json!({"name": "c", "configTypeId": kind, "data": {}})).await;
    let at = format!("{MANAGEMENT}/config-types/{kind}");
    let seen = admin.call(Method::DELETE, &at, &Value::Null).await;
    seen.is_error(409, "CAN_NOT_DELETE_REFERENCED_ENTITY");
}

/// A network whose APIs pages of these origins may call.
async fn open_to(allowed_origins: AllowedOrigins) -> Bed {
    let options = WebOptions { allowed_origins, ..WebOptions::default() };
    Bed::with(WebServer { options, ..section() }, ApiLimits::default()).await
}

const CONSOLE: &str = "https://console.example";

fn preflight(bed: &Bed, origin: &str) -> reqwest::RequestBuilder {
    bed.request(Method::OPTIONS, &format!("{MANAGEMENT}/identities"))
        .header("origin", origin)
        .header("access-control-request-method", "PATCH")
        .header("access-control-request-headers", "zt-session")
}

#[tokio::test]
async fn pages_of_other_origins_get_no_leave_unless_it_is_configured() {
    let bed = Bed::new().await;
    let path = format!("{MANAGEMENT}/identities");
    let page = bed.request(Method::GET, &path).header("origin", CONSOLE);
    for seen in [send(preflight(&bed, CONSOLE)).await, send(page).await] {
        let told = |name: &str| seen.header(name).map(str::to_owned);
        assert_eq!(told("access-control-allow-origin"), None);
        assert_eq!(told("access-control-allow-methods"), None);
        assert_eq!(told("access-control-allow-credentials"), None);
    }
}

#[tokio::test]
async fn pages_of_the_origins_that_are_named_get_leave_and_no_others() {
    let bed = open_to(AllowedOrigins::Named(vec![CONSOLE.to_owned()])).await;
    let seen = send(preflight(&bed, CONSOLE)).await;
    assert_eq!(seen.status, 200);
    assert_eq!(seen.header("access-control-allow-origin"), Some(CONSOLE));
    assert!(seen.header("access-control-allow-methods").unwrap().contains("PATCH"));
    assert_eq!(seen.header("vary"), Some("origin"));
    let path = format!("{MANAGEMENT}/identities");
    for (origin, told) in [
        (CONSOLE, Some(CONSOLE)),
        ("https://console.example.evil", None),
        ("http://console.example", None),
        ("https://console.example:8443", None),
        ("null", None),
    ] {
        let seen = send(bed.request(Method::GET, &path).header("origin", origin)).await;
        assert_eq!(seen.header("access-control-allow-origin"), told, "{origin}");
        let seen = send(preflight(&bed, origin)).await;
        assert_eq!(seen.header("access-control-allow-origin"), told, "{origin}");
    }
}

#[tokio::test]
async fn browsers_get_leave_without_their_origin_repeated() {
    let bed = open_to(AllowedOrigins::Any).await;
    let path = format!("{MANAGEMENT}/identities");
    let seen = send(preflight(&bed, CONSOLE)).await;
    assert_eq!(seen.status, 200);
    assert_eq!(seen.header("access-control-allow-origin"), Some("*"));
    assert!(seen.header("access-control-allow-methods").unwrap().contains("PATCH"));
    assert!(seen.header("access-control-allow-headers").unwrap().contains("zt-session"));
    let seen = send(bed.request(Method::GET, &path).header("origin", "https://x.example")).await;
    seen.is_error(401, "UNAUTHORIZED");
    assert_eq!(seen.header("access-control-allow-origin"), Some("*"));
    assert_eq!(seen.header("access-control-expose-headers"), None);
    assert_eq!(bed.get("/version").await.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn pages_are_told_what_they_may_not_ask() {
    let bed = open_to(AllowedOrigins::Any).await;
    let path = format!("{MANAGEMENT}/identities");
    let ask = async |pairs: &[(&'static str, &'static str)]| {
        let mut request =
            bed.request(Method::OPTIONS, &path).header("origin", "https://console.example");
        for (name, value) in pairs {
            request = request.header(*name, *value);
        }
        send(request).await
    };
    let (method, names) = ("access-control-request-method", "access-control-request-headers");
    let seen = ask(&[]).await;
    assert_eq!(seen.is_error(400, "COULD_NOT_VALIDATE")["cause"]["field"], method);
    ask(&[(method, "TRACE")]).await.is_error(405, "METHOD_NOT_ALLOWED");
    let seen = ask(&[(method, "GET"), (names, "zt-session, x-other")]).await;
    assert_eq!(seen.is_error(403, "COULD_NOT_VALIDATE")["cause"]["field"], names);
    let seen = ask(&[(method, "GET"), (names, "ZT-Session,Accept-Language, accept")]).await;
    assert_eq!((seen.status, seen.text.as_str()), (200, ""));
}

#[tokio::test]
async fn who_asks_for_the_methods_of_a_path_is_told() {
    let bed = Bed::new().await;
    for (path, methods) in [
        ("/edge/management/v1/identities", "GET, HEAD, POST, OPTIONS"),
        ("/edge/management/v1/identities/x", "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
        ("/edge/management/v1/swagger.json", "GET, HEAD, OPTIONS"),
        ("/edge/client/v1/nothing", "OPTIONS"),
        ("/", "GET, HEAD, OPTIONS"),
    ] {
        let seen = send(bed.request(Method::OPTIONS, path)).await;
        assert_eq!((seen.status, seen.text.as_str()), (200, ""), "{path}");
        assert_eq!(seen.header("allow"), Some(methods), "{path}");
    }
}
