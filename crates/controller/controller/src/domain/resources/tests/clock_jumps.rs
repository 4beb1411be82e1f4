//! Passwords, codes, locks and sessions while the clock jumps by an hour: nobody is locked out for good, and nobody is
//! let in.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weft_contract::ErrorCode;
use weft_kernel::clock::ManualClock;

use super::NONE;
use super::external_logins::{Provider, identity, log_in, refused, scene};
use super::mfa::{app, client, login, with_header};
use crate::GuessLimits;
use crate::testing::{Bed, PASSWORD, USERNAME};

const HOUR: Duration = Duration::from_secs(3600);
const STEP: Duration = Duration::from_secs(30);

#[tokio::test]
async fn sessions_end_no_later_and_passwords_are_good_whatever_the_clock_does() {
    let bed = Bed::new().await;
    let token = login(&bed).await.1["token"].as_str().unwrap().to_owned();
    let is_there = || {
        bed.controller.auth().sessions().by_token(&token, bed.controller.kernel().now()).is_some()
    };
    bed.clock.turn_back(HOUR);
    assert!(is_there() && bed.login(USERNAME, PASSWORD).await.is_ok());
    bed.clock.advance(HOUR);
    assert!(is_there());
    // An hour without a use is more than a session may be idle.
    bed.clock.advance(HOUR);
    assert!(!is_there() && bed.login(USERNAME, PASSWORD).await.is_ok());
    bed.controller
        .auth()
        .sessions()
        .end_due(&bed.controller.kernel().snapshot(), bed.controller.kernel().now());
    bed.clock.turn_back(HOUR);
    assert!(!is_there(), "what has ended stays so");
    assert!(bed.login(USERNAME, PASSWORD).await.is_ok());
}

#[tokio::test]
async fn a_locked_password_is_good_again_at_most_an_hour_late() {
    let bed = Bed::with(|settings| {
        settings.guess_limits = GuessLimits { per_name: 0, per_address: 0 };
    })
    .await;
    let admin = bed.admin().await;
    let rules = json!({"primary": {"updb": {"maxAttempts": 2, "lockoutDurationMinutes": 10}}});
    bed.manage(&admin, "patchAuthPolicy", &["default"], rules).await.unwrap();
    let body = json!({"name": "u", "type": "User", "isAdmin": false});
    let id = bed.create(&admin, "createIdentity", body).await;
    let body =
        json!({"identityId": id, "method": "updb", "username": "user", "password": "richtig"});
    bed.create(&admin, "createAuthenticator", body).await;
    let is_good = async || bed.login("user", "richtig").await.is_ok();
    let lock = async || {
        for _ in 0..2 {
            assert!(bed.login("user", "falsch").await.is_err());
        }
        assert!(!is_good().await, "locked now");
    };
    lock().await;
    bed.clock.turn_back(HOUR);
    assert!(!is_good().await, "a clock that is set back unlocks nothing");
    bed.clock.advance(HOUR + Duration::from_secs(601));
    assert!(is_good().await);
    lock().await;
    bed.clock.advance(HOUR);
    assert!(is_good().await);
}

#[tokio::test]
async fn a_code_is_good_once_and_the_next_ones_are_good_when_the_clock_is_right_again() {
    let bed = Bed::new().await;
    let me = bed.admin().await;
    client(&bed, &me, "enrollMfa", NONE).await.unwrap();
    let detail = client(&bed, &me, "detailMfa", NONE).await.unwrap();
    let url = detail["provisioningUrl"].as_str().unwrap().to_owned();
    let first = app(&bed, &url);
    client(&bed, &me, "verifyMfa", json!({"code": first})).await.unwrap();
    let codes = with_header(&bed, &me, "detailMfaRecoveryCodes", &first).await.unwrap();
    let recovery = codes["recoveryCodes"][0].as_str().unwrap().to_owned();
    let enter = async |code: &str| {
        let (half, _) = login(&bed).await;
        client(&bed, &half, "authenticateMfa", json!({"code": code})).await
    };
    bed.clock.advance(STEP * 2);
    let used = app(&bed, &url);
    enter(&used).await.unwrap();
    // Nobody gets in with a code of before, whatever time it is here.
    for _ in 0..2 {
        bed.clock.turn_back(HOUR);
        for code in [&used, &app(&bed, &url)] {
            let failure = enter(code).await.unwrap_err();
            assert_eq!(failure.code(), ErrorCode::MfaInvalidToken);
        }
        bed.clock.advance(HOUR);
    }
    // The owner has recovery codes meanwhile.
    bed.clock.turn_back(HOUR);
    enter(&recovery).await.expect("a recovery code has no time");
    bed.clock.advance(HOUR + STEP * 2);
    enter(&app(&bed, &url)).await.unwrap();
    // A clock that was an hour fast makes the owner wait for an hour at most.
    bed.clock.advance(HOUR);
    enter(&app(&bed, &url)).await.unwrap();
    bed.clock.turn_back(HOUR);
    bed.clock.advance(STEP * 2);
    enter(&app(&bed, &url)).await.unwrap_err();
    bed.clock.advance(HOUR);
    enter(&app(&bed, &url)).await.unwrap();
}

#[tokio::test]
async fn known_keys_of_a_provider_that_is_down_are_good_for_a_day_of_the_steady_clock() {
    let (bed, documents, admin) = scene().await;
    let idp = Provider::new(&documents, "idp", "k1");
    bed.create(&admin, "createExternalJwtSigner", idp.body()).await;
    identity(&bed, &admin, "anna@idp").await;
    let token = |bed: &Bed| {
        let mut claims = idp.claims("anna@idp");
        claims["exp"] = json!(bed.controller.kernel().now().secs() + 600);
        idp.tokens.sign(&claims).unwrap()
    };
    log_in(&bed, &[&token(&bed)]).await.unwrap();
    documents.0.lock().clear();
    // Two days by the clock of the machine are no time at all by the steady one.
    bed.clock.advance(48 * HOUR);
    log_in(&bed, &[&token(&bed)]).await.unwrap();
    bed.clock.turn_back(49 * HOUR);
    log_in(&bed, &[&token(&bed)]).await.unwrap();
    // A token that has expired is none, and one of the hour that was not is none yet.
    let late = token(&bed);
    bed.clock.advance(HOUR);
    refused(&bed, &[&late], "expired").await;
    log_in(&bed, &[&token(&bed)]).await.unwrap();
    // After a restart the age of the keys counts by the clock of the machine: an hour more or less at most.
    let again = bed.restarted().await;
    log_in(&again, &[&token(&again)]).await.unwrap();
    let clock = Arc::new(ManualClock::at(again.controller.kernel().now().plus(26 * HOUR)));
    let late = again.restarted_with(|settings| settings.clock = clock).await;
    refused(&late, &[&token(&late)], "invalid").await;
}
