//! Listening sockets, each shared by the protocols registered on it.
//!
//! Several protocols may listen on one `host:port`; the ALPN of the TLS handshake decides on the
//! protocol of a connection (docs/protocol/channel.md 3.1). The socket belongs to the registrations: it
//! closes with the last one.
//!
//! ```text
//! accept -> door of the socket: until the peer has named its protocol
//!        -> door of the protocol: until the peer is authenticated
//!        -> connections of the protocol
//! ```
//!
//! Clients of one protocol therefore take no places from those of another, except for the time until
//! they have named their protocol. A connection that arrives while the door of the socket is full waits
//! in a line, or takes a place of its own if its source is known (see [`crate::door`]).

use crate::door::{Door, DoorLimits, KnownSources, PACE, PendingSlot, TakenBack};
use crate::first_words::FirstWords;
use crate::line::{Line, Waiting};
use crate::socket::{self, PEER_TIMEOUT};
use crate::tls::{self, Secured};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_rustls::{StartHandshake, TlsStream};
use weft_limits::TableFull;

/// The TLS settings for the next handshake; `None` refuses the handshake.
pub type TlsSource = Arc<dyn Fn() -> Option<Arc<rustls::ServerConfig>> + Send + Sync>;

/// The limits of a listening socket, or of a protocol on it, for peers that are not authenticated.
#[derive(Debug, Clone, Copy)]
pub struct ListenerLimits {
    /// Most connections whose handshake or hello is not complete. The same number of further
    /// connections waits in a line.
    pub pending: usize,
    /// Most such connections from one source: one address of IPv4, one /64 network of IPv6.
    pub pending_per_source: usize,
    /// How long such a connection keeps its place while others want one. After that it is closed when
    /// another connection needs the place.
    pub grace: Duration,
    /// Time limit for the TLS handshake.
    pub handshake_timeout: Duration,
    /// Most connections in all. Further ones are closed at once.
    pub connections: usize,
}

impl ListenerLimits {
    pub(crate) fn door(&self, known: &Arc<KnownSources>) -> Arc<Door> {
        let (places, per_source, grace) = (self.pending, self.pending_per_source, self.grace);
        Door::new(DoorLimits { places, per_source, grace }, Arc::clone(known))
    }
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            pending: 512,
            pending_per_source: 64,
            grace: Duration::from_secs(2),
            handshake_timeout: Duration::from_secs(5),
            connections: 65536,
        }
    }
}

/// A TLS connection for a registered protocol.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: TlsStream<TcpStream>,
    /// The address of the peer.
    pub remote: SocketAddr,
    /// The address of this side.
    pub local: SocketAddr,
    /// The protocol that the peer named; empty if it named none.
    pub protocol: String,
    /// The place at the protocol's door. To be dropped when the peer is authenticated.
    pub pending: PendingSlot,
    /// The place among the connections. To be dropped when the connection ends.
    pub slot: ConnectionSlot,
}

/// A place among the connections of a protocol.
#[derive(Debug)]
pub struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
}

impl ConnectionSlot {
    pub(crate) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: permit }
    }
}

/// A connection for channels, whatever carries it, before its hello.
#[derive(Debug)]
pub(crate) struct Arrival<F> {
    pub(crate) stream: F,
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) protocol: String,
    pub(crate) pending: PendingSlot,
    pub(crate) slot: ConnectionSlot,
}

/// Handles the connections of a protocol that is not one of channels.
pub trait ConnectionHandler: Send + Sync + 'static {
    /// Handles one connection, in a task of its own.
    fn handle(&self, connection: Accepted) -> BoxFuture<'static, ()>;
}

/// Handles the connections of channels.
pub(crate) trait ChannelHandler: Send + Sync + 'static {
    /// Handles one connection, in a task of its own.
    fn handle(&self, connection: Arrival<Secured>) -> BoxFuture<'static, ()>;
}

/// What handles the connections of a protocol.
#[derive(Clone)]
pub struct ProtocolHandler(Handles);

