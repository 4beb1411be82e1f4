//! Logins by OpenID Connect as programs do them, and their tokens at the APIs.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use weft_config::controller::StoreCheck;
use weft_config::{BindPoint, HostPort, WebApi, WebServer};
use weft_identity::{Certificate, KeyedChain};
use weft_model::Id;
use weft_model::entity::Revocation;

use super::clients::ticket;
use super::{Bed, CLIENT, LONG, MANAGEMENT, PASSWORD, Seen, USERNAME, csr, section, send};
use crate::ApiLimits;

pub(super) const REDIRECT: &str = "http://localhost:8080/auth/callback";
pub(super) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub(super) const ACCESS: &str = "urn:ietf:params:oauth:token-type:access_token";
pub(super) const REFRESH: &str = "urn:ietf:params:oauth:token-type:refresh_token";
pub(super) const ID: &str = "urn:ietf:params:oauth:token-type:id_token";

/// The challenge of the verifier.
pub(super) fn challenge() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER))
}

/// The usual server, with the provider at the port of its socket.
pub(super) fn with_provider() -> WebServer {
    let mut server = section();
    let at = HostPort { host: "127.0.0.1".into(), port: 0 };
    for point in &mut server.bind_points {
        if let BindPoint::Underlay { address, .. } = point {
            *address = at.clone();
        }
    }
    server.apis.push(WebApi::EdgeOidc(Default::default()));
    server
}

pub(super) async fn bed() -> Bed {
    Bed::with(with_provider(), ApiLimits::default()).await
}

/// A program that logs in.
pub(super) struct Program<'b> {
    bed: &'b Bed,
    pub(super) http: reqwest::Client,
}

impl<'b> Program<'b> {
    pub(super) fn new(bed: &'b Bed, chain: Option<&KeyedChain>) -> Self {
        Self::at(bed, chain, Ipv4Addr::LOCALHOST)
    }

    /// A program at this address of the loopback network.
    pub(super) fn at(bed: &'b Bed, chain: Option<&KeyedChain>, address: Ipv4Addr) -> Self {
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(bed.tls(chain))
            .local_address(IpAddr::V4(address))
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(LONG)
            .build()
            .unwrap();
        Self { bed, http }
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, self.bed.url(path))
    }

    /// Begins a login; its id.
    pub(super) async fn begin(&self, more: &str) -> String {
        self.begin_for("openid+offline_access", more).await
    }

    /// Begins a login for these scopes; its id.
    async fn begin_for(&self, scope: &str, more: &str) -> String {
        let challenge = challenge();
        let path = format!(
            "/oidc/authorize?client_id=native&response_type=code&redirect_uri={REDIRECT}\
             &scope={scope}&state=s1&nonce=n1&code_challenge={challenge}\
             &code_challenge_method=S256{more}"
        );
        let seen = send(self.request(Method::GET, &path)).await;
        assert_eq!(seen.status, 302, "{seen:?}");
        let to = seen.header("location").unwrap();
        to.split_once("authRequestID=").unwrap().1.to_owned()
    }

    pub(super) async fn step(&self, path: &str, body: &Value) -> Seen {
        send(self.request(Method::POST, path).json(body)).await
    }

    /// The code that the callback gives.
    pub(super) async fn code(&self, after: &Seen) -> String {
        assert_eq!(after.status, 302, "{after:?}");
        let to = after.header("location").unwrap().to_owned();
        let seen = send(self.http.get(to)).await;
        let to = seen.header("location").unwrap();
        assert!(to.starts_with(REDIRECT) && to.contains("state=s1"), "{to}");
        to.split_once("code=").unwrap().1.to_owned()
    }

    pub(super) async fn token(&self, form: &[(&str, &str)]) -> Seen {
        send(with_form(self.request(Method::POST, "/oidc/oauth/token"), form)).await
    }

    pub(super) async fn redeem(&self, code: &str, more: &[(&str, &str)]) -> Seen {
        let form = [
            ("grant_type", "authorization_code"),
            ("client_id", "native"),
            ("code", code),
            ("code_verifier", VERIFIER),
            ("redirect_uri", REDIRECT),
        ];
        self.token(&[&form[..], more].concat()).await
    }

    pub(super) async fn by_password(&self) -> Value {
        self.by_password_for("openid+offline_access").await
    }

    /// Logs in for these scopes.
    pub(super) async fn by_password_for(&self, scope: &str) -> Value {
        let id = self.begin_for(scope, "&method=password").await;
        let body = json!({"id": id, "username": USERNAME, "password": PASSWORD});
        let seen = self.step("/oidc/login/password", &body).await;
        let code = self.code(&seen).await;
        let seen = self.redeem(&code, &[]).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        seen.json()
    }

    async fn by_certificate(&self, more: &[(&str, &str)]) -> Value {
        let id = self.begin("&method=cert").await;
        let seen = self.step(&format!("/oidc/login/cert?id={id}"), &json!({})).await;
        let code = self.code(&seen).await;
        let seen = self.redeem(&code, more).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        seen.json()
    }

    pub(super) async fn refresh(&self, token: &str) -> Seen {
        let form =
            [("grant_type", "refresh_token"), ("client_id", "native"), ("refresh_token", token)];
        self.token(&form).await
    }

    pub(super) async fn exchange(&self, token: &str, of: &str, wanted: &str) -> Seen {
        let form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", token),
            ("subject_token_type", of),
            ("requested_token_type", wanted),
        ];
        let request = self.request(Method::POST, "/oidc/oauth/token");
        send(with_form(request.basic_auth("native", Some("")), &form)).await
    }

    pub(super) async fn get(&self, path: &str, token: &str) -> Seen {
        send(self.request(Method::GET, path).bearer_auth(token)).await
    }
}

