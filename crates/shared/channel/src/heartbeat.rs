//! Heartbeats: whether the peer is alive, and the round-trip time to it
//! (docs/protocol/channel.md 11.1).
//!
//! A heartbeat is a header of any message that is sent. The newest one received is answered with the next
//! message that is sent. Times are nanoseconds of one clock of this process; the peer only returns them.
//!
//! A peer is silent while nothing at all comes from it on any connection: an answer may wait behind much data, which
//! shows as well that the peer is alive. Silence is counted by the checks at intervals, after each has read what
//! waits. A process that stood still, whatever the clocks say, therefore does not take the time for silence of its
//! peers.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_wire::Headers;
use weft_wire::hello::header;

use crate::clock;

/// The times of heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatOptions {
    /// Time between heartbeats, a third of `close_unresponsive` at most.
    pub send_interval: Duration,
    /// The interval at which an idle connection checks if a heartbeat is due, and if the peer is silent; a third of
    /// `close_unresponsive` at most.
    pub check_interval: Duration,
    /// Closes the channel after this time in which nothing came from the peer; `None` never does.
    pub close_unresponsive: Option<Duration>,
    /// Added to `close_unresponsive` until the peer answers for the first time: it may have to ask others about this
    /// side first.
    pub grace: Duration,
}

impl HeartbeatOptions {
    /// Defaults of control channels.
    pub const CONTROL: Self = Self {
        send_interval: Duration::from_secs(10),
        check_interval: Duration::from_secs(1),
        close_unresponsive: Some(Duration::from_secs(30)),
        grace: Duration::ZERO,
    };
    /// Defaults of links.
    pub const LINK: Self = Self {
        close_unresponsive: Some(Duration::from_secs(10)),
        grace: Duration::from_secs(20),
        ..Self::CONTROL
    };

    /// These options with intervals so short that three heartbeats are due in the time of a silence.
    fn within_silence(self) -> Self {
        let Some(limit) = self.close_unresponsive else { return self };
        let most = (limit / 3).max(Duration::from_millis(10));
        Self {
            send_interval: self.send_interval.min(most),
            check_interval: self.check_interval.min(most),
            ..self
        }
    }
}

/// The peer's answers to heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Liveness {
    /// Round trip of the last answered heartbeat.
    pub rtt: Option<Duration>,
    /// Time since the last answer, or since the channel was established.
    pub since_response: Duration,
    /// How long a heartbeat has been waiting for its answer.
    pub outstanding: Option<Duration>,
}

/// Heartbeat state of a channel, shared by its connections.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    options: Option<HeartbeatOptions>,
    state: Mutex<State>,
    /// True if anything came from the peer since the last check.
    heard: AtomicBool,
    /// The time before which messages carry no heartbeat headers, so that most of them take no
    /// lock.
    attention: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// The time at which the last heartbeat was sent.
    sent: Option<u64>,
    /// The oldest heartbeat without an answer.
    unanswered: Option<u64>,
    /// The peer's newest heartbeat that is not answered yet.
    to_answer: Option<u64>,
    /// The time of the last answer, or of the start of the channel.
    responded: u64,
    /// The time of the last check for silence.
    checked: u64,
    /// The nanoseconds of silence so far.
    silent: u64,
    rtt: Option<Duration>,
}

