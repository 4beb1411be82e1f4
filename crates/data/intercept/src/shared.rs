//! The state that the parts of an interceptor share.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::timeout;
use weft_limits::{FairSemaphore, Quota, TokenBucket};

use crate::carry::{Arrival, Carry};
use crate::conversations::Conversations;
use crate::options::Options;
use crate::service::Protocol;
use crate::state::{Changes, Naming, Revision, State};

/// Most requests that wait for the firewall; questions for further names are refused.
const MOST_WAITING: usize = 4_096;
/// Longest wait of a DNS question for the firewall; most programs ask again after this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Names that may be assigned an address per second, and at once, for all clients together.
const NAMING: (f64, u32) = (200.0, 2_000);

/// The state that the parts of an interceptor share.
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) pending: Mutex<Pending>,
    pub(crate) changed: Notify,
    pub(crate) in_firewall: watch::Sender<InFirewall>,
    pub(crate) places: Arc<FairSemaphore<IpAddr>>,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) carry: Arc<dyn Carry>,
    /// The addresses of names of services.
    pub(crate) range: IpNet,
    /// The source address of this machine's programs when they use names of services.
    own: IpAddr,
    naming: Mutex<TokenBucket>,
    complaints: Mutex<TokenBucket>,
    kept_quiet: AtomicU64,
}

/// The part of the state that the firewall has.
#[derive(Debug, Default)]
pub(crate) struct InFirewall {
    /// The last revision of the state whose rules are there; 0 while rules are missing.
    pub(crate) revision: Revision,
    /// Addresses that are not diverted, because all calls of the program for them failed.
    pub(crate) undiverted: HashSet<IpAddr>,
}

impl InFirewall {
    fn has(&self, address: IpAddr, revision: Revision) -> bool {
        self.revision >= revision && !self.undiverted.contains(&address)
    }
}

/// Why a client is not told the address of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Untold {
    /// The name has no address.
    Unassigned,
    /// The firewall did not have the address in time.
    Late,
}

/// Changes that the firewall does not have yet, and the requests that wait for them.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) changes: Changes,
    pub(crate) waiting: Vec<oneshot::Sender<bool>>,
    /// True once nothing keeps the firewall any more.
    is_over: bool,
}

impl Pending {
    /// Takes the changes and the requests out.
    pub(crate) fn take(&mut self) -> Self {
        let is_over = self.is_over;
        std::mem::replace(self, Self { is_over, ..Self::default() })
    }

    /// Ends the waits of all requests, and of those that come later.
    pub(crate) fn end(&mut self) {
        *self = Self { is_over: true, ..Self::default() };
    }

    /// Queues changes, and the request that waits for them.
    fn add(&mut self, changes: Changes, waiting: oneshot::Sender<bool>) {
        if !self.is_over {
            self.changes.then(changes);
            self.waiting.push(waiting);
        }
    }
}

impl Shared {
    pub(crate) fn new(options: &Options, carry: Arc<dyn Carry>, per_source: bool) -> Self {
        let only_file = options.hosts_file.is_some() && options.dns.is_none();
        let now = Instant::now();
        let kept = options.keep_names.clone();
        let limits = options.limits;
        let state = State::new(options.names, limits, kept).per_source(per_source);
        Self {
            state: Mutex::new(state.without(only_file, options.diverter.is_some())),
            pending: Mutex::default(),
            changed: Notify::new(),
            in_firewall: watch::Sender::default(),
            places: FairSemaphore::new(Quota::new(
                limits.connections,
                limits.connections_per_source,
            )),
            conversations: Conversations::new(options),
            carry,
            range: options.names.trunc(),
            own: options.names.addr(),
            naming: Mutex::new(TokenBucket::new(NAMING.0, NAMING.1, now)),
            complaints: Mutex::new(TokenBucket::every(Duration::from_secs(10), 5, now)),
            kept_quiet: AtomicU64::new(0),
        }
    }

