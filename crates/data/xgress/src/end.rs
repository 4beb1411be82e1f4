//! The end of a circuit: two halves, how they start and how they stop
//! (docs/protocol/data-plane.md 7).

mod closing;
mod reading;
mod told;
mod writing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
pub use told::{CircuitCloseReason, Delivery, WriteError};
use weft_limits::Budget;
use weft_wire::payload::{Ack, CAPABILITY_EOF, Flags, Payload, PayloadHeaders};

use crate::chunk::{self, Reassembly};
use crate::receiver::{Receiver, Taken};
use crate::sender::{Outgoing, Sender};
use crate::{CongestionWindow, Crowd, EndSnapshot, Options};

/// An end of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The dialer's end.
    Initiator,
    /// The host's end.
    Terminator,
}

impl Role {
    /// The flag of this end in payloads and acks.
    fn flag(self) -> Flags {
        match self {
            Self::Initiator => Flags::NONE,
            Self::Terminator => Flags::ORIGINATOR,
        }
    }
}

/// The direction towards the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// The application may write.
    Open,
    /// The direction has ended at this time; the rest is on its way.
    Ending(Instant),
    /// Everything has arrived, or nothing more is wanted.
    Done,
}

/// The direction from the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiving {
    /// Data goes to the application.
    Open,
    /// The application wants no more: data is accepted and thrown away.
    Discarding,
    /// The peer has ended its direction.
    Done,
}

/// One end of a circuit.
///
/// The owner passes in data of the application and messages of the connection, then asks for
/// the next step: [`poll_ack`](Self::poll_ack) and [`poll_transmit`](Self::poll_transmit) for the
/// connection, [`read`](Self::read) for the application, [`deadline`](Self::deadline) for the timer.
#[derive(Debug)]
pub struct End {
    role: Role,
    sender: Sender,
    receiver: Receiver,
    /// The time of the last message from the other end.
    pub(crate) heard: Option<Instant>,
    sending: Sending,
    receiving: Receiving,
    /// The start of the clock for stamps, which are milliseconds.
    epoch: Instant,
    /// The time at which the terminating end stops waiting for the first payload. `None` once it
    /// came.
    start_by: Option<Instant>,
    /// True once the circuit has begun.
    started: bool,
    /// True if the peer understands the end-of-data flag.
    peer_knows_eof: bool,
    /// True once an SDK's end of the direction was written; it is not sent twice.
    fin_written: bool,
    /// The chunks of a payload that is being put together.
    chunks: Option<Reassembly>,
    /// A delivery that follows the last one.
    next_delivery: Option<Delivery>,
    /// True once the end of the peer's direction was delivered.
    fin_read: bool,
    /// True while this side closes the whole circuit.
    closing: bool,
    /// True if the application was gone before it had ended its direction.
    cut: bool,
    closed: Option<CircuitCloseReason>,
    /// True if data was dropped that the peer had not acknowledged, before its application had closed the circuit.
    lost_data: bool,
    /// True once the close was delivered.
    closed_read: bool,
    /// True while a last payload has to tell the peer that the circuit is closed.
    goodbye: bool,
    datagrams: bool,
    /// Most bytes of data in a payload.
    most: usize,
    max_close_wait: Duration,
}

impl End {
    /// An end of a new circuit. The initiating end has its first payload ready to be sent; the
    /// terminating end waits for it. Buffered bytes are drawn from `budget`.
    #[must_use]
    pub fn new(role: Role, options: &Options, budget: &Budget, now: Instant) -> Self {
        let mut sender = Sender::new(options, budget, now);
        let waits = role == Role::Terminator;
        let has_limit = options.circuit_start_timeout > Duration::from_secs(1);
        if !waits {
            sender.push(Outgoing {
                flags: Flags::CIRCUIT_START,
                headers: vec![Payload::capability_header(CAPABILITY_EOF)],
                data: Bytes::new(),
            });
        }
        Self {
            role,
            sender,
            receiver: Receiver::new(options, budget),
            heard: None,
            sending: Sending::Open,
            receiving: Receiving::Open,
            epoch: now,
            start_by: (waits && has_limit).then(|| now + options.circuit_start_timeout),
            started: !waits,
            peer_knows_eof: false,
            fin_written: false,
            chunks: None,
            next_delivery: None,
            fin_read: false,
            closing: false,
            cut: false,
            closed: None,
            lost_data: false,
            closed_read: false,
            goodbye: false,
            datagrams: options.datagrams,
            most: chunk::most(options.mtu),
            max_close_wait: options.max_close_wait,
        }
    }