fn with_form(request: RequestBuilder, form: &[(&str, &str)]) -> RequestBuilder {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    request.header("content-type", "application/x-www-form-urlencoded").body(body)
}

/// The certificate of an identity that has enrolled.
pub(super) async fn enrolled(bed: &Bed) -> KeyedChain {
    let (id, token) = ticket(bed).await;
    let (key, request) = csr(&id);
    let path = format!("{CLIENT}/enroll?method=ott&token={token}");
    let enroll = bed.request(Method::POST, &path).header("content-type", "text/plain");
    let seen = send(enroll.body(request)).await;
    let data = seen.data();
    let chain = Certificate::from_pem(text(&data, "cert").as_bytes()).unwrap();
    KeyedChain::new(chain, key).unwrap()
}

/// The code of an authenticator app at this time.
pub(super) fn one_time_code(url: &str) -> String {
    let secret = url.split_once("secret=").unwrap().1;
    let secret = totp_rs::Secret::try_from_base32(secret).unwrap();
    let app = totp_rs::Builder::new().with_secret(secret).build_noncompliant();
    app.generate_current().to_string()
}

pub(super) fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

pub(super) fn text<'v>(answer: &'v Value, name: &str) -> &'v str {
    answer[name].as_str().unwrap_or_else(|| panic!("no {name} in {answer}"))
}

