//! Hosts and offers the services that an identity may use, as their configs say, and follows
//! changes.

mod reading;
mod standing;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use weft_sdk::{Endpoint, Identity, Service, chain};
use weft_tunnel::config::ListenAt;
use weft_tunnel::{Carrier, Interceptable, Interception, NamedPort, Party, Ports, UdpTimes};

use self::reading::{Plan, Read};
use crate::{HostedTerminator, SdkCarrier, TrafficRegistry};

/// The interval at which the tunneler opens ports again that failed, or whose interface has another address now,
/// and reads the identity from the controller again after a failure.
const RETRY: Duration = Duration::from_secs(30);

/// The interval at which open connections are counted while the tunneler drains.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// The options of a tunneler.
#[derive(Clone, Debug)]
pub struct Options {
    /// True if services that the identity may bind are hosted as their configs say.
    pub host: bool,
    /// True if services that the identity may dial are offered at the ports of their `proxy.v1`.
    pub offer: bool,
    /// Intercepts clients as `intercept.v1` says, for services that the identity may dial.
    pub intercept: Option<Arc<Interception>>,
    /// Ports that are offered in place of those of the services' `proxy.v1`.
    pub named: Vec<NamedPort>,
    /// The address of ports that name none.
    pub at: ListenAt,
    /// The times after which conversations in datagrams end, of clients and of hosts.
    pub udp: UdpTimes,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: true,
            offer: true,
            intercept: None,
            named: Vec::new(),
            at: ListenAt::HERE,
            udp: UdpTimes::default(),
        }
    }
}

/// A tunneler for one identity.
#[derive(Debug)]
pub struct Tunneler {
    endpoint: Endpoint,
    options: Options,
    dialed: Arc<TrafficRegistry>,
    hosted: Arc<TrafficRegistry>,
    ports: Ports,
    party: Option<Party>,
    state: Mutex<ServicesState>,
}

#[derive(Debug, Default)]
struct ServicesState {
    services: Arc<Vec<Service>>,
    /// The parsed configs of services by service id; parsed again only when they, or the identity,
    /// change.
    read: HashMap<String, Arc<Read>>,
    /// The hosts by service id and number of the terminator.
    hosts: BTreeMap<(String, usize), Host>,
    /// Why the identity, or its services, could not be read.
    problem: Option<String>,
    /// Services that are not intercepted as their configs ask: the name, and the reason.
    problems: Vec<(String, String)>,
    /// Services of [`Options::named`] that clients cannot use now: the name, and the reason.
    unavailable: BTreeMap<String, &'static str>,
}

#[derive(Debug)]
struct Host {
    plan: Plan,
    hosted: HostedTerminator,
}

impl Tunneler {
    /// A tunneler that neither hosts nor offers anything yet. The endpoint has to ask for
    /// [`weft_tunnel::config::TYPES`].
    #[must_use]
    pub fn new(endpoint: Endpoint, options: Options) -> Arc<Self> {
        let dialed = Arc::<TrafficRegistry>::default();
        let carrier: Arc<dyn Carrier> = SdkCarrier::new(endpoint.clone(), Arc::clone(&dialed));
        let party = options.intercept.as_ref().map(|one| one.join(Arc::clone(&carrier)));
        let ports = Ports::new(carrier, options.udp);
        let (hosted, state) = (Arc::default(), Mutex::default());
        Arc::new(Self { endpoint, options, dialed, hosted, ports, party, state })
    }

    /// Reads the identity and its services, and applies their configs.
    ///
    /// # Errors
    /// When the controller does not give the identity or its services; the present state stays then.
    pub async fn refresh(&self) -> weft_sdk::Result<()> {
        self.endpoint.services().await?;
        let services = self.endpoint.service_changes().borrow().clone();
        let identity = self.endpoint.identity().await?;
        self.apply(services, &identity).await;
        Ok(())
    }

