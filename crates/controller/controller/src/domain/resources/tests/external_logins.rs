//! Logins with tokens of external signers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode, headers};
use weft_identity::token::TokenSigner;
use weft_identity::{Certificate, KeyAlgorithm, KeySet, PrivateKey};
use weft_kernel::KeySource;

use super::{NONE, with};
use crate::testing::{Bed, NOW, csr, to, until};
use crate::{Call, Caller, Origin, Reply, Result};

/// Documents of providers, by URL.
#[derive(Clone, Default)]
pub(super) struct Documents(pub(super) Arc<Mutex<HashMap<String, Vec<u8>>>>);

impl KeySource for Documents {
    fn fetch(&self, url: &str) -> BoxFuture<'static, Result<Vec<u8>, String>> {
        let document = self.0.lock().get(url).cloned();
        async move { document.ok_or_else(|| "secret-host refused the connection".to_owned()) }
            .boxed()
    }
}

/// An identity provider with a key set.
pub(super) struct Provider {
    name: &'static str,
    pub(super) tokens: TokenSigner,
    key: PrivateKey,
}

impl Provider {
    pub(super) fn new(documents: &Documents, name: &'static str, kid: &str) -> Self {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let provider = Self { name, tokens: TokenSigner::with_kid(key.clone(), kid).unwrap(), key };
        provider.publish(documents);
        provider
    }

    pub(super) fn publish(&self, documents: &Documents) {
        let mut keys = KeySet::new();
        keys.insert(self.tokens.kid(), self.key.public().clone());
        let document = keys.to_json().unwrap().to_string().into_bytes();
        documents.0.lock().insert(self.url(), document);
    }

    fn url(&self) -> String {
        format!("https://{}.example/keys", self.name)
    }

    pub(super) fn body(&self) -> Value {
        json!({"name": self.name, "issuer": format!("https://{}.example", self.name),
            "audience": "weft", "enabled": true, "jwksEndpoint": self.url(),
            "claimsProperty": "/email", "useExternalId": true})
    }

    pub(super) fn claims(&self, email: &str) -> Value {
        json!({"iss": format!("https://{}.example", self.name), "aud": "weft",
            "exp": NOW.0 / 1000 + 600, "email": email})
    }

    pub(super) fn token(&self, email: &str) -> String {
        self.tokens.sign(&self.claims(email)).unwrap()
    }
}

/// A controller with documents of providers.
pub(super) async fn scene() -> (Bed, Documents, Caller) {
    let documents = Documents::default();
    let source = Arc::new(documents.clone());
    let bed = Bed::with(move |settings| settings.key_source = source).await;
    let admin = bed.admin().await;
    (bed, documents, admin)
}

pub(super) async fn identity(bed: &Bed, admin: &Caller, external: &str) -> String {
    let body =
        json!({"name": external, "type": "Default", "isAdmin": false, "externalId": external});
    bed.create(admin, "createIdentity", body).await
}

pub(super) fn bearing(mut call: Call, tokens: &[&str]) -> Call {
    let bearer = |token: &&str| (headers::AUTHORIZATION.to_owned(), format!("Bearer {token}"));
    call.headers.extend(tokens.iter().map(bearer));
    call
}

pub(super) async fn log_in(bed: &Bed, tokens: &[&str]) -> Result<Reply> {
    let call = to(Api::Client, "authenticate", &[]).with_query("method", "ext-jwt");
    bed.controller.call(Caller::nobody(Origin::default()), bearing(call, tokens)).await
}

/// The refusal of a login, which tells nothing but a challenge with this error.
pub(super) async fn refused(bed: &Bed, tokens: &[&str], error: &str) {
    let failure = log_in(bed, tokens).await.map(|_| ()).unwrap_err();
    assert_eq!((failure.code(), failure.cause()), (ErrorCode::InvalidAuth, None));
    let challenge = failure.challenge().unwrap();
    assert!(challenge.contains("openziti-primary-ext-jwt"), "{challenge}");
    assert!(challenge.contains(&format!("error=\"{error}\"")), "{error}: {challenge}");
    assert!(!challenge.contains("secret-host"), "{challenge}");
}

pub(super) fn token_of(reply: &Reply) -> String {
    reply.data()["token"].as_str().unwrap().to_owned()
}