    // Calls of the connection.

    /// Takes a payload that arrived. True if a copy of the payload had arrived before. A payload without
    /// room in the receive buffer is not acknowledged, so that the peer sends it again.
    pub fn on_payload(&mut self, payload: Payload, now: Instant) -> bool {
        if self.is_from_here(payload.flags) {
            return false;
        }
        self.heard = Some(now);
        if self.closed.is_some() {
            self.acknowledge_late(payload);
            return false;
        }
        if payload.flags.has(Flags::WRITE_FAILED) {
            self.lost_data |= self.sender.has_data();
            self.sender.clear();
            self.sending = Sending::Done;
        }
        let (flags, capabilities) = (payload.flags, payload.capabilities());
        let taken = self.receiver.take(payload);
        if taken == Taken::New {
            self.note_peer(flags, capabilities, now);
            self.skip_bare();
            if self.is_receiving_over() {
                self.discard();
            }
        }
        self.settle();
        taken == Taken::Duplicate
    }

    /// Whether this end has sent a message with these flags itself: while a path changes its direction over a link,
    /// routers may lead a message back.
    fn is_from_here(&self, flags: Flags) -> bool {
        flags.has(Flags::ORIGINATOR) == (self.role == Role::Terminator)
    }

    /// Takes an ack that arrived. An ack that this end has sent itself is about payloads of the peer, which have the
    /// same numbers as those of this end.
    pub fn on_ack(&mut self, ack: &Ack, now: Instant) {
        if self.closed.is_none() && !self.is_from_here(ack.flags) {
            self.heard = Some(now);
            self.sender.on_ack(ack, now);
            self.settle();
        }
    }

