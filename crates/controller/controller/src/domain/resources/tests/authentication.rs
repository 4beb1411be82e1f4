//! Authentication policies, external JWT signers, revocations.

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode};
use weft_identity::{Authority, AuthoritySpec};
use weft_kernel::clock::system_time;

use super::{NONE, refusal, refuses, with};
use crate::testing::{Bed, to};
use crate::{Caller, Origin};

fn policy(name: &str) -> Value {
    json!({"name": name,
        "primary": {
            "cert": {"allowed": true, "allowExpiredCerts": false},
            "extJwt": {"allowed": false, "allowedSigners": []},
            "updb": {"allowed": true, "lockoutDurationMinutes": 5, "maxAttempts": 3,
                "minPasswordLength": 12, "requireMixedCase": true, "requireNumberChar": false,
                "requireSpecialChar": true}},
        "secondary": {"requireTotp": true}})
}

fn signer(name: &str) -> Value {
    json!({"name": name, "issuer": format!("https://{name}.example"), "audience": "weft",
        "enabled": true, "jwksEndpoint": "https://idp.example/keys"})
}

fn certificate(bed: &Bed, name: &str) -> String {
    let now = system_time(bed.controller.kernel().now());
    Authority::make_root(&AuthoritySpec::new(name), now).unwrap().certificate().to_pem()
}

#[tokio::test]
async fn auth_policies_are_whole() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let id = bed.create(&admin, "createAuthPolicy", policy("strict")).await;
    let read = || async { bed.manage(&admin, "detailAuthPolicy", &[&id], NONE).await.unwrap() };
    let now = read().await;
    assert_eq!(now["primary"], policy("strict")["primary"]);
    let none = json!({"requireExtJwtSigner": null, "requireTotp": true});
    assert_eq!(now["secondary"], none);

    let patch = json!({"primary": {"updb": {"minPasswordLength": 3, "requireNumberChar": true},
        "cert": {}}});
    bed.manage(&admin, "patchAuthPolicy", &[&id], patch).await.unwrap();
    let now = read().await;
    let updb = &now["primary"]["updb"];
    assert_eq!((&updb["minPasswordLength"], &updb["requireNumberChar"]), (&json!(5), &json!(true)));
    assert_eq!((&updb["maxAttempts"], &updb["requireMixedCase"]), (&json!(3), &json!(true)));

    let mut put = policy("strict");
    put["primary"]["updb"]["maxAttempts"] = json!(-1);
    bed.manage(&admin, "updateAuthPolicy", &[&id], put).await.unwrap();
    assert_eq!(read().await["primary"]["updb"]["maxAttempts"], 0);
    let found = bed.list(&admin, "listAuthPolicies", "primary.updb.requireSpecialChar").await;
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn wrong_auth_policies_are_named_field_by_field() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let good = policy("p");
    let mut bodies = vec![
        (with(&good, "name", json!("Default")), "name"),
        (with(&good, "primary.updb.maxAttempts", json!("x")), "primary.updb.maxAttempts"),
        (
            with(&good, "primary.updb.maxAttempts", json!(4_294_967_296_u64)),
            "primary.updb.maxAttempts",
        ),
        (
            with(&good, "primary.extJwt.allowedSigners", json!(["x"])),
            "primary.extJwt.allowedSigners",
        ),
        (
            with(&good, "primary.extJwt.allowedSigners", json!([""])),
            "primary.extJwt.allowedSigners",
        ),
        (with(&good, "secondary.requireExtJwtSigner", json!("x")), "secondary.requireExtJwtSigner"),
        (with(&good, "secondary.requireTotp", json!("yes")), "secondary.requireTotp"),
        (with(&good, "primary.cert", json!([])), "primary.cert"),
    ];
    let required = [
        "name",
        "primary",
        "secondary",
        "primary.cert",
        "primary.cert.allowed",
        "primary.cert.allowExpiredCerts",
        "primary.extJwt",
        "primary.extJwt.allowed",
        "primary.extJwt.allowedSigners",
        "primary.updb",
        "primary.updb.allowed",
        "primary.updb.lockoutDurationMinutes",
        "primary.updb.maxAttempts",
        "primary.updb.minPasswordLength",
        "primary.updb.requireMixedCase",
        "primary.updb.requireNumberChar",
        "primary.updb.requireSpecialChar",
        "secondary.requireTotp",
    ];
    bodies.extend(required.map(|field| (with(&good, field, NONE), field)));
    refuses(&bed, &admin, "createAuthPolicy", "", bodies).await;
    let id = bed.create(&admin, "createAuthPolicy", good.clone()).await;
    let required = required.map(|field| (with(&good, field, NONE), field));
    refuses(&bed, &admin, "updateAuthPolicy", &id, required.to_vec()).await;
}

