//! A channel as its users see it, and the state its connections share.

use crate::error::{CloseReason, RequestError, SendError};
use crate::group::GroupPolicy;
use crate::handler::Behaviour;
use crate::heartbeat::{Heartbeat, Liveness, now_ns};
use crate::lanes::{Entry, Lane, LaneQueue, LiveLanes, Part};
use crate::options::ChannelOptions;
use crate::peer::{PeerInfo, UnderlayInfo};
use crate::tap::Tap;
use crate::underlay::{Connection, Underlay};
use crate::waiters::Waiters;
use crate::wake::UnderlayWaker;
use parking_lot::Mutex;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use weft_wire::Message;

/// A channel. Clones are the same channel; it closes by [`close`](Self::close), by its peer or by a
/// fault, not by dropping handles.
#[derive(Clone)]
pub struct ChannelHandle(Arc<Shared>);

/// What makes several connections one channel.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) policy: GroupPolicy,
    pub(crate) state: Mutex<GroupState>,
    /// What the gate found the founder to be; later connections must be the same.
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
    peer: PeerInfo,
    sequence: AtomicI32,
    default: LaneQueue,
    high: LaneQueue,
    low: LaneQueue,
    state: Mutex<State>,
    /// Sees every message.
    pub(crate) tap: OnceLock<Arc<dyn Tap>>,
    is_judged: AtomicBool,
    is_closed: AtomicBool,
    closed: watch::Sender<Option<CloseReason>>,
    changes: watch::Sender<u32>,
    generation: watch::Sender<u32>,
}

#[derive(Default)]
struct State {
    underlays: Vec<Live>,
    last_number: u64,
    behaviour: Option<Arc<dyn Behaviour>>,
    /// Connections that ended soon after they began, since the redialer last asked.
    short_lived: u32,
    on_close: Vec<OnClose>,
}

impl Live {
    fn part(&self) -> Part {
        Part { lane: Lane::of_underlay(&self.info.kind), carries_data: self.carries_data }
    }
}

type OnClose = Box<dyn FnOnce() + Send>;

struct Live {
    info: UnderlayInfo,
    /// Known once the channel's user has given it its parts.
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
            is_closed: AtomicBool::new(false),
            closed: watch::Sender::new(None),
            changes: watch::Sender::new(0),
            generation: watch::Sender::new(0),
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

    /// The lanes that have a connection of their own.
    pub(crate) fn live_lanes(&self) -> LiveLanes {
        let state = self.state.lock();
        state.underlays.iter().map(Live::part).fold(LiveLanes::default(), LiveLanes::with)
    }

    fn wake(&self, lane: Lane) {
        let lanes = self.live_lanes();
        for live in &self.state.lock().underlays {
            if lanes.empties(live.part(), lane) {
                live.waker.wake();
            }
        }
    }

