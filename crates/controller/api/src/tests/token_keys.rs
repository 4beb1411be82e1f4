//! The keys that sign tokens, as clients and administrators notice them.

use reqwest::Method;
use serde_json::{Value, json};
use weft_model::Id;
use weft_model::entity::Revocation;

use super::oidc::{ACCESS, ID, Program, REFRESH, bed, claims, one_time_code, text};
use super::{Bed, Seen, send};

const KEYS: &str = "/weft/v1/token-keys";

/// The name of the key that signed a token.
fn kid(token: &str) -> String {
    let (header, _) = weft_identity::token::peek::<Value>(token).unwrap();
    header.kid.unwrap()
}

/// The names of the published keys.
async fn published(program: &Program<'_>) -> Vec<String> {
    let keys = program.get("/oidc/keys", "").await.json();
    keys["keys"].as_array().unwrap().iter().map(|key| text(key, "kid").to_owned()).collect()
}

/// Asks as an administrator with an opaque token.
async fn ask(bed: &Bed, method: Method, path: &str, body: Option<Value>) -> Seen {
    let admin = bed.admin().await;
    let request = bed.request(method, &format!("{KEYS}{path}")).header("zt-session", &admin.token);
    send(match body {
        Some(body) => request.json(&body),
        None => request,
    })
    .await
}

/// The keys after one more signs; `body` says which are stolen.
async fn rolled(bed: &Bed, body: Option<Value>) -> Value {
    let seen = ask(bed, Method::POST, "/roll", body).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    assert!(!seen.text.contains("PRIVATE") && !seen.text.contains("secret"));
    seen.data()
}

/// Whether an access token opens the API.
async fn is_good(program: &Program<'_>, access: &str) -> bool {
    program.get("/current-identity", access).await.status == 200
}

/// The names of the keys in this stage.
fn in_stage(answer: &Value, stage: &str) -> Vec<String> {
    let keys = answer["keys"].as_array().unwrap().iter();
    keys.filter(|key| key["stage"] == stage).map(|key| text(key, "id").to_owned()).collect()
}

#[tokio::test]
async fn nobody_is_logged_out_when_another_key_signs() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let tokens = program.by_password().await;
    let access = text(&tokens, "access_token");
    let listed = ask(&bed, Method::GET, "", None).await.data();
    assert_eq!(in_stage(&listed, "signing"), [kid(access)]);
    let next = in_stage(&listed, "ahead").remove(0);
    let known = published(&program).await;
    assert!(known.contains(&kid(access)) && known.contains(&next), "known before it signs");

    let after = rolled(&bed, None).await;
    assert_eq!(in_stage(&after, "signing"), std::slice::from_ref(&next));
    assert_eq!(in_stage(&after, "former"), [kid(access)]);
    assert_eq!((&after["dropped"], &after["endedSessions"]), (&json!([]), &json!(0)));

    // The former key's tokens go on, and give tokens of the new one.
    assert!(is_good(&program, access).await);
    let by_access = program.exchange(access, ACCESS, ACCESS).await.json();
    let refresh = text(&tokens, "refresh_token");
    let by_id = program.exchange(refresh, REFRESH, ID).await.json();
    let refreshed = program.refresh(refresh).await.json();
    for answer in [&by_access, &by_id, &refreshed] {
        assert_eq!(kid(text(answer, "access_token")), next);
    }
    assert_eq!(kid(text(&refreshed, "refresh_token")), next);
    let own = |token: &str| claims(token)["z_asid"].clone();
    assert_eq!(own(text(&refreshed, "access_token")), own(access));
    for token in [access, text(&by_access, "access_token"), text(&refreshed, "access_token")] {
        assert!(is_good(&program, token).await);
    }
    // And once more.
    rolled(&bed, Some(json!({}))).await;
    let again = program.refresh(text(&refreshed, "refresh_token")).await.json();
    assert!(![kid(access), next].contains(&kid(text(&again, "access_token"))));
    assert!(is_good(&program, access).await);
}

#[tokio::test]
async fn a_stolen_key_ends_all_that_it_signed() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let (one, other) = (program.by_password().await, program.by_password().await);
    let stolen = kid(text(&one, "access_token"));
    let named = json!({"key": stolen});
    let refused = ask(&bed, Method::POST, "/roll", Some(named)).await;
    assert_eq!(refused.is_error(400, "COULD_NOT_VALIDATE")["cause"]["field"], "key");
    let unknown = json!({"stolen": true, "key": "none"});
    ask(&bed, Method::POST, "/roll", Some(unknown)).await.is_error(404, "NOT_FOUND");

    let after = rolled(&bed, Some(json!({"stolen": true}))).await;
    assert_eq!(after["endedSessions"], 2);
    let dropped = in_stage(&after, "stolen");
    assert!(dropped.len() == 2 && dropped.contains(&stolen), "{after}");
    let known = published(&program).await;
    assert!(known.iter().all(|kid| !dropped.contains(kid)));
    for tokens in [&one, &other] {
        let seen = program.get("/current-identity", text(tokens, "access_token")).await;
        seen.is_error(401, "UNAUTHORIZED");
        let refused = program.refresh(text(tokens, "refresh_token")).await;
        assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("invalid_grant")));
        // Routers that do not end the sessions by themselves are told of each.
        let session = Id::new(text(&claims(text(tokens, "access_token")), "z_asid"));
        let is_told = || bed.controller.kernel().snapshot().get::<Revocation>(&session).is_some();
        let waits = async {
            while !is_told() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(super::LONG, waits).await.unwrap();
    }
    let anew = program.by_password().await;
    let access = text(&anew, "access_token");
    assert_eq!(in_stage(&after, "signing"), [kid(access)]);
    assert!(is_good(&program, access).await);
}

#[tokio::test]
async fn tokens_of_one_time_codes_are_signed_as_all_others() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let tokens = program.by_password().await;
    let access = text(&tokens, "access_token");
    let post = async |path: &str, body: Value| {
        send(program.request(Method::POST, path).bearer_auth(access).json(&body)).await
    };
    assert_eq!(post("/current-identity/mfa", json!({})).await.status, 201);
    let begun = program.get("/current-identity/mfa", access).await.data();
    let code = one_time_code(text(&begun, "provisioningUrl"));
    assert_eq!(post("/current-identity/mfa/verify", json!({"code": code})).await.status, 200);
    let seen = post("/current-api-session/totp-token", json!({"code": code})).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    let told = seen.data();
    let token = text(&told, "token");
    assert_eq!(kid(token), kid(access));
    let own = claims(token);
    assert_eq!((text(&own, "z_t"), &own["z_asid"]), ("t", &claims(access)["z_asid"]));
    assert_eq!(own["exp"].as_i64().unwrap() - own["iat"].as_i64().unwrap(), 300);
}
