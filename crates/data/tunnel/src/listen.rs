//! Ports of this machine that lead to services (docs/protocol/tunnel.md 5.5).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use weft_channel::clock::now;
use weft_limits::LogLines;

use crate::complaints::Complaints;
use crate::config::ConfigError;
use crate::port_route::PortRoute;
use crate::{
    AppData, Call, Carrier, Client, Configs, Conversations, Intercept, InterceptAddress, Protocol,
    ReplySocket, Service, Template, UdpTimes, Wanted,
};

/// Most clients of one port that are carried at once; more wait to be accepted.
const MOST_CLIENTS: usize = 16_384;
/// The pause after a client could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// Largest datagram, in bytes.
const MAX_DATAGRAM: usize = 65_507;

/// How clients of a port are carried to a service.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceRoute {
    /// The service.
    pub service: Arc<Service>,
    /// The instance of the service.
    pub instance: Template,
    /// The address that the host is asked to connect from.
    pub source: Template,
    /// Time limit of a dial, if there is one.
    pub timeout: Option<Duration>,
    /// The destination for the host, if it is not the address that the client connected to.
    pub aim: Option<Aim>,
}

/// An address of a service, in the form for its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aim {
    /// The name, if it has one.
    pub hostname: Option<String>,
    /// The address, if it has one.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
}

impl ServiceRoute {
    /// The route to a service, by its configs. A host that forwards addresses is sent the one at which
    /// the service is intercepted, if that is one name or one address.
    ///
    /// # Errors
    /// When the `intercept.v1` of the service has a mistake.
    pub fn new(
        service: Arc<Service>,
        configs: &Configs,
        identity: &crate::Identity,
        port: u16,
    ) -> Result<Self, ConfigError> {
        let intercept = Intercept::read(configs)?;
        let template = |text: Option<&String>| {
            let text = text.map(String::as_str).unwrap_or_default();
            Template::new(text, identity).unwrap_or_else(|problem| {
                tracing::warn!(
                    service = %service.name, %problem,
                    "a template of the service's config has a mistake and is not used"
                );
                Template::default()
            })
        };
        Ok(Self {
            instance: template(intercept.as_ref().map(|intercept| &intercept.identity)),
            source: template(intercept.as_ref().map(|intercept| &intercept.source_ip)),
            timeout: intercept.as_ref().and_then(|intercept| intercept.connect_timeout),
            aim: intercept.and_then(|intercept| intercept.aim(port)),
            service,
        })
    }

    /// The route to a service without configs.
    #[must_use]
    pub fn plain(service: Arc<Service>) -> Self {
        let (instance, source) = (Template::default(), Template::default());
        Self { service, instance, source, timeout: None, aim: None }
    }

    pub(crate) fn call(&self, client: Client, local: SocketAddr, remote: SocketAddr) -> Call {
        let protocol = match &client {
            Client::Tcp(_) => Protocol::Tcp,
            Client::Udp(_) => Protocol::Udp,
        };
        let (destination, hostname) = match &self.aim {
            None => (local, None),
            Some(aim) => {
                let address = aim.address.unwrap_or(local.ip());
                (SocketAddr::new(address, aim.port), aim.hostname.clone())
            }
        };
        let wanted = Wanted { protocol, source: remote, destination, hostname };
        Call {
            service: Arc::clone(&self.service),
            instance: self.instance.fill(&wanted),
            app_data: AppData::of(&wanted, Some(&self.source.fill(&wanted))).to_bytes(),
            timeout: self.timeout,
            local,
            remote,
            client,
        }
    }
}

impl Intercept {
    /// The service's only address, if it has exactly one; with this port, if the service has it.
    #[must_use]
    pub fn aim(&self, port: u16) -> Option<Aim> {
        let (hostname, address) = match self.addresses.as_slice() {
            [InterceptAddress::Name(name)] => (Some(name.clone()), None),
            [InterceptAddress::Network(network)] if network.is_single() => {
                (None, Some(network.address()))
            }
            _ => return None,
        };
        let has = self.port_ranges.iter().any(|range| range.contains(port));
        let port = if has { port } else { self.port_ranges.first()?.low };
        Some(Aim { hostname, address, port })
    }
}

/// A port that accepts clients until this is dropped. Clients that were accepted stay.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    protocol: Protocol,
    route: Arc<PortRoute>,
    task: JoinHandle<()>,
}

