//! Requests whose time is over before or while their change is made.

use serde_json::json;
use weft_contract::{Api, ErrorCode};
use weft_store::Fault;

use crate::testing::{Bed, to, until};

#[tokio::test]
async fn what_was_prepared_too_late_is_not_changed() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let before = bed.controller.snapshot().revision();
    // The schema of a config type is compiled in turn.
    let turns = bed.all_scans();
    let body = json!({"name": "late", "schema": {"type": "object"}});
    let call = to(Api::Management, "createConfigType", &[]).with_json(&body);
    let wait = call.wait.clone();
    let mut late = Box::pin(bed.controller.call(admin.clone(), call));
    assert!(futures::poll!(&mut late).is_pending());
    assert!(wait.end(), "its client is told that nothing is changed");
    drop(turns);
    let failure = late.await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (503, ErrorCode::Timeout));
    assert_eq!(bed.controller.snapshot().revision(), before);

    let call = to(Api::Management, "createConfigType", &[]).with_json(&body);
    let wait = call.wait.clone();
    bed.controller.call(admin, call).await.unwrap();
    assert!(!wait.end(), "a change was begun");
}

#[tokio::test]
async fn what_is_being_written_may_be_changed() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    bed.store.push(Fault::Hangs);
    let call = to(Api::Management, "createService", &[]);
    let call = call.with_json(&json!({"name": "slow", "encryptionRequired": true}));
    let wait = call.wait.clone();
    let mut slow = Box::pin(bed.controller.call(admin, call));
    let store = bed.store.clone();
    let written = until("the change is written", move || store.left() == 0);
    tokio::select! {
        done = &mut slow => panic!("the store hangs: {done:?}"),
        () = written => {}
    }
    assert!(!wait.end(), "its client is told that the change may be made");
}

#[tokio::test]
async fn no_snapshot_is_written_that_nobody_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let bed = Bed::with(|settings| settings.snapshot_folder = Some(path)).await;
    let admin = bed.admin().await;
    let ask = || {
        let call = to(Api::Fabric, "createDatabaseSnapshotWithPath", &[]);
        call.with_json(&json!({"path": "a.db"}))
    };
    let call = ask();
    assert!(call.wait.end());
    let failure = bed.controller.call(admin.clone(), call).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::Timeout);
    assert!(!folder.path().join("a.db").exists());
    bed.controller.call(admin, ask()).await.unwrap();
    assert!(folder.path().join("a.db").exists());
}
