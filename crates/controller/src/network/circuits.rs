//! The circuits of this controller: ids reserved while they are made, circuits that are up, and
//! those of an earlier run that routers still carry.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;
use weft_model::{Id, Timestamp};
use weft_wire::StringMap;

use super::moves::Moving;
use super::path::Path;

/// Most circuits, reserved ones included.
const MAX_CIRCUITS: usize = 1_000_000;
/// Ended circuits of earlier runs that are remembered, so that they are not taken up again.
const REMEMBERED: usize = 65_536;

/// A circuit that is up.
#[derive(Debug)]
pub struct Circuit {
    /// Its id.
    pub id: String,
    /// Session or identity that dials.
    pub client: String,
    /// Whether the client is a service session of this controller, with which the circuit ends.
    pub is_of_session: bool,
    /// The service.
    pub service: Id,
    /// The terminator; empty if it is not known any more.
    pub terminator: Id,
    /// The instance that was asked for.
    pub instance: String,
    /// The way it takes. Of a circuit that is not whole only the routers that told of it.
    pub path: Path,
    /// Address of the initiating end.
    pub ingress: String,
    /// Address of the terminating end.
    pub egress: String,
    /// Addresses of the applications, as far as the ends told them.
    pub addresses: EndAddresses,
    /// When it was made, or taken up.
    pub created_at: Timestamp,
    /// Its tags.
    pub tags: StringMap,
    /// Whether all of its path is known; a circuit that was taken up in part cannot be moved.
    pub is_whole: bool,
    /// Whether it is being moved, and when it was.
    pub moving: Arc<Moving>,
}

/// Addresses of the applications at the ends of a circuit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct EndAddresses {
    pub initiator_local: String,
    pub initiator_remote: String,
    pub terminator_local: String,
    pub terminator_remote: String,
}

impl Circuit {
    /// The same circuit on another path.
    pub fn moved(&self, path: Path) -> Self {
        Self {
            path,
            id: self.id.clone(),
            client: self.client.clone(),
            is_of_session: self.is_of_session,
            service: self.service.clone(),
            terminator: self.terminator.clone(),
            instance: self.instance.clone(),
            ingress: self.ingress.clone(),
            egress: self.egress.clone(),
            addresses: self.addresses.clone(),
            created_at: self.created_at,
            tags: self.tags.clone(),
            is_whole: self.is_whole,
            moving: Arc::clone(&self.moving),
        }
    }
}

/// Why there is no circuit of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReserved {
    /// The id is taken.
    Taken,
    /// There are as many circuits as there may be.
    Full,
}

/// A circuit that is being made.
#[derive(Debug, Clone)]
struct Reservation {
    /// Session or identity that dials.
    client: String,
    /// The routers of the attempt; before the first the one where it begins.
    nodes: Vec<Id>,
    /// One of these routers said that it has ended already.
    faulted: bool,
    /// It is not wanted any more, whatever becomes of the attempt.
    ended: bool,
}

#[derive(Debug, Clone)]
enum Slot {
    Reserved(Reservation),
    Up(Arc<Circuit>),
}

#[derive(Debug, Default)]
struct Tables {
    circuits: HashMap<String, Slot>,
    by_link: HashMap<String, HashSet<String>>,
    /// Ended circuits that may be reported again.
    ended: HashSet<String>,
    ended_order: VecDeque<String>,
}

/// All circuits.
#[derive(Debug, Default)]
pub struct Circuits(RwLock<Tables>);

impl Circuits {
    /// Reserves an id for a circuit that is being made, for whom and from which router.
    pub fn reserve(&self, id: &str, client: &str, first: &Id) -> Result<(), NotReserved> {
        let mut tables = self.0.write();
        if tables.circuits.contains_key(id) {
            return Err(NotReserved::Taken);
        }
        if tables.circuits.len() >= MAX_CIRCUITS {
            return Err(NotReserved::Full);
        }
        let (client, nodes) = (client.to_owned(), vec![first.clone()]);
        let reservation = Reservation { client, nodes, faulted: false, ended: false };
        tables.circuits.insert(id.to_owned(), Slot::Reserved(reservation));
        Ok(())
    }

