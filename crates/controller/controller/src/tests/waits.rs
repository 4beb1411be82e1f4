//! Requests whose time is over: before or while their change is made, or while they search.

use std::task::Poll;

use futures::FutureExt as _;
use serde_json::json;
use weft_contract::{Api, ErrorCode};
use weft_model::entity::Service;
use weft_model::role::attributes;
use weft_model::{Base, Change, ChangeSet, Entity, Id, Timestamp};
use weft_store::InjectedFault;

use crate::testing::{Bed, to, until};

#[tokio::test]
async fn what_was_prepared_too_late_is_not_changed() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let before = bed.controller.kernel().snapshot().revision();
    // The schema of a config type is compiled in turn.
    let permits = bed.all_scans();
    let body = json!({"name": "late", "schema": {"type": "object"}});
    let call = to(Api::Management, "createConfigType", &[]).with_json(&body);
    let wait = call.wait.clone();
    let mut late = Box::pin(bed.controller.call(admin.clone(), call));
    assert!(futures::poll!(&mut late).is_pending());
    assert!(wait.end(), "its client is told that nothing is changed");
    drop(permits);
    let failure = late.await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (503, ErrorCode::Timeout));
    assert_eq!(bed.controller.kernel().snapshot().revision(), before);

    let call = to(Api::Management, "createConfigType", &[]).with_json(&body);
    let wait = call.wait.clone();
    bed.controller.call(admin, call).await.unwrap();
    assert!(!wait.end(), "a change was begun");
}

#[tokio::test]
async fn what_is_being_written_may_be_changed() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    bed.store.push(InjectedFault::Hangs);
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
    let permits = bed.all_scans();
    let mut late = Box::pin(bed.controller.call(admin.clone(), ask()));
    assert!(futures::poll!(&mut late).is_pending());
    drop(permits);
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
        let permits = bed.all_scans();
        let mut late = Box::pin(bed.controller.call(admin.clone(), call));
        assert!(futures::poll!(&mut late).is_pending(), "{operation}");
        drop(permits);
        assert_eq!(late.await.unwrap().status, 200);
        let short = to(Api::Management, operation, &[]);
        assert_eq!(bed.controller.call(admin.clone(), short).await.unwrap().status, 200);
    }
}

/// A filter that many services are tested by many conditions of, and that names attributes that it excepts.
fn heavy() -> String {
    let one = "(name contains \"z1\" and not (anyOf(roleAttributes) contains \"q1\"))";
    vec![one; 500].join(" or ")
}

/// Puts services into the network, each with an attribute of its own.
async fn put_services(bed: &Bed, count: u32) {
    let services = (0..count).map(|at| {
        Change::Put(Entity::from(Service {
            base: Base::new(Id::new(&format!("many-{at}")), Timestamp(1)),
            name: format!("many-{at}").as_str().into(),
            role_attributes: attributes(&[format!("own-{at}")]).unwrap(),
            ..Service::default()
        }))
    });
    let changes = ChangeSet::of(services.collect::<Vec<_>>());
    bed.controller.kernel().submit(move |_| Ok(changes.clone())).await.unwrap();
}

#[tokio::test]
async fn long_lists_leave_the_tasks_of_others_however_their_filters_and_orders_are_written() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    put_services(&bed, 1000).await;
    let permits = bed.all_scans();
    let list = |filter: &str, sort: &str| {
        let call = to(Api::Management, "listServices", &[]);
        let call = call.with_query("filter", filter).with_query("sort", sort);
        Box::pin(bed.controller.call(admin.clone(), call))
    };
    let excepting = vec!["(not (anyOf(roleAttributes) contains \"q1\"))"; 500].join(" and ");
    let mut long = [
        list(&heavy(), ""),
        // Indexes answer all of it.
        list(&excepting, ""),
        list("anyOf(roleAttributes) != \"q1\" or createdAt = null", ""),
        list("limit none", "updatedAt"),
        list("limit none", "name"),
    ];
    for (at, list) in long.iter_mut().enumerate() {
        if let Poll::Ready(done) = futures::poll!(list) {
            panic!("list {at} did not wait for its turn: {done:?}");
        }
    }
    for short in ["", "name = \"many-7\"", "anyOf(roleAttributes) = \"own-7\""] {
        let done = list(short, "").now_or_never();
        assert_eq!(done.expect(short).unwrap().status, 200);
    }
    drop(permits);
    for list in long {
        assert_eq!(list.await.unwrap().status, 200);
    }
}
