//! Interception on Linux, by the crate `weft-intercept`.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, io};

use futures::FutureExt;
use futures::future::BoxFuture;
use ipnet::IpNet;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use weft_intercept::{
    Arrival, Carry, DnsOptions, InterceptedClient as Taken, Interceptor, Interfaces, Options,
    OwnHosts,
};

use super::claims::{Claims, News};
use super::{InterceptError, InterceptOptions, Interceptable};
use crate::complaints::Complaints;
use crate::records::Asker;
use crate::{
    Aim, Carrier, Client, Datagrams, RecordQuestion, Records, ServiceRoute, UdpTimes,
    find_records_by,
};

/// The name for all interfaces.
const ALL: &str = "*";
/// Most domains of the own network.
const MAX_DOMAINS: usize = 64;
/// Longest domain, in bytes.
const MAX_DOMAIN: usize = 253;
/// The interval at which the addresses of controllers are resolved again.
const LOOK: Duration = Duration::from_secs(60);
/// Time limit for resolving the addresses of controllers.
const PATIENCE: Duration = Duration::from_secs(5);

/// Intercepts clients of services, and passes them to carriers.
pub struct Interception {
    interceptor: Interceptor,
    passages: Arc<Passages>,
    /// The number of parties so far.
    joined: AtomicU64,
    controllers: watch::Sender<Controllers>,
    meant: Mutex<Meant>,
    _looking: DropGuard,
}

/// Interception whose options were read. Nothing is changed on the machine yet.
pub struct Prepared {
    options: Options,
    controllers: Controllers,
    hosts: Arc<Own>,
    addresses: ControllerAddresses,
}

/// Hosts and ports of controllers.
type Controllers = Vec<(String, u16)>;

/// The addresses that services claim as single addresses, not as part of a network, by the id of the
/// claim.
type Meant = HashMap<String, Vec<IpAddr>>;

/// One of the tunnelers whose clients are intercepted.
pub struct Party {
    interception: Arc<Interception>,
    number: u64,
    carrier: Arc<dyn Carrier>,
    claims: tokio::sync::Mutex<Claims>,
}

struct Passages {
    /// The routes of clients by the id of the claim, for all parties.
    routes: RwLock<HashMap<String, Arc<Passage>>>,
    times: UdpTimes,
}

/// The route of a service's clients, and their carrier.
struct Passage {
    route: ServiceRoute,
    carrier: Arc<dyn Carrier>,
    asker: Asker,
    complaints: Arc<Complaints>,
}

impl Prepared {
    /// Reads the options, and resolves the names in them.
    ///
    /// # Errors
    /// When an option is not valid.
    pub async fn new(options: InterceptOptions) -> Result<Self, InterceptError> {
        let controllers = options.controllers.clone();
        let options = read(options).await?;
        let hosts = Arc::new(Own(OwnHosts::new(&options)));
        let mut addresses = ControllerAddresses::new(Arc::clone(&hosts));
        let mut exclude = addresses.look(&controllers).await;
        exclude.extend(left_to_system(&hosts.0.servers().await, &Meant::new()));
        let options = Options { exclude: exclude.into_iter().collect(), ..options };
        Ok(Self { options, controllers, hosts, addresses })
    }

    /// [`Interception::start`]. If the future is dropped before it is ready, a part of the changes may
    /// stay on the machine.
    ///
    /// # Errors
    /// When this machine cannot intercept.
    pub async fn start(self) -> Result<Arc<Interception>, InterceptError> {
        let Self { options, controllers, hosts, mut addresses } = self;
        let times = UdpTimes::of(Some(options.udp_idle), Some(options.udp_check));
        let passages = Arc::new(Passages { routes: RwLock::default(), times });
        let started = Interceptor::start(options, Arc::clone(&passages) as Arc<dyn Carry>).await;
        let interceptor = started.map_err(|error| match error {
            weft_intercept::Error::Options(text) => InterceptError::Options(text),
            other => InterceptError::Machine(other.to_string()),
        })?;
        // Connections of this process are never intercepted, whatever services claim.
        weft_channel::mark_connections(weft_intercept::OWN_MARK);
        weft_channel::resolve_by(Arc::clone(&hosts) as Arc<dyn weft_channel::HostLookup>);
        find_records_by(Arc::new(hosts.0.clone()));
        let (controllers, mut following) = watch::channel(controllers);
        let looking = CancellationToken::new();
        let stopped = looking.clone();
        let this = Arc::new(Interception {
            interceptor,
            passages,
            joined: AtomicU64::new(0),
            controllers,
            meant: Mutex::default(),
            _looking: looking.drop_guard(),
        });
        let follower = Arc::downgrade(&this);
        tokio::spawn(async move {
            loop {
                let others = tokio::select! {
                    () = stopped.cancelled() => return,
                    changed = following.changed() => changed.is_ok(),
                    () = tokio::time::sleep(LOOK) => false,
                };
                let controllers = following.borrow_and_update().clone();
                if others && let Some(this) = follower.upgrade() {
                    this.interceptor.keep_names(named(&controllers)).await;
                }
                let mut found = addresses.look(&controllers).await;
                let servers = hosts.0.servers().await;
                let Some(this) = follower.upgrade() else { return };
                found.extend(left_to_system(&servers, &this.meant.lock()));
                this.interceptor.exclude(found);
            }
        });
        Ok(this)
    }
}

