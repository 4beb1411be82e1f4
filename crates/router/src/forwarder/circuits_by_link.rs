//! The index of circuits by the links that they go over.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::destination::Link;
use super::flow::Circuit;

/// The circuits over each link, also over one that is away.
#[derive(Debug, Default)]
pub(super) struct CircuitsByLink(HashMap<Arc<str>, LinkCircuits>);

/// The circuits over a link.
#[derive(Debug)]
struct LinkCircuits {
    /// The router at the other end of the link. A link of the same id to another router does not get
    /// these circuits.
    peer: Arc<str>,
    circuits: HashMap<Arc<str>, Weak<Circuit>>,
}

impl CircuitsByLink {
    /// The circuits that wait for a link that came up. `None` if these circuits go over a link of
    /// this id to another router.
    pub(super) fn waiting_for(&mut self, link: &Link) -> Option<Vec<Arc<Circuit>>> {
        let Some(link_circuits) = self.0.get_mut(&link.id) else { return Some(Vec::new()) };
        link_circuits.circuits.retain(|_, circuit| circuit.strong_count() > 0);
        if link_circuits.circuits.is_empty() {
            self.0.remove(&link.id);
            return Some(Vec::new());
        }
        let is_same = link_circuits.peer == link.peer;
        is_same.then(|| link_circuits.circuits.values().filter_map(Weak::upgrade).collect())
    }

    /// The circuits over links of which `is_away` is true, each with its link.
    pub(super) fn over_links(
        &self,
        is_away: impl Fn(&str) -> bool,
    ) -> Vec<(Arc<str>, Arc<Circuit>)> {
        let away = self.0.iter().filter(|(link, _)| is_away(link));
        let circuits = away.flat_map(|(link, link_circuits)| {
            let link_circuits = link_circuits.circuits.values().filter_map(Weak::upgrade);
            link_circuits.map(|circuit| (Arc::clone(link), circuit))
        });
        circuits.collect()
    }

    /// How many circuits go over a link.
    pub(super) fn count(&self, link: &str) -> usize {
        self.0.get(link).map_or(0, |link_circuits| link_circuits.circuits.len())
    }

    /// Updates the index after the links of a circuit changed from `before` to some of `links`.
    pub(super) fn follow(
        &mut self,
        circuit: &Arc<Circuit>,
        before: &[Arc<str>],
        links: &[Arc<Link>],
    ) {
        // The links are read under the lock of the index: the last caller has seen the last change.
        let now = circuit.links();
        if circuit.has_ended() && !now.is_empty() {
            // The call for the end of the circuit, before or after this one, removes the circuit.
            return;
        }
        for link in before.iter().filter(|link| !now.contains(link)) {
            if let Some(link_circuits) = self.0.get_mut(link) {
                // A circuit that has come back since is another one.
                let known = link_circuits.circuits.get(&circuit.id);
                if known.is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(circuit))) {
                    link_circuits.circuits.remove(&circuit.id);
                }
                if link_circuits.circuits.is_empty() {
                    self.0.remove(link);
                }
            }
        }
        for link in now.iter().filter(|link| !before.contains(link)) {
            let Some(there) = links.iter().find(|there| there.id == *link) else { continue };
            let link_circuits = self.0.entry(Arc::clone(link)).or_insert_with(|| LinkCircuits {
                peer: Arc::clone(&there.peer),
                circuits: HashMap::new(),
            });
            link_circuits.circuits.insert(Arc::clone(&circuit.id), Arc::downgrade(circuit));
        }
    }
}
