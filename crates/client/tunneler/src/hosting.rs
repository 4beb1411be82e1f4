//! A hosted service: binds, connects to applications, and follows their health checks.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use weft_channel::clock::now;
use weft_limits::{FairSemaphore, Full, LogLines, Permit, Quota};
use weft_sdk::{BindOptions, Endpoint, Incoming, Listener, ListenerState, chain};
use weft_tunnel::{
    AppData, CheckOutcome, Connected, CostAndPrecedence, DialingIdentity, HostConfig,
    MOST_CONNECT_TIME, SourceAddresses, shown,
};

use crate::{ServiceTraffic, carry};

/// Most connections of one terminator that are being made at once; further ones wait.
const MOST_DIALS: usize = 1024;
/// Most of these for one dialing identity; further ones are refused.
const MOST_DIALS_OF_DIALER: usize = 256;
/// The first wait after a bind that failed.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait after a bind for which no controller or router was reached: the service is to be hosted
/// within 10 s after they are back.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The longest wait after a bind that was refused.
const LONGEST_REFUSED: Duration = Duration::from_secs(60);

/// The state of a hosted terminator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostState {
    /// The number of routers over which the terminator can be dialed.
    pub terminators: usize,
    /// The present cost and precedence.
    pub terms: CostAndPrecedence,
    /// Why the terminator can be dialed over no router.
    pub problem: Option<String>,
    /// Why the last dialer did not reach the application; absent once one has.
    pub refused: Option<String>,
}

/// A terminator of a service, hosted until the value is dropped. Accepted connections stay open.
#[derive(Debug)]
pub struct HostedTerminator {
    state: watch::Receiver<HostState>,
    _stop: DropGuard,
}

/// The service, and the config that says how to host it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) service: String,
    pub(crate) config: HostConfig,
    pub(crate) instance: String,
    pub(crate) terms: CostAndPrecedence,
    /// Silence after which a conversation in datagrams ends.
    pub(crate) silence: Duration,
    /// The log lines about dialers.
    lines: Arc<Mutex<LogLines>>,
}

impl Plan {
    /// The number of log lines about dialers that were left out, if one is due.
    fn due(&self) -> Option<u64> {
        self.lines.lock().due(now())
    }
}

impl HostedTerminator {
    /// Hosts a service as its config says. Conversations in datagrams end after `silence` to twice that
    /// time without any.
    #[must_use]
    pub fn start(
        endpoint: Endpoint,
        service: impl Into<String>,
        config: HostConfig,
        instance: impl Into<String>,
        terms: CostAndPrecedence,
        silence: Duration,
        traffic: Arc<ServiceTraffic>,
    ) -> Self {
        let (service, instance) = (service.into(), instance.into());
        let lines = Arc::new(Mutex::new(LogLines::new(now())));
        let plan = Arc::new(Plan { service, config, instance, terms, silence, lines });
        let state = watch::Sender::new(HostState { terms, ..HostState::default() });
        let receiver = state.subscribe();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = host(&endpoint, &plan, &state, &traffic) => {}
            }
        });
        Self { state: receiver, _stop: stop.drop_guard() }
    }

    /// The present state.
    #[must_use]
    pub fn state(&self) -> HostState {
        self.state.borrow().clone()
    }

    /// Waits until the terminator can be dialed.
    ///
    /// # Errors
    /// The first problem of hosting.
    pub async fn established(&self) -> Result<(), String> {
        let mut state = self.state.clone();
        let known = state.wait_for(|state| state.terminators > 0 || state.problem.is_some()).await;
        match known.map(|state| state.problem.clone()) {
            Ok(None) => Ok(()),
            Ok(Some(problem)) => Err(problem),
            Err(_) => Err("hosting was stopped".to_owned()),
        }
    }
}

