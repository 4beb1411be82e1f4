//! Attacks on logins by OpenID Connect, each by its name (docs/security.md).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};

use super::oidc::{
    ACCESS, ID, Program, REDIRECT, REFRESH, VERIFIER, bed, challenge, claims, page, text,
};
use super::{PASSWORD, Seen, USERNAME, send};

/// The error of a refused request for tokens.
fn refused(seen: &Seen) -> (u16, String) {
    (seen.status, text(&seen.json(), "error").to_owned())
}

/// A token with another header or other claims, and the old signature or none.
fn forged(token: &str, header: Option<Value>, change: impl Fn(&mut Value), sign: bool) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let header = header.map_or_else(|| parts[0].to_owned(), |header| encode(&header));
    let mut body = claims(token);
    change(&mut body);
    let signature = if sign { parts[2] } else { "" };
    format!("{header}.{}.{signature}", encode(&body))
}

#[tokio::test]
async fn token_types_are_not_confused() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let tokens = program.by_password().await;
    let [access, refresh, id] =
        ["access_token", "refresh_token", "id_token"].map(|name| text(&tokens, name));
    for other in [refresh, id] {
        program.get("/current-identity", other).await.is_error(401, "UNAUTHORIZED");
        assert_eq!(program.get("/oidc/userinfo", other).await.status, 401);
    }
    for other in [access, id] {
        assert_eq!(refused(&program.refresh(other).await), (400, "invalid_grant".to_owned()));
    }
    for (token, of) in [(access, REFRESH), (refresh, ACCESS), (id, ACCESS), (id, REFRESH)] {
        for wanted in [ACCESS, REFRESH, ID] {
            assert_eq!(program.exchange(token, of, wanted).await.status, 400, "{of} for {wanted}");
        }
    }
    // None of them was used up, and the access token is one.
    assert_eq!(program.get("/current-identity", access).await.status, 200);
    assert_eq!(program.refresh(refresh).await.status, 200);
}

#[tokio::test]
async fn tokens_without_a_signature_or_with_a_changed_claim_are_no_tokens() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let tokens = program.by_password().await;
    let (access, refresh) = (text(&tokens, "access_token"), text(&tokens, "refresh_token"));
    let kid = {
        let header = access.split('.').next().unwrap();
        let header = BASE64_URL_SAFE_NO_PAD.decode(header).unwrap();
        serde_json::from_slice::<Value>(&header).unwrap()["kid"].clone()
    };
    let none = |alg: &str| Some(json!({"alg": alg, "kid": kid, "typ": "JWT"}));
    let same = |_: &mut Value| {};
    let admin = |body: &mut Value| body["z_ia"] = json!(false);
    let later = |body: &mut Value| body["exp"] = json!(4_000_000_000_u64);
    let audience = |body: &mut Value| body["aud"] = json!(["another program"]);
    let issuer = |body: &mut Value| body["iss"] = json!("https://evil.example/oidc");
    let all = |token: &str| {
        [
            forged(token, none("none"), same, false),
            forged(token, none("None"), same, true),
            forged(token, none("HS256"), same, true),
            forged(token, none("RS256"), same, true),
            forged(token, Some(json!({"alg": "ES256", "typ": "JWT"})), same, true),
            forged(token, Some(json!({"alg": "ES256", "kid": "other"})), same, true),
            forged(token, None, admin, true),
            forged(token, None, later, true),
            forged(token, None, audience, true),
            forged(token, None, issuer, true),
            forged(token, None, same, false),
        ]
    };
    for wrong in all(access) {
        program.get("/current-identity", &wrong).await.is_error(401, "UNAUTHORIZED");
        assert_eq!(program.exchange(&wrong, ACCESS, ACCESS).await.status, 400);
    }
    for wrong in all(refresh) {
        assert_eq!(refused(&program.refresh(&wrong).await), (400, "invalid_grant".to_owned()));
    }
    assert_eq!(program.get("/current-identity", access).await.status, 200);
}

#[tokio::test]
async fn a_code_is_replayed_in_vain_and_ends_what_it_gave() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let id = program.begin("&method=password").await;
    let body = json!({"id": id, "username": USERNAME, "password": PASSWORD});
    let code = program.code(&program.step("/oidc/login/password", &body).await).await;
    let tokens = program.redeem(&code, &[]).await.json();
    let access = text(&tokens, "access_token");
    assert_eq!(program.get("/current-identity", access).await.status, 200);
    assert_eq!(refused(&program.redeem(&code, &[]).await), (400, "invalid_grant".to_owned()));
    program.get("/current-identity", access).await.is_error(401, "UNAUTHORIZED");
    let late = program.refresh(text(&tokens, "refresh_token")).await;
    assert_eq!(refused(&late), (400, "invalid_grant".to_owned()));
    // The callback gives no second code.
    let seen = send(program.request(Method::GET, &format!("/oidc/authorize/callback?id={id}")));
    assert_eq!(seen.await.status, 401);
}

