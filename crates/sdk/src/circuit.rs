//! One circuit of this program, between a connection of the application and the channel to the
//! router.
//!
//! ```text
//!  application -> write -> End -> pull (the channel's task) -> router
//!  application <- read  <- End <- on_payload, on_ack (the channel's task) <- router
//! ```
//!
//! A circuit has one lock, which is held for short computations, never together with another lock
//! and never across an await. A change of the circuit determines its steps under the lock (tasks to
//! wake, messages to send); the caller carries them out after the lock is released. There is no
//! task per circuit.

#[cfg(test)]
mod tests;
mod transport;
mod writing;

pub(crate) use self::transport::Transport;
pub(crate) use self::writing::Unwritten;
use self::writing::Writing;
use crate::outlet::RouterOutlet;
use crate::sealing::Outward;
use crate::traces::{Answer, Form, Trace, Traces};
use bytes::Bytes;
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::sync::{oneshot, watch};
use weft_channel::clock::since_1970;
use weft_circuit::{Driver, Machine, Steps, Timed};
use weft_wire::Message;
use weft_wire::edge::{Data, header};
use weft_wire::payload::{self, Ack, Payload};
use weft_xgress::{Class, CloseReason, Delivery, Role, Tally, WriteError};

/// The clock of circuits.
pub(crate) type Timers = weft_circuit::Timers<Circuit>;

/// The channel of a circuit, as the circuit uses it. Payloads do not go this way.
pub(crate) trait Home: Send + Sync {
    /// The circuit holds so much data that the channel must not be read (`true`), or no longer
    /// does.
    fn hold_back(&self, over: bool);

    /// Forgets a connection id.
    fn release(&self, conn_id: u32);
}

/// A circuit.
pub(crate) struct Circuit {
    conn_id: u32,
    role: Role,
    id: Arc<str>,
    home: Weak<dyn Home>,
    outlet: Arc<RouterOutlet>,
    timers: Timers,
    tally: Tally,
    this: Weak<Self>,
    inner: Mutex<Driver<State>>,
    /// Set once the circuit is over and the router knows that.
    done: watch::Sender<bool>,
}

/// The flow control of a circuit, and the news for the application and the router.
struct State {
    transport: Transport,
    writing: Writing,
    /// True once the application was told of room, until it has written: it may have taken data from elsewhere
    /// meanwhile.
    promised: bool,
    /// The payload to be sent before all others: the header of the encrypted stream.
    preface: Option<Bytes>,
    /// Requests for hops of the route, and answers to those of the other end.
    traces: Traces,
    /// True once the router has been told that the circuit is over, or need not be.
    told: bool,
    released: bool,
    /// True once the application has dropped its connection.
    left: bool,
}

/// The steps that follow from a change, done after the lock is released.
struct Follows {
    steps: Steps,
    over: Option<bool>,
    release: bool,
}

