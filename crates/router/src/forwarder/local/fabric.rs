//! The circuit's side of an end on this router: payloads and acks from and to the other end.

use std::sync::Arc;
use std::time::Instant;

use weft_metrics::usage::UsageDirection;
use weft_wire::Message;
use weft_wire::payload::{Ack, Flags, Payload};
use weft_xgress::Class;

use super::state::State;
use super::{EndFlow, LocalEnd, Next};

impl<F: EndFlow> LocalEnd<F> {
    /// Takes a payload of the other end.
    pub(crate) fn on_payload(&self, payload: Payload) {
        if self.loses() {
            return;
        }
        let is_repeated = self.change(|state, now| state.end.on_payload(payload, now));
        if is_repeated {
            self.around.measures.ends.duplicates.one();
        }
    }

    pub(super) fn loses(&self) -> bool {
        self.lost_one_in > 0 && rand::random_range(0..self.lost_one_in) == 0
    }

    /// Takes an ack of the other end.
    pub(crate) fn on_ack(&self, ack: &Ack) {
        self.around.measures.ends.acks_rx.one();
        self.change(|state, now| state.end.on_ack(ack, now));
    }

    /// The next payload or ack for the SDK or router that this end sends to, on that connection's
    /// task.
    pub(crate) fn pull_fabric(
        &self,
        class: Class,
        listing: u32,
        now: Instant,
    ) -> Option<(Message, u64)> {
        let (target, hop) = match self.next() {
            Some(Next::Sdk(target)) => (Some(target), None),
            Some(Next::Link(hop)) => (None, Some(hop)),
            Some(Next::Local(_)) | None => return self.unlist(class, listing),
        };
        let (pulled, follows) = {
            let mut inner = self.inner.lock();
            if !inner.listing().is(listing) {
                return None;
            }
            let pulled = inner.pull(class, |state| self.take(state, class, target.is_none(), now));
            (pulled, self.follows(&mut inner, now))
        };
        self.carry_out(follows, false);
        if pulled.is_none()
            && class == Class::Payload
            && let Some(hop) = hop
        {
            hop.outlet().emptied(&self.last_port);
        }
        let mut message = pulled?;
        let cost = weft_circuit::cost(&message);
        if let Some(target) = target {
            target.address_to_sdk(&mut message);
        }
        Some((message, cost))
    }

    /// Takes the next payload or ack out of the end.
    fn take(
        &self,
        state: &mut State,
        class: Class,
        to_router: bool,
        now: Instant,
    ) -> Option<Message> {
        if class == Class::Ack {
            let ack = state.end.poll_ack()?;
            self.around.measures.ends.acks_tx.one();
            return Some(ack.into_message(&self.circuit.id));
        }
        let sample = state.sample.take();
        let payload = state.end.poll_transmit(now)?;
        if let Some(sample) = sample {
            sample.taken(now);
        }
        self.transmits(&payload, to_router);
        Some(payload.into_message(&self.circuit.id))
    }

    /// A payload leaves, for another router or for an SDK.
    fn transmits(&self, payload: &Payload, to_router: bool) {
        if payload.flags.has(Flags::RETRANSMIT) {
            self.around.measures.ends.retransmissions.one();
        }
        if to_router {
            self.circuit.carried.add(UsageDirection::FabricTx, payload.data.len());
        }
    }

    /// Notes that this listing has ended, unless a newer one has begun.
    fn unlist<T>(&self, class: Class, listing: u32) -> Option<T> {
        let mut inner = self.inner.lock();
        if inner.unlist(class, listing) && class == Class::Payload {
            inner.machine.sample = None;
        }
        None
    }

    /// The connection of this listing is gone; the end lists itself with another one.
    pub(crate) fn unlisted(&self, class: Class, listing: u32) {
        self.unlist::<()>(class, listing);
        self.change(|_, _| {});
    }

    /// The messages of this end take another way from now on.
    pub(in crate::forwarder) fn path_changed(&self) {
        self.drive(|driver, now| {
            driver.relist();
            driver.machine.sample = None;
            driver.machine.end.path_changed(now);
        });
    }

    /// Lists the end at the outlet that it sends to.
    pub(super) fn list(&self, class: Class, this: Arc<Self>, listing: u32) {
        match self.next() {
            Some(Next::Sdk(target)) => {
                self.inner.lock().machine.end.join(target.crowd());
                target.list_flow(class, F::of_fabric(this, listing));
            }
            Some(Next::Link(hop)) => {
                let outlet = hop.outlet();
                if class == Class::Payload {
                    let sample = outlet.probe().begin();
                    let state = &mut self.inner.lock().machine;
                    state.end.join(outlet.crowd());
                    state.sample = sample.or(state.sample.take());
                }
                if !outlet.list(class, &self.last_port, F::of_fabric(this, listing)) {
                    // The link is gone: the end goes on with another one.
                    self.unlist::<()>(class, listing);
                }
            }
            Some(Next::Local(_)) | None => {
                self.unlist::<()>(class, listing);
            }
        }
    }
}