/// Hosts until the future is dropped. A bind that fails is tried again.
async fn host(
    endpoint: &Endpoint,
    plan: &Arc<Plan>,
    state: &watch::Sender<HostState>,
    traffic: &Arc<ServiceTraffic>,
) {
    let sources = plan.config.allowed_sources.as_ref();
    let sources = Arc::new(SourceAddresses::add(sources).await);
    let mut wait = FIRST_WAIT;
    loop {
        let error = match bind(endpoint, plan).await {
            Ok(listener) => {
                wait = FIRST_WAIT;
                serve(listener, plan, &sources, state, traffic).await
            }
            Err(error) => error,
        };
        let problem = chain(&error);
        tracing::warn!(service = %plan.service, problem, "a service is not hosted");
        state.send_modify(|state| {
            state.terminators = 0;
            state.problem = Some(problem);
        });
        let longest = if error.is_temporary() { LONGEST_WAIT } else { LONGEST_REFUSED };
        wait = wait.min(longest);
        tokio::time::sleep(wait).await;
        wait *= 2;
    }
}

async fn bind(endpoint: &Endpoint, plan: &Plan) -> weft_sdk::Result<Listener> {
    let mut options = BindOptions::new()
        .cost(plan.terms.cost)
        .precedence(plan.terms.precedence)
        .max_terminators(plan.config.max_connections);
    options.instance = Some(plan.instance.clone()).filter(|instance| !instance.is_empty());
    endpoint.bind_with(&plan.service, options).await
}

/// Serves a listener until the listener fails, and returns why.
async fn serve(
    mut listener: Listener,
    plan: &Arc<Plan>,
    sources: &Arc<SourceAddresses>,
    state: &watch::Sender<HostState>,
    traffic: &Arc<ServiceTraffic>,
) -> weft_sdk::Error {
    let mut changes = listener.changes();
    let terms = listener.terms();
    let dials = FairSemaphore::new(Quota::new(MOST_DIALS, MOST_DIALS));
    let checks = weft_tunnel::watch(
        plan.terms,
        &plan.config.checks,
        |outcome: CheckOutcome, passed| {
            if let Some(now) = outcome.terms {
                let precedence = now.precedence;
                tracing::info!(service = %plan.service, cost = now.cost, ?precedence, "health checks changed the cost and the precedence of a service");
                terms.set(now.cost, precedence);
                state.send_modify(|state| state.terms = now);
            }
            if outcome.event {
                terms.report_health(passed);
            }
        },
    );
    tokio::pin!(checks);
    let mut checking = true;
    loop {
        tokio::select! {
            incoming = listener.accept() => match incoming {
                Ok(incoming) => {
                    let Some(dial) = place(incoming, &dials, plan, traffic).await else { continue };
                    let (plan, traffic) = (Arc::clone(plan), Arc::clone(traffic));
                    let state = state.clone();
                    // Connections go on when the service is hosted no more.
                    let sources = Arc::clone(sources);
                    tokio::spawn(async move {
                        serve_one(dial, &plan, &state, &traffic).await;
                        drop(sources);
                    });
                }
                Err(error) => return error,
            },
            now = changes.next() => note(&now, &plan.service, state),
            () = &mut checks, if checking => checking = false,
        }
    }
}

/// Notes the state of a listener, and logs when the first router takes it and when none is left.
fn note(now: &ListenerState, service: &str, state: &watch::Sender<HostState>) {
    let problem = now.problem.as_ref().map(|problem| chain(problem));
    let mut before = 0;
    state.send_if_modified(|state| {
        before = std::mem::replace(&mut state.terminators, now.terminators);
        let former = std::mem::replace(&mut state.problem, problem.clone());
        (before, former.as_ref()) != (now.terminators, problem.as_ref())
    });
    match (before, now.terminators) {
        (0, 1..) => tracing::info!(service, routers = now.terminators, "a service is hosted"),
        (1.., 0) => tracing::warn!(
            service,
            problem,
            "a service is hosted over no router now; it waits for one"
        ),
        _ => {}
    }
}

/// Notes whether the last dialer reached the application.
fn reached(state: &watch::Sender<HostState>, refused: Option<String>) {
    state.send_if_modified(|state| {
        let changed = state.refused != refused;
        state.refused = refused;
        changed
    });
}

