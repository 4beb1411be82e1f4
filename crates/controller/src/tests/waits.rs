//! Requests whose time is over: before or while their change is made, or while they search.

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

#[tokio::test]
async fn a_search_that_nobody_waits_for_is_given_up() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "all", "semantic": "AnyOf", "type": "Dial",
        "serviceRoles": ["#all"], "identityRoles": ["#all"]});
    bed.create(&admin, "createServicePolicy", body).await;
    let ask = || {
        let filter = "isEmpty(from identities where tags.a contains \"x\")";
        to(Api::Management, "listServicePolicies", &[]).with_query("filter", filter)
    };
    let count = bed.all_scans().len();
    let call = ask();
    assert!(call.wait.end());
    let failure = bed.controller.call(admin.clone(), call).await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (503, ErrorCode::Timeout));
    until("its turn is free again", || bed.all_scans().len() == count).await;

    // A filter that follows a link may visit a whole table for each policy: it waits for its turn.
    let turns = bed.all_scans();
    let mut late = Box::pin(bed.controller.call(admin.clone(), ask()));
    assert!(futures::poll!(&mut late).is_pending());
    drop(turns);
    assert_eq!(late.await.unwrap().data()[0]["name"], "all");
}

#[tokio::test]
async fn lists_of_attributes_that_take_long_wait_for_their_turn() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let roles: Vec<String> = (0..20).map(|at| format!("role-{at}")).collect();
    let body = json!({"name": "web", "encryptionRequired": true, "roleAttributes": roles});
    bed.create(&admin, "createService", body).await;
    let heavy = vec!["id contains \"x\""; 1000].join(" or ");
    for operation in ["listServiceRoleAttributes", "listServiceRoleAttributeUsage"] {
        let call = to(Api::Management, operation, &[]).with_query("filter", &heavy);
        let turns = bed.all_scans();
        let mut late = Box::pin(bed.controller.call(admin.clone(), call));
        assert!(futures::poll!(&mut late).is_pending(), "{operation}");
        drop(turns);
        assert_eq!(late.await.unwrap().status, 200);
        let short = to(Api::Management, operation, &[]);
        assert_eq!(bed.controller.call(admin.clone(), short).await.unwrap().status, 200);
    }
}
