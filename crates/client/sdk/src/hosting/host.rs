//! A listener, with all that is needed to bind it, and its state.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{broadcast, mpsc, watch};
use weft_contract::resource::service::ServiceDetail;
use weft_e2e::KeyPair;
use weft_wire::ctrl::TerminatorPrecedence as Precedence;

use crate::bind_options::BindOptions;
use crate::channel::Arrival;
use crate::dial::own_keys;
use crate::error::{Error, Result};

/// Most results of health checks that wait for a router; older ones are dropped.
const HEALTH_QUEUE: usize = 16;

/// A listener, with all that is needed to bind it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) service: Arc<ServiceDetail>,
    /// The key pair for all of its connections, if the service requires encryption.
    pub(crate) keys: Option<KeyPair>,
    pub(super) options: BindOptions,
    pub(super) listener_id: Bytes,
    pub(super) dials: mpsc::Sender<Arrival>,
    pub(super) state: watch::Sender<HostState>,
    pub(super) terms: watch::Sender<Terms>,
    /// Results of health checks, for all routers.
    pub(super) health: broadcast::Sender<bool>,
}

/// The state of a listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostState {
    /// The number of routers over which it can be dialed.
    pub(crate) established: usize,
    /// The last error since a bind was established.
    last: Option<Error>,
    /// The error that has ended the listener for good.
    pub(crate) over: Option<Error>,
}

impl HostState {
    /// Why the listener can be dialed over no router.
    pub(crate) fn problem(&self) -> Option<&Error> {
        self.last.as_ref().filter(|_| self.established == 0)
    }

    /// One more bind is established.
    pub(super) fn bound(&mut self) {
        self.established += 1;
        self.last = None;
    }
}

/// The values that may change while a listener is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) cost: u16,
    pub(crate) precedence: Precedence,
}

impl Host {
    pub(crate) fn new(
        service: Arc<ServiceDetail>,
        options: BindOptions,
        dials: mpsc::Sender<Arrival>,
    ) -> Result<Arc<Self>> {
        let terms = Terms { cost: options.cost, precedence: options.precedence };
        Ok(Arc::new(Self {
            keys: own_keys(&service)?,
            service,
            listener_id: Bytes::from(uuid::Uuid::new_v4().to_string()),
            dials,
            state: watch::Sender::default(),
            terms: watch::Sender::new(terms),
            health: broadcast::Sender::new(HEALTH_QUEUE),
            options,
        }))
    }

    /// The instance of the service that it offers; empty for none.
    pub(crate) fn instance(&self) -> &str {
        self.options.instance.as_deref().unwrap_or_default()
    }

    pub(crate) fn state(&self) -> watch::Receiver<HostState> {
        self.state.subscribe()
    }

    /// Changes cost or precedence, here and at all routers.
    pub(crate) fn set_terms(&self, change: impl FnOnce(&mut Terms)) {
        self.terms.send_modify(change);
    }

    /// Reports the result of a health check to all routers.
    pub(crate) fn report_health(&self, passed: bool) {
        // There is no receiver while no router is bound.
        let _ = self.health.send(passed);
    }

    /// True if the listener can be dialed over no router.
    pub(super) fn is_down(&self) -> bool {
        self.state.borrow().established == 0
    }

    pub(super) fn note(&self, error: Error) {
        self.state.send_modify(|state| state.last = Some(error));
    }
}
