//! The route of a port's new clients, which changes while the port is open.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::ServiceRoute;

/// The route of new clients. Clients that were accepted keep the route that they have.
#[derive(Debug)]
pub(crate) struct PortRoute {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// None while no new clients are accepted.
    route: Option<Arc<ServiceRoute>>,
    /// Whether the port was closed, for good.
    is_closed: bool,
}

impl PortRoute {
    pub(crate) fn new(route: ServiceRoute) -> Self {
        let state = State { route: Some(Arc::new(route)), is_closed: false };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// The route of a client that is accepted now.
    pub(crate) fn now(&self) -> Option<Arc<ServiceRoute>> {
        self.state.lock().route.clone()
    }

    /// Carries new clients over another route; without one, none are accepted any more. False if the port is
    /// closed.
    pub(crate) fn change(&self, route: Option<ServiceRoute>) -> bool {
        let mut state = self.state.lock();
        if state.is_closed {
            return false;
        }
        state.route = route.map(Arc::new);
        self.changed.notify_one();
        true
    }

    /// Closes the port if it accepts no new clients and `is_idle`; true if it is closed now.
    pub(crate) fn close_if(&self, is_idle: bool) -> bool {
        let mut state = self.state.lock();
        state.is_closed |= state.route.is_none() && is_idle;
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
