//! The first requests of SDKs, the CLI and routers: version, trust, enrollment, login, their own
//! entities.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_client::{About, ClientApi, Credentials, ManagementClient, Tls};
use weft_contract::resource::service::{KIND, ServiceBody, ServiceDetail};
use weft_identity::token::TokenSigner;
use weft_identity::{Certificate, KeyedChain, PrivateKey, read_ca_store};

use super::{Bed, CLIENT, LONG, MANAGEMENT, PASSWORD, USERNAME, csr, send};

#[tokio::test]
async fn the_version_is_found_under_every_spelling() {
    let bed = Bed::new().await;
    let mut instances = Vec::new();
    for path in [
        "/",
        "/version",
        "/version/",
        "/edge/client/v1",
        "/edge/client/v1/version",
        "/edge/v1/version",
        "/edge/management/v1/version",
        "/edge/management/v1//version/",
    ] {
        let seen = bed.get(path).await;
        assert_eq!(seen.status, 200, "{path}");
        assert_eq!(seen.header("content-type"), Some("application/json"));
        assert_eq!(seen.header("server"), Some("ziti-controller/v2.0.0"));
        assert!(seen.header("content-length").is_some());
        assert!(seen.text.ends_with("}\n"), "{}", seen.text);
        instances.push(seen.header("ziti-instance-id").unwrap().to_owned());
        let data = seen.data();
        assert_eq!(data["capabilities"], json!([]));
        let versions = &data["apiVersions"];
        assert_eq!(versions["edge"], versions["edge-client"]);
        assert_eq!(versions["edge"]["v1"]["path"], CLIENT);
        assert_eq!(versions["edge-management"]["v1"]["version"], "v1");
        let url = &versions["edge-management"]["v1"]["apiBaseUrls"][0];
        assert_eq!(url, "https://127.0.0.1:1280/edge/management/v1");
        assert_eq!(versions.get("edge-oidc"), None);
    }
    instances.dedup();
    assert_eq!(instances.len(), 1, "constant for the process");
}

#[tokio::test]
async fn what_routers_can_be_capable_of_is_listed_for_a_session() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for prefix in [CLIENT, MANAGEMENT] {
        let path = format!("{prefix}/enumerated-router-capabilities");
        bed.get(&path).await.is_error(401, "UNAUTHORIZED");
        let seen = admin.get(&path).await;
        assert_eq!(seen.status, 200);
        let all = ["MULTI_CHANNEL", "CONNECT_V2", "SERVICE_SUBSCRIPTIONS", "POSTURE_CHECKS"];
        assert_eq!(seen.data(), json!([&all[..], &["BIND_SUCCESS"]].concat()));
    }
}

#[tokio::test]
async fn ca_certificates_are_given_to_anybody() {
    let bed = Bed::new().await;
    for prefix in ["", CLIENT, MANAGEMENT] {
        let request = bed.request(Method::GET, &format!("{prefix}/.well-known/est/cacerts"));
        let seen = send(request.header("accept", "application/pkcs7-mime")).await;
        assert_eq!(seen.status, 200);
        assert_eq!(seen.header("content-type"), Some("application/pkcs7-mime"));
        assert_eq!(seen.header("content-transfer-encoding"), Some("base64"));
        let certificates = read_ca_store(seen.text.as_bytes()).unwrap();
        assert_eq!(certificates.len(), 2);
    }
}

