//! Ends of many sessions, and the number of routers.

use weft_kernel::Caller;
use weft_model::entity::{ApiSession, EdgeRouterPolicy, Identity, Router, SessionCertificate};
use weft_model::{Base, Roles, Timestamp};

use super::changes::BULK;
use super::*;
use crate::testing::auth;

/// Identities; one of them has not many sessions.
const IDENTITIES: usize = 32;

fn identity(number: usize) -> Id {
    Id::new(&format!("laptop{}", number % IDENTITIES))
}

/// Enters identities and a router that they may use.
async fn enter(auth: &Auth) {
    let base = |id: &str| Base::new(Id::new(id), auth.kernel().now());
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
    let made = auth.kernel().decide(&system, move |decision| {
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
        base: Base::new(auth.kernel().ids().ordered(auth.kernel().now()), auth.kernel().now()),
        identity_id: identity(number),
        authenticator_id: Id::new("internal"),
        last_activity_at: auth.kernel().now(),
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
    let mut attached = book.attach(&Id::new("er1"), 1, false);
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
    let attached = [1, 2, 3].map(|connection| book.attach(&Id::new("er1"), connection, false));
    assert_eq!(book.attached.load(Ordering::Relaxed), attached.len());
    let again = book.attach(&Id::new("er1"), 3, false);
    drop(attached);
    assert_eq!(book.attached.load(Ordering::Relaxed), 1);
    drop(again);
    assert_eq!(book.attached.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn routers_share_the_list_of_sessions_that_end_together() {
    let auth = auth();
    enter(&auth).await;
    let ids: Vec<Id> = (0..2 * IDENTITIES).map(|number| open(&auth, number)).collect();
    let (book, _following) = Book::open(auth.clone());
    let mut attached = [1, 2, 3].map(|connection| book.attach(&Id::new("er1"), connection, false));
    attached.iter().for_each(Attached::reported);
    let first = auth.kernel().snapshot().ordinal_of::<Identity>(&identity(0)).unwrap();
    {
        let mut state = book.state.write();
        // One identity may not use the third router.
        assert!(state.feeds.get_mut(&3).unwrap().allowed.remove(first));
        state.remove(&ids);
    }
    let mut lists = Vec::new();
    for attached in &mut attached {
        let mut batch = attached.next(200).await.unwrap();
        assert!(batch.removed.is_empty() && batch.ended.len() == 1);
        lists.push(batch.ended.remove(0));
    }
    assert!(Arc::ptr_eq(&lists[0], &lists[1]));
    let told: Vec<Id> = lists[0].sessions.iter().map(|told| told.id.clone()).collect();
    assert_eq!(told, ids);
    let others = lists[2].sessions.iter().map(|told| &told.identity);
    assert_eq!(others.filter(|it| **it != identity(0)).count(), 2 * IDENTITIES - 2);
    assert_eq!(lists[2].sessions.len(), 2 * IDENTITIES - 2);
    let messages = [0, 1].map(|at: usize| lists[at].message());
    assert_eq!(messages[0].body.as_ptr(), messages[1].body.as_ptr(), "encoded once");
    // A few are told with others that end meanwhile.
    let few: Vec<Id> = (100..103).map(|number| open(&auth, number)).collect();
    for id in &few {
        let session = auth.sessions().by_id(id.as_str()).unwrap();
        book.on_notice(SessionNotice::Added(session)).await;
    }
    assert_eq!(attached[0].pending.next(200).await.unwrap().added.len(), few.len());
    few.iter().for_each(|id| book.state.write().remove(std::slice::from_ref(id)));
    assert_eq!(attached[0].pending.next(200).await.unwrap().removed.len(), few.len());
}
