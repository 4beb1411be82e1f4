//! Posture data of sessions by OpenID Connect: it outlives a refresh of the tokens and ends with the session; and a
//! policy that wants a fresh one-time code is met in such a session.

use reqwest::Method;
use serde_json::{Value, json};

use super::oidc::{Program, bed, one_time_code, text};
use super::{CLIENT, MANAGEMENT, Seen, send};

/// The operations of one access token.
struct Session<'p> {
    program: &'p Program<'p>,
    tokens: Value,
}

impl<'p> Session<'p> {
    async fn begin(program: &'p Program<'p>) -> Self {
        Self { program, tokens: program.by_password().await }
    }

    async fn refresh(&mut self) {
        let next = self.program.refresh(text(&self.tokens, "refresh_token")).await;
        assert_eq!(next.status, 200, "{next:?}");
        self.tokens = next.json();
    }

    async fn post(&self, path: &str, body: Value) -> Seen {
        let request = self.program.request(Method::POST, path);
        let request = request.bearer_auth(text(&self.tokens, "access_token"));
        send(request.json(&body)).await
    }

    async fn create(&self, kind: &str, body: Value) -> String {
        let seen = self.post(&format!("{MANAGEMENT}/{kind}"), body).await;
        assert_eq!(seen.status, 201, "{seen:?}");
        text(&seen.data(), "id").to_owned()
    }

    async fn get(&self, path: &str) -> Value {
        let seen = self.program.get(path, text(&self.tokens, "access_token")).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        seen.data()
    }

    async fn end(self) {
        let request =
            self.program.request(Method::DELETE, &format!("{CLIENT}/current-api-session"));
        let seen = send(request.bearer_auth(text(&self.tokens, "access_token"))).await;
        assert_eq!(seen.status, 200, "{seen:?}");
    }

    /// A service that the own identity may dial while a check passes.
    async fn service(&self, mut check: Value) -> (String, String) {
        check["name"] = json!("check");
        check["roleAttributes"] = json!(["checks"]);
        let check = self.create("posture-checks", check).await;
        let service = json!({"name": "web", "encryptionRequired": false});
        let service = self.create("services", service).await;
        let own = text(&self.get(&format!("{CLIENT}/current-identity")).await, "id").to_owned();
        let policy = json!({"name": "dial", "type": "Dial", "semantic": "AnyOf",
            "identityRoles": [format!("@{own}")], "serviceRoles": [format!("@{service}")],
            "postureCheckRoles": ["#checks"]});
        self.create("service-policies", policy).await;
        (service, check)
    }

    /// What the check of a service says.
    async fn query(&self, service: &str) -> Value {
        let seen = self.get(&format!("{CLIENT}/services/{service}")).await;
        seen["postureQueries"][0]["postureQueries"][0].clone()
    }
}

#[tokio::test]
async fn posture_data_outlives_a_refresh_and_ends_with_the_session() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let mut session = Session::begin(&program).await;
    let check = json!({"typeId": "DOMAIN", "domains": ["corp"]});
    let (service, check) = session.service(check).await;
    assert_eq!(session.query(&service).await["isPassing"], false);
    let said = json!({"id": check, "typeId": "DOMAIN", "domain": "corp"});
    let seen = session.post(&format!("{CLIENT}/posture-response"), said).await;
    assert_eq!(seen.status, 201, "{seen:?}");
    assert_eq!(session.query(&service).await["isPassing"], true);
    for _ in 0..2 {
        session.refresh().await;
        assert_eq!(session.query(&service).await["isPassing"], true);
    }
    session.end().await;
    // Nobody uses the device any more: it is forgotten, and asked again.
    bed.controller.auth().sweep_postures();
    let next = Session::begin(&program).await;
    assert_eq!(next.query(&service).await["isPassing"], false);
}

#[tokio::test]
async fn a_policy_that_wants_a_fresh_code_is_met_in_a_session_by_tokens() {
    let bed = bed().await;
    let program = Program::new(&bed, None);
    let mut session = Session::begin(&program).await;
    let check = json!({"typeId": "MFA", "timeoutSeconds": 600, "promptOnWake": true,
        "promptOnUnlock": false, "ignoreLegacyEndpoints": false});
    let (service, _) = session.service(check).await;
    let query = session.query(&service).await;
    assert_eq!((&query["queryType"], &query["isPassing"]), (&json!("MFA"), &json!(false)));
    let begun = session.post(&format!("{CLIENT}/current-identity/mfa"), json!({})).await;
    assert_eq!(begun.status, 201, "{begun:?}");
    let mfa = session.get(&format!("{CLIENT}/current-identity/mfa")).await;
    let code = json!({"code": one_time_code(text(&mfa, "provisioningUrl"))});
    let verify = format!("{CLIENT}/current-identity/mfa/verify");
    assert_eq!(session.post(&verify, code.clone()).await.status, 200);
    // The proof for routers counts at the controller, too: the same code once more, as it only was verified before.
    let token = format!("{CLIENT}/current-api-session/totp-token");
    let wrong = session.post(&token, json!({"code": "000000"})).await;
    assert!(wrong.status == 400 || wrong.status == 401, "{wrong:?}");
    let proof = session.post(&token, code).await;
    assert_eq!(proof.status, 200, "{proof:?}");
    assert!(text(&proof.data(), "token").starts_with("ey"));
    let query = session.query(&service).await;
    assert_eq!((&query["isPassing"], &query["timeout"]), (&json!(true), &json!(600)));
    assert!(query["timeoutRemaining"].as_i64().unwrap() > 500, "{query}");
    // It is not asked again after a refresh, but after the device woke, within five minutes.
    session.refresh().await;
    assert_eq!(session.query(&service).await["isPassing"], true);
    let woken = json!({"id": "0", "typeId": "ENDPOINT_STATE", "woken": true});
    let seen = session.post(&format!("{CLIENT}/posture-response"), woken).await;
    assert_eq!(seen.data()["services"][0]["timeoutRemaining"], 300, "{seen:?}");
    let left = session.query(&service).await["timeoutRemaining"].as_i64().unwrap();
    assert!(left <= 300, "{left}");
}