    /// Adds a connection and starts its task.
    pub(crate) fn attach(self: &Arc<Self>, connection: Connection) -> Result<(), CloseReason> {
        let socket = connection.pump.stream();
        let addresses = socket.and_then(|one| Ok((one.peer_addr()?, one.local_addr()?)));
        let (remote, local) = addresses.map_err(|error| CloseReason::io(&error))?;
        let waker = UnderlayWaker::default();
        let (info, behaviour) = {
            let mut state = self.state.lock();
            let most = self.group.as_ref().map_or(1, |group| group.policy.max_total);
            let behaviour = state.behaviour.clone();
            let Some(behaviour) = behaviour.filter(|_| !self.is_closed()) else {
                return Err(self.close_reason());
            };
            if state.underlays.len() >= most {
                return Err(CloseReason::local("the channel has as many connections as it may"));
            }
            state.last_number += 1;
            let kind = connection.kind.clone();
            let info = UnderlayInfo { number: state.last_number, kind, remote, local };
            state.underlays.push(Live {
                info: info.clone(),
                carries_data: false,
                waker: waker.clone(),
                since: Instant::now(),
            });
            (info, behaviour)
        };
        let handle = ChannelHandle(self.clone());
        let parts = behaviour.attach(&info, &waker, &handle);
        if parts.outbox.is_some() {
            let mut state = self.state.lock();
            let live = state.underlays.iter_mut().find(|live| live.info.number == info.number);
            live.into_iter().for_each(|live| live.carries_data = true);
        }
        tracing::debug!(channel = %handle, kind = %info.kind, peer = %info.remote, "connection attached");
        if let Err(error) = start(connection, parts, handle, info.clone(), waker) {
            self.detach(&info, CloseReason::io(&error));
            return Err(CloseReason::io(&error));
        }
        self.changes.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Removes a connection that has ended, and closes the channel if it cannot do without.
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
            // Another connection may have to take over lanes.
            self.state.lock().underlays.iter().for_each(|live| live.waker.wake());
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Closes the channel; only the first reason counts.
    pub(crate) fn close(&self, reason: CloseReason) {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::debug!(channel = %self.options.label, %reason, "channel closed");
        [&self.default, &self.high, &self.low].into_iter().for_each(LaneQueue::close);
        self.waiters.fail_all(&reason);
        let (behaviour, on_close, empty) = {
            let mut state = self.state.lock();
            state.underlays.iter().for_each(|live| live.waker.wake());
            let empty = state.underlays.is_empty();
            (state.behaviour.take(), std::mem::take(&mut state.on_close), empty)
        };
        if empty {
            // Otherwise the last connection does it, when it has written what it could.
            [&self.default, &self.high, &self.low].into_iter().for_each(LaneQueue::end);
        }
        self.closed.send_replace(Some(reason.clone()));
        on_close.into_iter().for_each(|call| call());
        if let Some(behaviour) = behaviour {
            behaviour.closed(&reason);
        }
    }

    /// Calls when the channel closes, or now if it is closed.
    pub(crate) fn on_close(&self, call: OnClose) {
        let mut state = self.state.lock();
        if !self.is_closed() {
            state.on_close.push(call);
            return;
        }
        drop(state);
        call();
    }

    pub(crate) fn is_judged(&self) -> bool {
        self.is_judged.load(Ordering::Acquire)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(crate) fn close_reason(&self) -> CloseReason {
        self.closed.borrow().clone().unwrap_or_else(|| CloseReason::local("closed"))
    }

    /// Types of the live connections.
    pub(crate) fn kinds(&self) -> Vec<String> {
        self.state.lock().underlays.iter().map(|live| live.info.kind.clone()).collect()
    }

    /// How many connections ended early since this was last called.
    pub(crate) fn take_short_lived(&self) -> u32 {
        std::mem::take(&mut self.state.lock().short_lived)
    }

    pub(crate) fn subscribe_changes(&self) -> watch::Receiver<u32> {
        self.changes.subscribe()
    }

    /// The channel got a connection again after it had none.
    pub(crate) fn reestablished(&self) {
        self.heartbeat.restart(now_ns());
        self.generation.send_modify(|generation| *generation += 1);
    }

    async fn queue(&self, lane: Lane, entry: Entry, deadline: Instant) -> Result<(), SendError> {
        self.check_size(&entry.message)?;
        let pushed = self.lane(lane).push(entry, deadline).await;
        pushed.map_err(|full| full.into_error(self, SendError::Timeout))?;
        self.wake(lane);
        Ok(())
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

fn start(
    connection: Connection,
    parts: crate::handler::Parts,
    handle: ChannelHandle,
    info: UnderlayInfo,
    waker: UnderlayWaker,
) -> std::io::Result<()> {
    match handle.0.options.runtime.clone() {
        None => {
            tokio::spawn(Underlay::new(connection, parts, handle, info, waker).run());
        }
        Some(runtime) => {
            let _entered = runtime.enter();
            let pump = connection.pump.rebind()?;
            let connection = Connection { pump, ..connection };
            runtime.spawn(Underlay::new(connection, parts, handle, info, waker).run());
        }
    }
    Ok(())
}

impl ChannelHandle {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Queues a message on the default lane; waits for room up to the channel's send timeout.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        self.send_on(Lane::Default, message).await
    }

    /// Queues a message on a lane; waits for room up to the channel's send timeout.
    pub async fn send_on(&self, lane: Lane, message: Message) -> Result<(), SendError> {
        self.send_timeout(lane, message, self.0.options.send_timeout).await
    }

    /// Queues a message on a lane; waits for room up to `timeout`.
    pub async fn send_timeout(
        &self,
        lane: Lane,
        message: Message,
        timeout: Duration,
    ) -> Result<(), SendError> {
        self.0.queue(lane, Entry::new(message), Instant::now() + timeout).await
    }

    /// Queues a message on the default lane if there is room now.
    pub fn try_send(&self, message: Message) -> Result<(), SendError> {
        self.try_send_on(Lane::Default, message)
    }

    /// Queues a message on a lane if there is room now.
    pub fn try_send_on(&self, lane: Lane, message: Message) -> Result<(), SendError> {
        self.0.check_size(&message)?;
        let pushed = self.0.lane(lane).try_push(Entry::new(message));
        pushed.map_err(|full| full.into_error(&self.0, SendError::Full))?;
        self.0.wake(lane);
        Ok(())
    }

    /// Sends a message and waits until it has been handed to the socket.
    pub async fn send_written(
        &self,
        lane: Lane,
        message: Message,
        timeout: Duration,
    ) -> Result<(), SendError> {
        let deadline = Instant::now() + timeout;
        let (sender, written) = oneshot::channel();
        let entry = Entry { written: Some(sender), ..Entry::new(message) };
        self.0.queue(lane, entry, deadline).await?;
        match tokio::time::timeout_at(deadline, written).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.closed_because().map_or(SendError::Lost, SendError::Closed)),
            Err(_) => Err(SendError::Timeout),
        }
    }

    /// Sends a request on the default lane and waits for its reply.
    pub async fn request(
        &self,
        message: Message,
        timeout: Duration,
    ) -> Result<Message, RequestError> {
        self.request_on(Lane::Default, message, timeout).await
    }

    /// Sends a request on a lane and waits for its reply. Dropping the future gives up; a reply
    /// that comes later goes to the handler.
    pub async fn request_on(
        &self,
        lane: Lane,
        message: Message,
        timeout: Duration,
    ) -> Result<Message, RequestError> {
        let deadline = Instant::now() + timeout;
        let (waiter, mut pending) = self.0.waiters.request();
        let entry = Entry { waiter: Some(waiter), ..Entry::new(message) };
        self.0.queue(lane, entry, deadline).await?;
        match tokio::time::timeout_at(deadline, &mut pending.reply).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => Err(RequestError::Closed(self.0.close_reason())),
            Err(_) => {
                // A reply may have come at this moment; from here on the handler gets it.
                pending.reply.close();
                pending.reply.try_recv().unwrap_or(Err(RequestError::Timeout))
            }
        }
    }

