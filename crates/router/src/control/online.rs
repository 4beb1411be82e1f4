//! Identities with open connections, and the changes that controllers were not told of yet.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use weft_wire::edge_ctrl::{ConnectEvents, IdentityConnectEvents};

use crate::seam::ControllerId;

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
    /// A table without connections. `most` is the largest number of changes in a report.
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
    pub(super) fn take_changes(&self) -> ConnectEvents {
        let mut state = self.state.lock();
        let changed = std::mem::take(&mut state.changed);
        let event = |identity: String| IdentityConnectEvents {
            is_connected: state.connections.contains_key(&identity),
            identity_id: identity,
            connect_times: Vec::new(),
        };
        ConnectEvents { events: changed.into_iter().map(event).collect(), full_state: false }
    }

    pub(super) fn everything(&self) -> ConnectEvents {
        let state = self.state.lock();
        let event = |identity: &String| IdentityConnectEvents {
            identity_id: identity.clone(),
            is_connected: true,
            connect_times: Vec::new(),
        };
        ConnectEvents { events: state.connections.keys().map(event).collect(), full_state: true }
    }

    /// True if changes were lost since the last call.
    pub(super) fn take_overflow(&self) -> bool {
        std::mem::take(&mut self.state.lock().overflowed)
    }

    pub(super) fn take_behind(&self, controller: &ControllerId) -> bool {
        self.state.lock().behind.remove(controller)
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
