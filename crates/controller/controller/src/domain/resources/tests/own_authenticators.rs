//! Changes of the caller's own authenticators that are refused, or that meet other changes.

use serde_json::{Value, json};
use weft_contract::ErrorCode;
use weft_kernel::convert::MAX_TAGS;
use weft_model::Id;
use weft_model::entity::{ApiSession, Authenticator};

use crate::Caller;
use crate::testing::{Bed, csr};

#[tokio::test]
async fn a_replaced_certificate_gets_no_other() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (_, chain) = bed.enroll(&admin, "laptop").await;
    let data = bed.login_with(&chain).await.unwrap().data();
    let me = bed.with_token(data["token"].as_str().unwrap());
    let id = Id::new(data["authenticatorId"].as_str().unwrap());
    let (replaced, system) = (id.clone(), Caller::system());
    // The extension passes its first check before the replacement is decided.
    let replace = bed.controller.kernel().decide(&system, move |decision| {
        let mut record = (**decision.require::<Authenticator>("id", &replaced)?).clone();
        record.cert.as_mut().unwrap().fingerprint = "another".into();
        decision.put(record);
        Ok(())
    });
    let body = json!({"clientCertCsr": csr("laptop")});
    let path = [id.as_str()];
    let extend = bed.client(&me, "extendCurrentIdentityAuthenticator", &path, body);
    let (replaced, extended) = futures::future::join(replace, extend).await;
    replaced.unwrap();
    assert_eq!(extended.unwrap_err().code(), ErrorCode::Unauthorized);
    let snapshot = bed.controller.kernel().snapshot();
    let cert = snapshot.get::<Authenticator>(&id).unwrap().cert.as_ref().unwrap();
    assert!(cert.unverified_fingerprint.is_empty() && cert.unverified_cert_pem.is_empty());
}

/// An identity that `admin` makes: its id, the id of its authenticator, and a login with the password
/// `erstes`.
async fn anna(bed: &Bed, admin: &Caller) -> (String, String, Caller) {
    let body = json!({"name": "anna", "type": "User", "isAdmin": false});
    let identity = bed.create(admin, "createIdentity", body).await;
    let body = json!({"identityId": identity, "method": "updb", "username": "anna",
        "password": "erstes"});
    let updb = bed.create(admin, "createAuthenticator", body).await;
    let anna = bed.login("anna", "erstes").await.unwrap();
    (identity, updb, anna)
}

#[tokio::test]
async fn a_refused_password_leaves_the_session_as_it_was() {
    let bed = Bed::new().await;
    let (_, updb, anna) = anna(&bed, &bed.admin().await).await;
    let session = || -> std::sync::Arc<ApiSession> {
        bed.controller.auth().sessions().by_id(&anna.login().unwrap().session.id).unwrap()
    };
    let is_up = || bed.with_token(&anna.login().unwrap().session.token).login().is_some();
    let operation = "patchCurrentIdentityAuthenticator";
    let body = json!({"currentPassword": "erstes", "password": "zweites"});
    bed.client(&anna, operation, &[&updb], body).await.unwrap();
    assert!(is_up());
    // The name belongs to the administrator.
    let body = json!({"currentPassword": "zweites", "password": "drittes", "username": "admin"});
    bed.client(&anna, operation, &[&updb], body).await.unwrap_err();
    assert!(is_up(), "the session set the current password itself");
    assert_eq!(&*session().next_credential, "");
    let body = json!({"currentPassword": "zweites", "password": "viertes"});
    bed.client(&anna, operation, &[&updb], body).await.unwrap();
    assert!(is_up());
}

#[tokio::test]
async fn tags_have_a_limit_and_what_changes_nothing_is_not_written() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (identity, updb, anna) = anna(&bed, &admin).await;
    // The JSON around the text of the only tag has 8 bytes.
    let with = |length: usize| json!({"t": "x".repeat(length - 8)});
    let change = async |tags: Value| {
        let body = json!({"currentPassword": "erstes", "username": "anna", "tags": tags});
        bed.client(&anna, "patchCurrentIdentityAuthenticator", &[&updb], body).await
    };
    let revision = || bed.controller.kernel().snapshot().revision().0;
    let begun = revision();
    let refused = change(with(MAX_TAGS + 1)).await.unwrap_err();
    assert_eq!(refused.status(), 400);
    let cause = refused.cause().unwrap();
    assert_eq!((cause.field.as_deref(), revision()), (Some("tags"), begun));
    change(with(MAX_TAGS)).await.unwrap();
    assert_eq!(revision(), begun + 1);
    change(with(MAX_TAGS)).await.unwrap();
    assert_eq!(revision(), begun + 1, "nothing has changed");
    change(json!({})).await.unwrap();
    assert_eq!(revision(), begun + 2);

    // Of any entity.
    for (tags, is_good) in [(with(MAX_TAGS), true), (with(MAX_TAGS + 1), false)] {
        let body = json!({"tags": tags});
        let changed = bed.manage(&admin, "patchIdentity", &[&identity], body).await;
        assert_eq!(changed.is_ok(), is_good);
    }
}
