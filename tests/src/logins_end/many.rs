//! Many sessions by tokens that end together: routers are told in one message, and the APIs go on.

use std::time::{Duration, Instant};

use weft_model::entity::{ApiSession, ExternalFactors, Revocation, TokenLogin};
use weft_model::{Base, Id, session_list};

use super::ground::{Ground, Held};
use super::person::Form;
use super::{DEADLINE, EndCause, Login};
use crate::network::{soon, until_some};

/// Sessions that end together, beside one whose client holds something.
const MANY: u32 = 20_000;

/// Writes sessions into the store of a controller that does not run: they rest on the same signer as another one.
async fn fill(ground: &Ground, one: &Held, now: weft_model::Timestamp) {
    let live = ground.network.store().live();
    let end = now.plus(Duration::from_secs(3600));
    for number in 0..MANY {
        let id = Id::new(&format!("00000000-0000-4000-8000-{number:012}"));
        let signer = Id::new(&one.issuer);
        let tokens = TokenLogin {
            client: "native".into(),
            issued_at: now,
            ends_at: end,
            login_at: now,
            refresh_number: 1,
            ..TokenLogin::default()
        };
        let session = ApiSession {
            base: Base::new(id, now),
            identity_id: Id::new(&one.identity),
            authenticator_id: Id::new(&format!("extJwtId:{signer}")),
            last_activity_at: now,
            is_of_client: true,
            external: ExternalFactors { signer_id: Some(signer), ..ExternalFactors::default() },
            tokens: Some(Box::new(tokens)),
            ..ApiSession::default()
        };
        live.put(session.into());
    }
    live.flush().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_that_end_together_are_one_revocation() {
    let mut ground = Box::pin(Ground::new()).await;
    let one = ground.open("many", Login::Token, Form::Signed).await;
    let now = ground.network.controller().kernel().now();
    ground.network.stop_controller().await;
    fill(&ground, &one, now).await;
    ground.network.start_controller().await;
    let count = || ground.network.controller().auth().sessions().counts().api_sessions;
    assert!(count() > u64::from(MANY));
    let is_back = || !ground.network.controller().kernel().online().routers().is_empty();
    until_some(async || is_back().then_some(())).await;
    assert!(!one.left(&ground).await.is_empty());
    // The controller closed connections that were idle.
    until_some(async || ground.network.admin.version().await.ok()).await;
    let before = count();
    ground.take_away(EndCause::SignerDisabled, &one).await;
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    loop {
        let asked = Instant::now();
        soon(ground.network.admin.version()).await.unwrap();
        longest = longest.max(asked.elapsed());
        let left = one.left(&ground).await;
        if left.is_empty() && count() < before - u64::from(MANY) {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "{left:?} of {} sessions", count());
    }
    println!(
        "{MANY} sessions ended within {:?}; the API answered within {longest:?}",
        begun.elapsed()
    );
    let snapshot = ground.network.controller().kernel().snapshot();
    let lists: Vec<_> =
        snapshot.list::<Revocation>().filter(|it| it.base.created_at >= now).collect();
    assert_eq!(lists.len(), 1, "one row, and no one of an identity");
    let keys = session_list::keys(&lists[0].sessions);
    assert_eq!(keys.len(), MANY as usize + 1);
    assert!(session_list::contains(
        &lists[0].sessions,
        &session_list::key(&one.session.id).unwrap()
    ));
    assert!(!one.is_taken().await, "the router takes a token of the list again");
}
