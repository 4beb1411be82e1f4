//! Keeps native SDKs going after a burst (docs/protocol/sdk.md 10.5).
//!
//! A native SDK (`ziti-sdk-c`, seen from 0.27.2 to 1.18.7) holds at most 32 messages at a time, and
//! may sleep with the rest of a burst unread until something else arrives on the same connection:
//! versions before 0.36.1 look at the rest only then, later ones arm their timer before they look.
//! A burst of messages with silence after it leaves such an SDK hanging until the answer to its
//! next latency probe, up to a minute later. Often the SDK then gives the connection up, because
//! that answer waits behind the rest. After such a burst a native SDK is therefore sent messages
//! without meaning, until it must have seen the whole burst. No nudge is sent while other messages
//! flow.
//!
//! Versions since 0.36.1 stop reading altogether after a burst that is too large, and no message
//! wakes them: the messages that they are sent are paced, too ([`pace`](super::pace)).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_channel::{ChannelHandle, PeerInfo, RequestError, UnderlayWaker};
use weft_circuit::now;
use weft_wire::edge::{self, ConnInspect, header};
use weft_wire::{Message, content_type};

use super::pace::{FIRST_QUESTIONS, Pace, TURN};

/// The beginning of the name of native SDKs.
const NATIVE: &str = "ziti-sdk-c[";
/// This many messages close together are a burst: half of the 32 messages that the SDK can hold.
/// Large messages count too, because an application that reads slowly leaves them with the SDK.
const BURST: u32 = 16;
/// Messages that are at most this far apart are close together.
const CLOSE: Duration = Duration::from_secs(1);
/// One nudge is sent for this many messages of a burst, although the SDK handles up to 32 messages after
/// each nudge.
const PER_NUDGE: u32 = 8;
/// Most nudges after a burst: the SDK reads at most 64 KiB ahead.
const MAX_NUDGES: u32 = 128;
/// The interval between nudges of a burst.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest interval of the last nudges, which come more and more slowly, for an SDK that was too
/// busy to read.
const LAST_PAUSE: Duration = Duration::from_secs(15);
/// No connection has this id, so that the SDK answers an inspection of it at once, after all earlier
/// messages.
const NO_CONNECTION: u32 = u32::MAX;
/// The longest wait for the answer to an inspection; without an answer, the SDK is asked again
/// later.
const PATIENCE: Duration = Duration::from_secs(5);

/// The body of messages without meaning. A native SDK before 0.36.1 loops for ever over a message
/// without headers and body.
const FILLER: Bytes = Bytes::from_static(b"-");

/// A message that every SDK accepts and ignores. Native SDKs since 0.36.1 log a warning about it.
pub(super) fn meaningless() -> Message {
    Message::new(content_type::HEARTBEAT, FILLER)
}

/// A message that native SDKs since 0.36.1 ignore silently: the close of an unknown connection.
fn close_of_nothing() -> Message {
    Message::new(edge::content_type::STATE_CLOSED, FILLER)
}

/// Counts the messages that a native SDK is sent.
#[derive(Debug)]
pub(super) struct Nudge {
    is_old: bool,
    count: Mutex<Count>,
    burst: Notify,
    pace: Mutex<Pace>,
    /// Notified when the SDK is to be asked which messages it has handed on.
    ask: Notify,
    /// Notified when there was no room in a turn.
    held: Notify,
}

/// The messages written lately.
#[derive(Debug, Default)]
struct Count {
    messages: u32,
    last: Option<Instant>,
    /// True while the task nudges after a burst; it also handles messages written meanwhile.
    nudging: bool,
}

impl Nudge {
    /// The nudges for a peer, if it is a native SDK.
    pub(super) fn of(peer: &PeerInfo) -> Option<Arc<Self>> {
        let native = peer.id.as_deref().is_some_and(|id| id.starts_with(NATIVE));
        // Native SDKs send this header since 0.36.1.
        let is_old = peer.headers.get(header::SUPPORTS_INSPECT).is_none();
        native.then(|| Arc::new(Self::new(is_old)))
    }

