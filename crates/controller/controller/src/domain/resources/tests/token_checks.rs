//! The test of a token of an external signer, claim by claim.

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode};
use weft_identity::token::TokenSigner;
use weft_identity::{KeyAlgorithm, PrivateKey};

use super::NONE;
use super::external_logins::{Provider, identity, policy, refused, scene};
use crate::testing::{Bed, NOW, to};
use crate::{Caller, Origin, Result};

#[tokio::test]
async fn a_provider_that_is_down_is_named_to_administrators_only() {
    let (bed, documents, admin) = scene().await;
    let idp = Provider::new(&documents, "idp", "k1");
    bed.create(&admin, "createExternalJwtSigner", idp.body()).await;
    identity(&bed, &admin, "anna@idp").await;
    documents.0.lock().clear();
    let token = idp.token("anna@idp");
    refused(&bed, &[&token], "invalid").await;
    let tested = test(&bed, &admin, &token).await.unwrap();
    let last = tested["checks"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["name"], &last["isGood"]), (&json!("key"), &json!(false)));
    assert!(last["text"].as_str().unwrap().contains("secret-host"), "{last}");
    assert_eq!(tested["isGood"], json!(false));
}

async fn test(bed: &Bed, caller: &Caller, token: &str) -> Result<Value> {
    let call = to(Api::Weft, "testExternalToken", &[]).with_json(&json!({"token": token}));
    Ok(bed.controller.call(caller.clone(), call).await?.data())
}

#[tokio::test]
async fn a_token_is_tested_check_by_check() {
    let (bed, documents, admin) = scene().await;
    let idp = Provider::new(&documents, "idp", "k1");
    let signer = bed.create(&admin, "createExternalJwtSigner", idp.body()).await;
    let anna = identity(&bed, &admin, "anna@idp").await;
    let good = test(&bed, &admin, &idp.token("anna@idp")).await.unwrap();
    assert_eq!((&good["isGood"], &good["identityId"]), (&json!(true), &json!(anna)));
    let names = |tested: &Value| -> Vec<String> {
        let checks = tested["checks"].as_array().unwrap();
        checks.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = [
        "form",
        "type",
        "issuer",
        "key",
        "signature",
        "times",
        "audience",
        "claim",
        "identity",
        "policy",
    ];
    assert_eq!(names(&good), all);
    let failed = async |token: &str| -> Vec<String> {
        let tested = test(&bed, &admin, token).await.unwrap();
        assert_eq!(tested["isGood"], json!(false));
        let checks = tested["checks"].as_array().unwrap().iter();
        let failed = checks.filter(|it| it["isGood"] == json!(false));
        failed.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    let change = |name: &str, value: Value| {
        let mut claims = idp.claims("anna@idp");
        claims[name] = value;
        idp.tokens.sign(&claims).unwrap()
    };
    assert_eq!(failed("no token").await, ["form"]);
    assert_eq!(failed(&change("iss", json!("https://x.example"))).await, ["issuer"]);
    assert_eq!(failed(&change("exp", json!(NOW.0 / 1000 - 100))).await, ["times"]);
    assert_eq!(failed(&change("aud", json!("x"))).await, ["audience"]);
    assert_eq!(failed(&change("email", NONE)).await, ["claim"]);
    assert_eq!(failed(&change("email", json!("nobody"))).await, ["identity"]);
    let wrong = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let wrong = TokenSigner::with_kid(wrong, "k1").unwrap();
    assert_eq!(failed(&wrong.sign(&idp.claims("anna@idp")).unwrap()).await, ["signature"]);
    let other = Provider::new(&documents, "other", "k2");
    let other = bed.create(&admin, "createExternalJwtSigner", other.body()).await;
    let own = bed.create(&admin, "createAuthPolicy", policy("own", &[&other], NONE)).await;
    bed.manage(&admin, "patchIdentity", &[&anna], json!({"authPolicyId": own})).await.unwrap();
    assert_eq!(failed(&idp.token("anna@idp")).await, ["policy"]);
    let body = json!({"enabled": false});
    bed.manage(&admin, "patchExternalJwtSigner", &[&signer], body).await.unwrap();
    assert_eq!(failed(&idp.token("anna@idp")).await, ["issuer"]);

    // Who may read signers and no identities learns no identity.
    let clerk = json!({"name": "clerk", "type": "Default", "isAdmin": false,
        "permissions": ["external-jwt-signer.read"]});
    let clerk = bed.create(&admin, "createIdentity", clerk).await;
    let body =
        json!({"method": "updb", "identityId": clerk, "username": "clerk", "password": "geheim"});
    bed.create(&admin, "createAuthenticator", body).await;
    let clerk = bed.login("clerk", "geheim").await.unwrap();
    let body = json!({"enabled": true});
    bed.manage(&admin, "patchExternalJwtSigner", &[&signer], body).await.unwrap();
    let seen = test(&bed, &clerk, &idp.token("anna@idp")).await.unwrap();
    assert_eq!((&seen["identityId"], &seen["identityName"]), (&json!(""), &json!("")));
    let nobody = Caller::nobody(Origin::default());
    let refusal = test(&bed, &nobody, &idp.token("anna@idp")).await.unwrap_err();
    assert_eq!(refusal.code(), ErrorCode::Unauthorized);
}
