//! Wrong passwords: the cost for their sender, and that others do not suffer.

use std::time::Duration;

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode};
use weft_model::Id;
use weft_model::entity::Authenticator;

use super::{NONE, refusal};
use crate::testing::{Bed, PASSWORD, USERNAME, to, until};
use crate::{Caller, GuessLimits, Origin};

#[tokio::test]
async fn too_many_wrong_passwords_lock_the_password_and_end_no_session() {
    let bed = Bed::with(|settings| {
        settings.guess_limits = GuessLimits { per_name: 0, per_address: 0 };
    })
    .await;
    let admin = bed.admin().await;
    bed.controller
        .kernel()
        .decide(&Caller::system(), |decision| {
            let policy = decision.tip().get::<weft_model::entity::AuthPolicy>(&Id::new("default"));
            let mut policy = (**policy.unwrap()).clone();
            policy.updb.max_attempts = 2;
            decision.put(policy);
            Ok(())
        })
        .await
        .unwrap();
    let body = json!({"name": "u", "type": "User", "isAdmin": false});
    let id = bed.create(&admin, "createIdentity", body).await;
    let body = json!({"identityId": id, "method": "updb", "username": "user",
        "password": "richtig"});
    bed.create(&admin, "createAuthenticator", body.clone()).await;
    let failure = refusal(&bed, &admin, "createAuthenticator", "", body).await;
    assert_eq!(failure.code(), ErrorCode::MaxAuthenticatorMethodsReached);
    assert_eq!(failure.status(), 400);
    let up = bed.login("user", "richtig").await.unwrap();
    for _ in 0..2 {
        assert!(bed.login("user", "falsch").await.is_err());
    }
    assert!(bed.login("user", "richtig").await.is_err(), "locked now");
    let read = bed.manage(&admin, "detailIdentity", &[&id], NONE).await.unwrap();
    assert_eq!(read["disabled"], false);
    bed.manage(&up, "getCurrentAPISession", &[], NONE).await.unwrap();
    bed.manage(&admin, "enableIdentity", &[&id], NONE).await.unwrap();
    assert!(bed.login("user", "richtig").await.is_ok());
    // The lock survives a restart, and a new password ends it.
    for _ in 0..2 {
        assert!(bed.login("user", "falsch").await.is_err());
    }
    let again = bed.restarted().await;
    assert!(again.login("user", "richtig").await.is_err(), "still locked");
    let admin = again.admin().await;
    let own = again.manage(&admin, "getIdentityAuthenticators", &[&id], NONE).await.unwrap();
    let own = own[0]["id"].as_str().unwrap();
    let fresh = json!({"password": "ganz neu"});
    again.manage(&admin, "patchAuthenticator", &[own], fresh).await.unwrap();
    assert!(again.login("user", "ganz neu").await.is_ok());
}

/// A wrong password for `user`, from an address.
async fn guess(bed: &Bed, from: &str) {
    let call = to(Api::Client, "authenticate", &[])
        .with_query("method", "password")
        .with_json(&json!({"username": "user", "password": "falsch"}));
    let remote = Some(format!("{from}:4711").parse().unwrap());
    let caller = Caller::nobody(Origin { remote, ..Origin::default() });
    let failure = bed.controller.call(caller, call).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::InvalidAuth);
}

/// What an authenticator or an identity says of the lock of its password.
fn lock(shown: &Value) -> Value {
    ["isLocked", "lockedAt", "lockedUntil", "lockedBy"].map(|name| shown[name].clone()).into()
}

fn is_open(shown: &Value) -> bool {
    lock(shown) == json!([false, null, null, null])
}

