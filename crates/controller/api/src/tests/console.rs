//! Requests of the original's console (4.5.2) when its forms are saved: members of other kinds of
//! the same form, empty ids, whole answers sent back. Each body was seen in a browser.

use std::time::SystemTime;

use reqwest::Method;
use serde_json::{Value, json};
use weft_identity::{Authority, AuthoritySpec};

use super::{Bed, MANAGEMENT, Session};

/// A form: the request that creates an entity, the request that changes it, and what is shown
/// afterwards.
struct Form {
    collection: &'static str,
    create: Value,
    method: Method,
    change: Value,
    /// Members that must be as the change said.
    shown: &'static [&'static str],
}

impl Form {
    async fn fill(self, admin: &Session<'_>) {
        let Self { collection, create, method, change, shown } = self;
        let id = admin.create(collection, create).await;
        let at = format!("{MANAGEMENT}/{collection}/{id}");
        // The form of an entity sends its id along.
        let mut body = change.clone();
        if method == Method::PUT {
            body["id"] = json!(id);
        }
        let seen = admin.call(method, &at, &body).await;
        assert_eq!(seen.status, 200, "{collection}: {seen:?}");
        let now = admin.get(&at).await.data();
        for member in shown {
            assert_eq!(now[*member], change[*member], "{collection}: {member}");
        }
        let seen = admin.call(Method::DELETE, &at, &Value::Null).await;
        assert_eq!(seen.status, 200, "{collection}: {seen:?}");
    }
}

fn patch(
    collection: &'static str,
    create: Value,
    change: Value,
    shown: &'static [&'static str],
) -> Form {
    Form { collection, create, method: Method::PATCH, change, shown }
}

/// The certificate of a CA outside of the network, in PEM.
fn certificate(name: &str) -> String {
    let spec = AuthoritySpec::new(name);
    Authority::make_root(&spec, SystemTime::now()).unwrap().certificate().to_pem()
}

#[tokio::test]
async fn forms_of_identities_and_routers_are_taken() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let identity = |name: &str, enrollment: Value| {
        json!({"name": name, "type": "Device", "appData": {"app": 1}, "isAdmin": false,
            "roleAttributes": ["a", "b"], "authPolicyId": "default", "externalId": "",
            "defaultHostingCost": 7, "defaultHostingPrecedence": "required",
            "tags": {"color": "blue"}, "enrollment": enrollment})
    };
    let change = json!({"name": "renamed", "type": "Device", "appData": {"app": 1},
        "isAdmin": true, "roleAttributes": ["b", "c"], "authPolicyId": "default",
        "externalId": "ext", "defaultHostingCost": 9, "defaultHostingPrecedence": "required",
        "tags": {"color": "blue"}});
    let members =
        &["name", "isAdmin", "roleAttributes", "externalId", "defaultHostingCost", "appData"];
    for enrollment in [json!({"ott": true}), json!({"updb": "user"}), json!({})] {
        patch("identities", identity("laptop", enrollment), change.clone(), members)
            .fill(&admin)
            .await;
    }

    let router = |name: &str| {
        json!({"name": name, "roleAttributes": [], "appData": {}, "isTunnelerEnabled": true,
            "noTraversal": true, "cost": 12, "tags": {"r": "s"}})
    };
    let mut change = router("moved");
    change["roleAttributes"] = json!(["a"]);
    patch("edge-routers", router("edge"), change, &["name", "roleAttributes"]).fill(&admin).await;
    let change = json!({"name": "moved", "noTraversal": true, "cost": 13, "tags": {"r": "s"}});
    patch("transit-routers", router("transit"), change, &["name", "cost"]).fill(&admin).await;
}

#[tokio::test]
async fn forms_of_policies_are_taken_and_their_answers_sent_back() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let roles = [
        ("edge-router-policies", "edgeRouterRoles", "identityRoles"),
        ("service-edge-router-policies", "edgeRouterRoles", "serviceRoles"),
        ("service-policies", "serviceRoles", "identityRoles"),
    ];
    for (collection, one, other) in roles {
        let mut create = json!({"name": "policy", one: ["#all"], other: ["#all"],
            "semantic": "AnyOf", "tags": {}});
        let mut change = json!({"name": "other", one: ["#a"], other: ["#b"],
            "semantic": "AllOf", "tags": {"u": "v"}});
        if collection == "service-policies" {
            create["type"] = json!("Dial");
            change["type"] = json!("Dial");
            change["postureCheckRoles"] = json!([]);
        }
        patch(collection, create.clone(), change, &["name", "semantic", "tags"]).fill(&admin).await;
        // The form of a service sends a policy back as it was answered.
        let id = admin.create(collection, create).await;
        let at = format!("{MANAGEMENT}/{collection}/{id}");
        let whole = admin.get(&at).await.data();
        let seen = admin.call(Method::PATCH, &at, &whole).await;
        assert_eq!(seen.status, 200, "{collection}: {seen:?}");
    }
}

