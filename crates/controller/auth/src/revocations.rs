//! Deletes revocations that expired long ago (docs/protocol/auth.md 16). A revocation that is deleted
//! too early makes its tokens good again, so that a clock that is wrong for a moment must not do that.

use std::time::Duration;

use weft_kernel::{Caller, Kernel, Result};
use weft_model::entity::{OfKind as _, Revocation};
use weft_model::{Id, Timestamp};

use crate::handle::WeakAuth;

/// Time for which a revocation is kept after its expiry.
pub const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Revocations deleted in one change set.
pub const BATCH: usize = 500;

/// Deletes expired revocations at intervals.
pub(crate) async fn purge(weak: WeakAuth) {
    let Some(auth) = weak.upgrade() else { return };
    let mut ticks = tokio::time::interval(auth.kernel().settings().durations.revocation_purge);
    drop(auth);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(auth) = weak.upgrade() else { return };
        if !auth.is_leader() {
            continue;
        }
        if let Err(error) = auth.forget_left().await {
            tracing::warn!(%error, "the entries of controllers that have left could not be deleted");
        }
        let Some(settled) = auth.settled_now().zip(auth.agreed_now()) else { continue };
        let settled = settled.0.min(settled.1);
        if let Err(error) = purge_revocations(auth.kernel(), settled).await {
            tracing::warn!(%error, "expired revocations could not be deleted");
        }
    }
}

/// Deletes the revocations that expired long before `settled`, in batches.
pub async fn purge_revocations(kernel: &Kernel, settled: Timestamp) -> Result<()> {
    loop {
        let expired: Vec<Id> = {
            let snapshot = kernel.snapshot();
            let expired = snapshot.list::<Revocation>().filter(|it| is_over(it, settled));
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
                    if current.is_some_and(|it| is_over(it, settled)) {
                        decision.delete(Revocation::KIND, id)?;
                    }
                }
                Ok(())
            })
            .await?;
    }
}

fn is_over(revocation: &Revocation, settled: Timestamp) -> bool {
    revocation.expires_at.plus(KEPT) <= settled
}
