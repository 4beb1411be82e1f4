//! The state of a circuit, under its lock.

use std::collections::VecDeque;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use weft_circuit::{Driver, Machine, Steps};
use weft_wire::{Message, payload};
use weft_xgress::{CircuitCloseReason, Class, Delivery, WriteError};

use super::transport::Transport;
use super::writing::Writing;
use crate::sealing::Outward;
use crate::traces::Traces;

/// Takes the first delivery of the other end, which proves that end, on the channel's task and without the lock; `None`
/// if none has come in time.
pub(crate) type Gate = Box<dyn FnOnce(Option<Delivery>) + Send>;

/// The flow control of a circuit, and the news for the application and the router.
pub(super) struct State {
    pub(super) transport: Transport,
    pub(super) writing: Writing,
    /// True once the application was told of room, until it has written: it may have taken data from elsewhere
    /// meanwhile.
    pub(super) promised: bool,
    /// Payloads to be sent before all others: the header of the encrypted stream, and proofs of this end.
    pub(super) preface: VecDeque<Bytes>,
    /// True until the other end has proved itself; nothing of the application is taken before.
    pub(super) proving: bool,
    /// What takes the first delivery, and the time until which it waits.
    pub(super) gate: Option<(Gate, Instant)>,
    /// True if the application has ended its direction meanwhile.
    pub(super) owes_end: bool,
    /// True if the application has dropped its connection meanwhile.
    pub(super) owes_close: bool,
    /// Requests for hops of the route, and answers to those of the other end.
    pub(super) traces: Traces,
    /// True once the router has been told that the circuit is over, or need not be.
    pub(super) told: bool,
    pub(super) released: bool,
    /// True once the application has dropped its connection.
    pub(super) left: bool,
    /// True once this circuit was counted as one that did not deliver all its data.
    counted: bool,
}

/// The steps that follow from a change, done after the lock is released.
pub(super) struct Follows {
    pub(super) steps: Steps,
    pub(super) over: Option<bool>,
    /// How the circuit has ended, once it is over and the router knows that.
    pub(super) release: Option<Ended>,
    /// True if the application has dropped its connection, and not all of its data was delivered.
    pub(super) is_undelivered: bool,
}

/// The end of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) reason: CircuitCloseReason,
    /// True if the other end has all data that was written.
    pub(crate) is_delivered: bool,
}

impl State {
    /// A circuit whose application has not written yet.
    pub(super) fn new(transport: Transport) -> Self {
        Self {
            transport,
            writing: Writing::new(Outward::Plain),
            promised: false,
            preface: VecDeque::new(),
            proving: false,
            gate: None,
            owes_end: false,
            owes_close: false,
            traces: Traces::default(),
            told: false,
            released: false,
            left: false,
            counted: false,
        }
    }

    /// True if the application can write.
    pub(super) fn can_write(&self) -> bool {
        self.transport.can_write() && self.preface.is_empty() && !self.proving
    }

    /// Ready once the application can write, or never can again.
    pub(super) fn writable(&self) -> Poll<Result<(), WriteError>> {
        if self.transport.is_sending_over() {
            Poll::Ready(Err(WriteError::Ended))
        } else if self.can_write() || self.promised {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }

    /// Makes a payload of all that is gathered.
    pub(super) fn flush(&mut self) {
        match self.writing.gathered() {
            None => {}
            Some(Ok(payload)) => {
                // Refused once the direction is over, when it is not needed.
                let _ = self.transport.write(payload);
            }
            Some(Err(_)) => self.abort(),
        }
    }

    /// Ends the application's direction, behind all that was written, however full the window is. While the other
    /// end has not proved itself, that waits.
    pub(super) fn finish(&mut self, now: Instant) {
        if self.proving {
            self.owes_end = true;
            return;
        }
        self.flush();
        let last = self.writing.last();
        for payload in std::mem::take(&mut self.preface).into_iter().chain(last) {
            // Refused once the direction is over, when it is not needed.
            let _ = self.transport.write(payload);
        }
        match &mut self.transport {
            Transport::Own(end) => end.finish(now),
            Transport::Routed(routed) => routed.finish(),
        }
    }

    /// Ends the circuit, behind all that was written. While the other end has not proved itself, that waits: the other
    /// end shall see the end of a connection, and not the failure of a proof.
    pub(super) fn close(&mut self, now: Instant) {
        self.left = true;
        if self.proving {
            self.owes_close = true;
            return;
        }
        match &mut self.transport {
            Transport::Own(end) => end.close(now),
            Transport::Routed(routed) => routed.close(),
        }
    }

    pub(super) fn abort(&mut self) {
        match &mut self.transport {
            Transport::Own(end) => end.abort(),
            Transport::Routed(routed) => routed.abort(),
        }
    }

    /// The next message for the router.
    pub(super) fn next(&mut self, class: Class, circuit: &str, now: Instant) -> Option<Message> {
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
    pub(super) fn owes_farewell(&self) -> bool {
        match &self.transport {
            Transport::Own(end) => {
                let over = end.closed().is_some() && !end.wants_transmit() && !end.wants_ack();
                over && !self.told
            }
            Transport::Routed(_) => false,
        }
    }

    /// Ends the circuit because the other side has ended it. The router is not told.
    pub(super) fn end(&mut self, reason: CircuitCloseReason) {
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

    /// The gate and what it takes, once that is there.
    pub(super) fn gated(&mut self, now: Instant) -> Option<(Gate, Option<Delivery>)> {
        let (_, until) = self.gate.as_ref()?;
        let is_late = now >= *until;
        let delivery = self.transport.read();
        if delivery.is_none() && !is_late {
            return None;
        }
        self.gate.take().map(|(gate, _)| (gate, delivery))
    }

    /// True if not all data was delivered, and the circuit was not counted for that yet; it is from now on.
    pub(super) fn counts(&mut self) -> bool {
        let counts = !self.counted && !self.transport.is_delivered();
        self.counted |= counts;
        counts
    }

    /// Determines the steps from the state, and notes them as done.
    pub(super) fn follows(driver: &mut Driver<Self>) -> Follows {
        let state = &mut driver.machine;
        while state.transport.can_write()
            && let Some(preface) = state.preface.pop_front()
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
        let reason = state.transport.reason().filter(|_| is_quiet && !state.released);
        state.released |= reason.is_some();
        let is_delivered = state.transport.is_delivered();
        let release = reason.map(|reason| Ended { reason, is_delivered });
        let is_undelivered = release.is_some() && state.left && state.counts();
        Follows { steps, over, release, is_undelivered }
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
        let gate = self.gate.as_ref().map(|(_, until)| *until);
        self.transport.deadline().into_iter().chain(gate).min()
    }

    fn on_timeout(&mut self, now: Instant) {
        if let Transport::Own(end) = &mut self.transport {
            end.on_timeout(now);
        }
    }
}