    fn new(is_old: bool) -> Self {
        Self {
            is_old,
            count: Mutex::default(),
            burst: Notify::new(),
            pace: Mutex::default(),
            ask: Notify::new(),
            held: Notify::new(),
        }
    }

    /// True if the SDK is older than 0.36.1.
    pub(super) fn is_old(&self) -> bool {
        self.is_old
    }

    /// A message that this SDK accepts and ignores.
    pub(super) fn message(&self) -> Message {
        if self.is_old { meaningless() } else { close_of_nothing() }
    }

    /// True if messages with this body are paced.
    pub(super) fn is_paced(&self, body: &[u8]) -> bool {
        !self.is_old && Pace::counts(body)
    }

    /// How many paced messages may be written now. If there is no room, the connection is woken when
    /// there is.
    pub(super) fn room(&self, now: Instant) -> u64 {
        if self.is_old {
            return u64::MAX;
        }
        let room = self.pace.lock().room(now);
        if room == 0 {
            self.held.notify_one();
        }
        room
    }

    /// Counts paced messages that are being written.
    pub(super) fn paced(&self, messages: u64, now: Instant) {
        if messages > 0 {
            let mut pace = self.pace.lock();
            pace.wrote(messages, now);
            // The task asks, so that the question is written after these messages.
            self.ask.notify_one();
        }
    }

    /// Counts messages that are being written.
    pub(super) fn wrote(&self, messages: u32, now: Instant) {
        if messages == 0 {
            return;
        }
        let mut count = self.count.lock();
        if count.last.is_none_or(|last| now.saturating_duration_since(last) > CLOSE) {
            count.messages = 0;
        }
        count.last = Some(now);
        count.messages = count.messages.saturating_add(messages);
        if count.messages >= BURST && !std::mem::replace(&mut count.nudging, true) {
            self.burst.notify_one();
        }
    }

    fn take(&self) -> u32 {
        std::mem::take(&mut self.count.lock().messages)
    }

    /// Ends the work on a burst. False if another burst has begun meanwhile.
    fn is_over(&self) -> bool {
        let mut count = self.count.lock();
        count.nudging = count.messages >= BURST;
        !count.nudging
    }

    /// Asks the SDK which messages it has handed on, until the channel closes.
    pub(super) async fn keep_pace(self: Arc<Self>, channel: ChannelHandle, waker: UnderlayWaker) {
        let mut first = FIRST_QUESTIONS;
        loop {
            while first > 0 || self.pace.lock().is_due() {
                first = first.saturating_sub(1);
                self.pace.lock().ask(now());
                let question = ConnInspect { conn_id: NO_CONNECTION }.to_message();
                match channel.request(question, PATIENCE).await {
                    Ok(_) => self.pace.lock().answered(now()),
                    Err(RequestError::Closed(_)) => return,
                    Err(_) => self.pace.lock().unanswered(),
                }
                waker.wake();
            }
            tokio::select! {
                () = self.ask.notified() => {}
                _ = channel.closed() => return,
            }
        }
    }

    /// Wakes the connection in the turn after one without room, until the channel closes.
    pub(super) async fn keep_turns(self: Arc<Self>, channel: ChannelHandle, waker: UnderlayWaker) {
        loop {
            tokio::select! {
                () = self.held.notified() => tokio::time::sleep(TURN).await,
                _ = channel.closed() => return,
            }
            if self.pace.lock().room(now()) > 0 {
                waker.wake();
            }
        }
    }

    /// Nudges the SDK after each burst, until the channel closes.
    pub(super) async fn run(self: Arc<Self>, channel: ChannelHandle) {
        loop {
            tokio::select! {
                () = self.burst.notified() => {}
                _ = channel.closed() => return,
            }
            let mut burst = Burst::default();
            loop {
                let Some(pause) = burst.pause() else {
                    if self.is_over() {
                        break;
                    }
                    burst = Burst::default();
                    continue;
                };
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    _ = channel.closed() => return,
                }
                if burst.tick(self.take()) {
                    // If there is no room, other messages wake the SDK.
                    let _ = channel.try_send(self.message());
                }
            }
        }
    }
}

