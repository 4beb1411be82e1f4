//! The state that the connections of a channel share.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use weft_wire::Message;

use crate::connection::Connection;
use crate::error::{CloseReason, SendError};
use crate::group::GroupPolicy;
use crate::heartbeat::{Heartbeat, now_ns};
use crate::lanes::{Full, Lane, LaneQueue, LiveLanes, Part, Permits, QueuedMessage};
use crate::options::ChannelOptions;
use crate::peer::{PeerInfo, UnderlayInfo};
use crate::tap::Tap;
use crate::waiters::Waiters;
use crate::wake::UnderlayWaker;

/// Runs the connections of a channel, and is told of the channel's end.
pub(crate) trait Runner: Send + Sync {
    /// Starts the task of a connection that was added to the channel.
    fn run(
        &self,
        channel: &Arc<Shared>,
        connection: Connection,
        info: &UnderlayInfo,
        waker: UnderlayWaker,
    ) -> io::Result<()>;

    /// Called once, when the channel has closed.
    fn closed(&self, reason: &CloseReason);
}

/// The data by which connections belong to one channel.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) policy: GroupPolicy,
    pub(crate) state: Mutex<GroupState>,
    /// The identity of the first connection, as the gate found it; later connections must have the
    /// same.
    pub(crate) identity: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(crate) struct GroupState {
    pub(crate) id: String,
    pub(crate) secret: Vec<u8>,
}

/// State shared by the connections of a channel.
pub(crate) struct Shared {
    pub(crate) options: ChannelOptions,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) group: Option<Group>,
    pub(crate) peer: PeerInfo,
    sequence: AtomicI32,
    default: LaneQueue,
    high: LaneQueue,
    low: LaneQueue,
    state: Mutex<State>,
    /// The tap, which sees every message.
    pub(crate) tap: OnceLock<Arc<dyn Tap>>,
    is_judged: AtomicBool,
    /// Why the channel is closed. Set before anything else shows that it is, so that whoever meets a closed
    /// channel learns the reason.
    reason: OnceLock<CloseReason>,
    closed: watch::Sender<Option<CloseReason>>,
    changes: watch::Sender<u32>,
}

#[derive(Default)]
struct State {
    underlays: Vec<OpenUnderlay>,
    last_number: u64,
    /// The runner, known once the channel's user has started it.
    runner: Option<Arc<dyn Runner>>,
    /// The number of connections that closed too soon, since the redialer last asked.
    short_lived: u32,
    on_close: Vec<OnClose>,
}

impl State {
    fn lanes(&self) -> LiveLanes {
        self.underlays.iter().map(OpenUnderlay::part).fold(LiveLanes::default(), LiveLanes::with)
    }
}

impl OpenUnderlay {
    fn part(&self) -> Part {
        Part { lane: self.lane, carries_data: self.carries_data }
    }
}

type OnClose = Box<dyn FnOnce() + Send>;

struct OpenUnderlay {
    info: UnderlayInfo,
    /// The lane that the connection writes.
    lane: Lane,
    /// True if the connection carries data; known once the channel's user has supplied its parts.
    carries_data: bool,
    waker: UnderlayWaker,
    since: Instant,
}

impl Shared {
    pub(crate) fn new(options: ChannelOptions, peer: PeerInfo, group: Option<Group>) -> Self {
        Self {
            heartbeat: Heartbeat::new(options.heartbeat, now_ns()),
            waiters: Arc::new(Waiters::new(options.max_requests)),
            group,
            peer,
            sequence: AtomicI32::new(1),
            default: LaneQueue::new(options.lanes),
            high: LaneQueue::new(options.lanes),
            low: LaneQueue::new(options.lanes),
            state: Mutex::default(),
            tap: OnceLock::new(),
            is_judged: AtomicBool::new(options.unjudged.is_none()),
            reason: OnceLock::new(),
            closed: watch::Sender::new(None),
            changes: watch::Sender::new(0),
            options,
        }
    }

    pub(crate) fn next_sequence(&self) -> i32 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn lane(&self, lane: Lane) -> &LaneQueue {
        match lane {
            Lane::Default => &self.default,
            Lane::High => &self.high,
            Lane::Low => &self.low,
        }
    }

    /// The lanes that a connection empties now. Once the channel is closed, the oldest connection
    /// empties all of them: of a younger one the peer may not know yet that it belongs to the
    /// channel, and would miss what was written last, for example why the channel closes.
    pub(crate) fn lanes_of(&self, number: u64, part: Part) -> impl Iterator<Item = Lane> + use<> {
        let is_closed = self.is_closed();
        let state = self.state.lock();
        let live = state.lanes();
        let is_oldest = state.underlays.first().is_some_and(|live| live.info.number == number);
        let empties = move |lane: &Lane| {
            if is_closed { is_oldest } else { live.empties(part, *lane) }
        };
        Lane::ALL.into_iter().filter(empties)
    }

