//! The traces of sessions that a reader of the database finds.

use std::sync::Arc;

use serde_json::json;
use weft_contract::Api;
use weft_identity::SealKey;
use weft_model::entity::ApiSession;
use weft_store::{Embedded, Options, Store};

use crate::testing::{Bed, PASSWORD, USERNAME, bare_settings, to, until};
use crate::{Caller, Controller, Origin};

#[tokio::test]
async fn no_token_of_a_session_can_be_read_out_of_a_database_or_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let (file, snapshot) = (folder.path().join("controller.db"), folder.path().join("snapshot"));
    let store: Arc<dyn Store> = Arc::new(Embedded::open(&file, Options::default()).unwrap());
    let controller = Controller::start(bare_settings(Arc::clone(&store))).await.unwrap();
    controller.init_admin("Default Admin", USERNAME, PASSWORD).await.unwrap();
    let mut tokens = Vec::new();
    for api in [Api::Client, Api::Management] {
        let call = to(api, "authenticate", &[])
            .with_query("method", "password")
            .with_json(&json!({"username": USERNAME, "password": PASSWORD}));
        let reply = controller.call(Caller::nobody(Origin::default()), call).await.unwrap();
        tokens.push(reply.data()["token"].as_str().unwrap().to_owned());
    }
    let id = controller.auth().sessions().all()[0].base.id.clone();
    store.backup(&snapshot).await.unwrap();
    store.close().await.unwrap();
    for path in [file, snapshot] {
        let bytes = std::fs::read(&path).unwrap();
        let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(has(id.as_str()), "the sessions are in it");
        for token in &tokens {
            assert!(!has(token), "{}", path.display());
            assert!(!has(&token.replace('-', "")));
        }
    }
}

/// The row of a session in the form of an earlier release.
fn of_before(session: &ApiSession, token: &str) -> ApiSession {
    ApiSession {
        former_token: token.into(),
        token_hash: "".into(),
        sealed_token: bytes::Bytes::new(),
        credential: "".into(),
        is_of_client: false,
        ..session.clone()
    }
}

#[tokio::test]
async fn sessions_of_an_earlier_release_go_on_and_are_not_in_clear_any_more() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (_, chain) = bed.enroll(&admin, "laptop").await;
    let client = bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let (client, operator) = (client.as_str().unwrap(), &admin.login().unwrap().session.token);
    let now = bed.controller.kernel().now();
    for token in [client, operator] {
        let session = bed.controller.auth().sessions().by_token(token, now).unwrap();
        bed.store.live().put(of_before(&session, token).into());
    }
    let again = bed.restarted().await;
    assert!(again.with_token(client).login().is_some());
    assert!(again.with_token(operator).is_admin());
    let told = again.controller.auth().legacy_sessions();
    assert_eq!(told.iter().map(|it| &*it.token).collect::<Vec<_>>(), [client]);
    let mut stored = Vec::new();
    again
        .store
        .live()
        .load(&mut |entity| stored.extend(entity.get::<ApiSession>().cloned()))
        .unwrap();
    assert!(stored.len() == 2 && stored.iter().all(|it| it.former_token.is_empty()));
    assert!(stored.iter().all(|it| !it.token_hash.is_empty() && !it.credential.is_empty()));
}

#[tokio::test]
async fn sessions_that_were_sealed_with_another_key_end() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (_, chain) = bed.enroll(&admin, "laptop").await;
    let client = bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let operator = &admin.login().unwrap().session.token;
    let other = Arc::new(SealKey::random().unwrap());
    let again = bed.restarted_with(|settings| settings.session_key = Some(other)).await;
    assert!(again.with_token(client.as_str().unwrap()).login().is_none());
    assert!(again.with_token(operator).is_admin(), "nobody needs its token in clear");
    until("it is gone", || again.controller.auth().sessions().all().len() == 1).await;
}

#[tokio::test]
async fn nobody_reads_the_token_of_anothers_session() {
    let bed = Bed::new().await;
    let (one, other) = (bed.admin().await, bed.admin().await);
    let all = bed.list(&one, "listAPISessions", "").await;
    let tokens: Vec<&str> = all.iter().map(|it| it["token"].as_str().unwrap()).collect();
    let own = &*one.login().unwrap().session.token;
    assert!(tokens.len() == 2 && tokens.contains(&own) && tokens.contains(&""), "{tokens:?}");
    assert!(!tokens.contains(&&*other.login().unwrap().session.token));
}
