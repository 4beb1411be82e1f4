//! Conversations in datagrams: one circuit for each address that sends.
//!
//! Nobody proves that he sends from the address that a datagram bears, so that conversations are
//! bounded, in all and from one source, and end when nothing is said.

use std::{
    cell::RefCell,
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{net::UdpSocket, sync::mpsc};
use tokio_util::sync::CancellationToken;
use weft_limits::{BoundedTable, Budget, Caps, Grant, TableFull, WhenFull, source_of};
use weft_xgress::ITEM_COST;

use super::{
    Addresses, Ingress, Opened,
    request::{Request, answer},
};
use crate::bindings::socket::{self, Datagrams, MAX_DATAGRAM, UDP_IDLE, Waiting};

/// Datagrams that may wait for the circuit of a conversation; more are dropped.
const WAITING: usize = 10;
/// The part of the memory of all circuits that waiting datagrams of a listener may have, and the
/// part of that which those of one source may have.
const MEMORY_SHARE: u64 = 16;
/// See [`MEMORY_SHARE`].
const SOURCE_SHARE: u64 = 4;

/// What a listener takes upon itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramLimits {
    /// Most conversations at once; datagrams that would begin one more are dropped.
    pub(crate) conversations: usize,
    /// Most of them from one source: one address of IPv4, one /64 network of IPv6.
    pub(crate) per_source: usize,
    /// A conversation without datagrams in either direction ends after this.
    pub(crate) idle: Duration,
    /// Who got no circuit is not listened to for so long.
    pub(crate) pause: Duration,
}

impl Default for DatagramLimits {
    fn default() -> Self {
        Self {
            conversations: 10_000,
            per_source: 2_500,
            idle: UDP_IDLE,
            pause: Duration::from_secs(1),
        }
    }
}

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_DATAGRAM]);
}

/// Where what somebody says goes.
#[derive(Clone)]
struct Sink {
    /// Which conversation of his it is.
    number: u64,
    inbox: mpsc::Sender<Waiting>,
    /// What waits is drawn from this.
    memory: Budget,
}

/// Those who talk.
struct Conversations(Mutex<Talkers>);

struct Talkers {
    sinks: BoundedTable<SocketAddr, Sink, IpAddr>,
    /// What each source draws from, and how many conversations it has.
    sources: HashMap<IpAddr, (Budget, usize)>,
    /// What all of them draw from.
    memory: Budget,
}

impl Conversations {
    fn new(limits: DatagramLimits, memory: &Budget) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Talkers {
            sinks: BoundedTable::new(Caps {
                total: limits.conversations,
                per_source: limits.per_source,
                max_age: None,
                when_full: WhenFull::Refuse,
            }),
            sources: HashMap::new(),
            memory: memory.child(memory.limit() / MEMORY_SHARE),
        })))
    }

    fn known(&self, peer: &SocketAddr) -> Option<Sink> {
        self.0.lock().sinks.get(peer, Instant::now()).cloned()
    }

    /// Begins a conversation.
    fn begin(
        self: &Arc<Self>,
        peer: SocketAddr,
        number: u64,
        inbox: mpsc::Sender<Waiting>,
    ) -> Result<(Place, Budget), TableFull> {
        let source = source_of(peer.ip());
        let mut talkers = self.0.lock();
        let share = talkers.memory.limit() / SOURCE_SHARE;
        let memory = match talkers.sources.get(&source) {
            Some((memory, _)) => memory.clone(),
            None => talkers.memory.child(share),
        };
        let sink = Sink { number, inbox, memory: memory.clone() };
        talkers.sinks.insert(peer, sink, source, Instant::now())?;
        talkers.sources.entry(source).or_insert_with(|| (memory.clone(), 0)).1 += 1;
        Ok((Place { conversations: Arc::clone(self), peer, source, number }, memory))
    }
}

/// What ends listening for datagrams.
#[derive(Debug, Clone)]
pub(crate) struct DatagramEnds {
    /// No conversation begins any more; those there are go on.
    pub(crate) draining: CancellationToken,
    /// All of them end.
    pub(crate) stop: CancellationToken,
}