    /// An attempt at a reserved circuit begins; false if the circuit is not wanted any more.
    pub fn attempt(&self, id: &str, nodes: &[Id]) -> bool {
        let mut tables = self.0.write();
        let Some(Slot::Reserved(reservation)) = tables.circuits.get_mut(id) else { return false };
        reservation.nodes = nodes.to_vec();
        reservation.faulted = false;
        !reservation.ended
    }

    /// What is being made goes on under another id; false if it is not in the making, or the id is
    /// taken.
    pub fn rename(&self, id: &str, new: &str) -> bool {
        let mut tables = self.0.write();
        if tables.circuits.contains_key(new) {
            return false;
        }
        let Some(Slot::Reserved(reservation)) = tables.circuits.get(id) else { return false };
        let reservation = Reservation { faulted: false, ..reservation.clone() };
        tables.circuits.remove(id);
        tables.circuits.insert(new.to_owned(), Slot::Reserved(reservation));
        true
    }

    /// A router says that a circuit has ended. If it is one in the making it is not put any more,
    /// provided that the router is on its path. False if it is not in the making.
    pub fn fault_in_making(&self, id: &str, router: &Id) -> bool {
        let mut tables = self.0.write();
        let Some(Slot::Reserved(reservation)) = tables.circuits.get_mut(id) else { return false };
        reservation.faulted |= reservation.nodes.contains(router);
        true
    }

    /// Ends the circuits in the making that a test of client and routers picks: they are not put.
    pub fn end_in_making(&self, pick: impl Fn(&str, &[Id]) -> bool) {
        for slot in self.0.write().circuits.values_mut() {
            if let Slot::Reserved(reservation) = slot {
                reservation.ended |= pick(&reservation.client, &reservation.nodes);
            }
        }
    }

    /// Gives a reservation back.
    pub fn release(&self, id: &str) {
        let mut tables = self.0.write();
        if matches!(tables.circuits.get(id), Some(Slot::Reserved(_))) {
            tables.circuits.remove(id);
        }
    }

    /// Puts a circuit in the place of its reservation or of what it was before; false if it was
    /// removed or ended meanwhile.
    pub fn put(&self, circuit: Arc<Circuit>) -> bool {
        self.put_with(circuit, || {})
    }

    /// The same; what goes with it is done before anybody can remove the circuit again.
    pub fn put_with(&self, circuit: Arc<Circuit>, with: impl FnOnce()) -> bool {
        let mut tables = self.0.write();
        let before = match tables.circuits.get(&circuit.id) {
            Some(Slot::Up(before)) => Some(Arc::clone(before)),
            Some(Slot::Reserved(reservation)) if reservation.faulted || reservation.ended => {
                return false;
            }
            Some(Slot::Reserved(_)) => None,
            None => return false,
        };
        if let Some(before) = before {
            tables.unlink(&before);
        }
        tables.link(circuit);
        with();
        true
    }

    /// Takes a circuit up that nobody made here; false if the id is taken or there is no room.
    /// What goes with it is done before anybody can remove it again.
    pub fn adopt(&self, circuit: Arc<Circuit>, with: impl FnOnce()) -> bool {
        let mut tables = self.0.write();
        let free = !tables.circuits.contains_key(&circuit.id);
        if free && tables.circuits.len() < MAX_CIRCUITS {
            tables.link(circuit);
            with();
            return true;
        }
        false
    }

    /// A circuit that is up.
    pub fn get(&self, id: &str) -> Option<Arc<Circuit>> {
        match self.0.read().circuits.get(id)? {
            Slot::Up(circuit) => Some(Arc::clone(circuit)),
            Slot::Reserved(_) => None,
        }
    }

