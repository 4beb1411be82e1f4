//! The tries of an apply while the network changes, and its last one in the writer.

use super::*;
use crate::domain::change;

#[tokio::test]
async fn the_writer_decides_again_what_is_quick_and_only_with_the_rights_of_the_plan() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = |name: &str| -> weft_contract::resource::change::ChangeBody {
        serde_json::from_value(json!({"network": {"services": [{"name": name}]}})).unwrap()
    };
    let quick = change::may_be_decided_again;
    assert!(quick(&body("web"), change::AGAIN / 2) && !quick(&body("web"), change::AGAIN));
    let expecting = weft_contract::resource::change::ChangeBody {
        expect_plan: Some("x".to_owned()),
        ..body("web")
    };
    assert!(!quick(&expecting, change::AGAIN / 2));

    let policy = json!({"name": "own", "secondary": {"requireTotp": false}, "primary": {
        "cert": {"allowed": true, "allowExpiredCerts": false},
        "extJwt": {"allowed": false, "allowedSigners": []},
        "updb": {"allowed": true, "lockoutDurationMinutes": 0, "maxAttempts": 0,
            "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
            "requireSpecialChar": false}}});
    let policy = bed.create(&admin, "createAuthPolicy", policy).await;
    let clerk = somebody(&bed, &admin, "clerk", &["service"]).await;
    let id = clerk.login().unwrap().identity.clone();
    let manage = async |operation: &str, id: &str, body: Value| {
        let call = to(Api::Management, operation, &[id]).with_json(&body);
        bed.controller.call(admin.clone(), call).await.unwrap();
    };
    manage("patchIdentity", &id, json!({"authPolicyId": policy})).await;
    let until = Instant::now() + MAX_TIME;
    let planned = async |name: &str| {
        let document = change::Document::read(&body(name)).unwrap();
        let caller = bed.controller.auth().resolve_again(&clerk);
        let made = change::make(&bed.controller, &caller, &document, until).await.unwrap();
        (document, caller, made)
    };
    let other = async |name: &str| {
        let body = json!({"name": name, "encryptionRequired": true});
        bed.create(&admin, "createService", body).await;
    };
    let (document, caller, made) = planned("one").await;
    other("other").await;
    let done = change::submit(&bed.controller, &caller, &document, made, true).await.unwrap();
    assert!(done.is_some_and(|plan| plan.applied));
    // The policy asks for a second factor by now, which leaves the identity as it is.
    let (document, caller, made) = planned("two").await;
    manage("patchAuthPolicy", &policy, json!({"secondary": {"requireTotp": true}})).await;
    let done = change::submit(&bed.controller, &caller, &document, made, true).await.unwrap();
    assert!(done.is_none());
    manage("patchAuthPolicy", &policy, json!({"secondary": {"requireTotp": false}})).await;
    // The session has ended.
    let (document, caller, made) = planned("three").await;
    other("another").await;
    manage("deleteAPISessions", &caller.login().unwrap().session.id, NONE).await;
    let done = change::submit(&bed.controller, &caller, &document, made, true).await.unwrap();
    assert!(done.is_none());
}