#[tokio::test]
async fn a_refresh_token_is_replayed_in_vain_and_ends_its_session() {
    let bed = bed().await;
    let (owner, thief) = (Program::new(&bed, None), Program::new(&bed, None));
    let first = owner.by_password().await;
    let stolen = text(&first, "refresh_token");
    let mut last = first.clone();
    for _ in 0..2 {
        last = owner.refresh(text(&last, "refresh_token")).await.json();
        let seen = owner.get("/current-identity", text(&last, "access_token")).await;
        assert_eq!(seen.status, 200);
    }
    assert_eq!(refused(&thief.refresh(stolen).await), (400, "invalid_grant".to_owned()));
    let seen = owner.get("/current-identity", text(&last, "access_token")).await;
    seen.is_error(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_code_is_of_no_use_to_another_client_redirect_or_verifier() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let id = program.begin("&method=password").await;
    let body = json!({"id": id, "username": USERNAME, "password": PASSWORD});
    let seen = program.step("/oidc/login/password", &body).await;
    let to = seen.header("location").unwrap().to_owned();
    let back = send(program.http.get(to)).await;
    let back = back.header("location").unwrap();
    // A client that talks to several providers sees which one answers (RFC 9207).
    let issuer = bed.url("/oidc");
    let issuer: String = url::form_urlencoded::byte_serialize(issuer.as_bytes()).collect();
    assert!(back.contains(&format!("iss={issuer}")), "{back}");
    let code = back.split_once("code=").unwrap().1.split('&').next().unwrap();
    let form = |client: &'static str, redirect: &'static str, verifier: &'static str| {
        [
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", code),
            ("code_verifier", verifier),
            ("redirect_uri", redirect),
        ]
    };
    let other = "another-verifier-another-verifier-another-verifier";
    for wrong in [
        form("openziti", REDIRECT, VERIFIER),
        form("native", "http://localhost:8081/auth/callback", VERIFIER),
        form("native", REDIRECT, other),
    ] {
        assert_eq!(refused(&program.token(&wrong).await), (400, "invalid_grant".to_owned()));
    }
    assert_eq!(program.token(&form("native", REDIRECT, VERIFIER)).await.status, 200);
}

#[tokio::test]
async fn nobody_is_redirected_to_where_the_operator_has_not_agreed() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let challenge = challenge();
    for to in [
        "https://evil.example/auth/callback",
        "http://localhost.evil.example/auth/callback",
        "http://127.0.0.1@evil.example/auth/callback",
        "http://localhost:8080/auth/callback/../../evil",
        "http://localhost:8080/auth/callback%2f..",
        "//evil.example/auth/callback",
        "javascript:alert(1)",
        "http://localhost:8080\\@evil.example/auth/callback",
        "",
    ] {
        let to: String = url::form_urlencoded::byte_serialize(to.as_bytes()).collect();
        let path = format!(
            "/oidc/authorize?client_id=native&response_type=code&redirect_uri={to}&scope=openid\
             &code_challenge={challenge}&code_challenge_method=S256"
        );
        let seen = send(program.request(Method::GET, &path)).await;
        assert_eq!((seen.status, seen.header("location")), (400, None), "{to}");
        let path = format!("/oidc/end_session?post_logout_redirect_uri={to}&client_id=native");
        let seen = send(program.request(Method::GET, &path)).await;
        let away = seen.header("location").is_some_and(|to| to.contains("evil"));
        assert!(seen.status < 500 && !away, "{to}: {seen:?}");
    }
}

