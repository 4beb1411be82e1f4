//! Controllers that let nobody in: one that knows less than the others for long, and one whose clock is wrong.

use std::time::{Duration, Instant};

use serde_json::json;
use weft_contract::ErrorCode;
use weft_model::{Timeline, Timestamp};
use weft_store::{Checkpoint, Head, LogDigest, Presence, SharedLog as _};

use super::{Cluster, token};
use crate::testing::{Bed, NOW, PASSWORD, USERNAME, until};

#[tokio::test]
async fn a_controller_that_stays_behind_lets_nobody_in_until_it_has_caught_up() {
    let cluster = Cluster::new().await;
    let (one, two) = (&cluster.one, &cluster.two);
    let admin = one.admin().await;
    until("the administrator", || revision(two) == revision(one)).await;
    cluster.set_cut(true).await;
    one.create(&admin, "createService", json!({"name": "late", "encryptionRequired": false})).await;
    let timeline = one.controller.kernel().snapshot().timeline().0.to_string();
    let newest = revision(one);
    let (ahead, behind) = (one.controller.auth(), two.controller.auth());
    let seal = ahead.seal_revision(&timeline, newest).unwrap();
    assert_eq!(behind.seal_revision(&timeline, newest), None, "it cannot say what there is");
    // Nobody else's seal, and for nothing else.
    for (timeline, revision, seal) in [
        (timeline.as_str(), newest + 1, &seal[..]),
        ("another timeline", newest, &seal),
        (&timeline, newest, b""),
        (&timeline, newest, &[7; 44]),
    ] {
        assert!(!behind.hear_revision(timeline, revision, seal));
    }
    let begun = Instant::now();
    let compare = async |seconds| {
        behind.compare_revision(begun + Duration::from_secs(seconds)).await;
        behind.is_outdated()
    };
    assert!(!compare(0).await);
    assert!(behind.hear_revision(&timeline, newest, &seal));
    assert!(!compare(100).await, "it is behind since now");
    two.admin().await;
    assert!(!compare(159).await);
    assert!(compare(160).await);
    let refused = two.login(USERNAME, PASSWORD).await.unwrap_err();
    assert_eq!((refused.status(), refused.code()), (503, ErrorCode::ClusterNoLeader));
    // Whoever is logged in may read, and another controller is not held up.
    assert!(two.with_token(&token(&admin)).login().is_some());
    one.admin().await;

    cluster.set_cut(false).await;
    until("the change", || revision(two) >= newest).await;
    assert!(!compare(161).await);
    two.admin().await;
}

#[tokio::test]
async fn a_controller_that_has_everything_stands_down_for_nothing_that_was_lost() {
    let cluster = Cluster::new().await;
    let (one, two) = (&cluster.one, &cluster.two);
    until("the same", || revision(two) == revision(one)).await;
    let (ahead, behind) = (one.controller.auth(), two.controller.auth());
    let timeline = one.controller.kernel().snapshot().timeline().0.to_string();
    // Of changes before a restored backup, or of somebody who has the key.
    let seal = ahead.seal_revision(&timeline, u64::MAX).unwrap();
    assert!(behind.hear_revision(&timeline, u64::MAX, &seal));
    let begun = Instant::now();
    for seconds in [0, 60, 61, 600] {
        behind.compare_revision(begun + Duration::from_secs(seconds)).await;
        assert!(!behind.is_outdated(), "{seconds}");
    }
    two.admin().await;
}

#[tokio::test]
async fn a_controller_of_another_history_lets_nobody_in_while_others_write() {
    let cluster = Cluster::new().await;
    let (one, log) = (&cluster.one, cluster.shared.logs[0].connect());
    let kernel = one.controller.kernel();
    let now = log.head().await.unwrap().unwrap();
    let head = Head { timeline: Timeline("another".into()), ..now.head.clone() };
    let chunks = Box::pin(futures::stream::empty());
    let anew = Checkpoint { head, digest: LogDigest::default(), chunks };
    log.begin_anew(Some(now), anew, Vec::new()).await.unwrap();
    let alive = kernel.settings().store.alive().unwrap();
    let others_write = || {
        let own = kernel.settings().store.presence().run;
        alive.borrow().controllers.iter().any(|it| it.run != own && it.writes)
    };
    until("both have noticed", || kernel.settings().store.standing().has_diverged).await;
    until("both have told", || !others_write()).await;
    let begun = Instant::now();
    let outdated = async |seconds| {
        let auth = one.controller.auth();
        auth.compare_revision(begun + Duration::from_secs(seconds)).await;
        auth.is_outdated()
    };
    assert!(!outdated(0).await && !outdated(600).await, "nobody writes: all go on");
    one.admin().await;
    // A controller that shares what is there now, and writes on.
    let mut third = Presence { writes: true, ..Presence::of_new_run("third", "v1") };
    while !others_write() {
        third.said_at.0 += 1;
        log.announce(third.clone()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!outdated(601).await);
    assert!(outdated(661).await);
    let refused = one.login(USERNAME, PASSWORD).await.unwrap_err();
    assert_eq!((refused.status(), refused.code()), (503, ErrorCode::ClusterNoLeader));
}

fn revision(bed: &Bed) -> u64 {
    bed.controller.kernel().snapshot().revision().0
}

#[tokio::test]
async fn a_controller_that_is_alone_hears_of_no_other_one() {
    let bed = Bed::new().await;
    let auth = bed.controller.auth();
    assert_eq!(auth.seal_revision("timeline", 7), None);
    assert!(!auth.hear_revision("timeline", 7, b""));
}

#[tokio::test]
async fn a_controller_signs_nothing_while_its_clock_differs_from_those_of_most_others() {
    let cluster = Cluster::new().await;
    let (one, two) = (&cluster.one, &cluster.two);
    let (log, admin) = (cluster.shared.logs[0].connect(), one.admin().await);
    // Three more controllers, which agree with each other, and are the majority.
    let others = [0, 1, 2].map(|_| Presence::of_new_run("other", "v1"));
    let far_off = async |seconds: i64, expected: bool| {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            for other in &others {
                // Each announcement has another time.
                let left = deadline.saturating_duration_since(Instant::now());
                let said_at =
                    Timestamp(NOW.0 + seconds * 1_000 + i64::from(left.subsec_millis() % 10));
                log.announce(Presence { said_at, ..other.clone() }).await.unwrap();
            }
            [one, two].iter().for_each(|bed| bed.controller.auth().compare_clock());
            if [one, two].iter().all(|bed| bed.controller.auth().is_clock_far_off() == expected) {
                return;
            }
            assert!(Instant::now() < deadline, "{seconds} s are far off: {expected}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    far_off(30, true).await;
    let refused = one.login(USERNAME, PASSWORD).await.unwrap_err();
    assert_eq!((refused.status(), refused.code()), (503, ErrorCode::ClusterNoLeader));
    assert!(refused.to_string().contains("clock"), "{refused}");
    assert!(one.controller.auth().sign(&json!({"sub": "x"})).is_err());
    // Whoever is logged in reads and changes.
    one.create(&admin, "createService", json!({"name": "a", "encryptionRequired": false})).await;
    far_off(7, false).await;
    one.admin().await;
    one.controller.auth().sign(&json!({"sub": "x"})).unwrap();
    far_off(-11, true).await;
    far_off(0, false).await;
}