#[tokio::test]
async fn a_program_logs_in_with_a_password_and_uses_its_tokens() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let issuer = bed.url("/oidc");
    let found = program.get("/oidc/.well-known/openid-configuration", "").await.json();
    assert_eq!(text(&found, "issuer"), issuer);
    let tokens = program.by_password().await;
    assert_eq!((text(&tokens, "token_type"), &tokens["expires_in"]), ("Bearer", &json!(1800)));
    let access = text(&tokens, "access_token");
    let own = claims(access);
    assert_eq!((text(&own, "iss"), text(&own, "z_t")), (issuer.as_str(), "a"));
    assert_eq!((&own["amr"], &own["aud"]), (&json!(["password"]), &json!(["native"])));
    assert_eq!(own["nbf"].as_i64().unwrap() + 60, own["iat"].as_i64().unwrap());
    let id = claims(text(&tokens, "id_token"));
    assert_eq!((text(&id, "nonce"), &id["sub"]), ("n1", &own["sub"]));
    for path in [CLIENT, MANAGEMENT] {
        let seen = program.get(&format!("{path}/current-identity"), access).await;
        assert_eq!(seen.data()["id"], own["sub"]);
        let seen = program.get(&format!("{path}/current-api-session"), access).await;
        assert_eq!(seen.data()["id"], own["z_asid"]);
    }
    let seen = program.get(&format!("{MANAGEMENT}/identities"), access).await;
    assert_eq!(seen.status, 200, "an administrator's rights: {seen:?}");
    assert_eq!(program.get("/oidc/userinfo", access).await.json()["sub"], own["sub"]);
    let keys = program.get("/oidc/keys", "").await.json();
    assert_eq!(keys["keys"][0]["kty"], "EC");
    // The other tokens open no API.
    for other in ["refresh_token", "id_token"] {
        let seen = program.get("/current-identity", text(&tokens, other)).await;
        seen.is_error(401, "UNAUTHORIZED");
        assert!(seen.header("www-authenticate").unwrap().contains("openziti-oidc"));
    }
    // The session ends with all of its tokens.
    let end = program.request(Method::DELETE, "/current-api-session").bearer_auth(access);
    assert_eq!(send(end).await.status, 200);
    program.get("/current-identity", access).await.is_error(401, "UNAUTHORIZED");
    let refused = program.refresh(text(&tokens, "refresh_token")).await;
    assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("invalid_grant")));
    // Routers are told.
    let session = Id::new(text(&own, "z_asid"));
    let is_told = || bed.controller.kernel().snapshot().get::<Revocation>(&session).is_some();
    let waits = async {
        while !is_told() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waits).await.unwrap();
}

#[tokio::test]
async fn refresh_tokens_follow_one_another() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let first = program.by_password().await;
    let second = program.refresh(text(&first, "refresh_token")).await.json();
    assert_ne!(second["refresh_token"], first["refresh_token"]);
    // An answer that was lost: the same successor.
    let again = program.refresh(text(&first, "refresh_token")).await.json();
    let id = |tokens: &Value| claims(text(tokens, "refresh_token"))["jti"].clone();
    assert_eq!(id(&again), id(&second));
    for tokens in [&first, &second, &again] {
        let seen = program.get("/current-identity", text(tokens, "access_token")).await;
        assert_eq!(seen.status, 200);
    }
    // Go SDKs refresh by two exchanges of one token.
    let third = program.exchange(text(&second, "refresh_token"), REFRESH, REFRESH).await.json();
    assert_eq!(text(&third, "issued_token_type"), REFRESH);
    let by_id = program.exchange(text(&second, "refresh_token"), REFRESH, ID).await.json();
    assert_eq!((text(&by_id, "token_type"), text(&by_id, "issued_token_type")), ("N_A", ID));
    let shown = claims(text(&by_id, "access_token"));
    assert_eq!(shown["z_asid"], claims(text(&third, "access_token"))["z_asid"]);
    // An old token, whose key nobody proved, ends the session.
    let refused = program.refresh(text(&first, "refresh_token")).await;
    assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("invalid_grant")));
    let seen = program.get("/current-identity", text(&third, "access_token")).await;
    seen.is_error(401, "UNAUTHORIZED");
}

