//! One SDK channel: its messages, and the circuits and listeners that live on it.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use weft_channel::{
    Behaviour, ChannelHandle, CloseReason, Handler, Lane, Parts, Reading, SendError, UnderlayInfo,
    UnderlayWaker,
};
use weft_circuit::{Carries, ConnIds, Pause};
use weft_limits::Budget;
use weft_wire::{
    Message, WireError,
    edge::{
        Data, DialSuccess, ErrorCode, FIRST_ROUTER_CONN_ID, StateClosed, StructuredError,
        UpdateToken, UpdateTokenFailure, content_type, header, update_token_success,
    },
    hello::underlay,
    payload::{self, Flags, View},
};
use weft_xgress::Role;

use super::{
    CONNECTION_BUDGET, Dialed, EdgeBinding,
    dial::GIVEN_UP,
    ids::{Conn, Conns},
    nudge::{Nudge, meaningless},
};
use crate::{
    forwarder::{ConnOwner, Outlet, SdkOutbox},
    seam::{ApiSession, Refusal},
};

/// Most requests of one SDK in work at the same time; more are refused.
const MAX_REQUESTS: usize = 1024;
/// Most bytes of these requests. A token, a key and the application data take a few KiB.
const MAX_REQUEST_BYTES: usize = 8 << 20;
/// Most bytes of requests that are read before the session of an SDK is judged; the rest is read
/// later.
const EARLY_BYTES: usize = 256 << 10;
/// Most dials of one host that are remembered because the host may accept them after they failed.
const MAX_GIVEN_UP: usize = 1024;
/// The interval of messages to an SDK that is not read, so that it does not take the connection for
/// dead (docs/protocol/sdk.md 11.4).
const PAUSED_KEEPALIVE: Duration = Duration::from_secs(5);

/// The lane of all messages about a listener: answers to binds, dials, inspections, closes. An SDK
/// knows a listener only after the answer to its bind.
pub(super) const HOSTING: Lane = Lane::High;

/// Bytes that may wait for all circuits of one SDK before it is no longer read.
const BACKLOG_BUDGET: u64 = 16 << 20;

/// The reason for closing a channel that has other connections left.
const NO_CARRIER: &str = "the connection that carries data is gone";

/// The bytes that were read before the session was judged.
enum Early {
    /// The number of bytes so far.
    Bytes(usize),
    /// More than [`EARLY_BYTES`]: the rest waits in the connections.
    Full,
    /// The session is judged.
    Over,
}

/// One SDK channel.
pub(crate) struct SdkConnection {
    pub(super) binding: Arc<EdgeBinding>,
    pub(super) channel: ChannelHandle,
    /// The options of the SDK's listener for circuits that the SDK dials.
    pub(super) dialed: Arc<Dialed>,
    /// The number of the channel within the binding.
    number: u64,
    /// The budget of data that waits for circuits without room.
    pub(super) backlog: Budget,
    outlet: OnceLock<Arc<Outlet>>,
    session: watch::Sender<Option<Arc<ApiSession>>>,
    pub(super) conns: Mutex<Conns>,
    /// The pause in reading while circuits have no room for the SDK's data.
    pub(super) pause: Pause,
    pub(super) ids: ConnIds,
    early: Mutex<Early>,
    requests: Arc<Semaphore>,
    request_bytes: Arc<Semaphore>,
    /// Counts written messages, for native SDKs.
    nudge: Option<Arc<Nudge>>,
    pub(super) this: Weak<Self>,
}

