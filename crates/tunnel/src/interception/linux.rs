//! Taking clients in on Linux.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use ipnet::IpNet;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use weft_intercept::{
    Arrival, Carry, Client as Taken, DnsOptions, Interceptor, Interfaces, Options, OwnHosts,
    Problem,
};

use super::{InterceptError, InterceptOptions, Interceptable};
use crate::{
    Aim, Carrier, Client, Datagrams, Intercept, InterceptAddress, Protocol, Service, UdpTimes, Way,
};

/// Every interface.
const ALL: &str = "*";
/// How often the addresses of controllers are looked up.
const LOOK: Duration = Duration::from_secs(60);
/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes clients of services in, and has them carried.
pub struct Interception {
    interceptor: Interceptor,
    passages: Arc<Passages>,
    /// What each party wants, and how many parties there were.
    wanted: tokio::sync::Mutex<BTreeMap<u64, Vec<weft_intercept::Service>>>,
    joined: AtomicU64,
    controllers: watch::Sender<Controllers>,
    _looking: DropGuard,
}

/// Hosts and ports of controllers.
type Controllers = Vec<(String, u16)>;

/// One of those for whom clients are taken in.
pub struct Party {
    interception: Arc<Interception>,
    number: u64,
    carrier: Arc<dyn Carrier>,
    /// Services as they were claimed, and what of them is left alone.
    known: Mutex<HashMap<String, (weft_intercept::Service, Vec<String>)>>,
}

struct Passages {
    /// By what a service is called among those of all parties.
    ways: RwLock<HashMap<String, Arc<Passage>>>,
    times: UdpTimes,
}

/// The way of a service's clients, and who carries them.
struct Passage {
    way: Way,
    carrier: Arc<dyn Carrier>,
}

impl Interception {
    /// Begins with no service. What an earlier process of the same name left is removed.
    ///
    /// # Errors
    /// When this machine cannot do it, or an option makes no sense.
    pub async fn start(options: InterceptOptions) -> Result<Arc<Self>, InterceptError> {
        let controllers = options.controllers.clone();
        let options = read(options).await?;
        let hosts = Arc::new(Own(OwnHosts::new(&options)));
        let mut known = Known::new(Arc::clone(&hosts));
        let mut exclude = known.look(&controllers).await;
        exclude.extend(left_to_system(&hosts.0.servers().await, &BTreeMap::new()));
        let options = Options { exclude: exclude.into_iter().collect(), ..options };
        let times = UdpTimes::of(Some(options.udp_idle), Some(options.udp_check));
        let passages = Arc::new(Passages { ways: RwLock::default(), times });
        let started = Interceptor::start(options, Arc::clone(&passages) as Arc<dyn Carry>).await;
        let interceptor = started.map_err(|error| match error {
            weft_intercept::Error::Options(text) => InterceptError::Options(text),
            other => InterceptError::Machine(other.to_string()),
        })?;
        // What this process connects to itself goes its own way, whatever services claim.
        weft_channel::mark_connections(weft_intercept::OWN_MARK);
        weft_channel::resolve_by(Arc::clone(&hosts) as Arc<dyn weft_channel::Lookup>);
        let (controllers, mut following) = watch::channel(controllers);
        let looking = CancellationToken::new();
        let stopped = looking.clone();
        let this = Arc::new(Self {
            interceptor,
            passages,
            wanted: tokio::sync::Mutex::default(),
            joined: AtomicU64::new(0),
            controllers,
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
                let mut found = known.look(&controllers).await;
                let servers = hosts.0.servers().await;
                let Some(this) = follower.upgrade() else { return };
                found.extend(left_to_system(&servers, &*this.wanted.lock().await));
                this.interceptor.exclude(found);
            }
        });
        Ok(this)
    }

    /// One more for whom clients are taken in; this is who carries them.
    #[must_use]
    pub fn join(self: &Arc<Self>, carrier: Arc<dyn Carrier>) -> Party {
        let number = self.joined.fetch_add(1, Ordering::Relaxed);
        Party { interception: Arc::clone(self), number, carrier, known: Mutex::default() }
    }

    /// Hosts and ports of controllers from now on, in place of those of before: no service gets
    /// them.
    pub fn set_controllers(&self, controllers: Vec<(String, u16)>) {
        self.controllers.send_if_modified(|before| {
            let other = *before != controllers;
            *before = controllers;
            other
        });
    }

    /// How much there is.
    #[must_use]
    pub fn counts(&self) -> weft_intercept::Counts {
        self.interceptor.counts()
    }

    /// Takes everything out of the system, when no party has services any more. Connections of
    /// clients that are there do not go on.
    pub async fn stop(&self) {
        self.interceptor.stop().await;
    }
}

