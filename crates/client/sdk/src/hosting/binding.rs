//! One bind of a listener at one router, from the request to its end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast;
use tokio::time::Instant;
use weft_contract::entity::DialBind;
use weft_e2e::KeyPair;
use weft_wire::edge::{Bind, HealthEvent, UpdateBind, header};

use super::host::{Host, HostState, Terms};
use crate::channel::{ChannelListener, HostEvent, RouterChannel};
use crate::error::{Error, Failure};
use crate::inner::Inner;
use crate::routers::Slot;

/// Time limit for a router's answer to a bind.
const ACCEPT_TIME: Duration = Duration::from_secs(5);
/// Time limit until the listener can be dialed over the router.
const ESTABLISH_TIME: Duration = Duration::from_secs(60);

/// How a bind ended.
pub(super) enum BindEnd {
    /// There is no service session: the controller refused it, or was not reached.
    NoSession(Error),
    /// The router's channel closed, or the router did not answer in time.
    Lost(String),
    /// The router refused the bind, or ended it.
    Closed(Failure),
}

impl BindEnd {
    /// The error that the application is told.
    fn problem(&self, service: &str, router: &str) -> Error {
        match self {
            Self::NoSession(error) => error.clone(),
            Self::Lost(reason) => Error::Closed(format!("router {router}: {reason}")),
            Self::Closed(failure) => Error::of_failure(service, failure.clone()),
        }
    }
}

/// A bind that has ended.
pub(super) struct Bound {
    pub(super) slot: Arc<Slot>,
    /// True if the listener could be dialed over the router.
    pub(super) was_established: bool,
    pub(super) lasted: Duration,
    /// True if the router's channel is closed.
    pub(super) is_cut: bool,
    pub(super) how: BindEnd,
    /// The error that the application is told.
    pub(super) problem: Error,
}

impl Host {
    /// Binds on a router, and stays until the bind ends.
    pub(super) async fn bind_on(
        self: Arc<Self>,
        inner: Arc<Inner>,
        slot: Arc<Slot>,
        channel: Arc<RouterChannel>,
    ) -> Bound {
        let since = Instant::now();
        let mut counted = Established { host: &self, counted: false };
        let how = match inner.account.session(&self.service, DialBind::Bind).await {
            Ok(session) => {
                let token = Bytes::from(session.token.clone());
                self.bind_once(&inner, &channel, token, &mut counted).await
            }
            Err(error) => BindEnd::NoSession(error),
        };
        let was_established = counted.counted;
        let problem = how.problem(&self.service.name, slot.name());
        // The reason is there before the listener counts as one that cannot be dialed.
        self.note(problem.clone());
        drop(counted);
        let is_cut = channel.handle().is_closed();
        Bound { slot, was_established, lasted: since.elapsed(), is_cut, how, problem }
    }

    /// Binds once, and stays until the bind ends.
    async fn bind_once(
        &self,
        inner: &Inner,
        channel: &RouterChannel,
        token: Bytes,
        counted: &mut Established<'_>,
    ) -> BindEnd {
        let (mut terms, mut health) = (self.terms.subscribe(), self.health.subscribe());
        let current = *terms.borrow_and_update();
        let bind = self.bind_message(token.clone(), current, inner.settings.own_flow_control);
        let mut hosted = match channel.host(bind, self.dials.clone()).await {
            Ok(hosted) => hosted,
            Err(failure) => return BindEnd::Closed(failure),
        };
        match next_event(&mut hosted, ACCEPT_TIME).await {
            Ok(HostEvent::Accepted) => {}
            Ok(HostEvent::Established) => counted.count(),
            Ok(HostEvent::Closed(refusal)) => return BindEnd::Closed(Failure::Refused(refusal)),
            Err(ended) => return ended,
        }
        let confirms =
            channel.handle().peer().headers.get_bool(header::SUPPORTS_BIND_SUCCESS) == Some(true);
        if !confirms {
            counted.count();
        }
        let mut limit = Some(Instant::now() + ESTABLISH_TIME).filter(|_| !counted.counted);
        loop {
            let late = async {
                match limit {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = hosted.events.recv() => match event {
                    Some(HostEvent::Closed(refusal)) => {
                        return BindEnd::Closed(Failure::Refused(refusal));
                    }
                    Some(HostEvent::Established) => {
                        counted.count();
                        limit = None;
                    }
                    Some(HostEvent::Accepted) => {}
                    None => return BindEnd::Lost("the router is gone".to_owned()),
                },
                Ok(()) = terms.changed() => {
                    let Terms { cost, precedence } = *terms.borrow_and_update();
                    let update = UpdateBind {
                        conn_id: hosted.conn_id(),
                        token: token.clone(),
                        cost: Some(cost),
                        precedence: Some(precedence),
                    };
                    if channel.handle().send(update.to_message()).await.is_err() {
                        return BindEnd::Lost("the router is gone".to_owned());
                    }
                }
                passed = next_health(&mut health) => {
                    let (conn_id, token) = (hosted.conn_id(), token.clone());
                    let event = HealthEvent { conn_id, token, passed };
                    if channel.handle().send(event.to_message()).await.is_err() {
                        return BindEnd::Lost("the router is gone".to_owned());
                    }
                }
                () = late => return BindEnd::Lost("the bind was not established in time".to_owned()),
            }
        }
    }

    fn bind_message(&self, token: Bytes, terms: Terms, use_xgress: bool) -> Bind {
        let key = self.keys.as_ref().map(KeyPair::public_key);
        Bind {
            conn_id: 0,
            token,
            public_key: key.map(|key| Bytes::copy_from_slice(key.as_bytes())),
            cost: terms.cost,
            precedence: terms.precedence,
            instance: self.options.instance.clone().unwrap_or_default(),
            instance_secret: None,
            listener_id: Some(self.listener_id.clone()),
            supports_inspect: true,
            supports_bind_success: true,
            use_xgress,
            router_conn_ids: true,
        }
    }
}

/// The router's next report.
async fn next_event(
    hosted: &mut ChannelListener<'_>,
    limit: Duration,
) -> Result<HostEvent, BindEnd> {
    match tokio::time::timeout(limit, hosted.events.recv()).await {
        Ok(Some(event)) => Ok(event),
        Ok(None) => Err(BindEnd::Lost("the router is gone".to_owned())),
        Err(_) => Err(BindEnd::Lost("the router did not answer the bind in time".to_owned())),
    }
}

/// The next result of a health check: the newest one if results were dropped meanwhile.
async fn next_health(health: &mut broadcast::Receiver<bool>) -> bool {
    loop {
        match health.recv().await {
            Ok(passed) => return passed,
            Err(broadcast::error::RecvError::Lagged(_)) => {
                let mut newest = None;
                while let Ok(passed) = health.try_recv() {
                    newest = Some(passed);
                }
                if let Some(newest) = newest {
                    return newest;
                }
            }
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Counts a bind among the established ones until dropped.
struct Established<'a> {
    host: &'a Host,
    counted: bool,
}

impl Established<'_> {
    fn count(&mut self) {
        if !std::mem::replace(&mut self.counted, true) {
            self.host.state.send_modify(HostState::bound);
        }
    }
}

impl Drop for Established<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.host.state.send_modify(|state| {
                state.established = state.established.saturating_sub(1);
            });
        }
    }
}
