mod ends;
mod many;
mod rolled;
mod stored;

use std::thread::yield_now;
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::TryRecvError;
use weft_auth::sessions::{CERTIFICATES, ClientDescription, SessionNotice};
use weft_contract::Api;
use weft_contract::resource::client::SdkInfo;
use weft_kernel::online::RouterFacts;
use weft_model::entity::{ApiSession, PolicyType, ServiceSession};
use weft_model::{Base, Id};
use weft_store::Store as _;

use crate::testing::{Bed, csr, to, until};
use crate::{Caller, Origin};

/// A client that logged in with its certificate, and the id of its session.
async fn laptop(bed: &Bed, admin: &Caller) -> (Caller, String) {
    let (_, chain) = bed.enroll(admin, "laptop").await;
    let data = bed.login_with(&chain).await.unwrap().data();
    let id = data["id"].as_str().unwrap().to_owned();
    (bed.with_token(data["token"].as_str().unwrap()), id)
}

#[tokio::test]
async fn a_deleted_authenticator_ends_the_sessions_made_with_it() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (identity, chain) = bed.enroll(&admin, "laptop").await;
    let by_certificate = bed.login_with(&chain).await.unwrap().data();
    let body = json!({"method": "updb", "identityId": identity, "username": "anna",
        "password": "geheim!"});
    let updb = bed.create(&admin, "createAuthenticator", body).await;
    let by_password = bed.login("anna", "geheim!").await.unwrap();

    let authenticator = by_certificate["authenticatorId"].as_str().unwrap();
    bed.manage(&admin, "deleteAuthenticator", &[authenticator], Value::Null).await.unwrap();
    let token = by_certificate["token"].as_str().unwrap();
    until("the session of the certificate ends", || bed.with_token(token).login().is_none()).await;
    let other = &by_password.login().unwrap().session.token;
    assert!(bed.with_token(other).login().is_some(), "made with another authenticator");
    let told = bed.controller.auth().legacy_sessions();
    let fingerprint = chain[0].fingerprint();
    assert!(told.iter().all(|session| session.fingerprints.iter().all(|it| it != fingerprint)));

    // Re-enrolling an authenticator ends its sessions, too.
    let body = json!({"expiresAt": "2026-01-03T00:00:00Z"});
    bed.manage(&admin, "reEnrollAuthenticator", &[&updb], body).await.unwrap();
    until("the session of the password ends", || bed.with_token(other).login().is_none()).await;
}

#[tokio::test]
async fn config_types_of_a_session_count_once() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "kind", "schema": {}});
    let kind = bed.create(&admin, "createConfigType", body).await;
    let (_, chain) = bed.enroll(&admin, "laptop").await;
    let login = |types: Value| {
        let origin = Origin { certificates: chain.clone(), ..Origin::default() };
        let call = to(Api::Client, "authenticate", &[])
            .with_query("method", "cert")
            .with_json(&json!({"configTypes": types}));
        bed.controller.call(Caller::nobody(origin), call)
    };
    let repeated = format!("nope,{}", "kind,".repeat(2000));
    let session = login(json!([repeated, kind, "kind"])).await.unwrap().data();
    assert_eq!(session["configTypes"], json!([kind]));
    let session = login(json!(["kind", "all", "kind"])).await.unwrap().data();
    assert_eq!(session["configTypes"], json!(["all"]));
}

#[tokio::test]
async fn a_session_has_so_many_certificates_and_the_oldest_goes() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (client, id) = laptop(&bed, &admin).await;
    let login_leaf = bed.controller.auth().sessions().by_id(&id).unwrap().certificates[0].clone();
    let request = csr("x");
    for _ in 0..20 {
        bed.clock.advance(Duration::from_secs(1));
        let body = json!({"csr": request});
        bed.client(&client, "createCurrentApiSessionCertificate", &[], body).await.unwrap();
    }
    let kept = bed.controller.auth().sessions().by_id(&id).unwrap().certificates.clone();
    assert_eq!(kept.len(), CERTIFICATES);
    assert_eq!(kept[0], login_leaf, "the certificate of the login is not crowded out");
    assert!(kept.iter().is_sorted_by_key(|certificate| certificate.created_at));
    assert_eq!(kept.last().unwrap().created_at, bed.controller.kernel().now());
}

#[tokio::test]
async fn ghsa_6v5r_p2wr_q492_certificates_of_anothers_session_are_not_there_for_anybody() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (client, _) = laptop(&bed, &admin).await;
    let (_, chain) = bed.enroll(&admin, "thief").await;
    let login = bed.login_with(&chain).await.unwrap().data();
    let thief = bed.with_token(login["token"].as_str().unwrap());
    let body = json!({"csr": csr("x")});
    let made = bed.client(&client, "createCurrentApiSessionCertificate", &[], body).await.unwrap();
    let id = made["id"].as_str().unwrap();
    let list = async |caller: &Caller| {
        let all = bed.client(caller, "listCurrentApiSessionCertificates", &[], json!(null)).await;
        let ids = all.unwrap().as_array().unwrap().clone();
        ids.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(list(&client).await.iter().any(|one| one == id));
    for other in [&thief, &admin] {
        assert!(list(other).await.iter().all(|one| one != id));
        for operation in
            ["detailCurrentApiSessionCertificate", "deleteCurrentApiSessionCertificate"]
        {
            let answer = bed.client(other, operation, &[id], json!(null)).await;
            assert!(answer.is_err(), "{operation}");
        }
    }
    assert!(list(&client).await.iter().any(|one| one == id), "it is still there");
}

