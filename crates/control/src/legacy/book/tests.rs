//! Ends of many sessions, and the number of routers.

use weft_kernel::Caller;
use weft_model::entity::{ApiSession, SessionCertificate};
use weft_model::{Base, Roles, Timestamp};

use super::*;
use crate::testing::auth;

/// Identities; one of them has not many sessions.
const IDENTITIES: usize = 32;

fn identity(number: usize) -> Id {
    Id::new(&format!("laptop{}", number % IDENTITIES))
}

/// Enters identities and a router that they may use.
async fn enter(auth: &Auth) {
    let base = |id: &str| Base::new(Id::new(id), auth.now());
    let identities = (0..IDENTITIES).map(|number| {
        let id = identity(number);
        Identity { base: base(id.as_str()), name: id.as_str().into(), ..Identity::default() }
    });
    let identities: Vec<Identity> = identities.collect();
    let (of_er1, name) = (base("er1"), "er1".into());
    let router = Router { base: of_er1, name, is_edge: true, ..Router::default() };
    let policy = EdgeRouterPolicy {
        base: base("all"),
        name: "all".into(),
        identity_roles: Roles::all(),
        edge_router_roles: Roles::all(),
        ..EdgeRouterPolicy::default()
    };
    let system = Caller::system();
    let made = auth.decide(&system, move |decision| {
        identities.iter().for_each(|identity| decision.put(identity.clone()));
        decision.put(router.clone());
        decision.put(policy.clone());
        Ok(())
    });
    made.await.unwrap();
}

/// Opens a session that routers are told of.
fn open(auth: &Auth, number: usize) -> Id {
    let certificate = SessionCertificate {
        fingerprint: format!("print{number}").into(),
        not_after: Timestamp(i64::MAX),
        ..SessionCertificate::default()
    };
    let session = ApiSession {
        base: Base::new(auth.ids().ordered(auth.now()), auth.now()),
        identity_id: identity(number),
        authenticator_id: Id::new("internal"),
        last_activity_at: auth.now(),
        is_of_client: true,
        certificates: vec![certificate],
        ..ApiSession::default()
    };
    let token = format!("token {number}");
    auth.sessions().open(session, &token, |_| true).unwrap().base.id.clone()
}

#[tokio::test]
async fn routers_are_told_anew_when_most_sessions_end() {
    let auth = auth();
    enter(&auth).await;
    let ids: Vec<Id> = (0..=BULK).map(|number| open(&auth, number)).collect();
    let (book, following) = Book::open(auth.clone());
    let following = tokio::spawn(following);
    let mut attached = book.attach(&Id::new("er1"), 1);
    attached.reported();
    assert_eq!(book.may_know(&Id::new("er1"), &ids), vec![true; ids.len()]);
    auth.sessions().end(&ids);
    // No notices, but the end of them.
    assert!(attached.next(200).await.is_none());
    assert!(book.state.read().feeds.is_empty());
    assert!(book.state.read().sessions.is_empty());
    following.abort();
}

#[tokio::test]
async fn attached_routers_are_counted() {
    let (book, _) = Book::open(auth());
    let attached = [1, 2, 3].map(|connection| book.attach(&Id::new("er1"), connection));
    assert_eq!(book.attached.load(Ordering::Relaxed), attached.len());
    let again = book.attach(&Id::new("er1"), 3);
    drop(attached);
    assert_eq!(book.attached.load(Ordering::Relaxed), 1);
    drop(again);
    assert_eq!(book.attached.load(Ordering::Relaxed), 0);
}
