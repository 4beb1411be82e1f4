//! Dials routers that cannot dial this controller (docs/protocol/control-plane.md 23).
//!
//! The address comes from the router itself or from an operator, and proves nothing. The peer that
//! answers has to prove (`dialer::proof`) that it is the router; until then the peer learns only who
//! calls. A connected router is not dialed, whichever side dialed it. A channel from a dial never replaces
//! an open one.

mod attempts;
mod proof;

use std::sync::Arc;
use std::time::{Duration, Instant};

use attempts::{Attempts, Pace};
use hashbrown::HashMap;
use parking_lot::Mutex;
use proof::Proved;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use weft_channel::{ChannelOptions, DialError, DialOptions, Established, GroupPolicy, dial};
use weft_config::controller::ControlDialer;
use weft_config::show_duration;
use weft_identity::tls::{ClientTls, client_config};
use weft_identity::{Certificate, LiveIdentity, PublicKey};
use weft_kernel::Notice;
use weft_model::entity::Router;
use weft_model::{Change, Entity, Id, Kind, Snapshot};
use weft_network::ctrl_listeners;
use weft_network::routers::LiveRouter;
use weft_wire::ctrl::RouterHello;
use weft_wire::hello::{Hello, HelloResult, alpn};
use weft_wire::{Address, Headers};

use super::renewal;
use super::session::RouterSession;
use crate::admitted::admitted;
use crate::control_plane::ControlPlane;
use crate::plane::Plane;

/// The interval at which due dials are looked for.
const LOOK: Duration = Duration::from_millis(250);
/// Time between the first dials.
const SPREAD: Duration = Duration::from_millis(50);
/// Longest part of a stranger's name that is logged, in characters.
const MAX_SHOWN: usize = 64;
/// One failure in this many in a row is logged.
const COMPLAIN: u32 = 60;

/// The options for dialing routers.
#[derive(Debug, Clone)]
pub struct DialerOptions {
    /// Groups of listeners: a router's listener must be in one of them.
    pub groups: Vec<String>,
    /// Wait before the first dial.
    pub dial_delay: Duration,
    /// Shortest wait after a failure.
    pub min_retry_interval: Duration,
    /// Longest wait after a failure.
    pub max_retry_interval: Duration,
    /// The factor from one wait to the next, varied by up to a half.
    pub retry_backoff_factor: f64,
    /// A connection that ends within this time counts as a failed dial.
    pub fast_failure_window: Duration,
    /// Most dials at once.
    pub max_workers: usize,
    /// Most dials that wait. Further ones are delayed, as after a failure.
    pub queue_size: usize,
}

impl From<&ControlDialer> for DialerOptions {
    fn from(config: &ControlDialer) -> Self {
        Self {
            groups: config.groups.clone(),
            dial_delay: config.dial_delay,
            min_retry_interval: config.min_retry_interval,
            max_retry_interval: config.max_retry_interval,
            retry_backoff_factor: config.retry_backoff_factor,
            fast_failure_window: config.fast_failure_window,
            max_workers: config.max_workers as usize,
            queue_size: config.queue_size as usize,
        }
    }
}

impl DialerOptions {
    /// The options and the attempts, as an inspection shows them (docs/protocol/operations.md 3).
    fn shown(&self, routers: &HashMap<Id, Attempts>) -> Value {
        let now = Instant::now();
        let mut all: Vec<_> = routers.iter().collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        let all: Vec<Value> = all.into_iter().map(|(id, one)| one.shown(id, now)).collect();
        json!({
            "enabled": true,
            "config": {
                "groups": self.groups,
                "dialDelay": show_duration(self.dial_delay),
                "minRetryInterval": show_duration(self.min_retry_interval),
                "maxRetryInterval": show_duration(self.max_retry_interval),
                "retryBackoffFactor": self.retry_backoff_factor,
                "fastFailureWindow": show_duration(self.fast_failure_window),
                "queueSize": self.queue_size,
                "maxWorkers": self.max_workers,
            },
            "routers": all,
        })
    }
}

