//! Conversations of intercepted datagrams: a client's address and the destination that it sends to.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use weft_limits::TokenBucket;

use crate::options::Options;
use crate::rates::Rates;
use crate::seats::{Patience, Seat, Seats};
use crate::socket;

/// Largest datagram, in bytes.
pub(crate) const MAX_DATAGRAM: usize = 65_507;
/// Most datagrams that are kept until the conversation has its socket; more are dropped.
const QUEUE: usize = 16;
/// Conversations that may begin in a second, and at once. Each costs its carrier a circuit, and senders
/// may forge their addresses.
const RATE: (f64, u32) = (1_000.0, 2_000);
/// Limit on the new conversations of one client.
const RATE_OF_ONE: (f64, u32) = (500.0, 1_000);
/// The times of silence after which a conversation makes room for another one while all seats are taken.
/// A conversation whose client has sent nothing after an answer makes room sooner.
const PATIENCE: Patience = Patience {
    own: Duration::from_secs(1),
    many: Duration::from_millis(100),
    unproven: Duration::from_secs(5),
    proven: Duration::from_secs(30),
};

/// The address of the client, and the destination of its datagrams.
pub(crate) type Key = (SocketAddr, SocketAddr);

/// All conversations.
#[derive(Debug)]
pub(crate) struct Conversations {
    live: Mutex<HashMap<Key, Arc<OpenConversation>>>,
    seats: Arc<Seats>,
    rate: Mutex<TokenBucket>,
    rates: Rates,
}

/// A conversation, shared by all tasks that use it.
#[derive(Debug)]
pub(crate) struct OpenConversation {
    key: Key,
    service: Arc<str>,
    socket: UdpSocket,
    early: mpsc::Sender<Bytes>,
    answered: AtomicBool,
    seat: Seat,
    conversations: Weak<Conversations>,
}

/// A conversation, as it is carried.
#[derive(Debug)]
pub(crate) struct Conversation {
    live: Arc<OpenConversation>,
    early: mpsc::Receiver<Bytes>,
}

impl Conversations {
    pub(crate) fn new(options: &Options) -> Arc<Self> {
        let now = Instant::now();
        let limits = &options.limits;
        let rate = Mutex::new(TokenBucket::new(RATE.0, RATE.1, now));
        let seats = Seats::new(limits.conversations, limits.conversations_per_source, PATIENCE);
        Arc::new(Self { live: Mutex::default(), seats, rate, rates: Rates::new(RATE_OF_ONE) })
    }

    pub(crate) fn len(&self) -> usize {
        self.live.lock().values().filter(|live| !live.is_over()).count()
    }

    /// The addresses that clients of conversations send to.
    pub(crate) fn destinations(&self) -> HashSet<IpAddr> {
        let live = self.live.lock();
        live.values().filter(|live| !live.is_over()).map(|live| live.key.1.ip()).collect()
    }

    /// The conversation of a client with a destination, if it is not over; a datagram of the client has
    /// come.
    pub(crate) fn heard(&self, key: &Key) -> Option<Arc<OpenConversation>> {
        let live = self.live.lock().get(key).cloned()?;
        live.heard();
        (!live.is_over()).then_some(live)
    }

    /// Begins a conversation for a service, with the first datagram of its client.
    pub(crate) fn open(
        self: &Arc<Self>,
        key: Key,
        service: &Arc<str>,
        first: &[u8],
    ) -> io::Result<Conversation> {
        let (source, destination) = key;
        let seat = self.seat(source, Instant::now());
        let seat = seat.ok_or_else(|| io::Error::other("there are too many"))?;
        let socket = socket::udp_conversation(destination, source)?;
        let (sender, early) = mpsc::channel(QUEUE);
        let _ = sender.try_send(Bytes::copy_from_slice(first));
        let live = Arc::new(OpenConversation {
            key,
            service: Arc::clone(service),
            socket,
            early: sender,
            answered: AtomicBool::new(false),
            seat,
            conversations: Arc::downgrade(self),
        });
        let before = self.live.lock().insert(key, Arc::clone(&live));
        if let Some(old) = before {
            old.seat.end();
        }
        Ok(Conversation { live, early })
    }

    /// A seat for a client's next conversation.
    fn seat(&self, client: SocketAddr, now: Instant) -> Option<Seat> {
        let may = self.rates.may(client.ip(), now) && self.rate.lock().try_take(1, now);
        if may { self.seats.take(client.ip(), now) } else { None }
    }

    /// Ends conversations that were idle for this long.
    pub(crate) fn expire(&self, idle: Duration) {
        self.end(|live| live.seat.silence() >= idle);
    }

    /// Ends the conversations with these services.
    pub(crate) fn end_services(&self, ids: &HashSet<Arc<str>>) {
        if !ids.is_empty() {
            self.end(|live| ids.contains(&live.service));
        }
    }

    /// Ends all conversations.
    pub(crate) fn end_all(&self) {
        self.end(|_| true);
    }

    fn end(&self, which: impl Fn(&OpenConversation) -> bool) {
        self.live.lock().retain(|_, live| {
            let over = which(live);
            if over {
                live.seat.end();
            }
            !over
        });
    }

    /// Removes a conversation from the table. A newer conversation with the same key stays.
    fn forget(&self, conversation: &OpenConversation) {
        let mut live = self.live.lock();
        if live.get(&conversation.key).is_some_and(|live| std::ptr::eq(&**live, conversation)) {
            live.remove(&conversation.key);
        }
    }
}

impl OpenConversation {
    fn is_over(&self) -> bool {
        self.seat.over().is_cancelled()
    }

    /// Notes a datagram of the client. A client that goes on after an answer counts as proved to be
    /// at its address.
    fn heard(&self) {
        self.seat.touch();
        if self.answered.load(Ordering::Relaxed) {
            self.seat.prove();
        }
    }

    /// Takes a datagram that came before the conversation had its socket; without room it is lost.
    pub(crate) fn early(&self, datagram: &[u8]) {
        let _ = self.early.try_send(Bytes::copy_from_slice(datagram));
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
            // The client's socket is closed: no more datagrams are expected.
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
        if let Some(conversations) = self.conversations.upgrade() {
            conversations.forget(self);
        }
    }
}

impl Conversation {
    pub(crate) fn live(&self) -> Arc<OpenConversation> {
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

impl Drop for Conversation {
    fn drop(&mut self) {
        self.live.end();
    }
}

fn read(socket: &UdpSocket) -> io::Result<Bytes> {
    thread_local! {
        /// Datagrams are read into this and copied out in their size.
        static SCRATCH: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; MAX_DATAGRAM]);
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let length = socket.try_recv(scratch)?;
        Ok(Bytes::copy_from_slice(scratch.get(..length).unwrap_or_default()))
    })
}
