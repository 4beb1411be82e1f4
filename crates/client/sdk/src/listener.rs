//! A hosted service, for the application.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use weft_contract::entity::DialBind;
use weft_wire::ctrl::TerminatorPrecedence as Precedence;

use crate::bind_options::BindOptions;
use crate::channel::Arrival;
use crate::error::{Error, Result};
use crate::hosting::{Host, HostState};
use crate::incoming::Incoming;
use crate::inner::Guard;

/// A hosted service. Dropping it ends the hosting; accepted connections stay.
#[derive(Debug)]
pub struct Listener {
    host: Arc<Host>,
    arrivals: mpsc::Receiver<Arrival>,
    state: watch::Receiver<HostState>,
    guard: Arc<Guard>,
    _hosting: DropGuard,
}

impl Listener {
    pub(crate) async fn open(
        guard: &Arc<Guard>,
        service: &str,
        options: BindOptions,
    ) -> Result<Self> {
        let inner = &guard.inner;
        let limit = options.timeout.unwrap_or(inner.settings.bind_timeout);
        let deadline = Instant::now() + limit;
        let too_long = |last: Option<Error>| Error::Timeout {
            action: format!("hosting `{service}`"),
            limit,
            last: last.map(Box::new),
        };
        let detail = inner.account.service(service, DialBind::Bind);
        let detail = timeout_at(deadline, detail).await.map_err(|_| too_long(None))??;
        let (dials, arrivals) = mpsc::channel(options.backlog.max(1));
        let host = Host::new(detail, options, dials)?;
        let cancel = CancellationToken::new();
        tokio::spawn(Arc::clone(&host).run(Arc::clone(inner), cancel.clone()));
        let listener = Self {
            state: host.state(),
            host,
            arrivals,
            guard: Arc::clone(guard),
            _hosting: cancel.drop_guard(),
        };
        if let Ok(done) = timeout_at(deadline, listener.established(1)).await {
            return done.map(|()| listener);
        }
        let last = listener.problem();
        match last {
            Some(last @ Error::NoEdgeRouters { .. }) => Err(last),
            None if inner.routers.connected().is_empty() => Err(Error::NoEdgeRouters {
                service: service.to_owned(),
                reason: inner.routers.problems(),
                cause: None,
            }),
            last => Err(too_long(last)),
        }
    }

    /// The next connection. Connections whose dialer has given up meanwhile are skipped.
    ///
    /// # Errors
    /// When the hosting cannot go on: it is not allowed any more, or the endpoint is closed. While
    /// routers or controllers are only away, it waits.
    ///
    /// # Cancel safety
    /// Cancel safe: a call that is given up has taken no connection, so that it can be a branch of a `select!`.
    pub async fn accept(&mut self) -> Result<Incoming> {
        loop {
            tokio::select! {
                biased;
                arrival = self.arrivals.recv() => match arrival {
                    Some(arrival) if arrival.is_late() => {}
                    Some(arrival) => {
                        let (host, guard) = (Arc::clone(&self.host), Arc::clone(&self.guard));
                        return Ok(Incoming::new(arrival, host, guard));
                    }
                    None => return Err(closed()),
                },
                over = self.state.wait_for(|state| state.over.is_some()) => {
                    let over = over.ok().and_then(|state| state.over.clone());
                    return Err(over.unwrap_or_else(closed));
                }
            }
        }
    }

    /// The name of the service.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.host.service.name
    }

    /// The number of routers over which the service can be dialed now.
    #[must_use]
    pub fn terminators(&self) -> usize {
        self.state.borrow().established
    }

    /// Waits until the service can be dialed over this many routers.
    ///
    /// # Errors
    /// When the hosting cannot go on.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn established(&self, terminators: usize) -> Result<()> {
        let mut state = self.state.clone();
        let ready = |state: &HostState| state.established >= terminators || state.over.is_some();
        let state = state.wait_for(ready).await.map_err(|_| closed())?;
        state.over.clone().map_or(Ok(()), Err)
    }

    /// Changes the cost at all routers.
    pub fn set_cost(&self, cost: u16) {
        self.host.set_terms(|terms| terms.cost = cost);
    }

    /// A handle that changes cost and precedence and reports health, while another task accepts.
    #[must_use]
    pub fn terms(&self) -> ListenerTerms {
        ListenerTerms(Arc::clone(&self.host))
    }

    /// The state of the listener, and every change of it.
    #[must_use]
    pub fn changes(&self) -> ListenerChanges {
        let mut state = self.state.clone();
        state.mark_changed();
        ListenerChanges(state)
    }

    /// The last error, while the service cannot be dialed over any router.
    #[must_use]
    pub fn problem(&self) -> Option<Error> {
        self.state.borrow().problem().cloned()
    }

    /// Changes the precedence at all routers.
    pub fn set_precedence(&self, precedence: Precedence) {
        self.host.set_terms(|terms| terms.precedence = precedence);
    }
}

/// Changes cost and precedence of a [`Listener`], and reports its health.
#[derive(Debug, Clone)]
pub struct ListenerTerms(Arc<Host>);

impl ListenerTerms {
    /// Changes cost and precedence at all routers.
    pub fn set(&self, cost: u16, precedence: Precedence) {
        self.0.set_terms(|terms| (terms.cost, terms.precedence) = (cost, precedence));
    }

    /// Reports the result of a health check to the network.
    pub fn report_health(&self, passed: bool) {
        self.0.report_health(passed);
    }
}

/// The state of a [`Listener`], and every change of it.
#[derive(Debug, Clone)]
pub struct ListenerChanges(watch::Receiver<HostState>);

impl ListenerChanges {
    /// The state: at once for the first time, then after a change.
    ///
    /// # Cancel safety
    /// Cancel safe: a state that was not returned is returned by the next call.
    pub async fn next(&mut self) -> ListenerState {
        if self.0.changed().await.is_err() {
            // The listener has ended, which its `accept` reports.
            std::future::pending::<()>().await;
        }
        let state = self.0.borrow_and_update();
        ListenerState { terminators: state.established, problem: state.problem().cloned() }
    }
}

/// The state of a [`Listener`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ListenerState {
    /// The number of routers over which the service can be dialed.
    pub terminators: usize,
    /// The last error, while there is no such router.
    pub problem: Option<Error>,
}

fn closed() -> Error {
    Error::Closed("the listener is closed".to_owned())
}
