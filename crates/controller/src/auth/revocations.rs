//! Revocations that cover nothing any more are forgotten (docs/protocol/auth.md 16).

use std::sync::Weak;
use std::time::Duration;

use weft_model::entity::{Record as _, Revocation};
use weft_model::{Id, Timestamp};

use crate::{Caller, Controller, Core, Failure};

/// How often they are looked for.
const EVERY: Duration = Duration::from_secs(60);
/// Most that are deleted in one change.
const BATCH: usize = 500;

/// Purges them now and then.
pub(crate) async fn purge(core: Weak<Core>) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(core) = core.upgrade() else { return };
        if let Err(error) = Controller(core).purge_revocations().await {
            tracing::warn!(%error, "expired revocations could not be deleted");
        }
    }
}

impl Controller {
    /// Deletes the revocations that have expired, in batches.
    pub(crate) async fn purge_revocations(&self) -> Result<(), Failure> {
        loop {
            let now = self.now();
            let expired: Vec<Id> = {
                let snapshot = self.snapshot();
                let expired = snapshot.list::<Revocation>().filter(|it| has_expired(it, now));
                expired.take(BATCH).map(|it| it.base.id.clone()).collect()
            };
            if expired.is_empty() {
                return Ok(());
            }
            self.decide(&Caller::own("purge of revocations"), move |decision| {
                for id in &expired {
                    // One may have been made anew meanwhile.
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
}

fn has_expired(revocation: &Revocation, now: Timestamp) -> bool {
    revocation.expires_at <= now
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_model::Base;

    use super::*;
    use crate::testing::Bed;

    #[tokio::test]
    async fn expired_ones_are_forgotten_and_others_stay() {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        let now = bed.controller.now();
        let revoked = move |id: String, lasts: u64| Revocation {
            base: Base::new(Id::new(&id), now),
            expires_at: now.plus(Duration::from_secs(lasts)),
            ..Revocation::default()
        };
        let system = Caller::system();
        let made = bed.controller.decide(&system, move |decision| {
            (0..BATCH + 7).for_each(|at| decision.put(revoked(format!("token{at}"), 60)));
            decision.put(revoked("later".into(), 600));
            Ok(())
        });
        made.await.unwrap();
        let body = json!({"name": "laptop", "type": "Default", "isAdmin": false});
        let laptop = bed.create(&admin, "createIdentity", body).await;
        let disable = json!({"durationMinutes": 1});
        bed.manage(&admin, "disableIdentity", &[&laptop], disable).await.unwrap();
        let kept = || bed.controller.snapshot().list::<Revocation>().count();
        bed.controller.purge_revocations().await.unwrap();
        assert_eq!(kept(), BATCH + 9);
        bed.clock.advance(Duration::from_secs(60));
        bed.controller.purge_revocations().await.unwrap();
        assert_eq!(kept(), 2);
        bed.clock.advance(bed.controller.settings().durations.longest_token);
        bed.controller.purge_revocations().await.unwrap();
        assert_eq!(kept(), 0);
    }
}
