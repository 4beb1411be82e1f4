//! Connections that can do nothing for now: their tasks rest until something happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::{Builder, Runtime};
use weft_wire::hello::Hello;
use weft_wire::{Message, frame};

use super::support::*;
use crate::*;

/// A time in which a task that rests does nothing.
const WHILE: Duration = Duration::from_millis(200);

/// An outbox with so many messages left, which it would have liked to hand out long ago.
struct Overdue {
    left: usize,
    is_held_up: Arc<AtomicBool>,
    since: Instant,
}

impl Outbox for Overdue {
    fn wake_at(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.since)
    }

    fn fill(&mut self, batch: &mut Batch) {
        while self.left > 0 && !batch.is_full() {
            batch.push(Message::new(1100, vec![7; 32 * 1024]));
            self.left -= 1;
        }
        self.is_held_up.store(!batch.is_empty(), Ordering::SeqCst);
    }

    fn flushed(&mut self) {
        self.is_held_up.store(false, Ordering::SeqCst);
    }
}

/// A handler that stops reading at the first message, or never.
struct Reader {
    pauses: bool,
    has_read: Arc<AtomicBool>,
}

impl Handler for Reader {
    fn on_message(&mut self, _: Message, _: &ChannelHandle) -> Reading {
        self.has_read.store(true, Ordering::SeqCst);
        if self.pauses { Reading::Pause } else { Reading::Continue }
    }
}

struct Side {
    messages: usize,
    pauses: bool,
    is_held_up: Arc<AtomicBool>,
    has_read: Arc<AtomicBool>,
    waker: Mutex<Option<UnderlayWaker>>,
}

impl Behaviour for Side {
    fn attach(
        &self,
        _: &UnderlayInfo,
        waker: &UnderlayWaker,
        _: &ChannelHandle,
    ) -> ConnectionParts {
        *self.waker.lock() = Some(waker.clone());
        let (is_held_up, has_read) = (self.is_held_up.clone(), self.has_read.clone());
        let outbox = Overdue { left: self.messages, is_held_up, since: Instant::now() };
        let handler = Reader { pauses: self.pauses, has_read };
        ConnectionParts { handler: Box::new(handler), outbox: Some(Box::new(outbox)) }
    }
}

/// The thread of a connection alone.
struct Alone(Option<Runtime>);

impl Alone {
    fn new() -> Self {
        Self(Some(Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()))
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().unwrap()
    }

    /// Waits until the thread has nothing to do for a while.
    async fn rests(&self, what: &str) {
        // This count goes up when the thread begins to wait, which makes it odd, and when the thread goes on.
        let count = || self.runtime().metrics().worker_park_unpark_count(0);
        let mut counts = vec![count()];
        for _ in 0..25 {
            tokio::time::sleep(WHILE).await;
            let (before, now) = (counts[counts.len() - 1], count());
            if before % 2 == 1 && now % 2 == 1 && now - before <= 4 {
                return;
            }
            counts.push(now);
        }
        panic!("{what}: its task wakes up again and again: {counts:?}");
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

#[tokio::test]
async fn a_connection_rests_whether_it_cannot_write_or_must_not_read_or_both() {
    for (is_blocked, pauses) in [(true, false), (true, true), (false, true), (false, false)] {
        let what = format!("blocked: {is_blocked}, paused: {pauses}");
        let alone = Alone::new();
        let channel = ChannelOptions {
            heartbeat: None,
            threads: Some(Threads::of(alone.runtime().handle().clone())),
            ..ChannelOptions::control("server")
        };
        let (accept, limits) = (AcceptOptions::default(), ListenerLimits::default());
        let mut server = Server::with(channel, None, accept, limits).await;
        // This peer reads nothing.
        let mut peer = server.authority.raw(server.addr(), &[]).await.unwrap();
        peer.write_all(&frame::encode(&Hello::new("raw").to_message())).await.unwrap();
        let side = Arc::new(Side {
            messages: if is_blocked { 1000 } else { 0 },
            pauses,
            is_held_up: Arc::default(),
            has_read: Arc::default(),
            waker: Mutex::default(),
        });
        let _channel = server.next().await.start(side.clone());
        peer.write_all(&frame::encode(&message(1, "hello"))).await.unwrap();
        until(|| side.has_read.load(Ordering::SeqCst)).await;
        // These stay in the socket of a side that pauses.
        peer.write_all(&frame::encode(&message(2, &"x".repeat(100 * 1024)))).await.unwrap();
        peer.flush().await.unwrap();
        until(|| side.is_held_up.load(Ordering::SeqCst) == is_blocked).await;
        alone.rests(&what).await;
        assert_eq!(side.is_held_up.load(Ordering::SeqCst), is_blocked, "{what}");
        // A wake-up for nothing does not keep the task awake either.
        side.waker.lock().iter().for_each(UnderlayWaker::wake);
        alone.rests(&what).await;
        drop(peer);
    }
}
