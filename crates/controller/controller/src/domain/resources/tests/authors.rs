//! Records of the author and the reason of a change; and that no new entity replaces an existing
//! one.

use std::sync::Arc;

use serde_json::json;
use weft_contract::Api;
use weft_model::entity::Service;
use weft_model::{AuthorKind, Base, ChangeSet, Id};

use super::NONE;
use crate::Notice;
use crate::testing::{Bed, to};

/// The change set that an operation made.
async fn change_of(bed: &Bed, work: impl Future<Output = ()>) -> Arc<ChangeSet> {
    let (_, mut notices) = bed.controller.kernel().subscribe();
    work.await;
    match notices.next().await {
        Some(Notice::Change(published)) => Arc::clone(published.changes.last().unwrap()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_change_says_who_made_it_and_why() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "phone", "type": "Device", "isAdmin": false,
        "enrollment": {"ott": true}});
    let mut id = String::new();
    let made = change_of(&bed, async { id = bed.create(&admin, "createIdentity", body).await });
    let made = made.await;
    let login = admin.login().unwrap();
    assert_eq!(
        (made.author.kind, made.author.id.as_str()),
        (AuthorKind::Identity, &*login.identity)
    );
    let cause = &made.cause;
    let told = [&cause.operation, &cause.source_type, &cause.source_auth, &cause.method];
    assert_eq!(told.map(|it| &**it), ["createIdentity", "rest", "edge", "POST"]);

    let shown = bed.manage(&admin, "detailIdentity", &[&id], NONE).await.unwrap();
    let token = shown["enrollment"]["ott"]["token"].as_str().unwrap().to_owned();
    let used = change_of(&bed, async { drop(bed.use_ott(&token, &id).await.unwrap()) }).await;
    assert_eq!(used.author.kind, AuthorKind::Unattributed);
    assert_eq!((&*used.cause.operation, &*used.cause.source_type), ("enroll", "rest"));

    let policy = json!({"primary": {"updb": {"maxAttempts": 1}}});
    bed.manage(&admin, "patchAuthPolicy", &["default"], policy).await.unwrap();
    let body = json!({"identityId": id, "method": "updb", "username": "phone",
        "password": "richtig"});
    bed.create(&admin, "createAuthenticator", body).await;
    let locked = async { assert!(bed.login("phone", "falsch").await.is_err()) };
    let locked = change_of(&bed, locked).await;
    assert_eq!(locked.author.kind, AuthorKind::Controller);
    assert_eq!((&*locked.cause.operation, &*locked.cause.source_type), ("lockout", "controller"));

    let call = to(Api::Fabric, "createService", &[]).with_json(&json!({"name": "fabric"}));
    let fabric = async { drop(bed.controller.call(admin.clone(), call).await.unwrap()) };
    assert_eq!(&*change_of(&bed, fabric).await.cause.source_auth, "fabric");
    let network = json!({"network": {"services": [{"name": "documented"}]}});
    let call = to(Api::Weft, "applyChange", &[]).with_json(&network);
    let applied = async { drop(bed.controller.call(admin.clone(), call).await.unwrap()) };
    let applied = change_of(&bed, applied).await;
    assert_eq!(
        (applied.author.kind, &*applied.cause.operation),
        (AuthorKind::Identity, "applyChange")
    );
}

#[tokio::test]
async fn no_create_takes_the_place_of_what_exists() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "web", "encryptionRequired": true});
    let id = Id::new(&bed.create(&admin, "createService", body).await);
    bed.clock.advance(std::time::Duration::from_secs(1));
    // As if the same id had been generated twice.
    let again = id.clone();
    let done = bed.controller.kernel().decide(&admin, move |decision| {
        decision.put(Service {
            base: Base::new(again.clone(), decision.now()),
            name: "other".into(),
            ..Service::default()
        });
        Ok(())
    });
    let failure = done.await.unwrap_err();
    assert_eq!(failure.field_name(), Some("id"));
    let snapshot = bed.controller.kernel().snapshot();
    assert_eq!(&*snapshot.get::<Service>(&id).unwrap().name, "web");
}