/// The native SDK refreshes each second in the last 15 s, and logs in again after a refusal.
#[tokio::test]
async fn a_session_with_a_near_end_is_not_refreshed_and_stays_good() {
    let bed = async |lasts: u64| {
        let limits = (ApiLimits::default(), StoreCheck::default());
        let lasts = Some(Duration::from_secs(lasts));
        Bed::changed(with_provider(), limits, |it| it.durations.longest_session = lasts).await
    };
    let (long, short) = (bed(600).await, bed(14).await);
    let program = Program::new(&long, None);
    let tokens = program.by_password().await;
    let next = program.refresh(text(&tokens, "refresh_token")).await;
    assert_eq!(next.status, 200);
    assert!(next.json()["expires_in"].as_u64().unwrap() <= 600);
    let program = Program::new(&short, None);
    let tokens = program.by_password().await;
    for _ in 0..2 {
        let refused = program.refresh(text(&tokens, "refresh_token")).await;
        assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("invalid_grant")));
    }
    let seen = program.get("/current-identity", text(&tokens, "access_token")).await;
    assert_eq!(seen.status, 200, "the session goes on to its end");
}

#[tokio::test]
async fn tokens_are_refreshed_and_exchanged_so_often_and_a_refusal_ends_nothing() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let tokens = program.by_password().await;
    let refresh = text(&tokens, "refresh_token");
    let mut answers = 0;
    let refused = loop {
        let seen = program.exchange(refresh, REFRESH, ID).await;
        if seen.status != 200 || answers > 200 {
            break seen;
        }
        answers += 1;
    };
    assert!((20..200).contains(&answers), "{answers}");
    // What SDKs take for temporary: the C SDK begins a new login after any other status than 5xx.
    assert_eq!((refused.status, text(&refused.json(), "error")), (503, "temporarily_unavailable"));
    assert!(refused.header("retry-after").is_some());
    let (mut next, begun) = (program.refresh(refresh).await, std::time::Instant::now());
    while next.status == 503 && begun.elapsed() < LONG {
        tokio::time::sleep(Duration::from_millis(100)).await;
        next = program.refresh(refresh).await;
    }
    assert_eq!(next.status, 200, "{next:?}");
    // A program with another session is not concerned.
    let other = program.by_password().await;
    assert_eq!(program.refresh(text(&other, "refresh_token")).await.status, 200);
}

#[tokio::test]
async fn a_session_by_certificate_needs_the_key() {
    let bed = bed().await;
    let chain = enrolled(&bed).await;
    let (owner, thief) = (Program::new(&bed, Some(&chain)), Program::new(&bed, None));
    let (_, request) = csr("session");
    let tokens = owner.by_certificate(&[("csr_pem", &request)]).await;
    assert!(text(&tokens, "session_cert").starts_with("-----BEGIN CERTIFICATE-----"));
    let access = text(&tokens, "access_token");
    let own = claims(access);
    assert_eq!(own["z_cfs"].as_array().unwrap().len(), 2);
    assert_eq!((&own["amr"], &own["z_ice"]), (&json!(["cert"]), &json!(true)));
    assert_eq!(owner.get("/current-identity", access).await.status, 200);
    thief.get("/current-identity", access).await.is_error(401, "UNAUTHORIZED");
    let refused = thief.refresh(text(&tokens, "refresh_token")).await;
    assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("access_denied")));
    // A refused request used nothing up.
    let next = owner.refresh(text(&tokens, "refresh_token")).await.json();
    let access = text(&next, "access_token");
    let third = owner.refresh(text(&next, "refresh_token")).await.json();
    assert_eq!(owner.get("/current-identity", text(&third, "access_token")).await.status, 200);
    // Whoever proves the key is no thief: an old token is refused, and the session stays.
    let refused = owner.refresh(text(&tokens, "refresh_token")).await;
    assert_eq!(refused.json()["error"], "invalid_grant");
    assert_eq!(owner.get("/current-identity", access).await.status, 200);
}

#[tokio::test]
async fn a_token_is_exchanged_for_no_longer_life() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let tokens = program.by_password().await;
    let access = text(&tokens, "access_token");
    let other = program.exchange(access, ACCESS, ACCESS).await.json();
    assert_eq!(program.get("/current-identity", text(&other, "access_token")).await.status, 200);
    for (token, of, wanted) in [
        (access, ACCESS, REFRESH),
        (access, ACCESS, ID),
        (access, REFRESH, ACCESS),
        (text(&tokens, "refresh_token"), ACCESS, ACCESS),
        (text(&tokens, "id_token"), ID, ACCESS),
        (text(&tokens, "id_token"), ACCESS, ACCESS),
    ] {
        let seen = program.exchange(token, of, wanted).await;
        assert_eq!(seen.status, 400, "{of} {wanted}: {seen:?}");
    }
}