#[tokio::test]
async fn each_api_describes_itself() {
    let bed = Bed::new().await;
    for base in [CLIENT, MANAGEMENT] {
        let seen = bed.get(&format!("{base}/swagger.json")).await;
        assert_eq!((seen.status, seen.header("content-type")), (200, Some("application/json")));
        assert_eq!(seen.json()["basePath"], base);
        let seen = bed.get(&format!("{base}/openapi.json")).await;
        assert_eq!(seen.json()["servers"][0]["url"], base);
        assert_eq!(seen.header("cache-control"), None);
        let seen = bed.get(&format!("{base}/docs/")).await;
        assert_eq!(seen.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(seen.header("content-security-policy").unwrap().contains("default-src 'none'"));
        let seen = bed.get(&format!("{base}/specs/weft-client/spec")).await;
        assert_eq!(seen.json()["openapi"], "3.1.0");
        assert_eq!(seen.header("cache-control"), None, "the same for everybody");
    }
}

#[tokio::test]
async fn a_login_answers_with_a_session() {
    let bed = Bed::new().await;
    for api in ["", CLIENT, MANAGEMENT] {
        let seen = bed.login_answer(api, USERNAME, PASSWORD).await;
        let data = seen.data();
        assert_eq!(data["token"], seen.header("zt-session").unwrap());
        assert_eq!(data["identity"]["name"], "Default Admin");
        assert_eq!(data["ipAddress"], "127.0.0.1");
        assert_eq!(data["authQueries"], json!([]));
        assert_eq!(seen.header("expiration-seconds"), Some("1800"));
        assert!(seen.header("expires-at").unwrap().ends_with(" +0000 UTC"));
        assert_eq!(seen.header("cache-control"), Some("no-store"), "it contains the token");
    }
    let admin = bed.admin().await;
    for path in ["/current-api-session", "/edge/v1/current-api-session"] {
        let seen = admin.get(path).await;
        assert_eq!(seen.data()["token"], admin.token.as_str());
        assert_eq!(seen.header("zt-session"), None);
        assert_eq!(seen.header("cache-control"), Some("no-store"));
        assert_eq!(seen.header("expiration-seconds"), Some("1800"));
    }
    let end = admin.call(Method::DELETE, "/current-api-session", &Value::Null).await;
    assert_eq!((end.status, end.data()), (200, json!({})));
    let gone = admin.get("/current-api-session").await;
    gone.is_error(401, "UNAUTHORIZED");
    assert_eq!(gone.header("cache-control"), Some("no-store"));
}

/// Makes an identity and the answer to its ticket.
pub(super) async fn ticket(bed: &Bed) -> (String, String) {
    let admin = bed.admin().await;
    let body = json!({"name": "laptop", "type": "Default", "isAdmin": false,
        "enrollment": {"ott": true}});
    let id = admin.create("identities", body).await;
    let identity = admin.get(&format!("{MANAGEMENT}/identities/{id}")).await.data();
    (id, identity["enrollment"]["ott"]["token"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn whoever_renews_goes_on_over_open_connections() {
    for alpn in [&b"h2"[..], b"http/1.1"] {
        let bed = Bed::new().await;
        let (id, token) = ticket(&bed).await;
        let (key, request) = csr(&id);
        let url = format!("{CLIENT}/enroll?method=ott&token={token}");
        let enroll = bed.request(Method::POST, &url).header("content-type", "text/plain");
        let data = send(enroll.body(request)).await.data();
        let chain = |pem: &Value, key: &PrivateKey| {
            let pem = pem.as_str().unwrap().as_bytes();
            KeyedChain::new(Certificate::from_pem(pem).unwrap(), key.clone()).unwrap()
        };
        let old = chain(&data["cert"], &key);
        let client = bed.client_over(Some(&old), &[alpn]);
        let ask = async |client: &reqwest::Client, token: &str, path: &str, body: Option<Value>| {
            let method = if body.is_some() { Method::POST } else { Method::GET };
            let request = client.request(method, bed.url(&format!("{CLIENT}{path}")));
            let request = request.header("zt-session", token);
            send(body.into_iter().fold(request, |request, body| request.json(&body))).await
        };
        let login = ask(&client, "", "/authenticate?method=cert", Some(json!({}))).await;
        let token = login.data()["token"].as_str().unwrap().to_owned();
        let own = ask(&client, &token, "/current-identity/authenticators", None).await.data();
        let path = format!("/current-identity/authenticators/{}", own[0]["id"].as_str().unwrap());
        let (key, request) = csr(&id);
        let body = Some(json!({"clientCertCsr": request}));
        let given = ask(&client, &token, &format!("{path}/extend"), body).await.data();
        let body = Some(json!({"clientCert": given["clientCert"]}));
        let confirmed = ask(&client, &token, &format!("{path}/extend-verify"), body).await;
        assert_eq!(confirmed.status, 200);
        let seen = ask(&client, &token, "/services", None).await;
        assert_eq!(seen.status, 200, "over the connection with the old certificate");
        // The connection ends, and the next one has to show the new certificate.
        let is_over = seen.header("connection") == Some("close");
        assert_eq!(is_over, alpn == b"http/1.1");
        let status = ask(&client, &token, "/services", None).await.status;
        assert_eq!(status, if is_over { 401 } else { 200 });
        let new = chain(&given["clientCert"], &key);
        for (shown, status) in [(&new, 200), (&old, 401)] {
            let client = bed.client_over(Some(shown), &[alpn]);
            assert_eq!(ask(&client, &token, "/services", None).await.status, status);
        }
    }
}

#[tokio::test]
async fn a_ticket_becomes_a_certificate_that_logs_in() {
    let bed = Bed::new().await;
    // Both spellings, as the Go and the native SDK send them.
    for (path, media) in
        [(format!("{CLIENT}/enroll"), "application/x-pem-file"), ("/enroll".into(), "text/plain")]
    {
        let (id, token) = ticket(&bed).await;
        let (key, request) = csr(&id);
        let url = format!("{path}?method=ott&token={token}");
        let enroll = || {
            let request = request.clone();
            bed.request(Method::POST, &url).header("content-type", media).body(request)
        };
        let seen = send(enroll()).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        assert_eq!(seen.header("content-type"), Some("application/json"));
        let data = seen.data();
        let urls = &data["controllers"][0]["apiAddresses"]["edge-client"];
        assert_eq!(urls[0]["url"], "https://127.0.0.1:1280/edge/client/v1");
        let chain = Certificate::from_pem(data["cert"].as_str().unwrap().as_bytes()).unwrap();
        send(enroll()).await.is_error(400, "INVALID_ENROLLMENT_TOKEN");

        let chain = KeyedChain::new(chain, key).unwrap();
        let http = bed.client_of(&chain);
        let login = http.post(bed.url("/authenticate?method=cert"));
        let seen = send(login.json(&json!({"sdkInfo": {"appID": "x", "version": "1"}}))).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        assert_eq!(seen.data()["isCertExtendable"], true);
        let token = seen.header("zt-session").unwrap().to_owned();
        let get = |path: &str| send(http.get(bed.url(path)).header("zt-session", &token));
        assert_eq!(get("/current-identity").await.data()["id"], id.as_str());
        // The token is refused on a connection with another certificate.
        let stranger = bed.session(&token);
        stranger.get("/current-identity").await.is_error(401, "UNAUTHORIZED");
        for path in
            ["/services?configTypes=all&limit=25&offset=0", "/current-identity/edge-routers"]
        {
            let list = get(path).await;
            assert_eq!((list.status, list.data()), (200, json!([])));
        }
        let updates = get("/current-api-session/service-updates").await.data();
        assert!(updates["lastChangeAt"].is_string());
        get(&format!("{MANAGEMENT}/identities")).await.is_error(401, "UNAUTHORIZED");
        let admin = bed.admin().await;
        let at = format!("{MANAGEMENT}/identities/{id}");
        admin.call(Method::DELETE, &at, &Value::Null).await;
        get("/current-identity").await.is_error(401, "UNAUTHORIZED");
    }
    let login = send(bed.request(Method::POST, "/authenticate?method=cert")).await;
    login.is_error(401, "INVALID_AUTH");
}

#[tokio::test]
async fn a_token_of_a_signer_becomes_an_identity() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    // The session key of another controller stands in for the key of a provider.
    let provider = super::keys().0.session;
    let signer = json!({"name": "idp", "issuer": "https://idp.example", "audience": "weft",
        "enabled": true, "certPem": provider.leaf().to_pem(), "enrollToCertEnabled": true});
    let signer = admin.create("external-jwt-signers", signer).await;
    let token = |name: &str| {
        let end = bed.controller.kernel().now().secs() + 600;
        let claims = json!({"iss": "https://idp.example", "aud": "weft", "sub": name, "exp": end});
        TokenSigner::new(&provider).unwrap().sign(&claims).unwrap()
    };
    let enroll = || bed.request(Method::POST, &format!("{CLIENT}/enroll/token"));
    let (key, request) = csr("x");
    // The valid token may be in any of the header's lines.
    let seen = send(
        enroll()
            .header("authorization", "Bearer abc")
            .header("authorization", format!("Bearer {}", token("anna")))
            .json(&json!({"clientCsr": request})),
    )
    .await;
    assert_eq!(seen.status, 200, "{seen:?}");
    let chain = seen.data()["cert"].as_str().unwrap().to_owned();
    let chain = Certificate::from_pem(chain.as_bytes()).unwrap();
    let http = bed.client_of(&KeyedChain::new(chain, key).unwrap());
    let login = send(http.post(bed.url("/authenticate?method=cert"))).await;
    assert_eq!((login.status, &login.data()["identity"]["name"]), (200, &json!("anna")));

    let bert = enroll().bearer_auth(token("bert"));
    send(bert).await.is_error(409, "INVALID_ENROLLMENT_NOT_ALLOWED");
    let other = enroll().bearer_auth(token("bert")).header("ziti-token-issuer-id", "other");
    send(other).await.is_error(400, "INVALID_ENROLLMENT_TOKEN");
    send(enroll()).await.is_error(400, "INVALID_ENROLLMENT_TOKEN");
    let (_, request) = csr("x");
    let named = enroll().bearer_auth(token("bert")).header("ziti-token-issuer-id", signer);
    let named = named.header("content-type", "application/x-pem-file").body(request);
    assert_eq!(send(named).await.status, 200);
}

#[tokio::test]
async fn routers_enroll_with_two_requests() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let id = admin.create("edge-routers", json!({"name": "er1"})).await;
    let router = admin.get(&format!("{MANAGEMENT}/edge-routers/{id}")).await.data();
    let token = router["enrollmentToken"].as_str().unwrap();
    let (_, client) = csr(&id);
    let (_, server) = csr(&id);
    let path = format!("{CLIENT}/enroll?method=erott&token={token}");
    let body = json!({"certCsr": client, "serverCertCsr": server});
    let seen = send(bed.request(Method::POST, &path).json(&body)).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    let data = seen.data();
    for member in ["ca", "cert", "serverCert"] {
        assert!(data[member].as_str().unwrap().contains("BEGIN CERTIFICATE"));
    }
}

#[tokio::test]
async fn our_own_clients_work() {
    let bed = Bed::new().await;
    let address = || format!("127.0.0.1:{}", bed.address.port()).parse().unwrap();
    let tls = Tls::Anonymous(bed.bundle().clone());
    let credentials = Credentials::password(USERNAME, PASSWORD).unwrap();
    let management = ManagementClient::new(address(), &tls).unwrap();
    management.login(&credentials).await.unwrap();
    for at in 0..12 {
        let body = ServiceBody {
            name: Some(format!("web{at}")),
            encryption_required: Some(true),
            ..ServiceBody::default()
        };
        management.create(&KIND, &body).await.unwrap();
    }
    let all: Vec<ServiceDetail> =
        management.list(&KIND, Some("name contains \"web\"")).await.unwrap();
    assert_eq!(all.len(), 12);
    let api = ClientApi::new(address(), &tls).unwrap();
    api.login(credentials, About::default()).await.unwrap();
}

/// Sends bytes over HTTP/1.1 and reads until the answer holds `end`.
async fn raw(bed: &Bed, text: &str, end: &str) -> String {
    let mut stream = bed.connect(&[b"http/1.1"]).await;
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&seen).contains(end) {
            let mut part = [0; 4096];
            let count = stream.read(&mut part).await.unwrap();
            assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&part[..count]);
        }
    };
    tokio::time::timeout(LONG, read).await.unwrap();
    String::from_utf8_lossy(&seen).into_owned()
}