pub(super) fn policy(name: &str, signers: &[&str], second: Value) -> Value {
    json!({"name": name,
        "primary": {
            "cert": {"allowed": true, "allowExpiredCerts": true},
            "extJwt": {"allowed": true, "allowedSigners": signers},
            "updb": {"allowed": true, "lockoutDurationMinutes": 0, "maxAttempts": 0,
                "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
                "requireSpecialChar": false}},
        "secondary": {"requireTotp": false, "requireExtJwtSigner": second}})
}

async fn is_gone(bed: &Bed, token: &str) {
    let sessions = bed.controller.auth().sessions();
    until("the session ends", || sessions.by_token(token, bed.controller.kernel().now()).is_none())
        .await;
}

#[tokio::test]
async fn a_token_logs_in_and_the_session_works_at_routers() {
    let (bed, documents, admin) = scene().await;
    let idp = Provider::new(&documents, "idp", "k1");
    let signer = bed.create(&admin, "createExternalJwtSigner", idp.body()).await;
    let anna = identity(&bed, &admin, "anna@idp").await;
    let reply = log_in(&bed, &["no token", &idp.token("anna@idp")]).await.unwrap();
    let session = reply.data();
    assert_eq!(session["identityId"], json!(anna));
    assert_eq!(session["authenticatorId"], json!(format!("extJwtId:{signer}")));
    assert_eq!(session["authQueries"], json!([]));
    let token = token_of(&reply);
    let own = bed.with_token(&token);
    bed.client(&own, "getCurrentIdentity", &[], NONE).await.unwrap();

    // Routers want a certificate: the session gets one.
    let stored = bed.controller.auth().sessions().by_token(&token, NOW).unwrap();
    assert_eq!(stored.external.signer_id.as_ref().map(|id| id.as_str()), Some(signer.as_str()));
    assert_eq!(bed.controller.auth().legacy_session(&stored), None);
    let body = json!({"csr": csr("anna")});
    let made = bed.client(&own, "createCurrentApiSessionCertificate", &[], body).await.unwrap();
    let leaf = Certificate::from_pem(made["certificate"].as_str().unwrap().as_bytes()).unwrap();
    let stored = bed.controller.auth().sessions().by_token(&token, NOW).unwrap();
    let told = bed.controller.auth().legacy_session(&stored).unwrap();
    assert_eq!(told.fingerprints, [leaf[0].fingerprint()]);
}

#[tokio::test]
async fn a_session_by_token_ends_with_all_that_it_depends_on() {
    let (bed, documents, admin) = scene().await;
    let idp = Provider::new(&documents, "idp", "k1");
    let signer = bed.create(&admin, "createExternalJwtSigner", idp.body()).await;
    let anna = identity(&bed, &admin, "anna@idp").await;
    let log_in = async || token_of(&log_in(&bed, &[&idp.token("anna@idp")]).await.unwrap());
    let own = bed.create(&admin, "createAuthPolicy", policy("own", &[&signer], NONE)).await;
    let body = json!({"authPolicyId": own});
    bed.manage(&admin, "patchIdentity", &[&anna], body).await.unwrap();

    let token = log_in().await;
    let body = json!({"externalId": "bert@idp"});
    bed.manage(&admin, "patchIdentity", &[&anna], body).await.unwrap();
    is_gone(&bed, &token).await;
    let body = json!({"externalId": "anna@idp"});
    bed.manage(&admin, "patchIdentity", &[&anna], body).await.unwrap();

    for (change, back) in [
        (json!({"enabled": false}), json!({"enabled": true})),
        (json!({"audience": "other"}), json!({"audience": "weft"})),
        (json!({"claimsProperty": "/sub"}), json!({"claimsProperty": "/email"})),
    ] {
        let token = log_in().await;
        bed.manage(&admin, "patchExternalJwtSigner", &[&signer], change).await.unwrap();
        is_gone(&bed, &token).await;
        bed.manage(&admin, "patchExternalJwtSigner", &[&signer], back).await.unwrap();
    }
    // A change of what the tokens do not depend on ends nothing.
    let token = log_in().await;
    let body = json!({"name": "renamed"});
    bed.manage(&admin, "patchExternalJwtSigner", &[&signer], body).await.unwrap();
    let body = json!({"primary": {"extJwt": {"allowed": false}}});
    assert!(bed.controller.auth().sessions().by_token(&token, NOW).is_some());
    bed.manage(&admin, "patchAuthPolicy", &[&own], body).await.unwrap();
    is_gone(&bed, &token).await;
    let body = json!({"primary": {"extJwt": {"allowed": true, "allowedSigners": []}}});
    bed.manage(&admin, "patchAuthPolicy", &[&own], body).await.unwrap();

    let token = log_in().await;
    bed.manage(&admin, "disableIdentity", &[&anna], json!({"durationMinutes": 0})).await.unwrap();
    is_gone(&bed, &token).await;
    refused(&bed, &[&idp.token("anna@idp")], "invalid").await;
    bed.manage(&admin, "enableIdentity", &[&anna], NONE).await.unwrap();

    let token = log_in().await;
    bed.manage(&admin, "deleteExternalJwtSigner", &[&signer], NONE).await.unwrap();
    is_gone(&bed, &token).await;
}