impl ControlPlane {
    /// Starts to dial routers, with this identity.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn dial_routers(
        &self,
        identity: &Arc<LiveIdentity>,
        options: DialerOptions,
    ) -> weft_identity::Result<()> {
        let tls = Arc::new(client_config(&ClientTls::of_identity(identity, &[]))?);
        let pace = Pace {
            min: options.min_retry_interval,
            max: options.max_retry_interval,
            factor: options.retry_backoff_factor,
            fast_failure: options.fast_failure_window,
        };
        let (outcomes, ended) = mpsc::channel(options.max_workers.max(1));
        let outbound = Arc::new(Outbound { plane: Arc::clone(&self.0), tls });
        let routers = Arc::<Mutex<HashMap<Id, Attempts>>>::default();
        let (shown, said) = (Arc::clone(&routers), options.clone());
        self.0.network.shows("ctrl-dialer", move || said.shown(&shown.lock()));
        let dialer = Dialer { outbound, options, pace, routers, busy: 0, outcomes };
        let stop = self.0.stop.clone();
        self.0.network.spawn(async move {
            let _ = stop.run_until_cancelled(dialer.run(ended)).await;
        });
        Ok(())
    }
}

/// The outcome of a dial: the router, and whether it is connected by it.
type Outcome = (Id, bool);

/// The task that dials routers.
struct Dialer {
    outbound: Arc<Outbound>,
    options: DialerOptions,
    pace: Pace,
    /// The attempts, shared with inspections.
    routers: Arc<Mutex<HashMap<Id, Attempts>>>,
    /// Number of dials under way.
    busy: usize,
    outcomes: mpsc::Sender<Outcome>,
}

impl Dialer {
    async fn run(mut self, mut ended: mpsc::Receiver<Outcome>) {
        tokio::time::sleep(self.options.dial_delay).await;
        let (snapshot, mut changes) = self.outbound.plane.auth.kernel().subscribe();
        self.take(&snapshot);
        drop(snapshot);
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                notice = changes.next() => match notice {
                    Some(notice) => self.changed(notice),
                    None => return,
                },
                Some((router, is_connected)) = ended.recv() => {
                    self.busy -= 1;
                    let mut routers = self.routers.lock();
                    let Some(attempts) = routers.get_mut(&router) else { continue };
                    match is_connected {
                        true => attempts.connected(Instant::now()),
                        false => attempts.failed(Instant::now(), &self.pace, rand::random()),
                    }
                }
                _ = ticks.tick() => self.dial_due(),
            }
        }
    }

    fn changed(&mut self, notice: Notice) {
        match notice {
            Notice::Change(published) => {
                for change in published.changes.iter().flat_map(|set| &set.changes) {
                    match change {
                        Change::Put(Entity::Router(router)) => {
                            self.consider(router, Instant::now());
                        }
                        Change::Delete(Kind::Router, id) => drop(self.routers.lock().remove(id)),
                        _ => {}
                    }
                }
            }
            Notice::Resync(snapshot) => {
                self.routers.lock().retain(|id, _| snapshot.get::<Router>(id).is_some());
                self.take(&snapshot);
            }
        }
    }

    /// Takes all routers of a snapshot, with first dials spread over time.
    fn take(&mut self, snapshot: &Snapshot) {
        let mut first = Instant::now();
        for router in snapshot.list::<Router>() {
            if self.consider(router, first) {
                first += SPREAD;
            }
        }
    }

    /// Considers a router; true if it is new and is to be dialed.
    fn consider(&self, router: &Router, first: Instant) -> bool {
        let id = &router.base.id;
        let is_there = !router.disabled && router.fingerprint.is_some();
        let addresses = ctrl_listeners::dialable(router, &self.options.groups);
        let mut routers = self.routers.lock();
        if !is_there || addresses.is_empty() {
            // The outcome of a dial under way is ignored then.
            routers.remove(id);
            return false;
        }
        if let Some(attempts) = routers.get_mut(id) {
            attempts.set_addresses(addresses);
            return false;
        }
        routers.insert(id.clone(), Attempts::new(addresses, first));
        true
    }

    /// Begins due dials, the oldest first, as many as are allowed. As many as the queue holds may
    /// wait.
    fn dial_due(&mut self) {
        if self.outbound.plane.auth.is_outdated() {
            return;
        }
        let (now, live) = (Instant::now(), self.outbound.plane.network.routers());
        let mut due: Vec<(Instant, Id)> = Vec::new();
        let mut routers = self.routers.lock();
        for (id, attempts) in routers.iter_mut() {
            let connected = live.get(id.as_str()).is_some_and(|live| !live.channel.is_closed());
            if let Some(since) = attempts.look(connected, now, &self.pace, rand::random()) {
                due.push((since, id.clone()));
            }
        }
        due.sort_unstable();
        let room = self.options.max_workers.saturating_sub(self.busy);
        for (_, id) in due.iter().skip(room + self.options.queue_size) {
            if let Some(attempts) = routers.get_mut(id) {
                attempts.put_off(now, &self.pace, rand::random());
            }
        }
        due.truncate(room);
        for (_, id) in due {
            let Some(attempts) = routers.get_mut(&id) else { continue };
            let (failures, Some(address)) = (attempts.failures(), attempts.begin()) else {
                continue;
            };
            self.busy += 1;
            let (outbound, outcomes) = (Arc::clone(&self.outbound), self.outcomes.clone());
            self.outbound.plane.network.spawn(async move {
                let reached = outbound.reach(&id, &address).await;
                if let Err(problem) = &reached {
                    complain(&id, problem, failures);
                }
                let _ = outcomes.send((id, reached.is_ok())).await;
            });
        }
    }
}