#[tokio::test]
async fn a_locked_password_is_said_to_be_locked_until_it_is_not() {
    let bed = Bed::with(|settings| {
        settings.guess_limits = GuessLimits { per_name: 0, per_address: 0 };
    })
    .await;
    let admin = bed.admin().await;
    let locks = |minutes: u64| json!({"primary": {"updb": {"maxAttempts": 6, "lockoutDurationMinutes": minutes}}});
    bed.manage(&admin, "patchAuthPolicy", &["default"], locks(5)).await.unwrap();
    let body = json!({"name": "u", "type": "User", "isAdmin": false});
    let id = bed.create(&admin, "createIdentity", body).await;
    let body = json!({"identityId": id, "method": "updb", "username": "user",
        "password": "richtig"});
    let own = bed.create(&admin, "createAuthenticator", body).await;
    let body = json!({"name": "clerk", "type": "User", "isAdmin": false,
        "permissions": ["identity.read"]});
    let clerk = bed.create(&admin, "createIdentity", body).await;
    let body = json!({"identityId": clerk, "method": "updb", "username": "clerk",
        "password": "richtig"});
    bed.create(&admin, "createAuthenticator", body).await;
    let clerk = bed.login("clerk", "richtig").await.unwrap();
    let user = bed.login("user", "richtig").await.unwrap();
    let identity = async || bed.manage(&admin, "detailIdentity", &[&id], NONE).await.unwrap();
    let authenticator =
        async || bed.manage(&admin, "detailAuthenticator", &[&own], NONE).await.unwrap();
    let lock_it = async || {
        for last in [1, 2, 3, 4, 5, 3] {
            guess(&bed, &format!("192.0.2.{last}")).await;
        }
    };
    let open = async || is_open(&identity().await) && is_open(&authenticator().await);
    assert!(open().await);

    lock_it().await;
    let by = json!(["192.0.2.2", "192.0.2.4", "192.0.2.5", "192.0.2.3"]);
    let now = identity().await["lockedAt"].clone();
    let minutes = |n: u64| {
        weft_kernel::convert::time(bed.controller.kernel().now().plus(Duration::from_secs(60 * n)))
    };
    let expected = json!([true, json!(minutes(0)), json!(minutes(5)), by]);
    assert_eq!(now, json!(minutes(0)));
    assert_eq!(lock(&identity().await), expected);
    assert_eq!(lock(&authenticator().await), expected);
    // Who may read the identity sees it there, and its owner, whose session goes on, sees it, too.
    let read = bed.manage(&clerk, "detailIdentity", &[&id], NONE).await.unwrap();
    assert_eq!(lock(&read), expected);
    let refused = bed.manage(&clerk, "detailAuthenticator", &[&own], NONE).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unauthorized);
    for operation in ["getCurrentIdentity", "detailCurrentIdentityAuthenticator"] {
        let path = [own.as_str()];
        let path = if operation == "getCurrentIdentity" { &[][..] } else { &path };
        assert_eq!(lock(&bed.client(&user, operation, path, NONE).await.unwrap()), expected);
    }
    for (operation, one) in [("listAuthenticators", &own), ("listIdentities", &id)] {
        let found = bed.list(&admin, operation, "isLocked = true").await;
        assert_eq!(found.iter().map(|it| &it["id"]).collect::<Vec<_>>(), [&json!(one)]);
    }

    // The lock ends by its time, and nothing is stored of the guesser any more.
    let stored = || {
        let snapshot = bed.controller.kernel().snapshot();
        snapshot.get::<Authenticator>(&Id::new(&own)).unwrap().updb.clone().unwrap()
    };
    bed.clock.advance(Duration::from_secs(299));
    assert_eq!(lock(&identity().await), expected);
    bed.clock.advance(Duration::from_secs(1));
    assert!(open().await, "at once");
    until("the addresses are forgotten", || stored().locked_by.is_empty()).await;
    assert_eq!((stored().locked_at, stored().locked_until), (None, None));
    bed.login("user", "richtig").await.unwrap();

    // A lock without an end ends with another password, or when the identity is enabled.
    bed.manage(&admin, "patchAuthPolicy", &["default"], locks(0)).await.unwrap();
    for operation in ["enableIdentity", "patchAuthenticator"] {
        lock_it().await;
        let shown = identity().await;
        assert_eq!((&shown["isLocked"], &shown["lockedUntil"]), (&json!(true), &Value::Null));
        let in_a_year = bed.controller.kernel().now().plus(Duration::from_secs(365 * 24 * 3600));
        assert!(stored().is_locked(in_a_year));
        match operation {
            "enableIdentity" => bed.manage(&admin, operation, &[&id], NONE).await.unwrap(),
            _ => {
                let body = json!({"password": "neues wort"});
                bed.manage(&admin, operation, &[&own], body).await.unwrap()
            }
        };
        assert!(open().await && stored().locked_by.is_empty(), "{operation}");
    }
}