#[tokio::test]
async fn wrong_logins_are_refused() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let id = program.begin("&method=password").await;
    let body = |password: &str| json!({"id": id, "username": USERNAME, "password": password});
    let seen = program.step("/oidc/login/password", &body("wrong")).await;
    assert_eq!((seen.status, &seen.json()["code"]), (401, &json!("INVALID_AUTH")));
    let seen = program.step("/oidc/login/cert", &json!({"id": id})).await;
    assert_eq!((seen.status, &seen.json()["code"]), (401, &json!("INVALID_AUTH")));
    // The login goes on, and its callback works once.
    let seen = program.step("/oidc/login/password", &body(PASSWORD)).await;
    let code = program.code(&seen).await;
    let again = send(program.http.get(seen.header("location").unwrap())).await;
    assert_eq!(again.status, 401);
    assert_eq!(program.redeem(&code, &[("code_verifier", "x")]).await.status, 400);
    let tokens = program.redeem(&code, &[]).await.json();
    // A code that comes twice ends the session.
    let again = program.redeem(&code, &[]).await;
    assert_eq!((again.status, &again.json()["error"]), (400, &json!("invalid_grant")));
    let seen = program.get("/current-identity", text(&tokens, "access_token")).await;
    seen.is_error(401, "UNAUTHORIZED");
    // Another host is no issuer.
    let request = program.request(Method::GET, "/oidc/.well-known/openid-configuration");
    assert_eq!(send(request.header("host", "evil.example")).await.status, 404);
}

#[tokio::test]
async fn a_second_factor_is_begun_in_a_login_and_asked_for_in_the_next() {
    let bed = bed().await;
    let admin = bed.admin().await;
    let policy = admin
        .create(
            "auth-policies",
            json!({"name": "strict", "primary": {"cert": {"allowed": false, "allowExpiredCerts": false},
                "extJwt": {"allowed": false, "allowedSigners": []},
                "updb": {"allowed": true, "lockoutDurationMinutes": 0, "maxAttempts": 0, "minPasswordLength": 5,
                    "requireMixedCase": false, "requireNumberChar": false, "requireSpecialChar": false}},
                "secondary": {"requireTotp": true}}),
        )
        .await;
    let identity = json!({"name": "ann", "type": "User", "isAdmin": false, "authPolicyId": policy});
    let id = admin.create("identities", identity).await;
    let password =
        json!({"method": "updb", "identityId": id, "username": "anna", "password": PASSWORD});
    admin.create("authenticators", password).await;
    let program = Program::new(&bed, None);
    let login = program.begin("&method=password").await;
    let body = json!({"id": login, "username": "anna", "password": PASSWORD});
    let seen = program.step("/oidc/login/password", &body).await;
    assert_eq!((seen.status, seen.header("totp-required")), (200, Some("true")));
    assert_eq!(seen.json()["authQueries"][0]["typeId"], "TOTP");
    let only_id = json!({"id": login});
    let begun = program.step("/oidc/login/totp/enroll", &only_id).await;
    assert_eq!(begun.status, 201, "{begun:?}");
    let first = begun.json()["provisioningUrl"].clone();
    // Whoever lost the first secret begins anew, and gets another one.
    let begun = program.step("/oidc/login/totp/enroll", &only_id).await;
    assert_eq!(begun.status, 201, "{begun:?}");
    let url = begun.json()["provisioningUrl"].as_str().unwrap().to_owned();
    assert_ne!(first, url);
    let wrong = json!({"id": login, "code": "000000"});
    let seen = program.step("/oidc/login/totp/enroll/verify", &wrong).await;
    assert_eq!((seen.status, &seen.json()["code"]), (400, &json!("INVALID TOTP CODE")));
    let given = one_time_code(&url);
    let right = json!({"id": login, "code": given});
    let seen = program.step("/oidc/login/totp/enroll/verify", &right).await;
    let code = program.code(&seen).await;
    let tokens = program.redeem(&code, &[]).await.json();
    assert_eq!(claims(text(&tokens, "access_token"))["amr"], json!(["password", "totp"]));
    assert_eq!(program.get("/current-identity", text(&tokens, "access_token")).await.status, 200);
    // The next login needs a code; a recovery code is one.
    let login = program.begin("&method=password").await;
    let body = json!({"id": login, "username": "anna", "password": PASSWORD});
    let seen = program.step("/oidc/login/password", &body).await;
    assert_eq!(seen.json()["authQueries"][0]["isTotpEnrolled"], true);
    let callback =
        send(program.request(Method::GET, &format!("/oidc/authorize/callback?id={login}"))).await;
    assert!(callback.header("location").unwrap().contains("error=interaction_required"));
    // The code of the enrollment counted in its own login.
    let login = program.begin("&method=password").await;
    let body = json!({"id": login, "username": "anna", "password": PASSWORD});
    program.step("/oidc/login/password", &body).await;
    let seen = program.step("/oidc/login/totp", &json!({"id": login, "code": given})).await;
    assert_eq!((seen.status, &seen.json()["code"]), (400, &json!("INVALID TOTP CODE")));
    let recovery = begun.json()["recoveryCodes"][0].as_str().unwrap().to_owned();
    let login = program.begin("&method=password").await;
    let body = json!({"id": login, "username": "anna", "password": PASSWORD});
    program.step("/oidc/login/password", &body).await;
    let body = json!({"id": login, "code": recovery});
    let seen = program.step("/oidc/login/totp", &body).await;
    let code = program.code(&seen).await;
    assert_eq!(program.redeem(&code, &[]).await.status, 200);
}

