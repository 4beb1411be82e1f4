//! What comes over a link goes on.

use std::{collections::HashMap, sync::Arc};

use weft_metrics::usage::Way;
use weft_wire::{
    Message,
    payload::{View, content_type},
};
use weft_xgress::Class;

use super::{
    Forwarder,
    circuit::{Cached, Circuit},
    pass::Head,
};

/// Circuits that are remembered before those that ended are looked for.
const FIRST_PRUNE: usize = 1024;

/// Takes messages of circuits from one connection of a link, on its task.
pub(crate) struct Arrivals {
    forwarder: Arc<Forwarder>,
    /// The link they come over.
    link: Arc<str>,
    /// Circuits that came lately and where they go, so that the shared table is asked once for each.
    known: HashMap<Arc<str>, Known>,
    prune_at: usize,
}

struct Known {
    circuit: Arc<Circuit>,
    next: Cached,
}

impl Arrivals {
    pub(crate) fn new(forwarder: Arc<Forwarder>, link: Arc<str>) -> Self {
        Self { forwarder, link, known: HashMap::new(), prune_at: FIRST_PRUNE }
    }

    /// A payload, ack or control message has come.
    pub(crate) fn take(&mut self, mut message: Message) {
        let view = match View::of(&message) {
            Ok(view) => view,
            Err(problem) => {
                self.forwarder.drops().malformed();
                tracing::debug!(link = %self.link, %problem, "dropped a message of a link");
                return;
            }
        };
        let head = Head::seen(message.content_type, &view);
        if self.known.get(view.circuit_id).is_none_or(|known| known.circuit.has_ended()) {
            self.known.remove(view.circuit_id);
            let Some(circuit) = self.forwarder.circuit(view.circuit_id) else {
                // Whoever sends payloads is told; acks and controls of what has ended come late.
                return match message.content_type {
                    content_type::PAYLOAD => self.forwarder.unknown_circuit(view.circuit_id),
                    _ => self.forwarder.drops().no_way(),
                };
            };
            self.prune();
            let known = Known { next: Cached::default(), circuit: Arc::clone(&circuit) };
            self.known.insert(Arc::clone(&circuit.id), known);
        }
        let Some(Known { circuit, next }) = self.known.get(view.circuit_id) else { return };
        let Some(next) = next.get(circuit, || self.forwarder.next_of(circuit, &self.link)) else {
            if circuit.next(&self.link).is_none() {
                self.forwarder.drops().foreign();
            } else {
                self.forwarder.no_way_on(circuit);
            }
            return;
        };
        if head.class == Class::Payload {
            circuit.carried.add(Way::FabricRx, message.body.len());
        }
        if head.strip {
            message.headers.remove_all(&weft_wire::payload::NOT_FORWARDED);
        }
        let back = |head: Head, answer| {
            if let Some(hop) = circuit.hop(&self.link) {
                hop.push(head.class, head.sequence, answer);
            }
        };
        self.forwarder.pass(circuit, &next, head, message, back);
    }

    /// Forgets circuits that ended, once there are many.
    fn prune(&mut self) {
        if self.known.len() < self.prune_at {
            return;
        }
        self.known.retain(|_, known| !known.circuit.has_ended());
        self.prune_at = FIRST_PRUNE.max(2 * self.known.len());
    }
}
