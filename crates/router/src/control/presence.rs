//! Reports of what is in use: identities with open connections, opaque API sessions, and service
//! sessions.
//!
//! Changes are collected and sent to every controller. At intervals, after a reconnect and after a
//! report that could not be sent, a controller is sent all of them
//! (docs/protocol/edge-control-plane.md 10.1, 16.1).

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};
use weft_wire::{
    ProtoBody,
    edge_ctrl::{
        ApiSessionHeartbeat, ConnectEvents, IdentityConnectEvents, ValidateSessionsRequest,
    },
};

use super::Core;
use crate::{controllers::Controller, seam::ControllerId};

/// Most tokens in one heartbeat.
const MAX_TOKENS: usize = 10_000;

/// Identities with open connections.
#[derive(Debug)]
pub(crate) struct Presence {
    state: Mutex<State>,
    /// Most changes in one report; beyond that all identities are reported.
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Connections by identity; identities without one are not in here.
    connections: HashMap<String, usize>,
    /// Identities whose first connection opened or last one closed since the last report.
    changed: BTreeSet<String>,
    /// True if there were more changes than fit a report.
    overflowed: bool,
    /// Controllers that need a report of all identities.
    behind: BTreeSet<ControllerId>,
}

impl Presence {
    /// Without connections. `most` is the largest number of changes in a report.
    pub(crate) fn new(most: usize) -> Self {
        Self { state: Mutex::default(), most }
    }

    /// Sets the number of connections of an identity.
    pub(crate) fn set(&self, identity: &str, connections: usize) {
        let mut state = self.state.lock();
        let before = if connections == 0 {
            state.connections.remove(identity)
        } else {
            state.connections.insert(identity.to_owned(), connections)
        };
        if before.is_none() == (connections == 0) || state.overflowed {
            return;
        }
        state.changed.insert(identity.to_owned());
        if state.changed.len() > self.most {
            state.changed.clear();
            state.overflowed = true;
        }
    }

    /// Notes that a controller needs a report of all identities.
    pub(crate) fn tell_all(&self, controller: &ControllerId) {
        self.state.lock().behind.insert(controller.clone());
    }

    /// The changes since the last call.
    fn take_changes(&self) -> ConnectEvents {
        let mut state = self.state.lock();
        let changed = std::mem::take(&mut state.changed);
        let event = |identity: String| IdentityConnectEvents {
            is_connected: state.connections.contains_key(&identity),
            identity_id: identity,
            connect_times: Vec::new(),
        };
        ConnectEvents { events: changed.into_iter().map(event).collect(), full_state: false }
    }

    fn everything(&self) -> ConnectEvents {
        let state = self.state.lock();
        let event = |identity: &String| IdentityConnectEvents {
            identity_id: identity.clone(),
            is_connected: true,
            connect_times: Vec::new(),
        };
        ConnectEvents { events: state.connections.keys().map(event).collect(), full_state: true }
    }

    /// True if changes were lost since the last call.
    fn take_overflow(&self) -> bool {
        std::mem::take(&mut self.state.lock().overflowed)
    }

    fn take_behind(&self, controller: &ControllerId) -> bool {
        self.state.lock().behind.remove(controller)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_coming_and_going_is_a_change() {
        let presence = Presence::new(100);
        presence.set("a", 1);
        presence.set("a", 2);
        presence.set("b", 1);
        presence.set("b", 0);
        let changes = presence.take_changes();
        let told: Vec<_> =
            changes.events.iter().map(|one| (one.identity_id.as_str(), one.is_connected)).collect();
        assert_eq!(told, [("a", true), ("b", false)]);
        presence.set("a", 1);
        presence.set("c", 0);
        assert!(presence.take_changes().events.is_empty());
        assert_eq!(presence.everything().events.len(), 1);
        assert!(presence.everything().full_state);
    }

    #[test]
    fn more_changes_than_are_gathered_become_a_full_report() {
        let presence = Presence::new(2);
        presence.set("a", 1);
        presence.set("b", 1);
        assert!(!presence.take_overflow());
        presence.set("c", 1);
        presence.set("d", 1);
        assert!(presence.take_overflow() && !presence.take_overflow());
        assert!(presence.take_changes().events.is_empty());
        assert_eq!(presence.everything().events.len(), 4);
        presence.set("d", 0);
        assert_eq!(presence.take_changes().events.len(), 1);
    }
}
