//! Intercepted datagrams, in sessions.
//!
//! A session is a client's address and a destination. Its first datagram arrives at the common
//! socket. Then the session gets a socket of its own, which has the destination's address and is
//! connected to the client, and the system passes the session's datagrams to it.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{io::Interest, net::UdpSocket, sync::mpsc};
use tokio_util::sync::CancellationToken;
use weft_limits::TokenBucket;

use crate::{
    carry::{Client, UdpSession},
    options::Options,
    rates::Rates,
    seats::{Patience, Seat, Seats},
    service::Protocol,
    shared::Shared,
    socket,
};

/// Largest datagram, in bytes.
const MAX_DATAGRAM: usize = 65_507;
/// Most datagrams that wait before the session has its socket; more are dropped.
const QUEUE: usize = 16;
/// Sessions that may begin per second, and at once. Each session costs a circuit, and the source
/// address of a datagram proves nothing.
const RATE: (f64, u32) = (1_000.0, 2_000);
/// Sessions that one client may begin per second, and at once.
const RATE_OF_ONE: (f64, u32) = (500.0, 1_000);
/// Times of silence after which sessions give their places to others, when all places are taken.
/// Sessions of clients that have not reacted to an answer come first.
const PATIENCE: Patience = Patience {
    own: Duration::from_secs(1),
    many: Duration::from_millis(100),
    unproven: Duration::from_secs(5),
    proven: Duration::from_secs(30),
};

/// The client, and the destination.
type Key = (SocketAddr, SocketAddr);

/// The present sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    live: Mutex<HashMap<Key, Arc<Live>>>,
    seats: Arc<Seats>,
    rate: Mutex<TokenBucket>,
    rates: Rates,
}

/// The parts of a session that the table, the task and the carrier share.
#[derive(Debug)]
pub(crate) struct Live {
    key: Key,
    service: Arc<str>,
    socket: UdpSocket,
    early: mpsc::Sender<Bytes>,
    answered: AtomicBool,
    seat: Seat,
    sessions: Weak<Sessions>,
}

/// A session for the carrier.
#[derive(Debug)]
pub(crate) struct Session {
    live: Arc<Live>,
    early: mpsc::Receiver<Bytes>,
}

impl Sessions {
    pub(crate) fn new(options: &Options) -> Arc<Self> {
        let now = Instant::now();
        let limits = &options.limits;
        let rate = Mutex::new(TokenBucket::new(RATE.0, RATE.1, now));
        let seats = Seats::new(limits.sessions, limits.sessions_per_source, PATIENCE);
        Arc::new(Self { live: Mutex::default(), seats, rate, rates: Rates::new(RATE_OF_ONE) })
    }

    pub(crate) fn len(&self) -> usize {
        self.live.lock().values().filter(|live| !live.is_over()).count()
    }

    /// Takes a seat for a client's next session.
    fn seat(&self, client: SocketAddr, now: Instant) -> Option<Seat> {
        let may = self.rates.may(client.ip(), now) && self.rate.lock().try_take(1, now);
        if may { self.seats.take(client.ip(), now) } else { None }
    }

    /// Ends sessions without use for this long.
    fn expire(&self, idle: Duration) {
        self.end(|live| live.seat.silence() >= idle);
    }

    /// Ends the sessions of these services.
    pub(crate) fn end_services(&self, ids: &HashSet<Arc<str>>) {
        if !ids.is_empty() {
            self.end(|live| ids.contains(&live.service));
        }
    }

    /// Ends all sessions.
    pub(crate) fn end_all(&self) {
        self.end(|_| true);
    }

    fn end(&self, which: impl Fn(&Live) -> bool) {
        self.live.lock().retain(|_, live| {
            let over = which(live);
            if over {
                live.seat.end();
            }
            !over
        });
    }

    /// Removes a session, unless another one has taken its place.
    fn forget(&self, session: &Live) {
        let mut live = self.live.lock();
        if live.get(&session.key).is_some_and(|live| std::ptr::eq(&**live, session)) {
            live.remove(&session.key);
        }
    }
}

