//! The ports of this machine that lead to services, kept in line with the wanted ones.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_wire::host_port;

use crate::config::ListenAt;
use crate::interface_addresses::{Addresses, InterfaceAddresses};
use crate::{
    Carrier, Configs, Identity, Listening, Protocol, ProxyPort, Service, ServiceRoute, UdpTimes,
};

/// A service and a port for it, independent of its configs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedPort {
    /// Name of the service.
    pub service: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
}

/// A port to listen on.
#[derive(Clone, Debug, PartialEq)]
pub struct PortWanted {
    /// The protocol.
    pub protocol: Protocol,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// The address.
    pub at: ListenAt,
    /// The route of its clients.
    pub route: ServiceRoute,
}

impl PortWanted {
    /// The ports of a service: its `proxy.v1` comes before the named ports.
    ///
    /// A config with a mistake is logged.
    #[must_use]
    pub fn of(
        service: &Arc<Service>,
        configs: &Configs,
        identity: &Identity,
        named: &[NamedPort],
        usual: &ListenAt,
    ) -> Vec<Self> {
        let own = ProxyPort::read(configs).unwrap_or_else(|problem| {
            tracing::warn!(service = %service.name, %problem, "no port is opened for a service");
            None
        });
        let ports: Vec<(Protocol, u16, ListenAt)> = match own {
            Some(own) => {
                let at = own.at.unwrap_or_else(|| usual.clone());
                let protocols = own.protocols.into_iter();
                protocols.map(|protocol| (protocol, own.port, at.clone())).collect()
            }
            None => named
                .iter()
                .filter(|named| named.service == service.name)
                .map(|named| (named.protocol, named.port, usual.clone()))
                .collect(),
        };
        let wanted = ports.into_iter().map(|(protocol, port, at)| {
            let route = ServiceRoute::new(Arc::clone(service), configs, identity, port)
                .unwrap_or_else(|problem| {
                    tracing::warn!(
                        service = %service.name, %problem,
                        "a config of a service has a mistake and is not used"
                    );
                    ServiceRoute::plain(Arc::clone(service))
                });
            Self { protocol, port, at, route }
        });
        wanted.collect()
    }

    fn key(&self) -> (Protocol, u16, &str) {
        (self.protocol, self.port, &self.route.service.id)
    }

    /// Whether both are for one socket. A free port is taken for one service alone.
    fn is_same_socket(&self, other: &Self) -> bool {
        let is_same = self.protocol == other.protocol && self.port == other.port;
        let is_for_it = self.port != 0 || self.route.service.id == other.route.service.id;
        is_same && is_for_it && self.at == other.at
    }

    fn is_in(&self, all: &ByPort<'_>) -> bool {
        all.get(&self.key()).is_some_and(|same| same.contains(&self))
    }
}

/// Ports by the values in which most of them differ.
type ByPort<'a> = HashMap<(Protocol, u16, &'a str), Vec<&'a PortWanted>>;

fn by_port<'a>(ports: impl IntoIterator<Item = &'a PortWanted>) -> ByPort<'a> {
    let mut all = ByPort::new();
    for port in ports {
        all.entry(port.key()).or_default().push(port);
    }
    all
}

/// Takes the port whose socket is the wanted one.
fn take_same_socket(
    resting: &mut Vec<Resting>,
    wanted: &PortWanted,
    interfaces: &InterfaceAddresses,
) -> Option<Listening> {
    let at = resting.iter().position(|port| {
        let is_in_place = interfaces.still(&port.wanted.at, port.listening.address());
        is_in_place && port.wanted.is_same_socket(wanted)
    })?;
    Some(resting.swap_remove(at).listening)
}

/// A port, and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortState {
    /// Name of the service.
    pub service: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The address that it listens on, or why it does not.
    pub listening: Result<SocketAddr, String>,
}

/// Listens on ports.
pub struct Ports {
    carrier: Arc<dyn Carrier>,
    times: UdpTimes,
    /// Tells the addresses of this machine's interfaces.
    interfaces: fn() -> io::Result<Addresses>,
    /// Held during a change: UDP ports that are wanted no more, and have conversations.
    resting: tokio::sync::Mutex<Vec<Resting>>,
    open: Mutex<Vec<Open>>,
}

/// A port that accepts no new clients.
struct Resting {
    wanted: PortWanted,
    listening: Listening,
}

struct Open {
    wanted: PortWanted,
    listening: Result<Listening, String>,
}

impl Open {
    /// True if the port is open where it should be.
    fn is_in_place(&self, interfaces: &InterfaceAddresses) -> bool {
        let at = &self.wanted.at;
        self.listening.as_ref().is_ok_and(|port| interfaces.still(at, port.address()))
    }
}

