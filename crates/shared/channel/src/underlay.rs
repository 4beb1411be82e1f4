//! The task of one connection: read a bounded amount, write a bounded amount, in turn.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::io::Interest;
use tokio::runtime;
use tokio::time::{Instant, Sleep};
use weft_wire::hello::header;
use weft_wire::{Message, Outcome, content_type, frame, payload};

use crate::batch::{BATCH_BYTES, Batch, Outbox};
use crate::connection::Connection;
use crate::error::CloseReason;
use crate::frame_memory::Partial;
use crate::handle::ChannelHandle;
use crate::handler::{ConnectionParts, Handler, Reading};
use crate::heartbeat::now_ns;
use crate::lane_outbox::LaneOutbox;
use crate::lanes::{Lane, Part};
use crate::listener::ConnectionSlot;
use crate::peer::UnderlayInfo;
use crate::pump::Received;
use crate::shared::Shared;
use crate::socket::{PEER_TIMEOUT, set_peer_timeout};
use crate::threads::Berth;
use crate::transport::Transport;
use crate::wake::UnderlayWaker;

/// Most bytes that are read from the socket in one turn. Routers in a row work at the same time if each passes on what
/// it has before it reads more: a turn of 256 KiB leaves the next router without work meanwhile.
const READ_PER_TURN: usize = 64 * 1024;
/// The time for writing queued messages after this side has closed the channel.
const LINGER: Duration = Duration::from_secs(1);

/// A connection at work.
pub(crate) struct Underlay {
    pump: Transport,
    decoder: frame::Decoder,
    is_judged: bool,
    /// The bytes that the decoder holds.
    partial: Option<Partial>,
    batch: Batch,
    /// The channel's lanes, then the outbox of the user.
    outboxes: Vec<Box<dyn Outbox>>,
    /// The ranges of frames in the batch that came from each outbox.
    origins: Vec<Range<usize>>,
    handler: Box<dyn Handler>,
    channel: ChannelHandle,
    info: UnderlayInfo,
    waker: UnderlayWaker,
    paused: bool,
    /// True if bytes were read since the last wait.
    has_read: bool,
    /// The answer to a latency probe. Only one waits; probes that come meanwhile are dropped.
    probe_answer: Option<Message>,
    /// The time since which the socket takes no bytes although some are to be written.
    blocked_since: Option<Instant>,
    next_check: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
    reason: Option<CloseReason>,
    _slot: Option<ConnectionSlot>,
    /// The thread of the task; `None` if it stays on its runtime.
    berth: Option<Berth>,
}

/// Why the turns of a task have ended.
enum Halt {
    Closed(CloseReason),
    /// The task goes on, on this runtime.
    Moves(runtime::Handle),
}

impl From<CloseReason> for Halt {
    fn from(reason: CloseReason) -> Self {
        Self::Closed(reason)
    }
}

/// The result of a turn of reading.
enum ReadOutcome {
    /// There is nothing more to read now.
    Empty,
    /// The turn's share is used up.
    More,
    /// The peer has closed the connection.
    End,
}

impl Underlay {
    pub(crate) fn new(
        connection: Connection,
        parts: ConnectionParts,
        channel: ChannelHandle,
        info: UnderlayInfo,
        waker: UnderlayWaker,
        berth: Option<Berth>,
    ) -> Self {
        let shared: &Arc<Shared> = channel.shared();
        let socket = connection.pump.stream();
        if let (Some(bytes), Some(Ok(socket))) = (shared.options.unsent_low_water, &socket) {
            crate::socket::set_unsent_low_water(socket, bytes);
        }
        let peer_timeout = shared.options.peer_timeout();
        if let Some(socket) = socket
            && peer_timeout != Some(PEER_TIMEOUT)
            && let Err(error) = socket.and_then(|socket| set_peer_timeout(socket, peer_timeout))
        {
            tracing::debug!(%error, "cannot set the user timeout of a socket");
        }
        let lane = Lane::of_underlay(&info.kind);
        let part = Part { lane, carries_data: parts.outbox.is_some() };
        let lanes = LaneOutbox::new(shared.clone(), info.number, part);
        let mut outboxes: Vec<Box<dyn Outbox>> = vec![Box::new(lanes)];
        outboxes.extend(parts.outbox);
        let options = &shared.options;
        let memory = options.frame_memory.clone();
        let (mut pump, is_judged) = (connection.pump, options.unjudged.is_none());
        if is_judged {
            pump.judged();
        }
        Self {
            pump,
            decoder: frame::Decoder::new(options.unjudged.unwrap_or(options.frames)),
            is_judged,
            partial: memory.map(|memory| Partial::new(memory, info.remote.ip(), waker.clone())),
            batch: Batch::new(shared.clone()),
            outboxes,
            origins: Vec::new(),
            handler: parts.handler,
            info,
            waker,
            paused: false,
            has_read: false,
            probe_answer: None,
            blocked_since: None,
            next_check: shared.heartbeat.check_interval().map(|every| Instant::now() + every),
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            reason: None,
            _slot: connection.slot,
            berth,
            channel,
        }
    }