#[tokio::test]
async fn who_left_the_company_is_out_after_a_day() {
    let (bed, documents, admin) = scene().await;
    let idp = Provider::new(&documents, "idp", "k1");
    bed.create(&admin, "createExternalJwtSigner", idp.body()).await;
    identity(&bed, &admin, "anna@idp").await;
    let late = with(&idp.claims("anna@idp"), "exp", json!(NOW.0 / 1000 + 400 * 24 * 3600));
    let token = token_of(&log_in(&bed, &[&idp.tokens.sign(&late).unwrap()]).await.unwrap());
    // The session is in use all the time.
    for _ in 0..24 * 3 - 1 {
        bed.clock.advance(Duration::from_secs(20 * 60));
        bed.client(&bed.with_token(&token), "getCurrentIdentity", &[], NONE).await.unwrap();
    }
    bed.clock.advance(Duration::from_secs(20 * 60));
    let over = bed.client(&bed.with_token(&token), "getCurrentIdentity", &[], NONE).await;
    assert_eq!(over.unwrap_err().code(), ErrorCode::Unauthorized);
}

#[tokio::test]
async fn tokens_for_others_and_of_others_log_nobody_in() {
    let (bed, documents, admin) = scene().await;
    // Two providers name their keys alike.
    let (idp, other) =
        (Provider::new(&documents, "idp", "k1"), Provider::new(&documents, "other", "k1"));
    bed.create(&admin, "createExternalJwtSigner", idp.body()).await;
    let body = with(&other.body(), "enabled", json!(false));
    let off = bed.create(&admin, "createExternalJwtSigner", body).await;
    identity(&bed, &admin, "anna@idp").await;
    let sign = |change: &dyn Fn(&mut Value)| {
        let mut claims = idp.claims("anna@idp");
        change(&mut claims);
        idp.tokens.sign(&claims).unwrap()
    };
    let now = NOW.0 / 1000;
    let set = |name: &'static str, value: Value| sign(&|claims| claims[name] = value.clone());
    log_in(&bed, &[&sign(&|_| ())]).await.unwrap();
    log_in(&bed, &[&set("exp", json!(now - 50))]).await.expect("within the leeway");
    log_in(&bed, &[&set("nbf", json!(now + 50))]).await.expect("within the leeway");
    refused(&bed, &[], "missing").await;
    for (token, error) in [
        (set("exp", json!(now - 70)), "expired"),
        (set("exp", NONE), "invalid"),
        (set("exp", json!("never")), "invalid"),
        (set("nbf", json!(now + 70)), "invalid"),
        (set("aud", json!("another")), "invalid"),
        (set("aud", json!(["a", "b"])), "invalid"),
        (set("aud", NONE), "invalid"),
        // What is no token, or one of no signer that is enabled, counts as none.
        (set("iss", json!("https://idp.example/")), "missing"),
        (set("iss", NONE), "missing"),
        (other.token("anna@idp"), "missing"),
        ("a.b.c".to_owned(), "missing"),
        ("x".repeat(100_000), "missing"),
        (set("email", json!("nobody")), "invalid"),
        (set("email", json!(7)), "invalid"),
        (set("email", json!(" ")), "invalid"),
        (
            set("events", json!({"http://schemas.openid.net/event/backchannel-logout": {}})),
            "invalid",
        ),
        // Key confusion: the other provider's key has the same name.
        (other.tokens.sign(&idp.claims("anna@idp")).unwrap(), "invalid"),
    ] {
        refused(&bed, &[&token], error).await;
        refused(&bed, &["no token", &token], error).await;
    }
    // Another signer that is enabled names the same people: its own key signs for its own issuer only.
    bed.manage(&admin, "patchExternalJwtSigner", &[&off], json!({"enabled": true})).await.unwrap();
    log_in(&bed, &[&other.token("anna@idp")]).await.unwrap();
    refused(&bed, &[&other.tokens.sign(&idp.claims("anna@idp")).unwrap()], "invalid").await;
}