impl SdkConnection {
    pub(super) fn new(
        binding: Arc<EdgeBinding>,
        channel: ChannelHandle,
        dialed: Arc<Dialed>,
        number: u64,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            backlog: binding.budget.child(BACKLOG_BUDGET),
            binding,
            dialed,
            number,
            outlet: OnceLock::new(),
            session: watch::Sender::new(None),
            conns: Mutex::default(),
            pause: Pause::default(),
            ids: ConnIds::new(FIRST_ROUTER_CONN_ID..=u32::MAX),
            early: Mutex::new(Early::Bytes(0)),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            request_bytes: Arc::new(Semaphore::new(MAX_REQUEST_BYTES)),
            nudge: Nudge::of(channel.peer()),
            channel,
            this: this.clone(),
        })
    }

    /// Judges the session in the background; closes the channel if the session is refused.
    pub(super) fn authenticate(self: &Arc<Self>, token: Bytes) {
        let this = Arc::clone(self);
        self.binding.options.control_runtime.spawn(async move {
            let certificates = this.channel.peer().certificates.iter();
            let certificates = certificates.map(|der| Bytes::copy_from_slice(der)).collect();
            let judged = tokio::select! {
                judged = this.binding.access.authenticate(token, certificates) => judged,
                _ = this.channel.closed() => return,
            };
            match judged {
                Ok(session) => this.is_of(session),
                Err(refusal) => {
                    let measures = &this.binding.forwarder.measures().edge;
                    measures.refused.one();
                    measures.bad_sessions.one();
                    tracing::info!(peer = %this.channel.peer().remote, %refusal, "SDK refused");
                    this.channel.close(refusal.message);
                }
            }
        });
    }

    /// The session was found good.
    fn is_of(&self, session: Arc<ApiSession>) {
        self.channel.judged();
        self.binding.forwarder.measures().edge.let_in.one();
        if let Early::Full = std::mem::replace(&mut *self.early.lock(), Early::Over) {
            self.backlog(false);
        }
        // The channel is counted before its session can end.
        self.binding.count(|live| live.is_of(self.number, &session), &session);
        self.session.send_replace(Some(Arc::clone(&session)));
        // An event that ends the session, or the channel, may have come before the session was
        // noted here.
        if !self.binding.access.stands(&session) {
            self.channel.close("the API session ended");
        }
        if self.channel.is_closed() {
            self.is_of_none();
        }
    }

    /// The channel is over: takes it out of the counts. The call that takes the session out does
    /// so.
    fn is_of_none(&self) {
        if let Some(session) = self.session.send_replace(None) {
            self.binding.forwarder.measures().edge.ended.one();
            self.binding.count(|live| live.was_of(self.number, &session), &session);
        }
    }

    /// The session, once judged.
    pub(super) fn session(&self) -> Option<Arc<ApiSession>> {
        self.session.borrow().clone()
    }

    /// Waits for the session to be judged; `None` if the channel closed.
    pub(super) async fn judged_session(&self) -> Option<Arc<ApiSession>> {
        let mut session = self.session.subscribe();
        tokio::select! {
            known = session.wait_for(Option::is_some) => known.ok()?.clone(),
            _ = self.channel.closed() => None,
        }
    }

    pub(super) fn close(&self, reason: &str) {
        self.channel.close(reason);
    }

    /// The outlet for data to the SDK; there is one from the first connection on.
    pub(super) fn outlet(&self) -> Option<Arc<Outlet>> {
        self.outlet.get().cloned()
    }

    /// How long ends of directions wait for a close, for native SDKs before 0.36.0.
    pub(super) fn fin_hold(&self) -> Option<Duration> {
        let old = self.nudge.as_ref().is_some_and(|nudge| nudge.is_old());
        old.then_some(self.binding.options.fin_hold)
    }

    /// A message that the SDK accepts and ignores.
    fn meaningless(&self) -> Message {
        self.nudge.as_ref().map_or_else(meaningless, |nudge| nudge.message())
    }

    /// Counts a message that is about to be written to a native SDK.
    pub(super) fn count_written(&self) {
        if let Some(nudge) = &self.nudge {
            nudge.wrote(1, Instant::now());
        }
    }

    /// Queues an answer or a notice about a connection for the SDK, and waits for room. False if it
    /// cannot be sent.
    pub(super) async fn send(&self, message: Message) -> bool {
        self.send_on(Lane::Default, message).await
    }

    /// Queues a message about a listener for the SDK, and waits for room. Such messages share a lane
    /// with the dials and inspections of the listener, so that none of these overtakes the answer to
    /// the bind.
    pub(super) async fn send_hosting(&self, message: Message) -> bool {
        self.send_on(HOSTING, message).await
    }

    /// Queues a message about a listener without waiting; if there is no room, a task waits for it.
    pub(super) fn tell_hosting(&self, message: Message) {
        self.count_written();
        let sent = self.channel.try_send_on(HOSTING, message.clone());
        if matches!(sent, Err(SendError::Full))
            && let Some(this) = self.this.upgrade()
        {
            let waiting = async move { this.send_hosting(message).await };
            self.binding.options.control_runtime.spawn(waiting);
        }
    }

    async fn send_on(&self, lane: Lane, message: Message) -> bool {
        self.count_written();
        let sent = self.channel.send_on(lane, message).await;
        if let Err(problem) = &sent {
            tracing::debug!(channel = %self.channel, %problem, "a message for an SDK was not sent");
        }
        sent.is_ok()
    }

    /// Answers `request` with a refusal.
    pub(super) async fn refuse(&self, request: &Message, conn_id: u32, refusal: &Refusal) {
        self.send(closed_message(conn_id, refusal).in_reply_to(request)).await;
    }

    /// Takes a data message.
    fn on_data(&self, message: &Message) {
        let data = match Data::from_message(message) {
            Ok(data) => data,
            Err(problem) => return self.malformed(&problem),
        };
        let conn_id = data.conn_id;
        let end = match self.conns.lock().by_id.get(&conn_id).map(|entry| &entry.what) {
            Some(Conn::Local(end)) => Some(Arc::clone(end)),
            Some(_) => return,
            None => None,
        };
        match end {
            Some(end) => end.sdk_data(data),
            // Dropped if there is no room: the next data message causes another close.
            None => {
                let closed = StateClosed::new(conn_id, "the connection is not known here");
                let _ = self.channel.try_send(closed.to_message());
            }
        }
    }

    /// Takes a message of a circuit with flow control at the SDK.
    fn on_circuit(&self, message: Message) {
        let circuit = match View::of(&message) {
            Ok(view) => {
                let hosts = view.flags.has(Flags::ORIGINATOR);
                let role = if hosts { Role::Terminator } else { Role::Initiator };
                let mut conns = self.conns.lock();
                let circuit = conns.circuits(role).get(view.circuit_id).cloned();
                // Control messages do not say which end they come from.
                circuit.or_else(|| conns.circuits(Role::Terminator).get(view.circuit_id).cloned())
            }
            Err(problem) => return self.malformed(&problem),
        };
        if let Some(circuit) = circuit {
            circuit.forward(message);
        }
    }

    /// The SDK closes a circuit with flow control of its own.
    fn on_circuit_close(&self, message: &Message) {
        let Ok(id) = message.body_str() else { return };
        let ends = {
            let mut conns = self.conns.lock();
            [Role::Initiator, Role::Terminator].map(|role| conns.circuits(role).get(id).cloned())
        };
        let this: Weak<dyn ConnOwner> = self.this.clone();
        for circuit in ends.into_iter().flatten() {
            if circuit.role() == Role::Terminator && circuit.circuit().expected_close(&this) {
                continue;
            }
            self.release(circuit.conn_id());
            circuit.ended_by_sdk();
            // The answer is the same as after every unroute; SDKs ignore it.
            let closed = StateClosed::new(circuit.conn_id(), "xgress unrouted");
            let _ = self.channel.try_send(closed.to_message());
        }
    }

    /// The SDK closes a connection or a listener.
    fn on_closed(&self, message: &Message) {
        let Some(id) = message.headers.get_u32(header::CONN_ID) else { return };
        match self.release(id) {
            Some(Conn::Pending(cancel)) => cancel.cancel(),
            Some(Conn::Local(end)) => end.sdk_closed(),
            Some(Conn::Sdk(circuit)) => circuit.ended_by_sdk(),
            Some(Conn::Host(hosted)) => self.binding.withdraw(&hosted),
            None => {}
        }
    }

    /// Remembers a failed dial that a host with flow control of its own may still accept.
    pub(super) fn note_given_up(&self, conn_id: u32, circuit: &Arc<str>) {
        let mut conns = self.conns.lock();
        if conns.given_up.len() >= MAX_GIVEN_UP {
            // Most of these dials are never accepted.
            conns.given_up.clear();
        }
        conns.given_up.insert(conn_id, Arc::clone(circuit));
    }

    /// A host accepts a dial that has failed: its connection is closed.
    fn on_late_dial_success(&self, message: &Message) {
        if let Ok(late) = DialSuccess::from_message(message) {
            let mut conns = self.conns.lock();
            if let Some(id) = conns.given_up.remove(&late.new_conn_id)
                && let Some(circuit) = conns.circuits(Role::Terminator).get(&id)
            {
                // Another attempt at the circuit may have led to the same host.
                circuit.circuit().expect_close(self.this.clone());
            }
            drop(conns);
            let closed = StateClosed::new(late.new_conn_id, GIVEN_UP);
            let _ = self.channel.try_send(closed.to_message());
        }
    }

    /// Handles a request in a task of its own.
    fn request(self: &Arc<Self>, message: Message) {
        let Some(room) = self.room_for(&message) else {
            let id = message.headers.get_u32(header::CONN_ID).unwrap_or(0);
            let closed = StateClosed::new(id, "too many requests at once on this channel");
            let _ = self.channel.try_send(closed.to_message().in_reply_to(&message));
            return;
        };
        self.note_early(message.wire_len());
        let this = Arc::clone(self);
        // Connection ids are reserved here, in the order of arrival, so that later messages find
        // them.
        let reserved = match message.content_type {
            content_type::CONNECT | content_type::BIND => {
                message.headers.get_u32(header::CONN_ID).map(|id| self.reserve(id))
            }
            _ => None,
        };
        // A listener is taken down here, too, because the next message may bind its connection id
        // again.
        let unbound = match message.content_type {
            content_type::UNBIND => self.unbind(&message),
            _ => None,
        };
        self.binding.options.control_runtime.spawn(async move {
            match message.content_type {
                content_type::CONNECT => this.connect(&message, reserved).await,
                content_type::BIND => this.bind(&message, reserved).await,
                content_type::UPDATE_TOKEN => this.update_token(&message).await,
                _ => {
                    if let Some(reply) = unbound {
                        this.send_hosting(reply).await;
                    }
                }
            }
            drop(room);
        });
    }

    /// Counts a request that came before the session is judged, when only [`EARLY_BYTES`] are read.
    fn note_early(&self, bytes: usize) {
        let mut early = self.early.lock();
        let Early::Bytes(before) = *early else { return };
        let now = before.saturating_add(bytes);
        *early = if now > EARLY_BYTES { Early::Full } else { Early::Bytes(now) };
        if now > EARLY_BYTES {
            self.backlog(true);
        }
    }

    /// Reserves room for a request among those in work.
    fn room_for(&self, message: &Message) -> Option<[OwnedSemaphorePermit; 2]> {
        let bytes = u32::try_from(message.wire_len()).ok()?;
        let bytes = Arc::clone(&self.request_bytes).try_acquire_many_owned(bytes).ok()?;
        let one = Arc::clone(&self.requests).try_acquire_owned().ok()?;
        Some([one, bytes])
    }

    async fn update_token(&self, message: &Message) {
        let Ok(update) = UpdateToken::from_message(message) else { return };
        let Some(session) = self.judged_session().await else { return };
        match self.binding.access.renew(&session, update.token) {
            Ok(renewed) => {
                // All channels of the API session share the new token.
                let all = self.binding.connections.lock().of_session(&renewed.id);
                for other in all {
                    other.session.send_if_modified(|known| {
                        let same = known.as_ref().is_some_and(|known| known.id == renewed.id);
                        if same {
                            *known = Some(Arc::clone(&renewed));
                        }
                        same
                    });
                }
                self.send(update_token_success().in_reply_to(message)).await;
            }
            Err(refusal) => {
                let failure = UpdateTokenFailure { error: structured(&refusal) };
                self.send(failure.to_message().in_reply_to(message)).await;
                self.channel.close(refusal.message);
            }
        }
    }

    /// Closes the channel after data that does not follow its encoding: a stream on it would have a
    /// hole.
    fn malformed(&self, problem: &WireError) {
        let peer = self.channel.peer().remote;
        tracing::info!(
            %peer, channel = %self.channel, %problem,
            "an SDK is disconnected: it sent a malformed message"
        );
        self.channel.close(format!("malformed message: {problem}"));
    }

    /// Sends a message at intervals while the SDK is not read.
    fn keep_alive_while_paused(&self) {
        let Some(this) = self.this.upgrade() else { return };
        self.binding.options.control_runtime.spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(PAUSED_KEEPALIVE) => {}
                    _ = this.channel.closed() => return,
                }
                if !this.pause.keep_alive_goes_on() {
                    return;
                }
                let _ = this.channel.try_send(this.meaningless());
            }
        });
    }
}

