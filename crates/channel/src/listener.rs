//! Listening sockets, each shared by the protocols registered on it.
//!
//! Several protocols may listen on one `host:port`; the ALPN of the TLS handshake decides which one
//! a connection is for (protocol: channel 3.1). The socket belongs to the registrations: it closes
//! with the last one.

use crate::socket::{self, PEER_TIMEOUT};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::{LazyConfigAcceptor, TlsStream};

/// Gives the TLS settings for the next handshake; `None` refuses it, while there are none.
pub type TlsSource = Arc<dyn Fn() -> Option<Arc<rustls::ServerConfig>> + Send + Sync>;

/// What a listening socket takes upon itself before anybody has proved who he is.
#[derive(Debug, Clone, Copy)]
pub struct ListenerLimits {
    /// Most connections whose handshake or hello is not done. More wait in the kernel.
    pub pending: usize,
    /// Most of them from one address. More are closed at once.
    pub pending_per_source: usize,
    /// Time for the TLS handshake.
    pub handshake_timeout: Duration,
    /// Most connections in all. More are closed at once.
    pub connections: usize,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            pending: 512,
            pending_per_source: 64,
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
    /// Its peer.
    pub remote: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
    /// The protocol it was routed by; empty if by none.
    pub protocol: String,
    /// Counts as pending until dropped: to be dropped once the peer has shown who it is.
    pub pending: PendingSlot,
    /// Counts as a connection until dropped: to be dropped when the connection ends.
    pub slot: ConnectionSlot,
}

/// Room among the pending connections.
#[derive(Debug)]
pub struct PendingSlot {
    source: IpAddr,
    sources: Arc<Mutex<HashMap<IpAddr, usize>>>,
    _permit: OwnedSemaphorePermit,
}

/// Room among the connections.
#[derive(Debug)]
pub struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        let mut sources = self.sources.lock();
        if let Some(count) = sources.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                sources.remove(&self.source);
            }
        }
    }
}

/// Takes the connections of a protocol.
pub trait ConnectionHandler: Send + Sync + 'static {
    /// Takes one, on a task of its own.
    fn handle(&self, connection: Accepted) -> BoxFuture<'static, ()>;
}

/// Why a protocol was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The protocol is taken.
    #[error("handler for protocol[{protocol}] already exists on {bind}")]
    Taken {
        /// The protocol.
        protocol: String,
        /// Where.
        bind: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {bind}: {source}")]
    Bind {
        /// The address.
        bind: String,
        /// The error.
        source: io::Error,
    },
}

/// The listening sockets of a process, by exact bind text.
#[derive(Debug, Default)]
pub struct Listeners {
    sockets: tokio::sync::Mutex<HashMap<String, Weak<SharedListener>>>,
}

impl Listeners {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers protocols on `bind` (`host:port`), opening the socket if it is not open yet. The
    /// limits are those of whoever opened it.
    pub async fn listen(
        &self,
        bind: &str,
        limits: ListenerLimits,
        protocols: &[&str],
        tls: TlsSource,
        handler: Arc<dyn ConnectionHandler>,
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
        listener.register(protocols, tls, handler)
    }
}

/// One listening socket.
pub struct SharedListener {
    bind: String,
    local: SocketAddr,
    limits: ListenerLimits,
    protocols: Mutex<HashMap<String, Protocol>>,
    pending: Arc<Semaphore>,
    sources: Arc<Mutex<HashMap<IpAddr, usize>>>,
    connections: Arc<Semaphore>,
    accepting: Mutex<Option<tokio::task::AbortHandle>>,
}

#[derive(Clone)]
struct Protocol {
    tls: TlsSource,
    handler: Arc<dyn ConnectionHandler>,
}

/// Protocols registered on a socket; taken away when dropped.
pub struct Registration {
    listener: Arc<SharedListener>,
    protocols: Vec<String>,
}

