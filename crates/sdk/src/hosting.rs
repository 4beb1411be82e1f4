//! Keeps a listener bound: on several routers, and again after a router or controller was away
//! (docs/protocol/sdk.md 8).
//!
//! One task per listener follows the routers, and one per place binds on a router and stays as long as
//! the bind stands. A router that is lost frees its place for another one at once. The controller is
//! asked for the routers as rarely as the listener can do with ([`rereading`]).

mod binding;
mod following;
mod places;
mod rereading;

use crate::bind_options::BindOptions;
use crate::channel::Arrival;
use crate::dial::own_keys;
use crate::error::{Error, Result};
use crate::inner::Inner;
use bytes::Bytes;
use following::Following;
use std::sync::Arc;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;
use weft_contract::resource::service::ServiceDetail;
use weft_e2e::KeyPair;
use weft_wire::ctrl::TerminatorPrecedence as Precedence;

/// Most results of health checks that wait for a router; older ones are dropped.
const HEALTH_QUEUE: usize = 16;

/// A listener, with all that is needed to bind it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) service: Arc<ServiceDetail>,
    /// The key pair for all of its connections, if the service requires encryption.
    pub(crate) keys: Option<KeyPair>,
    options: BindOptions,
    listener_id: Bytes,
    dials: mpsc::Sender<Arrival>,
    state: watch::Sender<HostState>,
    terms: watch::Sender<Terms>,
    /// Results of health checks, for all routers.
    health: broadcast::Sender<bool>,
}

/// The state of a listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostState {
    /// The number of routers over which it can be dialed.
    pub(crate) established: usize,
    /// The last error.
    pub(crate) problem: Option<Error>,
    /// The error that has ended the listener for good.
    pub(crate) over: Option<Error>,
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

    /// Keeps the listener bound until it is cancelled or cannot go on.
    pub(crate) async fn run(self: Arc<Self>, inner: Arc<Inner>, cancel: CancellationToken) {
        let work = async {
            if let Err(error) = Following::new(&self, &inner).run().await {
                self.state.send_modify(|state| {
                    state.over = Some(error);
                    state.established = 0;
                });
            }
        };
        tokio::select! {
            () = cancel.cancelled() => {}
            () = inner.cancel.cancelled() => {
                let closed = Error::Closed("the context is closed".to_owned());
                self.state.send_modify(|state| state.over = Some(closed));
            }
            () = work => {}
        }
    }

    /// True if the listener can be dialed over no router.
    fn is_down(&self) -> bool {
        self.state.borrow().established == 0
    }

    fn note(&self, error: Error) {
        self.state.send_modify(|state| state.problem = Some(error));
    }
}