/// A token with another header: the payload and the signature stay.
fn headed(token: &str, header: &Value) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let (_, rest) = token.split_once('.').unwrap();
    format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header.to_string()))
}

#[tokio::test]
async fn algorithms_and_types_of_tokens_are_not_confused() {
    let (bed, documents, admin) = scene().await;
    let idp = Provider::new(&documents, "idp", "k1");
    bed.create(&admin, "createExternalJwtSigner", idp.body()).await;
    identity(&bed, &admin, "anna@idp").await;
    let good = idp.token("anna@idp");
    let unsigned = good.rsplit_once('.').unwrap().0;
    for header in [
        json!({"alg": "none", "kid": "k1"}),
        json!({"alg": "None", "kid": "k1", "typ": "JWT"}),
        json!({"alg": "HS256", "kid": "k1"}),
        json!({"alg": "RS256", "kid": "k1"}),
        json!({"alg": "ES384", "kid": "k1"}),
        json!({"alg": "ES256"}),
        json!({"alg": "ES256", "kid": ""}),
        json!({"alg": "ES256", "kid": "other"}),
    ] {
        refused(&bed, &[&headed(&good, &header)], "invalid").await;
        refused(&bed, &[&headed(&format!("{unsigned}."), &header)], "invalid").await;
    }
    // A shared secret that is the public key.
    let public = idp.key.public();
    for secret in [public.spki(), public.raw()] {
        let header = json!({"alg": "HS256", "kid": "k1"});
        let text = headed(&good, &header);
        let text = text.rsplit_once('.').unwrap().0;
        refused(&bed, &[&format!("{text}.{}", hmac(secret, text))], "invalid").await;
    }
    let typed = |typ: &str| {
        use base64::Engine as _;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let header = json!({"alg": "ES256", "kid": "k1", "typ": typ}).to_string();
        let claims = idp.claims("anna@idp").to_string();
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = idp.tokens.sign_bytes(text.as_bytes()).unwrap();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    };
    for typ in ["JWT", "jwt", "at+jwt", "application/at+JWT"] {
        log_in(&bed, &[&typed(typ)]).await.expect(typ);
    }
    for typ in ["logout+jwt", "secevent+jwt", "dpop+jwt", "token-introspection+jwt", ""] {
        refused(&bed, &[&typed(typ)], "invalid").await;
    }
}

/// RFC 7515 4.1.11: whoever does not understand an extension must not believe the token, whatever else is right.
#[tokio::test]
async fn a_token_with_a_critical_extension_is_refused_as_invalid() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let (bed, documents, admin) = scene().await;
    let idp = Provider::new(&documents, "idp", "k1");
    bed.create(&admin, "createExternalJwtSigner", idp.body()).await;
    identity(&bed, &admin, "anna@idp").await;
    let signed = |header: Value| {
        let claims = idp.claims("anna@idp").to_string();
        let parts = [header.to_string(), claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        let text = parts.join(".");
        let signature = idp.tokens.sign_bytes(text.as_bytes()).unwrap();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    };
    log_in(&bed, &[&signed(json!({"alg": "ES256", "kid": "k1"}))]).await.unwrap();
    for extensions in
        [json!(["exp"]), json!(["b64"]), json!([]), json!("x"), json!({}), Value::Null]
    {
        let header = json!({"alg": "ES256", "kid": "k1", "crit": extensions});
        refused(&bed, &[&signed(header.clone())], "invalid").await;
        refused(&bed, &[&headed(&idp.token("anna@idp"), &header)], "invalid").await;
    }
}

