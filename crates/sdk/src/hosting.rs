//! Keeps a listener bound: on several routers, and again after a router or controller was away
//! (docs/protocol/sdk.md 8).
//!
//! One task per listener follows the list of routers. One task per router waits for the router's
//! channel, then for one of the listener's permits (as many as terminators are wanted), binds, and
//! holds the permit while the bind stands. A router that is lost thus makes room for another one at
//! once.

use crate::bind_options::BindOptions;
use crate::channel::{Arrival, ChannelListener, HostEvent, RouterChannel};
use crate::dial::own_keys;
use crate::error::{Error, Failure, Refusal, Result};
use crate::inner::Inner;
use crate::jitter::jittered;
use crate::routers::Slot;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, broadcast, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_contract::entity::DialBind;
use weft_contract::resource::service::ServiceDetail;
use weft_e2e::KeyPair;
use weft_wire::ctrl::TerminatorPrecedence as Precedence;
use weft_wire::edge::{Bind, HealthEvent, UpdateBind, header};

/// Time limit for a router's answer to a bind.
const ACCEPT_TIME: Duration = Duration::from_secs(5);
/// Time limit until the listener can be dialed over the router.
const ESTABLISH_TIME: Duration = Duration::from_secs(60);
/// Most results of health checks that wait for a router; older ones are dropped.
const HEALTH_QUEUE: usize = 16;
/// The first wait after a bind was refused.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// The longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long a router may deny a bind before it refuses the listener for good: its data model may be
/// older than the service session.
const PATIENCE: Duration = Duration::from_secs(10);

/// A listener, with all that is needed to bind it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) service: Arc<ServiceDetail>,
    /// The key pair for all of its connections, if the service requires encryption.
    pub(crate) keys: Option<KeyPair>,
    options: BindOptions,
    listener_id: Bytes,
    dials: mpsc::Sender<Arrival>,
    permits: Semaphore,
    state: watch::Sender<HostState>,
    terms: watch::Sender<Terms>,
    /// Results of health checks, for all routers.
    health: broadcast::Sender<bool>,
    /// The routers that refuse the listener for good, by name, with their errors.
    refusing: Mutex<HashMap<String, Error>>,
    /// Notified when the routers or the session may have changed.
    rescan: Notify,
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

