//! Datagrams of clients, sorted into conversations (docs/protocol/tunnel.md 5.4).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{fmt, io};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, mpsc};
use weft_intercept::{Patience, Seat, Seats};

/// Most datagrams of one client that wait for the network; more are dropped.
const QUEUE: usize = 16;
/// Times of silence after which a conversation makes room for another one, while there are as many
/// as allowed.
const PATIENCE: Patience = Patience {
    own: Duration::from_secs(1),
    many: Duration::from_millis(100),
    unproven: Duration::from_secs(5),
    proven: Duration::from_secs(30),
};

/// The times and the limit of conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpTimes {
    /// A conversation ends after this time without datagrams in either direction.
    pub idle: Duration,
    /// The interval at which idle conversations are looked for.
    pub check: Duration,
    /// Most conversations at once. A further one replaces a silent conversation, of the source with
    /// the most of them. If none is silent, the datagrams of the further one are dropped.
    pub limit: usize,
}

impl UdpTimes {
    /// The times of a file; a value that is too short is replaced by its default.
    #[must_use]
    pub fn of(idle: Option<Duration>, check: Option<Duration>) -> Self {
        let usual = Self::default();
        Self {
            idle: idle.filter(|idle| *idle >= Duration::from_secs(5)).unwrap_or(usual.idle),
            check: check.filter(|check| *check >= Duration::from_secs(1)).unwrap_or(usual.check),
            ..usual
        }
    }
}

impl Default for UdpTimes {
    fn default() -> Self {
        Self { idle: Duration::from_secs(300), check: Duration::from_secs(30), limit: 16_384 }
    }
}

/// The way of answers to a client.
#[derive(Debug)]
pub enum ReplySocket {
    /// The socket that all clients send to, and the client's address.
    Shared(Arc<UdpSocket>, SocketAddr),
    /// A socket of the client's own, connected to it.
    Own(UdpSocket),
    /// A part of this process, which is the client.
    Within(mpsc::Sender<Bytes>),
    /// The interceptor that accepted the client.
    #[cfg(target_os = "linux")]
    Intercepted(weft_intercept::UdpReplies),
}

/// The conversations of a port, by client.
pub struct Conversations {
    times: UdpTimes,
    seats: Arc<Seats>,
    table: Arc<Table>,
    count: AtomicU64,
}

/// The open conversations.
#[derive(Default)]
struct Table {
    open: Mutex<HashMap<SocketAddr, OpenConversation>>,
    /// Notified when the last conversation has ended.
    emptied: Notify,
}

struct OpenConversation {
    number: u64,
    waiting: mpsc::Sender<Bytes>,
}

/// The datagrams of one client. Dropping them ends the conversation, and the client's next datagram
/// begins another one.
#[derive(Debug)]
pub struct Datagrams {
    waiting: tokio::sync::Mutex<mpsc::Receiver<Bytes>>,
    reply: ReplySocket,
    times: UdpTimes,
    activity: Activity,
    /// The seat among the conversations of a port; intercepted ones have seats of the interceptor.
    seat: Option<Seat>,
    answered: AtomicBool,
    _listed: Listed,
}

/// Removes a conversation from the table.
struct Listed(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(remove) = self.0.take() {
            remove();
        }
    }
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listed")
    }
}

impl Conversations {
    /// A table without conversations.
    #[must_use]
    pub fn new(times: UdpTimes) -> Self {
        let seats = Seats::new(times.limit, times.limit, PATIENCE);
        Self { times, seats, table: Arc::default(), count: AtomicU64::new(0) }
    }

    /// Passes a datagram to its conversation. A new conversation is returned, with the datagram
    /// waiting in it; `reply` then makes the way of its answers.
    ///
    /// # Errors
    /// When there are too many conversations, or `reply` fails.
    pub fn deliver(
        &self,
        client: SocketAddr,
        datagram: Bytes,
        reply: impl FnOnce() -> io::Result<ReplySocket>,
    ) -> io::Result<Option<Datagrams>> {
        let Some(datagram) = self.deliver_known(client, datagram) else { return Ok(None) };
        let seat = self.seats.take(client.ip(), Instant::now()).ok_or_else(|| {
            let limit = self.times.limit;
            io::Error::other(format!("there are {limit} conversations already"))
        })?;
        let reply = reply()?;
        let (sender, waiting) = mpsc::channel(QUEUE);
        let _ = sender.try_send(datagram);
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.table.open.lock().insert(client, OpenConversation { number, waiting: sender });
        let table = Arc::downgrade(&self.table);
        let listed = Listed(Some(Box::new(move || unlist(&table, &client, number))));
        Ok(Some(Datagrams::new(waiting, reply, self.times, Some(seat), listed)))
    }

