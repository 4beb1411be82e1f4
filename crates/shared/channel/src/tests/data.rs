//! Handlers and outboxes like those of the data path.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use weft_wire::Message;

use super::support::*;
use crate::*;

/// An outbox with messages of a shared queue; messages that were not written return to the queue.
#[derive(Clone, Default)]
struct Source {
    queue: Arc<Mutex<VecDeque<Message>>>,
    /// True while messages were taken that the socket has not taken completely.
    is_held_up: Arc<AtomicBool>,
}

impl Outbox for Source {
    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn fill(&mut self, batch: &mut Batch) {
        let mut queue = self.queue.lock();
        while !batch.is_full() {
            let Some(message) = queue.pop_front() else { break };
            batch.push(message);
        }
        assert!(batch.is_empty() || batch.room() <= BATCH_BYTES);
        self.is_held_up.store(!batch.is_empty(), Ordering::SeqCst);
    }

    fn flushed(&mut self) {
        self.is_held_up.store(false, Ordering::SeqCst);
    }

    fn give_back(&mut self, unsent: Vec<Message>) {
        let mut queue = self.queue.lock();
        unsent.into_iter().rev().for_each(|message| queue.push_front(message));
    }
}

/// A handler that counts messages, and pauses at a given count until it is resumed.
struct Counter {
    counted: Arc<Counted>,
    pause_at: usize,
}

#[derive(Default)]
struct Counted {
    messages: AtomicUsize,
    turns: AtomicUsize,
    bytes: AtomicUsize,
    waker: Mutex<Option<UnderlayWaker>>,
}

impl Handler for Counter {
    fn on_message(&mut self, message: Message, _: &ChannelHandle) -> Reading {
        self.counted.bytes.fetch_add(message.body.len(), Ordering::SeqCst);
        let count = self.counted.messages.fetch_add(1, Ordering::SeqCst) + 1;
        if count == self.pause_at { Reading::Pause } else { Reading::Continue }
    }

    fn on_turn_end(&mut self, _: &ChannelHandle) {
        self.counted.turns.fetch_add(1, Ordering::SeqCst);
    }
}

struct Data {
    source: Source,
    counted: Arc<Counted>,
    pause_at: usize,
}

impl Behaviour for Data {
    fn attach(
        &self,
        _: &UnderlayInfo,
        waker: &UnderlayWaker,
        _: &ChannelHandle,
    ) -> ConnectionParts {
        *self.counted.waker.lock() = Some(waker.clone());
        let handler = Counter { counted: self.counted.clone(), pause_at: self.pause_at };
        ConnectionParts { handler: Box::new(handler), outbox: Some(Box::new(self.source.clone())) }
    }
}

fn data(pause_at: usize) -> (Arc<Data>, Source, Arc<Counted>) {
    let (source, counted) = (Source::default(), Arc::<Counted>::default());
    let data = Data { source: source.clone(), counted: counted.clone(), pause_at };
    (Arc::new(data), source, counted)
}

#[tokio::test]
async fn an_outbox_is_pulled_and_control_goes_first() {
    let mut server = Server::new(None).await;
    let (ours, source, counted) = data(usize::MAX);
    let body = Bytes::from(vec![7; 32 * 1024]);
    source.queue.lock().extend((0..2000).map(|_| Message::new(1100, body.clone())));
    let established = soon(dial(server.dial_options("dialer"))).await.unwrap();
    established.handle().try_send(message(5000, "control")).unwrap();
    let _dialer = established.start(ours);
    let (theirs, mut inbox) = inbox(InboxLimits::default());
    let _listener = server.next().await.start(theirs);
    assert_eq!(soon(inbox.recv()).await.unwrap().content_type, 5000);
    for number in 0..2000 {
        let received = soon(inbox.recv()).await.unwrap();
        assert_eq!((received.sequence, received.body.len()), (number + 2, body.len()));
    }
    source.queue.lock().push_back(message(1100, "woken"));
    counted.waker.lock().as_ref().unwrap().wake();
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "woken");
}

#[tokio::test]
async fn a_connection_moves_between_threads_in_the_middle_of_its_messages() {
    let make = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    };
    let own = [make(), make()];
    let threads = Threads::new(own.iter().map(|one| one.handle().clone()).collect());
    let mut server = Server::new(None).await;
    let (ours, source, _counted) = data(usize::MAX);
    let body = Bytes::from(vec![7; 32 * 1024]);
    source.queue.lock().extend((0..3000).map(|_| Message::new(1100, body.clone())));
    let mut options = server.dial_options("dialer");
    options.channel.threads = Some(threads.clone());
    let dialer = soon(dial(options)).await.unwrap().start(ours);
    let (theirs, mut inbox) = inbox(InboxLimits::default());
    let listener = server.next().await.start(theirs);
    for number in 0..3000 {
        let received = soon(inbox.recv()).await.unwrap();
        assert_eq!((received.sequence, received.body.len()), (number + 1, body.len()));
        if number % 100 == 50 {
            threads.move_all_to(usize::from(number % 200 == 50));
        }
    }
    // It can be read and woken where it is now.
    assert!(threads.wandered() >= 2, "it was on both threads");
    let answer = soon(listener.request(message(5, "?"), Duration::from_secs(1))).await;
    assert!(matches!(answer, Err(RequestError::Timeout)), "{answer:?}");
    own.into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
    soon(dialer.closed()).await;
}

