//! The further uses of one code, and limits on guessing.

use std::time::Duration;

use serde_json::{Value, json};
use weft_contract::ErrorCode;

use super::NONE;
use super::mfa::{app, client, login, with_header};
use crate::testing::Bed;
use crate::{Caller, Result};

/// An identity with an unverified second factor, and its provisioning address.
async fn begun(bed: &Bed) -> (Caller, String) {
    let me = bed.admin().await;
    client(bed, &me, "enrollMfa", NONE).await.unwrap();
    let detail = client(bed, &me, "detailMfa", NONE).await.unwrap();
    (me, detail["provisioningUrl"].as_str().unwrap().to_owned())
}

/// An identity with a second factor that was verified a while ago.
async fn enrolled(bed: &Bed) -> (Caller, String) {
    let (me, url) = begun(bed).await;
    client(bed, &me, "verifyMfa", json!({"code": app(bed, &url)})).await.unwrap();
    next_step(bed);
    (me, url)
}

fn next_step(bed: &Bed) {
    bed.clock.advance(Duration::from_secs(30));
}

async fn send(bed: &Bed, who: &Caller, operation: &str, code: &str) -> Result<Value> {
    client(bed, who, operation, json!({"code": code})).await
}

fn refused(answer: Result<Value>) {
    let failure = answer.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (401, ErrorCode::MfaInvalidToken));
}

/// A code of the app's form that is wrong now.
fn wrong(bed: &Bed, url: &str) -> &'static str {
    let steps = [-2_i64, -1, 0, 1, 2].map(|step| super::mfa::app_at(bed, url, step * 30));
    ["000000", "000001", "000002", "000003", "000004", "000005"]
        .into_iter()
        .find(|guess| !steps.iter().any(|right| right == guess))
        .unwrap()
}

/// The calls that the commands of the native tunneler make, each command within one step of the app.
#[tokio::test]
async fn a_command_that_posts_and_then_reads_needs_one_code() {
    let bed = Bed::new().await;
    let (me, url) = begun(&bed).await;
    let (stranger, _) = login(&bed).await;

    // verify, get codes, submit.
    let code = app(&bed, &url);
    send(&bed, &me, "verifyMfa", &code).await.unwrap();
    let first = with_header(&bed, &me, "detailMfaRecoveryCodes", &code).await.unwrap();
    send(&bed, &me, "authenticateMfa", &code).await.unwrap();
    refused(send(&bed, &me, "authenticateMfa", &code).await);
    with_header(&bed, &me, "detailMfaRecoveryCodes", &code).await.unwrap();

    // generate codes: by a code of the app, and by a recovery code.
    next_step(&bed);
    let code = app(&bed, &url);
    send(&bed, &me, "createMfaRecoveryCodes", &code).await.unwrap();
    let second = with_header(&bed, &me, "detailMfaRecoveryCodes", &code).await.unwrap();
    assert_ne!(first["recoveryCodes"], second["recoveryCodes"]);
    let recovery = second["recoveryCodes"][0].as_str().unwrap();
    send(&bed, &me, "createMfaRecoveryCodes", recovery).await.unwrap();
    let third = with_header(&bed, &me, "detailMfaRecoveryCodes", recovery).await.unwrap();
    assert_ne!(second["recoveryCodes"], third["recoveryCodes"]);

    // get codes, twice; no other operation, no other identity, and only for a short time.
    next_step(&bed);
    let code = app(&bed, &url);
    with_header(&bed, &me, "detailMfaRecoveryCodes", &code).await.unwrap();
    with_header(&bed, &me, "detailMfaRecoveryCodes", &code).await.unwrap();
    refused(send(&bed, &me, "createMfaRecoveryCodes", &code).await);
    refused(send(&bed, &me, "authenticateMfa", &code).await);
    refused(send(&bed, &stranger, "authenticateMfa", &code).await);
    refused(with_header(&bed, &me, "deleteMfa", &code).await);
    next_step(&bed);
    refused(with_header(&bed, &me, "detailMfaRecoveryCodes", &code).await);

    // submit, then get codes; remove.
    let code = app(&bed, &url);
    send(&bed, &me, "authenticateMfa", &code).await.unwrap();
    with_header(&bed, &me, "detailMfaRecoveryCodes", &code).await.unwrap();
    next_step(&bed);
    with_header(&bed, &me, "deleteMfa", &app(&bed, &url)).await.unwrap();
}

#[tokio::test]
async fn what_completed_an_enrollment_lets_one_login_in() {
    let bed = Bed::new().await;
    let (me, url) = begun(&bed).await;
    let code = app(&bed, &url);
    send(&bed, &me, "verifyMfa", &code).await.unwrap();
    let ((one, _), (other, _)) = (login(&bed).await, login(&bed).await);
    let (first, second) = tokio::join!(
        send(&bed, &one, "authenticateMfa", &code),
        send(&bed, &other, "authenticateMfa", &code)
    );
    assert_eq!(first.is_ok() as u8 + second.is_ok() as u8, 1);
    refused(if first.is_ok() { second } else { first });

    // The second factor that the code verified is deleted, and the code with it.
    with_header(&bed, &me, "deleteMfa", &super::mfa::app_at(&bed, &url, 30)).await.unwrap();
    client(&bed, &me, "enrollMfa", NONE).await.unwrap();
    let url = client(&bed, &me, "detailMfa", NONE).await.unwrap()["provisioningUrl"].clone();
    let again = app(&bed, url.as_str().unwrap());
    send(&bed, &me, "verifyMfa", &again).await.unwrap();
    refused(with_header(&bed, &me, "detailMfaRecoveryCodes", &code).await);
}