    /// Passes a datagram to the conversation of its client, and returns the datagram if there is none.
    pub(crate) fn deliver_known(&self, client: SocketAddr, datagram: Bytes) -> Option<Bytes> {
        let open = self.table.open.lock();
        let Some(entry) = open.get(&client).filter(|entry| !entry.waiting.is_closed()) else {
            return Some(datagram);
        };
        // Datagrams without room are lost, as datagrams are.
        let _ = entry.waiting.try_send(datagram);
        None
    }

    /// Returns when the last conversation has ended. One task waits.
    pub(crate) async fn emptied(&self) {
        self.table.emptied.notified().await;
    }

    /// The number of conversations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.open.lock().len()
    }

    /// True if there are no conversations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn unlist(table: &Weak<Table>, key: &SocketAddr, number: u64) {
    let Some(table) = table.upgrade() else { return };
    let mut open = table.open.lock();
    // A later conversation of the same client stays.
    if open.get(key).is_some_and(|entry| entry.number == number) {
        open.remove(key);
        if open.is_empty() {
            table.emptied.notify_one();
        }
    }
}

impl Datagrams {
    fn new(
        waiting: mpsc::Receiver<Bytes>,
        reply: ReplySocket,
        times: UdpTimes,
        seat: Option<Seat>,
        listed: Listed,
    ) -> Self {
        Self {
            waiting: tokio::sync::Mutex::new(waiting),
            reply,
            times,
            activity: Activity::new(),
            seat,
            answered: AtomicBool::new(false),
            _listed: listed,
        }
    }

    /// The datagrams of an intercepted client; the conversation of the interceptor lasts as long as this.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(mut conversation: weft_intercept::UdpConversation, times: UdpTimes) -> Self {
        let (sender, waiting) = mpsc::channel(QUEUE);
        let reply = ReplySocket::Intercepted(conversation.replies());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = sender.closed() => return,
                    datagram = conversation.recv() => match datagram {
                        // Datagrams without room are lost, as datagrams are.
                        Some(datagram) => drop(sender.try_send(datagram)),
                        None => return,
                    },
                }
            }
        });
        Self::new(waiting, reply, times, None, Listed(None))
    }

    /// A conversation with a part of this process: with the sender for that part's datagrams, and the
    /// receiver of the answers. An answer waits while many earlier ones were not received.
    pub(crate) fn within(times: UdpTimes) -> (Self, mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>) {
        let (says, waiting) = mpsc::channel(QUEUE);
        let (reply, hears) = mpsc::channel(QUEUE);
        let reply = ReplySocket::Within(reply);
        (Self::new(waiting, reply, times, None, Listed(None)), says, hears)
    }

    /// The next datagram of the client; `None` once the conversation has ended.
    pub async fn receive(&self) -> Option<Bytes> {
        let mut waiting = self.waiting.lock().await;
        loop {
            tokio::select! {
                biased;
                () = self.over() => return None,
                datagram = waiting.recv() => {
                    self.note();
                    if self.answered.load(Ordering::Relaxed) && let Some(seat) = &self.seat {
                        seat.prove();
                    }
                    return datagram;
                }
                () = tokio::time::sleep(self.times.check) => {
                    if self.activity.silence() >= self.times.idle {
                        return None;
                    }
                }
            }
        }
    }

    /// Sends a datagram to the client.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn answer(&self, datagram: &[u8]) -> io::Result<()> {
        self.note();
        self.answered.store(true, Ordering::Relaxed);
        match &self.reply {
            ReplySocket::Shared(socket, client) => socket.send_to(datagram, client).await.map(drop),
            ReplySocket::Own(socket) => socket.send(datagram).await.map(drop),
            ReplySocket::Within(hears) => {
                let sent = hears.send(Bytes::copy_from_slice(datagram)).await;
                sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
            }
            #[cfg(target_os = "linux")]
            ReplySocket::Intercepted(replies) => replies.send(datagram).await,
        }
    }
}