    /// Changes the state. The future resolves when the firewall has the change: true if it does. It
    /// fails once nothing keeps the firewall any more.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> (T, Changes),
    ) -> (T, oneshot::Receiver<bool>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        state.begin();
        let (outcome, changes) = change(&mut state);
        // Under the lock of the state, so that changes are queued in their order.
        self.pending.lock().add(changes, sender);
        drop(state);
        self.changed.notify_one();
        (outcome, receiver)
    }

    pub(crate) fn naming(&self, name: &str) -> Naming {
        self.state.lock().naming(name, Instant::now())
    }

    /// The service whose host a client may ask for records of a name.
    pub(crate) fn host_of(&self, name: &str, client: IpAddr) -> Option<Arc<str>> {
        let client = client.to_canonical();
        let client = if client.is_loopback() { self.own } else { client };
        self.state.lock().host_of(name, client)
    }

    /// True if the firewall has a name's address, with the name's last claim in this revision of the state.
    pub(crate) fn is_in_firewall(&self, address: IpAddr, revision: Revision) -> bool {
        self.in_firewall.borrow().has(address, revision)
    }

    /// The address of a name that has one, once the firewall has it.
    pub(crate) async fn known(&self, name: &str) -> Result<IpAddr, Untold> {
        let mut firewall = self.in_firewall.subscribe();
        let waiting = async {
            loop {
                let Naming::Known(address, revision) = self.naming(name) else {
                    return Err(Untold::Unassigned);
                };
                if firewall.borrow_and_update().has(address, revision) {
                    return Ok(address);
                }
                firewall.changed().await.map_err(|_| Untold::Late)?;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or(Err(Untold::Late))
    }

    /// The address of a name below a wildcard, once the firewall has it.
    pub(crate) async fn assign(&self, name: &str) -> Result<IpAddr, Untold> {
        let now = Instant::now();
        let room = self.pending.lock().waiting.len() < MOST_WAITING;
        if !room || !self.naming.lock().try_take(1, now) {
            self.complain(|| {
                tracing::warn!("clients ask for too many names at once; some questions are refused")
            });
            return Err(Untold::Unassigned);
        }
        let in_use = || self.conversations.destinations();
        let (assigned, _changed) = self.change(|state| state.assign(name, now, in_use));
        if let Err(problem) = assigned {
            self.complain(|| tracing::warn!(name, %problem, "a name gets no address"));
            return Err(Untold::Unassigned);
        }
        self.known(name).await
    }

    /// The service and the destination of an intercepted client.
    pub(crate) fn arrival(
        &self,
        protocol: Protocol,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Option<Arrival> {
        let found = self.state.lock().find(protocol, source.ip(), destination, Instant::now());
        let Some((plan, hostname)) = found else {
            tracing::debug!(%protocol, %source, %destination, "intercepted for no service");
            return None;
        };
        let service = Arc::clone(&plan.id);
        Some(Arrival { service, protocol, source, destination, hostname })
    }

    /// Logs a message that a flood would repeat, at most once in an interval.
    pub(crate) fn complain(&self, say: impl FnOnce()) {
        if !self.complaints.lock().try_take(1, Instant::now()) {
            self.kept_quiet.fetch_add(1, Ordering::Relaxed);
            return;
        }
        say();
        let quiet = self.kept_quiet.swap(0, Ordering::Relaxed);
        if quiet > 0 {
            tracing::warn!(quiet, "warnings were left out of the log");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_firewall_that_nothing_keeps() {
        let mut pending = Pending::default();
        let (sender, mut first) = oneshot::channel();
        pending.add(Changes::default(), sender);
        assert_eq!(first.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        drop(pending.take());
        let (sender, mut second) = oneshot::channel();
        pending.add(Changes::default(), sender);
        pending.end();
        let (sender, mut late) = oneshot::channel();
        pending.add(Changes::default(), sender);
        drop(pending.take());
        let (sender, mut later) = oneshot::channel();
        pending.add(Changes::default(), sender);
        for ended in [&mut first, &mut second, &mut late, &mut later] {
            assert_eq!(ended.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        }
    }
}
