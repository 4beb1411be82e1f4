//! The way of a port's new clients, which changes while the port is open.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Way;

/// The way of new clients. Clients that were accepted keep the way that they have.
#[derive(Debug)]
pub(crate) struct PortWay {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// None while no new clients are accepted.
    way: Option<Arc<Way>>,
    /// Whether the port was closed, for good.
    is_closed: bool,
}

impl PortWay {
    pub(crate) fn new(way: Way) -> Self {
        let state = State { way: Some(Arc::new(way)), is_closed: false };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// The way of a client that is accepted now.
    pub(crate) fn now(&self) -> Option<Arc<Way>> {
        self.state.lock().way.clone()
    }

    /// Leads new clients another way; without one, none are accepted any more. False if the port is
    /// closed.
    pub(crate) fn change(&self, way: Option<Way>) -> bool {
        let mut state = self.state.lock();
        if state.is_closed {
            return false;
        }
        state.way = way.map(Arc::new);
        self.changed.notify_one();
        true
    }

    /// Closes the port if it accepts no new clients and `is_idle`; true if it is closed now.
    pub(crate) fn close_if(&self, is_idle: bool) -> bool {
        let mut state = self.state.lock();
        state.is_closed |= state.way.is_none() && is_idle;
        state.is_closed
    }

    /// Whether the port was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Returns after a change. One task waits.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