    fn wake(&self, lane: Lane) {
        let state = self.state.lock();
        let lanes = state.lanes();
        for live in &state.underlays {
            if lanes.empties(live.part(), lane) {
                live.waker.wake();
            }
        }
    }

    /// Sets the runner of its connections. The runner of a channel that has closed hears that now.
    pub(crate) fn set_runner(&self, runner: Arc<dyn Runner>) {
        let mut state = self.state.lock();
        if !self.is_closed() {
            state.runner = Some(runner);
            return;
        }
        drop(state);
        runner.closed(&self.close_reason());
    }

    /// Adds a connection and starts its task.
    pub(crate) fn attach(self: &Arc<Self>, connection: Connection) -> Result<(), CloseReason> {
        let addresses = connection.pump.addresses();
        let (remote, local) = addresses.map_err(|error| CloseReason::io(&error))?;
        let waker = UnderlayWaker::default();
        let (info, runner) = {
            let mut state = self.state.lock();
            let most = self.group.as_ref().map_or(1, |group| group.policy.max_total);
            let runner = state.runner.clone();
            let Some(runner) = runner.filter(|_| !self.is_closed()) else {
                return Err(self.close_reason());
            };
            if state.underlays.len() >= most {
                return Err(CloseReason::local("the channel has as many connections as it may"));
            }
            state.last_number += 1;
            // A single connection carries everything, whatever type its hello asked for.
            let kind = self.group.as_ref().map(|_| connection.kind.clone()).unwrap_or_default();
            let info = UnderlayInfo { number: state.last_number, kind, remote, local };
            state.underlays.push(OpenUnderlay {
                lane: Lane::of_underlay(&info.kind),
                info: info.clone(),
                carries_data: false,
                waker: waker.clone(),
                since: Instant::now(),
            });
            (info, runner)
        };
        if let Err(error) = runner.run(self, connection, &info, waker) {
            self.detach(&info, CloseReason::io(&error));
            return Err(CloseReason::io(&error));
        }
        self.changes.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Notes that a connection has an outbox of its own besides the lanes.
    pub(crate) fn carries_data(&self, info: &UnderlayInfo) {
        let mut state = self.state.lock();
        let live = state.underlays.iter_mut().find(|live| live.info.number == info.number);
        live.into_iter().for_each(|live| live.carries_data = true);
    }

    /// Removes a connection that has closed, and closes the channel if it needs that connection.
    pub(crate) fn detach(&self, info: &UnderlayInfo, reason: CloseReason) {
        let (verdict, empty) = {
            let mut state = self.state.lock();
            let Some(at) = state.underlays.iter().position(|l| l.info.number == info.number) else {
                return;
            };
            let live = state.underlays.remove(at);
            let stable = self.group.as_ref().and_then(|group| group.policy.redial?.min_stable);
            if stable.is_some_and(|stable| live.since.elapsed() < stable) {
                state.short_lived += 1;
            }
            let kinds: Vec<&str> = state.underlays.iter().map(|l| l.info.kind.as_str()).collect();
            let verdict = match &self.group {
                None => Some(reason.clone()),
                Some(group) => group.policy.violated(&kinds).map(|missing| {
                    if kinds.is_empty() {
                        reason.clone()
                    } else {
                        CloseReason::TooFew(missing.into())
                    }
                }),
            };
            (verdict, kinds.is_empty())
        };
        let channel = &self.options.label;
        if !self.is_closed() && reason.is_fault() {
            tracing::warn!(%channel, kind = %info.kind, peer = %info.remote, %reason, "connection closed");
        } else {
            tracing::debug!(%channel, kind = %info.kind, peer = %info.remote, %reason, "connection closed");
        }
        if let Some(reason) = verdict {
            self.close(reason);
        }
        if empty && self.is_closed() {
            [&self.default, &self.high, &self.low].into_iter().for_each(LaneQueue::end);
        } else {
            // Another connection may have to empty its lanes.
            self.state.lock().underlays.iter().for_each(|live| live.waker.wake());
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Closes the channel; only the first reason counts.
    pub(crate) fn close(&self, reason: CloseReason) {
        if self.reason.set(reason.clone()).is_err() {
            return;
        }
        tracing::debug!(channel = %self.options.label, %reason, "channel closed");
        [&self.default, &self.high, &self.low].into_iter().for_each(LaneQueue::close);
        self.waiters.fail_all(&reason);
        let (runner, on_close, empty) = {
            let mut state = self.state.lock();
            state.underlays.iter().for_each(|live| live.waker.wake());
            let empty = state.underlays.is_empty();
            (state.runner.take(), std::mem::take(&mut state.on_close), empty)
        };
        if empty {
            // With connections left, the last one ends the lanes after it has written its messages.
            [&self.default, &self.high, &self.low].into_iter().for_each(LaneQueue::end);
        }
        self.closed.send_replace(Some(reason.clone()));
        on_close.into_iter().for_each(|call| call());
        if let Some(runner) = runner {
            runner.closed(&reason);
        }
    }

    /// Calls `call` when the channel closes, or now if it is closed.
    pub(crate) fn on_close(&self, call: OnClose) {
        let mut state = self.state.lock();
        if !self.is_closed() {
            state.on_close.push(call);
            return;
        }
        drop(state);
        call();
    }

    /// Notes that the peer was accepted.
    pub(crate) fn judged(&self) {
        self.is_judged.store(true, Ordering::Release);
    }

    pub(crate) fn is_judged(&self) -> bool {
        self.is_judged.load(Ordering::Acquire)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.reason.get().is_some()
    }

    pub(crate) fn close_reason(&self) -> CloseReason {
        self.reason.get().cloned().unwrap_or_else(|| CloseReason::local("closed"))
    }

    /// The reason of the close, once the channel is closed.
    pub(crate) fn subscribe_closed(&self) -> watch::Receiver<Option<CloseReason>> {
        self.closed.subscribe()
    }

    /// The live connections.
    pub(crate) fn underlays(&self) -> Vec<UnderlayInfo> {
        self.state.lock().underlays.iter().map(|live| live.info.clone()).collect()
    }

    /// The types of the live connections.
    pub(crate) fn kinds(&self) -> Vec<String> {
        self.state.lock().underlays.iter().map(|live| live.info.kind.clone()).collect()
    }

    /// The number of connections that closed too soon since the last call.
    pub(crate) fn take_short_lived(&self) -> u32 {
        std::mem::take(&mut self.state.lock().short_lived)
    }

    pub(crate) fn subscribe_changes(&self) -> watch::Receiver<u32> {
        self.changes.subscribe()
    }

    /// Notes that the channel got a connection again after it had none.
    pub(crate) fn reestablished(&self) {
        self.heartbeat.restart(now_ns());
    }

    /// Queues a message when there is room, and wakes the connection that writes it.
    pub(crate) async fn queue(
        &self,
        lane: Lane,
        entry: QueuedMessage,
        deadline: Instant,
    ) -> Result<(), SendError> {
        self.check_size(&entry.message)?;
        let pushed = self.lane(lane).push(entry, deadline).await;
        pushed.map_err(|full| self.unsent(full, SendError::Timeout))?;
        self.wake(lane);
        Ok(())
    }

    /// Queues a message if there is room now, and wakes the connection that writes it.
    pub(crate) fn try_queue(&self, lane: Lane, entry: QueuedMessage) -> Result<(), SendError> {
        self.check_size(&entry.message)?;
        let pushed = self.lane(lane).try_push(entry);
        pushed.map_err(|full| self.unsent(full, SendError::Full))?;
        self.wake(lane);
        Ok(())
    }

    /// Waits for the room of a message of this length.
    pub(crate) async fn room(
        &self,
        lane: Lane,
        length: usize,
        deadline: Instant,
    ) -> Result<Permits, SendError> {
        let room = self.lane(lane).room(length, deadline).await;
        room.map_err(|full| self.unsent(full, SendError::Timeout))
    }

    /// Queues a message that has its room, and wakes the connection that writes it.
    pub(crate) fn queue_within(
        &self,
        lane: Lane,
        message: Message,
        room: Permits,
    ) -> Result<(), SendError> {
        self.check_size(&message)?;
        let taken = self
            .lane(lane)
            .take_in(QueuedMessage { room: Some(room), ..QueuedMessage::new(message) });
        taken.map_err(|full| self.unsent(full, SendError::Full))?;
        self.wake(lane);
        Ok(())
    }

    fn unsent(&self, full: Full, no_room: SendError) -> SendError {
        match full {
            Full::NoRoom => no_room,
            Full::Closed => SendError::Closed(self.close_reason()),
        }
    }

    fn check_size(&self, message: &Message) -> Result<(), SendError> {
        let limits = self.options.sends;
        let body = limits.body_of(message.content_type);
        for (length, limit) in
            [(message.headers.wire_len(), limits.headers), (message.body.len(), body)]
        {
            let limit = limit as usize;
            if length > limit {
                return Err(SendError::TooLarge { length, limit });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("label", &self.options.label).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_meets_a_closed_channel_learns_why() {
        let anywhere = ([127, 0, 0, 1], 1).into();
        for _ in 0..2000 {
            let peer = PeerInfo {
                certificates: Vec::new(),
                remote: anywhere,
                local: anywhere,
                id: None,
                headers: weft_wire::Headers::new(),
                dialed: true,
            };
            let channel = Arc::new(Shared::new(ChannelOptions::edge("test"), peer, None));
            let closing = Arc::clone(&channel);
            let closes = std::thread::spawn(move || closing.close(CloseReason::Peer));
            let refused = loop {
                let entry = QueuedMessage::new(Message::new(1, ""));
                match channel.try_queue(Lane::Default, entry) {
                    Err(SendError::Closed(reason)) => break reason,
                    Ok(()) | Err(_) => drop(channel.lane(Lane::Default).pop()),
                }
            };
            assert!(matches!(refused, CloseReason::Peer), "{refused:?}");
            closes.join().unwrap();
        }
    }
}