#[tokio::test]
async fn the_last_administrator_is_not_locked_out() {
    let bed = Bed::with(|settings| {
        settings.guess_limits = GuessLimits { per_name: 0, per_address: 0 };
    })
    .await;
    let admin = bed.admin().await;
    let policy = json!({"primary": {"updb": {"maxAttempts": 2, "lockoutDurationMinutes": 0}}});
    bed.manage(&admin, "patchAuthPolicy", &["default"], policy).await.unwrap();
    let body = json!({"name": "second", "type": "User", "isAdmin": true});
    let id = bed.create(&admin, "createIdentity", body).await;
    let body =
        json!({"identityId": id, "method": "updb", "username": "second", "password": "richtig"});
    bed.create(&admin, "createAuthenticator", body).await;
    // A guesser tries every administrator repeatedly.
    for username in ["second", USERNAME, "second", USERNAME] {
        for _ in 0..5 {
            assert!(bed.login(username, "falsch").await.is_err());
        }
    }
    assert!(bed.login("second", "richtig").await.is_err(), "locked");
    assert!(bed.login(USERNAME, PASSWORD).await.is_ok(), "the last one");
    bed.manage(&admin, "getCurrentAPISession", &[], NONE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn guessing_gets_slow_for_a_name_and_not_for_others() {
    let bed = Bed::new().await;
    let mut refused = None;
    for _ in 0..6 {
        let failure = bed.login(USERNAME, "falsch").await.unwrap_err();
        if failure.code() == ErrorCode::ServerTooManyRequests {
            refused = failure.retry_after();
            break;
        }
        assert_eq!(failure.code(), ErrorCode::InvalidAuth);
    }
    assert!(refused.is_some_and(|wait| wait.as_secs() >= 1), "{refused:?}");
    // The refusal of an unknown name is the same.
    let failure = bed.login("nobody", "falsch").await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::InvalidAuth);
}

#[tokio::test(start_paused = true)]
async fn nobody_learns_a_password_that_is_refused_by_what_it_costs() {
    // The refusal is the same for a locked password, a disabled identity, and a policy without
    // passwords.
    for reason in ["locked", "disabled", "policy"] {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        let body = json!({"name": "u", "type": "User", "isAdmin": false});
        let id = bed.create(&admin, "createIdentity", body).await;
        let body = json!({"identityId": id, "method": "updb", "username": "user",
            "password": "richtig"});
        bed.create(&admin, "createAuthenticator", body).await;
        match reason {
            "locked" => {
                let locks = json!({"primary": {"updb": {"maxAttempts": 1}}});
                bed.manage(&admin, "patchAuthPolicy", &["default"], locks).await.unwrap();
                assert!(bed.login("user", "falsch").await.is_err());
            }
            "disabled" => {
                let forever = json!({"durationMinutes": 0});
                bed.manage(&admin, "disableIdentity", &[&id], forever).await.unwrap();
            }
            _ => {
                let none = json!({"primary": {"updb": {"allowed": false}}});
                bed.manage(&admin, "patchAuthPolicy", &["default"], none).await.unwrap();
            }
        }
        let mut codes = Vec::new();
        for _ in 0..6 {
            codes.push(bed.login("user", "richtig").await.unwrap_err().code());
        }
        assert!(codes.contains(&ErrorCode::ServerTooManyRequests), "{reason}: {codes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_learns_a_locked_password_by_changing_it() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "u", "type": "User", "isAdmin": false});
    let id = bed.create(&admin, "createIdentity", body).await;
    let body =
        json!({"identityId": id, "method": "updb", "username": "user", "password": "richtig"});
    let own = bed.create(&admin, "createAuthenticator", body).await;
    let user = bed.login("user", "richtig").await.unwrap();
    let locks = json!({"primary": {"updb": {"maxAttempts": 1}}});
    bed.manage(&admin, "patchAuthPolicy", &["default"], locks).await.unwrap();
    assert!(bed.login("user", "falsch").await.is_err());
    let mut codes = Vec::new();
    for _ in 0..6 {
        let change = json!({"currentPassword": "richtig", "password": "neues wort"});
        let done = bed.manage(&user, "patchCurrentIdentityAuthenticator", &[&own], change).await;
        codes.push(done.unwrap_err().code());
    }
    assert!(codes.contains(&ErrorCode::ServerTooManyRequests), "{codes:?}");
}