impl Party {
    /// Takes in clients of those of these services that say where, and of no others. Clients that
    /// are there stay. What cannot be used is told in the log, and given back: the name of the service,
    /// and what is wrong.
    pub async fn set(&self, services: &[Interceptable<'_>]) -> Vec<(String, String)> {
        let mut ways = HashMap::new();
        let mut claims = Vec::new();
        let mut problems = Vec::new();
        for one in services {
            let name = &one.service.name;
            let read = Intercept::read(one.configs).and_then(|intercept| {
                let way = Way::new(Arc::clone(&one.service), one.configs, one.identity, 0)?;
                Ok(intercept.map(|intercept| (intercept, way)))
            });
            match read {
                Ok(Some((intercept, way))) => {
                    let id = format!("{}{}", self.prefix(), one.service.id);
                    claims.push(claimed(id.clone(), &one.service, &intercept));
                    let carrier = Arc::clone(&self.carrier);
                    ways.insert(id, Arc::new(Passage { way, carrier }));
                }
                Ok(None) => {}
                Err(problem) => {
                    tracing::warn!(service = %name, %problem, "a service is not intercepted");
                    problems.push((name.clone(), problem.to_string()));
                }
            }
        }
        let Interception { interceptor, passages, wanted, .. } = &*self.interception;
        let mut wanted = wanted.lock().await;
        wanted.insert(self.number, claims.clone());
        let all: Vec<_> = wanted.values().flatten().cloned().collect();
        // Clients of new services find their way at once; of old ones until they are gone.
        passages.ways.write().extend(ways.clone());
        let refused = interceptor.set_services(&all).await;
        let prefix = self.prefix();
        passages.ways.write().retain(|id, _| !id.starts_with(&prefix) || ways.contains_key(id));
        problems.extend(self.note(claims, &refused));
        problems
    }

    /// Keeps what is wrong with services: of those that stay as they are it is not said again.
    fn note(
        &self,
        claims: Vec<weft_intercept::Service>,
        refused: &[Problem],
    ) -> Vec<(String, String)> {
        let mut known = self.known.lock();
        let mut before = std::mem::take(&mut *known);
        let mut out = Vec::new();
        for claim in claims {
            let problems = match before.remove(&claim.id) {
                Some((same, problems)) if same == claim => problems,
                _ => refused.iter().filter(|one| one.service == claim.name).map(shown).collect(),
            };
            out.extend(problems.iter().map(|why| (claim.name.clone(), why.clone())));
            known.insert(claim.id.clone(), (claim, problems));
        }
        out
    }

    /// What the ids of this party's services begin with.
    fn prefix(&self) -> String {
        format!("{}/", self.number)
    }
}

impl Carry for Passages {
    fn carry(&self, arrival: Arrival, client: Taken) {
        let Some(passage) = self.ways.read().get(&*arrival.service).map(Arc::clone) else { return };
        let (local, remote) = (arrival.destination, arrival.source);
        let aim = Aim {
            hostname: arrival.hostname.as_deref().map(str::to_owned),
            address: Some(local.ip()),
            port: local.port(),
        };
        let way = Way { aim: Some(aim), ..passage.way.clone() };
        let (client, place) = match client {
            Taken::Tcp(client) => {
                let patience = Some(weft_channel::PEER_TIMEOUT);
                if let Err(problem) = weft_channel::prepare(&client.stream, patience) {
                    tracing::debug!(client = %remote, %problem, "a client is gone already");
                    return;
                }
                (Client::Tcp(client.stream), Some(client.place))
            }
            Taken::Udp(session) => (Client::Udp(Datagrams::of(session, self.times)), None),
        };
        let carried = passage.carrier.carry(way.call(client, local, remote));
        let service = Arc::clone(&way.service);
        tokio::spawn(async move {
            if let Err(problem) = carried.await {
                tracing::warn!(service = %service.name, client = %remote, %problem, "an intercepted client gets nowhere");
            }
            drop(place);
        });
    }
}

fn shown(problem: &Problem) -> String {
    match problem.entry.as_str() {
        "" => problem.why.to_string(),
        entry => format!("{} {}", entry.escape_debug(), problem.why),
    }
}

/// What a service claims, as the interceptor takes it.
fn claimed(id: String, service: &Service, intercept: &Intercept) -> weft_intercept::Service {
    let addresses = intercept.addresses.iter().map(|address| match address {
        InterceptAddress::Network(network) => format!("{}/{}", network.address(), network.prefix()),
        InterceptAddress::Name(name) => name.clone(),
        InterceptAddress::Domain(domain) => format!("*.{domain}"),
        InterceptAddress::AnyName => "*".to_owned(),
    });
    let protocols = intercept.protocols.iter().map(|protocol| match protocol {
        Protocol::Tcp => weft_intercept::Protocol::Tcp,
        Protocol::Udp => weft_intercept::Protocol::Udp,
    });
    let sources = intercept.allowed_sources.iter().flatten();
    weft_intercept::Service {
        id,
        name: service.name.clone(),
        protocols: protocols.collect(),
        addresses: addresses.collect(),
        ports: intercept.port_ranges.iter().map(|range| (range.low, range.high)).collect(),
        sources: sources
            .map(|network| format!("{}/{}", network.address(), network.prefix()))
            .collect(),
    }
}

/// The options as the interceptor takes them.
async fn read(options: InterceptOptions) -> Result<Options, InterceptError> {
    let wrong = InterceptError::Options;
    let usual = Options::default();
    let (resolver, upstream, mode) = (&options.resolver, &options.upstream, options.upstream_mode);
    let dns = DnsOptions::read(resolver, upstream, mode, options.unanswerable);
    let (address, prefix) = options.names;
    let names = IpNet::new(address, prefix);
    Ok(Options {
        names: names.map_err(|_| wrong(format!("{address}/{prefix} is no network")))?,
        dns: dns.await.map_err(wrong)?,
        interfaces: match options.interfaces.iter().any(|name| name == ALL) {
            true => Interfaces::All,
            false => Interfaces::Named(options.interfaces),
        },
        keep_names: named(&options.controllers).collect(),
        instance: options.name,
        udp_idle: options.udp_idle.unwrap_or(usual.udp_idle),
        udp_check: options.udp_check.unwrap_or(usual.udp_check),
        ..usual
    })
}

/// The DNS servers of this machine, whose traffic is nobody's: without them it would find no
/// controller any more when the service that has its questions is gone. One that a service names by
/// its very address is meant.
fn left_to_system(
    servers: &[SocketAddr],
    wanted: &BTreeMap<u64, Vec<weft_intercept::Service>>,
) -> Vec<(IpAddr, Option<u16>)> {
    let is_meant = |server: &SocketAddr| {
        let address = IpNet::from(server.ip()).to_string();
        wanted.values().flatten().any(|service| service.addresses.contains(&address))
    };
    let left = servers.iter().filter(|server| !is_meant(server));
    left.map(|server| (server.ip(), Some(server.port()))).collect()
}

/// Those controllers that go by a name.
fn named(controllers: &[(String, u16)]) -> impl Iterator<Item = String> + use<> {
    let names = controllers.iter().filter(|(host, _)| host.parse::<IpAddr>().is_err());
    names.map(|(host, _)| host.clone()).collect::<Vec<_>>().into_iter()
}

/// Finds hosts that this process connects to itself past its own DNS server.
struct Own(OwnHosts);

impl weft_channel::Lookup for Own {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(self.0.lookup(host))
    }
}