impl Listening {
    /// Listens at an address (port 0 takes a free one) and has the port's clients carried.
    ///
    /// # Errors
    /// When the address is not this machine's, or is in use.
    pub async fn start(
        protocol: Protocol,
        address: SocketAddr,
        route: ServiceRoute,
        carrier: Arc<dyn Carrier>,
        times: UdpTimes,
    ) -> io::Result<Self> {
        let route = Arc::new(PortRoute::new(route));
        let (address, task) = match protocol {
            Protocol::Tcp => {
                let listener = TcpListener::bind(address).await?;
                let address = listener.local_addr()?;
                (address, tokio::spawn(accept(listener, Arc::clone(&route), carrier)))
            }
            Protocol::Udp => {
                let socket = Arc::new(UdpSocket::bind(address).await?);
                let address = socket.local_addr()?;
                (address, tokio::spawn(receive(socket, Arc::clone(&route), carrier, times)))
            }
        };
        Ok(Self { address, protocol, route, task })
    }

    /// Carries clients that are accepted from now on over another route. False if the port was closed
    /// meanwhile.
    pub fn lead(&self, route: ServiceRoute) -> bool {
        self.route.change(Some(route))
    }

    /// Accepts no new clients. A TCP port is free when this returns. A UDP port is open as long as it has
    /// conversations, whose datagrams arrive over it; then it is returned, and can be given another
    /// route.
    pub async fn rest(mut self) -> Option<Self> {
        self.route.change(None);
        if self.protocol == Protocol::Tcp {
            let _ = (&mut self.task).await;
        }
        self.is_open().then_some(self)
    }

    /// False once the port is free, after [`Listening::rest`].
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.route.is_closed()
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.route.change(None);
    }
}

async fn accept(listener: TcpListener, route: Arc<PortRoute>, carrier: Arc<dyn Carrier>) {
    let places = Arc::new(Semaphore::new(MOST_CLIENTS));
    let complaints = Arc::<Complaints>::default();
    let mut lines = LogLines::new(now());
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = route.changed() => match route.close_if(true) {
                true => return,
                false => continue,
            },
            accepted = accepted => accepted,
        };
        let Some(route) = route.now() else { continue };
        match accepted {
            Ok((stream, remote)) => {
                let Some(call) = prepared(&route, stream, remote) else { continue };
                let carrying = carrier.carry(call);
                let (service, complaints) = (Arc::clone(&route.service), Arc::clone(&complaints));
                tokio::spawn(async move {
                    if let Err(refusal) = carrying.await {
                        complaints.note(&service.name, remote, &refusal);
                    }
                    drop(place);
                });
            }
            Err(problem) => {
                if let Some(left_out) = lines.due(now()) {
                    tracing::warn!(service = %route.service.name, %problem, left_out, "a client was not accepted");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn prepared(route: &ServiceRoute, stream: TcpStream, remote: SocketAddr) -> Option<Call> {
    let local = stream.local_addr().ok()?;
    // A client may read nothing for as long as it likes: a limit would cut it while it lives.
    weft_channel::prepare(&stream, None).ok()?;
    Some(route.call(Client::tcp(stream), local, remote))
}

async fn receive(
    socket: Arc<UdpSocket>,
    route: Arc<PortRoute>,
    carrier: Arc<dyn Carrier>,
    times: UdpTimes,
) {
    let Ok(local) = socket.local_addr() else { return };
    let conversations = Conversations::new(times);
    let complaints = Arc::<Complaints>::default();
    let mut lines = LogLines::new(now());
    let mut buffer = vec![0; MAX_DATAGRAM];
    // Without a route for new clients, the port is open for those that it has.
    while !route.close_if(conversations.is_empty()) {
        let received = tokio::select! {
            () = route.changed() => continue,
            () = conversations.emptied() => continue,
            received = socket.recv_from(&mut buffer) => received,
        };
        let (length, remote) = match received {
            Ok(received) => received,
            // The error of an earlier answer, whose client is gone.
            Err(problem) if problem.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(problem) => {
                if let Some(left_out) = lines.due(now()) {
                    tracing::warn!(at = %local, %problem, left_out, "no datagram was received");
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let datagram = Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
        let Some(route) = route.now() else {
            conversations.deliver_known(remote, datagram);
            continue;
        };
        let reply = || Ok(ReplySocket::Shared(Arc::clone(&socket), remote));
        match conversations.deliver(remote, datagram, reply) {
            Ok(None) => {}
            Ok(Some(begun)) => {
                let carrying = carrier.carry(route.call(Client::Udp(begun), local, remote));
                let (service, complaints) = (Arc::clone(&route.service), Arc::clone(&complaints));
                tokio::spawn(async move {
                    if let Err(refusal) = carrying.await {
                        complaints.note(&service.name, remote, &refusal);
                    }
                });
            }
            Err(problem) => {
                tracing::debug!(service = %route.service.name, %remote, %problem, "a datagram is dropped");
            }
        }
    }
}