#[tokio::test]
async fn forms_of_services_and_configs_are_taken() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let schema = json!({"$id": "http://x.test/a", "type": "object", "required": ["host"],
        "additionalProperties": false, "properties": {"host": {"type": "string"}}});
    let create = json!({"name": "own", "id": "", "schema": schema, "tags": {}});
    let schema = json!({"type": "object", "properties": {"extra": {"type": "boolean"}}});
    let change = json!({"name": "own2", "schema": schema, "tags": {"t": "v"}});
    let members = &["name", "schema", "tags"];
    patch("config-types", create.clone(), change, members).fill(&admin).await;

    let kind = admin.create("config-types", create).await;
    let config = json!({"name": "c", "data": {"host": "abc"}, "configTypeId": kind, "tags": {}});
    let change = json!({"name": "c2", "data": {"host": "d"}, "configTypeId": kind, "tags": {}});
    patch("configs", config.clone(), change, &["name", "data"]).fill(&admin).await;
    let config = admin.create("configs", config).await;
    let service = json!({"name": "web", "roleAttributes": ["a"], "configs": [config],
        "encryptionRequired": true, "terminatorStrategy": "", "tags": {}});
    let change = json!({"name": "web2", "roleAttributes": ["a", "b"], "configs": [config],
        "encryptionRequired": true, "terminatorStrategy": "random", "tags": {}});
    patch("services", service, change, &["name", "roleAttributes", "terminatorStrategy"])
        .fill(&admin)
        .await;
}

#[tokio::test]
async fn forms_of_logins_are_taken() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let claim = json!({"location": "SAN_URI", "matcher": "SCHEME", "parser": "SPLIT", "index": 0,
        "matcherCriteria": "spiffe", "parserCriteria": "/"});
    for claim in [None, Some(claim)] {
        let ca = |name: &str, pem: &str| {
            let mut body = json!({"name": name, "id": "", "isAutoCaEnrollmentEnabled": true,
                "isOttCaEnrollmentEnabled": true, "identityRoles": ["a"],
                "identityNameFormat": "[caName]-x-[commonName]", "isAuthEnabled": true,
                "certPem": pem, "tags": {"a": "b"}});
            if let Some(claim) = &claim {
                body["externalIdClaim"] = claim.clone();
            }
            body
        };
        let pem = certificate("somebody else");
        let (create, change) = (ca("ca", &pem), ca("ca2", &pem));
        let shown: &[&str] = &["name", "externalIdClaim", "identityNameFormat"];
        let form = Form { collection: "cas", create, method: Method::PUT, change, shown };
        form.fill(&admin).await;
    }

    let signer = |name: &str, key: &str, value: &str| {
        json!({"name": name, "audience": "aud", "issuer": "https://issuer.test/", "clientId": "",
            "claimsProperty": "", "enabled": true, "useExternalId": false, "externalAuthUrl": "",
            "kid": "kid", "scopes": [], key: value, "tags": {"q": "w"}, "targetToken": "ACCESS",
            "enrollToCertEnabled": false, "enrollToTokenEnabled": false})
    };
    let shown: &[&str] = &["name", "audience", "tags"];
    let (create, change) = (
        signer("signer", "jwksEndpoint", "https://127.0.0.1:1/jwks"),
        signer("signer2", "certPem", &certificate("signer")),
    );
    let (collection, method) = ("external-jwt-signers", Method::PUT);
    Form { collection, create, method: method.clone(), change, shown }.fill(&admin).await;

    let policy = |name: &str, updb: bool| {
        json!({"name": name, "id": "", "tags": {},
            "primary": {"cert": {"allowed": false, "allowExpiredCerts": false},
                "extJwt": {"allowed": false, "allowedSigners": []},
                "updb": {"allowed": updb, "lockoutDurationMinutes": 0, "maxAttempts": 5,
                    "minPasswordLength": 5, "requireMixedCase": false,
                    "requireNumberChar": false, "requireSpecialChar": false,
                    "requireNumericChar": true}},
            "secondary": {"requireExtJwtSigner": null, "requireTotp": true}})
    };
    let (create, change) = (policy("policy", false), policy("policy2", true));
    Form { collection: "auth-policies", create, method, change, shown: &["name"] }
        .fill(&admin)
        .await;
}

#[tokio::test]
async fn a_choice_that_is_empty_is_answered_with_the_words_there_are() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    // The form of a process check sends an empty system until one is chosen.
    let body = json!({"name": "p", "typeId": "PROCESS", "semantic": "AllOf", "roleAttributes": [],
        "process": {"hashes": [], "osType": "", "path": "/p", "signerFingerprint": ""},
        "tags": {}});
    let seen = admin.call(Method::POST, &format!("{MANAGEMENT}/posture-checks"), &body).await;
    let error = seen.is_error(400, "COULD_NOT_VALIDATE");
    let reason = error["cause"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("must be one of Windows"), "{error}");
}