/// Addresses that were found for each controller; they count until others are found.
struct Known {
    hosts: Arc<Own>,
    found: HashMap<(String, u16), Vec<IpAddr>>,
}

impl Known {
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
    use crate::Configs;

    #[test]
    fn services_claim_what_their_configs_say() {
        let config = serde_json::json!({
            "protocols": ["tcp"],
            "addresses": ["web.example", "*.lab.example", "*", "10.1.0.0/16", "fd00::1"],
            "portRanges": [{"low": 80, "high": 90}],
            "allowedSourceAddresses": ["192.168.0.0/16", "10.9.9.9"],
        });
        let configs = Configs::from([("intercept.v1".to_owned(), config.to_string())]);
        let intercept = Intercept::read(&configs).unwrap().unwrap();
        let service = Service { id: "s1".into(), name: "web".into(), ..Service::default() };
        let claimed = claimed("0/s1".into(), &service, &intercept);
        assert_eq!((claimed.id.as_str(), claimed.name.as_str()), ("0/s1", "web"));
        assert_eq!(claimed.protocols, [weft_intercept::Protocol::Tcp]);
        let addresses = ["web.example", "*.lab.example", "*", "10.1.0.0/16", "fd00::1/128"];
        assert_eq!(claimed.addresses, addresses);
        assert_eq!(claimed.ports, [(80, 90)]);
        assert_eq!(claimed.sources, ["192.168.0.0/16", "10.9.9.9/32"]);
    }

