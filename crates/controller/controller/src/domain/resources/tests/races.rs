//! Many concurrent changes of one entity have one order, and no acknowledged change is lost.

use futures::future::join_all;
use serde_json::{Value, json};
use weft_contract::ErrorCode;

use super::NONE;
use crate::testing::Bed;

fn check() -> Value {
    json!({"name": "check", "typeId": "MFA"})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn patches_of_different_members_all_count() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let id = bed.create(&admin, "createPostureCheck", check()).await;
    let patches = [
        json!({"typeId": "MFA", "name": "renamed"}),
        json!({"typeId": "MFA", "timeoutSeconds": 60}),
        json!({"typeId": "MFA", "promptOnWake": true}),
        json!({"typeId": "MFA", "promptOnUnlock": true}),
        json!({"typeId": "MFA", "ignoreLegacyEndpoints": true}),
        json!({"typeId": "MFA", "roleAttributes": ["a"]}),
        json!({"typeId": "MFA", "tags": {"a": "b"}}),
    ];
    let path = [id.as_str()];
    let all =
        patches.iter().map(|patch| bed.manage(&admin, "patchPostureCheck", &path, patch.clone()));
    join_all(all).await.into_iter().for_each(|done| drop(done.unwrap()));
    let now = bed.manage(&admin, "detailPostureCheck", &path, NONE).await.unwrap();
    for patch in &patches {
        for (member, value) in patch.as_object().unwrap() {
            assert_eq!(&now[member], value, "{member}");
        }
    }
    assert_eq!(now["version"], 1 + patches.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replaces_leave_one_of_them_whole() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let id = bed.create(&admin, "createPostureCheck", check()).await;
    let path = [id.as_str()];
    let bodies: Vec<Value> = (0..20)
        .map(|at| json!({"name": format!("n{at}"), "timeoutSeconds": at, "tags": {"at": at}}))
        .collect();
    let all =
        bodies.iter().map(|body| bed.manage(&admin, "updatePostureCheck", &path, body.clone()));
    join_all(all).await.into_iter().for_each(|done| drop(done.unwrap()));
    let now = bed.manage(&admin, "detailPostureCheck", &path, NONE).await.unwrap();
    let found = (&now["name"], &now["timeoutSeconds"], &now["tags"]);
    let is_one = |body: &Value| found == (&body["name"], &body["timeoutSeconds"], &body["tags"]);
    assert!(bodies.iter().any(is_one), "{now}");
    assert_eq!(now["version"], 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_comes_back_after_a_delete() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for round in 0..10 {
        let mut body = check();
        body["name"] = json!(format!("check{round}"));
        let id = bed.create(&admin, "createPostureCheck", body).await;
        let path = [id.as_str()];
        let change = |at: usize| {
            let (bed, admin) = (&bed, &admin);
            async move {
                match at {
                    4 => bed.manage(admin, "deletePostureCheck", &path, NONE).await,
                    _ => {
                        let body = json!({"typeId": "MFA", "timeoutSeconds": at});
                        bed.manage(admin, "patchPostureCheck", &path, body).await
                    }
                }
            }
        };
        for done in join_all((0..8).map(change)).await {
            if let Err(failure) = done {
                assert_eq!(failure.code(), ErrorCode::NotFound);
            }
        }
        let gone = bed.manage(&admin, "detailPostureCheck", &path, NONE).await.unwrap_err();
        assert_eq!(gone.code(), ErrorCode::NotFound);
    }
    assert!(bed.list(&admin, "listPostureChecks", "").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_with_one_name_one_is_made() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let all = (0..16).map(|_| bed.manage(&admin, "createPostureCheck", &[], check()));
    let done = join_all(all).await;
    let (made, refused): (Vec<_>, Vec<_>) = done.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (1, 15));
    for failure in refused {
        assert_eq!(failure.unwrap_err().field_name(), Some("name"));
    }
}
