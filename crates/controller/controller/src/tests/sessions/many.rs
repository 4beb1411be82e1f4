//! How many sessions an identity has, and which of them end.

use std::time::Duration;

use serde_json::json;
use weft_auth::rates::AT_ONCE;
use weft_auth::sessions::{MAX_PLACES_OF_SOURCE as HALF, PER_IDENTITY};
use weft_model::Id;
use weft_model::entity::ApiSession;

use super::{laptop, login};
use crate::testing::{Bed, PASSWORD, USERNAME, csr};
use crate::{Failure, Result};

/// A network whose identities may have [`PER_IDENTITY`] sessions.
async fn small() -> Bed {
    Bed::with(|settings| settings.logins.per_identity = 1).await
}

/// Opens a session of the identity.
fn open(bed: &Bed, number: usize, is_mfa_complete: bool) -> Id {
    let session = ApiSession { is_mfa_complete, ..login(bed) };
    let sessions = bed.controller.auth().sessions();
    let session = sessions.open(session, &format!("token {number}"), |it| it.is_mfa_complete);
    session.unwrap().base.id.clone()
}

fn counts(bed: &Bed) -> (usize, usize) {
    let all = bed.controller.auth().sessions().all();
    let complete = all.iter().filter(|it| it.is_mfa_complete).count();
    (complete, all.len() - complete)
}

#[tokio::test]
async fn sessions_without_a_code_end_no_others() {
    let bed = small().await;
    let owners = [0, 1, 2].map(|number| open(&bed, number, true));
    let mut last = None;
    for number in 3..300 {
        bed.clock.advance(Duration::from_secs(1));
        last = Some(open(&bed, number, false));
    }
    assert_eq!(counts(&bed), (3, 297));
    let sessions = bed.controller.auth().sessions();
    assert!(owners.iter().chain(&last).all(|id| sessions.by_id(id.as_str()).is_some()));
    // One that gets its code counts among the others from then on.
    let last = last.unwrap();
    for number in 300..300 + PER_IDENTITY - 3 {
        open(&bed, number, true);
    }
    assert_eq!(counts(&bed), (PER_IDENTITY, 297));
    let whole =
        sessions.change(&last, bed.controller.kernel().now(), |it| it.is_mfa_complete = true);
    sessions.make_room(&whole.unwrap(), |it| it.is_mfa_complete);
    // Some of them end together, so that the next ones need not look at all.
    assert_eq!(counts(&bed), (PER_IDENTITY - 4, 296));
    assert!(sessions.by_id(last.as_str()).is_some());
    assert!(sessions.by_id(owners[0].as_str()).is_none(), "not used for the longest time");
}

#[tokio::test]
async fn the_password_alone_ends_no_login_of_another_source() {
    let bed = small().await;
    let half = |number: usize, from: &str| {
        bed.clock.advance(Duration::from_millis(100));
        let session = ApiSession { ip_address: from.to_owned(), ..login(&bed) };
        let sessions = bed.controller.auth().sessions();
        let session = sessions.open(session, &format!("token {number}"), |it| it.is_mfa_complete);
        session.unwrap().base.id.clone()
    };
    let is_there = |id: &Id| bed.controller.auth().sessions().by_id(id.as_str()).is_some();
    let owner = half(0, "192.0.2.1");
    // From one address in both of its forms, and from one network of IPv6.
    let first = half(1, "198.51.100.7");
    let mut last = first.clone();
    for number in 2..HALF + 100 {
        let from = if number % 2 == 0 { "198.51.100.7" } else { "::ffff:198.51.100.7" };
        last = half(number, from);
    }
    assert_eq!(counts(&bed), (0, 1 + HALF));
    assert!(is_there(&owner) && !is_there(&first) && is_there(&last), "the newest one stays");
    for number in 0..HALF + 100 {
        half(10_000 + number, &format!("2001:db8::{number:x}"));
    }
    assert_eq!(counts(&bed), (0, 1 + 2 * HALF));
    assert!(is_there(&owner));
}

#[tokio::test]
async fn the_session_ends_that_was_not_used_for_the_longest_time() {
    let bed = small().await;
    let sessions = bed.controller.auth().sessions();
    let [tunneler, idle] = [0, 1].map(|number| open(&bed, number, true));
    for number in 2..2 * PER_IDENTITY {
        bed.clock.advance(Duration::from_secs(1));
        if number % 60 == 0 {
            sessions.touch(&tunneler, bed.controller.kernel().now());
        }
        open(&bed, number, true);
    }
    let (count, _) = counts(&bed);
    assert!((PER_IDENTITY - 4..=PER_IDENTITY).contains(&count), "{count}");
    assert!(sessions.by_id(tunneler.as_str()).is_some(), "it is old, and in use");
    assert!(sessions.by_id(idle.as_str()).is_none());
}

/// Does something until it is refused; returns how often it was done.
async fn until_refused(mut deed: impl AsyncFnMut() -> Result<()>) -> (u32, Failure) {
    for done in 0..20 * AT_ONCE {
        if let Err(refused) = deed().await {
            return (done, refused);
        }
    }
    panic!("it is never refused");
}

#[tokio::test]
async fn logins_beyond_the_rate_wait_and_changes_of_certificates_are_refused() {
    let bed = Bed::with(|settings| {
        settings.logins.per_identity = 20;
        settings.logins.longest_wait = Duration::from_millis(500);
    })
    .await;
    let admin = bed.admin().await;
    let (_, chain) = bed.enroll(&admin, "script").await;
    // 40 at once, and 10 that wait; the others are refused.
    let all = futures::future::join_all((0..200).map(|_| bed.login_with(&chain))).await;
    let (done, refused): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
    assert!(done.len() >= 49, "{}", done.len());
    let refused = refused.into_iter().find_map(Result::err).expect("not all of them wait");
    assert_eq!(refused.status(), 429);
    assert!(refused.retry_after().is_some_and(|wait| wait <= Duration::from_secs(8)));
    // Others are not concerned.
    let (client, id) = laptop(&bed, &admin).await;
    let body = json!({"csr": csr("x")});
    let (done, refused) = until_refused(async || {
        let operation = "createCurrentApiSessionCertificate";
        let made = bed.client(&client, operation, &[], body.clone()).await?;
        let made = made["id"].as_str().unwrap();
        bed.client(&client, "deleteCurrentApiSessionCertificate", &[made], json!(null)).await?;
        Ok(())
    })
    .await;
    assert!(done >= AT_ONCE / 2, "{done}");
    assert_eq!(refused.status(), 429);
    assert!(bed.controller.auth().sessions().by_id(&id).is_some());
}

#[tokio::test]
async fn a_program_that_logs_in_for_each_operation_is_let_in() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (_, chain) = bed.enroll(&admin, "script").await;
    for _ in 0..150 {
        bed.login_with(&chain).await.unwrap();
        bed.login(USERNAME, PASSWORD).await.unwrap();
    }
    // Those that may not come at once wait.
    let all = futures::future::join_all((0..220).map(|_| bed.login(USERNAME, PASSWORD))).await;
    assert_eq!(all.into_iter().filter_map(Result::err).count(), 0);
    let owner = bed.controller.auth().sessions().by_id(&admin.login().unwrap().session.id);
    assert!(owner.is_some(), "no session ends for those of other logins");
}