    #[tokio::test]
    async fn options_are_read_and_controllers_are_nobodys() {
        let options = |interfaces: &[&str], resolver: &str| InterceptOptions {
            name: "lab".into(),
            resolver: vec![resolver.to_owned()],
            names: ([100, 64, 0, 1].into(), 10),
            upstream: Vec::new(),
            upstream_mode: UpstreamMode::Serial,
            unanswerable: None,
            interfaces: interfaces.iter().map(|&name| name.to_owned()).collect(),
            udp_idle: None,
            udp_check: Some(Duration::from_secs(7)),
            controllers: vec![("ctrl.example".into(), 1280), ("127.0.0.1".into(), 1281)],
        };
        let plain = read(options(&["eth1"], "udp://127.0.0.1:53")).await.unwrap();
        assert_eq!(plain.interfaces, Interfaces::Named(vec!["eth1".into()]));
        assert_eq!(plain.keep_names, ["ctrl.example"]);
        assert_eq!(plain.udp_check, Duration::from_secs(7));
        assert_eq!(plain.names.to_string(), "100.64.0.1/10");
        let all = read(options(&["eth1", "*"], "udp://127.0.0.1:53")).await.unwrap();
        assert_eq!(all.interfaces, Interfaces::All);
        let wrong = read(options(&[], "tcp://127.0.0.1:53")).await.unwrap_err();
        assert!(matches!(wrong, InterceptError::Options(_)), "{wrong}");

        let servers = ["10.0.0.53:53", "[fd00::53]:53"].map(|at| at.parse::<SocketAddr>().unwrap());
        let service = |address: &str| weft_intercept::Service {
            addresses: vec![address.into()],
            ..weft_intercept::Service::default()
        };
        let wanted = BTreeMap::from([(0, vec![service("10.0.0.0/8"), service("fd00::53/128")])]);
        let left = left_to_system(&servers, &wanted);
        assert_eq!(left, [([10, 0, 0, 53].into(), Some(53))], "a wide network does not mean them");

        let mut known = Known::new(Arc::new(Own(OwnHosts::new(&plain))));
        let controllers = [("127.0.0.1".to_owned(), 1281), ("x".repeat(64), 9)];
        let found = known.look(&controllers).await;
        assert_eq!(found, BTreeSet::from([([127, 0, 0, 1].into(), Some(1281))]));
    }
}
