//! The ways in which an end stops: each direction in turn, both at once, or given up
//! (docs/protocol/data-plane.md 7.9).

use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_wire::payload::{Flags, Payload};

use super::{CircuitCloseReason, End, Receiving, Sending};
use crate::fin::fin_header;
use crate::sender::Outgoing;

/// How long a closing end waits if only the payload that ends its direction is unacknowledged.
pub(super) const MARK_WAIT: Duration = Duration::from_secs(5);

impl End {
    /// The application writes no more; it may still read.
    pub fn finish(&mut self, now: Instant) {
        if self.sending != Sending::Open {
            return;
        }
        self.sending = Sending::Ending(now);
        if !std::mem::replace(&mut self.fin_written, true) {
            self.push_mark(Flags::NONE, vec![fin_header()]);
        }
        if self.peer_knows_eof {
            self.push_mark(Flags::EOF, Vec::new());
        }
    }

    /// The application is gone: its written data is still sent, arriving data is thrown away, and
    /// then the circuit is closed.
    pub fn close(&mut self, now: Instant) {
        if self.closing || self.closed.is_some() {
            return;
        }
        self.closing = true;
        self.finish(now);
        if !self.peer_knows_eof && !self.cut && matches!(self.sending, Sending::Ending(_)) {
            self.push_mark(Flags::CIRCUIT_END, Vec::new());
        }
        if self.receiving == Receiving::Open {
            self.receiving = Receiving::Discarding;
        }
        self.discard();
        self.settle();
    }

    /// The application takes no more data although there is some: the peer is told at once, and the
    /// circuit is closed. The data that the application wrote is still sent. If the application had not ended
    /// its direction, more may be missing, and the peer is told so in place of a regular end.
    pub fn delivery_failed(&mut self, now: Instant) {
        if self.closed.is_some() || self.closing {
            return;
        }
        if self.receiving != Receiving::Done {
            let headers = Vec::new();
            let (flags, data) = (Flags::WRITE_FAILED, Bytes::new());
            self.sender.push_front(Outgoing { flags, headers, data });
        }
        if self.sending == Sending::Open {
            self.cut = true;
            self.sending = Sending::Ending(now);
        }
        self.close(now);
    }

    /// Gives the circuit up at once: payloads that wait are dropped in both directions, and only the
    /// payload that tells the peer of the end is still sent.
    pub fn abort(&mut self) {
        self.receiver.clear();
        self.chunks = None;
        self.end(CircuitCloseReason::Aborted);
    }

    /// The route was taken down. Payloads that arrived can still be read; nothing more is sent.
    pub fn unrouted(&mut self) {
        self.end(CircuitCloseReason::Unrouted);
        self.goodbye = false;
        self.receiver.forget_acks();
    }

    /// Acknowledges a payload that comes after the end has finished, so that a peer that missed the
    /// first ack finishes, too.
    pub(super) fn acknowledge_late(&mut self, payload: Payload) {
        if self.closed == Some(CircuitCloseReason::Finished)
            && !payload.flags.has(Flags::CIRCUIT_END)
        {
            self.receiver.take(payload);
            self.discard();
        }
    }

    /// Closes the end when there is nothing more to do in either direction.
    pub(super) fn settle(&mut self) {
        if matches!(self.sending, Sending::Ending(_)) && self.sender.is_drained() {
            self.sending = Sending::Done;
        }
        if self.sending == Sending::Done && self.is_receiving_over() && self.closed.is_none() {
            self.end(CircuitCloseReason::Finished);
        }
    }

    /// The time at which an end that has ended its direction stops waiting for acks.
    pub(super) fn drain_by(&self) -> Option<Instant> {
        let Sending::Ending(since) = self.sending else { return None };
        let from = since.max(self.sender.last_progress());
        let only_mark = self.sender.only_mark_left() && self.is_receiving_over();
        Some(
            from + if only_mark { self.max_close_wait.min(MARK_WAIT) } else { self.max_close_wait },
        )
    }

    pub(super) fn end(&mut self, reason: CircuitCloseReason) {
        if self.closed.is_some() {
            return;
        }
        let is_cut = self.cut && reason == CircuitCloseReason::Finished;
        self.closed = Some(if is_cut { CircuitCloseReason::Aborted } else { reason });
        self.goodbye = true;
        // A peer whose application has closed the circuit takes no more data. Its last payload may overtake its acks.
        self.lost_data |= !reason.is_orderly() && self.sender.has_data();
        self.sender.clear();
        self.sending = Sending::Done;
        self.start_by = None;
    }

    /// The payload that ends the circuit. Its sequence number is the next one, and it is sent once. The
    /// payload of an end that gave up also refuses data, so that the peer does not take it for the end of
    /// one direction.
    pub(super) fn goodbye(&self) -> Payload {
        let gave_up = self.closed != Some(CircuitCloseReason::Finished);
        let refusal = if gave_up { Flags::WRITE_FAILED } else { Flags::NONE };
        Payload {
            sequence: self.sender.next_sequence(),
            flags: self.role.flag() | Flags::CIRCUIT_END | refusal,
            ..Payload::default()
        }
    }
}