impl Circuit {
    pub(crate) fn new(
        home: Weak<dyn Home>,
        outlet: Arc<RouterOutlet>,
        timers: Timers,
        conn_id: u32,
        role: Role,
        id: Arc<str>,
        transport: Transport,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            conn_id,
            role,
            id,
            home,
            outlet,
            timers,
            tally: Tally::default(),
            this: this.clone(),
            inner: Mutex::new(Driver::new(State {
                transport,
                writing: Writing::new(Outward::Plain),
                promised: false,
                preface: None,
                traces: Traces::default(),
                told: false,
                released: false,
                left: false,
            })),
            done: watch::Sender::new(false),
        })
    }

    /// The circuit's id; empty if the router does not send it.
    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Which end of the circuit this is.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// True if the flow control is in this program.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.inner.lock().machine.transport, Transport::Own(_))
    }

    /// Sends the first messages of the circuit.
    pub(crate) fn begin(&self) {
        self.change(|_, _| {});
    }

    // Calls of the application; those that write are in `writing`.

    /// The next delivery for the application.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Delivery> {
        self.drive(|driver, _| {
            if let Some(delivery) = driver.machine.transport.read() {
                return Poll::Ready(delivery);
            }
            driver.wake_to_read(cx);
            Poll::Pending
        })
    }

    /// The application has dropped its connection; its data is still sent.
    pub(crate) fn close(&self) {
        self.change(|inner, now| {
            inner.left = true;
            match &mut inner.transport {
                Transport::Own(end) => end.close(now),
                Transport::Routed(routed) => routed.close(),
            }
        });
    }

    /// True if the application has dropped its connection and only its data is still to be sent.
    pub(crate) fn is_left(&self) -> bool {
        self.inner.lock().machine.left
    }

    /// Ends the circuit at once and tells the router.
    pub(crate) fn abort(&self) {
        self.change(|inner, _| inner.abort());
    }

    /// Asks for the hop after so many. `None` if the circuit is over, or too many requests wait.
    pub(crate) fn trace(&self, hop_count: u32) -> Option<oneshot::Receiver<Answer>> {
        let now = u64::try_from(since_1970().as_millis()).unwrap_or(0);
        self.change(|state, _| {
            if state.transport.closed() {
                return None;
            }
            let form = self.form(&state.transport);
            state.traces.ask(hop_count, form, now)
        })
    }

    /// The form in which the circuit traces its route.
    fn form(&self, transport: &Transport) -> Form<'_> {
        match transport {
            Transport::Own(_) => Form::Circuit(&self.id),
            Transport::Routed(_) => Form::Connection(self.conn_id),
        }
    }

    /// Waits until the circuit is over and the router knows that.
    pub(crate) async fn done(&self) {
        // The sender lives as long as `self`.
        let _ = self.done.subscribe().wait_for(|done| *done).await;
    }

    /// True if data waits because the other end has no room.
    #[cfg(test)]
    pub(crate) fn is_blocked_by_peer(&self) -> bool {
        match &self.inner.lock().machine.transport {
            Transport::Own(end) => end.is_blocked_by_peer(),
            Transport::Routed(_) => false,
        }
    }

    // Calls of the channel.

    /// Takes a payload of the router.
    pub(crate) fn on_payload(&self, payload: Payload) {
        self.change(|inner, now| {
            if let Transport::Own(end) = &mut inner.transport {
                end.on_payload(payload, now);
            }
        });
    }

    /// Takes an ack of the router.
    pub(crate) fn on_ack(&self, ack: &Ack) {
        self.change(|inner, now| {
            if let Transport::Own(end) = &mut inner.transport {
                end.on_ack(ack, now);
            }
        });
    }

    /// Takes a data message of the router.
    pub(crate) fn on_data(&self, data: Data) {
        self.change(|inner, _| {
            if let Transport::Routed(routed) = &mut inner.transport {
                routed.on_data(data);
            }
        });
    }

    /// Takes a message of the router about a traced route.
    pub(crate) fn on_trace(&self, trace: Trace) {
        self.change(|state, _| {
            if !state.transport.closed() {
                let form = self.form(&state.transport);
                state.traces.take(trace, form);
            }
        });
    }

    /// The router has closed the connection; payloads that arrived can still be read.
    pub(crate) fn closed_by_router(&self) {
        self.change(|inner, _| inner.end(CloseReason::PeerClosed));
    }

    /// The channel is closed.
    pub(crate) fn lost(&self) {
        self.change(|inner, _| inner.end(CloseReason::Aborted));
    }

    /// The next message for the router, on the channel's task.
    pub(crate) fn pull(&self, class: Class, now: Instant) -> Option<(Message, u64)> {
        let (pulled, follows) = {
            let mut inner = self.inner.lock();
            let pulled = inner.pull(class, |state| state.next(class, &self.id, now));
            let follows = State::follows(&mut inner);
            (pulled, follows)
        };
        self.carry_out(follows);
        let mut message = pulled?;
        let cost = weft_circuit::cost(&message);
        if message.content_type != payload::content_type::CLOSE {
            message.headers.set_u32(header::CONN_ID, self.conn_id);
        }
        Some((message, cost))
    }

    /// True if the path is too short for pacing.
    pub(crate) fn is_near(&self) -> bool {
        match &self.inner.lock().machine.transport {
            Transport::Own(end) => end.is_near(),
            Transport::Routed(_) => false,
        }
    }

    /// Bytes of payloads that the channel has served for this circuit.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Changes the circuit under its lock, then carries out the steps.
    fn change<R>(&self, change: impl FnOnce(&mut State, Instant) -> R) -> R {
        self.drive(|driver, now| change(&mut driver.machine, now))
    }

    fn drive<R>(&self, change: impl FnOnce(&mut Driver<State>, Instant) -> R) -> R {
        let (result, follows) = {
            let mut inner = self.inner.lock();
            let result = change(&mut inner, weft_circuit::now());
            (result, State::follows(&mut inner))
        };
        self.carry_out(follows);
        result
    }

    fn carry_out(&self, Follows { steps, over, release }: Follows) {
        let list = |class, _| {
            if let Some(this) = self.this.upgrade() {
                self.outlet.list(class, this);
            }
        };
        steps.carry_out(list, |at| self.timers.arm(at, self.this.clone()));
        if let Some(over) = over
            && let Some(home) = self.home.upgrade()
        {
            home.hold_back(over);
        }
        if release {
            if let Some(home) = self.home.upgrade() {
                home.release(self.conn_id);
            }
            self.done.send_replace(true);
        }
    }
}