#[tokio::test]
async fn somebody_elses_factor_ends_the_login() {
    let bed = bed().await;
    let chain = enrolled(&bed).await;
    let program = Program::new(&bed, Some(&chain));
    let id = program.begin("").await;
    let seen = program.step("/oidc/login/cert", &json!({"id": id})).await;
    assert_eq!(seen.status, 302);
    let body = json!({"id": id, "username": USERNAME, "password": PASSWORD});
    let seen = program.step("/oidc/login/password", &body).await;
    assert_eq!((seen.status, &seen.json()["code"]), (401, &json!("INVALID_AUTH")));
    let path = format!("/oidc/authorize/callback?id={id}");
    assert_eq!(send(program.request(Method::GET, &path)).await.status, 401);
}

/// A page of this browser, with its cookie if it has one.
pub(super) async fn page(
    program: &Program<'_>,
    path: &str,
    cookie: &str,
    form: &[(&str, &str)],
) -> Seen {
    let html = "text/html,application/xhtml+xml,*/*;q=0.8";
    let request = match form {
        [] => program.request(Method::GET, path),
        form => with_form(program.request(Method::POST, path), form),
    };
    send(request.header("accept", html).header("cookie", cookie)).await
}

#[tokio::test]
async fn pages_work_in_the_browser_that_began_the_login() {
    let bed = bed().await;
    let browser = Program::new(&bed, None);
    let challenge = challenge();
    let begin = format!(
        "/oidc/authorize?client_id=openziti&response_type=code&redirect_uri={REDIRECT}\
         &scope=openid&state=s1&code_challenge={challenge}&code_challenge_method=S256"
    );
    let seen = page(&browser, &begin, "", &[]).await;
    assert_eq!(seen.status, 302);
    let cookie = seen.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let to = seen.header("location").unwrap().to_owned();
    let id = to.split_once("authRequestID=").unwrap().1.to_owned();
    let shown = page(&browser, &to, &cookie, &[]).await;
    assert_eq!(shown.status, 200);
    assert!(shown.text.contains("name=\"password\"") && !shown.text.contains("<script"));
    let policy = shown.header("content-security-policy").unwrap();
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(policy.contains("form-action 'self' http://localhost:8080"), "{policy}");
    assert_eq!(shown.header("cache-control"), Some("no-store"));
    // Nobody else sees or continues it.
    for other in ["", "__Host-weft-login=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        let form = [("id", id.as_str()), ("username", USERNAME), ("password", PASSWORD)];
        for form in [&[][..], &form] {
            let seen = page(&browser, &to, other, form).await;
            assert_eq!(seen.status, 403, "{seen:?}");
            assert!(seen.text.contains("not yours to continue"), "{}", seen.text);
        }
    }
    let form = |password| [("id", id.as_str()), ("username", USERNAME), ("password", password)];
    let wrong = page(&browser, "/oidc/login/username", &cookie, &form("<b>wrong")).await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.text.contains("The name or the password is wrong."), "{}", wrong.text);
    let right = page(&browser, "/oidc/login/username", &cookie, &form(PASSWORD)).await;
    assert_eq!(right.status, 302, "{right:?}");
    let callback = right.header("location").unwrap();
    let path = callback.strip_prefix(&bed.url("")).unwrap();
    assert_eq!(page(&browser, path, "", &[]).await.status, 403, "not by its id alone");
    // The code of a login on a page is given to its browser, and to no program.
    assert_ne!(send(browser.request(Method::GET, path)).await.status, 302);
    let seen = page(&browser, path, &cookie, &[]).await;
    let code = seen.header("location").unwrap().split_once("code=").unwrap().1.to_owned();
    let tokens = browser.redeem(&code, &[("client_id", "openziti")]).await;
    assert_eq!(tokens.status, 400, "client_id twice");
    let form = [
        ("grant_type", "authorization_code"),
        ("client_id", "openziti"),
        ("code", &code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
    ];
    let tokens = browser.token(&form).await.json();
    assert_eq!(tokens.get("refresh_token"), None, "not asked for");
    // A logout ends the session of its hint, and goes to known addresses only.
    let hint = text(&tokens, "id_token");
    let access = text(&tokens, "access_token");
    let path = format!(
        "/oidc/end_session?id_token_hint={hint}&post_logout_redirect_uri=https://evil.example/"
    );
    let seen = page(&browser, &path, &cookie, &[]).await;
    assert_eq!((seen.status, seen.header("location")), (200, None));
    browser.get("/current-identity", access).await.is_error(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_device_gets_its_tokens_once_a_person_agrees() {
    let bed = bed().await;
    let (device, browser) = (Program::new(&bed, None), Program::new(&bed, None));
    let request = with_form(
        device.request(Method::POST, "/oidc/device_authorization"),
        &[("client_id", "native"), ("scope", "openid offline_access")],
    );
    let codes = send(request.header("user-agent", "meter/1.0")).await.json();
    let code = text(&codes, "device_code").to_owned();
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
        ("client_id", "native"),
        ("device_code", code.as_str()),
    ];
    let waits = device.token(&form).await;
    assert_eq!((waits.status, &waits.json()["error"]), (400, &json!("authorization_pending")));
    let wrong = page(&browser, "/oidc/device", "", &[("user_code", "BCDF-GHJK")]).await;
    assert_eq!(wrong.status, 400);
    let entered = [("user_code", text(&codes, "user_code"))];
    let seen = page(&browser, "/oidc/device", "", &entered).await;
    assert_eq!(seen.status, 302, "{seen:?}");
    let cookie = seen.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let id = seen.header("location").unwrap().split_once("authRequestID=").unwrap().1.to_owned();
    let login = [("id", id.as_str()), ("username", USERNAME), ("password", PASSWORD)];
    let seen = page(&browser, "/oidc/login/username", &cookie, &login).await;
    let to = seen.header("location").unwrap().to_owned();
    let question = page(&browser, &to, &cookie, &[]).await;
    assert!(question.text.contains("meter/1.0"), "{}", question.text);
    let agrees = [("id", id.as_str()), ("decision", "agree")];
    assert_eq!(page(&browser, "/oidc/device/consent", "", &agrees).await.status, 403);
    assert_eq!(page(&browser, "/oidc/device/consent", &cookie, &agrees).await.status, 200);
    let tokens = device.token(&form).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    let tokens = tokens.json();
    let seen = device.get("/current-identity", text(&tokens, "access_token")).await;
    assert_eq!(seen.status, 200);
    assert_eq!(device.token(&form).await.status, 400, "once");
}

#[tokio::test]
async fn a_token_that_is_given_back_is_good_no_more() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let revoke = async |token: &str| {
        let form = [("client_id", "native"), ("token", token)];
        send(with_form(program.request(Method::POST, "/oidc/oauth/revoke"), &form)).await.status
    };
    let tokens = program.by_password().await;
    let second = program.refresh(text(&tokens, "refresh_token")).await.json();
    let access = text(&second, "access_token");
    assert_eq!(revoke("nothing of ours").await, 200);
    assert_eq!(revoke(access).await, 200);
    program.get("/current-identity", access).await.is_error(401, "UNAUTHORIZED");
    let third = program.refresh(text(&second, "refresh_token")).await.json();
    let access = text(&third, "access_token");
    assert_eq!(program.get("/current-identity", access).await.status, 200);
    assert_eq!(revoke(text(&third, "refresh_token")).await, 200);
    program.get("/current-identity", access).await.is_error(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_token_that_routers_may_know_opens_the_client_api_only() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let tokens = program.by_password().await;
    let access = text(&tokens, "access_token");
    let managed = format!("{MANAGEMENT}/identities");
    assert_eq!(program.get(&managed, access).await.status, 200);
    let (_, request) = csr("session");
    let path = format!("{CLIENT}/current-api-session/certificates");
    let made = program.request(Method::POST, &path).bearer_auth(access);
    let made = send(made.json(&json!({"csr": request}))).await;
    assert_eq!(made.status, 201, "{made:?}");
    program.get(&managed, access).await.is_error(401, "UNAUTHORIZED");
    // A router that has the token wins nothing by deleting the certificate.
    let path = format!("{path}/{}", made.data()["id"].as_str().unwrap());
    let deleted = send(program.request(Method::DELETE, &path).bearer_auth(access)).await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
    program.get(&managed, access).await.is_error(401, "UNAUTHORIZED");
    let exchanged = program.exchange(access, ACCESS, ACCESS).await.json();
    let other = text(&exchanged, "access_token");
    program.get(&managed, other).await.is_error(401, "UNAUTHORIZED");
    assert_eq!(program.get("/current-identity", other).await.status, 200);
}

#[tokio::test]
async fn a_session_that_begins_a_second_factor_goes_on_and_the_others_end() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let (one, other) = (program.by_password().await, program.by_password().await);
    let access = text(&one, "access_token");
    let post = async |path: &str, body: Value| {
        send(program.request(Method::POST, path).bearer_auth(access).json(&body)).await
    };
    assert_eq!(post("/current-identity/mfa", json!({})).await.status, 201);
    let begun = program.get("/current-identity/mfa", access).await.data();
    let code = one_time_code(text(&begun, "provisioningUrl"));
    assert_eq!(post("/current-identity/mfa/verify", json!({"code": code})).await.status, 200);
    assert_eq!(program.get("/current-identity", access).await.status, 200);
    let next = program.refresh(text(&one, "refresh_token")).await.json();
    assert_eq!(claims(text(&next, "access_token"))["amr"], json!(["password", "totp"]));
    let gone = text(&other, "access_token");
    program.get("/current-identity", gone).await.is_error(401, "UNAUTHORIZED");
    let refused = program.refresh(text(&other, "refresh_token")).await;
    assert_eq!(refused.json()["error"], "invalid_grant");
}