fn login(bed: &Bed) -> ApiSession {
    let now = bed.controller.kernel().now();
    let id = bed.controller.kernel().ids().ordered(now);
    ApiSession {
        base: Base::new(id, now),
        identity_id: Id::new("anna"),
        last_activity_at: now,
        ..ApiSession::default()
    }
}

fn dial(bed: &Bed, login: &ApiSession) -> ServiceSession {
    ServiceSession {
        base: Base::new(
            bed.controller.kernel().ids().ordered(bed.controller.kernel().now()),
            login.base.created_at,
        ),
        api_session_id: login.base.id.clone(),
        identity_id: login.identity_id.clone(),
        service_id: Id::new("web"),
        session_type: PolicyType::Dial,
        token: "".into(),
    }
}

#[tokio::test]
async fn the_store_and_routers_see_the_end_of_a_session_last() {
    let bed = Bed::new().await;
    let sessions = bed.controller.auth().sessions();
    let now = bed.controller.kernel().now();
    for _ in 0..200 {
        let mut told = sessions.subscribe();
        let session = sessions.open(login(&bed), "one", |_| true).unwrap();
        let id = &session.base.id;
        std::thread::scope(|scope| {
            // With one core, the other tasks must get a turn.
            scope.spawn(|| {
                let change = |it: &mut ApiSession| it.is_mfa_required ^= true;
                while sessions.change(id, now, change).is_some() {
                    yield_now()
                }
            });
            scope.spawn(|| {
                while sessions.service_or(dial(&bed, &session)).is_ok() {
                    yield_now()
                }
            });
            scope.spawn(|| sessions.end(std::slice::from_ref(id)));
        });
        let mut last = None;
        loop {
            match told.try_next() {
                Ok(notice) => last = Some(notice),
                Err(TryRecvError::Lagged(_)) => {}
                Err(_) => break,
            }
        }
        assert!(matches!(last, Some(SessionNotice::Removed(_))), "{last:?}");
        let mut kept = Vec::new();
        bed.store.live().load(&mut |entity| kept.push(entity)).unwrap();
        assert!(kept.is_empty(), "{kept:?}");
    }
}

#[tokio::test]
async fn service_sessions_that_are_asked_for_at_once_are_one() {
    let bed = Bed::new().await;
    let sessions = bed.controller.auth().sessions();
    let session = sessions.open(login(&bed), "one", |_| true).unwrap();
    let ask = || sessions.service_or(dial(&bed, &session)).unwrap().base.id.clone();
    let ids: Vec<Id> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let bind = ServiceSession { session_type: PolicyType::Bind, ..dial(&bed, &session) };
    assert_ne!(sessions.service_or(bind).unwrap().base.id, ids[0]);
    sessions.end(std::slice::from_ref(&session.base.id));
    assert!(sessions.service_or(dial(&bed, &session)).is_err(), "the login has ended");
}

#[tokio::test]
async fn what_was_deleted_in_a_lost_batch_is_forgotten() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (kept, _) = bed.enroll(&admin, "laptop").await;
    let (sessions, online) = (bed.controller.auth().sessions(), bed.controller.kernel().online());
    let now = bed.controller.kernel().now();
    // The identity "gone" has state and no entity, as if the follower had missed its deletion.
    let ids = [Id::new(&kept), Id::new("gone")];
    let router = Id::new("er1");
    online.put_router(&router, 1, RouterFacts::default());
    let (space, note) = described().note();
    for id in &ids {
        online.put_identity(id, (&router, 1), true, now);
        bed.store.live().put_note(space, id.as_str(), Some(note.clone().into()));
    }
    let known = |id: &Id| {
        let is_online = online.connections(now).iter().any(|(known, ..)| known == id);
        let is_told = sessions.about_identity(id.as_str()).sdk_info == described().sdk;
        (is_online, is_told)
    };
    assert_eq!((known(&ids[0]), known(&ids[1])), ((true, true), (true, true)));
    let resync = bed.controller.kernel().writer().alone(Box::new(|published| {
        async move { Ok(Some(weft_model::Snapshot::clone(&published))) }.boxed()
    }));
    resync.await.unwrap();
    until("it is forgotten", || known(&ids[1]) == (false, false)).await;
    assert_eq!(known(&ids[0]), (true, true));
}

fn described() -> ClientDescription {
    let sdk = SdkInfo { app_id: "app".into(), ..SdkInfo::default() };
    ClientDescription { sdk, ..ClientDescription::default() }
}

#[tokio::test]
async fn a_session_that_contradicts_another_one_is_refused() {
    let bed = Bed::new().await;
    let sessions = bed.controller.auth().sessions();
    let first = sessions.open(login(&bed), "one", |_| true).unwrap();
    let mut told = sessions.subscribe();
    let refused = sessions.open(login(&bed), "one", |_| true).unwrap_err();
    assert_eq!(refused.status(), 500);
    assert!(told.try_next().is_err(), "no router is told");
    assert_eq!(sessions.all(), [first]);
    let mut kept = 0;
    bed.store.live().load(&mut |_| kept += 1).unwrap();
    assert_eq!(kept, 1);
}