impl Registration {
    /// The address the socket listens on.
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
        let socket = TcpListener::bind(bind).await.map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        let listener = Arc::new(Self {
            bind: bind.to_owned(),
            local,
            limits,
            protocols: Mutex::default(),
            pending: Arc::new(Semaphore::new(limits.pending.max(1))),
            sources: Arc::default(),
            connections: Arc::new(Semaphore::new(limits.connections.max(1))),
            accepting: Mutex::default(),
        });
        let task = tokio::spawn(accept_loop(socket, Arc::downgrade(&listener)));
        *listener.accepting.lock() = Some(task.abort_handle());
        Ok(listener)
    }

    /// The address the socket listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Registers protocols; the empty one is for connections without ALPN. All or none.
    pub fn register(
        self: &Arc<Self>,
        protocols: &[&str],
        tls: TlsSource,
        handler: Arc<dyn ConnectionHandler>,
    ) -> Result<Registration, RegisterError> {
        let mut known = self.protocols.lock();
        if let Some(taken) = protocols.iter().find(|protocol| known.contains_key(**protocol)) {
            return Err(RegisterError::Taken {
                protocol: (*taken).to_owned(),
                bind: self.bind.clone(),
            });
        }
        for protocol in protocols {
            let entry = Protocol { tls: tls.clone(), handler: handler.clone() };
            known.insert((*protocol).to_owned(), entry);
        }
        let protocols = protocols.iter().map(|protocol| (*protocol).to_owned()).collect();
        Ok(Registration { listener: self.clone(), protocols })
    }

    /// The protocol for a client that offers these, and the name it is answered with
    /// (protocol: channel 3.1, rules 2 and 3).
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

    fn pending_slot(&self, permit: OwnedSemaphorePermit, source: IpAddr) -> Option<PendingSlot> {
        let mut sources = self.sources.lock();
        let count = sources.entry(source).or_default();
        if *count >= self.limits.pending_per_source.max(1) {
            return None;
        }
        *count += 1;
        Some(PendingSlot { source, sources: self.sources.clone(), _permit: permit })
    }

    async fn serve(self: Arc<Self>, socket: TcpStream, remote: SocketAddr, pending: PendingSlot) {
        let Ok(permit) = self.connections.clone().try_acquire_owned() else {
            tracing::warn!(peer = %remote, bind = %self.bind, "connection closed: too many connections");
            return;
        };
        let slot = ConnectionSlot { _permit: permit };
        let shake = tokio::time::timeout(self.limits.handshake_timeout, self.handshake(socket));
        let (stream, protocol, handler, local) = match shake.await {
            Ok(Ok(done)) => done,
            Ok(Err(error)) => {
                tracing::debug!(peer = %remote, bind = %self.bind, %error, "TLS handshake failed");
                return;
            }
            Err(_) => {
                tracing::debug!(peer = %remote, bind = %self.bind, "TLS handshake not done in time");
                return;
            }
        };
        drop(self);
        handler.handle(Accepted { stream, remote, local, protocol, pending, slot }).await;
    }

    async fn handshake(
        &self,
        socket: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, String, Arc<dyn ConnectionHandler>, SocketAddr)> {
        let local = socket.local_addr()?;
        let refused = |text: String| io::Error::new(io::ErrorKind::ConnectionRefused, text);
        let start = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), socket).await?;
        let offered: Option<Vec<Vec<u8>>> =
            start.client_hello().alpn().map(|names| names.map(<[u8]>::to_vec).collect());
        let names = offered.as_ref().map(|names| names.iter().map(Vec::as_slice).collect());
        let selected = self.select(names);
        let Some((name, protocol)) = selected else {
            self.refuse_alpn(start).await;
            let names: Vec<_> =
                offered.iter().flatten().map(|n| String::from_utf8_lossy(n)).collect();
            return Err(refused(format!("no handler for requested protocols {names:?}")));
        };
        let config = (protocol.tls)().ok_or_else(|| refused("TLS is not configured yet".into()))?;
        let stream = start.into_stream(with_alpn(&config, name.as_bytes())).await?;
        Ok((TlsStream::from(stream), name, protocol.handler, local))
    }

    /// Lets TLS tell the peer that none of its protocols is served here.
    async fn refuse_alpn(&self, start: tokio_rustls::StartHandshake<TcpStream>) {
        let any = self
            .protocols
            .lock()
            .iter()
            .find(|(name, _)| !name.is_empty())
            .map(|(name, protocol)| (name.clone(), protocol.tls.clone()));
        if let Some((name, tls)) = any
            && let Some(config) = tls()
        {
            let _ = start.into_stream(with_alpn(&config, name.as_bytes())).await;
        }
    }
}

/// The settings with exactly this protocol, or none.
fn with_alpn(config: &Arc<rustls::ServerConfig>, name: &[u8]) -> Arc<rustls::ServerConfig> {
    let mut config = rustls::ServerConfig::clone(config);
    config.alpn_protocols = if name.is_empty() { Vec::new() } else { vec![name.to_vec()] };
    Arc::new(config)
}

/// Accepts until the listener is dropped.
async fn accept_loop(socket: TcpListener, listener: Weak<SharedListener>) {
    let Some(pending) = listener.upgrade().map(|listener| listener.pending.clone()) else { return };
    loop {
        let Ok(permit) = pending.clone().acquire_owned().await else { return };
        let (stream, remote) = match socket.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or the peer is gone already: go on, but not in a hot loop.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(listener) = listener.upgrade() else { return };
        let Some(slot) = listener.pending_slot(permit, remote.ip()) else {
            tracing::debug!(peer = %remote, "connection closed: too many handshakes from this address");
            continue;
        };
        if let Err(error) = socket::prepare(&stream, Some(PEER_TIMEOUT)) {
            tracing::debug!(peer = %remote, %error, "connection closed: socket options");
            continue;
        }
        tokio::spawn(listener.serve(stream, remote, slot));
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