/// Reads datagrams until stopped.
pub(crate) async fn run(shared: Arc<Shared>, socket: UdpSocket, stop: CancellationToken) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let received = tokio::select! {
            () = stop.cancelled() => return,
            received = socket::receive(&socket, &mut buffer) => received,
        };
        match received {
            Ok((length, source, destination)) => {
                let datagram = buffer.get(..length).unwrap_or_default();
                take(&shared, source, destination, datagram);
            }
            Err(problem) => {
                shared.complain(|| tracing::warn!(%problem, "cannot read intercepted datagrams"));
                // Most such errors concern one datagram; one that stays must not use up a processor.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// Looks for idle sessions until stopped.
pub(crate) async fn check(
    sessions: Arc<Sessions>,
    idle: Duration,
    every: Duration,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(every) => sessions.expire(idle),
        }
    }
}

fn take(shared: &Shared, source: SocketAddr, destination: SocketAddr, datagram: &[u8]) {
    let key = (source, destination);
    let known = shared.sessions.live.lock().get(&key).cloned();
    if let Some(live) = known {
        live.heard();
        if !live.is_over() {
            let _ = live.early.try_send(Bytes::copy_from_slice(datagram));
            return;
        }
    }
    let Some(arrival) = shared.arrival(Protocol::Udp, source, destination) else { return };
    match open(shared, key, &arrival.service, datagram) {
        Ok(session) => shared.carry.carry(arrival, Client::Udp(UdpSession(session))),
        Err(problem) => shared.complain(|| {
            tracing::warn!(%source, %destination, %problem, "no session for intercepted datagrams");
        }),
    }
}

fn open(shared: &Shared, key: Key, service: &Arc<str>, first: &[u8]) -> io::Result<Session> {
    let (source, destination) = key;
    let seat = shared.sessions.seat(source, Instant::now());
    let seat = seat.ok_or_else(|| io::Error::other("there are too many"))?;
    let socket = socket::udp_session(destination, source)?;
    let (sender, early) = mpsc::channel(QUEUE);
    let _ = sender.try_send(Bytes::copy_from_slice(first));
    let live = Arc::new(Live {
        key,
        service: Arc::clone(service),
        socket,
        early: sender,
        answered: AtomicBool::new(false),
        seat,
        sessions: Arc::downgrade(&shared.sessions),
    });
    let before = shared.sessions.live.lock().insert(key, Arc::clone(&live));
    if let Some(old) = before {
        old.seat.end();
    }
    Ok(Session { live, early })
}

impl Live {
    fn is_over(&self) -> bool {
        self.seat.over().is_cancelled()
    }

    /// Notes a datagram of the client. A client that was answered before proves to be at its address.
    fn heard(&self) {
        self.seat.touch();
        if self.answered.load(Ordering::Relaxed) {
            self.seat.prove();
        }
    }

    pub(crate) async fn send(&self, datagram: &[u8]) -> io::Result<()> {
        if self.is_over() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.seat.touch();
        self.answered.store(true, Ordering::Relaxed);
        let sent = tokio::select! {
            sent = self.socket.send(datagram) => sent,
            () = self.seat.over().cancelled() => return Err(io::ErrorKind::NotConnected.into()),
        };
        match sent {
            Ok(_) => Ok(()),
            // The client's socket is gone, so that nothing more needs to be sent.
            Err(problem) if problem.kind() == io::ErrorKind::ConnectionRefused => {
                self.end();
                Err(problem)
            }
            // Datagrams may be lost; this one is too large, or the system has no room now.
            Err(problem) => {
                tracing::debug!(%problem, "a datagram to an intercepted client is lost");
                Ok(())
            }
        }
    }

    fn end(&self) {
        self.seat.end();
        if let Some(sessions) = self.sessions.upgrade() {
            sessions.forget(self);
        }
    }
}

impl Session {
    pub(crate) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live)
    }

    pub(crate) async fn recv(&mut self) -> Option<Bytes> {
        loop {
            let live = &self.live;
            tokio::select! {
                biased;
                () = live.seat.over().cancelled() => return None,
                Some(datagram) = self.early.recv() => return Some(datagram),
                ready = live.socket.ready(Interest::READABLE) => {
                    ready.ok()?;
                    match read(&live.socket) {
                        Ok(datagram) => {
                            live.heard();
                            return Some(datagram);
                        }
                        Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => {}
                        Err(_) => {
                            live.end();
                            return None;
                        }
                    }
                }
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.live.end();
    }
}

fn read(socket: &UdpSocket) -> io::Result<Bytes> {
    thread_local! {
        /// Datagrams are read into this buffer and copied out in their size.
        static SCRATCH: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; MAX_DATAGRAM]);
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let length = socket.try_recv(scratch)?;
        Ok(Bytes::copy_from_slice(scratch.get(..length).unwrap_or_default()))
    })
}