#[tokio::test]
async fn pages_are_in_no_frame_and_take_no_step_that_another_site_sends() {
    let bed = bed().await;
    let browser = Program::new(&bed, None);
    let (to, cookie) = begun(&browser).await;
    let id = to.split_once("authRequestID=").unwrap().1.to_owned();
    let shown = page(&browser, &to, &cookie, &[]).await;
    let policy = shown.header("content-security-policy").unwrap();
    for rule in ["frame-ancestors 'none'", "default-src 'none'", "form-action 'self'"] {
        assert!(policy.contains(rule), "{rule}: {policy}");
    }
    assert!(!policy.contains("script-src") && !shown.text.contains("<script"), "{policy}");
    assert!(!cookie.is_empty());
    // A form of another site: the browser sends no cookie with it, as that is SameSite=Lax.
    let form = [("id", id.as_str()), ("username", USERNAME), ("password", PASSWORD)];
    let sent = page(&browser, "/oidc/login/username", "", &form).await;
    assert_eq!(sent.status, 403, "{sent:?}");
    // A script of another site sends JSON, for which no cookie is asked, and the browser's certificate with it.
    for (name, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        let request = browser.request(Method::POST, "/oidc/login/cert");
        let request = request.json(&json!({"id": id})).header(name, value);
        assert_eq!(send(request).await.status, 403, "{name}");
    }
    // The cookie opens no API.
    let request = browser.request(Method::GET, "/current-identity").header("cookie", &cookie);
    send(request).await.is_error(401, "UNAUTHORIZED");
    let sent = page(&browser, "/oidc/login/username", &cookie, &form).await;
    assert_eq!(sent.status, 302, "the login itself goes on: {sent:?}");
}

#[tokio::test]
async fn a_login_that_somebody_else_began_is_finished_by_nobody_on_a_genuine_page() {
    let bed = bed().await;
    let (attacker, victim) = (Program::new(&bed, None), Program::new(&bed, None));
    let (to, own) = begun(&attacker).await;
    let id = to.split_once("authRequestID=").unwrap().1.to_owned();
    let (_, other) = begun(&victim).await;
    let form = [("id", id.as_str()), ("username", USERNAME), ("password", PASSWORD)];
    // The victim is sent to the genuine page, with a cookie of a login of its own or without any.
    for cookie in ["", other.as_str()] {
        assert_eq!(page(&victim, &to, cookie, &[]).await.status, 403);
        assert_eq!(page(&victim, "/oidc/login/username", cookie, &form).await.status, 403);
    }
    // Nor does the attacker get the code of a login that went on elsewhere.
    let callback = format!("/oidc/authorize/callback?id={id}");
    let seen = page(&attacker, &callback, &own, &[]).await;
    let away = seen.header("location").unwrap_or_default();
    assert!(!away.contains("code="), "{away}");
    // A login by JSON goes on on no page.
    let id = victim.begin("&method=password").await;
    let body = json!({"id": id, "username": USERNAME, "password": PASSWORD});
    assert_eq!(victim.step("/oidc/login/password", &body).await.status, 302);
    let seen = page(&attacker, &format!("/oidc/authorize/callback?id={id}"), &own, &[]).await;
    assert!(seen.header("location").is_none_or(|to| !to.contains("code=")), "{seen:?}");
}

#[tokio::test]
async fn ghsa_q8g9_jc4c_jp6q_the_provider_reads_no_large_body() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    for path in ["/oidc/oauth/token", "/oidc/login/password", "/oidc/authorize", "/oidc/revoke"] {
        let request = program.request(Method::POST, path);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let seen = send(request.body(vec![b'x'; 1024 * 1024 + 1])).await;
        assert_eq!(seen.status, 413, "{path}: {seen:?}");
    }
}

#[tokio::test]
async fn guesses_at_a_password_count_together_for_both_protocols() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let wrong = |id: &str| json!({"id": id, "username": USERNAME, "password": "wrong"});
    let mut tried = 0;
    loop {
        let seen = if tried % 2 == 0 {
            let id = program.begin("&method=password").await;
            program.step("/oidc/login/password", &wrong(&id)).await
        } else {
            program.step("/authenticate?method=password", &wrong("")).await
        };
        tried += 1;
        if seen.status == 429 {
            break;
        }
        assert_eq!(seen.status, 401, "{seen:?}");
        assert!(tried < 30, "a name has ten wrong passwords a minute, in whatever protocol");
    }
    // The other protocol is full, too.
    let id = program.begin("&method=password").await;
    assert_eq!(program.step("/oidc/login/password", &wrong(&id)).await.status, 429);
    assert_eq!(program.step("/authenticate?method=password", &wrong("")).await.status, 429);
}

/// A login that a browser began: its first page, and its cookie.
async fn begun(browser: &Program<'_>) -> (String, String) {
    let challenge = challenge();
    let begin = format!(
        "/oidc/authorize?client_id=openziti&response_type=code&redirect_uri={REDIRECT}\
         &scope=openid&state=s1&code_challenge={challenge}&code_challenge_method=S256"
    );
    let seen = page(browser, &begin, "", &[]).await;
    assert_eq!(seen.status, 302);
    let cookie = seen.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    (seen.header("location").unwrap().to_owned(), cookie)
}