impl ConnOwner for SdkConnection {
    fn conn_closed(&self, conn_id: u32) {
        self.release(conn_id);
    }

    fn backlog(&self, over: bool) {
        if over {
            if self.pause.went_over() {
                self.keep_alive_while_paused();
            }
        } else {
            self.pause.came_back();
        }
    }
}

/// The events that `start` connects to the channel.
impl Behaviour for SdkConnection {
    fn attach(&self, info: &UnderlayInfo, waker: &UnderlayWaker, _: &ChannelHandle) -> Parts {
        let Some(this) = self.this.upgrade() else {
            return Parts { handler: Box::new(Deaf), outbox: None };
        };
        // Data leaves by the first data connection; the others carry messages of the lanes.
        let mut outbox = None;
        if info.kind != underlay::EDGE_CONTROL && self.outlet.get().is_none() {
            let budget = self.binding.budget.child(CONNECTION_BUDGET);
            let outlet = Outlet::new(budget);
            let data = outlet.open(Carries::Payloads, waker.clone());
            let serving = SdkOutbox::new(data, self.nudge.clone());
            outbox = Some(Box::new(serving) as Box<dyn weft_channel::Outbox>);
            if let Some(nudge) = &self.nudge {
                let runtime = &self.binding.options.control_runtime;
                let (nudge, channel) = (|| Arc::clone(nudge), || self.channel.clone());
                runtime.spawn(nudge().run(channel()));
                if !nudge().is_old() {
                    runtime.spawn(nudge().keep_pace(channel(), waker.clone()));
                    runtime.spawn(nudge().keep_turns(channel(), waker.clone()));
                }
            }
            let _ = self.outlet.set(outlet);
        }
        let carries_data = outbox.is_some();
        if self.outlet.get().is_some_and(|outlet| outlet.is_closed()) {
            // The connection that carried data has closed, and no other one can take over.
            self.channel.close(NO_CARRIER);
        }
        let handler = EdgeHandler { connection: this, waker: waker.clone(), carries_data };
        Parts { handler: Box::new(handler), outbox }
    }

