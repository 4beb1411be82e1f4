//! Connecting to a listener: TCP, TLS and hello; with a WebSocket between TCP and TLS, or DTLS in place
//! of both, if the address asks for it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use weft_proxy::HttpProxy;
use weft_wire::hello::{Hello, HelloResult, negotiation};
use weft_wire::{Address, FrameError, FrameLimits, Scheme};

use crate::connection::Connection;
use crate::datagram::{self, DatagramDial};
use crate::error::DialError;
use crate::established::Established;
use crate::group::GroupPolicy;
use crate::handshake::{HelloStream, ReadError};
use crate::lookup::Asker;
use crate::options::ChannelOptions;
use crate::peer::PeerInfo;
use crate::shared::{Group, GroupState, Shared};
use crate::tls::{self, Secured};
use crate::transport::Transport;
use crate::{redial, socket, websocket};

/// A check of who the server is, beyond its chain and the name of its host. It sees the certificates, the leaf first,
/// before anything is sent to the server; its error is the reason why the server is not the one that is meant.
#[derive(Clone)]
pub struct ServerScreen(Arc<Judge>);

type Judge = dyn Fn(&[CertificateDer<'static>]) -> Result<(), String> + Send + Sync;

impl ServerScreen {
    /// A check.
    pub fn new(
        judge: impl Fn(&[CertificateDer<'static>]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(judge))
    }
}

impl std::fmt::Debug for ServerScreen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerScreen")
    }
}

/// The options of a dial.
#[derive(Debug, Clone)]
pub struct DialOptions {
    /// The address to dial.
    pub address: Address,
    /// The router that has told the address, if one has: its names are looked up in its share.
    pub told_by: Option<String>,
    /// The name that the server's certificate must have; `None` means the host of the address.
    pub server_name: Option<String>,
    /// Trusted authorities and client certificate.
    pub tls: Arc<rustls::ClientConfig>,
    /// The check of the server; without one, its chain and the name of its host suffice.
    pub screen: Option<ServerScreen>,
    /// Protocols that are offered; without any, ALPN is not used.
    pub alpn: Vec<String>,
    /// The hello; headers for groups are added to it.
    pub hello: Hello,
    /// Time limit for TCP, TLS and hello together.
    pub timeout: Duration,
    /// Local address to connect from.
    pub bind: Option<IpAddr>,
    /// A proxy through which the listener is reached.
    pub proxy: Option<HttpProxy>,
    /// How `dtls:` addresses are dialed, always without the proxy; `None` refuses them.
    pub datagrams: Option<DatagramDial>,
    /// The options of the channel.
    pub channel: ChannelOptions,
    /// The connections the channel wants; `None` for a single one without grouping.
    pub group: Option<GroupPolicy>,
    /// Id of the group, for channels whose dialer chooses it.
    pub connection_id: Option<String>,
}

/// The default time limit.
const TIMEOUT: Duration = Duration::from_secs(15);

impl DialOptions {
    /// Dials one connection to `address`, with defaults for all other options.
    pub fn new(
        address: Address,
        tls: Arc<rustls::ClientConfig>,
        alpn: &str,
        hello: Hello,
        channel: ChannelOptions,
    ) -> Self {
        Self {
            address,
            told_by: None,
            server_name: None,
            tls,
            screen: None,
            alpn: vec![alpn.to_owned()],
            hello,
            timeout: TIMEOUT,
            bind: None,
            proxy: None,
            datagrams: None,
            channel,
            group: None,
            connection_id: None,
        }
    }

    fn asker(&self) -> Asker<'_> {
        self.told_by.as_deref().map_or(Asker::Process, Asker::Peer)
    }

    fn error_address(&self) -> String {
        self.address.to_string()
    }
}

/// Connects. The channel does not read or write before [`Established::start`]. After that, the further
/// connections of a group are dialed by its policy.
pub async fn dial(options: DialOptions) -> Result<Established, DialError> {
    let hello = match options.group.as_ref().and_then(|policy| policy.types.first()) {
        Some(first) => {
            let id = options.connection_id.as_deref();
            options.hello.clone().grouped_first(&first.kind, id, None)
        }
        None => options.hello.clone(),
    };
    let dialed = connect(&options, &hello).await?;
    let given = dialed.result.connection_id().unwrap_or_default().to_owned();
    let secret = dialed.result.group_secret().map(<[u8]>::to_vec);
    let group = options.group.clone().zip(secret).map(|(policy, secret)| {
        let id = options.connection_id.clone().unwrap_or(given);
        Group { policy, state: Mutex::new(GroupState { id, secret }), identity: Vec::new() }
    });
    let grouped = group.is_some();
    let shared = Shared::new(options.channel.clone(), dialed.peer, group);
    let started = grouped.then(|| redial::starter(options));
    Ok(Established::new(shared, dialed.connection, started))
}

/// A connection and its listener's answer.
#[derive(Debug)]
pub(crate) struct Dialed {
    pub(crate) connection: Connection,
    pub(crate) result: HelloResult,
    pub(crate) peer: PeerInfo,
}

/// One connection: TCP, TLS and hello under one deadline.
pub(crate) async fn connect(options: &DialOptions, hello: &Hello) -> Result<Dialed, DialError> {
    let deadline = Instant::now() + options.timeout;
    let through = options.proxy.as_ref().filter(|_| options.address.scheme != Scheme::Dtls);
    let timeout = || DialError::Timeout {
        address: match through {
            Some(proxy) => format!("{} through {proxy}", options.error_address()),
            None => options.error_address(),
        },
        seconds: options.timeout.as_secs_f32(),
    };
    // Boxed, so that the future of the caller stays small.
    let connected = Box::pin(connect_now(options, hello));
    tokio::time::timeout_at(deadline, connected).await.map_err(|_| timeout())?
}

async fn connect_now(options: &DialOptions, hello: &Hello) -> Result<Dialed, DialError> {
    let address = || options.error_address();
    let bad = |problem: &str| DialError::Address { address: address(), problem: problem.into() };
    let over_websocket = match (options.address.scheme, &options.datagrams) {
        (Scheme::Tls, _) => false,
        (Scheme::Wss, _) => true,
        (Scheme::Dtls, Some(with)) => return over_datagrams(options, with, hello).await,
        _ => return Err(bad("channels are dialed over tls and wss only, links over dtls too")),
    };
    let name = options.server_name.as_ref().unwrap_or(&options.address.host).clone();
    let name = ServerName::try_from(name).map_err(|_| bad("the host is no valid server name"))?;
    let place = (options.address.host.as_str(), options.address.port);
    let socket = reach(options.asker(), place, options.proxy.as_ref(), options.bind).await;
    let socket = socket.map_err(|source| DialError::Connect { address: address(), source })?;
    let addresses = socket.peer_addr().and_then(|remote| Ok((remote, socket.local_addr()?)));
    let (remote, local) =
        addresses.map_err(|source| DialError::Connect { address: address(), source })?;
    let failed = |source| DialError::Tls { address: address(), source };
    let secured = if over_websocket {
        let outer = TlsConnector::from(options.tls.clone());
        let outer = outer.with_alpn(vec![b"http/1.1".to_vec()]).connect(name.clone(), socket);
        let outer = outer.await.map_err(|error| failed(tls::refusal_in_words(error)))?;
        let line = websocket::dial(outer.into(), &authority(options)).await.map_err(failed)?;
        let offered = options.tls.alpn_protocols.clone();
        tls::connect(&options.tls, offered, name, line).await.map(Secured::from)
    } else {
        let offered = options.alpn.iter().map(|name| name.clone().into_bytes()).collect();
        tls::connect(&options.tls, offered, name, socket).await.map(Secured::from)
    };
    Ok(dialed(greet(options, secured.map_err(failed)?, hello).await?, (remote, local)))
}

async fn over_datagrams(
    options: &DialOptions,
    with: &DatagramDial,
    hello: &Hello,
) -> Result<Dialed, DialError> {
    let place = (options.address.host.as_str(), options.address.port);
    let failed = |source| DialError::Dtls { address: options.error_address(), source };
    let from = (options.asker(), options.bind);
    let flow = datagram::dial(place, from, options.timeout, with).await.map_err(failed)?;
    let greeted = greet(options, flow, hello).await?;
    let addresses = greeted.pump.addresses().map_err(failed)?;
    Ok(dialed(greeted, addresses))
}

/// A connection whose hello was answered.
struct Greeted {
    pump: Transport,
    kind: String,
    certificates: Vec<CertificateDer<'static>>,
    result: HelloResult,
}

fn dialed(greeted: Greeted, (remote, local): (SocketAddr, SocketAddr)) -> Dialed {
    let Greeted { pump, kind, certificates, result } = greeted;
    let peer = PeerInfo {
        certificates,
        remote,
        local,
        id: result.listener_id().map(str::to_owned),
        headers: result.headers.clone(),
        dialed: true,
    };
    Dialed { connection: Connection { pump, kind, slot: None }, result, peer }
}

/// Host and port in the form for requests.
fn authority(options: &DialOptions) -> String {
    options.address.host_port()
}

/// Sends the hello and makes a connection of the stream.
async fn greet(
    options: &DialOptions,
    mut stream: impl HelloStream,
    hello: &Hello,
) -> Result<Greeted, DialError> {
    let certificates = stream.certificates();
    if let Some(screen) = &options.screen {
        let problem = (screen.0)(&certificates);
        problem
            .map_err(|problem| DialError::Server { address: options.error_address(), problem })?;
    }
    let result = say_hello(options, &mut stream, hello).await?;
    let kind = hello.underlay_type().unwrap_or_default().to_owned();
    Ok(Greeted { pump: stream.into_transport(), kind, certificates, result })
}

async fn say_hello(
    options: &DialOptions,
    stream: &mut impl HelloStream,
    hello: &Hello,
) -> Result<HelloResult, DialError> {
    let address = || options.error_address();
    let broken = |source| DialError::Hello { address: address(), source };
    stream.write(&hello.to_message()).await.map_err(broken)?;
    let answer = stream.read_answer(FrameLimits::HELLO, hello.sequence).await;
    let answer = answer.map_err(|error| match error {
        ReadError::Io(source) => broken(source),
        ReadError::Frame(FrameError::Magic { found }) if found == negotiation::MAGIC => {
            DialError::Version { address: address() }
        }
        ReadError::Frame(source) => {
            DialError::Protocol { address: address(), source: source.into() }
        }
    })?;
    let result = HelloResult::from_message(answer, hello.sequence)
        .map_err(|source| DialError::Protocol { address: address(), source })?;
    if result.success {
        return Ok(result);
    }
    let class = result.reject_class();
    Err(DialError::Refused { address: address(), text: result.text, class })
}

/// Connects to a host, or through a proxy, which resolves the host itself. `bind` is the local address.
///
/// # Errors
/// When the host or the proxy cannot be reached, or the proxy refuses; its error names the proxy.
pub async fn reach(
    asker: Asker<'_>,
    (host, port): (&str, u16),
    proxy: Option<&HttpProxy>,
    bind: Option<IpAddr>,
) -> io::Result<TcpStream> {
    let Some(proxy) = proxy else { return to(asker, host, port, bind).await };
    let connected = to(Asker::Process, &proxy.host, proxy.port, bind).await;
    let mut stream = connected.map_err(|error| proxy.unreachable(&error))?;
    proxy.connect(&mut stream, host, port).await?;
    Ok(stream)
}

/// Connects to the first address of the host that answers.
async fn to(
    asker: Asker<'_>,
    host: &str,
    port: u16,
    bind: Option<IpAddr>,
) -> io::Result<TcpStream> {
    socket::connect(crate::resolve_for(asker, host, port).await?, bind).await
}
