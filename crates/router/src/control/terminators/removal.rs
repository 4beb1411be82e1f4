//! Removal of terminators at controllers (docs/protocol/control-plane.md 15.2).

use std::sync::Arc;

use weft_channel::Lane;
use weft_limits::WorkOutcome as Load;
use weft_wire::ctrl::RemoveTerminatorsRequest;
use weft_wire::{Outcome, ProtoBody};

use super::choice::{WAITS, jittered};
use crate::control::shared::Core;

/// Removes terminators at controllers, in batches, until a controller confirms it.
pub(crate) async fn run(core: Arc<Core>) {
    let removals = &core.terminators.removals;
    let mut wait = WAITS.0;
    loop {
        removals.some().await;
        if remove_batch(&core).await {
            wait = WAITS.0;
        } else {
            tokio::time::sleep(jittered(wait)).await;
            wait = (wait * 2).min(WAITS.1);
        }
    }
}

async fn remove_batch(core: &Core) -> bool {
    let Some(controller) = core.controllers.for_changes() else { return false };
    let Some(slot) = core.terminators.slot("").await else { return false };
    // The batch is taken last: a terminator may have been wanted again while there was no room.
    let batch = core.terminators.removals.take();
    if batch.is_empty() {
        return true;
    }
    let request = RemoveTerminatorsRequest { terminator_ids: batch };
    let timeout = core.options.request_timeout;
    let reply = controller.channel.request_on(Lane::Default, request.to_message(), timeout).await;
    let outcome = match reply.map(|reply| Outcome::from_message(&reply)) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(problem)) => Outcome::failure(problem.to_string()),
        Err(problem) => Outcome::failure(problem.to_string()),
    };
    core.terminators.removals.put_down(outcome.success);
    slot.finish(if outcome.busy { Load::Backoff } else { Load::Success });
    if !outcome.success {
        let problem = &outcome.text;
        tracing::debug!(controller = %controller.id, %problem, "terminators not removed yet");
    }
    outcome.success
}
