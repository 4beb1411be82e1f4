//! Reports of identities with open connections, of opaque API sessions in use, and of service
//! sessions in use.
//!
//! Changes are collected and sent to every controller. At intervals, after a reconnect and after a
//! report that could not be sent, a controller is sent all of them
//! (docs/protocol/edge-control-plane.md 10.1, 16.1).

use std::sync::Arc;

use tokio::time::{Instant, MissedTickBehavior, interval};
use weft_wire::ProtoBody;
use weft_wire::edge_ctrl::{ApiSessionHeartbeat, ConnectEvents, ValidateSessionsRequest};

use super::shared::Core;
use crate::controllers::Controller;
use crate::seam::ControllerId;

/// Most tokens in one heartbeat.
const MAX_TOKENS: usize = 10_000;

/// Reports until cancelled.
pub(crate) async fn run(core: Arc<Core>) {
    let mut ticks = interval(core.options.connect_events_batch);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_full = Instant::now();
    loop {
        ticks.tick().await;
        let changes = core.presence.take_changes();
        let due = last_full.elapsed() >= core.options.connect_events_full;
        let full = core.presence.take_overflow() || due;
        if full {
            last_full = Instant::now();
        }
        for controller in core.controllers.all() {
            report(&core, &controller, &changes, full);
        }
    }
}

fn report(core: &Core, controller: &Arc<Controller>, changes: &ConnectEvents, full: bool) {
    let full = core.presence.take_behind(&controller.id) || full;
    if !full && changes.events.is_empty() {
        return;
    }
    let message = if full { core.presence.everything().to_message() } else { changes.to_message() };
    if let Err(problem) = controller.channel.try_send(message) {
        tracing::debug!(controller = %controller.id, %problem, "connected identities not reported");
        core.presence.tell_all(&controller.id);
    }
}

/// Reports until cancelled which opaque API sessions are in use, so that they do not expire.
pub(crate) async fn run_heartbeats(core: Arc<Core>) {
    let mut ticks = interval(core.options.session_heartbeat);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let Some(data) = core.data.get() else { continue };
        let tokens = data.open_session_tokens();
        for part in tokens.chunks(MAX_TOKENS) {
            let message = ApiSessionHeartbeat { tokens: part.to_vec() }.to_message();
            for controller in core.controllers.all() {
                if let Err(problem) = controller.channel.try_send(message.clone()) {
                    tracing::debug!(controller = %controller.id, %problem, "sessions not reported");
                }
            }
        }
    }
}

/// Asks a controller which service sessions have ended (docs/protocol/edge-control-plane.md 10.1).
pub(crate) async fn validate_service_sessions(
    core: Arc<Core>,
    controller: ControllerId,
    ids: Vec<String>,
) {
    for (at, part) in ids.chunks(core.options.session_chunk.max(1)).enumerate() {
        if at > 0 {
            let (low, high) =
                (core.options.session_pause.start(), core.options.session_pause.end());
            let more = high.saturating_sub(*low).mul_f64(rand::random());
            tokio::time::sleep(*low + more).await;
        }
        // A controller that goes away is asked again when it comes back.
        let Some(controller) = core.controllers.get(&controller) else { return };
        let request = ValidateSessionsRequest { session_tokens: part.to_vec() };
        if let Err(problem) = controller.channel.send(request.to_message()).await {
            tracing::warn!(
                controller = %controller.id, %problem,
                "the controller could not be asked about service sessions"
            );
            return;
        }
    }
}