    fn closed(&self, reason: &CloseReason) {
        tracing::debug!(channel = %self.channel, %reason, "an SDK is gone");
        let entries: Vec<Conn> = {
            let mut conns = self.conns.lock();
            conns.closed = true;
            conns.circuits = Default::default();
            conns.by_id.drain().map(|(_, entry)| entry.what).collect()
        };
        for conn in entries {
            match conn {
                Conn::Pending(cancel) => cancel.cancel(),
                Conn::Local(end) => end.abort(),
                Conn::Sdk(circuit) => circuit.ended_by_sdk(),
                Conn::Host(hosted) => self.binding.withdraw(&hosted),
            }
        }
        if let Some(outlet) = self.outlet.get() {
            outlet.close();
        }
        self.is_of_none();
        self.binding.connections.lock().remove(self.number);
    }
}

/// Takes the messages of one connection of the channel.
struct EdgeHandler {
    connection: Arc<SdkConnection>,
    waker: UnderlayWaker,
    /// True if data for the SDK leaves by this connection.
    carries_data: bool,
}

impl Handler for EdgeHandler {
    fn on_message(&mut self, message: Message, _: &ChannelHandle) -> Reading {
        let connection = &self.connection;
        match message.content_type {
            payload::content_type::PAYLOAD
            | payload::content_type::ACK
            | payload::content_type::CONTROL => connection.on_circuit(message),
            content_type::DATA => connection.on_data(&message),
            payload::content_type::CLOSE => connection.on_circuit_close(&message),
            content_type::STATE_CLOSED => connection.on_closed(&message),
            content_type::DIAL_SUCCESS => connection.on_late_dial_success(&message),
            content_type::CONNECT
            | content_type::BIND
            | content_type::UNBIND
            | content_type::UPDATE_TOKEN => connection.request(message),
            // These messages are handled at once, because the last of several counts.
            content_type::UPDATE_BIND => connection.update_bind(&message),
            content_type::HEALTH_EVENT => connection.health_event(&message),
            other => tracing::trace!(content_type = other, "ignored a message of an SDK"),
        }
        connection.pause.flow(&self.waker)
    }

