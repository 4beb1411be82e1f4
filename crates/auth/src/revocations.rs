//! Deletes expired revocations (docs/protocol/auth.md 16).

use weft_kernel::{Caller, Failure, Kernel};
use weft_model::entity::{OfKind as _, Revocation};
use weft_model::{Id, Timestamp};

use crate::handle::WeakAuth;

/// Revocations deleted in one change set.
pub const BATCH: usize = 500;

/// Deletes expired revocations at intervals.
pub(crate) async fn purge(weak: WeakAuth) {
    let Some(auth) = weak.upgrade() else { return };
    let mut ticks = tokio::time::interval(auth.settings().durations.revocation_purge);
    drop(auth);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(auth) = weak.upgrade() else { return };
        if let Err(error) = purge_revocations(&auth).await {
            tracing::warn!(%error, "expired revocations could not be deleted");
        }
    }
}

/// Deletes the revocations that have expired, in batches.
pub async fn purge_revocations(kernel: &Kernel) -> Result<(), Failure> {
    loop {
        let now = kernel.now();
        let expired: Vec<Id> = {
            let snapshot = kernel.snapshot();
            let expired = snapshot.list::<Revocation>().filter(|it| has_expired(it, now));
            expired.take(BATCH).map(|it| it.base.id.clone()).collect()
        };
        if expired.is_empty() {
            return Ok(());
        }
        kernel
            .decide(&Caller::own("purge of revocations"), move |decision| {
                for id in &expired {
                    // A revocation may have been renewed meanwhile.
                    let current = decision.tip().get::<Revocation>(id);
                    if current.is_some_and(|it| has_expired(it, now)) {
                        decision.delete(Revocation::KIND, id)?;
                    }
                }
                Ok(())
            })
            .await?;
    }
}

fn has_expired(revocation: &Revocation, now: Timestamp) -> bool {
    revocation.expires_at <= now
}