#[tokio::test]
async fn a_code_that_let_a_login_in_is_of_no_use_to_others() {
    let bed = Bed::new().await;
    let (me, url) = enrolled(&bed).await;
    let ((one, session), (other, _)) = (login(&bed).await, login(&bed).await);
    let code = app(&bed, &url);
    send(&bed, &one, "authenticateMfa", &code).await.unwrap();
    refused(send(&bed, &other, "authenticateMfa", &code).await);
    refused(with_header(&bed, &me, "detailMfaRecoveryCodes", &code).await);
    let one = bed.with_token(session["token"].as_str().unwrap());
    let read = with_header(&bed, &one, "detailMfaRecoveryCodes", &code).await.unwrap();

    // A recovery code used at a login cannot be used to read codes.
    let recovery = read["recoveryCodes"][0].as_str().unwrap();
    send(&bed, &one, "authenticateMfa", recovery).await.unwrap();
    refused(with_header(&bed, &one, "detailMfaRecoveryCodes", recovery).await);
}

#[tokio::test]
async fn wrong_codes_slow_down_and_lock_nobody_out() {
    let bed = Bed::new().await;
    let (me, url) = begun(&bed).await;
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    for _ in 0..12 {
        refused(send(&bed, &me, "verifyMfa", wrong(&bed, &url)).await);
    }
    assert!(begun.elapsed() >= Duration::from_secs(30), "{:?}", begun.elapsed());
    let asked = tokio::time::Instant::now();
    send(&bed, &me, "verifyMfa", &app(&bed, &url)).await.unwrap();
    assert!(asked.elapsed() < Duration::from_millis(5100), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn wrong_codes_of_the_app_do_not_hold_up_recovery_codes() {
    let bed = Bed::new().await;
    let (me, url) = begun(&bed).await;
    let codes = client(&bed, &me, "detailMfa", NONE).await.unwrap()["recoveryCodes"].clone();
    send(&bed, &me, "verifyMfa", &app(&bed, &url)).await.unwrap();
    tokio::time::pause();
    for _ in 0..8 {
        refused(send(&bed, &me, "authenticateMfa", wrong(&bed, &url)).await);
    }
    let asked = tokio::time::Instant::now();
    send(&bed, &me, "authenticateMfa", codes[0].as_str().unwrap()).await.unwrap();
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn guesses_that_come_together_are_refused_and_the_owner_gets_in() {
    let bed = Bed::new().await;
    let (_, url) = enrolled(&bed).await;
    let ((guesser, _), (owner, _)) = (login(&bed).await, login(&bed).await);
    tokio::time::pause();
    for _ in 0..8 {
        refused(send(&bed, &guesser, "authenticateMfa", wrong(&bed, &url)).await);
    }
    let guesses = (0..40).map(|_| send(&bed, &guesser, "authenticateMfa", wrong(&bed, &url)));
    let right = app(&bed, &url);
    let (answers, own) = tokio::join!(
        futures::future::join_all(guesses),
        send(&bed, &owner, "authenticateMfa", &right)
    );
    own.unwrap();
    let (busy, wrong): (Vec<_>, Vec<_>) = answers
        .into_iter()
        .map(Result::unwrap_err)
        .partition(|failure| failure.code() == ErrorCode::ServerTooManyRequests);
    assert_eq!((busy.len(), wrong.len()), (39, 1));
    for failure in busy {
        assert_eq!(failure.status(), 429);
        assert!(failure.retry_after().unwrap() <= Duration::from_secs(5));
    }
}

#[tokio::test]
async fn a_session_that_ends_while_its_code_waits_is_over() {
    let bed = Bed::new().await;
    let (_, url) = enrolled(&bed).await;
    let ((half, session), (other, _)) = (login(&bed).await, login(&bed).await);
    tokio::time::pause();
    for _ in 0..8 {
        refused(send(&bed, &half, "authenticateMfa", wrong(&bed, &url)).await);
    }
    let code = app(&bed, &url);
    let (answer, ()) = tokio::join!(send(&bed, &half, "authenticateMfa", &code), async {
        let id = weft_model::Id::new(session["id"].as_str().unwrap());
        bed.controller.auth().sessions().end(&[id]);
    });
    assert_eq!(answer.unwrap_err().code(), ErrorCode::Unauthorized);
    send(&bed, &other, "authenticateMfa", &code).await.unwrap();
}

#[tokio::test]
async fn after_many_wrong_codes_a_second_right_one_is_needed() {
    let bed = Bed::new().await;
    let (_, url) = enrolled(&bed).await;
    let ((guesser, _), (owner, _)) = (login(&bed).await, login(&bed).await);
    tokio::time::pause();
    for _ in 0..30 {
        refused(send(&bed, &guesser, "authenticateMfa", wrong(&bed, &url)).await);
    }
    let code = app(&bed, &url);
    refused(send(&bed, &owner, "authenticateMfa", &code).await);
    refused(send(&bed, &owner, "authenticateMfa", &code).await);
    next_step(&bed);
    send(&bed, &owner, "authenticateMfa", &app(&bed, &url)).await.unwrap();
}