#[tokio::test]
async fn auth_policies_in_use_stay() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let failure = refusal(&bed, &admin, "deleteAuthPolicy", "default", NONE).await;
    assert_eq!(failure.code(), ErrorCode::CanNotDeleteReferencedEntity);
    bed.manage(&admin, "patchAuthPolicy", &["default"], json!({"tags": {"a": "b"}})).await.unwrap();
    let id = bed.create(&admin, "createAuthPolicy", policy("p")).await;
    let body = json!({"name": "i", "type": "Default", "isAdmin": false, "authPolicyId": id});
    let identity = bed.create(&admin, "createIdentity", body).await;
    let failure = refusal(&bed, &admin, "deleteAuthPolicy", &id, NONE).await;
    assert_eq!((failure.status(), failure.field_name()), (409, Some("authPolicyId")));
    let cause = failure.cause().unwrap().reason.clone().unwrap();
    assert!(cause.contains(&identity), "{cause}");
    bed.manage(&admin, "deleteIdentity", &[&identity], NONE).await.unwrap();
    bed.manage(&admin, "deleteAuthPolicy", &[&id], NONE).await.unwrap();
}

#[tokio::test]
async fn signers_know_their_keys_in_exactly_one_way() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let id = bed.create(&admin, "createExternalJwtSigner", signer("a")).await;
    let read =
        || async { bed.manage(&admin, "detailExternalJwtSigner", &[&id], NONE).await.unwrap() };
    let now = read().await;
    for (member, value) in [
        ("claimsProperty", json!("/sub")),
        ("enrollNameClaimsSelector", json!("/sub")),
        ("enrollAttributeClaimsSelector", json!("")),
        ("enrollAuthPolicyId", json!("default")),
        ("targetToken", json!("ACCESS")),
        ("useExternalId", json!(false)),
        ("scopes", NONE),
        ("certPem", NONE),
        ("jwksEndpoint", json!("https://idp.example/keys")),
    ] {
        assert_eq!(now[member], value, "{member}");
    }
    let pem = certificate(&bed, "idp");
    refuses(
        &bed,
        &admin,
        "patchExternalJwtSigner",
        &id,
        vec![(json!({"certPem": pem}), "jwksEndpoint"), (json!({"jwksEndpoint": ""}), "certPem")],
    )
    .await;
    let selectors = [
        ("claimsProperty", "email"),
        ("enrollNameClaimsSelector", "name"),
        ("enrollAttributeClaimsSelector", "/roles/0"),
    ];
    let mut patch = json!({"certPem": pem, "jwksEndpoint": "", "kid": "k1"});
    selectors.iter().for_each(|(member, text)| patch[member] = json!(text));
    bed.manage(&admin, "patchExternalJwtSigner", &[&id], patch).await.unwrap();
    let now = read().await;
    assert_eq!((&now["commonName"], &now["jwksEndpoint"]), (&json!("idp"), &NONE));
    assert_eq!(now["kid"], "k1");
    for (member, text) in selectors {
        assert_eq!(now[member], text, "{member} as it was sent");
    }
    assert!(now["fingerprint"].as_str().unwrap().len() == 40 && now["notAfter"].is_string());
    let same = with(&with(&signer("b"), "jwksEndpoint", NONE), "certPem", json!(pem));
    refuses(&bed, &admin, "createExternalJwtSigner", "", vec![(same, "fingerprint")]).await;

    bed.manage(&admin, "updateExternalJwtSigner", &[&id], signer("a")).await.unwrap();
    let now = read().await;
    assert_eq!((&now["fingerprint"], &now["kid"], &now["commonName"]), (&NONE, &NONE, &json!("")));
}

