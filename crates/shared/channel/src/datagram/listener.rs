//! A listening socket of DTLS, shared by its peers.
//!
//! An address without a connection is answered with a cookie, for which nothing is kept. A peer
//! that returns the cookie gets a place at the door, as at a TLS listener, until its hello is
//! accepted.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::runtime;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use weft_dtls::{Connection, Cookies, DtlsSettings, FirstHello, HelloVerdict};
use weft_limits::LogLines;

use super::inbox::Inbox;
use super::options::{DatagramOptions, LONGEST};
use super::peer::{DtlsPeer, OnDrop, Path};
use super::socket;
use crate::accept::{ChannelAcceptor, HelloGate};
use crate::clock;
use crate::door::{Door, KnownSources, TakenBack};
use crate::listener::{Arrival, ConnectionSlot, ListenerLimits, RegisterError, taken_back};

/// The settings for the next handshake; `None` refuses it.
type SettingsSource = Arc<dyn Fn() -> Option<DtlsSettings> + Send + Sync>;

/// The parts that a listener needs.
#[derive(Clone)]
pub struct DatagramListen {
    /// Limits for peers that are not authenticated.
    pub limits: ListenerLimits,
    /// The settings for the next handshake; `None` refuses it.
    pub settings: SettingsSource,
    /// Options of its connections.
    pub options: DatagramOptions,
    /// The runtime that reads the socket; `None` is that of the caller.
    pub runtime: Option<runtime::Handle>,
}

/// A listening socket. The listening ends when this value is dropped; connections stay open.
pub struct DatagramRegistration {
    local: SocketAddr,
    shared: Arc<Shared>,
}

impl DatagramRegistration {
    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for DatagramRegistration {
    fn drop(&mut self) {
        self.shared.peers.lock().is_over = true;
        self.shared.end_if_unused();
    }
}

/// The state that the reader and the connections share.
struct Shared {
    peers: Mutex<Peers>,
    reading: Mutex<Option<tokio::task::AbortHandle>>,
    /// The lines of the log about refused peers.
    refusals: Mutex<LogLines>,
}

#[derive(Default)]
struct Peers {
    inboxes: HashMap<SocketAddr, Arc<Inbox>>,
    /// True if no new peers are taken.
    is_over: bool,
}

impl Shared {
    /// Logs that a peer is refused, unless there are many such lines already.
    fn note_refused(&self, remote: SocketAddr, problem: &dyn fmt::Display) {
        let due = self.refusals.lock().due(clock::now());
        match due {
            Some(left_out) => tracing::info!(
                peer = %remote, %problem,
                "a DTLS connection is refused; {left_out} more were refused since the last such line"
            ),
            None => tracing::debug!(peer = %remote, %problem, "a DTLS connection is refused"),
        }
    }

    /// Stops to read when there is no listener and no connection any more.
    fn end_if_unused(&self) {
        let peers = self.peers.lock();
        if peers.is_over
            && peers.inboxes.is_empty()
            && let Some(task) = self.reading.lock().take()
        {
            task.abort();
        }
    }

    fn remove(&self, remote: SocketAddr) {
        self.peers.lock().inboxes.remove(&remote);
        self.end_if_unused();
    }
}

/// Listens for channels over DTLS at `host:port`.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn listen_datagrams<G: HelloGate>(
    bind: &str,
    listen: DatagramListen,
    acceptor: ChannelAcceptor<G>,
) -> Result<DatagramRegistration, RegisterError> {
    let failed = |source| RegisterError::Bind { bind: bind.to_owned(), source };
    let on = listen.runtime.clone().unwrap_or_else(runtime::Handle::current);
    let socket = socket::listen(bind, &listen.options, Some(&on)).await.map_err(failed)?;
    let local = socket.local_addr().map_err(failed)?;
    let cookies = Cookies::new(Instant::now().into_std());
    let cookies = cookies.map_err(|problem| failed(io::Error::other(problem)))?;
    let refusals = Mutex::new(LogLines::new(clock::now()));
    let shared = Arc::new(Shared { peers: Mutex::default(), reading: Mutex::default(), refusals });
    let known = KnownSources::new();
    let reader = Reader {
        socket: Arc::new(socket),
        local,
        shared: Arc::clone(&shared),
        door: listen.limits.door(&known),
        connections: Arc::new(Semaphore::new(listen.limits.connections.max(1))),
        // Handshakes and hellos belong to the runtime of the caller.
        serving: runtime::Handle::current(),
        listen,
        acceptor,
    };
    let task = on.spawn(reader.run(cookies));
    *shared.reading.lock() = Some(task.abort_handle());
    Ok(DatagramRegistration { local, shared })
}