/// HMAC with SHA-256, in base64url.
fn hmac(secret: &[u8], text: &str) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use sha2::{Digest as _, Sha256};
    let mut key = [0; 64];
    match secret.len() > 64 {
        true => key[..32].copy_from_slice(&Sha256::digest(secret)),
        false => key[..secret.len()].copy_from_slice(secret),
    }
    let padded = |with: u8| key.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    let outer = Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize();
    URL_SAFE_NO_PAD.encode(outer)
}

#[tokio::test]
async fn a_signer_that_is_the_controller_itself_accepts_nothing() {
    let (bed, documents, admin) = scene().await;
    let keys = bed.controller.auth().ticket_keys().unwrap().to_json().unwrap().to_string();
    documents.0.lock().insert("https://idp.example/keys".into(), keys.into_bytes());
    let issuer = bed.controller.auth().issuer();
    let body = json!({"name": "self", "issuer": issuer, "audience": "weft", "enabled": true,
        "jwksEndpoint": "https://idp.example/keys"});
    bed.create(&admin, "createExternalJwtSigner", body).await;
    let own = admin.identity().unwrap();
    let claims = json!({"iss": issuer, "aud": "weft", "exp": NOW.0 / 1000 + 600, "sub": own});
    refused(&bed, &[&bed.controller.auth().sign(&claims).unwrap()], "invalid").await;
}

#[tokio::test]
async fn wrong_signatures_of_one_source_are_limited() {
    let documents = Documents::default();
    let source = Arc::new(documents.clone());
    let bed = Bed::with(move |settings| {
        settings.key_source = source;
        settings.guess_limits = crate::GuessLimits { per_name: 0, per_address: 5 };
    })
    .await;
    let admin = bed.admin().await;
    let idp = Provider::new(&documents, "idp", "k1");
    bed.create(&admin, "createExternalJwtSigner", idp.body()).await;
    identity(&bed, &admin, "anna@idp").await;
    let wrong = Provider::new(&Documents::default(), "idp", "k1").token("anna@idp");
    let log_in = async |last: u8, token: &str| {
        let remote = Some(([192, 0, 2, last], 1).into());
        let caller = Caller::nobody(Origin { remote, ..Origin::default() });
        let call = to(Api::Client, "authenticate", &[]).with_query("method", "ext-jwt");
        let done = bed.controller.call(caller, bearing(call, &[token])).await;
        done.map_or_else(|failure| failure.status(), |_| 200)
    };
    for _ in 0..5 {
        assert_eq!(log_in(1, &wrong).await, 401);
    }
    assert_eq!(log_in(1, &wrong).await, 429);
    assert_eq!(log_in(1, &idp.token("anna@idp")).await, 429, "before any signature is verified");
    assert_eq!(log_in(2, &idp.token("anna@idp")).await, 200, "others are not concerned");
}

#[tokio::test]
async fn an_identity_is_logged_in_by_the_signer_that_enrolled_it() {
    let (bed, documents, admin) = scene().await;
    let (idp, other) =
        (Provider::new(&documents, "idp", "k1"), Provider::new(&documents, "other", "k1"));
    let mut body = idp.body();
    body["enrollToTokenEnabled"] = json!(true);
    body["enrollNameClaimsSelector"] = json!("/email");
    bed.create(&admin, "createExternalJwtSigner", body).await;
    let second = bed.create(&admin, "createExternalJwtSigner", other.body()).await;
    let call = bearing(to(Api::Client, "enrollToken", &[]), &[&idp.token("anna")]);
    bed.controller.call(Caller::nobody(Origin::default()), call).await.unwrap();
    log_in(&bed, &[&idp.token("anna")]).await.unwrap();
    refused(&bed, &[&other.token("anna")], "invalid").await;
    let found = bed.list(&admin, "listIdentities", "externalId = \"anna\"").await;
    let anna = found[0]["id"].as_str().unwrap();
    let own = bed.create(&admin, "createAuthPolicy", policy("own", &[&second], NONE)).await;
    bed.manage(&admin, "patchIdentity", &[anna], json!({"authPolicyId": own})).await.unwrap();
    log_in(&bed, &[&other.token("anna")]).await.expect("the policy names it");
    refused(&bed, &[&idp.token("anna")], "invalid").await;
    // An external id that a person has set counts for all signers.
    let body = json!({"authPolicyId": "default", "externalId": "anna2"});
    bed.manage(&admin, "patchIdentity", &[anna], body).await.unwrap();
    log_in(&bed, &[&other.token("anna2")]).await.unwrap();
}