#[derive(Clone)]
enum Handles {
    Connections(Arc<dyn ConnectionHandler>),
    Channels(Arc<dyn ChannelHandler>),
}

impl<H: ConnectionHandler> From<Arc<H>> for ProtocolHandler {
    fn from(handler: Arc<H>) -> Self {
        Self(Handles::Connections(handler))
    }
}

impl ProtocolHandler {
    pub(crate) fn of_channels(handler: Arc<dyn ChannelHandler>) -> Self {
        Self(Handles::Channels(handler))
    }
}

/// Why a protocol was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The protocol is registered already.
    #[error("handler for protocol[{protocol}] already exists on {bind}")]
    Taken {
        /// The protocol.
        protocol: String,
        /// The address.
        bind: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {bind}: {source}")]
    Bind {
        /// The address.
        bind: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// The listening sockets of a process, by the exact text of their addresses.
#[derive(Debug, Default)]
pub struct Listeners {
    sockets: tokio::sync::Mutex<HashMap<String, Weak<SharedListener>>>,
}

impl Listeners {
    /// Without any socket.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers protocols on `bind` (`host:port`), opening the socket if it is not open. The limits
    /// are those of the protocols; the socket has those of the first call.
    pub async fn listen(
        &self,
        bind: &str,
        limits: ListenerLimits,
        protocols: &[&str],
        tls: TlsSource,
        handler: impl Into<ProtocolHandler>,
    ) -> Result<Registration, RegisterError> {
        let mut sockets = self.sockets.lock().await;
        sockets.retain(|_, socket| socket.strong_count() > 0);
        let listener = match sockets.get(bind).and_then(Weak::upgrade) {
            Some(listener) => listener,
            None => {
                let listener = SharedListener::bind(bind, limits).await?;
                sockets.insert(bind.to_owned(), Arc::downgrade(&listener));
                listener
            }
        };
        listener.register_with(limits, protocols, tls, handler)
    }
}

/// One listening socket.
pub struct SharedListener {
    bind: String,
    local: SocketAddr,
    limits: ListenerLimits,
    protocols: Mutex<HashMap<String, Protocol>>,
    known: Arc<KnownSources>,
    door: Arc<Door>,
    accepting: Mutex<Option<tokio::task::AbortHandle>>,
}

#[derive(Clone)]
struct Protocol {
    tls: TlsSource,
    handler: ProtocolHandler,
    handshake_timeout: Duration,
    door: Arc<Door>,
    connections: Arc<Semaphore>,
}

/// Protocols registered on a socket; removed when dropped.
pub struct Registration {
    listener: Arc<SharedListener>,
    protocols: Vec<String>,
}

impl Registration {
    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut protocols = self.listener.protocols.lock();
        for protocol in &self.protocols {
            protocols.remove(protocol);
        }
    }
}

impl Drop for SharedListener {
    fn drop(&mut self) {
        if let Some(task) = self.accepting.lock().take() {
            task.abort();
        }
    }
}

impl SharedListener {
    /// Opens the socket. It accepts as soon as a protocol is registered.
    pub async fn bind(bind: &str, limits: ListenerLimits) -> Result<Arc<Self>, RegisterError> {
        let failed = |source| RegisterError::Bind { bind: bind.to_owned(), source };
        let socket = open(bind).await.map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        let known = KnownSources::new();
        let listener = Arc::new(Self {
            bind: bind.to_owned(),
            local,
            limits,
            protocols: Mutex::default(),
            door: limits.door(&known),
            known,
            accepting: Mutex::default(),
        });
        let line = Line::new(&limits);
        let door = Arc::clone(&listener.door);
        let task = tokio::spawn(accept(socket, Arc::downgrade(&listener), door, line));
        *listener.accepting.lock() = Some(task.abort_handle());
        Ok(listener)
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Registers protocols with the limits of the socket; the empty name is for connections without
    /// ALPN. All are registered, or none.
    pub fn register(
        self: &Arc<Self>,
        protocols: &[&str],
        tls: TlsSource,
        handler: impl Into<ProtocolHandler>,
    ) -> Result<Registration, RegisterError> {
        self.register_with(self.limits, protocols, tls, handler)
    }

    /// Registers protocols that share limits of their own.
    fn register_with(
        self: &Arc<Self>,
        limits: ListenerLimits,
        protocols: &[&str],
        tls: TlsSource,
        handler: impl Into<ProtocolHandler>,
    ) -> Result<Registration, RegisterError> {
        let mut known = self.protocols.lock();
        if let Some(taken) = protocols.iter().find(|protocol| known.contains_key(**protocol)) {
            return Err(RegisterError::Taken {
                protocol: (*taken).to_owned(),
                bind: self.bind.clone(),
            });
        }
        let entry = Protocol {
            tls,
            handler: handler.into(),
            handshake_timeout: limits.handshake_timeout,
            door: limits.door(&self.known),
            connections: Arc::new(Semaphore::new(limits.connections.max(1))),
        };
        for protocol in protocols {
            known.insert((*protocol).to_owned(), entry.clone());
        }
        let protocols = protocols.iter().map(|protocol| (*protocol).to_owned()).collect();
        Ok(Registration { listener: self.clone(), protocols })
    }

    /// The protocol for a client that offers these, and the name of it in the answer
    /// (docs/protocol/channel.md 3.1, rules 2 and 3).
    fn select(&self, offered: Option<Vec<&[u8]>>) -> Option<(String, Protocol)> {
        let known = self.protocols.lock();
        let entry = |name: &str| known.get_key_value(name);
        let offered = offered.unwrap_or_default();
        let found = if offered.is_empty() {
            let only = known.iter().next().filter(|_| known.len() == 1);
            only.or_else(|| entry(""))
        } else {
            let names = offered.iter().rev().filter_map(|name| std::str::from_utf8(name).ok());
            names.filter(|name| !name.is_empty()).find_map(entry)
        };
        found.map(|(name, protocol)| (name.clone(), protocol.clone()))
    }

    /// Passes a connection to its handler, once it has named its protocol.
    async fn serve(self: Arc<Self>, waiting: Waiting, entered: (PendingSlot, TakenBack)) {
        let (remote, bind) = (waiting.remote, self.bind.clone());
        let shaken = self.shake(waiting, entered).await;
        drop(self);
        let (handling, mut back) = match shaken {
            Ok(done) => done,
            Err(problem @ NotServed::TooMany) => {
                tracing::warn!(peer = %remote, bind, "connection closed: {problem}");
                return;
            }
            Err(problem) => {
                tracing::debug!(peer = %remote, bind, "connection closed: {problem}");
                return;
            }
        };
        tokio::select! {
            () = handling => {}
            () = taken_back(&mut back) => {
                let problem = NotServed::TakenBack;
                tracing::debug!(peer = %remote, bind, "connection closed: {problem}");
            }
        }
    }

    /// Makes the handshake: the work of the protocol's handler for the connection.
    async fn shake(
        &self,
        waiting: Waiting,
        (first, mut back): (PendingSlot, TakenBack),
    ) -> Result<(BoxFuture<'static, ()>, TakenBack), NotServed> {
        let Waiting { socket, remote } = waiting;
        let (since, local) = (Instant::now(), socket.local_addr()?);
        let deadline = since + self.limits.handshake_timeout;
        let words = within(deadline, &mut back, self.first_words(socket));
        let (words, protocol, name) = words.await?;
        let entering = protocol.door.enter_in_turn(remote.ip(), &first);
        let entering = async { Ok(entering.await) };
        let (pending, mut back) = within(deadline, &mut back, entering).await?;
        // The next connection may name its protocol.
        drop(first);
        let permit = protocol.connections.clone().try_acquire_owned();
        let slot = ConnectionSlot::new(permit.map_err(|_| NotServed::TooMany)?);
        let config = (protocol.tls)().ok_or(NotServed::NoTls)?;
        let config = with_alpn(&config, name.as_bytes());
        let deadline = since + protocol.handshake_timeout;
        let FirstWords { socket, accepted, received } = words;
        let handling = match protocol.handler.0 {
            Handles::Connections(handler) => {
                let start = StartHandshake::from_parts(accepted, socket);
                let stream = within(deadline, &mut back, start.into_stream(config)).await?.into();
                handler.handle(Accepted { stream, remote, local, protocol: name, pending, slot })
            }
            Handles::Channels(handler) => {
                let shaken = tls::accept(&config, socket, received);
                let stream = within(deadline, &mut back, shaken).await?.into();
                handler.handle(Arrival { stream, remote, local, protocol: name, pending, slot })
            }
        };
        Ok((handling, back))
    }

    /// Reads the first message of TLS, which names the protocol.
    async fn first_words(&self, socket: TcpStream) -> io::Result<(FirstWords, Protocol, String)> {
        let words = FirstWords::read(socket).await?;
        let offered: Option<Vec<Vec<u8>>> =
            words.accepted.client_hello().alpn().map(|names| names.map(<[u8]>::to_vec).collect());
        let names = offered.as_ref().map(|names| names.iter().map(Vec::as_slice).collect());
        if let Some((name, protocol)) = self.select(names) {
            return Ok((words, protocol, name));
        }
        self.refuse_alpn(words).await;
        let names: Vec<_> = offered.iter().flatten().map(|n| String::from_utf8_lossy(n)).collect();
        let text = format!("no handler for requested protocols {names:?}");
        Err(io::Error::new(io::ErrorKind::ConnectionRefused, text))
    }

    /// Has TLS tell the peer that none of its protocols is served here.
    async fn refuse_alpn(&self, words: FirstWords) {
        let any = self
            .protocols
            .lock()
            .iter()
            .find(|(name, _)| !name.is_empty())
            .map(|(name, protocol)| (name.clone(), protocol.tls.clone()));
        if let Some((name, tls)) = any
            && let Some(config) = tls()
        {
            let start = StartHandshake::from_parts(words.accepted, words.socket);
            let _ = start.into_stream(with_alpn(&config, name.as_bytes())).await;
        }
    }
}

/// Opens a listening socket. An empty host means all addresses of the machine, of both families if it
/// has both.
async fn open(bind: &str) -> io::Result<TcpListener> {
    match bind.strip_prefix(':').and_then(|port| port.parse().ok()) {
        Some(port) => {
            let any: [SocketAddr; 2] =
                [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()];
            TcpListener::bind(&any[..]).await
        }
        None => TcpListener::bind(bind).await,
    }
}

/// A copy of these TLS settings with one ALPN protocol, or with none if the name is empty.
fn with_alpn(config: &Arc<rustls::ServerConfig>, name: &[u8]) -> Arc<rustls::ServerConfig> {
    let mut config = rustls::ServerConfig::clone(config);
    config.alpn_protocols = if name.is_empty() { Vec::new() } else { vec![name.to_vec()] };
    Arc::new(config)
}

/// Why a connection is not passed to its handler.
#[derive(Debug, thiserror::Error)]
enum NotServed {
    #[error("TLS handshake failed: {0}")]
    Io(#[from] io::Error),
    #[error("TLS handshake not done in time")]
    Timeout,
    #[error("it was not admitted in time, and other peers wait for its place")]
    TakenBack,
    #[error("too many connections")]
    TooMany,
    #[error("TLS is not configured yet")]
    NoTls,
}

/// Waits for `work`, but only until the deadline, and while the peer has its place.
async fn within<T>(
    deadline: Instant,
    back: &mut TakenBack,
    work: impl Future<Output = io::Result<T>>,
) -> Result<T, NotServed> {
    tokio::select! {
        done = tokio::time::timeout_at(deadline, work) => {
            Ok(done.map_err(|_| NotServed::Timeout)??)
        }
        () = taken_back(back) => Err(NotServed::TakenBack),
    }
}

/// Resolves when the place is taken back; never after it was released.
pub(crate) async fn taken_back(back: &mut TakenBack) {
    if back.await.is_err() {
        std::future::pending().await
    }
}

/// Accepts until the listener is dropped.
async fn accept(
    socket: TcpListener,
    listener: Weak<SharedListener>,
    door: Arc<Door>,
    mut line: Line,
) {
    loop {
        let is_line = !line.is_empty();
        let accepted = tokio::select! {
            accepted = socket.accept() => Some(accepted),
            () = door.freed(), if is_line => None,
            () = tokio::time::sleep(PACE), if is_line => None,
        };
        let Some(listener) = listener.upgrade() else { return };
        listener.advance(&mut line);
        match accepted {
            None => {}
            Some(Ok((socket, remote))) => listener.take(Waiting { socket, remote }, &mut line),
            Some(Err(error)) => {
                // No descriptors are left, or the peer is gone already: go on after a pause.
                tracing::warn!(%error, "cannot accept a connection");
                drop(listener);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

impl SharedListener {
    /// Gives a new connection a place, or a position in the line. Known sources do not wait behind
    /// unknown ones.
    fn take(self: &Arc<Self>, waiting: Waiting, line: &mut Line) {
        let remote = waiting.remote;
        if let Err(error) = socket::prepare(&waiting.socket, Some(PEER_TIMEOUT)) {
            tracing::debug!(peer = %remote, %error, "connection closed: socket options");
            return;
        }
        if line.has_of(remote.ip()) {
            return self.take_behind_its_own(waiting, line);
        }
        let waits = line.has_strangers() && !self.door.knows(remote.ip());
        let entered = match waits {
            true => Err(TableFull::Total(self.limits.pending)),
            false => self.door.enter(remote.ip()),
        };
        match entered {
            Ok(entered) => self.spawn(waiting, entered),
            Err(TableFull::Total(_)) => line.push(waiting),
            Err(TableFull::Source(_)) => self.take_behind_its_own(waiting, line),
        }
    }

    /// Puts a connection behind others of its source, which has taken all of its places. If too many
    /// of them wait already, a connection with a place makes room for the first that waits.
    fn take_behind_its_own(self: &Arc<Self>, waiting: Waiting, line: &mut Line) {
        let peer = waiting.remote.ip();
        if line.is_full_for(peer)
            && let Ok(entered) = self.door.press_in(peer)
        {
            let Some(first) = line.pop_of(peer) else { return self.spawn(waiting, entered) };
            self.spawn(first, entered);
        }
        line.push_behind_its_own(waiting);
    }

    fn spawn(self: &Arc<Self>, waiting: Waiting, entered: (PendingSlot, TakenBack)) {
        tokio::spawn(Arc::clone(self).serve(waiting, entered));
    }

    /// Gives places to waiting connections, as far as there are some.
    fn advance(self: &Arc<Self>, line: &mut Line) {
        while let Some(first) = line.first() {
            let entered = self.door.enter(first);
            if matches!(entered, Err(TableFull::Total(_))) {
                break;
            }
            let Some(waiting) = line.pop() else { break };
            match entered {
                Ok(entered) => self.spawn(waiting, entered),
                // The source has taken all of its places meanwhile.
                Err(_) => self.take_behind_its_own(waiting, line),
            }
        }
        for source in line.full_sources() {
            while let Some(first) = line.first_of(source)
                && let Ok(entered) = self.door.enter(first)
            {
                let Some(waiting) = line.pop_of(source) else { break };
                self.spawn(waiting, entered);
            }
        }
    }
}

impl fmt::Debug for SharedListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedListener").field("bind", &self.bind).finish_non_exhaustive()
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("bind", &self.listener.bind)
            .field("protocols", &self.protocols)
            .finish()
    }
}