/// Nanoseconds since the beginning of 1970, never going back: the time of day at the first call, moved
/// on by the clock that tests can move.
pub(crate) fn now_ns() -> u64 {
    static START: LazyLock<(Instant, u64)> =
        LazyLock::new(|| (Instant::now(), nanos(clock::since_1970())));
    START.1.saturating_add(nanos(clock::since(START.0)))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Heartbeat {
    pub(crate) fn new(options: Option<HeartbeatOptions>, now: u64) -> Self {
        let options = options.map(HeartbeatOptions::within_silence);
        let state = State {
            sent: None,
            unanswered: None,
            to_answer: None,
            responded: now,
            checked: now,
            silent: 0,
            rtt: None,
        };
        let attention = AtomicU64::new(if options.is_some() { 0 } else { u64::MAX });
        Self { options, state: Mutex::new(state), heard: AtomicBool::new(false), attention }
    }

    pub(crate) fn check_interval(&self) -> Option<Duration> {
        self.options.map(|options| options.check_interval)
    }

    /// The headers of the next message: a heartbeat if one is due, and an answer.
    pub(crate) fn stamp(&self, now: u64) -> Headers {
        let mut headers = Headers::new();
        if now < self.attention.load(Ordering::Relaxed) {
            return headers;
        }
        let mut state = self.state.lock();
        if self.due_in(&state, now) {
            headers.set_u64(header::HEARTBEAT, now);
            state.sent = Some(now);
            state.unanswered.get_or_insert(now);
        }
        if let Some(value) = state.to_answer.take() {
            headers.set_u64(header::HEARTBEAT_RESPONSE, value);
        }
        self.update_attention(&state);
        headers
    }

    fn update_attention(&self, state: &State) {
        let due = match (self.options, state.sent) {
            (None, _) => u64::MAX,
            (Some(_), None) => 0,
            (Some(options), Some(sent)) => {
                sent.saturating_add(nanos(options.send_interval)).saturating_add(1)
            }
        };
        let attention = if state.to_answer.is_some() { 0 } else { due };
        self.attention.store(attention, Ordering::Relaxed);
    }

    /// True if a message should be sent now because of its heartbeat headers.
    pub(crate) fn wants_message(&self, now: u64) -> bool {
        now >= self.attention.load(Ordering::Relaxed)
    }

    fn due_in(&self, state: &State, now: u64) -> bool {
        let Some(options) = self.options else { return false };
        state.sent.is_none_or(|sent| now.saturating_sub(sent) > nanos(options.send_interval))
    }

    /// Notes a heartbeat of the peer.
    pub(crate) fn received(&self, value: u64) {
        let mut state = self.state.lock();
        state.to_answer = Some(value);
        self.update_attention(&state);
    }

    /// Notes an answer of the peer; returns the round-trip time. Answers to times that were never
    /// sent are ignored.
    pub(crate) fn answered(&self, value: u64, now: u64) -> Option<Duration> {
        let mut state = self.state.lock();
        if state.sent.is_none_or(|sent| value > sent) {
            return None;
        }
        let rtt = Duration::from_nanos(now.saturating_sub(value));
        state.unanswered = None;
        state.responded = now;
        state.rtt = Some(rtt);
        Some(rtt)
    }

    /// Notes that something came from the peer.
    pub(crate) fn heard(&self) {
        // Mostly it is noted already.
        if !self.heard.load(Ordering::Relaxed) {
            self.heard.store(true, Ordering::Relaxed);
        }
    }

    /// True if the channel must be closed for silence. To be called at intervals, after everything that waits has
    /// been read. A much longer pause between two calls counts as two intervals: this process stood still.
    pub(crate) fn unresponsive(&self, now: u64) -> bool {
        let Some(options) = self.options else { return false };
        let mut state = self.state.lock();
        let pause = now.saturating_sub(state.checked).min(2 * nanos(options.check_interval));
        state.checked = now;
        let is_silent = !self.heard.swap(false, Ordering::Relaxed);
        state.silent = if is_silent { state.silent.saturating_add(pause) } else { 0 };
        let grace = if state.rtt.is_none() { options.grace } else { Duration::ZERO };
        let limit = options.close_unresponsive.map(|limit| nanos(limit.saturating_add(grace)));
        limit.is_some_and(|limit| state.silent > limit)
    }

    /// Starts the time of silence again, after the channel had no connection.
    pub(crate) fn restart(&self, now: u64) {
        let mut state = self.state.lock();
        state.responded = now;
        (state.checked, state.silent) = (now, 0);
        state.unanswered = None;
        state.to_answer = None;
        state.sent = None;
        self.update_attention(&state);
    }

    pub(crate) fn liveness(&self, now: u64) -> Liveness {
        let state = self.state.lock();
        let since = |then: u64| Duration::from_nanos(now.saturating_sub(then));
        Liveness {
            rtt: state.rtt,
            since_response: since(state.responded),
            outstanding: state.unanswered.map(since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn first_message_carries_one_and_then_one_per_interval() {
        let heartbeat = Heartbeat::new(Some(HeartbeatOptions::CONTROL), 100);
        assert!(heartbeat.wants_message(100));
        assert_eq!(heartbeat.stamp(100).get_u64(5), Some(100));
        assert!(heartbeat.stamp(100 + SECOND).is_empty());
        assert!(!heartbeat.wants_message(100 + 10 * SECOND));
        assert!(heartbeat.wants_message(101 + 10 * SECOND));
        assert_eq!(heartbeat.stamp(101 + 10 * SECOND).get_u64(5), Some(101 + 10 * SECOND));
    }

    #[test]
    fn the_newest_is_answered_once_even_without_own_heartbeats() {
        let heartbeat = Heartbeat::new(None, 0);
        assert!(!heartbeat.wants_message(SECOND));
        heartbeat.received(7);
        heartbeat.received(8);
        assert!(heartbeat.wants_message(SECOND));
        let headers = heartbeat.stamp(SECOND);
        assert_eq!((headers.get_u64(5), headers.get_u64(6)), (None, Some(8)));
        assert!(heartbeat.stamp(SECOND).is_empty());
        assert!(!heartbeat.unresponsive(u64::MAX));
    }

    /// The time at which checks of each second find silence, if there is any until `end`.
    fn silent_at(heartbeat: &Heartbeat, start: u64, end: u64) -> Option<u64> {
        (start..=end).find(|second| heartbeat.unresponsive(second * SECOND))
    }

    #[test]
    fn silence_closes_and_whatever_comes_prevents_it() {
        let heartbeat = Heartbeat::new(Some(HeartbeatOptions::LINK), 0);
        heartbeat.stamp(0);
        assert_eq!(silent_at(&heartbeat, 1, 60), Some(31), "a peer that has not answered yet");
        heartbeat.heard();
        assert_eq!(heartbeat.answered(0, 5), Some(Duration::from_nanos(5)));
        assert_eq!(silent_at(&heartbeat, 60, 100), Some(71), "one that has");
        heartbeat.stamp(100 * SECOND);
        assert_eq!(heartbeat.liveness(101 * SECOND).outstanding, Some(Duration::from_secs(1)));
        for second in 100..200 {
            heartbeat.heard();
            assert!(!heartbeat.unresponsive(second * SECOND), "its data comes, its answers wait");
        }
        assert_eq!(silent_at(&heartbeat, 200, 300), Some(210));
        assert_eq!(heartbeat.answered(999 * SECOND, 233 * SECOND), None);
    }

    #[test]
    fn the_time_in_which_this_process_stood_still_is_no_silence_of_its_peer() {
        let heartbeat = Heartbeat::new(Some(HeartbeatOptions::LINK), 0);
        heartbeat.stamp(0);
        heartbeat.answered(0, 5);
        heartbeat.heard();
        assert_eq!(silent_at(&heartbeat, 1, 5), None);
        assert!(!heartbeat.unresponsive(1000 * SECOND), "after a pause of a quarter of an hour");
        assert_eq!(silent_at(&heartbeat, 1001, 1100), Some(1005), "the silence goes on");
    }
}