/// GHSA-4h58-w989-xgg4: a named signer accepts tokens of its own issuer and audience only.
#[tokio::test]
async fn ghsa_4h58_w989_xgg4_a_named_signer_checks_issuer_and_audience() {
    let (bed, documents, admin) = scene().await;
    let idp = Provider::new(&documents, "idp", "k1");
    let mut body = idp.body();
    body["enrollToTokenEnabled"] = json!(true);
    body["enrollToCertEnabled"] = json!(true);
    body["enrollNameClaimsSelector"] = json!("/email");
    let signer = bed.create(&admin, "createExternalJwtSigner", body).await;
    let enroll = async |token: &str, csr: Option<String>| {
        let mut call = bearing(to(Api::Client, "enrollToken", &[]), &[token]);
        call.headers.push((headers::TOKEN_ISSUER.to_owned(), signer.clone()));
        if let Some(csr) = csr {
            call = call.with_json(&json!({"clientCsr": csr}));
        }
        bed.controller.call(Caller::nobody(Origin::default()), call).await
    };
    let sign = |name: &str, value: Value| {
        idp.tokens.sign(&with(&idp.claims("anna"), name, value)).unwrap()
    };
    for csr in [None, Some(csr("anna"))] {
        for token in [
            sign("aud", json!("another program")),
            sign("aud", NONE),
            sign("iss", json!("https://other.example")),
            sign("iss", NONE),
            sign("exp", json!(NOW.0 / 1000 - 100)),
        ] {
            let failure = enroll(&token, csr.clone()).await.map(|_| ()).unwrap_err();
            assert_eq!(failure.code(), ErrorCode::InvalidEnrollmentToken);
        }
    }
    enroll(&idp.token("anna"), None).await.unwrap();
    let reply = enroll(&idp.token("bert"), Some(csr("bert"))).await.unwrap();
    assert!(reply.data()["cert"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
}

#[tokio::test]
async fn signers_that_name_the_same_identities_are_found() {
    let (bed, documents, admin) = scene().await;
    let (idp, other) =
        (Provider::new(&documents, "idp", "k1"), Provider::new(&documents, "other", "k1"));
    let first = bed.create(&admin, "createExternalJwtSigner", idp.body()).await;
    let second = bed.create(&admin, "createExternalJwtSigner", other.body()).await;
    let found = || weft_auth::signer_warnings::alike(&bed.controller.kernel().snapshot());
    assert_eq!(found().len(), 1);
    let rules = |signers: &[&str]| json!({"primary": {"extJwt": {"allowed": true, "allowedSigners": signers}}});
    bed.manage(&admin, "patchAuthPolicy", &["default"], rules(&[&first])).await.unwrap();
    assert_eq!(found(), []);
    bed.manage(&admin, "patchAuthPolicy", &["default"], rules(&[&first, &second])).await.unwrap();
    assert_eq!(found().len(), 1);
    let by_id = json!({"useExternalId": false});
    bed.manage(&admin, "patchExternalJwtSigner", &[&second], by_id).await.unwrap();
    assert_eq!(found(), []);
}

#[tokio::test]
async fn known_keys_are_good_after_a_restart_while_the_provider_is_down() {
    let (bed, documents, admin) = scene().await;
    let idp = Provider::new(&documents, "idp", "k1");
    bed.create(&admin, "createExternalJwtSigner", idp.body()).await;
    identity(&bed, &admin, "anna@idp").await;
    log_in(&bed, &[&idp.token("anna@idp")]).await.unwrap();
    let again = bed.restarted().await;
    log_in(&again, &[&idp.token("anna@idp")]).await.unwrap();
    let old = |settings: &mut crate::Settings| {
        settings.external_tokens.keys_without_provider = Duration::ZERO;
    };
    refused(&bed.restarted_with(old).await, &[&idp.token("anna@idp")], "invalid").await;
}