    /// Whether an id is reserved or up.
    pub fn is_known(&self, id: &str) -> bool {
        self.0.read().circuits.contains_key(id)
    }

    /// Whether a circuit of this id ended here.
    pub fn has_ended(&self, id: &str) -> bool {
        self.0.read().ended.contains(id)
    }

    /// Removes a circuit that is up.
    pub fn remove(&self, id: &str) -> Option<Arc<Circuit>> {
        let mut tables = self.0.write();
        let Slot::Up(circuit) = tables.circuits.get(id)?.clone() else { return None };
        tables.unlink(&circuit);
        tables.circuits.remove(id);
        tables.remember(id);
        Some(circuit)
    }

    /// All circuits that are up.
    pub fn all(&self) -> Vec<Arc<Circuit>> {
        self.matching(|_| true)
    }

    /// The circuits that are up and that a test picks.
    pub fn matching(&self, pick: impl Fn(&Circuit) -> bool) -> Vec<Arc<Circuit>> {
        let tables = self.0.read();
        let up = tables.circuits.values().filter_map(|slot| match slot {
            Slot::Up(circuit) if pick(circuit) => Some(Arc::clone(circuit)),
            _ => None,
        });
        up.collect()
    }

    /// The circuits over a link.
    pub fn over_link(&self, link: &str) -> Vec<Arc<Circuit>> {
        let tables = self.0.read();
        let ids = tables.by_link.get(link).into_iter().flatten();
        let up = ids.filter_map(|id| match tables.circuits.get(id)? {
            Slot::Up(circuit) => Some(Arc::clone(circuit)),
            Slot::Reserved(_) => None,
        });
        up.collect()
    }

