//! From payloads that arrived to deliveries for the application.

use weft_wire::payload::{Flags, Payload, payload_header};

use super::told::{CircuitCloseReason, Delivery};
use super::{End, Receiving};
use crate::chunk::Reassembly;
use crate::fin::{has_fin, without_fin};

impl End {
    /// The next delivery for the application.
    pub fn read(&mut self) -> Option<Delivery> {
        loop {
            if let Some(delivery) = self.next_delivery.take() {
                return Some(delivery);
            }
            if self.receiving == Receiving::Done {
                break;
            }
            let Some(payload) = self.receiver.pop() else { break };
            let flags = payload.flags;
            let delivery = self.delivery_of(payload);
            self.after_reading(flags);
            if self.fin_read {
                self.discard();
            }
            if delivery.is_some() && self.receiving != Receiving::Discarding {
                return delivery;
            }
        }
        let reason = self.closed.filter(|_| !self.closed_read)?;
        self.closed_read = true;
        Some(Delivery::Closed(reason))
    }

    /// True if [`read`](Self::read) may return a delivery.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        self.next_delivery.is_some()
            || (self.receiving != Receiving::Done && self.receiver.peek().is_some())
            || (self.closed.is_some() && !self.closed_read)
    }

    /// Removes payloads at the front that have nothing for the application, so that they do not
    /// count as unread.
    pub(super) fn skip_bare(&mut self) {
        let marks = Flags::EOF | Flags::CIRCUIT_END | Flags::CHUNK;
        while self.receiver.peek().is_some_and(|payload| {
            let is_mark = payload.flags.without(marks) != payload.flags;
            let is_control = payload.capabilities().is_some()
                || payload.flags.has(Flags::CIRCUIT_START)
                || payload.flags.has(Flags::WRITE_FAILED);
            is_bare(payload) && is_control && !is_mark
        }) {
            self.receiver.pop();
        }
    }

    pub(super) fn discard(&mut self) {
        while let Some(payload) = self.receiver.pop() {
            self.after_reading(payload.flags);
        }
    }

    /// The delivery of a payload to the application.
    fn delivery_of(&mut self, payload: Payload) -> Option<Delivery> {
        let flags = payload.flags;
        let (mut headers, mut data) = (payload.headers, payload.data);
        if self.chunks.is_some() || flags.has(Flags::CHUNK) {
            let payload = Payload { flags, headers, data, ..Payload::default() };
            let budget = self.receiver.budget();
            (headers, data) = match Reassembly::take(&mut self.chunks, payload, budget) {
                Ok(whole) => whole?,
                Err(_) => {
                    self.end(CircuitCloseReason::Protocol);
                    return None;
                }
            };
        }
        let fin = has_fin(&headers);
        let over = Flags::EOF | Flags::CIRCUIT_END;
        // The end of a circuit that was given up is no end of the peer's data.
        let ends = flags.without(over) != flags && (fin || !gives_up(flags));
        let control = flags.without(Flags::CIRCUIT_START | Flags::WRITE_FAILED) != flags;
        let before = headers.len();
        headers.retain(|(key, _)| *key != payload_header::CAPABILITIES);
        let control = control || headers.len() < before;
        let empty = data.is_empty() && (ends || fin || control || !self.datagrams);
        if self.fin_read {
            return None;
        }
        if !fin && !ends {
            return (!empty).then_some(Delivery::Data { headers, data });
        }
        self.fin_read = true;
        let headers = without_fin(headers);
        if empty {
            return Some(Delivery::Fin { headers });
        }
        self.next_delivery = Some(Delivery::Fin { headers: Vec::new() });
        Some(Delivery::Data { headers, data })
    }

    /// Handles the flags that end a direction or the circuit, once everything before them is read.
    fn after_reading(&mut self, flags: Flags) {
        let end_of_circuit = flags.has(Flags::CIRCUIT_END);
        if !end_of_circuit && !flags.has(Flags::EOF) {
            return self.settle();
        }
        // The flag that ends the circuit may be meant for one direction only: a peer that does not
        // know, or does not know yet, that this end understands the flag for one direction uses the
        // flag for the circuit (docs/protocol/data-plane.md 7.3). A flag that comes twice, or together
        // with a refusal of data, means the circuit.
        let again = std::mem::replace(&mut self.receiving, Receiving::Done) == Receiving::Done;
        let meant = again || flags.has(Flags::WRITE_FAILED);
        if end_of_circuit && meant && self.closed.is_none() {
            let is_whole = again || self.fin_read || !gives_up(flags);
            self.end(if is_whole {
                CircuitCloseReason::PeerClosed
            } else {
                CircuitCloseReason::PeerGaveUp
            });
            self.goodbye = false;
        }
        self.settle();
    }

    /// True if the peer's direction has ended, by a flag or by an SDK's header.
    pub(super) fn is_receiving_over(&self) -> bool {
        self.receiving != Receiving::Open || self.fin_read
    }
}

/// True if the peer has given the circuit up.
fn gives_up(flags: Flags) -> bool {
    flags.has(Flags::CIRCUIT_END) && flags.has(Flags::WRITE_FAILED)
}

/// True if a payload has nothing for the application: no data, no headers but capabilities.
fn is_bare(payload: &Payload) -> bool {
    let is_control = |(key, _): &(u8, _)| *key == payload_header::CAPABILITIES;
    payload.data.is_empty() && payload.headers.iter().all(is_control)
}