    /// Sends `reply` as the reply to `request` on the default lane.
    pub async fn reply_to(&self, request: &Message, reply: Message) -> Result<(), SendError> {
        self.send(reply.in_reply_to(request)).await
    }

    /// The peer was found to be good: from now on it may send what the options allow. To be called
    /// before the peer is told anything that makes it send more.
    pub fn judged(&self) {
        self.0.is_judged.store(true, Ordering::Release);
    }

    /// Closes the channel. What is queued is still written, for a moment.
    pub fn close(&self, reason: impl Into<Arc<str>>) {
        self.0.close(CloseReason::local(reason));
    }

    /// Waits until the channel is closed.
    pub fn closed(&self) -> impl Future<Output = CloseReason> + Send + 'static {
        let mut closed = self.0.closed.subscribe();
        async move {
            match closed.wait_for(Option::is_some).await {
                Ok(reason) => reason.clone().unwrap_or(CloseReason::Peer),
                Err(_) => CloseReason::Peer,
            }
        }
    }

    /// Why the channel is closed, if it is.
    pub fn closed_because(&self) -> Option<CloseReason> {
        self.0.is_closed().then(|| self.0.close_reason())
    }

    /// True if the channel is closed.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Lets somebody see every message from now on. False if somebody does already.
    pub fn tap(&self, tap: Arc<dyn Tap>) -> bool {
        self.0.tap.set(tap).is_ok()
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &PeerInfo {
        &self.0.peer
    }

    /// What the channel is called in logs.
    pub fn label(&self) -> &str {
        &self.0.options.label
    }

    /// Its live connections.
    pub fn underlays(&self) -> Vec<UnderlayInfo> {
        self.0.state.lock().underlays.iter().map(|live| live.info.clone()).collect()
    }

    /// Changes whenever a connection is added or removed; the value counts the changes.
    pub fn underlay_changes(&self) -> watch::Receiver<u32> {
        self.0.changes.subscribe()
    }

    /// Changes when the channel got a connection again after it had lost all.
    pub fn generations(&self) -> watch::Receiver<u32> {
        self.0.generation.subscribe()
    }

    /// How the peer answers heartbeats.
    pub fn liveness(&self) -> Liveness {
        self.0.heartbeat.liveness(now_ns())
    }

    /// True if both are the same channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Id of the group, if the channel may have several connections.
    pub fn group_id(&self) -> Option<String> {
        self.0.group.as_ref().map(|group| group.state.lock().id.clone())
    }
}

impl fmt::Display for ChannelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.options.label)
    }
}

impl fmt::Debug for ChannelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChannelHandle").field(&self.0.options.label).finish()
    }
}

/// What follows the start of a channel.
pub(crate) type OnStart = Box<dyn FnOnce(&ChannelHandle) + Send>;

/// A channel whose hello is done and that does not read or write yet. Dropped without
/// [`start`](Self::start), it is closed.
pub struct Established {
    shared: Arc<Shared>,
    connection: Option<Connection>,
    /// Called once the channel runs.
    started: Option<OnStart>,
}

impl Established {
    pub(crate) fn new(shared: Shared, connection: Connection, started: Option<OnStart>) -> Self {
        Self { shared: Arc::new(shared), connection: Some(connection), started }
    }

    /// The channel. Messages sent before the start wait in its lanes.
    pub fn handle(&self) -> ChannelHandle {
        ChannelHandle(self.shared.clone())
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &PeerInfo {
        &self.shared.peer
    }

    /// Begins to read and write.
    pub fn start(mut self, behaviour: Arc<dyn Behaviour>) -> ChannelHandle {
        self.shared.state.lock().behaviour = Some(behaviour);
        let handle = self.handle();
        if let Some(connection) = self.connection.take() {
            if let Err(reason) = self.shared.attach(connection) {
                self.shared.close(reason);
            } else if let Some(started) = self.started.take() {
                started(&handle);
            }
        }
        handle
    }
}

impl Drop for Established {
    fn drop(&mut self) {
        if self.connection.is_some() {
            self.shared.close(CloseReason::local("not accepted after the hello"));
        }
    }
}

impl fmt::Debug for Established {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Established")
            .field("label", &self.shared.options.label)
            .finish_non_exhaustive()
    }
}