impl Interception {
    /// Starts without services. Leftovers of an earlier process of the same name are removed.
    ///
    /// # Errors
    /// When this machine cannot intercept, or an option is not valid.
    pub async fn start(options: InterceptOptions) -> Result<Arc<Self>, InterceptError> {
        Prepared::new(options).await?.start().await
    }

    /// Adds a party, whose clients `carrier` carries.
    #[must_use]
    pub fn join(self: &Arc<Self>, carrier: Arc<dyn Carrier>) -> Party {
        let number = self.joined.fetch_add(1, Ordering::Relaxed);
        let claims = tokio::sync::Mutex::new(Claims::new(format!("{number}/")));
        Party { interception: Arc::clone(self), number, carrier, claims }
    }

    /// Sets the hosts and ports of controllers, in place of the earlier ones: no service gets them.
    pub fn set_controllers(&self, controllers: Vec<(String, u16)>) {
        self.controllers.send_if_modified(|before| {
            let other = *before != controllers;
            *before = controllers;
            other
        });
    }

    /// The sizes of the interceptor's state.
    #[must_use]
    pub fn counts(&self) -> weft_intercept::InterceptorCounts {
        self.interceptor.counts()
    }

    /// Removes everything from the system, when no party has services any more. Connections of existing
    /// clients do not go on.
    pub async fn stop(&self) {
        self.interceptor.stop().await;
    }
}

impl Party {
    /// Intercepts the clients of these services that have a config for it, and of no others. Existing
    /// clients stay. Problems are logged and returned: the name of the service, and the reason.
    pub async fn set(&self, services: &[Interceptable<'_>]) -> Vec<(String, String)> {
        let Interception { interceptor, passages, meant, .. } = &*self.interception;
        let mut known = self.claims.lock().await;
        let mut step = known.step(services, |claim| interceptor.intercepts(claim));
        // Ways of new services are added at once; those of removed services stay until their claims are
        // gone.
        passages.routes.write().extend(std::mem::take(&mut step.routes).into_iter().map(
            |(id, route)| {
                let (carrier, asker) = (Arc::clone(&self.carrier), Asker::default());
                (id, Arc::new(Passage { route, carrier, asker, complaints: Arc::default() }))
            },
        ));
        {
            let mut meant = meant.lock();
            step.gone.iter().for_each(|id| drop(meant.remove(id)));
            meant.extend(step.claims.iter().map(|claim| (claim.id.clone(), meant_by(claim))));
        }
        let refused = interceptor.update(&step.gone, &step.claims).await;
        let mut routes = passages.routes.write();
        for id in &step.gone {
            routes.remove(id);
        }
        drop(routes);
        known.note(&step, &refused);
        tell(known.news(step, |claim| interceptor.intercepts(claim)));
        known.problems(services)
    }
}

/// Logs which services are intercepted from now on, and which no longer.
fn tell(news: Vec<News>) {
    /// Services that one change names.
    const NAMED: usize = 20;
    let more = news.len().saturating_sub(NAMED);
    for one in news.into_iter().take(NAMED) {
        match one {
            News::Begins(service, at) => tracing::info!(service, at, "a service is intercepted"),
            News::Ends(service) => tracing::info!(service, "a service is intercepted no more"),
        }
    }
    if more > 0 {
        tracing::info!(more, "more services are, or are no longer, intercepted");
    }
}

impl Carry for Passages {
    fn records(
        &self,
        service: &Arc<str>,
        question: RecordQuestion,
    ) -> BoxFuture<'static, Option<Records>> {
        let passage = self.routes.read().get(&**service).map(Arc::clone);
        async move {
            let passage = passage?;
            passage.asker.ask(&passage.route, &passage.carrier, &question).await
        }
        .boxed()
    }