/// The nudges that a burst needs.
#[derive(Debug)]
struct Burst {
    owed: u32,
    pause: Duration,
}

impl Default for Burst {
    fn default() -> Self {
        Self { owed: 0, pause: PAUSE }
    }
}

impl Burst {
    /// The time until the next tick; `None` when the burst is over.
    fn pause(&self) -> Option<Duration> {
        (self.pause <= LAST_PAUSE).then_some(self.pause)
    }

    /// Ends a pause in which `wrote` messages were written. True if a nudge is due.
    fn tick(&mut self, wrote: u32) -> bool {
        self.owed = self.owed.saturating_add(wrote.div_ceil(PER_NUDGE)).min(MAX_NUDGES);
        if wrote > 0 {
            self.pause = PAUSE;
            return false;
        }
        match self.owed.checked_sub(1) {
            Some(rest) => self.owed = rest,
            None => self.pause *= 2,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn ticks(burst: &mut Burst) -> Vec<Duration> {
        let mut pauses = Vec::new();
        while let Some(pause) = burst.pause() {
            assert!(burst.tick(0));
            pauses.push(pause);
        }
        pauses
    }

    #[test]
    fn meaningless_messages_are_not_empty() {
        for is_old in [true, false] {
            let message = Nudge::new(is_old).message();
            assert!(!message.body.is_empty(), "an empty one stops an old SDK for ever");
            assert!(message.headers.get(header::CONN_ID).is_none(), "of no connection");
        }
    }

    #[test]
    fn a_burst_is_followed_by_enough_nudges_and_ends() {
        let mut burst = Burst::default();
        assert!(!burst.tick(200));
        assert!(!burst.tick(1), "nothing is added while messages flow");
        let pauses = ticks(&mut burst);
        assert!(pauses.len() * 32 > 200);
        assert_eq!(pauses.first(), Some(&PAUSE));
        assert!(pauses.iter().sum::<Duration>() > LAST_PAUSE);
        assert!(burst.pause().is_none());
    }

    #[test]
    fn what_is_owed_has_a_limit() {
        let mut burst = Burst::default();
        for _ in 0..1000 {
            burst.tick(u32::MAX);
        }
        assert!(ticks(&mut burst).len() < 2 * MAX_NUDGES as usize);
    }

    /// Whether the task would begin to nudge now.
    fn begins(nudge: &Nudge) -> bool {
        nudge.burst.notified().now_or_never().is_some()
    }

    #[test]
    fn a_burst_that_goes_on_is_nudged_once() {
        let (nudge, now) = (Nudge::new(true), Instant::now());
        nudge.wrote(BURST, now);
        assert!(begins(&nudge));
        nudge.wrote(BURST, now);
        assert!(!begins(&nudge), "it is nudged already");
        assert_eq!(nudge.take(), 2 * BURST);
        nudge.wrote(BURST, now);
        assert!(!nudge.is_over(), "what came at the last moment is seen");
        assert_eq!(nudge.take(), BURST);
        assert!(nudge.is_over() && !begins(&nudge));
        nudge.wrote(BURST, now);
        assert!(begins(&nudge));
    }

    #[test]
    fn messages_that_do_not_count_do_not_join_others() {
        let (nudge, now) = (Nudge::new(true), Instant::now());
        nudge.wrote(BURST - 1, now);
        nudge.wrote(0, now + CLOSE);
        nudge.wrote(1, now + 2 * CLOSE);
        assert!(!begins(&nudge));
        assert_eq!(nudge.take(), 1);
    }

    #[tokio::test]
    async fn only_messages_close_together_are_a_burst() {
        let (nudge, start) = (Nudge::new(false), Instant::now());
        for turn in 0..100 {
            nudge.wrote(1, start + (CLOSE + PAUSE) * turn);
        }
        assert_eq!(nudge.take(), 1);
        for _ in 0..BURST {
            nudge.wrote(1, start + CLOSE * 200);
        }
        nudge.burst.notified().await;
        assert_eq!(nudge.take(), BURST);
    }
}