#[tokio::test]
async fn old_sdks_send_filters_as_they_are() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "my web", "encryptionRequired": true});
    admin.create("services", body).await;
    let identity = admin.get("/current-identity").await.data()["id"].clone();
    let policy = json!({"name": "sp", "type": "Dial", "semantic": "AnyOf",
        "serviceRoles": ["#all"], "identityRoles": [format!("@{}", identity.as_str().unwrap())]});
    admin.create("service-policies", policy).await;
    let request = format!(
        "GET /services?filter=name=\"my web\" HTTP/1.1\r\nhost: x\r\nzt-session: {}\r\n\r\n",
        admin.token
    );
    // Twice on one connection: it stays open between.
    let seen = raw(&bed, &format!("{request}{request}"), "pagination\":{").await;
    assert!(seen.starts_with("HTTP/1.1 200 OK"), "{seen}");
    assert!(seen.contains("\"name\":\"my web\""), "{seen}");
}

#[tokio::test]
async fn connections_are_kept_and_speak_what_the_client_offers() {
    let bed = Bed::new().await;
    let request = "GET /version HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut stream = bed.connect(&[]).await;
    for _ in 0..3 {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut part = vec![0; 16 * 1024];
        let count = stream.read(&mut part).await.unwrap();
        assert!(part[..count].starts_with(b"HTTP/1.1 200 OK"));
    }
    for (offered, chosen) in [
        (&[&b"h2"[..]][..], &b"h2"[..]),
        (&[b"h2", b"http/1.1"], b"http/1.1"),
        (&[b"http/1.1"], b"http/1.1"),
    ] {
        let stream = bed.connect(offered).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(chosen));
    }
    let http2 = reqwest::Client::builder()
        .tls_backend_preconfigured(
            weft_identity::tls::client_config(&weft_identity::tls::ClientTls::anonymous(
                bed.bundle().clone(),
                &[b"h2"],
            ))
            .unwrap(),
        )
        .no_proxy()
        .build()
        .unwrap();
    let answer = http2.get(bed.url("/version")).send().await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (reqwest::Version::HTTP_2, 200));
}

#[tokio::test]
async fn probes_read_health() {
    let bed = Bed::new().await;
    let seen = bed.get("/health-checks").await;
    assert_eq!((seen.status, seen.header("content-type")), (200, Some("application/json")));
    assert!(seen.text.starts_with("{\n    \"data\""));
    let body = seen.json();
    assert_eq!(body["data"]["healthy"], true);
    assert_eq!(body["data"]["checks"][0]["id"], "bolt.read");
    assert!(body["data"]["checks"][0]["lastCheckTime"].is_string());
    let body = bed.get("/health-checks/v1/controller/raft?type=short").await.json();
    assert_eq!(body["data"]["checks"][0], json!({"healthy": true, "id": "bolt.read"}));
    assert_eq!(body["raft"]["isRaftEnabled"], false);
}
