//! Conversations in datagrams: one circuit for each address that sends.
//!
//! The source address of a datagram proves nothing. Conversations are therefore limited, in all and
//! by source, and end when they are idle.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weft_circuit::now;
use weft_limits::{BoundedTable, Budget, Caps, Grant, LogLines, TableFull, TokenBucket, WhenFull};
use weft_xgress::ITEM_COST;

use super::request::{Request, answer, short_refusal};
use super::{Addresses, Ingress, Opened};
use crate::bindings::socket::{self, Datagrams, MAX_DATAGRAM, UDP_IDLE, Waiting};
use crate::bindings::talk::{TalkSocket, Talker};

/// Most datagrams that wait for the circuit of a conversation; more are dropped.
const WAITING: usize = 10;
/// Waiting datagrams of a listener may take one sixteenth of the memory of all circuits, and those
/// of one source a quarter of that.
const MEMORY_SHARE: u64 = 16;
/// See [`MEMORY_SHARE`].
const SOURCE_SHARE: u64 = 4;
/// Most refusals that are sent to one source in a second. Its address may be forged, so that they go to somebody who asked
/// for nothing.
const REFUSALS: u32 = 64;
/// A refusal is at most this many times as long as the request.
const AMPLIFICATION: usize = 3;

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramLimits {
    /// Most conversations at once; datagrams that would begin another are dropped.
    pub(crate) conversations: usize,
    /// Most conversations from one source: one address of IPv4, one /64 network of IPv6.
    pub(crate) per_source: usize,
    /// A conversation ends after this time without datagrams in either direction.
    pub(crate) idle: Duration,
    /// A client without a circuit is ignored for this time.
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

/// The queue for the datagrams of one client.
#[derive(Clone)]
struct Sink {
    /// The number of the client's conversation.
    number: u64,
    inbox: mpsc::Sender<Waiting>,
    /// The budget of waiting datagrams.
    memory: Budget,
}

/// The clients of a listener.
struct Conversations(Mutex<Talkers>);

struct Talkers {
    sinks: BoundedTable<Talker, Sink, IpAddr>,
    /// The sources that have conversations.
    sources: HashMap<IpAddr, Source>,
    /// The budget of all sources.
    memory: Budget,
}

struct Source {
    /// The budget of its waiting datagrams.
    memory: Budget,
    /// The number of its conversations.
    conversations: usize,
    /// The refusals that it may be sent.
    refusals: TokenBucket,
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

    fn known(&self, peer: &Talker) -> Option<Sink> {
        self.0.lock().sinks.get(peer, now()).cloned()
    }

    /// Begins a conversation.
    fn begin(
        self: &Arc<Self>,
        peer: Talker,
        number: u64,
        inbox: mpsc::Sender<Waiting>,
    ) -> Result<(ConversationSlot, Budget), TableFull> {
        let source = peer.source();
        let mut talkers = self.0.lock();
        let share = talkers.memory.limit() / SOURCE_SHARE;
        let memory = match talkers.sources.get(&source) {
            Some(known) => known.memory.clone(),
            None => talkers.memory.child(share),
        };
        let sink = Sink { number, inbox, memory: memory.clone() };
        talkers.sinks.insert(peer.clone(), sink, source, now())?;
        let anew = || Source {
            memory: memory.clone(),
            conversations: 0,
            refusals: TokenBucket::new(f64::from(REFUSALS), REFUSALS, now()),
        };
        talkers.sources.entry(source).or_insert_with(anew).conversations += 1;
        Ok((ConversationSlot { conversations: Arc::clone(self), peer, source, number }, memory))
    }
}

/// The tokens that end listening for datagrams.
#[derive(Debug, Clone)]
pub(crate) struct DatagramEnds {
    /// No new conversation begins; existing ones go on.
    pub(crate) draining: CancellationToken,
    /// All conversations end.
    pub(crate) stop: CancellationToken,
}

/// Receives until cancelled. The conversations end then, too, because the socket closes with the
/// last one.
pub(crate) async fn serve_datagrams(
    ingress: Arc<Ingress>,
    socket: TalkSocket,
    limits: DatagramLimits,
    ends: DatagramEnds,
) {
    let DatagramEnds { draining, stop } = ends;
    let socket = Arc::new(socket);
    let conversations = Conversations::new(limits, ingress.forwarder.budget());
    let (mut number, mut lines) = (0, LogLines::new(now()));
    loop {
        // Lets other tasks run, however much arrives.
        tokio::task::consume_budget().await;
        let ready = tokio::select! {
            () = stop.cancelled() => return,
            ready = socket.readable() => ready,
        };
        let received = ready.and_then(|()| receive(&socket));
        let (data, peer) = match received {
            Ok(received) => received,
            // An ICMP refusal of an earlier datagram shows up here.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused
                ) =>
            {
                continue;
            }
            Err(error) => {
                if let Some(left_out) = lines.due(now()) {
                    tracing::warn!(listener = %ingress.options.name, %error, left_out, "cannot receive");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if let Some(known) = conversations.known(&peer)
            && !known.inbox.is_closed()
        {
            // Datagrams without room are lost, as datagrams are.
            if let Some(grant) = draw(&known.memory, &data) {
                let _ = known.inbox.try_send(Waiting { data, grant });
            }
            continue;
        }
        if draining.is_cancelled() {
            continue;
        }
        // The former conversation, if there was one, is being closed: this is another one.
        let (sender, inbox) = mpsc::channel(WAITING);
        number += 1;
        let (slot, memory) = match conversations.begin(peer.clone(), number, sender) {
            Ok(begun) => begun,
            Err(full) => {
                let most = match full {
                    TableFull::Source(_) => format!("{} from one source", limits.per_source),
                    TableFull::Total(_) => limits.conversations.to_string(),
                };
                ingress.complain(&peer, &format!("the limit of conversations is reached: {most}"));
                continue;
            }
        };
        let Some(grant) = draw(&memory, &data) else {
            ingress.complain(&peer, "the limit of bytes that wait for circuits is reached");
            continue;
        };
        let data = Waiting { data, grant };
        let (ingress, socket) = (Arc::clone(&ingress), Arc::clone(&socket));
        let stop = stop.clone();
        ingress.options.threads.pick().spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = converse(&ingress, socket, slot, data, inbox, limits) => {}
            }
        });
    }
}