/// A dial with its place among those whose connections are being made.
struct Dial {
    incoming: Incoming,
    dialer: DialingIdentity,
    place: Permit<DialingIdentity>,
}

/// Gives a dial its place. One whose identity has all of its places is refused. While no place is free, dials wait in the
/// queue of the listener, which has a limit of its own; routers give up dials that wait too long.
async fn place(
    incoming: Incoming,
    dials: &Arc<FairSemaphore<DialingIdentity>>,
    plan: &Plan,
    traffic: &ServiceTraffic,
) -> Option<Dial> {
    let identity = incoming.dialer_identity();
    // Dialers that the router does not tell apart have no shares.
    let most = if identity.is_some() { MOST_DIALS_OF_DIALER } else { MOST_DIALS };
    let dialer = DialingIdentity::new(identity, &plan.service);
    let place = match dials.try_acquire_with(dialer.clone(), |_| most) {
        Ok(place) => place,
        Err(Full::Key(_)) if most < MOST_DIALS => {
            let refusal = format!("{most} connections of its dialer are being made already");
            if let Some(left_out) = plan.due() {
                let caller = caller(&incoming);
                tracing::warn!(service = %plan.service, caller, refusal, left_out, "a dialer was refused");
            }
            traffic.failed();
            incoming.reject(&refusal);
            return None;
        }
        Err(Full::Key(_) | Full::Total) => dials.acquire(dialer.clone()).await?,
    };
    Some(Dial { incoming, dialer, place })
}

/// The verified name of a dialer, if the router tells it, or else what the dialer says of itself.
fn caller(incoming: &Incoming) -> String {
    let name = incoming.dialer_name().map(str::to_owned).or_else(|| incoming.caller_id());
    shown(&name.unwrap_or_default())
}

async fn serve_one(
    dial: Dial,
    plan: &Plan,
    state: &watch::Sender<HostState>,
    traffic: &Arc<ServiceTraffic>,
) {
    let Dial { incoming, dialer, place } = dial;
    let connected = async {
        let data = AppData::parse(incoming.app_data().map_or(&[][..], |data| &data[..]))?;
        // An application may read nothing for as long as it likes.
        plan.config.connect(&dialer, &data, MOST_CONNECT_TIME, None).await
    };
    let connected = connected.await;
    let caller = caller(&incoming);
    let connected = match connected {
        Ok(connected) => connected,
        Err(refusal) => {
            if let Some(left_out) = plan.due() {
                tracing::warn!(service = %plan.service, caller, %refusal, left_out, "a dialer was refused");
            }
            traffic.failed();
            reached(state, Some(refusal.message.clone()));
            return incoming.reject(&refusal.message);
        }
    };
    let connection = match incoming.accept().await {
        Ok(connection) => connection,
        Err(problem) => {
            if let Some(left_out) = plan.due() {
                tracing::warn!(
                    service = %plan.service, caller, problem = chain(&problem), left_out,
                    "a connection of a dialer could not be accepted"
                );
            }
            return traffic.failed();
        }
    };
    drop(place);
    let _open = traffic.opened();
    match connected {
        Connected::Tcp(stream) => {
            reached(state, None);
            carry::tcp(connection, stream, traffic).await;
        }
        Connected::Udp(socket) => {
            let answered = || reached(state, None);
            let carrying =
                carry::application_datagrams(connection, socket, plan.silence, traffic, answered);
            if let Err(problem) = carrying.await {
                if let Some(left_out) = plan.due() {
                    tracing::warn!(
                        service = %plan.service, caller, problem = chain(&problem), left_out,
                        "a conversation in datagrams has ended, because the network refused its \
                         datagrams to the application"
                    );
                }
                traffic.failed();
                reached(state, Some(problem.to_string()));
            }
        }
        Connected::Resolver(names) => carry::client_datagrams(connection, names, traffic).await,
    }
}
