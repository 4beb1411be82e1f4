//! Links to other routers, as circuits see them.
//!
//! A circuit keeps its queue for a link while the link is away: a link of the same id that comes back
//! takes the queue over, and a reroute moves it to another link.

use std::sync::{Arc, Weak};

use tokio::time::Instant;
use weft_circuit::Unsent;
use weft_wire::Message;
use weft_wire::payload::PayloadView;

use super::destination::{Destination, Link};
use super::{Forwarder, shard};

impl Forwarder {
    /// False if the id of the link belongs to an end of a circuit, or to a link to another router.
    pub(crate) fn may_register(&self, link: &Link) -> bool {
        self.circuits_by_link.lock().waiting_for(link).is_some()
            && is_free(shard(&self.destinations, &link.id).read().get(&link.id), link)
    }

    /// Registers a link, unless its id is in use. Circuits that waited for the link go on over it.
    pub(crate) fn register_link(&self, link: &Arc<Link>) -> bool {
        let waiting = {
            let mut over = self.circuits_by_link.lock();
            let Some(waiting) = over.waiting_for(link) else { return false };
            let mut shard = shard(&self.destinations, &link.id).write();
            if !is_free(shard.get(&link.id), link) {
                return false;
            }
            shard.insert(Arc::clone(&link.id), Destination::Link(Arc::clone(link)));
            waiting
        };
        for circuit in waiting {
            if let Some(hop) = circuit.hop(&link.id) {
                hop.move_to(&link.outlet);
            }
            let to_link = |source: &&Arc<str>| circuit.next(source).is_some_and(|to| to == link.id);
            let sources = circuit.addresses();
            self.paths_changed(sources.iter().filter(to_link).map(|source| &**source));
        }
        true
    }

    /// Removes a link, unless another link of this id took its place.
    pub(crate) fn unregister_link(&self, link: &Arc<Link>) {
        // Noted before the link is removed, so that a route that is refused meanwhile reports the number of its dial.
        self.closed_links.lock().closed(&link.id, link.iteration, Instant::now());
        {
            let mut shard = shard(&self.destinations, &link.id).write();
            let is_this = |known: &Destination| matches!(known, Destination::Link(known) if Arc::ptr_eq(known, link));
            if shard.get(&link.id).is_some_and(is_this) {
                shard.remove(&link.id);
            }
        }
        link.outlet.close();
    }

    /// How many circuits go over a link.
    pub(crate) fn circuits_over(&self, link: &str) -> usize {
        self.circuits_by_link.lock().count(link)
    }

    /// Has the ends at these addresses look up their next place again.
    pub(super) fn paths_changed<'a>(&self, sources: impl Iterator<Item = &'a str>) {
        for source in sources {
            if let Some(Destination::Local(end)) = self.destination(source) {
                end.path_changed();
            }
        }
    }

    /// Tells the controllers that a route names a link that this router does not have. The report names the last dial
    /// that closed here, so that controllers keep a link that was dialed again since.
    pub(super) fn unknown_link(&self, id: &str) {
        self.measures.link_faults.one();
        let dial = self.closed_links.lock().dial_of(id, Instant::now());
        self.control.link_fault(id, dial);
    }
}

/// Whether a link may take the place of what has its id.
fn is_free(known: Option<&Destination>, link: &Link) -> bool {
    match known {
        None => true,
        Some(known) => matches!(known, Destination::Link(known) if known.peer == link.peer),
    }
}

/// Puts messages that a connection of a link had taken and did not write back into their hops.
pub(crate) struct BackToHops {
    pub(crate) forwarder: Weak<Forwarder>,
    pub(crate) link: Arc<str>,
}

impl Unsent for BackToHops {
    fn unsent(&self, messages: Vec<Message>) {
        let Some(forwarder) = self.forwarder.upgrade() else { return };
        // Each message goes to the front of its hop, so that the first message has to be put back
        // last.
        for message in messages.into_iter().rev() {
            let Ok(view) = PayloadView::of(&message) else { continue };
            let circuit = forwarder.circuit(view.circuit_id);
            // A reroute may have given the hop another link meanwhile.
            if let Some(hop) = circuit.and_then(|circuit| circuit.hop_once_of(&self.link)) {
                hop.put_back(message);
            }
        }
    }
}
