//! Conversations in datagrams: one circuit for each address that sends.
//!
//! Nobody proves that he sends from the address that a datagram bears, so that conversations are
//! bounded, in all and from one source, and end when nothing is said.

use std::{
    cell::RefCell,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    net::UdpSocket,
    sync::mpsc::{self, error::TrySendError},
};
use tokio_util::sync::CancellationToken;
use weft_limits::{BoundedTable, Caps, TableFull, WhenFull, source_of};

use super::{
    Addresses, Ingress, Opened,
    request::{Request, answer},
};
use crate::bindings::socket::{self, Datagrams, MAX_DATAGRAM, UDP_IDLE};

/// Datagrams that may wait for the circuit of a conversation; more are dropped.
const WAITING: usize = 10;

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

/// Those who talk, which conversation of theirs it is, and where what they say goes.
type Conversations = Mutex<BoundedTable<SocketAddr, (u64, mpsc::Sender<Bytes>), IpAddr>>;

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
    let conversations: Arc<Conversations> = Arc::new(Mutex::new(BoundedTable::new(Caps {
        total: limits.conversations,
        per_source: limits.per_source,
        max_age: None,
        when_full: WhenFull::Refuse,
    })));
    let mut number = 0;
    loop {
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
        let known = conversations.lock().get(&peer, Instant::now()).cloned();
        let data = match known.map(|(_, known)| known.try_send(data.clone())) {
            // What has no room is lost, as datagrams are.
            Some(Ok(()) | Err(TrySendError::Full(_))) => continue,
            // That conversation is being closed: this one is another.
            Some(Err(TrySendError::Closed(_))) | None => data,
        };
        if draining.is_cancelled() {
            continue;
        }
        let (sender, inbox) = mpsc::channel(WAITING);
        number += 1;
        let (source, entry) = (source_of(peer.ip()), (number, sender));
        let entered = conversations.lock().insert(peer, entry, source, Instant::now());
        if let Err(full) = entered {
            let most = match full {
                TableFull::Source(_) => format!("{} from one source", limits.per_source),
                TableFull::Total(_) => limits.conversations.to_string(),
            };
            ingress.complain(peer, &format!("conversations at once: {most}, the most"));
            continue;
        }
        let place = Place { conversations: Arc::clone(&conversations), peer, number };
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

/// A place among the conversations; free again when dropped.
struct Place {
    conversations: Arc<Conversations>,
    peer: SocketAddr,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut conversations = self.conversations.lock();
        let holder = conversations.get(&self.peer, Instant::now()).map(|(number, _)| *number);
        if holder == Some(self.number) {
            conversations.remove(&self.peer);
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
    first: Bytes,
    mut inbox: mpsc::Receiver<Bytes>,
    limits: DatagramLimits,
) {
    let peer = place.peer;
    let addresses = Addresses { local: socket.local_addr().ok(), remote: peer };
    let answers = ingress.options.service.is_none();
    let wanted = match &ingress.options.service {
        Some(service) => Ok((String::new(), service.clone())),
        None => Request::parse(&first).map(|request| (request.id, request.service)),
    };
    let opened = match wanted {
        Ok((client, service)) => {
            let opened = ingress.open(client, service, addresses, true).await;
            opened.map_err(|refusal| refusal.message)
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
        None
    } else {
        Some(first)
    };
    let datagrams = Datagrams::Shared { socket, peer, first, inbox };
    socket::carry_datagrams(end, datagrams, crypto, limits.idle).await;
}
