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

mod state;
#[cfg(test)]
mod tests;
mod transport;
mod writing;

use std::fmt;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use weft_channel::clock::since_1970;
use weft_circuit::{Driver, Timed};
use weft_wire::Message;
use weft_wire::edge::{Data, header};
use weft_wire::payload::{self, Ack, Payload};
use weft_xgress::{CircuitCloseReason, Class, Delivery, Role, Tally, WriteError};

pub(crate) use self::state::{Ended, Gate};
use self::state::{Follows, State};
pub(crate) use self::transport::Transport;
pub(crate) use self::writing::Unwritten;
use self::writing::{Pen, Writing};
use crate::outlet::RouterOutlet;
use crate::sealing::Outward;
use crate::traces::{Form, Trace, TraceReply};

/// The clock of circuits.
pub(crate) type Timers = weft_circuit::Timers<Circuit>;

/// The channel of a circuit, as the circuit uses it. Payloads do not go this way.
pub(crate) trait Home: Send + Sync {
    /// The circuit holds so much data that the channel must not be read (`true`), or no longer
    /// does.
    fn hold_back(&self, over: bool);

    /// Forgets a connection id.
    fn release(&self, conn_id: u32);

    /// The circuit has ended, and the other end does not have all data that was written.
    fn note_undelivered(&self);
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
    done: watch::Sender<Option<Ended>>,
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
            inner: Mutex::new(Driver::new(State::new(transport))),
            done: watch::Sender::new(None),
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

    // Calls of the application.

    /// Seals the application's data from now on. The preface is sent before all other payloads, as soon as
    /// the circuit has room.
    pub(crate) fn seal(&self, outward: Outward, preface: Bytes) {
        self.change(|inner, _| {
            inner.writing = Writing::new(outward);
            inner.preface.push_back(preface);
        });
    }

    /// Takes no data of the application until [`Circuit::proved`].
    pub(crate) fn prove(&self) {
        self.change(|inner, _| inner.proving = true);
    }

    /// The same, and hands the first delivery to the gate: no task waits for it.
    pub(crate) fn prove_at_gate(&self, gate: Gate, until: Instant) {
        self.change(|inner, _| {
            inner.proving = true;
            inner.gate = Some((gate, until));
        });
    }

    /// Sends a payload before all data of the application.
    pub(crate) fn say(&self, payload: Bytes) {
        self.change(|inner, _| inner.preface.push_back(payload));
    }

    /// The other end has proved itself: seals the application's data from now on, and takes it.
    pub(crate) fn proved(&self, outward: Outward) {
        self.change(|inner, now| {
            inner.writing = Writing::new(outward);
            inner.proving = false;
            if inner.owes_end {
                inner.finish(now);
            }
            if inner.owes_close {
                inner.close(now);
            }
        });
    }