#[tokio::test]
async fn wrong_signers_are_named_field_by_field() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    bed.create(&admin, "createExternalJwtSigner", signer("taken")).await;
    let no_token = with(&policy("no token"), "primary.cert.allowed", json!(false));
    let no_token = bed.create(&admin, "createAuthPolicy", no_token).await;
    let good = signer("s");
    let two = certificate(&bed, "a") + &certificate(&bed, "b");
    let by_cert = |pem: &str| with(&with(&good, "jwksEndpoint", NONE), "certPem", json!(pem));
    let mut bodies = vec![
        (with(&good, "name", json!("taken")), "name"),
        (with(&good, "issuer", json!("https://taken.example")), "issuer"),
        (with(&good, "issuer", json!(" ")), "issuer"),
        (with(&good, "enabled", json!("yes")), "enabled"),
        (with(&good, "jwksEndpoint", NONE), "certPem"),
        (with(&good, "jwksEndpoint", json!("ftp://x/")), "jwksEndpoint"),
        (with(&good, "jwksEndpoint", json!("http://169.254.169.254/x")), "jwksEndpoint"),
        (by_cert("x"), "certPem"),
        (by_cert(&two), "certPem"),
        (with(&good, "externalAuthUrl", json!("nowhere")), "externalAuthUrl"),
        (with(&good, "claimsProperty", json!("/a~b")), "claimsProperty"),
        (with(&good, "enrollNameClaimsSelector", json!("/~")), "enrollNameClaimsSelector"),
        (with(&good, "targetToken", json!("REFRESH")), "targetToken"),
        (with(&good, "scopes", json!(["a b"])), "scopes"),
        (with(&good, "scopes", json!("a")), "scopes"),
        (with(&good, "enrollAuthPolicyId", json!("x")), "enrollAuthPolicyId"),
    ];
    for enabled in ["enrollToCertEnabled", "enrollToTokenEnabled"] {
        let body = with(&good, "enrollAuthPolicyId", json!(no_token));
        bodies.push((with(&body, enabled, json!(true)), "enrollAuthPolicyId"));
    }
    bodies.extend(
        ["name", "issuer", "audience", "enabled"].map(|field| (with(&good, field, NONE), field)),
    );
    refuses(&bed, &admin, "createExternalJwtSigner", "", bodies).await;
    for endpoint in [json!("file:///etc/passwd"), json!("http://169.254.169.254/x"), NONE] {
        let body = with(&good, "jwksEndpoint", endpoint);
        let failure = refusal(&bed, &admin, "createExternalJwtSigner", "", body).await;
        assert_eq!(failure.code(), ErrorCode::InvalidField);
    }
    let failure = refusal(&bed, &admin, "createExternalJwtSigner", "", by_cert(&two)).await;
    assert_eq!(failure.code(), ErrorCode::InvalidCertPem);
}

#[tokio::test]
async fn signers_in_use_stay_and_clients_see_enabled_ones() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = with(&signer("on"), "externalAuthUrl", json!("https://idp.example/login"));
    let on = bed.create(&admin, "createExternalJwtSigner", body).await;
    let off = with(&signer("off"), "enabled", json!(false));
    bed.create(&admin, "createExternalJwtSigner", off).await;
    let nobody = Caller::nobody(Origin::default());
    let call = to(Api::Client, "listExternalJwtSigners", &[]);
    let reply = bed.controller.call(nobody.clone(), call).await.unwrap();
    let seen = reply.data();
    assert_eq!(seen.as_array().unwrap().len(), 1);
    assert_eq!(seen[0]["externalAuthUrl"], "https://idp.example/login");
    for secret in ["issuer", "certPem", "jwksEndpoint", "claimsProperty", "kid", "enabled"] {
        assert_eq!(seen[0].get(secret), None, "{secret}");
        let call = to(Api::Client, "listExternalJwtSigners", &[]);
        let filter = format!("{secret} != null");
        let failure = bed.controller.call(nobody.clone(), call.with_query("filter", &filter)).await;
        assert_eq!(failure.unwrap_err().code(), ErrorCode::InvalidFilter, "{secret}");
    }

    let one = with(&policy("one"), "primary.extJwt.allowedSigners", json!([on]));
    let two = with(&policy("two"), "secondary.requireExtJwtSigner", json!(on));
    let one = bed.create(&admin, "createAuthPolicy", one).await;
    let two = bed.create(&admin, "createAuthPolicy", two).await;
    let failure = refusal(&bed, &admin, "deleteExternalJwtSigner", &on, NONE).await;
    assert_eq!(failure.code(), ErrorCode::CanNotDeleteReferencedEntity);
    bed.manage(&admin, "deleteAuthPolicy", &[&one], NONE).await.unwrap();
    refusal(&bed, &admin, "deleteExternalJwtSigner", &on, NONE).await;
    let free = json!({"secondary": {"requireExtJwtSigner": ""}});
    bed.manage(&admin, "patchAuthPolicy", &[&two], free).await.unwrap();
    bed.manage(&admin, "deleteExternalJwtSigner", &[&on], NONE).await.unwrap();
}