/// Draws from the budget for a datagram that is to wait.
fn draw(memory: &Budget, data: &Bytes) -> Option<Grant> {
    memory.try_take((data.len() + ITEM_COST) as u64)
}

/// A place among the conversations; released when dropped.
struct ConversationSlot {
    conversations: Arc<Conversations>,
    peer: Talker,
    source: IpAddr,
    number: u64,
}

impl ConversationSlot {
    /// Takes one of the refusals that the source may be sent now; false if there is none left.
    fn may_be_refused(&self) -> bool {
        let mut talkers = self.conversations.0.lock();
        talkers
            .sources
            .get_mut(&self.source)
            .is_some_and(|source| source.refusals.try_take(1, now()))
    }
}

impl Drop for ConversationSlot {
    fn drop(&mut self) {
        let mut talkers = self.conversations.0.lock();
        let holder = talkers.sinks.get(&self.peer, now()).map(|sink| sink.number);
        if holder == Some(self.number) {
            talkers.sinks.remove(&self.peer);
        }
        if let Some(source) = talkers.sources.get_mut(&self.source) {
            source.conversations -= 1;
            if source.conversations == 0 {
                talkers.sources.remove(&self.source);
            }
        }
    }
}

fn receive(socket: &TalkSocket) -> io::Result<(Bytes, Talker)> {
    SCRATCH.with_borrow_mut(|scratch| {
        let (count, peer) = socket.try_receive(scratch)?;
        Ok((Bytes::copy_from_slice(scratch.get(..count).unwrap_or_default()), peer))
    })
}

async fn converse(
    ingress: &Ingress,
    socket: Arc<TalkSocket>,
    slot: ConversationSlot,
    first: Waiting,
    mut inbox: mpsc::Receiver<Waiting>,
    limits: DatagramLimits,
) {
    let peer = slot.peer.clone();
    let addresses = Addresses { local: socket.local_addr(), remote: peer.ip() };
    let answers = ingress.options.service.is_none();
    let wanted = match &ingress.options.service {
        Some(service) => Ok((String::new(), service.clone())),
        None => Request::parse(&first.data).map(|request| (request.id, request.service)),
    };
    let opened = match wanted {
        Ok((client, service)) => {
            let opened = async {
                let turn = ingress.turn(slot.source).await?;
                ingress.open(&turn, client, service, addresses, true).await
            };
            opened.await.map_err(|refusal| refusal.message)
        }
        Err(why) => Err(why),
    };
    let told = match &opened {
        _ if !answers => None,
        Ok(opened) => Some(answer(Ok(&opened.id))),
        Err(why) => {
            short_refusal(why, AMPLIFICATION * first.data.len()).filter(|_| slot.may_be_refused())
        }
    };
    if let Some(told) = told {
        // A datagram may be lost.
        let _ = socket.send(&told, &peer).await;
    }
    let Opened { id, end, crypto } = match opened {
        Ok(opened) => opened,
        Err(why) => {
            ingress.complain(&peer, &why);
            // A client that goes on sending does not cause another request to a controller each
            // time.
            tokio::time::sleep(limits.pause).await;
            return;
        }
    };
    tracing::debug!(listener = %ingress.options.name, client = %peer, circuit = %id, "connected");
    let first = if answers {
        // Datagrams that came before the answer are dropped.
        while inbox.try_recv().is_ok() {}
        drop(first);
        None
    } else {
        Some(first)
    };
    let datagrams = Datagrams::Shared { socket, peer, first, inbox };
    socket::carry_datagrams(end, datagrams, crypto, limits.idle).await;
}
