//! Payloads and acks between two ends on this router, moved on the thread that changed one of them.

use std::time::Instant;

use weft_circuit::SingleFlight;
use weft_wire::payload::{Ack, Payload};
use weft_xgress::End;

/// Most payloads in one parcel.
const BATCH: usize = 16;
/// Most parcels that are moved in one turn; the others wait for the next turn.
const TURN: usize = 128;

/// An end that can have its other end on the same router.
pub(super) trait Exchanges {
    /// Takes the payloads and acks that are ready for the other end.
    fn take_parcel(&self) -> Parcel;

    /// Takes the payloads and the ack that the other end sends.
    fn deliver(&self, parcel: Parcel);

    /// Has the exchange continued by the clock, after the other tasks that wait for it.
    fn goes_on_later(&self);
}

/// Payloads and an ack on their way to the other end.
#[derive(Default)]
pub(super) struct Parcel {
    payloads: Vec<Payload>,
    ack: Option<Ack>,
}

impl Parcel {
    /// Takes the payloads and the ack that an end has ready.
    pub(super) fn take(end: &mut End, now: Instant) -> Self {
        let mut parcel = Self { ack: end.poll_ack(), ..Self::default() };
        while parcel.payloads.len() < BATCH {
            let Some(payload) = end.poll_transmit(now) else { break };
            parcel.payloads.push(payload);
        }
        parcel
    }

    /// Gives the parcel to an end, without the payloads that `is_lost` selects.
    pub(super) fn deliver(self, end: &mut End, now: Instant, is_lost: impl Fn() -> bool) {
        if let Some(ack) = &self.ack {
            end.on_ack(ack, now);
        }
        for payload in self.payloads.into_iter().filter(|_| !is_lost()) {
            end.on_payload(payload, now);
        }
    }

    fn is_empty(&self) -> bool {
        self.payloads.is_empty() && self.ack.is_none()
    }
}

/// Moves payloads and acks between two ends until neither has any, or until this call has moved enough:
/// applications write meanwhile, and their data must not keep this thread for ever. Both ends use the
/// same `exchanging`.
pub(super) fn exchange<E: Exchanges>(exchanging: &SingleFlight, one: &E, other: &E) {
    let mut left = TURN;
    if !exchanging.take(|| exchange_all(one, other, &mut left)) {
        one.goes_on_later();
        other.goes_on_later();
    }
}

/// False if parcels may be left because `left` is used up.
fn exchange_all<E: Exchanges>(one: &E, other: &E, left: &mut usize) -> bool {
    let (mut from, mut to) = (one, other);
    let mut quiet = 0;
    while quiet < 2 {
        let Some(less) = left.checked_sub(1) else { return false };
        *left = less;
        let parcel = from.take_parcel();
        if parcel.is_empty() {
            quiet += 1;
        } else {
            quiet = 0;
            to.deliver(parcel);
        }
        std::mem::swap(&mut from, &mut to);
    }
    true
}