    /// The next payload to write to the connection. The payload counts as sent at `now`: call this
    /// only while the connection has room for it.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Payload> {
        if self.closed.is_some() {
            return std::mem::take(&mut self.goodbye).then(|| self.goodbye());
        }
        if !self.started {
            return None;
        }
        let stamp = self.stamp(now);
        let payload = self.sender.transmit(self.role.flag(), stamp, now);
        if self.sender.is_exhausted() {
            self.end(CircuitCloseReason::Exhausted);
        }
        payload
    }

    /// The ack that is owed, if there is one. It goes ahead of payloads.
    pub fn poll_ack(&mut self) -> Option<Ack> {
        self.receiver.ack(self.role.flag())
    }

    /// True if [`poll_transmit`](Self::poll_transmit) has to be called.
    #[must_use]
    pub fn wants_transmit(&self) -> bool {
        if self.closed.is_some() { self.goodbye } else { self.started && self.sender.is_ready() }
    }

    /// True if [`poll_ack`](Self::poll_ack) would return an ack.
    #[must_use]
    pub fn wants_ack(&self) -> bool {
        self.receiver.owes_ack()
    }

    /// The end sends over the connection of this crowd from now on.
    pub fn join(&mut self, crowd: &Arc<Crowd>) {
        self.sender.join(crowd);
    }

    /// True if the path is too short for pacing.
    #[must_use]
    pub fn is_near(&self) -> bool {
        self.sender.window.is_near()
    }

    /// The first hop has changed, or its connection has closed: unacknowledged payloads are sent
    /// again.
    pub fn path_changed(&mut self, now: Instant) {
        if self.closed.is_none() {
            self.sender.path_changed(now);
        }
    }

    // Time and state.

    /// The time at which [`on_timeout`](Self::on_timeout) has to be called; `None` if there is
    /// nothing to wait for. It may move later meanwhile: ask again when the time has come.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.closed.is_some() {
            return None;
        }
        [self.start_by, self.drain_by(), self.sender.deadline()].into_iter().flatten().min()
    }

    /// Does everything that is due.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.closed.is_some() {
            return;
        }
        if self.start_by.is_some_and(|by| now >= by) {
            return self.end(CircuitCloseReason::NotStarted);
        }
        if self.drain_by().is_some_and(|by| now >= by) {
            let finished = self.sender.only_mark_left() && self.is_receiving_over();
            let reason = if finished {
                CircuitCloseReason::Finished
            } else {
                CircuitCloseReason::Unacknowledged
            };
            return self.end(reason);
        }
        self.sender.on_timeout(now);
    }

    /// True if the application can never write again.
    #[must_use]
    pub fn is_sending_over(&self) -> bool {
        self.sending != Sending::Open
    }

    /// Why the circuit is closed; `None` while it is not.
    #[must_use]
    pub fn closed(&self) -> Option<CircuitCloseReason> {
        self.closed
    }

    /// True if the peer has acknowledged all data that was written, or its application has closed the circuit.
    #[must_use]
    pub fn is_delivered(&self) -> bool {
        !self.lost_data && !self.sender.has_data()
    }

    /// Which end this is.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Bytes of sent payloads without an ack, with their bookkeeping.
    #[must_use]
    pub fn unacknowledged(&self) -> u64 {
        self.sender.unacked()
    }

    /// The number of sent payloads without an ack.
    #[must_use]
    pub fn unacknowledged_payloads(&self) -> usize {
        self.sender.unacked_payloads()
    }

    /// True if a payload that was written has not been sent yet.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.sender.has_waiting()
    }

    /// True if a payload waits because the other end has no room.
    #[must_use]
    pub fn is_blocked_by_peer(&self) -> bool {
        self.sender.is_blocked_by_peer()
    }

    /// Bytes of data that arrived and wait to be read.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.receiver.buffered()
    }

    /// Frees the memory of queues that nothing is in. An end that goes on allocates it again.
    pub fn trim(&mut self) {
        self.sender.trim();
        self.receiver.trim();
    }

    /// The number of payloads, acks and notes about them for which there is memory, whether there are any or
    /// not.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.sender.capacity() + self.receiver.capacity()
    }

    /// The window of this end.
    #[must_use]
    pub fn window(&self) -> &CongestionWindow {
        &self.sender.window
    }

    /// The smoothed round-trip time, once there is a sample.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.sender.smoothed_rtt()
    }

    /// The state of the end, for inspections. It visits every payload in flight.
    #[must_use]
    pub fn standing(&self, now: Instant) -> EndSnapshot {
        let mut standing = EndSnapshot {
            since_heard: self.heard.map(|at| now.saturating_duration_since(at)),
            ..EndSnapshot::default()
        };
        self.sender.describe(&mut standing, now);
        self.receiver.describe(&mut standing);
        standing
    }

    // Details.

    /// The stamp of a payload that is sent now: the low 16 bits of the milliseconds since the circuit
    /// began, which an ack returns. Never 0, which means no stamp.
    fn stamp(&self, now: Instant) -> u16 {
        (now.saturating_duration_since(self.epoch).as_millis() as u16).max(1)
    }

    fn push_mark(&mut self, flags: Flags, headers: PayloadHeaders) {
        self.sender.push(Outgoing { flags, headers, data: Bytes::new() });
    }

    /// Notes the peer's capabilities from the flags and headers of a new payload, in whatever order
    /// it came.
    fn note_peer(&mut self, flags: Flags, capabilities: Option<u32>, now: Instant) {
        // Some peers use the flag without announcing the capability.
        let knows = flags.has(Flags::EOF) || capabilities.is_some_and(|c| c & CAPABILITY_EOF != 0);
        if knows && !std::mem::replace(&mut self.peer_knows_eof, true) {
            let ending = matches!(self.sending, Sending::Ending(_)) && !self.closing;
            if ending {
                self.push_mark(Flags::EOF, Vec::new());
            }
        }
        if flags.has(Flags::CIRCUIT_START) && !self.started {
            self.started = true;
            self.start_by = None;
            if capabilities.is_some() {
                let header = Payload::capability_header(CAPABILITY_EOF);
                let (flags, data) = (Flags::NONE, Bytes::new());
                self.sender.push_front(Outgoing { flags, headers: vec![header], data });
            }
            if let Sending::Ending(_) = self.sending {
                self.sending = Sending::Ending(now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
