//! Taking clients in on Linux.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ipnet::IpNet;
use parking_lot::RwLock;
use tokio::net::lookup_host;
use tokio_util::sync::{CancellationToken, DropGuard};
use weft_intercept::{
    Arrival, Carry, Client as Taken, DnsOptions, Interceptor, Interfaces, Options,
};

use super::{InterceptError, InterceptOptions, Interceptable, claims::Claims};
use crate::{Aim, Carrier, Client, Datagrams, UdpTimes, Way};

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
    /// How many parties there were.
    joined: AtomicU64,
    _looking: DropGuard,
}

/// One of those for whom clients are taken in.
pub struct Party {
    interception: Arc<Interception>,
    number: u64,
    carrier: Arc<dyn Carrier>,
    claims: tokio::sync::Mutex<Claims>,
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
        let mut known = Known::default();
        let exclude = known.look(&controllers).await;
        let options = Options { exclude: exclude.into_iter().collect(), ..read(options).await? };
        let times = UdpTimes::of(Some(options.udp_idle), Some(options.udp_check));
        let passages = Arc::new(Passages { ways: RwLock::default(), times });
        let started = Interceptor::start(options, Arc::clone(&passages) as Arc<dyn Carry>).await;
        let interceptor = started.map_err(|error| match error {
            weft_intercept::Error::Options(text) => InterceptError::Options(text),
            other => InterceptError::Machine(other.to_string()),
        })?;
        // What this process connects to itself goes its own way, whatever services claim.
        weft_channel::mark_connections(weft_intercept::OWN_MARK);
        let looking = CancellationToken::new();
        let stopped = looking.clone();
        let this = Arc::new(Self {
            interceptor,
            passages,
            joined: AtomicU64::new(0),
            _looking: looking.drop_guard(),
        });
        let follower = Arc::downgrade(&this);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = stopped.cancelled() => return,
                    () = tokio::time::sleep(LOOK) => {}
                }
                let found = known.look(&controllers).await;
                let Some(this) = follower.upgrade() else { return };
                this.interceptor.exclude(found);
            }
        });
        Ok(this)
    }

    /// One more for whom clients are taken in; this is who carries them.
    #[must_use]
    pub fn join(self: &Arc<Self>, carrier: Arc<dyn Carrier>) -> Party {
        let number = self.joined.fetch_add(1, Ordering::Relaxed);
        let claims = tokio::sync::Mutex::new(Claims::new(format!("{number}/")));
        Party { interception: Arc::clone(self), number, carrier, claims }
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
        let Interception { interceptor, passages, .. } = &*self.interception;
        let mut known = self.claims.lock().await;
        let mut step = known.step(services, |claim| interceptor.intercepts(claim));
        // Clients of new services find their way at once; of old ones until they are gone.
        passages.ways.write().extend(std::mem::take(&mut step.ways).into_iter().map(
            |(id, way)| {
                let carrier = Arc::clone(&self.carrier);
                (id, Arc::new(Passage { way, carrier }))
            },
        ));
        let refused = interceptor.update(&step.gone, &step.claims).await;
        let mut ways = passages.ways.write();
        for id in &step.gone {
            ways.remove(id);
        }
        drop(ways);
        known.note(&step, &refused);
        known.problems(services)
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

/// The options as the interceptor takes them.
async fn read(options: InterceptOptions) -> Result<Options, InterceptError> {
    let wrong = InterceptError::Options;
    let usual = Options::default();
    let (resolver, upstream, mode) = (&options.resolver, &options.upstream, options.upstream_mode);
    let dns = DnsOptions::read(resolver, upstream, mode, options.unanswerable);
    let (address, prefix) = options.names;
    let names = IpNet::new(address, prefix);
    let is_name = |host: &String| host.parse::<IpAddr>().is_err();
    let hosts = options.controllers.into_iter().map(|(host, _)| host);
    Ok(Options {
        names: names.map_err(|_| wrong(format!("{address}/{prefix} is no network")))?,
        dns: dns.await.map_err(wrong)?,
        interfaces: match options.interfaces.iter().any(|name| name == ALL) {
            true => Interfaces::All,
            false => Interfaces::Named(options.interfaces),
        },
        keep_names: hosts.filter(is_name).collect(),
        instance: options.name,
        udp_idle: options.udp_idle.unwrap_or(usual.udp_idle),
        udp_check: options.udp_check.unwrap_or(usual.udp_check),
        ..usual
    })
}

/// Addresses that were found for each controller; they count until others are found.
#[derive(Default)]
struct Known(HashMap<(String, u16), Vec<IpAddr>>);

impl Known {
    async fn look(&mut self, controllers: &[(String, u16)]) -> BTreeSet<(IpAddr, Option<u16>)> {
        for (host, port) in controllers {
            let found = lookup_host((host.as_str(), *port));
            if let Ok(Ok(found)) = tokio::time::timeout(PATIENCE, found).await {
                self.0.insert((host.clone(), *port), found.map(|at| at.ip()).collect());
            }
        }
        let pairs = self
            .0
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

        let mut known = Known::default();
        let controllers = [("127.0.0.1".to_owned(), 1281), ("x".repeat(64), 9)];
        let found = known.look(&controllers).await;
        assert_eq!(found, BTreeSet::from([([127, 0, 0, 1].into(), Some(1281))]));
    }
}