/// Receives until cancelled; conversations there are end, for their socket closes with the last.
pub(crate) async fn serve_datagrams(
    ingress: Arc<Ingress>,
    socket: UdpSocket,
    limits: DatagramLimits,
    ends: DatagramEnds,
) {
    let DatagramEnds { draining, stop } = ends;
    let socket = Arc::new(socket);
    let conversations = Conversations::new(limits, ingress.forwarder.budget());
    let mut number = 0;
    loop {
        // However much comes, others have their turn.
        tokio::task::consume_budget().await;
        let ready = tokio::select! {
            () = stop.cancelled() => return,
            ready = socket.readable() => ready,
        };
        let received = ready.and_then(|()| receive(&socket));
        let (data, peer) = match received {
            Ok(received) => received,
            // A refusal of a datagram that was sent before shows here.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused
                ) =>
            {
                continue;
            }
            Err(error) => {
                tracing::warn!(listener = %ingress.options.name, %error, "cannot receive");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if let Some(known) = conversations.known(&peer)
            && !known.inbox.is_closed()
        {
            // What has no room is lost, as datagrams are.
            if let Some(grant) = draw(&known.memory, &data) {
                let _ = known.inbox.try_send(Waiting { data, grant });
            }
            continue;
        }
        if draining.is_cancelled() {
            continue;
        }
        // That conversation is being closed, if there was one: this one is another.
        let (sender, inbox) = mpsc::channel(WAITING);
        number += 1;
        let (place, memory) = match conversations.begin(peer, number, sender) {
            Ok(begun) => begun,
            Err(full) => {
                let most = match full {
                    TableFull::Source(_) => format!("{} from one source", limits.per_source),
                    TableFull::Total(_) => limits.conversations.to_string(),
                };
                ingress.complain(peer, &format!("conversations at once: {most}, the most"));
                continue;
            }
        };
        let Some(grant) = draw(&memory, &data) else {
            ingress.complain(peer, "too much waits for circuits already");
            continue;
        };
        let data = Waiting { data, grant };
        let (ingress, socket) = (Arc::clone(&ingress), Arc::clone(&socket));
        let stop = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = converse(&ingress, socket, place, data, inbox, limits) => {}
            }
        });
    }
}

/// Draws for a datagram that is to wait.
fn draw(memory: &Budget, data: &Bytes) -> Option<Grant> {
    memory.try_take((data.len() + ITEM_COST) as u64)
}

/// A place among the conversations; free again when dropped.
struct Place {
    conversations: Arc<Conversations>,
    peer: SocketAddr,
    source: IpAddr,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut talkers = self.conversations.0.lock();
        let holder = talkers.sinks.get(&self.peer, Instant::now()).map(|sink| sink.number);
        if holder == Some(self.number) {
            talkers.sinks.remove(&self.peer);
        }
        if let Some((_, conversations)) = talkers.sources.get_mut(&self.source) {
            *conversations -= 1;
            if *conversations == 0 {
                talkers.sources.remove(&self.source);
            }
        }
    }
}

fn receive(socket: &UdpSocket) -> io::Result<(Bytes, SocketAddr)> {
    SCRATCH.with_borrow_mut(|scratch| {
        let (count, peer) = socket.try_recv_from(scratch)?;
        Ok((Bytes::copy_from_slice(scratch.get(..count).unwrap_or_default()), peer))
    })
}

async fn converse(
    ingress: &Ingress,
    socket: Arc<UdpSocket>,
    place: Place,
    first: Waiting,
    mut inbox: mpsc::Receiver<Waiting>,
    limits: DatagramLimits,
) {
    let peer = place.peer;
    let addresses = Addresses { local: socket.local_addr().ok(), remote: peer };
    let answers = ingress.options.service.is_none();
    let wanted = match &ingress.options.service {
        Some(service) => Ok((String::new(), service.clone())),
        None => Request::parse(&first.data).map(|request| (request.id, request.service)),
    };
    let opened = match wanted {
        Ok((client, service)) => {
            let opened = async {
                let turn = ingress.turn(peer).await?;
                ingress.open(&turn, client, service, addresses, true).await
            };
            opened.await.map_err(|refusal| refusal.message)
        }
        Err(why) => Err(why),
    };
    if answers {
        let made = opened.as_ref().map(|opened| &*opened.id).map_err(|why| &**why);
        // A datagram may be lost.
        let _ = socket.send_to(&answer(made), peer).await;
    }
    let Opened { id, end, crypto } = match opened {
        Ok(opened) => opened,
        Err(why) => {
            ingress.complain(peer, &why);
            // Whoever goes on sending does not have a controller asked each time.
            tokio::time::sleep(limits.pause).await;
            return;
        }
    };
    tracing::debug!(listener = %ingress.options.name, client = %peer, circuit = %id, "connected");
    let first = if answers {
        // What came before the answer was for nobody.
        while inbox.try_recv().is_ok() {}
        drop(first);
        None
    } else {
        Some(first)
    };
    let datagrams = Datagrams::Shared { socket, peer, first, inbox };
    socket::carry_datagrams(end, datagrams, crypto, limits.idle).await;
}