    fn on_resume(&mut self, _: &ChannelHandle) -> Reading {
        self.connection.pause.flow(&self.waker)
    }

    fn on_detach(&mut self, _: &CloseReason) {
        let (connection, channel) = (&self.connection, &self.connection.channel);
        if !self.carries_data {
            return;
        }
        // Messages that the connection had taken and not written are lost, so that no circuit can
        // go on over another connection. A connection that joins at this moment is either seen
        // here, or sees the closed outlet.
        if let Some(outlet) = connection.outlet.get() {
            outlet.close();
        }
        if channel.underlays().len() > 1 {
            channel.close(NO_CARRIER);
        }
    }
}

/// A handler that ignores messages, for a channel that has closed already.
struct Deaf;

impl Handler for Deaf {
    fn on_message(&mut self, _: Message, _: &ChannelHandle) -> Reading {
        Reading::Continue
    }
}

impl std::fmt::Debug for SdkConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SdkConnection").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// A refusal in the form that SDKs read.
pub(super) fn structured(refusal: &Refusal) -> StructuredError {
    StructuredError {
        message: refusal.message.clone(),
        code: ErrorCode(refusal.code),
        retry_hint: refusal.hint,
        failing_posture_check_ids: refusal.failing_checks.clone(),
    }
}

/// The close with the text of a refusal.
pub(super) fn closed_message(conn_id: u32, refusal: &Refusal) -> Message {
    // C SDKs read an empty text as "log in again".
    let reason = if refusal.message.is_empty() { "refused" } else { &refusal.message };
    StateClosed {
        conn_id,
        reason: reason.to_owned(),
        error: (refusal.code != 0).then(|| structured(refusal)),
        circuit_id: refusal.circuit.clone(),
    }
    .to_message()
}
