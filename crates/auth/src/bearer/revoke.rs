//! Tells routers that the tokens of an ended session count no more (docs/protocol/auth.md 16).
//!
//! A session that ends before its tokens leaves a note in the store, in the same order of writes as its own end. This
//! task turns the notes into revocations of the model, which routers follow, and removes the notes afterwards: a kill in
//! between loses nothing.
//!
//! Each revocation is a row of the model that every router gets. An identity whose sessions end early again and again gets
//! one row for all of its tokens instead of further ones, and its other sessions by tokens log in again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure};
use weft_model::entity::{Revocation, RevocationType};
use weft_model::{Base, Id};

use super::unrevoked::Pending;
use crate::handle::{Auth, WeakAuth};

/// Time until a change that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Revokes the tokens of ended sessions as long as the controller runs.
pub(crate) async fn follow_ends(weak: WeakAuth) {
    loop {
        let Some(auth) = weak.upgrade() else { return };
        let pending = auth.sessions().unrevoked().first();
        if pending.is_empty() {
            let unrevoked = Arc::clone(auth.sessions().unrevoked());
            drop(auth);
            // The controller may stop meanwhile, which nobody tells.
            let _ = tokio::time::timeout(AGAIN, unrevoked.more.notified()).await;
            continue;
        }
        if let Err(error) = revoke(&auth, pending).await {
            tracing::warn!(%error, "the tokens of ended sessions are not revoked yet, and routers may accept them; it is tried again");
            drop(auth);
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Writes the revocations of these sessions, as far as their access tokens have not expired. Refresh tokens need none: the
/// controller knows the session no more.
async fn revoke(auth: &Auth, pending: Vec<(Id, Pending)>) -> Result<(), Failure> {
    let now = auth.now();
    let last = now.plus(auth.settings().durations.access_token);
    let mut due: BTreeMap<Id, Revocation> = BTreeMap::new();
    let current = pending.iter().filter(|(_, it)| it.end > now);
    for (session, Pending { identity, end, is_counted }) in current {
        let one = |id: &Id, kind, before| Revocation {
            base: Base::new(id.clone(), now),
            revocation_type: kind,
            expires_at: last.min(*end),
            issued_before: before,
        };
        let revocation = match is_counted.unwrap_or(true) {
            true => one(session, RevocationType::ApiSession, None),
            false => Revocation {
                expires_at: last,
                ..one(identity, RevocationType::Identity, Some(now))
            },
        };
        due.insert(revocation.base.id.clone(), revocation);
    }
    if !due.is_empty() {
        let decide = move |decision: &mut Decision<'_>| {
            due.values().for_each(|revocation| decision.put(revocation.clone()));
            Ok(())
        };
        auth.decide(&Caller::own("end of sessions"), decide).await?;
    }
    let live = auth.settings().store.live();
    auth.sessions().unrevoked().done(live, &pending);
    Ok(())
}
