//! Routers that a circuit has left, and circuits whose end a router has reported.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::Id;

use crate::circuits::Circuit;

/// Most ended circuits that are remembered.
const MOST: usize = 65_536;
/// How long an ended circuit is remembered.
const KEPT: Duration = Duration::from_secs(10);

/// Routers that a circuit has left, and when.
#[derive(Debug)]
pub(crate) struct FormerRouters {
    pub(super) at: Instant,
    pub(super) circuit: Arc<str>,
    pub(super) routers: Vec<Id>,
    /// The router whose loss is the reason, if there is one. If it is back in time, the other routers are told nothing.
    pub(super) for_loss_of: Option<Id>,
}

/// Circuits that have ended lately because a router at one of their ends said so. The routers at the other ends keep
/// such a circuit for payloads on their way. Once the first router is gone, nothing more comes.
#[derive(Debug, Default)]
pub(crate) struct EndedCircuits(Mutex<EndedCircuitIndex>);

/// The circuits by number, in the order of their ends, and for each router the numbers of the circuits whose end it has
/// reported.
#[derive(Debug, Default)]
struct EndedCircuitIndex {
    last: u64,
    circuits: BTreeMap<u64, FormerRouters>,
    by_router: HashMap<Id, VecDeque<u64>>,
}

impl EndedCircuitIndex {
    /// Forgets the circuit that ended first.
    fn forget_first(&mut self) {
        let Some((_, FormerRouters { for_loss_of: Some(router), .. })) = self.circuits.pop_first()
        else {
            return;
        };
        let Some(of_router) = self.by_router.get_mut(&router) else { return };
        // It is the first one of its router, too.
        of_router.pop_front();
        if of_router.is_empty() {
            self.by_router.remove(&router);
        }
    }
}

impl EndedCircuits {
    /// Notes a circuit whose end a router has reported.
    pub(crate) fn note(&self, circuit: &Circuit, by: &Id, now: Instant) {
        let routers: Vec<Id> =
            circuit.path.nodes.iter().filter(|node| *node != by).cloned().collect();
        let mut noted = self.0.lock();
        let is_old = |left: &FormerRouters| now.saturating_duration_since(left.at) >= KEPT;
        while noted.circuits.first_key_value().is_some_and(|(_, left)| is_old(left))
            || noted.circuits.len() >= MOST
        {
            noted.forget_first();
        }
        if routers.is_empty() {
            return;
        }
        noted.last += 1;
        let (number, circuit) = (noted.last, circuit.id.as_str().into());
        let left = FormerRouters { at: now, circuit, routers, for_loss_of: Some(by.clone()) };
        noted.circuits.insert(number, left);
        noted.by_router.entry_ref(by).or_default().push_back(number);
    }

    /// Takes the circuits whose end a router had reported before it went.
    pub(super) fn take_of(&self, router: &Id, now: Instant) -> Vec<FormerRouters> {
        let mut noted = self.0.lock();
        let numbers = noted.by_router.remove(router).unwrap_or_default();
        let of_router = numbers.iter().filter_map(|number| noted.circuits.remove(number));
        let young = of_router.filter(|left| now.saturating_duration_since(left.at) < KEPT);
        young.map(|left| FormerRouters { at: now, ..left }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuits::sample;

    /// The number of noted circuits, which all have to be in the index.
    fn count(ended: &EndedCircuits) -> usize {
        let noted = ended.0.lock();
        assert_eq!(
            noted.by_router.values().map(VecDeque::len).sum::<usize>(),
            noted.circuits.len()
        );
        assert!(noted.by_router.values().all(|numbers| !numbers.is_empty()));
        noted.circuits.len()
    }

    #[test]
    fn ended_circuits_are_found_by_the_router_that_reported_them_for_a_while() {
        let (ended, now) = (EndedCircuits::default(), Instant::now());
        let [a, b] = ["a", "b"].map(Id::new);
        ended.note(&sample("old", &["a", "b"], &["l"]), &b, now);
        let later = now + KEPT;
        ended.note(&sample("c1", &["a", "x", "b"], &["l", "m"]), &b, later);
        ended.note(&sample("c2", &["a", "b"], &["l"]), &a, later);
        ended.note(&sample("alone", &["b"], &[]), &b, later);
        assert_eq!(count(&ended), 2);
        let taken = ended.take_of(&b, later);
        let told: Vec<_> = taken.iter().map(|left| (&*left.circuit, left.routers.len())).collect();
        assert_eq!(told, [("c1", 2)]);
        assert!(ended.take_of(&b, later).is_empty());
        assert!(ended.take_of(&a, later + KEPT).is_empty(), "its time is over");
        (0..MOST + 10).for_each(|_| ended.note(&sample("c", &["a", "b"], &["l"]), &a, later));
        assert_eq!(count(&ended), MOST);
        assert_eq!(ended.take_of(&a, later).len(), MOST);
        assert_eq!(count(&ended), 0);
    }

    #[test]
    fn of_too_many_those_that_ended_first_are_forgotten() {
        let (ended, now) = (EndedCircuits::default(), Instant::now());
        let routers = ["a", "b", "c"].map(Id::new);
        for number in 0..MOST + 10 {
            let [by, other] = if number % 2 == 0 { [0, 1] } else { [1, 2] };
            let nodes = [routers[by].as_str(), routers[other].as_str()];
            ended.note(&sample(&number.to_string(), &nodes, &["l"]), &routers[by], now);
        }
        for by in [0, 1] {
            let taken = ended.take_of(&routers[by], now);
            let ids: Vec<usize> = taken.iter().map(|left| left.circuit.parse().unwrap()).collect();
            let expected: Vec<usize> = (10..MOST + 10).filter(|id| id % 2 == by).collect();
            assert_eq!(ids, expected);
        }
        assert_eq!(count(&ended), 0);
    }
}