    fn carry(&self, arrival: Arrival, client: Taken) {
        let Some(passage) = self.routes.read().get(&*arrival.service).map(Arc::clone) else {
            return;
        };
        let (local, remote) = (arrival.destination, arrival.source);
        let aim = Aim {
            hostname: arrival.hostname.as_deref().map(str::to_owned),
            address: Some(local.ip()),
            port: local.port(),
        };
        let route = ServiceRoute { aim: Some(aim), ..passage.route.clone() };
        let (client, place) = match client {
            Taken::Tcp(client) => {
                // A client may read nothing for as long as it likes.
                if let Err(problem) = weft_channel::prepare(&client.stream, None) {
                    tracing::debug!(client = %remote, %problem, "a client is gone already");
                    return;
                }
                (Client::tcp(client.stream), Some(client.place))
            }
            Taken::Udp(conversation) => {
                (Client::Udp(Datagrams::of(conversation, self.times)), None)
            }
        };
        let carried = passage.carrier.carry(route.call(client, local, remote));
        let (service, complaints) = (Arc::clone(&route.service), Arc::clone(&passage.complaints));
        tokio::spawn(async move {
            if let Err(refusal) = carried.await {
                complaints.note(&service.name, remote, &refusal);
            }
            drop(place);
        });
    }
}

/// The options of the interceptor.
async fn read(options: InterceptOptions) -> Result<Options, InterceptError> {
    let wrong = InterceptError::Options;
    let usual = Options::default();
    let mut resolver = options.resolver;
    let hosts_file = DnsOptions::hosts_file(&mut resolver).map_err(wrong)?;
    let (upstream, mode) = (&options.upstream, options.upstream_mode);
    let dns = DnsOptions::read(&resolver, upstream, mode, options.unanswerable);
    let private_domains = read_domains(&options.private_domains).map_err(wrong)?;
    let dns = dns.await.map_err(wrong)?.map(|dns| DnsOptions { private_domains, ..dns });
    let (address, prefix) = options.names;
    let names = IpNet::new(address, prefix);
    Ok(Options {
        names: names.map_err(|_| wrong(format!("{address}/{prefix} is no network")))?,
        dns,
        interfaces: match options.interfaces.iter().any(|name| name == ALL) {
            true => Interfaces::All,
            false => Interfaces::Named(options.interfaces),
        },
        keep_names: named(&options.controllers).collect(),
        instance: options.name,
        diverter: options.diverter,
        hosts_file,
        udp_idle: options.udp_idle.unwrap_or(usual.udp_idle),
        udp_check: options.udp_check.unwrap_or(usual.udp_check),
        ..usual
    })
}

/// Domains in lower case, without dots around them.
fn read_domains(texts: &[String]) -> Result<Vec<String>, String> {
    let domains = texts.iter().map(|text| {
        let domain = text.trim_matches('.').to_ascii_lowercase();
        let is_label = |label: &str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            (1..=63).contains(&label.len()) && label.bytes().all(is_part)
        };
        match domain.len() <= MAX_DOMAIN && domain.split('.').all(is_label) {
            true => Ok(domain),
            false => {
                Err(format!("dnsPrivateDomains {text:?}: has to be a domain, such as lab.example"))
            }
        }
    });
    if texts.len() > MAX_DOMAINS {
        return Err(format!("dnsPrivateDomains has at most {MAX_DOMAINS} domains"));
    }
    domains.collect()
}

/// The DNS servers of this machine, which are excluded: otherwise this machine would find no controller
/// any more once the service that has claimed them is gone. A server that a service claims by its exact
/// address is not excluded.
fn left_to_system(servers: &[SocketAddr], meant: &Meant) -> Vec<(IpAddr, Option<u16>)> {
    let is_meant = |server: &SocketAddr| meant.values().flatten().any(|one| *one == server.ip());
    let left = servers.iter().filter(|server| !is_meant(server));
    left.map(|server| (server.ip(), Some(server.port()))).collect()
}

fn meant_by(claim: &weft_intercept::Service) -> Vec<IpAddr> {
    let one = |text: &String| {
        let network: IpNet = text.parse().ok()?;
        (network.prefix_len() == network.max_prefix_len()).then(|| network.addr())
    };
    claim.addresses.iter().filter_map(one).collect()
}

