//! A clock that jumps by an hour, and comes back: nobody is locked out for good, and nobody is let in.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::Method;
use serde_json::{Value, json};
use weft_kernel::clock::ManualClock;
use weft_model::entity::Revocation;
use weft_model::{Id, Timestamp};

use super::oidc::{Program, claims, text, with_provider};
use super::{Bed, CLIENT, LONG, PASSWORD, USERNAME, send};
use crate::ApiLimits;

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

async fn bed() -> (Bed, Arc<ManualClock>) {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let clock = Arc::new(ManualClock::at(Timestamp(since.as_millis() as i64)));
    let of_settings = Arc::clone(&clock);
    let check = Default::default();
    let bed = Bed::changed(with_provider(), (ApiLimits::default(), check), |settings| {
        settings.clock = of_settings;
    });
    (bed.await, clock)
}

/// Whether an access token opens the API.
async fn is_good(program: &Program<'_>, tokens: &Value) -> bool {
    let seen = program.get("/current-identity", text(tokens, "access_token")).await;
    seen.status == 200
}

async fn end(program: &Program<'_>, tokens: &Value) {
    let token = text(tokens, "access_token");
    let asked = program.request(Method::DELETE, "/current-api-session").bearer_auth(token);
    assert_eq!(send(asked).await.status, 200);
}

/// The session of tokens.
fn session(tokens: &Value) -> Id {
    Id::new(text(&claims(text(tokens, "access_token")), "z_asid"))
}

/// Waits until routers are told of the end of a session.
async fn revoked(bed: &Bed, tokens: &Value) -> Arc<Revocation> {
    let session = session(tokens);
    let waits = async {
        loop {
            if let Some(found) = bed.controller.kernel().snapshot().get::<Revocation>(&session) {
                return Arc::clone(found);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waits).await.unwrap()
}

#[tokio::test]
async fn a_clock_that_is_an_hour_ahead_for_a_while_locks_nobody_out_and_lets_nobody_in() {
    let (bed, clock) = bed().await;
    let program = Program::new(&bed, None);
    let (first, other) = (program.by_password().await, program.by_password().await);
    let opaque = bed.login_answer(CLIENT, USERNAME, PASSWORD).await;
    let idle = text(&opaque.data(), "id").to_owned();
    let opaque = opaque.header("zt-session").unwrap().to_owned();
    let opens = async || {
        let asked = bed.request(Method::GET, "/current-identity").header("zt-session", &opaque);
        send(asked).await.status == 200
    };
    assert!(is_good(&program, &first).await && opens().await);
    clock.advance(HOUR);
    // The access token has ended, and the session goes on; the idle session has ended for good.
    assert!(!is_good(&program, &first).await && !opens().await);
    let is_ended = || bed.controller.auth().sessions().by_id(&idle).is_none();
    let waits = async {
        while !is_ended() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waits).await.unwrap();
    let ahead = program.refresh(text(&first, "refresh_token")).await.json();
    assert!(is_good(&program, &ahead).await);
    let revoked_ahead = program.refresh(text(&other, "refresh_token")).await.json();
    end(&program, &revoked_ahead).await;
    revoked(&bed, &revoked_ahead).await;
    clock.turn_back(HOUR);
    // What ended stays ended, and what is dated ahead is not good yet.
    for tokens in [&other, &revoked_ahead, &ahead] {
        assert!(!is_good(&program, tokens).await);
    }
    assert!(!opens().await);
    assert_eq!(program.refresh(text(&other, "refresh_token")).await.status, 400);
    // Whoever has credentials gets in at once.
    let again = program.by_password().await;
    assert!(is_good(&program, &again).await);
    assert_eq!(bed.login_answer(CLIENT, USERNAME, PASSWORD).await.status, 200);
    // The session that was refreshed ahead goes on when its time has come.
    clock.advance(HOUR);
    assert!(is_good(&program, &ahead).await);
    let next = program.refresh(text(&ahead, "refresh_token")).await;
    assert_eq!(next.status, 200, "{next:?}");
}

#[tokio::test]
async fn a_clock_that_is_an_hour_behind_keeps_ended_sessions_ended() {
    let (bed, clock) = bed().await;
    let program = Program::new(&bed, None);
    let (ended, stays) = (program.by_password().await, program.by_password().await);
    end(&program, &ended).await;
    let before = revoked(&bed, &ended).await;
    clock.turn_back(HOUR);
    assert!(!is_good(&program, &ended).await);
    assert_eq!(program.refresh(text(&ended, "refresh_token")).await.status, 400);
    // Tokens of before are dated ahead: their clients log in again.
    assert!(!is_good(&program, &stays).await);
    let behind = program.by_password().await;
    assert!(is_good(&program, &behind).await);
    // Its revocation lasts as long as its tokens by any clock.
    end(&program, &behind).await;
    let after = revoked(&bed, &behind).await;
    assert!(after.expires_at.plus(HOUR) >= before.expires_at);
    clock.advance(HOUR);
    for tokens in [&ended, &behind] {
        assert!(!is_good(&program, tokens).await);
    }
    assert!(is_good(&program, &stays).await);
    let next = program.refresh(text(&stays, "refresh_token")).await;
    assert_eq!(next.status, 200, "{next:?}");
    clock.advance(MINUTE);
    assert!(is_good(&program, &next.json()).await);
}

#[tokio::test]
async fn a_session_that_a_wrong_clock_ends_is_revoked_at_routers() {
    let (bed, clock) = bed().await;
    let program = Program::new(&bed, None);
    // Without refresh tokens a session ends with its access token, after half an hour.
    let brief = program.by_password_for("openid").await;
    assert_eq!(brief.get("refresh_token"), None);
    clock.advance(HOUR);
    let row = revoked(&bed, &brief).await;
    clock.turn_back(HOUR);
    assert!(row.expires_at > bed.controller.kernel().now());
    assert!(!is_good(&program, &brief).await);
    assert_eq!(json!(row.base.id.as_str()), claims(text(&brief, "access_token"))["z_asid"]);
}