#[tokio::test]
async fn a_paused_connection_reads_nothing_and_still_writes() {
    let mut server = Server::new(None).await;
    let (theirs, source, counted) = data(10);
    let (ours, mut inbox) = inbox(InboxLimits::default());
    let dialer = soon(dial(server.dial_options("dialer"))).await.unwrap().start(ours);
    let listener = server.next().await.start(theirs);
    for _ in 0..25 {
        dialer.send(message(1, "abc")).await.unwrap();
    }
    until(|| counted.messages.load(Ordering::SeqCst) == 10).await;
    source.queue.lock().push_back(message(2, "outbox"));
    counted.waker.lock().as_ref().unwrap().wake();
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "outbox");
    listener.send(message(2, "lane")).await.unwrap();
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "lane");
    assert_eq!(counted.messages.load(Ordering::SeqCst), 10);
    counted.waker.lock().as_ref().unwrap().resume();
    until(|| counted.messages.load(Ordering::SeqCst) == 25).await;
    assert_eq!(counted.bytes.load(Ordering::SeqCst), 75);
    let turns = counted.turns.load(Ordering::SeqCst);
    assert!(turns >= 2, "{turns}");
}

#[tokio::test]
async fn what_was_not_written_is_given_back_in_order() {
    let mut server = Server::new(None).await;
    let (ours, source, _) = data(usize::MAX);
    let body = Bytes::from(vec![7; 16 * 1024]);
    source.queue.lock().extend((0..4000).map(|number| Message::new(10_000 + number, body.clone())));
    let dialer = soon(dial(server.dial_options("dialer"))).await.unwrap().start(ours);
    let unread = server.next().await;
    // The peer does not read: the writer stops once the sockets are full.
    until(|| source.is_held_up.load(Ordering::SeqCst)).await;
    let last = source.queue.lock().len();
    assert!(last > 0, "everything was taken without a reader");
    drop(unread);
    soon(dialer.closed()).await;
    until(|| dialer.underlays().is_empty()).await;
    let queue = source.queue.lock();
    assert!(queue.len() > last, "nothing was given back");
    let numbers: Vec<i32> = queue.iter().map(|message| message.content_type).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "out of order");
    assert_eq!(numbers.last(), Some(&13_999));
}

/// An outbox that always has a message; an answer is queued just before it is asked.
struct Follower {
    channel: ChannelHandle,
    /// The number of messages that were noticed and not given yet.
    noticed: u32,
    rounds: u32,
}

impl Outbox for Follower {
    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn notice(&mut self) {
        if self.rounds > 0 {
            self.rounds -= 1;
            self.channel.try_send(message(5000, "answer")).unwrap();
            self.noticed += 1;
        }
    }

    fn fill(&mut self, batch: &mut Batch) {
        for _ in 0..std::mem::take(&mut self.noticed) {
            batch.push(message(1100, "data"));
        }
    }
}

struct Following;

impl Behaviour for Following {
    fn attach(
        &self,
        _: &UnderlayInfo,
        _: &UnderlayWaker,
        channel: &ChannelHandle,
    ) -> ConnectionParts {
        let handler = Counter { counted: Arc::default(), pause_at: usize::MAX };
        let outbox = Follower { channel: channel.clone(), noticed: 0, rounds: 50 };
        ConnectionParts { handler: Box::new(handler), outbox: Some(Box::new(outbox)) }
    }
}

#[tokio::test]
async fn what_becomes_ready_behind_a_queued_message_is_written_behind_it() {
    let mut server = Server::new(None).await;
    let _dialer =
        soon(dial(server.dial_options("dialer"))).await.unwrap().start(Arc::new(Following));
    let (theirs, mut inbox) = inbox(InboxLimits::default());
    let _listener = server.next().await.start(theirs);
    for _ in 0..50 {
        assert_eq!(soon(inbox.recv()).await.unwrap().content_type, 5000);
        assert_eq!(soon(inbox.recv()).await.unwrap().content_type, 1100);
    }
}

/// An outbox whose messages are due one after the other, without anybody who wakes the connection.
struct Due {
    next: Instant,
    left: u32,
    asked: Arc<AtomicUsize>,
}

/// The time between two messages of [`Due`].
const BETWEEN: Duration = Duration::from_millis(20);

impl Outbox for Due {
    fn wake_at(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }

    fn fill(&mut self, batch: &mut Batch) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.left > 0 && Instant::now() >= self.next {
            self.left -= 1;
            self.next += BETWEEN;
            batch.push(message(1100, "due"));
        }
    }
}

struct InTime(Arc<AtomicUsize>);

impl Behaviour for InTime {
    fn attach(&self, _: &UnderlayInfo, _: &UnderlayWaker, _: &ChannelHandle) -> ConnectionParts {
        let handler = Counter { counted: Arc::default(), pause_at: usize::MAX };
        let outbox = Due { next: Instant::now() + BETWEEN, left: 10, asked: self.0.clone() };
        ConnectionParts { handler: Box::new(handler), outbox: Some(Box::new(outbox)) }
    }
}

#[tokio::test]
async fn an_outbox_is_asked_again_at_the_time_that_it_names() {
    let mut server = Server::new(None).await;
    let asked = Arc::<AtomicUsize>::default();
    let behaviour = Arc::new(InTime(asked.clone()));
    let _dialer = soon(dial(server.dial_options("dialer"))).await.unwrap().start(behaviour);
    let (theirs, mut inbox) = inbox(InboxLimits::default());
    let _listener = server.next().await.start(theirs);
    for _ in 0..10 {
        assert_eq!(soon(inbox.recv()).await.unwrap().content_type, 1100);
    }
    // The timer may fire early by less than its unit, so that it is set a few times more.
    let asked = asked.load(Ordering::SeqCst);
    assert!(asked <= 100, "asked {asked} times");
}