/// The controllers that have a name as their host.
fn named(controllers: &[(String, u16)]) -> impl Iterator<Item = String> + use<> {
    let names = controllers.iter().filter(|(host, _)| host.parse::<IpAddr>().is_err());
    names.map(|(host, _)| host.clone()).collect::<Vec<_>>().into_iter()
}

/// Resolves hosts for this process, but not at its own DNS server.
struct Own(OwnHosts);

impl weft_channel::HostLookup for Own {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(self.0.lookup(host))
    }
}

/// The addresses that were found for each controller; they are valid until others are found.
struct ControllerAddresses {
    hosts: Arc<Own>,
    found: HashMap<(String, u16), Vec<IpAddr>>,
}

impl ControllerAddresses {
    fn new(hosts: Arc<Own>) -> Self {
        Self { hosts, found: HashMap::new() }
    }

    async fn look(&mut self, controllers: &[(String, u16)]) -> BTreeSet<(IpAddr, Option<u16>)> {
        self.found.retain(|known, _| controllers.contains(known));
        for (host, port) in controllers {
            let found = match host.parse() {
                Ok(address) => Ok(Ok(vec![address])),
                Err(_) => tokio::time::timeout(PATIENCE, self.hosts.0.lookup(host)).await,
            };
            if let Ok(Ok(found)) = found {
                self.found.insert((host.clone(), *port), found);
            }
        }
        let pairs = self
            .found
            .iter()
            .flat_map(|((_, port), found)| found.iter().map(|address| (*address, Some(*port))));
        pairs.collect()
    }
}

impl fmt::Debug for Interception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interception").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Party").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use weft_intercept::UpstreamMode;

    use super::*;

    #[tokio::test]
    async fn options_are_read_and_controllers_are_nobodys() {
        let options = |interfaces: &[&str], resolver: &str| InterceptOptions {
            name: "lab".into(),
            resolver: vec![resolver.to_owned(), "file:///etc/hosts".to_owned()],
            diverter: None,
            names: ([100, 64, 0, 1].into(), 10),
            upstream: Vec::new(),
            upstream_mode: UpstreamMode::Serial,
            unanswerable: None,
            private_domains: vec![".Lab.Example.".into()],
            interfaces: interfaces.iter().map(|&name| name.to_owned()).collect(),
            udp_idle: None,
            udp_check: Some(Duration::from_secs(7)),
            controllers: vec![("ctrl.example".into(), 1280), ("127.0.0.1".into(), 1281)],
        };
        let plain = read(options(&["eth1"], "udp://127.0.0.1:53")).await.unwrap();
        assert_eq!(plain.interfaces, Interfaces::Named(vec!["eth1".into()]));
        assert_eq!(plain.keep_names, ["ctrl.example"]);
        assert_eq!(plain.dns.as_ref().unwrap().private_domains, ["lab.example"]);
        assert_eq!(plain.udp_check, Duration::from_secs(7));
        assert_eq!(plain.names.to_string(), "100.64.0.1/10");
        assert_eq!(plain.hosts_file, Some("/etc/hosts".into()));
        let all = read(options(&["eth1", "*"], "udp://127.0.0.1:53")).await.unwrap();
        assert_eq!(all.interfaces, Interfaces::All);
        let wrong = read(options(&[], "tcp://127.0.0.1:53")).await.unwrap_err();
        assert!(matches!(wrong, InterceptError::Options(_)), "{wrong}");

        let servers = ["10.0.0.53:53", "[fd00::53]:53"].map(|at| at.parse::<SocketAddr>().unwrap());
        let service = |address: &str| weft_intercept::Service {
            addresses: vec![address.into()],
            ..weft_intercept::Service::default()
        };
        let claims = [service("10.0.0.0/8"), service("fd00::53/128")];
        let meant = claims.iter().map(|claim| (claim.id.clone(), meant_by(claim))).collect();
        let left = left_to_system(&servers, &meant);
        assert_eq!(left, [([10, 0, 0, 53].into(), Some(53))], "a wide network does not mean them");

        let mut addresses = ControllerAddresses::new(Arc::new(Own(OwnHosts::new(&plain))));
        let controllers = [("127.0.0.1".to_owned(), 1281), ("x".repeat(64), 9)];
        let found = addresses.look(&controllers).await;
        assert_eq!(found, BTreeSet::from([([127, 0, 0, 1].into(), Some(1281))]));
    }
}