impl Datagrams {
    fn note(&self) {
        self.activity.note();
        if let Some(seat) = &self.seat {
            seat.touch();
        }
    }

    /// Resolves when another conversation needs the seat.
    async fn over(&self) {
        match &self.seat {
            Some(seat) => seat.over().cancelled().await,
            None => std::future::pending().await,
        }
    }
}

/// The time of the last datagram.
#[derive(Debug)]
struct Activity {
    start: Instant,
    /// Milliseconds since the start.
    last: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self { start: Instant::now(), last: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn note(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.last.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(idle: u64, limit: usize) -> UdpTimes {
        UdpTimes { idle: Duration::from_millis(idle), check: Duration::from_millis(5), limit }
    }

    fn client(last: u8) -> SocketAddr {
        ([10, 0, 0, last], 9).into()
    }

    async fn reply() -> ReplySocket {
        ReplySocket::Own(UdpSocket::bind("127.0.0.1:0").await.unwrap())
    }

    #[tokio::test]
    async fn a_client_has_one_conversation_at_a_time() {
        let conversations = Conversations::new(times(60_000, 2));
        let own = reply().await;
        let begun = conversations.deliver(client(1), "a".into(), || Ok(own)).unwrap().unwrap();
        let never = || -> io::Result<ReplySocket> { panic!("there is a conversation") };
        assert!(conversations.deliver(client(1), "b".into(), never).unwrap().is_none());
        assert_eq!(begun.receive().await.unwrap(), "a");
        assert_eq!(begun.receive().await.unwrap(), "b");
        // A conversation that is over makes room for the next datagram at once.
        drop(begun);
        assert!(conversations.is_empty());
        let own = reply().await;
        let again = conversations.deliver(client(1), "c".into(), || Ok(own)).unwrap().unwrap();
        assert_eq!(again.receive().await.unwrap(), "c");
        let own = reply().await;
        let _other = conversations.deliver(client(2), "d".into(), || Ok(own)).unwrap().unwrap();
        let own = reply().await;
        assert!(
            conversations.deliver(client(3), "e".into(), || Ok(own)).is_err(),
            "two are the limit"
        );
        assert_eq!(conversations.len(), 2);
    }

    #[tokio::test]
    async fn one_client_with_many_ports_keeps_nobody_out() {
        let conversations = Conversations::new(times(60_000, 4));
        let mut flood = Vec::new();
        for port in 1..5 {
            let (from, own) = (SocketAddr::from(([10, 0, 0, 1], port)), reply().await);
            flood.push(conversations.deliver(from, "x".into(), || Ok(own)).unwrap().unwrap());
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        let other = loop {
            let own = reply().await;
            match conversations.deliver(client(2), "y".into(), || Ok(own)) {
                Ok(begun) => break begun.unwrap(),
                Err(problem) => assert!(Instant::now() < deadline, "{problem}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(other.receive().await.unwrap(), "y");
        assert_eq!(flood[0].receive().await, None, "it made room");
        assert_eq!(flood[1].receive().await.unwrap(), "x");
    }

    #[tokio::test]
    async fn what_waits_is_bounded() {
        let conversations = Conversations::new(times(60_000, 2));
        let own = reply().await;
        let begun = conversations.deliver(client(1), "0".into(), || Ok(own)).unwrap().unwrap();
        for _ in 0..3 * QUEUE {
            let never = || -> io::Result<ReplySocket> { panic!("there is a conversation") };
            assert!(conversations.deliver(client(1), "x".into(), never).unwrap().is_none());
        }
        for _ in 0..QUEUE {
            assert!(begun.receive().await.is_some());
        }
        assert!(begun.waiting.lock().await.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_silent_conversation_ends() {
        let conversations = Conversations::new(times(30, 2));
        let own = reply().await;
        let begun = conversations.deliver(client(1), "a".into(), || Ok(own)).unwrap().unwrap();
        assert!(begun.receive().await.is_some());
        let end = tokio::time::timeout(Duration::from_secs(20), begun.receive()).await;
        assert_eq!(end.unwrap(), None);
    }

    #[test]
    fn times_that_are_too_short_are_not_taken() {
        let second = Duration::from_secs(1);
        assert_eq!(UdpTimes::of(Some(4 * second), Some(second / 2)), UdpTimes::default());
        let times = UdpTimes::of(Some(5 * second), Some(second));
        assert_eq!((times.idle, times.check), (5 * second, second));
    }
}
