//! Messages that come over a link, and the choice of their next place.

use std::sync::Arc;

use hashbrown::{HashMap, hash_map::EntryRef};
use weft_metrics::usage::Way;
use weft_wire::{
    Message,
    payload::{View, content_type},
};
use weft_xgress::Class;

use super::{
    Forwarder,
    flow::{Cached, Circuit},
    head::Head,
};

/// The table of known circuits is searched for ended ones once it holds more circuits than this.
const FIRST_PRUNE: usize = 1024;

/// Takes messages of circuits from one connection of a link, on its task.
pub(crate) struct Arrivals {
    forwarder: Arc<Forwarder>,
    /// The link that the messages come over.
    link: Arc<str>,
    /// Circuits of recent messages with their next place, so that the shared table is asked once for
    /// each circuit.
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

    /// Passes on a payload, an ack or a control message that came over the link.
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
        self.prune();
        let found = find(&mut self.known, &self.forwarder, view.circuit_id);
        let Some(Known { circuit, next }) = found else {
            // The sender of a payload is told that its circuit is unknown; acks and control messages
            // often come late, when their circuit has ended.
            return match message.content_type {
                content_type::PAYLOAD => self.forwarder.unknown_circuit(view.circuit_id),
                _ => self.forwarder.drops().no_way(),
            };
        };
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

    /// Forgets circuits that ended, once the table is large.
    fn prune(&mut self) {
        if self.known.len() < self.prune_at {
            return;
        }
        self.known.retain(|_, known| !known.circuit.has_ended());
        self.prune_at = FIRST_PRUNE.max(2 * self.known.len());
    }
}

/// The circuit of this id: searched once among the known ones, and then in the shared table.
fn find<'a>(
    known: &'a mut HashMap<Arc<str>, Known>,
    forwarder: &Forwarder,
    circuit: &str,
) -> Option<&'a Known> {
    let entry = match known.entry_ref(circuit) {
        EntryRef::Occupied(entry) if !entry.get().circuit.has_ended() => {
            return Some(entry.into_mut());
        }
        entry => entry,
    };
    let Some(circuit) = forwarder.circuit(circuit) else {
        if let EntryRef::Occupied(ended) = entry {
            ended.remove();
        }
        return None;
    };
    let id = Arc::clone(&circuit.id);
    let known = Known { next: Cached::default(), circuit };
    Some(match entry {
        EntryRef::Occupied(mut ended) => {
            ended.insert(known);
            ended.into_mut()
        }
        EntryRef::Vacant(place) => place.insert_with_key(id, known),
    })
}
