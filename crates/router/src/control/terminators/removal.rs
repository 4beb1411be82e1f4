//! Removal of terminators at controllers (protocol: control-plane 15.2).

use std::sync::Arc;

use weft_channel::Lane;
use weft_limits::Outcome as Load;
use weft_wire::{Outcome, ProtoBody, ctrl::RemoveTerminatorsRequest};

use super::{REMOVAL_BATCH, WAITS};
use crate::control::Core;

/// Removes terminators at controllers, in batches, until it is confirmed.
pub(crate) async fn run(core: Arc<Core>) {
    let mut wait = WAITS.0;
    loop {
        let batch: Vec<String> =
            core.terminators.removals.lock().iter().take(REMOVAL_BATCH).cloned().collect();
        if batch.is_empty() {
            core.terminators.removal.notified().await;
            continue;
        }
        if remove_batch(&core, &batch).await {
            let mut removals = core.terminators.removals.lock();
            batch.iter().for_each(|id| {
                removals.remove(id);
            });
            wait = WAITS.0;
        } else {
            tokio::time::sleep(wait.mul_f64(0.5 + rand::random::<f64>())).await;
            wait = (wait * 2).min(WAITS.1);
        }
    }
}

async fn remove_batch(core: &Core, batch: &[String]) -> bool {
    let Some(controller) = core.controllers.for_changes() else { return false };
    let slot = core.terminators.slot().await;
    let request = RemoveTerminatorsRequest { terminator_ids: batch.to_vec() };
    let timeout = core.options.request_timeout;
    let reply = controller.channel.request_on(Lane::Default, request.to_message(), timeout).await;
    let outcome = match reply.map(|reply| Outcome::from_message(&reply)) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(problem)) => Outcome::failure(problem.to_string()),
        Err(problem) => Outcome::failure(problem.to_string()),
    };
    slot.finish(if outcome.busy { Load::Backoff } else { Load::Success });
    if !outcome.success {
        let problem = &outcome.text;
        tracing::debug!(controller = %controller.id, %problem, "terminators not removed yet");
    }
    outcome.success
}
