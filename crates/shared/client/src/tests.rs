//! The clients against a small server that plays the controller.

mod enroll;
mod proxied;
mod second_factor;
mod second_tokens;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use server::{Pki, Reply, Seen, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_contract::entity::DialBind;
use weft_contract::resource::service::{self, ServiceBody, ServiceDetail};
use weft_contract::{Api, Timestamp};
use weft_identity::{Identity, LiveIdentity, SpiffeId};

use crate::call::Caller;
use crate::{
    About, ClientApi, ControllerAddress, Credentials, Error, LoginProtocol, Logins, MAX_ANSWER,
    ManagementClient, SavedLogin, Tls, chain, trust,
};

const MANAGEMENT: &str = "/edge/management/v1";
const CLIENT: &str = "/edge/client/v1";

fn session(token: &str, queries: Value) -> Value {
    json!({"id": "s1", "token": token, "expiresAt": "2026-01-31T12:30:00.000Z",
        "expirationSeconds": 1800, "authQueries": queries,
        "identity": {"id": "i1", "name": "admin"}})
}

#[test]
fn each_session_shows_the_certificate_that_was_made_for_it() {
    let identity = LiveIdentity::fixed(Identity::new(None, Vec::new(), Pki::new().bundle()));
    let tls = Tls::Identity(Arc::clone(&identity));
    let caller = || Caller::new("localhost:1".parse().unwrap(), Api::Client, &tls).unwrap();
    let shown = || identity.current().client().map(|chain| chain.leaf().to_pem());
    let (one, other) = (caller(), caller());
    one.present_again().unwrap();
    assert_eq!(shown(), None);
    let made = [Pki::new().server, Pki::new().server];
    let pem = made.each_ref().map(|chain| Some(chain.leaf().to_pem()));
    for (caller, chain) in [&one, &other].into_iter().zip(made) {
        caller.present(chain).unwrap();
        caller.set_session(Some("token".to_owned()));
    }
    assert_eq!(shown(), pem[1]);
    one.present_again().unwrap();
    assert_eq!(shown(), pem[0]);
    // Without a session there is nothing to show its certificate for.
    other.set_session(None);
    other.present_again().unwrap();
    assert_eq!(shown(), pem[0]);
}

fn management(server: &Server, pki: &Pki) -> ManagementClient {
    let address = server.address.to_string().parse().unwrap();
    ManagementClient::new(address, &Tls::Anonymous(pki.bundle())).unwrap()
}

fn client(server: &Server, pki: &Pki) -> ClientApi {
    let address = server.address.to_string().parse().unwrap();
    ClientApi::new(address, &Tls::Anonymous(pki.bundle())).unwrap()
}

fn admin() -> Credentials {
    Credentials::password("admin", "geheim").unwrap()
}

#[test]
fn addresses_are_read_in_many_forms() {
    for (given, shown) in [
        ("localhost:1280", "https://localhost:1280"),
        ("https://ctrl.example:1280/edge/management/v1", "https://ctrl.example:1280"),
        (" https://ctrl.example/ ", "https://ctrl.example"),
        ("[::1]:1280", "https://[::1]:1280"),
        ("[::1]", "https://[::1]"),
        ("2001:db8::1", "https://[2001:db8::1]"),
    ] {
        let address: ControllerAddress = given.parse().unwrap();
        assert_eq!(address.to_string(), shown);
    }
    let address: ControllerAddress = "ctrl.example:1280".parse().unwrap();
    assert_eq!((address.host(), address.port()), ("ctrl.example", 1280));
    assert_eq!(
        address.at(Api::Client, "/version").unwrap().as_str(),
        "https://ctrl.example:1280/edge/client/v1/version"
    );
    for wrong in ["", "http://ctrl:80", "tls:ctrl:6262", "a b", "https://user:pw@ctrl"] {
        assert!(
            matches!(wrong.parse::<ControllerAddress>(), Err(Error::Address { .. })),
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn no_password_goes_to_a_router() {
    let login = async |pki: Pki| {
        let server = Server::start(&pki, |_| Reply::data(session("t-1", json!([])))).await;
        let done = management(&server, &pki).login(&admin()).await;
        (done.map(|_| ()), server.seen().len())
    };
    let router = SpiffeId::router("test.example", "r1");
    for id in [router, SpiffeId::identity("test.example", "i1")] {
        let (done, requests) = login(Pki::of(&id)).await;
        let problem = chain(&done.unwrap_err());
        assert!(problem.contains(&format!("{id}, which is no controller")), "{problem}");
        assert_eq!(requests, 0);
    }
    let controller = SpiffeId::controller("test.example", "c1");
    assert_eq!(login(Pki::of(&controller)).await.1, 1);
}

#[tokio::test]
async fn login_then_create_with_the_session() {
    let pki = Pki::new();
    let server = Server::start(&pki, |seen: &Seen| {
        if seen.is("POST", "/edge/management/v1/authenticate") {
            return Reply::data(session("t-1", json!([])));
        }
        assert_eq!(seen.session.as_deref(), Some("t-1"));
        Reply::json(201, &json!({"data": {"_links": {}, "id": "svc1"}, "meta": {}}))
    })
    .await;
    let api = management(&server, &pki);
    let login = api.login(&admin()).await.unwrap();
    assert_eq!(login.expiration_seconds, Some(1800));
    let body = ServiceBody {
        name: Some("web".into()),
        encryption_required: Some(true),
        ..ServiceBody::default()
    };
    assert_eq!(api.create(&service::KIND, &body).await.unwrap(), "svc1");

    let seen = server.seen();
    assert_eq!(seen[0].parameter("method").as_deref(), Some("password"));
    assert_eq!(seen[0].json()["username"], "admin");
    assert_eq!(seen[0].json()["password"], "geheim");
    assert!(seen[1].is("POST", "/edge/management/v1/services"));
    assert_eq!(seen[1].json(), json!({"encryptionRequired": true, "name": "web"}));
    assert_eq!(seen[1].media, "application/json");
}

#[tokio::test]
async fn a_login_falls_back_to_opaque_tokens_where_no_provider_is_served() {
    let pki = Pki::new();
    for capabilities in [json!([]), json!(["OIDC_AUTH"])] {
        let announces = capabilities != json!([]);
        let server = Server::start(&pki, move |seen: &Seen| match seen.path.as_str() {
            "/edge/management/v1/version" => {
                Reply::data(json!({"version": "v2", "capabilities": capabilities}))
            }
            "/edge/management/v1/authenticate" => Reply::data(session("t-1", json!([]))),
            _ => Reply::error(404, "NOT_FOUND", "there is nothing here"),
        })
        .await;
        let api = management(&server, &pki).with_protocol(LoginProtocol::Announced);
        api.login(&admin()).await.unwrap();
        assert_eq!(api.token().as_deref(), Some("t-1"));
        assert_eq!(api.saved_tokens().unwrap(), None);
        assert_eq!(server.seen().iter().any(|it| it.path == "/oidc/authorize"), announces);
        // Whoever insists on a protocol gets no other one.
        let api = management(&server, &pki).with_protocol(LoginProtocol::OpenIdConnect);
        assert!(api.login(&admin()).await.unwrap_err().is_not_found());
    }
}

#[tokio::test]
async fn lists_are_read_page_by_page() {
    let pki = Pki::new();
    let server = Server::start(&pki, |seen: &Seen| {
        let number = |name| seen.parameter(name).unwrap().parse::<usize>().unwrap();
        let (limit, offset, total) = (number("limit"), number("offset"), 1203);
        let page: Vec<Value> = (offset..total.min(offset + limit))
            .map(|index| json!({"id": format!("s{index}"), "name": "x"}))
            .collect();
        Reply::json(
            200,
            &json!({"data": page, "meta": {"pagination":
            {"limit": limit, "offset": offset, "totalCount": total}}}),
        )
    })
    .await;
    let api = management(&server, &pki);
    let all: Vec<ServiceDetail> =
        api.list(&service::KIND, Some("name contains \"x y\"")).await.unwrap();
    assert_eq!(all.len(), 1203);
    assert_eq!(all[1202].base.id, "s1202");
    assert_eq!(server.count("GET", &format!("{MANAGEMENT}/services")), 3);
    assert_eq!(server.seen()[0].parameter("filter").unwrap(), "name contains \"x y\"");
}

#[tokio::test]
async fn a_limit_in_the_filter_is_obeyed() {
    let pki = Pki::new();
    let server = Server::start(&pki, |_: &Seen| {
        Reply::json(
            200,
            &json!({"data": [{"id": "a"}, {"id": "b"}], "meta": {"pagination":
            {"limit": 2, "offset": 0, "totalCount": 90}}}),
        )
    })
    .await;
    let api = management(&server, &pki);
    let two: Vec<Value> = api.list(&service::KIND, Some("true limit 2")).await.unwrap();
    assert_eq!(two.len(), 2);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn refusals_say_what_the_controller_says() {
    let pki = Pki::new();
    let server = Server::start(&pki, |seen: &Seen| match seen.path.as_str() {
        "/edge/management/v1/services" => Reply::json(
            400,
            &json!({"error": {
            "code": "COULD_NOT_VALIDATE", "message": "The document is invalid", "requestId": "r",
            "cause": {"field": "name", "reason": "name must be unique", "value": "web"}},
            "meta": {}}),
        ),
        "/edge/management/v1/services/gone" => Reply::error(404, "NOT_FOUND", "not found"),
        _ => Reply { status: 502, headers: vec![], body: b"<html>bad gateway".to_vec() },
    })
    .await;
    let api = management(&server, &pki);
    let error = api.create(&service::KIND, &ServiceBody::default()).await.unwrap_err();
    assert_eq!(error.api().unwrap().code(), "COULD_NOT_VALIDATE");
    let text = "name must be unique (value `web`) (400 COULD_NOT_VALIDATE)";
    assert_eq!(error.to_string(), text);
    let error = api.get::<Value>(&service::KIND, "gone").await.unwrap_err();
    assert!(error.is_not_found() && !error.is_temporary());
    assert_eq!(error.to_string(), "not found (404 NOT_FOUND)");
    let error = api.version().await.unwrap_err();
    assert!(matches!(error, Error::Answer { status: 502, .. }), "{error}");
    assert!(error.is_temporary() && error.to_string().contains("bad gateway"));
}

#[tokio::test]
async fn too_many_requests_are_waited_out() {
    let pki = Pki::new();
    let times = AtomicUsize::new(0);
    let server = Server::start(&pki, move |_: &Seen| match times.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Reply::error(429, "SERVER_TOO_MANY_REQUESTS", "later").with("retry-after", "0"),
        _ => Reply::data(json!({"version": "v2.1.0"})),
    })
    .await;
    let api = management(&server, &pki);
    assert_eq!(api.version().await.unwrap().version, "v2.1.0");
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn long_waits_and_guesses_are_left_to_the_caller() {
    let pki = Pki::new();
    let server = Server::start(&pki, |seen: &Seen| {
        let wait = if seen.path.contains("authenticate") { "2" } else { "16" };
        Reply::error(429, "SERVER_TOO_MANY_REQUESTS", "later").with("retry-after", wait)
    })
    .await;
    let api = management(&server, &pki);
    let error = api.version().await.unwrap_err();
    assert_eq!(error.api().unwrap().retry_after, Some(Duration::from_secs(16)));
    let error = api.login(&admin()).await.unwrap_err();
    assert_eq!(error.api().unwrap().retry_after, Some(Duration::from_secs(2)));
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn endless_answers_are_cut() {
    let pki = Pki::new();
    let server = Server::start(&pki, |_: &Seen| Reply {
        status: 200,
        headers: vec![],
        body: vec![b' '; MAX_ANSWER + 1],
    })
    .await;
    let error = management(&server, &pki).version().await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn strangers_are_not_believed() {
    let pki = Pki::new();
    let server = Server::start(&pki, |_: &Seen| Reply::data(json!({}))).await;
    let error = management(&server, &Pki::new()).version().await.unwrap_err();
    assert!(matches!(error, Error::Connection { timeout: false, .. }), "{error}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_stranger_shows_certificate_and_bundle() {
    let pki = Pki::new();
    let store = weft_identity::write_ca_store(pki.bundle().certificates());
    let server = Server::start(&pki, move |_: &Seen| Reply {
        status: 200,
        headers: vec![("content-type", "application/pkcs7-mime".into())],
        body: store.clone().into_bytes(),
    })
    .await;
    let stranger = trust::meet(&server.address.to_string().parse().unwrap()).await.unwrap();
    assert_eq!(stranger.leaf, *pki.server.leaf());
    assert_eq!(stranger.bundle.certificates(), pki.bundle().certificates());
    // A bundle is refused to which the server's own certificate does not lead.
    let store = weft_identity::write_ca_store(Pki::new().bundle().certificates());
    let server = Server::start(&pki, move |_: &Seen| Reply {
        status: 200,
        headers: vec![],
        body: store.clone().into_bytes(),
    })
    .await;
    assert!(trust::meet(&server.address.to_string().parse().unwrap()).await.is_err());
}

#[tokio::test]
async fn an_application_finds_its_service() {
    let pki = Pki::new();
    let server = Server::start(&pki, |seen: &Seen| match seen.path.strip_prefix(CLIENT).unwrap() {
        "/authenticate" => Reply::data(session("t", json!([]))),
        "/services" => Reply::json(
            200,
            &json!({"data": [{"id": "s1", "name": "w\"eb",
            "permissions": ["Dial"], "config": {"host.v1": {"port": 80}}}],
            "meta": {"pagination": {"limit": 500, "offset": 0, "totalCount": 1}}}),
        ),
        "/sessions" => Reply::json(
            201,
            &json!({"data": {"id": "x", "token": "jwt",
            "type": "Dial", "edgeRouters": [{"name": "er1",
                "supportedProtocols": {"tls": "tls://er1:3022"}}]}, "meta": {}}),
        ),
        path => panic!("{path}"),
    })
    .await;
    let api = client(&server, &pki).with_protocol(LoginProtocol::Opaque);
    let about = About { config_types: vec!["all".into()], ..About::default() };
    api.login(Credentials::Certificate, about).await.unwrap();
    let found = api.service_named("w\"eb").await.unwrap().unwrap();
    assert_eq!(found.config["host.v1"]["port"], 80);
    let session = api.create_session("s1", DialBind::Dial).await.unwrap();
    assert_eq!(session.edge_routers[0].address("tls"), Some("tls://er1:3022"));

    let seen = server.seen();
    assert_eq!(seen[0].parameter("method").as_deref(), Some("cert"));
    assert_eq!(seen[0].json()["configTypes"], json!(["all"]));
    assert_eq!(seen[1].parameter("filter").unwrap(), r#"name = "w\"eb""#);
    assert_eq!(seen[1].parameter("configTypes").unwrap(), "all");
    assert_eq!(seen[2].json(), json!({"serviceId": "s1", "type": "Dial"}));
}

#[tokio::test]
async fn a_session_that_ended_is_made_anew_once() {
    let pki = Pki::new();
    let logins = AtomicUsize::new(0);
    let server = Server::start(&pki, move |seen: &Seen| {
        if seen.path.ends_with("/authenticate") {
            let number = logins.fetch_add(1, Ordering::SeqCst) + 1;
            return Reply::data(session(&format!("t{number}"), json!([])));
        }
        match seen.session.as_deref() {
            Some("t2") if seen.path.ends_with("/current-identity") => {
                Reply::data(json!({"id": "i1"}))
            }
            _ => Reply::error(401, "UNAUTHORIZED", "no"),
        }
    })
    .await;
    let api = client(&server, &pki);
    api.login(Credentials::Certificate, About::default()).await.unwrap();
    assert_eq!(api.current_identity().await.unwrap().base.id, "i1");
    assert_eq!(api.token().as_deref(), Some("t2"));
    // A request that is refused again after the new login fails: it is sent no third time.
    assert!(api.current_session().await.unwrap_err().is_unauthorized());
    assert_eq!(server.count("POST", &format!("{CLIENT}/authenticate")), 3);
}

#[tokio::test]
async fn calls_that_are_refused_together_share_one_login() {
    let pki = Pki::new();
    let logins = AtomicUsize::new(0);
    let server = Server::start(&pki, move |seen: &Seen| {
        if seen.path.ends_with("/authenticate") {
            assert_eq!(seen.session, None);
            let number = logins.fetch_add(1, Ordering::SeqCst) + 1;
            return Reply::data(session(&format!("t{number}"), json!([])));
        }
        match seen.session.as_deref() {
            Some("t1") | None => Reply::error(401, "UNAUTHORIZED", "no"),
            _ => Reply::data(json!({"id": "i1"})),
        }
    })
    .await;
    let api = client(&server, &pki);
    api.login(Credentials::Certificate, About::default()).await.unwrap();
    let calls = || async { api.current_identity().await.unwrap().base.id };
    let (one, two, three, four) = tokio::join!(calls(), calls(), calls(), calls());
    assert_eq!([one, two, three, four], ["i1"; 4]);
    assert_eq!(server.count("POST", &format!("{CLIENT}/authenticate")), 2);
}

#[tokio::test]
async fn a_session_stays_in_use_until_the_next_login_has_ended() {
    let pki = Pki::new();
    let logins = AtomicUsize::new(0);
    let server = Server::start(&pki, move |_: &Seen| match logins.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::data(session("old", json!([]))),
        _ => Reply::error(401, "INVALID_AUTH", "no"),
    })
    .await;
    let api = client(&server, &pki).with_protocol(LoginProtocol::Opaque);
    api.login(Credentials::Certificate, About::default()).await.unwrap();
    let login = api.login(Credentials::Certificate, About::default());
    let seen = async {
        while server.seen().len() < 2 {
            assert_eq!(api.token().as_deref(), Some("old"));
            tokio::task::yield_now().await;
        }
    };
    let (refused, ()) = tokio::join!(login, seen);
    assert!(refused.unwrap_err().is_unauthorized());
    assert_eq!(api.token(), None);
}

#[tokio::test]
async fn nobody_there_is_temporary() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let tls = Tls::Anonymous(Pki::new().bundle());
    let api = ManagementClient::new(address.to_string().parse().unwrap(), &tls).unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(20), api.version()).await.unwrap();
    let error = asked.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    assert!(chain(&error).contains("refused"), "{error}");
    let source = std::error::Error::source(&error).unwrap().downcast_ref::<std::io::Error>();
    assert_eq!(source.unwrap().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_certificate_out_of_its_time_shows_its_dates_and_the_clock() {
    let pki = Pki::issued(SystemTime::now() + Duration::from_secs(3 * 3600));
    let server = Server::start(&pki, |_| Reply::json(200, &json!({}))).await;
    let error = chain(&management(&server, &pki).version().await.unwrap_err());
    let wanted = ": the certificate of 127.0.0.1 (`CN=controller`) is valid from ";
    assert!(error.contains(wanted), "{error}");
    assert!(error.ends_with(" UTC: check the clock"), "{error}");
}

/// The error of a call at a port that answers each connection with these bytes.
async fn error_at_a_port_that_says(bytes: &'static [u8]) -> (String, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 4096]).await;
        socket.write_all(bytes).await.unwrap();
        let _ = socket.read(&mut [0; 4096]).await;
    });
    let tls = Tls::Anonymous(Pki::new().bundle());
    let api = ManagementClient::new(address.parse().unwrap(), &tls).unwrap();
    let error = chain(&api.version().await.unwrap_err());
    answering.abort();
    (address, error)
}

#[tokio::test]
async fn an_error_has_one_cause() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let tls = Tls::Anonymous(Pki::new().bundle());
    let api = ManagementClient::new(address.parse().unwrap(), &tls).unwrap();
    let error = chain(&api.version().await.unwrap_err());
    let (at, cause) = error.split_once(": ").unwrap();
    assert!(at.starts_with(&format!("cannot reach https://{address}/")), "{error}");
    assert!(cause.starts_with("Connection refused") && !cause.contains(':'), "{error}");
}

#[tokio::test]
async fn a_wrong_port_is_named() {
    let (at, error) = error_at_a_port_that_says(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    assert!(error.ends_with(&format!(": {at} speaks no TLS")), "{error}");
    // The alert `no_application_protocol`.
    let (at, error) = error_at_a_port_that_says(b"\x15\x03\x03\0\x02\x02\x78").await;
    let wanted = format!(": {at} is not a controller's API: is it a router's port?");
    assert!(error.ends_with(&wanted), "{error}");
}

#[test]
fn logins_are_saved_for_their_owner_only() {
    let home = tempfile::tempdir().unwrap();
    let logins = Logins::in_directory(home.path().join("weft"));
    assert_eq!(logins.load(None).unwrap(), None);
    assert!(logins.names().unwrap().is_empty());
    let login = SavedLogin {
        controller: "https://localhost:1280".into(),
        username: "admin".into(),
        token: "secret-token".into(),
        expires_at: Some(Timestamp::from_millis(1_767_323_045_678)),
        ca: Pki::new().bundle().to_pem(),
        key: None,
        second_token: None,
        tokens: None,
    };
    let name = Logins::name_for(&login.address().unwrap());
    assert_eq!(name, "localhost-1280");
    logins.save(&name, &login).unwrap();
    assert_eq!(logins.load(None).unwrap(), None, "saved is not chosen");
    logins.choose(&name).unwrap();
    assert_eq!(logins.load(None).unwrap().unwrap(), (name.clone(), login.clone()));
    assert!(!format!("{login:?}").contains("secret-token"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(logins.path(&name).unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(ManagementClient::resume(&login).unwrap().token().as_deref(), Some("secret-token"));
    std::fs::write(logins.path(&name).unwrap(), "{").unwrap();
    let error = logins.load(None).unwrap_err();
    assert!(error.to_string().contains("log in again"), "{error}");
    logins.remove(&name).unwrap();
    logins.remove(&name).unwrap();
    assert_eq!(logins.current().unwrap(), None);
}

#[test]
fn several_logins_are_kept_apart_by_name() {
    let home = tempfile::tempdir().unwrap();
    let logins = Logins::in_directory(home.path());
    let login = |controller: &str| SavedLogin {
        controller: controller.into(),
        username: "admin".into(),
        token: "t".into(),
        expires_at: None,
        ca: Pki::new().bundle().to_pem(),
        key: None,
        second_token: None,
        tokens: None,
    };
    for name in ["prod", "test"] {
        logins.save(name, &login(&format!("https://{name}:1280"))).unwrap();
    }
    assert_eq!(logins.names().unwrap(), ["prod", "test"]);
    logins.choose("test").unwrap();
    assert_eq!(logins.load(None).unwrap().unwrap().1.controller, "https://test:1280");
    assert_eq!(logins.load(Some("prod")).unwrap().unwrap().1.controller, "https://prod:1280");
    assert_eq!(logins.load(Some("other")).unwrap(), None);
    assert!(logins.choose("other").is_err());
    logins.remove("prod").unwrap();
    assert_eq!(logins.current().unwrap().as_deref(), Some("test"));
    for wrong in ["", "../x", ".x", "a/b", "a b", &"x".repeat(65)] {
        assert!(logins.path(wrong).is_err(), "{wrong}");
    }
    let odd: ControllerAddress = "https://[2001:db8::1]:443".parse().unwrap();
    assert!(logins.path(&Logins::name_for(&odd)).is_ok());
}

#[tokio::test]
async fn a_controller_says_once_by_which_protocol_it_logs_in() {
    let pki = Pki::new();
    let is_good = Arc::new(AtomicBool::new(true));
    let answers = Arc::clone(&is_good);
    let server = Server::start(&pki, move |asked: &Seen| match asked.path.rsplit('/').next() {
        Some("version") => Reply::data(json!({"capabilities": []})),
        _ if answers.load(Ordering::SeqCst) => Reply::data(session("t", json!([]))),
        _ => Reply::error(401, "INVALID_AUTH", "no"),
    })
    .await;
    let api = client(&server, &pki);
    let log_in = async || api.login(Credentials::Certificate, About::default()).await;
    let asked = || server.count("GET", &format!("{CLIENT}/version"));
    for _ in 0..3 {
        log_in().await.unwrap();
    }
    assert_eq!(asked(), 1);
    is_good.store(false, Ordering::SeqCst);
    log_in().await.unwrap_err();
    is_good.store(true, Ordering::SeqCst);
    log_in().await.unwrap();
    assert_eq!(asked(), 2, "the login may have failed by the wrong protocol");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3601)).await;
    tokio::time::resume();
    log_in().await.unwrap();
    assert_eq!(asked(), 3);
}
