//! Circuits in the making, found by id, by client, and by the routers at their ends.

use std::sync::Arc;

use hashbrown::HashMap;
use weft_model::Id;

use super::index::{Counts, Index};

/// A circuit that is being made.
#[derive(Debug)]
pub(super) struct Reservation {
    /// The session or the identity that dials.
    client: Arc<str>,
    /// The identity that dials, if it is known.
    dialer: Option<Id>,
    /// The number of the attempt; none before the first one.
    attempt: Option<u32>,
    /// The routers of the attempt; before the first attempt only the router of the dialer.
    nodes: Vec<Id>,
    /// Whether one of these routers reported that the circuit has ended.
    faulted: bool,
    /// Whether the circuit is to be dropped when its attempt succeeds.
    ended: bool,
}

impl Reservation {
    /// The routers at the ends of the attempt.
    fn ends(&self) -> impl Iterator<Item = &Id> {
        let (first, last) = (self.nodes.first(), self.nodes.last());
        first.into_iter().chain(last.filter(|_| self.nodes.len() > 1))
    }

    /// Whether the circuit may be put into the table.
    pub(super) fn is_wanted(&self) -> bool {
        !self.faulted && !self.ended
    }
}

/// All circuits in the making.
#[derive(Debug, Default)]
pub(super) struct Making {
    by_id: HashMap<Arc<str>, Reservation>,
    by_client: Index<Arc<str>>,
    by_end: Index<Id>,
    by_dialer: Counts,
}

impl Making {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    pub(super) fn get(&self, id: &str) -> Option<&Reservation> {
        self.by_id.get(id)
    }

    /// The number of circuits that an identity dials.
    pub(super) fn dialed_by(&self, dialer: &Id) -> u64 {
        self.by_dialer.of(dialer)
    }

    /// Adds a circuit that begins at the router `first`.
    pub(super) fn begin(&mut self, id: &str, client: &str, dialer: Option<&Id>, first: &Id) {
        let (client, nodes, dialer) = (client.into(), vec![first.clone()], dialer.cloned());
        let (attempt, faulted, ended) = (None, false, false);
        let reservation = Reservation { client, dialer, attempt, nodes, faulted, ended };
        self.insert(id.into(), reservation);
    }

    /// Begins the attempt of this number over these routers; false if the circuit is not wanted any more.
    pub(super) fn attempt(&mut self, id: &str, number: u32, nodes: &[Id]) -> bool {
        let Some((id, mut reservation)) = self.take(id) else { return false };
        (reservation.attempt, reservation.nodes) = (Some(number), nodes.to_vec());
        reservation.faulted = false;
        let is_wanted = !reservation.ended;
        self.insert(id, reservation);
        is_wanted
    }

    /// Gives a circuit another id; false if there is no such circuit.
    pub(super) fn rename(&mut self, id: &str, new: &str) -> bool {
        let Some((_, reservation)) = self.take(id) else { return false };
        self.insert(new.into(), Reservation { faulted: false, ..reservation });
        true
    }

    /// Notes that a router reported the end of a circuit, and of which attempt at it, if the router says that. Returns the
    /// number of the present attempt if it has ended by that.
    pub(super) fn fault(&mut self, id: &str, router: &Id, attempt: Option<u32>) -> Option<u32> {
        let reservation = self.by_id.get_mut(id)?;
        let present = reservation.attempt.filter(|_| reservation.nodes.contains(router))?;
        let is_present = attempt.is_none_or(|attempt| attempt == present);
        reservation.faulted |= is_present;
        is_present.then_some(present)
    }

    /// Drops the circuits that begin or end at a router, and returns their ids.
    pub(super) fn end_at(&mut self, router: &Id) -> Vec<Arc<str>> {
        let ids = self.by_end.some(router, None, usize::MAX);
        self.end(ids, |_| true)
    }

    /// Drops the circuits of a client that begin at a router, and returns their ids.
    pub(super) fn end_of(&mut self, client: &str, router: &Id) -> Vec<Arc<str>> {
        let ids = self.by_client.some(client, None, usize::MAX);
        self.end(ids, |reservation| reservation.nodes.first() == Some(router))
    }

    fn end(&mut self, ids: Vec<Arc<str>>, pick: impl Fn(&Reservation) -> bool) -> Vec<Arc<str>> {
        let mut ended = ids;
        ended.retain(|id| {
            let reservation = self.by_id.get_mut(id).filter(|reservation| pick(reservation));
            reservation.is_some_and(|reservation| {
                reservation.ended = true;
                true
            })
        });
        ended
    }

    /// Removes a circuit.
    pub(super) fn remove(&mut self, id: &str) {
        self.take(id);
    }

    fn insert(&mut self, id: Arc<str>, reservation: Reservation) {
        for end in reservation.ends() {
            self.by_end.insert(end, &id);
        }
        self.by_client.insert(&reservation.client, &id);
        self.by_dialer.add(reservation.dialer.as_ref());
        self.by_id.insert(id, reservation);
    }

    fn take(&mut self, id: &str) -> Option<(Arc<str>, Reservation)> {
        let (id, reservation) = self.by_id.remove_entry(id)?;
        reservation.ends().for_each(|end| self.by_end.remove(end, &id));
        self.by_client.remove(&*reservation.client, &id);
        self.by_dialer.remove(reservation.dialer.as_ref());
        Some((id, reservation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circuits_are_found_by_their_present_ends_and_leave_nothing() {
        let mut making = Making::default();
        let [r1, r2, r3] = ["r1", "r2", "r3"].map(Id::new);
        let dialer = Id::new("laptop");
        making.begin("a", "client", Some(&dialer), &r1);
        making.begin("b", "other", None, &r1);
        assert!(making.attempt("a", 0, &[r1.clone(), r3.clone(), r2.clone()]));
        assert!(making.attempt("b", 0, &[r1.clone(), r2.clone(), r3.clone()]));
        making.end_at(&r2);
        assert!(!making.get("a").unwrap().is_wanted() && making.get("b").unwrap().is_wanted());
        making.end_of("client", &r1);
        making.end_of("other", &r2);
        assert!(making.get("b").unwrap().is_wanted(), "it begins elsewhere");
        assert!(making.attempt("b", 1, std::slice::from_ref(&r1)) && making.rename("b", "c"));
        making.end_at(&r3);
        assert!(making.get("c").unwrap().is_wanted(), "the former attempt ended there");
        making.end_of("other", &r1);
        assert!(!making.attempt("c", 2, &[r1]));
        for id in ["a", "c"] {
            making.remove(id);
        }
        assert_eq!((making.len(), making.by_end.keys().count()), (0, 0));
        assert_eq!(making.by_client.keys().count(), 0);
        assert!(making.by_dialer.is_empty());
    }
}
