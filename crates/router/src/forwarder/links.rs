//! Links to other routers, as circuits see them.
//!
//! A circuit keeps its queue for a link while the link is away: a link of the same id that comes back
//! takes the queue over, and a reroute moves it to another link.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use weft_circuit::Unsent;
use weft_wire::{Message, payload::View};

use super::{Circuit, Destination, Forwarder, outlet::Outlet, shard};

/// A link.
#[derive(Debug)]
pub(crate) struct Link {
    /// The id of the link, which is also its address.
    pub(crate) id: Arc<str>,
    /// The router at the other end.
    pub(crate) peer: Arc<str>,
    /// Its connections.
    pub(crate) outlet: Arc<Outlet>,
}

/// The circuits over each link, also over one that is away.
pub(super) type Over = HashMap<Arc<str>, OverLink>;

/// The circuits over a link.
#[derive(Debug)]
pub(super) struct OverLink {
    /// The router at the other end of the link. A link of the same id to another router does not get
    /// these circuits.
    peer: Arc<str>,
    circuits: HashMap<Arc<str>, Weak<Circuit>>,
}

/// Why a link was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// The id belongs to something else on this router, or to a link to another router.
    IdInUse,
}

impl Forwarder {
    /// Registers a link. Circuits that waited for it go on over it.
    pub(crate) fn register_link(&self, link: &Arc<Link>) -> Result<(), NotTaken> {
        let waiting: Vec<_> = {
            let mut over = self.over.lock();
            if let Some(known) = over.get_mut(&link.id) {
                known.circuits.retain(|_, circuit| circuit.strong_count() > 0);
                if known.circuits.is_empty() {
                    over.remove(&link.id);
                }
            }
            let known = over.get(&link.id);
            if known.is_some_and(|known| known.peer != link.peer) {
                return Err(NotTaken::IdInUse);
            }
            let circuits = known.into_iter().flat_map(|known| known.circuits.values());
            let waiting = circuits.filter_map(Weak::upgrade).collect();
            let mut shard = shard(&self.destinations, &link.id).write();
            match shard.get(&link.id) {
                None => {}
                Some(Destination::Link(known)) if known.peer == link.peer => {}
                Some(_) => return Err(NotTaken::IdInUse),
            }
            shard.insert(Arc::clone(&link.id), Destination::Link(Arc::clone(link)));
            waiting
        };
        let waiting: Vec<Arc<Circuit>> = waiting;
        for circuit in waiting {
            if let Some(hop) = circuit.hop(&link.id) {
                hop.move_to(&link.outlet);
            }
            let to_link = |source: &&Arc<str>| circuit.next(source).is_some_and(|to| to == link.id);
            let sources = circuit.addresses();
            self.paths_changed(sources.iter().filter(to_link).map(|source| &**source));
        }
        Ok(())
    }

    /// Removes a link, unless another link of this id took its place.
    pub(crate) fn unregister_link(&self, link: &Arc<Link>) {
        {
            let mut shard = shard(&self.destinations, &link.id).write();
            let is_this = |known: &Destination| matches!(known, Destination::Link(known) if Arc::ptr_eq(known, link));
            if shard.get(&link.id).is_some_and(is_this) {
                shard.remove(&link.id);
            }
        }
        link.outlet.close();
    }

    /// The link of this id.
    pub(crate) fn link(&self, id: &str) -> Option<Arc<Link>> {
        match shard(&self.destinations, id).read().get(id) {
            Some(Destination::Link(link)) => Some(Arc::clone(link)),
            _ => None,
        }
    }

    /// How many circuits go over a link.
    pub(crate) fn circuits_over(&self, link: &str) -> usize {
        self.over.lock().get(link).map_or(0, |over| over.circuits.len())
    }

    /// Brings the index up to date after a change of a circuit's links, which were `before`.
    pub(super) fn goes_over(&self, circuit: &Arc<Circuit>, before: &[Arc<str>]) {
        if *circuit.links() == *before {
            return;
        }
        let mut over = self.over.lock();
        // The links are read again under the lock: the last caller has seen the last change.
        let now = circuit.links();
        if circuit.has_ended() && !now.is_empty() {
            // The end of the circuit has passed this lock already, or will after this.
            return;
        }
        for link in before.iter().filter(|link| !now.contains(link)) {
            if let Some(known) = over.get_mut(link) {
                known.circuits.remove(&circuit.id);
                if known.circuits.is_empty() {
                    over.remove(link);
                }
            }
        }
        for link in now.iter().filter(|link| !before.contains(link)) {
            let Some(there) = self.link(link) else { continue };
            let known = over.entry(Arc::clone(link)).or_insert_with(|| OverLink {
                peer: Arc::clone(&there.peer),
                circuits: HashMap::new(),
            });
            known.circuits.insert(Arc::clone(&circuit.id), Arc::downgrade(circuit));
        }
    }

    /// Has the ends at these addresses look up their next place again.
    pub(super) fn paths_changed<'a>(&self, sources: impl Iterator<Item = &'a str>) {
        for source in sources {
            if let Some(Destination::Local(end)) = self.destination(source) {
                end.path_changed();
            }
        }
    }

    /// Tells the controllers that a route names a link that this router does not have.
    pub(super) fn unknown_link(&self, id: &str) {
        self.measures.link_faults.one();
        self.control.link_fault(id, 0);
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
        // Each is put in front, so that the last comes first.
        for message in messages.into_iter().rev() {
            let Ok(view) = View::of(&message) else { continue };
            let circuit = forwarder.circuit(view.circuit_id);
            // A reroute may have given the hop another link meanwhile.
            if let Some(hop) = circuit.and_then(|circuit| circuit.hop_once_of(&self.link)) {
                hop.put_back(message);
            }
        }
    }
}