impl Timed for Circuit {
    fn on_timer(&self, at: Instant, now: Instant) {
        self.drive(|driver, _| driver.fires(at, now));
    }
}

impl State {
    /// True if the application can write.
    fn can_write(&self) -> bool {
        self.transport.can_write() && self.preface.is_none()
    }

    /// Ready once the application can write, or never can again.
    fn writable(&self) -> Poll<Result<(), WriteError>> {
        if self.transport.is_sending_over() {
            Poll::Ready(Err(WriteError::Ended))
        } else if self.can_write() || self.promised {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }

    /// Makes a payload of all that is gathered.
    fn flush(&mut self) {
        match self.writing.gathered() {
            None => {}
            Some(Ok(payload)) => {
                // Refused once the direction is over, when it is not needed.
                let _ = self.transport.write(payload);
            }
            Some(Err(_)) => self.abort(),
        }
    }

    fn abort(&mut self) {
        match &mut self.transport {
            Transport::Own(end) => end.abort(),
            Transport::Routed(routed) => routed.close(),
        }
    }

    /// The next message for the router.
    fn next(&mut self, class: Class, circuit: &str, now: Instant) -> Option<Message> {
        if class == Class::Ack
            && let Some(trace) = self.traces.pop()
        {
            return Some(trace);
        }
        let end = match &mut self.transport {
            Transport::Own(end) => end,
            Transport::Routed(_) if class == Class::Ack => return None,
            Transport::Routed(routed) => return routed.transmit(),
        };
        let message = match class {
            Class::Ack => end.poll_ack().map(|ack| ack.into_message(circuit)),
            Class::Payload => end.poll_transmit(now).map(|payload| payload.into_message(circuit)),
        };
        if message.is_some() || class == Class::Ack || !self.owes_farewell() {
            return message;
        }
        self.told = true;
        Some(payload::close(circuit))
    }

    /// True if the router has to be told now that the circuit is over.
    fn owes_farewell(&self) -> bool {
        match &self.transport {
            Transport::Own(end) => {
                let over = end.closed().is_some() && !end.wants_transmit() && !end.wants_ack();
                over && !self.told
            }
            Transport::Routed(_) => false,
        }
    }

    /// Ends the circuit because the other side has ended it. The router is not told.
    fn end(&mut self, reason: CloseReason) {
        self.traces.clear();
        match &mut self.transport {
            Transport::Own(end) => {
                // An end that is closed already drops its last message.
                end.unrouted();
                self.told = true;
            }
            Transport::Routed(routed) => routed.end(reason),
        }
    }

    /// Determines the steps from the state, and notes them as done.
    fn follows(driver: &mut Driver<Self>) -> Follows {
        let state = &mut driver.machine;
        if state.transport.can_write()
            && let Some(preface) = state.preface.take()
        {
            // There is room, so that the write succeeds.
            let _ = state.transport.write(preface);
        }
        if !state.transport.has_waiting() {
            state.flush();
        }
        let steps = driver.steps(true);
        let state = &mut driver.machine;
        let over = match &mut state.transport {
            Transport::Own(_) => None,
            Transport::Routed(routed) => routed.over_changed(),
        };
        let is_quiet = !state.wants(Class::Payload) && !state.wants(Class::Ack);
        let release = state.transport.closed() && is_quiet && !state.released;
        state.released |= release;
        Follows { steps, over, release }
    }
}

impl Machine for State {
    fn wants(&self, class: Class) -> bool {
        match class {
            Class::Ack => self.transport.wants_ack() || !self.traces.is_empty(),
            Class::Payload => self.transport.wants_transmit() || self.owes_farewell(),
        }
    }

    fn wants_read(&self) -> bool {
        self.transport.wants_read()
    }

    fn wakes_writer(&self) -> bool {
        self.can_write() || self.transport.is_sending_over()
    }

    fn deadline(&self) -> Option<Instant> {
        self.transport.deadline()
    }

    fn on_timeout(&mut self, now: Instant) {
        if let Transport::Own(end) = &mut self.transport {
            end.on_timeout(now);
        }
    }
}

impl fmt::Debug for Circuit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Circuit")
            .field("id", &self.id)
            .field("conn_id", &self.conn_id)
            .finish_non_exhaustive()
    }
}
