//! The ports of this machine that lead to services, kept in line with the wanted ones.

use std::{collections::HashMap, io, net::SocketAddr, sync::Arc};

use parking_lot::Mutex;

use crate::{
    Carrier, Configs, Identity, Listening, Protocol, ProxyPort, Service, UdpTimes, Way,
    config::ListenAt,
    interface_addresses::{Addresses, InterfaceAddresses},
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
    /// The way of its clients.
    pub way: Way,
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
            let way =
                Way::new(Arc::clone(service), configs, identity, port).unwrap_or_else(|problem| {
                    tracing::warn!(
                        service = %service.name, %problem,
                        "a config of a service has a mistake and is not used"
                    );
                    Way::plain(Arc::clone(service))
                });
            Self { protocol, port, at, way }
        });
        wanted.collect()
    }

    fn key(&self) -> (Protocol, u16, &str) {
        (self.protocol, self.port, &self.way.service.id)
    }

    /// Whether both are for one socket. A free port is taken for one service alone.
    fn is_same_socket(&self, other: &Self) -> bool {
        let is_same = self.protocol == other.protocol && self.port == other.port;
        let is_for_it = self.port != 0 || self.way.service.id == other.way.service.id;
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
            let listening = match led.filter(|port| port.lead(wanted.way.clone())) {
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
        let (way, carrier) = (wanted.way.clone(), Arc::clone(&self.carrier));
        let service = Arc::clone(&way.service);
        let started = match interfaces.address(&wanted.at) {
            Ok(address) => {
                let address = SocketAddr::new(address, port);
                Listening::start(protocol, address, way, carrier, self.times).await
            }
            Err(problem) => Err(problem),
        };
        started
            .inspect(|listening| {
                let at = listening.address();
                tracing::info!(service = %service.name, "listening at {protocol}:{at}");
            })
            .map_err(|error| {
                let problem = format!("cannot listen at {protocol}:{}:{port}: {error}", wanted.at);
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
            service: open.wanted.way.service.name.clone(),
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
mod tests {
    use std::time::Duration;

    use futures::{FutureExt, future::BoxFuture};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream, UdpSocket},
        sync::mpsc,
    };

    use super::*;
    use crate::{AppData, Call, Client, Refusal};

    /// Answers clients with the name of their service; sends the application data for hosts to a
    /// test.
    struct Names(mpsc::UnboundedSender<AppData>);

    impl Carrier for Names {
        fn carry(&self, call: Call) -> BoxFuture<'static, Result<(), Refusal>> {
            self.0.send(AppData::parse(&call.app_data).unwrap()).unwrap();
            async move {
                let name = call.service.name.as_bytes();
                match call.client {
                    Client::Tcp(mut stream) => stream.write_all(name).await.unwrap(),
                    Client::Udp(client) => {
                        while client.receive().await.is_some() {
                            client.answer(name).await.unwrap();
                        }
                    }
                }
                Ok(())
            }
            .boxed()
        }
    }

    fn wanted(name: &str, port: u16, configs: &[(&str, &str)]) -> Vec<PortWanted> {
        let service = Arc::new(Service { name: name.into(), ..Service::default() });
        let configs = configs.iter().map(|(kind, text)| ((*kind).into(), (*text).into())).collect();
        let named = [Protocol::Tcp, Protocol::Udp].map(|protocol| NamedPort {
            service: name.into(),
            port,
            protocol,
        });
        PortWanted::of(&service, &configs, &Identity::default(), &named, &ListenAt::HERE)
    }

    async fn said(at: SocketAddr) -> String {
        let mut said = String::new();
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.read_to_string(&mut said).await.unwrap();
        said
    }

    #[tokio::test]
    async fn ports_become_what_is_wanted() {
        let (tell, mut told) = mpsc::unbounded_channel();
        let ports = Ports::new(Arc::new(Names(tell)), UdpTimes::default());
        let intercept = r#"{"protocols":["tcp"],"addresses":["web.corp"],
            "portRanges":[{"low":443,"high":443}]}"#;
        let web = wanted("web", 0, &[("intercept.v1", intercept)]);
        ports.set(web.clone()).await;
        let before = ports.states();
        let [tcp, udp] = before.as_slice() else { panic!("{before:?}") };
        let (tcp, udp) = (tcp.listening.clone().unwrap(), udp.listening.clone().unwrap());
        assert_eq!(said(tcp).await, "web");
        // A host that forwards is told the address at which the service is known.
        let data = told.recv().await.unwrap();
        assert_eq!(data.required("dst_hostname"), Ok("web.corp"));
        assert_eq!(data.required("dst_port"), Ok("443"));
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(b"?", udp).await.unwrap();
        let mut buffer = [0; 16];
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        assert_eq!((&buffer[..length], from), (&b"web"[..], udp));

        ports.set(web).await;
        assert_eq!(ports.states(), before, "what stays the same stays");
        // Another service takes the same port, at once.
        let own = format!(r#"{{"port":{},"protocols":["tcp"]}}"#, tcp.port());
        ports.set(wanted("wiki", 0, &[("proxy.v1", &own)])).await;
        assert_eq!(said(tcp).await, "wiki");
        ports.set(wanted("docs", 0, &[("proxy.v1", &own)])).await;
        assert_eq!(said(tcp).await, "docs");
        ports.set(Vec::new()).await;
        assert!(ports.states().is_empty());
        assert!(TcpStream::connect(tcp).await.is_err());
    }

    /// A client in datagrams.
    struct Asks(UdpSocket);

    impl Asks {
        async fn new() -> Self {
            Self(UdpSocket::bind("127.0.0.1:0").await.unwrap())
        }

        /// The answer to a datagram; none if there is none within the time.
        async fn answer(&self, at: SocketAddr, time: Duration) -> Option<String> {
            self.0.send_to(b"?", at).await.unwrap();
            let mut buffer = [0; 16];
            let received = tokio::time::timeout(time, self.0.recv_from(&mut buffer)).await;
            let (length, from) = received.ok()?.unwrap();
            assert_eq!(from, at);
            Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
        }
    }

    /// A port of an address at which nobody else takes ports.
    fn udp(name: &str, port: u16) -> Vec<PortWanted> {
        let own = format!(r#"{{"port":{port},"protocols":["udp"],"binding":"127.77.2.1"}}"#);
        wanted(name, 0, &[("proxy.v1", &own)])
    }

    // Other systems have one loopback address only.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn conversations_in_datagrams_go_on_when_their_port_changes_and_goes() {
        let (tell, _told) = mpsc::unbounded_channel();
        let times = UdpTimes { idle: Duration::from_secs(1), ..UdpTimes::default() };
        let times = UdpTimes { check: Duration::from_millis(50), ..times };
        let ports = Ports::new(Arc::new(Names(tell)), times);
        let at = UdpSocket::bind("127.77.2.1:0").await.unwrap().local_addr().unwrap();
        ports.set(udp("web", at.port())).await;
        let (early, late, later) = (Asks::new().await, Asks::new().await, Asks::new().await);
        let (long, short) = (Duration::from_secs(10), Duration::from_millis(100));
        assert_eq!(early.answer(at, long).await.as_deref(), Some("web"));

        ports.set(udp("wiki", at.port())).await;
        assert_eq!(ports.states().remove(0).listening, Ok(at));
        assert_eq!(early.answer(at, long).await.as_deref(), Some("web"), "it stays where it is");
        assert_eq!(late.answer(at, long).await.as_deref(), Some("wiki"));

        ports.set(Vec::new()).await;
        assert_eq!(early.answer(at, long).await.as_deref(), Some("web"));
        assert_eq!(later.answer(at, short).await, None, "nobody new is accepted");
        ports.set(udp("docs", at.port())).await;
        assert_eq!(ports.states().remove(0).listening, Ok(at));
        assert_eq!(later.answer(at, long).await.as_deref(), Some("docs"));

        // Once the last conversation is idle, the port is free.
        drop(ports);
        let free = async {
            while UdpSocket::bind(at).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(long, free).await.unwrap();
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_told_and_tried_again() {
        let (tell, _told) = mpsc::unbounded_channel();
        let ports = Ports::new(Arc::new(Names(tell)), UdpTimes::default());
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = taken.local_addr().unwrap();
        let own = format!(r#"{{"port":{},"protocols":["tcp"],"binding":"127.0.0.1"}}"#, at.port());
        let web = wanted("web", 0, &[("proxy.v1", &own)]);
        ports.set(web.clone()).await;
        let problem = ports.states().remove(0).listening.unwrap_err();
        assert!(problem.contains(&at.to_string()), "{problem}");
        drop(taken);
        ports.catch_up().await;
        assert_eq!(ports.states().remove(0).listening, Ok(at));
        let own = r#"{"port":7,"protocols":["tcp"],"binding":"no-such-interface"}"#;
        ports.set(wanted("web", 0, &[("proxy.v1", own)])).await;
        let problem = ports.states().remove(0).listening.unwrap_err();
        assert!(problem.contains("there are ") && problem.contains("lo"), "{problem}");
    }

    // Other systems have one loopback address only.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_port_follows_the_address_of_its_interface() {
        use std::sync::atomic::{AtomicU8, Ordering};
        /// The last byte of the address of the interface `wlan0`; 0 while it has none.
        static WLAN: AtomicU8 = AtomicU8::new(1);
        fn interfaces() -> io::Result<Addresses> {
            let last = WLAN.load(Ordering::Relaxed);
            let wlan = (last != 0).then(|| ("wlan0".to_owned(), [127, 77, 1, last].into()));
            let eth = ("eth0".to_owned(), [127, 77, 1, 9].into());
            Ok(wlan.into_iter().chain([eth]).collect())
        }
        let (tell, _told) = mpsc::unbounded_channel();
        let ports = Ports::new(Arc::new(Names(tell)), UdpTimes::default());
        let ports = Ports { interfaces, ..ports };
        // Of an address at which nobody else takes ports.
        let free = UdpSocket::bind("127.77.1.1:0").await.unwrap().local_addr().unwrap().port();
        let own = format!(r#"{{"port":{free},"protocols":["tcp","udp"],"binding":"wlan0"}}"#);
        let all = || [wanted("web", 0, &[("proxy.v1", &own)]), wanted("dns", 0, &[])].concat();
        ports.set(all()).await;
        let at = |last| SocketAddr::from(([127, 77, 1, last], free));
        let states = || ports.states().into_iter().map(|one| one.listening).collect::<Vec<_>>();
        let others = states().split_off(2);
        assert_eq!(states()[..2], [Ok(at(1)), Ok(at(1))]);
        let (client, long) = (Asks::new().await, Duration::from_secs(10));
        assert_eq!(client.answer(at(1), long).await.as_deref(), Some("web"));

        // The machine joins another network.
        WLAN.store(2, Ordering::Relaxed);
        ports.catch_up().await;
        assert_eq!(states()[..2], others);
        assert_eq!(states()[2..], [Ok(at(2)), Ok(at(2))]);
        assert_eq!(said(at(2)).await, "web");
        assert_eq!(Asks::new().await.answer(at(2), long).await.as_deref(), Some("web"));
        assert!(TcpStream::connect(at(1)).await.is_err());
        assert_eq!(client.answer(at(1), long).await.as_deref(), Some("web"), "it was there before");
        // It leaves the network, and joins the first one again. Its client has never left.
        WLAN.store(0, Ordering::Relaxed);
        ports.catch_up().await;
        let problem = states()[2].clone().unwrap_err();
        assert!(problem.contains("`wlan0`") && problem.contains("eth0"), "{problem}");
        WLAN.store(1, Ordering::Relaxed);
        ports.set(all()).await;
        assert_eq!(states()[..2], others);
        assert_eq!(states()[2..], [Ok(at(1)), Ok(at(1))]);
        assert_eq!(client.answer(at(1), long).await.as_deref(), Some("web"));
    }
}
