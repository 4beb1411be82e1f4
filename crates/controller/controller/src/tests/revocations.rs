//! Revocations that expire, and that are made again.

use std::time::Duration;

use serde_json::json;
use weft_auth::revocations::{BATCH, KEPT, purge_revocations};
use weft_model::entity::Revocation;
use weft_model::{Base, Id};

use crate::Caller;
use crate::testing::Bed;

#[tokio::test]
async fn expired_ones_are_forgotten_and_others_stay() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let now = bed.controller.kernel().now();
    let revoked = move |id: String, lasts: u64| Revocation {
        base: Base::new(Id::new(&id), now),
        expires_at: now.plus(Duration::from_secs(lasts)),
        ..Revocation::default()
    };
    let system = Caller::system();
    let made = bed.controller.kernel().decide(&system, move |decision| {
        (0..BATCH + 7).for_each(|at| decision.put(revoked(format!("token{at}"), 60)));
        decision.put(revoked("later".into(), 600));
        Ok(())
    });
    made.await.unwrap();
    let body = json!({"name": "laptop", "type": "Default", "isAdmin": false});
    let laptop = bed.create(&admin, "createIdentity", body).await;
    let disable = json!({"durationMinutes": 1});
    bed.manage(&admin, "disableIdentity", &[&laptop], disable).await.unwrap();
    let kept = || bed.controller.kernel().snapshot().list::<Revocation>().count();
    let over = now.plus(KEPT);
    let purge = |settled| purge_revocations(bed.controller.kernel(), settled);
    purge(over.plus(Duration::from_secs(59))).await.unwrap();
    assert_eq!(kept(), BATCH + 9);
    purge(over.plus(Duration::from_secs(60))).await.unwrap();
    assert_eq!(kept(), 2);
    let longest = bed.controller.kernel().settings().durations.longest_token;
    purge(over.plus(Duration::from_secs(60) + longest)).await.unwrap();
    assert_eq!(kept(), 0);
}

#[tokio::test]
async fn a_clock_that_jumps_forward_for_a_moment_deletes_none() {
    let bed = Bed::new().await;
    bed.clock.advance(100 * KEPT);
    assert_eq!(bed.controller.auth().settled_now(), None, "the first hours of a run");
}

#[tokio::test]
async fn a_clock_that_was_set_back_takes_nothing_from_a_revocation() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "laptop", "type": "Default", "isAdmin": false});
    let laptop = bed.create(&admin, "createIdentity", body).await;
    let reach = || {
        let snapshot = bed.controller.kernel().snapshot();
        let one = snapshot.get::<Revocation>(&Id::new(&laptop)).unwrap();
        (one.issued_before.unwrap(), one.expires_at)
    };
    let disable = || async {
        let body = json!({"durationMinutes": 1});
        bed.manage(&admin, "disableIdentity", &[&laptop], body).await.unwrap();
    };
    let revoke = || async {
        let body = json!({"type": "IDENTITY", "id": laptop});
        assert_eq!(bed.create(&admin, "createRevocation", body).await, laptop);
    };
    disable().await;
    let first = reach();
    bed.clock.turn_back(Duration::from_secs(600));
    disable().await;
    assert_eq!(reach(), first);
    revoke().await;
    assert_eq!(reach(), first);
    bed.clock.advance(Duration::from_secs(660));
    revoke().await;
    let later = reach();
    assert!(later.0 > first.0 && later.1 > first.1, "a later one reaches further");
    bed.clock.advance(Duration::from_secs(60));
    disable().await;
    assert!(reach().0 > later.0 && reach().1 > later.1);
}
