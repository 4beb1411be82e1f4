//! Changes of established terminators, sent to a controller until it has them. Each message carries
//! the terminator's values at that moment, so that the latest count.

use std::sync::Arc;

use weft_wire::edge_ctrl::{EdgeError, content_type};

use super::choice::{WAITS, controller_for, controller_now, jittered};
use super::request;
use super::table::Registration;
use super::untold::Untold;
use crate::control::shared::Core;
use crate::controllers::Controller;
use crate::seam::TerminatorUpdate;

/// Most refusals in a row of one change: the controller may be busy, or without a leader.
const MAX_REFUSALS: u32 = 10;

/// Why an attempt failed.
enum Failure {
    Refused,
    Unheard,
}

/// Sends the present values of those members that `which` has: cost, precedence, or both.
pub(super) fn change(core: &Arc<Core>, entry: &Arc<Registration>, which: TerminatorUpdate) {
    begin(core, entry, |untold| untold.add(which, None));
}

/// Sends the result of a health check: at once, or after earlier changes.
pub(super) fn health(core: &Arc<Core>, entry: &Arc<Registration>, healthy: bool) {
    let told = {
        // Held, so that no older result follows this one.
        let untold = entry.untold.lock();
        let now = || controller_now(core, entry);
        !untold.telling && now().is_some_and(|one| tell_health(entry, &one, healthy).is_ok())
    };
    if !told {
        begin(core, entry, |untold| untold.health = Some(healthy));
    }
}

fn tell_health(
    entry: &Registration,
    controller: &Controller,
    healthy: bool,
) -> Result<(), Failure> {
    let message = request::health(&entry.state.lock().request, healthy);
    controller.channel.try_send(message).map_err(|problem| {
        tracing::debug!(controller = %controller.id, %problem, "health event not sent yet");
        Failure::Unheard
    })
}

fn begin(core: &Arc<Core>, entry: &Arc<Registration>, note: impl FnOnce(&mut Untold)) {
    let began = {
        let mut untold = entry.untold.lock();
        note(&mut untold);
        !std::mem::replace(&mut untold.telling, true)
    };
    if began {
        let (core, entry) = (core.clone(), entry.clone());
        core.clone().spawn(async move {
            entry.stop.run_until_cancelled(tell(&core, &entry)).await;
        });
    }
}

/// Sends changes until there are no more.
async fn tell(core: &Core, entry: &Arc<Registration>) {
    let (mut wait, mut refusals) = (WAITS.0, 0);
    loop {
        let Some((change, health)) = entry.untold.lock().next() else { return };
        let controller = controller_for(core, entry).await;
        if !core.terminators.is_current(entry) {
            // Another host has the terminator, with a cost of its own.
            return;
        }
        match attempt(core, entry, &controller, change, health).await {
            Ok(()) => (wait, refusals) = (WAITS.0, 0),
            Err(failure) => {
                refusals = if matches!(failure, Failure::Refused) { refusals + 1 } else { 0 };
                if refusals >= MAX_REFUSALS {
                    (wait, refusals) = (WAITS.0, 0);
                    continue;
                }
                entry.untold.lock().add(change, health);
                tokio::time::sleep(jittered(wait)).await;
                wait = (wait * 2).min(WAITS.1);
            }
        }
    }
}

async fn attempt(
    core: &Core,
    entry: &Registration,
    controller: &Controller,
    change: TerminatorUpdate,
    health: Option<bool>,
) -> Result<(), Failure> {
    if change != TerminatorUpdate::default() {
        let message = request::change(&entry.state.lock().request, change);
        match controller.channel.request(message, core.options.request_timeout).await {
            Ok(reply) if reply.content_type == content_type::ERROR => {
                let problem = EdgeError::from_message(&reply).map(|error| error.text);
                tracing::warn!(
                    controller = %controller.id, ?problem,
                    "a change of the terminator could not be sent"
                );
                return Err(Failure::Refused);
            }
            Ok(_) => {}
            Err(problem) => {
                tracing::debug!(controller = %controller.id, %problem, "terminator not changed yet");
                return Err(Failure::Unheard);
            }
        }
    }
    health.map_or(Ok(()), |healthy| tell_health(entry, controller, healthy))
}