    /// How many are up or being made.
    pub fn len(&self) -> usize {
        self.0.read().circuits.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Tables {
    fn link(&mut self, circuit: Arc<Circuit>) {
        for link in &circuit.path.links {
            self.by_link.entry(link.clone()).or_default().insert(circuit.id.clone());
        }
        self.circuits.insert(circuit.id.clone(), Slot::Up(circuit));
    }

    fn unlink(&mut self, circuit: &Circuit) {
        for link in &circuit.path.links {
            if let Some(over) = self.by_link.get_mut(link) {
                over.remove(&circuit.id);
                if over.is_empty() {
                    self.by_link.remove(link);
                }
            }
        }
    }

    fn remember(&mut self, id: &str) {
        if self.ended.insert(id.to_owned()) {
            self.ended_order.push_back(id.to_owned());
        }
        while self.ended_order.len() > REMEMBERED {
            if let Some(oldest) = self.ended_order.pop_front() {
                self.ended.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn circuit(id: &str, nodes: &[&str], links: &[&str]) -> Circuit {
        Circuit {
            id: id.into(),
            client: "client".into(),
            is_of_session: false,
            service: Id::new("svc"),
            terminator: Id::new("t"),
            instance: String::new(),
            path: Path {
                nodes: nodes.iter().map(|id| Id::new(id)).collect(),
                links: links.iter().map(|id| (*id).to_owned()).collect(),
                cost: 0,
            },
            ingress: "I".into(),
            egress: "E".into(),
            addresses: EndAddresses::default(),
            created_at: Timestamp(0),
            tags: StringMap::new(),
            is_whole: true,
            moving: Arc::default(),
        }
    }

    #[test]
    fn an_id_is_reserved_once_and_given_back() {
        let circuits = Circuits::default();
        let r1 = Id::new("r1");
        assert_eq!(circuits.reserve("c1", "client", &r1), Ok(()));
        assert_eq!(circuits.reserve("c1", "client", &r1), Err(NotReserved::Taken));
        assert!(circuits.get("c1").is_none() && circuits.is_known("c1"));
        assert!(circuits.remove("c1").is_none());
        circuits.release("c1");
        assert!(!circuits.put(Arc::new(circuit("c1", &["r1"], &[]))));
        assert!(circuits.is_empty());
    }

    #[test]
    fn what_ends_in_the_making_is_not_put() {
        let circuits = Circuits::default();
        let (r1, r2, r3) = (Id::new("r1"), Id::new("r2"), Id::new("r3"));
        let put = || circuits.put(Arc::new(circuit("c1", &["r1", "r2"], &["l1"])));
        circuits.reserve("c1", "client", &r1).unwrap();
        assert!(circuits.attempt("c1", &[r1.clone(), r3.clone()]));
        assert!(circuits.fault_in_making("c1", &r3));
        assert!(!put(), "ended by a router on its way");
        // The next attempt knows nothing of the one before.
        assert!(circuits.attempt("c1", &[r1.clone(), r2.clone()]));
        assert!(circuits.fault_in_making("c1", &r3), "not on its way any more");
        circuits.end_in_making(|client, _| client == "other");
        circuits.end_in_making(|_, nodes| nodes.last() == Some(&r3));
        let mut has_gone_with_it = false;
        let up = Arc::new(circuit("c1", &["r1", "r2"], &["l1"]));
        assert!(circuits.put_with(up, || has_gone_with_it = true) && has_gone_with_it);
        assert!(!circuits.fault_in_making("c1", &r2), "not in the making");
        circuits.remove("c1").unwrap();

        circuits.reserve("c1", "client", &r1).unwrap();
        circuits.end_in_making(|client, nodes| client == "client" && nodes.first() == Some(&r1));
        assert!(!circuits.attempt("c1", &[r1, r2]), "ended for good");
        assert!(!circuits.put_with(Arc::new(circuit("c1", &["r1"], &[])), || panic!("not put")));
        circuits.release("c1");
        assert!(circuits.is_empty());
    }

    #[test]
    fn what_is_renamed_in_the_making_is_the_same() {
        let circuits = Circuits::default();
        let r1 = Id::new("r1");
        circuits.reserve("c1", "client", &r1).unwrap();
        circuits.reserve("c3", "client", &r1).unwrap();
        assert!(!circuits.rename("c1", "c3") && !circuits.rename("c9", "c2"));
        assert!(circuits.fault_in_making("c1", &r1));
        assert!(circuits.rename("c1", "c2"));
        assert!(!circuits.is_known("c1") && !circuits.fault_in_making("c1", &r1));
        assert!(circuits.put(Arc::new(circuit("c2", &["r1"], &[]))));
        assert!(!circuits.rename("c2", "c4"), "not in the making");
        // What is not wanted any more is not under another id either.
        circuits.end_in_making(|client, _| client == "client");
        assert!(circuits.rename("c3", "c5") && !circuits.attempt("c5", &[r1]));
    }

    #[test]
    fn links_are_followed_through_moves() {
        let circuits = Circuits::default();
        circuits.reserve("c1", "client", &Id::new("r1")).unwrap();
        let first = Arc::new(circuit("c1", &["r1", "r2"], &["l1"]));
        assert!(circuits.put(Arc::clone(&first)));
        circuits.release("c1");
        assert_eq!(circuits.over_link("l1").len(), 1);
        let path = Path { nodes: first.path.nodes.clone(), links: vec!["l2".into()], cost: 1 };
        assert!(circuits.put(Arc::new(first.moved(path))));
        assert!(circuits.over_link("l1").is_empty());
        assert_eq!(circuits.over_link("l2").len(), 1);
        assert!(!circuits.has_ended("c1"));
        assert!(circuits.remove("c1").is_some());
        assert!(circuits.has_ended("c1") && circuits.over_link("l2").is_empty());
        assert!(circuits.adopt(Arc::new(circuit("c2", &["r1"], &[])), || {}));
        assert!(!circuits.adopt(Arc::new(circuit("c2", &["r1"], &[])), || panic!("not taken up")));
    }
}
