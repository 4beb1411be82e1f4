//! Removes terminators whose hosts have lost the right to host, and whose routers kept them.

use weft_kernel::Caller;
use weft_model::Kind;
use weft_model::entity::Terminator;

use crate::clock;
use crate::network::Network;
use crate::unfounded::is_founded;

/// Terminators removed in one change set.
const BATCH: usize = 100;

impl Network {
    /// Removes the noted terminators whose routers have not done so in time. Whether the host has the
    /// right is judged again in the change that removes the terminator.
    pub(crate) async fn remove_unfounded(&self) {
        let due = self.0.unfounded.due(clock::now(), self.0.options.unfounded_life);
        for batch in due.chunks(BATCH) {
            let now = self.0.kernel.now();
            let ids = batch.to_vec();
            let caller = Caller::own("terminators whose hosts have lost the right to host");
            let done = self.0.kernel.decide(&caller, move |decision| {
                for id in &ids {
                    let found = decision.tip().get::<Terminator>(id);
                    if found.is_some_and(|found| !is_founded(decision.tip(), found, now)) {
                        decision.delete(Kind::Terminator, id)?;
                    }
                }
                Ok(())
            });
            if let Err(problem) = done.await {
                // The next dial that meets one of them notes it again.
                tracing::warn!(%problem, count = batch.len(), "terminators without a host that may host were not removed");
                continue;
            }
            let snapshot = self.0.kernel.snapshot();
            let removed = batch.iter().filter(|id| snapshot.get::<Terminator>(id).is_none());
            for id in removed {
                tracing::info!(terminator = %id, "terminator removed: its host has lost the right to host, and its router kept it");
                self.end_circuits_to(id);
            }
        }
    }
}