/// Logs the first failure in a row, and then one from time to time.
fn complain(router: &Id, problem: &Unreached, failures: u32) {
    if failures.is_multiple_of(COMPLAIN) {
        tracing::warn!(%router, %problem, failures, "a router could not be dialed; it is tried again");
    } else {
        tracing::debug!(%router, %problem, failures, "a router could not be dialed; it is tried again");
    }
}

/// Why a router was not reached.
#[derive(Debug, thiserror::Error)]
enum Unreached {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("the router is not to be dialed any more")]
    Gone,
    #[error("the peer at {0} names itself {1:?}, which is not the router")]
    Other(Address, String),
    #[error("the peer at {0} has not proved that it is the router: {1}")]
    Unproved(Address, String),
    #[error("the router at {0} does not say its version")]
    NoVersion(Address),
    #[error("the router has connected meanwhile, or may not")]
    Refused,
}

/// The parts that a dial needs.
struct Outbound {
    plane: Arc<Plane>,
    tls: Arc<rustls::ClientConfig>,
}

impl Outbound {
    /// Dials a router, and serves the channel if the peer proves that it is the router.
    async fn reach(&self, id: &Id, address: &Address) -> Result<(), Unreached> {
        let plane = &self.plane;
        let channel = dial(self.options(id, address)).await?;
        let peer = channel.peer();
        let called = peer.id.as_deref().unwrap_or_default();
        if called != id.as_str() {
            let shown = called.chars().take(MAX_SHOWN).collect();
            return Err(Unreached::Other(address.clone(), shown));
        }
        let snapshot = plane.auth.kernel().snapshot();
        let router = snapshot.get::<Router>(id).ok_or(Unreached::Gone)?;
        let proved = proof::prove(router, &peer.certificates)
            .map_err(|reason| Unreached::Unproved(address.clone(), reason))?;
        admitted(&snapshot, id.as_str(), |known| known == proved.fingerprint())
            .map_err(|reason| Unreached::Unproved(address.clone(), reason))?;
        let live = live(plane, id, &channel, &proved);
        let live = Arc::new(live.ok_or_else(|| Unreached::NoVersion(address.clone()))?);
        RouterSession::begin(plane, Arc::clone(&live), channel);
        if !plane.network.routers().is_current(&live) {
            return Err(Unreached::Refused);
        }
        if let Proved::Waiting(leaf) = proved {
            let seen = renewal::confirm_seen(plane.auth.clone(), id.clone(), leaf);
            plane.network.spawn(seen);
        }
        Ok(())
    }

    fn options(&self, id: &Id, address: &Address) -> DialOptions {
        let plane = &self.plane;
        let mut hello = Hello::new(plane.auth.kernel().settings().id.as_str());
        let headers: Headers = plane.headers();
        for (key, value) in &headers {
            hello.headers.set(key, value);
        }
        let channel: ChannelOptions = plane.channel_options(format!("router [{id}] at {address}"));
        // The router opens no further connections, because it did not dial.
        let group = GroupPolicy { max_total: 1, ..GroupPolicy::control_listener() };
        let tls = Arc::clone(&self.tls);
        DialOptions {
            told_by: Some(id.to_string()),
            timeout: plane.options.hello_timeout,
            group: Some(group),
            ..DialOptions::new(address.clone(), tls, alpn::CTRL, hello, channel)
        }
    }
}

/// The router, from its answer; none if the answer has no version.
fn live(plane: &Plane, id: &Id, channel: &Established, proved: &Proved) -> Option<LiveRouter> {
    let headers = channel.peer().headers.clone();
    let answer = HelloResult { success: true, text: String::new(), headers };
    let said = RouterHello::from_result(&answer);
    let now = plane.auth.kernel().now();
    let leaf = channel.peer().leaf().cloned().and_then(|leaf| Certificate::from_der(leaf).ok());
    let key = leaf.and_then(|leaf| leaf.public_key().ok().map(PublicKey::print));
    LiveRouter::new(id.clone(), channel.handle(), said, (proved.fingerprint(), key), now)
}