/// Reads the socket, and passes each datagram to its peer.
struct Reader<G> {
    socket: Arc<UdpSocket>,
    local: SocketAddr,
    shared: Arc<Shared>,
    door: Arc<Door>,
    connections: Arc<Semaphore>,
    serving: runtime::Handle,
    listen: DatagramListen,
    acceptor: ChannelAcceptor<G>,
}

impl<G: HelloGate> Reader<G> {
    async fn run(self, mut cookies: Cookies) {
        let mut buffer = vec![0; LONGEST + 1];
        loop {
            match self.socket.recv_from(&mut buffer).await {
                Ok((length, remote)) if length <= LONGEST => {
                    self.take(buffer.get(..length).unwrap_or_default(), remote, &mut cookies);
                }
                Ok(_) => {}
                // The system tells of a peer that is gone, or has no memory now.
                Err(error) => {
                    tracing::trace!(%error, "a UDP socket failed");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    }

    fn take(&self, datagram: &[u8], remote: SocketAddr, cookies: &mut Cookies) {
        {
            let peers = self.shared.peers.lock();
            if let Some(inbox) = peers.inboxes.get(&remote) {
                return inbox.push(datagram);
            }
            if peers.is_over {
                return;
            }
        }
        match cookies.check(datagram, remote, Instant::now().into_std()) {
            HelloVerdict::Ignore => {}
            HelloVerdict::Answer(answer) => {
                // A lost answer is asked for again.
                let _ = self.socket.try_send_to(&answer, remote);
            }
            HelloVerdict::Begin(first) => self.begin(first, remote),
        }
    }

    fn begin(&self, first: FirstHello, remote: SocketAddr) {
        let Ok((pending, back)) = self.door.enter(remote.ip()) else { return };
        let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else {
            self.shared.note_refused(remote, &"too many connections");
            return;
        };
        let Some(settings) = (self.listen.settings)() else { return };
        let inbox = Arc::new(Inbox::default());
        self.shared.peers.lock().inboxes.insert(remote, Arc::clone(&inbox));
        let (shared, noted) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let path = Path {
            socket: Arc::clone(&self.socket),
            is_connected: false,
            remote,
            local: self.local,
            inbox,
            _end: OnDrop::new(move || shared.remove(remote)),
        };
        let (options, limit) = (self.listen.options, self.listen.limits.handshake_timeout);
        let acceptor = self.acceptor.clone();
        let serve = async move {
            let shaking = tokio::time::timeout(limit, shake(path, settings, first, options));
            let peer = match shaking.await {
                Ok(Ok(peer)) => peer,
                Ok(Err(problem)) => {
                    noted.note_refused(remote, &problem);
                    return;
                }
                Err(_) => {
                    tracing::debug!(peer = %remote, "a DTLS handshake was not done in time");
                    return;
                }
            };
            let slot = ConnectionSlot::new(permit);
            let local = peer.path.local;
            let protocol = String::new();
            let arrival = Arrival { stream: peer, remote, local, protocol, pending, slot };
            acceptor.take(arrival).await;
        };
        self.serving.spawn(unless_taken_back(back, serve));
    }
}

async fn shake(
    path: Path,
    settings: DtlsSettings,
    first: FirstHello,
    options: DatagramOptions,
) -> io::Result<DtlsPeer> {
    let connection = Connection::server(settings, first, Instant::now().into_std());
    let mut peer = DtlsPeer::new(path, connection.map_err(io::Error::other)?, options);
    peer.shake().await?;
    Ok(peer)
}

async fn unless_taken_back(mut back: TakenBack, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        () = taken_back(&mut back) => {}
    }
}

impl fmt::Debug for DatagramRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramRegistration").field("local", &self.local).finish_non_exhaustive()
    }
}