    /// Waits until data can be taken; an error once this direction has ended. The room is promised: the next
    /// write is taken, although the window may shrink and other circuits may use the memory up meanwhile.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        let mut inner = self.inner.lock();
        let ready = inner.machine.writable();
        inner.machine.promised = matches!(ready, Poll::Ready(Ok(())));
        if ready.is_pending() {
            inner.wake_to_write(cx);
        }
        ready
    }

    /// Takes a beginning of `data` for the stream, as soon as there is room; returns its length.
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, Unwritten>> {
        let mut inner = self.inner.lock();
        match inner.machine.writable() {
            Poll::Pending => {
                inner.wake_to_write(cx);
                return Poll::Pending;
            }
            Poll::Ready(Err(_)) => return Poll::Ready(Err(Unwritten::Ended)),
            Poll::Ready(Ok(())) => {}
        }
        let state = &mut inner.machine;
        state.promised = false;
        let waits = state.transport.has_waiting();
        if let Some(taken) = state.writing.gather(data, waits) {
            // A payload waits, so that the outlet knows the circuit already.
            return Poll::Ready(Ok(taken));
        }
        let Some(pen) = state.writing.take() else { return Poll::Ready(Err(Unwritten::Full)) };
        drop(inner);
        let data = pen.share(data);
        Poll::Ready(self.make(pen, data, true).map(|()| data.len()))
    }

    /// Takes all of `data` as one message, if there is room or some was promised.
    pub(crate) fn write_message(&self, data: &[u8]) -> Result<(), Unwritten> {
        let pen = {
            let mut inner = self.inner.lock();
            match inner.machine.writable() {
                Poll::Pending => return Err(Unwritten::Full),
                Poll::Ready(Err(_)) => return Err(Unwritten::Ended),
                Poll::Ready(Ok(())) => {
                    inner.machine.promised = false;
                    inner.machine.writing.take().ok_or(Unwritten::Full)?
                }
            }
        };
        self.make(pen, data, false)
    }

    /// Makes payloads, and puts the pen back.
    fn make(&self, mut pen: Pen, data: &[u8], is_stream: bool) -> Result<(), Unwritten> {
        // Outside of the circuit's lock. No other task writes, so that the room stays.
        let payloads = pen.payloads(data, is_stream);
        self.change(|state, _| {
            state.writing.put_back(pen);
            match payloads {
                Ok(mut payloads) => payloads
                    .try_for_each(|payload| state.transport.write(payload))
                    .map_err(|_| Unwritten::Ended),
                Err(problem) => {
                    state.abort();
                    Err(Unwritten::Sealing(problem))
                }
            }
        })
    }

    /// Ends the application's direction, behind all that was written, however full the window is.
    pub(crate) fn finish(&self) {
        self.change(State::finish);
    }

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
        self.change(State::close);
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
    pub(crate) fn trace(&self, hop_count: u32) -> Option<oneshot::Receiver<TraceReply>> {
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

    /// Waits until the circuit is over and the router knows that. `None` only if there is no circuit any more.
    pub(crate) async fn done(&self) -> Option<Ended> {
        // The sender lives as long as `self`.
        self.done.subscribe().wait_for(Option::is_some).await.ok().and_then(|done| *done)
    }

    /// True if the other end has all data that was written.
    pub(crate) fn is_delivered(&self) -> bool {
        self.inner.lock().machine.transport.is_delivered()
    }

    /// True if not all data was delivered, and the circuit was not counted for that yet; it is from now on.
    pub(crate) fn counts_as_undelivered(&self) -> bool {
        self.inner.lock().machine.counts()
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

    /// The router has closed the connection; payloads that arrived can still be read. `is_whole` is false
    /// if the router says that data may be missing.
    pub(crate) fn closed_by_router(&self, is_whole: bool) {
        let reason =
            if is_whole { CircuitCloseReason::PeerClosed } else { CircuitCloseReason::PeerGaveUp };
        self.change(|inner, _| inner.end(reason));
    }

    /// The channel is closed.
    pub(crate) fn lost(&self) {
        self.change(|inner, _| inner.end(CircuitCloseReason::Aborted));
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
        let (result, gated, follows) = {
            let (mut inner, now) = (self.inner.lock(), weft_circuit::now());
            let result = change(&mut inner, now);
            let gated = inner.machine.gated(now);
            (result, gated, State::follows(&mut inner))
        };
        self.carry_out(follows);
        if let Some((gate, delivery)) = gated {
            gate(delivery);
        }
        result
    }

    fn carry_out(&self, Follows { steps, over, release, is_undelivered }: Follows) {
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
        if let Some(ended) = release {
            if let Some(home) = self.home.upgrade() {
                if is_undelivered {
                    home.note_undelivered();
                }
                home.release(self.conn_id);
            }
            self.done.send_replace(Some(ended));
        }
    }
}

impl Timed for Circuit {
    fn on_timer(&self, at: Instant, now: Instant) {
        self.drive(|driver, _| driver.fires(at, now));
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