#[tokio::test]
async fn revocations_are_named_by_what_they_revoke() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let uuid = "4f2c2b1e-7a0d-4f6e-9a53-0c2d7b9a6d11";
    refuses(
        &bed,
        &admin,
        "createRevocation",
        "",
        vec![
            (json!({"id": uuid}), "type"),
            (json!({"type": "JTI"}), "id"),
            (json!({"type": "JTI", "id": ""}), "id"),
            (json!({"type": "JTI", "id": "x"}), "id"),
            (json!({"type": "API_SESSION", "id": "x"}), "id"),
            (json!({"type": "ROUTER", "id": uuid}), "type"),
        ],
    )
    .await;
    let gone = json!({"type": "IDENTITY", "id": uuid});
    let failure = refusal(&bed, &admin, "createRevocation", "", gone).await;
    assert_eq!(failure.code(), ErrorCode::NotFound);
    let body = json!({"type": "JTI", "id": uuid, "tags": {"why": "lost"}});
    assert_eq!(bed.create(&admin, "createRevocation", body.clone()).await, uuid);
    let read = || async { bed.manage(&admin, "detailRevocation", &[uuid], NONE).await.unwrap() };
    let first = read().await;
    assert_eq!((&first["type"], &first["tags"]["why"]), (&json!("JTI"), &json!("lost")));
    bed.clock.advance(std::time::Duration::from_secs(60));
    bed.create(&admin, "createRevocation", body).await;
    assert!(read().await["expiresAt"].as_str() > first["expiresAt"].as_str());
    let own = admin.identity().unwrap().to_owned();
    bed.create(&admin, "createRevocation", json!({"type": "IDENTITY", "id": own})).await;
    let found = bed.list(&admin, "listRevocations", "type = \"IDENTITY\"").await;
    assert_eq!(found[0]["id"], json!(own));
}

#[tokio::test]
async fn wrong_current_passwords_lock_out_as_those_of_logins_do() {
    let bed = Bed::with(|settings| {
        settings.guess_limits = crate::GuessLimits { per_name: 0, per_address: 0 };
    })
    .await;
    let admin = bed.admin().await;
    let auth_policy = bed.create(&admin, "createAuthPolicy", policy("strict")).await;
    let body = json!({"primary": {"updb": {"minPasswordLength": 5, "requireMixedCase": false,
        "requireSpecialChar": false}}, "secondary": {"requireTotp": false}});
    bed.manage(&admin, "patchAuthPolicy", &[&auth_policy], body).await.unwrap();
    let body = json!({"name": "anna", "type": "Default", "isAdmin": false,
        "authPolicyId": auth_policy});
    let identity = bed.create(&admin, "createIdentity", body).await;
    let body = json!({"method": "updb", "identityId": identity, "username": "anna",
        "password": "geheim"});
    let authenticator = bed.create(&admin, "createAuthenticator", body).await;
    let anna = bed.login("anna", "geheim").await.unwrap();
    let operation = "patchCurrentIdentityAuthenticator";
    let give = |current: &str| {
        let body = json!({"currentPassword": current, "password": "geheimer"});
        let (bed, anna, authenticator) = (&bed, &anna, authenticator.clone());
        async move { bed.client(anna, operation, &[&authenticator], body).await }
    };
    // Two of three wrong passwords are sent at logins, the third one here.
    for _ in 0..2 {
        bed.login("anna", "falsch").await.unwrap_err();
    }
    let failure = give("falsch").await.unwrap_err();
    assert_eq!(failure.field_name(), Some("currentPassword"));
    let answer = serde_json::to_string(&failure.body("r")).unwrap();
    assert!(!answer.contains("falsch"), "{answer}");
    let failure = bed.login("anna", "geheim").await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::InvalidAuth, "locked out");
    let failure = give("geheim").await.unwrap_err();
    assert_eq!(failure.field_name(), Some("currentPassword"), "also for what came with the rest");
}

#[tokio::test]
async fn who_needs_a_token_is_told_where_to_get_it() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let known = json!({"externalAuthUrl": "https://idp.example/login", "clientId": "weft-app",
        "scopes": ["openid", "email"]});
    let mut body = signer("idp");
    known.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
    let known = bed.create(&admin, "createExternalJwtSigner", body).await;
    let bare = bed.create(&admin, "createExternalJwtSigner", signer("bare")).await;
    let body = with(&policy("token"), "secondary", json!({"requireTotp": false}));
    let auth_policy = bed.create(&admin, "createAuthPolicy", body).await;
    let (identity, chain) = bed.enroll(&admin, "laptop").await;
    let body = json!({"authPolicyId": auth_policy});
    bed.manage(&admin, "patchIdentity", &[&identity], body).await.unwrap();
    let asked = async |signer: &str| {
        let body = json!({"secondary": {"requireExtJwtSigner": signer}});
        bed.manage(&admin, "patchAuthPolicy", &[&auth_policy], body).await.unwrap();
        bed.login_with(&chain).await.unwrap().data()["authQueries"].clone()
    };
    assert_eq!(
        asked(&known).await,
        json!([{"typeId": "EXT-JWT", "provider": "url", "id": known, "clientId": "weft-app",
            "httpUrl": "https://idp.example/login", "scopes": ["openid", "email"]}])
    );
    assert_eq!(
        asked(&bare).await,
        json!([{"typeId": "EXT-JWT", "provider": "url", "id": bare, "scopes": null}])
    );
}