    /// Follows the services of the identity until `stop` is cancelled. From then on no new connection
    /// is accepted; open ones stay.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut changes = self.endpoint.service_changes();
        // The services may have changed since they were read.
        changes.mark_changed();
        let mut retry = tokio::time::interval(RETRY);
        // Ticks that pass while services are applied are not made up for.
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        retry.reset();
        let mut behind = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                changed = changes.changed() => match changed {
                    Ok(()) => {}
                    Err(_) => break,
                },
                _ = retry.tick() => {
                    self.ports.catch_up().await;
                    if !behind {
                        continue;
                    }
                }
            }
            let services = changes.borrow_and_update().clone();
            // A controller that does not answer holds up no stop.
            let identity = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                identity = self.endpoint.identity() => identity,
            };
            match identity {
                Ok(identity) => {
                    behind = false;
                    self.apply(services, &identity).await;
                }
                // The controller refuses the identity now. It may have been disabled for a moment only, in which
                // its list of services did not change.
                Err(problem) if problem.is_final() => {
                    behind = true;
                    self.end_all().await;
                    self.state.lock().problem = Some(chain(&problem));
                    self.note_unavailable(|_| Some("the controller refuses the identity"));
                }
                Err(problem) => {
                    behind = true;
                    self.state.lock().problem = Some(chain(&problem));
                    tracing::warn!(
                        problem = chain(&problem),
                        "the identity cannot be read from the controller; its services wait for the next try"
                    );
                }
            }
        }
        self.end_all().await;
    }

    /// Ends hosting, offering and interception.
    async fn end_all(&self) {
        self.ports.set(Vec::new()).await;
        if let Some(party) = &self.party {
            party.set(&[]).await;
        }
        let mut state = self.state.lock();
        state.hosts.clear();
        state.services = Arc::default();
    }

    /// The ports that lead to services.
    #[must_use]
    pub fn ports(&self) -> Vec<weft_tunnel::PortState> {
        self.ports.states()
    }

    /// Waits until no connections are open, at most for `limit`. Returns how many are left.
    pub async fn drained(&self, limit: Duration) -> u64 {
        let empty = async {
            while self.open() > 0 {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        };
        let _ = tokio::time::timeout(limit, empty).await;
        self.open()
    }

    /// The number of open connections.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.dialed.open() + self.hosted.open()
    }

    /// Applies the configs of services: hosts, offers and intercepts.
    async fn apply(&self, services: Arc<Vec<Service>>, identity: &Identity) {
        let read = self.read(&services, identity);
        if self.options.host {
            let plans = read.iter().flat_map(|read| {
                let plans = read.plans.iter().cloned().enumerate();
                plans.map(|(index, plan)| ((read.service.id.clone(), index), plan))
            });
            self.host(plans.collect());
        }
        self.ports.set(read.iter().flat_map(|read| read.ports.iter().cloned()).collect()).await;
        let mut problems = Vec::new();
        if let Some(party) = &self.party {
            let dialed = read.iter().filter(|read| read.service.can_dial);
            let wanted = dialed.map(|read| Interceptable {
                service: Arc::clone(&read.known),
                configs: &read.configs,
                identity: &read.own,
            });
            problems = party.set(&wanted.collect::<Vec<_>>()).await;
        }
        self.note_unavailable(|name| match services.iter().find(|service| service.name == name) {
            None => {
                Some("it was deleted or renamed, or no service policy gives it to the identity")
            }
            Some(service) if !service.can_dial => {
                Some("no service policy of type Dial gives it to the identity")
            }
            Some(_) => None,
        });
        let named = self.options.named.iter().map(|named| named.service.as_str());
        let names: HashSet<&str> =
            services.iter().map(|service| service.name.as_str()).chain(named).collect();
        for registry in [&self.dialed, &self.hosted] {
            registry.retain(|name| names.contains(name));
        }
        drop(names);
        let mut state = self.state.lock();
        (state.services, state.problems, state.problem) = (services, problems, None);
    }

    /// Notes why clients cannot use services that were named to the tunneler, and logs what has changed.
    fn note_unavailable(&self, why: impl Fn(&str) -> Option<&'static str>) {
        let names: HashSet<&str> =
            self.options.named.iter().map(|named| named.service.as_str()).collect();
        let reasons = names.into_iter().filter_map(|name| Some((name.to_owned(), why(name)?)));
        let now: BTreeMap<String, &'static str> = reasons.collect();
        let before = std::mem::replace(&mut self.state.lock().unavailable, now.clone());
        for (service, reason) in &now {
            if !before.contains_key(service) {
                tracing::warn!(
                    service,
                    reason,
                    "a service is no longer available: its port is closed"
                );
            }
        }
        for service in before.keys().filter(|service| !now.contains_key(*service)) {
            tracing::info!(service, "a service is available again: its port is open");
        }
    }

    /// Parses the configs of services; only those that have changed are parsed again.
    fn read(&self, services: &[Service], identity: &Identity) -> Vec<Arc<Read>> {
        let mut state = self.state.lock();
        let mut before = std::mem::take(&mut state.read);
        let same = before.values().next().filter(|read| *read.identity == *identity);
        let same = same.map(|read| (Arc::clone(&read.identity), Arc::clone(&read.own)));
        let (identity, own) = same.unwrap_or_else(|| {
            before.clear();
            let own = weft_tunnel::Identity {
                name: identity.name.clone(),
                app_data: identity.app_data.clone(),
                tags: identity.tags.clone(),
            };
            (Arc::new(identity.clone()), Arc::new(own))
        });
        let mut all = Vec::with_capacity(services.len());
        for service in services {
            let stays = before.remove(&service.id).filter(|read| read.service == *service);
            all.push(
                stays.unwrap_or_else(|| {
                    Arc::new(Read::new(service, &identity, &own, &self.options))
                }),
            );
        }
        state.read = all.iter().map(|read| (read.service.id.clone(), Arc::clone(read))).collect();
        all
    }

    fn host(&self, wanted: BTreeMap<(String, usize), Plan>) {
        let mut state = self.state.lock();
        state.hosts.retain(|key, host| {
            let now = wanted.get(key);
            if now.is_none() {
                tracing::info!(service = %host.plan.service, "a service is hosted no more: it was deleted, its config has gone, or no service policy of type Bind gives it to the identity");
            }
            now == Some(&host.plan)
        });
        for (key, plan) in wanted {
            state.hosts.entry(key).or_insert_with(|| {
                let traffic = self.hosted.of(&plan.service);
                let hosted = HostedTerminator::start(
                    self.endpoint.clone(),
                    plan.service.clone(),
                    plan.config.clone(),
                    plan.instance.clone(),
                    plan.terms,
                    self.options.udp.idle,
                    traffic,
                );
                Host { plan, hosted }
            });
        }
    }
}