    /// Runs until the connection closes. The steps at its end are done on drop, so that they happen
    /// even if the task is aborted.
    pub(crate) fn run(mut self) -> BoxFuture<'static, ()> {
        async move {
            match self.turns().await {
                Ok(never) => match never {},
                Err(Halt::Closed(reason)) => self.end(reason),
                Err(Halt::Moves(runtime)) => self.go_on(&runtime),
            }
        }
        .boxed()
    }

    fn end(mut self, reason: CloseReason) {
        self.reason = Some(reason);
    }

    /// Moves to another runtime. If the socket cannot be taken along, the task uses it from there.
    fn go_on(mut self, runtime: &runtime::Handle) {
        let _entered = runtime.enter();
        if let Err(error) = self.pump.rebind() {
            tracing::debug!(channel = %self.channel, %error, "the socket stays on another thread");
        }
        self.sleep = Box::pin(tokio::time::sleep(Duration::ZERO));
        runtime.spawn(self.run());
    }

    async fn turns(&mut self) -> Result<std::convert::Infallible, Halt> {
        loop {
            if let Some(reason) = self.channel.closed_because() {
                self.linger(&reason).await;
                return Err(reason.into());
            }
            if let Some(runtime) = self.berth.as_mut().and_then(Berth::moves) {
                return Err(Halt::Moves(runtime));
            }
            let now = Instant::now();
            self.check_time(now)?;
            self.partial.as_ref().map_or(Ok(()), Partial::check)?;
            if self.waker.take_resume() && self.paused {
                self.paused = self.handler.on_resume(&self.channel) == Reading::Pause;
            }
            let mut more = false;
            if !self.paused {
                let turn = self.read_turn()?;
                if let Some(partial) = &mut self.partial {
                    partial.hold(self.decoder.held() + self.pump.held(), self.is_judged)?;
                }
                self.handler.on_turn_end(&self.channel);
                match turn {
                    ReadOutcome::Empty => {}
                    ReadOutcome::More => more = true,
                    ReadOutcome::End => return Err(CloseReason::Peer.into()),
                }
            }
            more |= self.write_turn(now, true)?;
            self.check_peer(now)?;
            if more {
                tokio::task::yield_now().await;
            } else {
                self.acknowledge();
                self.wait().await?;
            }
        }
    }

    fn read_turn(&mut self) -> Result<ReadOutcome, CloseReason> {
        let mut taken = 0;
        loop {
            self.note_judged();
            loop {
                let Some(chunk) = self.pump.plaintext()? else { return Ok(ReadOutcome::End) };
                if chunk.is_empty() {
                    break;
                }
                let mut rest = chunk;
                let message = self.decoder.decode(&mut rest);
                let used = chunk.len() - rest.len();
                self.pump.consume(used);
                let message = message?;
                if message.is_some() {
                    self.partial.iter_mut().for_each(Partial::whole);
                }
                if let Some(message) = message
                    && self.dispatch(message) == Reading::Pause
                {
                    self.paused = true;
                    return Ok(ReadOutcome::Empty);
                }
                self.note_judged();
            }
            if self.pump.has_input() {
                self.pump.decrypt()?;
                continue;
            }
            if taken >= READ_PER_TURN {
                return Ok(ReadOutcome::More);
            }
            match self.pump.receive()? {
                Received::Bytes(bytes) => {
                    taken += bytes;
                    self.has_read = true;
                    // A record may take long to come whole over a slow path.
                    self.channel.shared().heartbeat.heard();
                    self.note_carried(bytes);
                }
                Received::Blocked => return Ok(ReadOutcome::Empty),
                Received::End => return Ok(ReadOutcome::End),
            }
        }
    }

    /// Acknowledges the bytes that were read since the last wait, if the peer needs that at once.
    fn acknowledge(&mut self) {
        if std::mem::take(&mut self.has_read)
            && self.handler.acknowledges_at_once()
            && let Some(Ok(socket)) = self.pump.stream()
        {
            crate::socket::acknowledge(socket);
        }
    }

    fn note_carried(&self, bytes: usize) {
        if let Some(berth) = &self.berth {
            berth.carried(bytes);
        }
    }

    /// Allows larger messages once the peer's session is accepted.
    fn note_judged(&mut self) {
        if !self.is_judged && self.channel.shared().is_judged() {
            self.is_judged = true;
            self.decoder.set_limits(self.channel.shared().options.frames);
            self.pump.judged();
        }
    }

    fn dispatch(&mut self, mut message: Message) -> Reading {
        let mut reply_for = None;
        let shared = self.channel.shared();
        if let Some(tap) = shared.tap.get() {
            tap.received(&message);
        }
        for (key, value) in &message.headers {
            let number = || value.try_into().ok().map(u64::from_le_bytes);
            match key {
                header::REPLY_FOR => {
                    reply_for = value.try_into().ok().map(i32::from_le_bytes);
                    if reply_for.is_none() {
                        tracing::debug!(channel = %self.channel, "reply header of a wrong length");
                    }
                }
                header::HEARTBEAT => {
                    number().into_iter().for_each(|v| shared.heartbeat.received(v))
                }
                header::HEARTBEAT_RESPONSE => {
                    let rtt = number().and_then(|v| shared.heartbeat.answered(v, now_ns()));
                    rtt.into_iter().for_each(|rtt| self.handler.on_heartbeat(rtt));
                }
                _ => {}
            }
        }
        // An answer to a traced route names a request of another channel.
        let is_reply = message.content_type != payload::content_type::CONTROL;
        if let Some(sequence) = reply_for.filter(|sequence| is_reply && *sequence != -1)
            && let Some(waiter) = shared.waiters.take(sequence)
        {
            match waiter.send(Ok(message)) {
                // The waiting task has just given up.
                Err(Ok(unread)) => message = unread,
                Ok(()) | Err(Err(_)) => return Reading::Continue,
            }
        }
        match message.content_type {
            content_type::HEARTBEAT
            | content_type::RAW
            | content_type::LATENCY_RESPONSE
            | content_type::RECONNECT_PING => Reading::Continue,
            content_type::LATENCY => {
                let answer = || Outcome::success("").to_message().in_reply_to(&message);
                self.probe_answer.get_or_insert_with(answer);
                Reading::Continue
            }
            _ => self.handler.on_message(message, &self.channel),
        }
    }

    /// Writes until there is nothing left, the socket is full, or the turn's share is used up; true
    /// in the last case.
    fn write_turn(&mut self, now: Instant, all: bool) -> Result<bool, CloseReason> {
        let mut encrypted = 0;
        loop {
            let (empty, written) = self.pump.flush()?;
            self.note_carried(written);
            if empty {
                self.blocked_since = None;
            } else {
                if written > 0 || self.blocked_since.is_none() {
                    self.blocked_since = Some(now);
                }
                return Ok(false);
            }
            if self.batch.is_taken() {
                if !self.batch.is_empty() {
                    self.outboxes.iter_mut().for_each(|outbox| outbox.flushed());
                }
                if encrypted >= BATCH_BYTES {
                    self.batch.reset();
                    self.origins.clear();
                    return Ok(true);
                }
                self.fill(all);
                if self.batch.is_empty() {
                    return Ok(false);
                }
            }
            let bytes = self.pump.encrypt(&self.batch.rest())?;
            self.batch.advance(bytes);
            encrypted += bytes;
        }
    }

    fn fill(&mut self, all: bool) {
        self.batch.reset();
        self.origins.clear();
        if let Some(answer) = self.probe_answer.take() {
            self.batch.push(answer);
        }
        let asked = if all { self.outboxes.len() } else { 1 };
        self.outboxes.iter_mut().take(asked).for_each(|outbox| outbox.notice());
        for outbox in self.outboxes.iter_mut().take(asked) {
            let from = self.batch.len();
            if !self.batch.is_full() {
                outbox.fill(&mut self.batch);
            }
            self.origins.push(from..self.batch.len());
        }
        let heartbeat = &self.channel.shared().heartbeat;
        if heartbeat.wants_message(self.batch.now_ns()) && !self.batch.is_full() {
            self.batch.push(Message::new(content_type::HEARTBEAT, ""));
        }
        if let Some(tap) = self.channel.shared().tap.get() {
            self.batch.from(0).iter().for_each(|message| tap.sent(message));
        }
    }

    fn check_time(&mut self, now: Instant) -> Result<(), CloseReason> {
        if self.pump.give_back(now) {
            self.batch.give_back();
        }
        self.pump.keep_alive(now)?;
        Ok(())
    }

    /// Ends the connection to a peer that takes nothing or says nothing. This is judged after the socket was read and
    /// written: if this process has not run for long, the peer may have done both meanwhile.
    fn check_peer(&mut self, now: Instant) -> Result<(), CloseReason> {
        if let (Some(limit), Some(since)) =
            (self.channel.shared().options.write_timeout, self.blocked_since)
            && now >= since + limit
        {
            return Err(CloseReason::WriteTimeout);
        }
        if self.next_check.is_some_and(|at| at <= now) {
            let heartbeat = &self.channel.shared().heartbeat;
            self.next_check = heartbeat.check_interval().map(|every| now + every);
            if self.paused {
                heartbeat.heard();
            }
            if heartbeat.unresponsive(now_ns()) {
                self.channel.shared().close(CloseReason::Unresponsive);
                return Err(CloseReason::Unresponsive);
            }
        }
        Ok(())
    }

    async fn wait(&mut self) -> Result<(), CloseReason> {
        let interest = match (!self.paused, self.blocked_since.is_some()) {
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Some(Interest::READABLE),
            (false, true) => Some(Interest::WRITABLE),
            (false, false) => None,
        };
        let write_limit = self.channel.shared().options.write_timeout;
        let write_deadline =
            self.blocked_since.zip(write_limit).map(|(since, limit)| since + limit);
        let times =
            [self.next_check, self.pump.idle_at(), self.pump.keep_alive_at(), write_deadline];
        // While the socket takes nothing, there is nothing to ask for.
        let asked = self.outboxes.iter().filter(|_| self.blocked_since.is_none());
        let outboxes = asked.filter_map(|outbox| outbox.wake_at());
        let deadline = times.into_iter().flatten().chain(outboxes.map(Instant::from)).min();
        if let Some(deadline) = deadline
            && (self.sleep.is_elapsed() || self.sleep.deadline() > deadline)
        {
            self.sleep.as_mut().reset(deadline);
        }
        let (pump, waker, sleep) = (&self.pump, &self.waker, &mut self.sleep);
        tokio::select! {
            ready = async { pump.ready(interest.unwrap_or(Interest::READABLE)).await },
                if interest.is_some() => ready.map_err(|error| CloseReason::io(&error)),
            () = waker.woken() => Ok(()),
            () = sleep.as_mut(), if deadline.is_some() => Ok(()),
        }
    }

    /// Writes the messages that were queued before this side closed the channel, within [`LINGER`].
    async fn linger(&mut self, reason: &CloseReason) {
        if !matches!(reason, CloseReason::Local(_)) {
            return;
        }
        let deadline = Instant::now() + LINGER;
        loop {
            match self.write_turn(Instant::now(), false) {
                Ok(true) => {}
                Ok(false) if self.blocked_since.is_none() => break,
                Ok(false) => {
                    let writable = self.pump.ready(Interest::WRITABLE);
                    if !matches!(tokio::time::timeout_at(deadline, writable).await, Ok(Ok(()))) {
                        return;
                    }
                }
                Err(_) => return,
            }
            if Instant::now() >= deadline {
                return;
            }
        }
        self.pump.say_goodbye();
    }

    fn give_back(&mut self) {
        let mut frames = self.batch.take_frames();
        for (outbox, origin) in self.outboxes.iter_mut().zip(&self.origins).rev() {
            frames.truncate(origin.end);
            let unsent = frames.split_off(origin.start.min(frames.len()));
            if !unsent.is_empty() {
                outbox.give_back(unsent);
            }
        }
    }
}

impl Drop for Underlay {
    fn drop(&mut self) {
        let reason =
            self.reason.take().unwrap_or_else(|| CloseReason::local("the task was cut off"));
        self.give_back();
        self.handler.on_detach(&reason);
        self.channel.shared().detach(&self.info, reason);
    }
}
