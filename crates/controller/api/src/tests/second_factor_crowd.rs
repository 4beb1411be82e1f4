//! Many addresses that know a password guess at its owner's second factor.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::oidc::{Program, bed, text};
use super::{Bed, PASSWORD, send};

/// Addresses that guess; every other one over each protocol.
const CROWD: u8 = 24;
/// How long the owner may wait.
const PATIENCE: Duration = Duration::from_secs(60);
const AUTHENTICATE: &str = "/authenticate?method=password";

/// Makes somebody whose logins need a second factor, which is set up. Returns the recovery codes.
async fn owner(bed: &Bed) -> Vec<String> {
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
    let program = Program::new(bed, None);
    let login = half(&program).await;
    let begun = program.step("/oidc/login/totp/enroll", &json!({"id": login})).await.json();
    let code = super::oidc::one_time_code(text(&begun, "provisioningUrl"));
    let right = json!({"id": login, "code": code});
    assert_eq!(program.step("/oidc/login/totp/enroll/verify", &right).await.status, 302);
    let codes = begun["recoveryCodes"].as_array().unwrap().iter();
    codes.map(|code| code.as_str().unwrap().to_owned()).collect()
}

/// A login over OpenID Connect that waits for the second factor; its id.
async fn half(program: &Program<'_>) -> String {
    let login = program.begin("&method=password").await;
    let body = json!({"id": login, "username": "anna", "password": PASSWORD});
    assert_eq!(program.step("/oidc/login/password", &body).await.status, 200);
    login
}

/// A session of the legacy protocol that waits for the second factor; its token.
async fn legacy_half(program: &Program<'_>) -> String {
    let seen = program.step(AUTHENTICATE, &json!({"username": "anna", "password": PASSWORD})).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    text(&seen.data(), "token").to_owned()
}

async fn legacy_code(program: &Program<'_>, token: &str, code: &str) -> u16 {
    let request = program.request(Method::POST, "/authenticate/mfa").header("zt-session", token);
    send(request.json(&json!({"code": code}))).await.status
}

/// Tries a code again and again until it is looked at; the status of that answer.
async fn in_turn(attempt: impl AsyncFn() -> u16) -> u16 {
    let begun = Instant::now();
    loop {
        match attempt().await {
            429 if begun.elapsed() < PATIENCE => tokio::time::sleep(Duration::from_secs(1)).await,
            status => return status,
        }
    }
}

/// One of the crowd, until it is over. Guesses have the form of the owner's codes, so that they wait in one queue.
async fn guess(bed: Arc<Bed>, number: u8, guesses: Arc<AtomicUsize>, over: Arc<AtomicBool>) {
    let program = Program::at(&bed, None, Ipv4Addr::new(127, 0, 1, number));
    let is_legacy = number.is_multiple_of(2);
    let login = if is_legacy { legacy_half(&program).await } else { half(&program).await };
    for guess in 0.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let code = format!("guess-{number}-{guess}");
        let status = if is_legacy {
            legacy_code(&program, &login, &code).await
        } else {
            program.step("/oidc/login/totp", &json!({"id": login, "code": code})).await.status
        };
        assert!(![200, 302].contains(&status), "a guess is right");
        guesses.fetch_add(1, Ordering::Relaxed);
        if status == 429 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_that_knows_the_password_keeps_its_owner_out_over_neither_protocol() {
    let bed = Arc::new(bed().await);
    let codes = owner(&bed).await;
    let program = Program::new(&bed, None);
    // The owner has logged in at this address before.
    let token = legacy_half(&program).await;
    assert_eq!(legacy_code(&program, &token, &codes[0]).await, 200);
    let (guesses, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let crowd: Vec<_> = (1..=CROWD)
        .map(|it| {
            tokio::spawn(guess(Arc::clone(&bed), it, Arc::clone(&guesses), Arc::clone(&over)))
        })
        .collect();
    let begun = Instant::now();
    while guesses.load(Ordering::Relaxed) < 2 * usize::from(CROWD) {
        assert!(begun.elapsed() < PATIENCE, "the crowd does not guess");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let token = legacy_half(&program).await;
    let status = in_turn(async || legacy_code(&program, &token, &codes[1]).await).await;
    assert_eq!(status, 200, "over the legacy protocol");
    let login = half(&program).await;
    let body: Value = json!({"id": login, "code": codes[2]});
    let status = in_turn(async || program.step("/oidc/login/totp", &body).await.status).await;
    assert_eq!(status, 302, "over OpenID Connect");
    over.store(true, Ordering::Relaxed);
    for guesser in crowd {
        guesser.await.unwrap();
    }
}
