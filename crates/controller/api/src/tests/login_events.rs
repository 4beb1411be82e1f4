//! Events of logins and sessions, in both protocols.

use reqwest::Method;
use serde_json::json;
use weft_kernel::events::{ApiSessionEvent, Event, Heard, Listener, SessionChange};
use weft_model::Id;

use super::oidc::{ACCESS, Program, REFRESH, claims, text, with_provider};
use super::{Bed, CLIENT, LONG, PASSWORD, USERNAME, send};
use crate::ApiLimits;

async fn next(listener: &mut Listener) -> Event {
    match tokio::time::timeout(LONG, listener.next()).await.unwrap() {
        Some(Heard::Event(event)) => event,
        other => panic!("{other:?}"),
    }
}

/// The next event, which is one of an API session.
async fn session(listener: &mut Listener) -> ApiSessionEvent {
    match next(listener).await {
        Event::ApiSession(event) => (*event).clone(),
        other => panic!("{other:?}"),
    }
}

/// The failure of the next event, which is an attempt with a password; none if it succeeded.
async fn attempt(listener: &mut Listener, identity: &str) -> Option<String> {
    match next(listener).await {
        Event::Authentication(event) => {
            assert_eq!((event.method, event.identity.as_str()), ("updb", identity));
            assert_eq!((event.policy.as_str(), event.signer.as_str()), ("default", ""));
            assert!(!event.authenticator.is_empty() && event.remote.starts_with("127.0.0.1:"));
            event.failure.clone()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_session_by_tokens_is_told_from_its_login_to_its_end() {
    let bed = Bed::with(with_provider(), ApiLimits::default()).await;
    let program = Program::new(&bed, None);
    let mut listener = bed.controller.kernel().events().listen();
    let tokens = program.by_password().await;
    let own = claims(text(&tokens, "access_token"));
    let (id, identity) = (Id::new(text(&own, "z_asid")), text(&own, "sub").to_owned());
    assert_eq!(attempt(&mut listener, &identity).await, None);
    let began = session(&mut listener).await;
    assert!(began.address.starts_with("127.0.0.1:"));
    let told = |event: ApiSessionEvent| {
        assert!(event.is_by_tokens && !event.cert_generated);
        assert_eq!((&event.session, event.identity.as_str()), (&id, identity.as_str()));
        event.change
    };
    assert_eq!(told(began), SessionChange::Created);
    let next = program.refresh(text(&tokens, "refresh_token")).await.json();
    assert_eq!(told(session(&mut listener).await), SessionChange::Refreshed);
    let access = text(&next, "access_token");
    program.exchange(access, ACCESS, ACCESS).await;
    assert_eq!(told(session(&mut listener).await), SessionChange::Exchanged);
    let refresh = text(&next, "refresh_token");
    program.exchange(refresh, REFRESH, REFRESH).await;
    assert_eq!(told(session(&mut listener).await), SessionChange::Refreshed);
    let end = program.request(Method::DELETE, "/current-api-session").bearer_auth(access);
    assert_eq!(send(end).await.status, 200);
    assert_eq!(told(session(&mut listener).await), SessionChange::Deleted);
    // A wrong password, in both protocols; and many of a source are told so often.
    let login = program.begin("&method=password").await;
    let body = json!({"id": login, "username": USERNAME, "password": "wrong"});
    program.step("/oidc/login/password", &body).await;
    assert!(attempt(&mut listener, &identity).await.is_some());
    bed.login_answer(CLIENT, USERNAME, "wrong").await;
    assert!(attempt(&mut listener, &identity).await.is_some());
    // A session with an opaque token.
    bed.login_answer(CLIENT, USERNAME, PASSWORD).await;
    assert_eq!(attempt(&mut listener, &identity).await, None);
    let began = session(&mut listener).await;
    assert_eq!((began.change, began.is_by_tokens), (SessionChange::Created, false));
    assert_eq!(began.address, "127.0.0.1");
}