/// How a bind ended.
enum BindEnd {
    /// The router's channel closed, or the router did not answer in time.
    Lost(String),
    /// The router refused the bind, or ended it.
    Closed(Failure),
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
            permits: Semaphore::new(options.max_terminators.max(1)),
            state: watch::Sender::default(),
            terms: watch::Sender::new(terms),
            health: broadcast::Sender::new(HEALTH_QUEUE),
            refusing: Mutex::default(),
            rescan: Notify::new(),
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
            if let Err(error) = self.follow_routers(&inner).await {
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

    /// Runs a task for each router. Ends with an error that stays until an operator changes
    /// something: an error of the controller, or that of a router if every router refuses for good.
    async fn follow_routers(self: &Arc<Self>, inner: &Arc<Inner>) -> Result<()> {
        let mut tasks: JoinSet<(String, Result<()>)> = JoinSet::new();
        let mut running: HashMap<String, ()> = HashMap::new();
        let mut failures = 0;
        loop {
            let known = match running.is_empty() {
                true => inner.account.session(&self.service, DialBind::Bind).await,
                false => inner.account.session_now(&self.service, DialBind::Bind).await,
            };
            // A known session may have been read before it had a router.
            let read = match known {
                Ok(session) if session.edge_routers.is_empty() => {
                    inner.account.session_now(&self.service, DialBind::Bind).await
                }
                known => known,
            };
            let wait = match read {
                Ok(session) => {
                    failures = 0;
                    for slot in inner.want(&session.edge_routers) {
                        if running.insert(slot.name().to_owned(), ()).is_none() {
                            let (host, inner) = (Arc::clone(self), Arc::clone(inner));
                            tasks.spawn(async move {
                                let done = host.bind_on(&inner, &slot).await;
                                (slot.name().to_owned(), done)
                            });
                        }
                    }
                    if running.is_empty() {
                        self.note(Error::NoEdgeRouters {
                            service: self.service.name.clone(),
                            reason: "the controller names none; check its edge router policies"
                                .to_owned(),
                        });
                        LONGEST_WAIT
                    } else {
                        if let Some(error) = self.refused_by_all(&running) {
                            return Err(error);
                        }
                        inner.settings.refresh_interval
                    }
                }
                Err(error) if error.is_final() && self.state.borrow().established == 0 => {
                    return Err(error);
                }
                Err(error) => {
                    self.note(error);
                    failures += 1;
                    wait(failures)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(jittered(wait)) => {}
                () = self.rescan.notified() => {}
                Some(Ok((name, done))) = tasks.join_next() => {
                    running.remove(&name);
                    self.refusing.lock().remove(&name);
                    done?;
                }
            }
        }
    }

    /// The error of one of these routers, if all of them refuse the listener for good.
    fn refused_by_all(&self, routers: &HashMap<String, ()>) -> Option<Error> {
        let refusing = self.refusing.lock();
        let all = routers.keys().all(|name| refusing.contains_key(name));
        refusing.values().next().filter(|_| all).cloned()
    }

    /// Binds on one router repeatedly. Returns `Ok` when the router is not used any more.
    async fn bind_on(&self, inner: &Arc<Inner>, slot: &Slot) -> Result<()> {
        let mut failures = 0;
        let mut denials = Denials::default();
        while let Some(channel) = slot.connected().await {
            let permit = tokio::select! {
                permit = self.permits.acquire() => permit,
                _ = channel.handle().closed() => continue,
            };
            let Ok(permit) = permit else { return Ok(()) };
            let since = Instant::now();
            let ended = match inner.account.session(&self.service, DialBind::Bind).await {
                Ok(session) => {
                    let token = Bytes::from(session.token.clone());
                    let mut counted =
                        Established { host: self, router: slot.name(), counted: false };
                    let ended = self.bind_once(inner, &channel, token, &mut counted).await;
                    if counted.counted {
                        denials = Denials::default();
                    }
                    ended
                }
                Err(error) if error.is_final() => return Err(error),
                Err(error) => BindEnd::Lost(error.to_string()),
            };
            drop(permit);
            let good = since.elapsed() >= LONGEST_WAIT;
            failures = if good { 0 } else { failures + 1 };
            let name = &self.service.name;
            let mut pause = wait(failures);
            match ended {
                BindEnd::Lost(reason) => {
                    tracing::debug!(service = %name, router = %slot.name(), reason, "a bind at a router has ended");
                    self.note(Error::Closed(reason));
                    if channel.handle().is_closed() {
                        // The channel has a backoff of its own.
                        continue;
                    }
                }
                BindEnd::Closed(failure) => {
                    tracing::debug!(service = %name, router = %slot.name(), %failure, "a router refused or ended a bind");
                    let is_denied_for_good = match &failure {
                        Failure::Refused(refusal) => denials.take(refusal, Instant::now()),
                        Failure::Channel(_) => false,
                    };
                    let error = self.refused(inner, failure).await;
                    if is_denied_for_good {
                        self.refusing.lock().insert(slot.name().to_owned(), error);
                        self.rescan.notify_one();
                        pause = inner.settings.refresh_interval;
                    }
                }
            }
            tokio::time::sleep(jittered(pause)).await;
        }
        Ok(())
    }

    /// A router refused the bind or ended it. Returns the error, which is noted.
    async fn refused(&self, inner: &Inner, failure: Failure) -> Error {
        let stale = matches!(&failure, Failure::Refused(refusal) if refusal.is_stale_session());
        let error = Error::of_failure(&self.service.name, failure);
        if stale {
            // A new session shows if the service may still be hosted.
            inner.account.forget_session(&self.service.base.id, DialBind::Bind);
            if let Err(problem) = inner.account.check_session().await {
                self.note(problem);
            }
            self.rescan.notify_one();
        }
        self.note(error.clone());
        error
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
            instance: self.options.instance.clone(),
            instance_secret: None,
            listener_id: Some(self.listener_id.clone()),
            supports_inspect: true,
            supports_bind_success: true,
            use_xgress,
            router_conn_ids: true,
        }
    }

    fn note(&self, error: Error) {
        self.state.send_modify(|state| state.problem = Some(error));
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

/// The denials of one router since its last bind that was established.
#[derive(Debug, Default)]
struct Denials {
    since: Option<Instant>,
}

impl Denials {
    /// Takes a refusal. True if the router refuses the listener for good.
    fn take(&mut self, refusal: &Refusal, now: Instant) -> bool {
        if refusal.is_stale_session() || !refusal.is_final() {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        !refusal.may_pass() || now.saturating_duration_since(since) >= PATIENCE
    }
}

/// Counts a bind among the established ones until dropped.
struct Established<'a> {
    host: &'a Host,
    router: &'a str,
    counted: bool,
}

impl Established<'_> {
    fn count(&mut self) {
        if !std::mem::replace(&mut self.counted, true) {
            self.host.refusing.lock().remove(self.router);
            self.host.state.send_modify(|state| {
                state.established += 1;
                state.problem = None;
            });
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

/// The wait after this many failures in a row.
fn wait(failures: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::edge::{ErrorCode, RetryHint};

    #[test]
    fn a_router_may_deny_a_bind_for_a_while() {
        let refusal = |code: ErrorCode, hint: RetryHint| Refusal {
            code: code.0,
            retry_hint: hint.0,
            ..Refusal::default()
        };
        let denied = refusal(ErrorCode::ACCESS_DENIED, RetryHint::DEFAULT);
        let busy = refusal(ErrorCode::INTERNAL, RetryHint::TOO_BUSY);
        let (start, mut denials) = (Instant::now(), Denials::default());
        assert!(!denials.take(&denied, start));
        assert!(!denials.take(&denied, start + PATIENCE / 2));
        assert!(denials.take(&denied, start + PATIENCE));
        // Another refusal begins the time anew.
        assert!(!denials.take(&busy, start + PATIENCE));
        assert!(!denials.take(&denied, start + PATIENCE));
        for never in [
            refusal(ErrorCode::ACCESS_DENIED, RetryHint::NOT_RETRIABLE),
            refusal(ErrorCode::INVALID_INSTANCE_ID, RetryHint::DEFAULT),
        ] {
            assert!(Denials::default().take(&never, start));
        }
    }
}
