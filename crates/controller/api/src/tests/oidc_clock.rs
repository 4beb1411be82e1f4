//! Logins by OpenID Connect while the clock jumps: nobody is locked out for good, and nobody is let in.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weft_config::controller::StoreCheck;
use weft_kernel::clock::{Clock as _, ManualClock, SystemClock};

use super::oidc::{ACCESS, Program, REFRESH, claims, text, with_provider};
use super::{Bed, PASSWORD, USERNAME};
use crate::ApiLimits;

const HOUR: Duration = Duration::from_secs(3600);

/// A network whose clock the test sets.
async fn bed() -> (Bed, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(SystemClock.now()));
    let own = Arc::clone(&clock);
    let limits = (ApiLimits::default(), StoreCheck::default());
    let bed = Bed::changed(with_provider(), limits, |settings| settings.clock = own).await;
    (bed, clock)
}

/// The jumps of an hour.
const JUMPS: [fn(&ManualClock); 2] = [|clock| clock.advance(HOUR), |clock| clock.turn_back(HOUR)];

#[tokio::test]
async fn a_login_in_the_middle_of_a_jump_is_finished_and_its_code_is_good_once() {
    for jump in JUMPS {
        let (bed, clock) = bed().await;
        let program = Program::new(&bed, None);
        let id = program.begin("&method=password").await;
        jump(&clock);
        let body = json!({"id": id, "username": USERNAME, "password": PASSWORD});
        let seen = program.step("/oidc/login/password", &body).await;
        jump(&clock);
        let code = program.code(&seen).await;
        jump(&clock);
        let tokens = program.redeem(&code, &[]).await.json();
        let seen = program.get("/current-identity", text(&tokens, "access_token")).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        jump(&clock);
        assert_eq!(program.redeem(&code, &[]).await.json()["error"], "invalid_grant");
    }
}

#[tokio::test]
async fn an_hour_forward_ends_access_tokens_and_no_session() {
    let (bed, clock) = bed().await;
    let program = Program::new(&bed, None);
    let tokens = program.by_password().await;
    clock.advance(HOUR);
    program
        .get("/current-identity", text(&tokens, "access_token"))
        .await
        .is_error(401, "UNAUTHORIZED");
    let next = program.refresh(text(&tokens, "refresh_token")).await.json();
    assert_eq!(program.get("/current-identity", text(&next, "access_token")).await.status, 200);
    // Back in time, the tokens of the hour that was not are none until it comes, and the session goes on then.
    clock.turn_back(HOUR);
    let again = program.by_password().await;
    assert_eq!(program.get("/current-identity", text(&again, "access_token")).await.status, 200);
    clock.advance(HOUR);
    let last = program.refresh(text(&next, "refresh_token")).await;
    assert_eq!(last.status, 200, "{last:?}");
}

#[tokio::test]
async fn an_hour_back_lets_people_log_in_and_revives_nothing() {
    let (bed, clock) = bed().await;
    let program = Program::new(&bed, None);
    let [ended, kept] = [program.by_password().await, program.by_password().await];
    let end = program.request(reqwest::Method::DELETE, "/current-api-session");
    let end = end.bearer_auth(text(&ended, "access_token"));
    assert_eq!(super::send(end).await.status, 200);
    clock.turn_back(HOUR);
    for name in ["access_token", "refresh_token"] {
        let token = text(&ended, name);
        program.get("/current-identity", token).await.is_error(401, "UNAUTHORIZED");
    }
    assert_eq!(
        program.refresh(text(&ended, "refresh_token")).await.json()["error"],
        "invalid_grant"
    );
    let fresh = program.by_password().await;
    let access = text(&fresh, "access_token");
    assert_eq!(program.get("/current-identity", access).await.status, 200);
    assert_eq!(program.exchange(access, ACCESS, ACCESS).await.status, 200);
    let refreshed = program.exchange(text(&fresh, "refresh_token"), REFRESH, REFRESH).await.json();
    assert!(claims(text(&refreshed, "access_token"))["exp"].is_i64());
    // What was good before is good again once the time has come, and what had ended is not.
    clock.advance(HOUR);
    let seen = program.get("/current-identity", text(&kept, "access_token")).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    assert_eq!(program.refresh(text(&kept, "refresh_token")).await.status, 200);
    assert_eq!(
        program.refresh(text(&ended, "refresh_token")).await.json()["error"],
        "invalid_grant"
    );
}

#[tokio::test]
async fn a_stolen_refresh_token_gains_a_minute_at_most_when_the_clock_is_set_back() {
    let (bed, clock) = bed().await;
    let program = Program::new(&bed, None);
    let first = program.by_password().await;
    clock.advance(HOUR);
    let second = program.refresh(text(&first, "refresh_token")).await.json();
    assert_eq!(program.get("/current-identity", text(&second, "access_token")).await.status, 200);
    clock.turn_back(HOUR - Duration::from_secs(120));
    let stolen = text(&first, "refresh_token");
    assert_eq!(program.refresh(stolen).await.status, 200, "the last but one, for a minute");
    clock.advance(Duration::from_secs(61));
    assert_eq!(program.refresh(stolen).await.json()["error"], "invalid_grant");
}