impl Ports {
    /// Listens on no ports yet.
    #[must_use]
    pub fn new(carrier: Arc<dyn Carrier>, times: UdpTimes) -> Self {
        let (resting, open) = (tokio::sync::Mutex::default(), Mutex::default());
        let interfaces = InterfaceAddresses::of_system;
        Self { carrier, times, interfaces, resting, open }
    }

    /// Makes these the ports to listen on. Unchanged ports stay; those that failed, or whose interface has
    /// another address now, are opened again. Clients that were accepted stay, also those of a UDP
    /// port that is wanted no more.
    pub async fn set(&self, wanted: Vec<PortWanted>) {
        self.bring(&mut *self.resting.lock().await, wanted).await;
    }

    /// Opens the ports again that failed, or whose interface has another address now. To be called from time
    /// to time.
    pub async fn catch_up(&self) {
        let mut resting = self.resting.lock().await;
        let wanted: Option<Vec<PortWanted>> = {
            let open = self.open.lock();
            let ports = open.iter().map(|open| &open.wanted.at);
            let interfaces = InterfaceAddresses::read(ports, self.interfaces);
            let is_behind = open.iter().any(|open| !open.is_in_place(&interfaces));
            is_behind.then(|| open.iter().map(|open| open.wanted.clone()).collect())
        };
        if let Some(wanted) = wanted {
            self.bring(&mut resting, wanted).await;
        }
    }

    async fn bring(&self, resting: &mut Vec<Resting>, wanted: Vec<PortWanted>) {
        let interfaces =
            InterfaceAddresses::read(wanted.iter().map(|wanted| &wanted.at), self.interfaces);
        resting.retain(|port| port.listening.is_open());
        let before = std::mem::take(&mut *self.open.lock());
        let (kept, gone): (Vec<_>, Vec<_>) = {
            let all = by_port(&wanted);
            let stays = |open: &Open| open.wanted.is_in(&all) && open.is_in_place(&interfaces);
            before.into_iter().partition(stays)
        };
        let new: Vec<PortWanted> = {
            let known = by_port(kept.iter().map(|open| &open.wanted));
            wanted.into_iter().filter(|wanted| !wanted.is_in(&known)).collect()
        };
        *self.open.lock() = kept;
        let mut problems = HashMap::new();
        for open in gone {
            let is_in_place = open.is_in_place(&interfaces);
            let Open { wanted, listening } = open;
            let is_taken = is_in_place && new.iter().any(|new| new.is_same_socket(&wanted));
            match listening {
                Ok(listening) if is_taken => {
                    resting.push(Resting { wanted, listening });
                }
                // TCP ports are closed here, because another service may take the port next.
                Ok(listening) => {
                    let still = listening.rest().await;
                    resting.extend(still.map(|listening| Resting { wanted, listening }));
                }
                Err(problem) => drop(problems.insert((wanted.protocol, wanted.port), problem)),
            }
        }
        for wanted in new {
            let led = take_same_socket(resting, &wanted, &interfaces);
            let listening = match led.filter(|port| port.lead(wanted.route.clone())) {
                Some(port) => Ok(port),
                None => self.start(&wanted, &interfaces, &problems).await,
            };
            self.open.lock().push(Open { wanted, listening });
        }
    }

    /// Opens a port. A problem that is among `known` is not logged again.
    async fn start(
        &self,
        wanted: &PortWanted,
        interfaces: &InterfaceAddresses,
        known: &HashMap<(Protocol, u16), String>,
    ) -> Result<Listening, String> {
        let (protocol, port) = (wanted.protocol, wanted.port);
        let (route, carrier) = (wanted.route.clone(), Arc::clone(&self.carrier));
        let service = Arc::clone(&route.service);
        let started = match interfaces.address(&wanted.at) {
            Ok(address) => {
                let address = SocketAddr::new(address, port);
                Listening::start(protocol, address, route, carrier, self.times).await
            }
            Err(problem) => Err(problem),
        };
        started
            .inspect(|listening| {
                let at = listening.address();
                tracing::info!(service = %service.name, "listening at {protocol}:{at}");
            })
            .map_err(|error| {
                let at = host_port(&wanted.at.to_string(), port);
                let problem = format!("cannot listen at {protocol}:{at}: {error}");
                if known.get(&(protocol, port)) != Some(&problem) {
                    tracing::error!(service = %service.name, problem, "no port is opened for a service");
                }
                problem
            })
    }

    /// The ports, and their states.
    #[must_use]
    pub fn states(&self) -> Vec<PortState> {
        let open = self.open.lock();
        let state = |open: &Open| PortState {
            service: open.wanted.route.service.name.clone(),
            protocol: open.wanted.protocol,
            listening: open.listening.as_ref().map(Listening::address).map_err(Clone::clone),
        };
        open.iter().map(state).collect()
    }
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.states()).finish()
    }
}

#[cfg(test)]
mod tests;
