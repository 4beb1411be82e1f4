//! Routes under way, and routes that were applied.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use weft_metrics::Histogram;
use weft_wire::{
    Message,
    ctrl::{self, DestType, Route},
};
use weft_xgress::Role;

use super::places::Places;
use crate::{
    control::faults::{Faults, Holds},
    seam::{self, ControllerId},
};

/// Most ways of a circuit that are kept for payloads of former neighbours, to which the circuit sends
/// nothing any more. The data half keeps as many. A controller adopts no route of more than 2 KiB.
const LEFT: usize = 8;

/// Most ways of a circuit that are kept. A router between the ends may be led a circuit over two other links again and
/// again, and does not hear which ways are not used any more.
const MOST_WAYS: usize = 2 * (LEFT + 1);

/// Routes under way, applied routes, and reports that wait for controllers.
#[derive(Debug)]
pub(crate) struct Routes {
    /// The places of routes that dial.
    pub(in crate::control) places: Arc<Places>,
    /// Routes that wait for a worker or are under way, by circuit.
    waiting: Mutex<HashMap<String, Waiting>>,
    carried: Mutex<HashMap<String, Carried>>,
    /// Reports that wait for the owners of circuits.
    pub(super) faults: Faults,
    /// How long it took to set routes up.
    pub(super) times: Arc<Histogram>,
}

/// Routes of one circuit that wait for a worker or are under way.
#[derive(Debug, Default)]
struct Waiting {
    routes: usize,
    /// Cancelled when the circuit is taken down: routes of it that are not complete are given up.
    taken_down: CancellationToken,
}

/// A route that was applied.
#[derive(Debug)]
struct Carried {
    owner: ControllerId,
    route: Route,
}

impl Routes {
    pub(crate) fn new(workers: usize, queue: usize) -> Self {
        Self {
            places: Places::new(workers, queue),
            times: Arc::new(Histogram::times()),
            waiting: Mutex::default(),
            carried: Mutex::default(),
            faults: Faults::default(),
        }
    }

    /// How long it took to set routes up.
    pub(in crate::control) fn times(&self) -> Arc<Histogram> {
        Arc::clone(&self.times)
    }

    /// Notes that a route has come. Called in the order of the messages, so that a later command to
    /// take the circuit down cancels the returned token, and an earlier one does not.
    pub(super) fn begin_wait(&self, circuit: &str) -> CancellationToken {
        let mut waiting = self.waiting.lock();
        let of_circuit = waiting.entry(circuit.to_owned()).or_default();
        of_circuit.routes += 1;
        of_circuit.taken_down.clone()
    }

    /// Notes that setting up a route is over. If its circuit was taken down meanwhile, the route is
    /// not counted any more.
    pub(super) fn end_wait(&self, circuit: &str, taken_down: &CancellationToken) {
        let mut waiting = self.waiting.lock();
        if !taken_down.is_cancelled()
            && let Some(of_circuit) = waiting.get_mut(circuit)
        {
            of_circuit.routes -= 1;
            if of_circuit.routes == 0 {
                waiting.remove(circuit);
            }
        }
    }

    /// Cancels the routes of a circuit that is taken down.
    pub(super) fn take_down(&self, circuit: &str) {
        let mut waiting = self.waiting.lock();
        if let Some(of_circuit) = waiting.remove(circuit) {
            of_circuit.taken_down.cancel();
        }
    }

    /// Keeps a route that was applied. A route that moves the circuit has no egress and names only new
    /// ways: the other ways stay. False if the circuit was taken down meanwhile.
    pub(super) fn keep(
        &self,
        owner: &ControllerId,
        mut route: Route,
        taken_down: &CancellationToken,
    ) -> bool {
        route.context = None;
        route.timeout = 0;
        if let Some(egress) = &mut route.egress {
            egress.peer_data.clear();
        }
        let mut carried = self.carried.lock();
        // An unroute cancels the routes first, and then has the circuit forgotten.
        if taken_down.is_cancelled() {
            return false;
        }
        if let Some(former) = carried.get_mut(&route.circuit_id) {
            former.owner = owner.clone();
            if route.is_reroute() {
                add(&mut former.route.forwards, route.forwards);
            } else {
                // Another attempt replaces the earlier ones.
                former.route.forwards = route.forwards;
            }
            if route.egress.is_some() {
                former.route.egress = route.egress;
            }
            return true;
        }
        carried.insert(route.circuit_id.clone(), Carried { owner: owner.clone(), route });
        true
    }

    /// Queues the report of a circuit's end for a controller, in order with its other reports.
    pub(in crate::control) fn push_end(&self, controller: &ControllerId, news: Message) {
        self.faults.push(controller, news);
    }

    /// Queues a report of a link for a controller, in order with its other reports.
    pub(in crate::control) fn push_link(
        &self,
        controller: &ControllerId,
        news: Message,
        holds: Holds,
    ) {
        self.faults.push_link(controller, news, holds);
    }

    /// Drops the reports for controllers that are not connected and that `stays` does not name.
    pub(in crate::control) fn retain_reports(&self, stays: impl Fn(&ControllerId) -> bool) {
        self.faults.retain(stays);
    }

    pub(super) fn forget(&self, circuit: &str) {
        self.carried.lock().remove(circuit);
    }

    /// Forgets circuits that the data half no longer has.
    pub(crate) fn prune(&self, data: &dyn seam::Data) {
        let mut owners: Vec<ControllerId> =
            self.carried.lock().values().map(|one| one.owner.clone()).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            let known: Vec<String> = {
                let carried = self.carried.lock();
                let of_owner = carried.iter().filter(|(_, one)| one.owner == owner);
                of_owner.map(|(id, _)| id.clone()).collect()
            };
            let live: HashSet<String> = data.circuits_of(&owner).into_iter().collect();
            let mut carried = self.carried.lock();
            known.iter().filter(|id| !live.contains(*id)).for_each(|id| {
                carried.remove(id);
            });
        }
    }

    /// The routes of a controller's circuits, for a report.
    pub(crate) fn of(&self, owner: &str) -> Vec<Route> {
        let carried = self.carried.lock();
        let of_owner = carried.values().filter(|one| *one.owner == *owner);
        of_owner.map(|one| one.route.clone()).collect()
    }

    /// The addresses on this router at which a circuit begins or ends.
    pub(super) fn ends_of(&self, circuit: &str) -> Vec<(String, Role)> {
        let carried = self.carried.lock();
        let ways = carried.get(circuit).into_iter().flat_map(|one| &one.route.forwards);
        let end = |way: &ctrl::route::Forward| {
            let role = match way.dst_type() {
                DestType::Start => Role::Initiator,
                DestType::End => Role::Terminator,
                DestType::Link => return None,
            };
            Some((way.dst_address.clone(), role))
        };
        ways.filter_map(end).collect()
    }

    /// The owner and the route of one circuit, for inspection.
    pub(crate) fn get(&self, circuit: &str) -> Option<(ControllerId, Route)> {
        self.carried.lock().get(circuit).map(|one| (one.owner.clone(), one.route.clone()))
    }

    /// All circuits with owners and routes, for inspection.
    pub(crate) fn all(&self) -> Vec<(ControllerId, Route)> {
        self.carried.lock().values().map(|one| (one.owner.clone(), one.route.clone())).collect()
    }
}

/// Adds ways: the last route that names an address decides where its messages go. The oldest ways that
/// the circuit has left are forgotten, because a circuit may be moved as long as it lives.
fn add(known: &mut Vec<ctrl::route::Forward>, new: Vec<ctrl::route::Forward>) {
    known.retain(|way| new.iter().all(|it| it.src_address != way.src_address));
    known.extend(new);
    let is_left =
        |way: &ctrl::route::Forward| known.iter().all(|to| to.dst_address != way.src_address);
    let left: Vec<bool> = known.iter().map(is_left).collect();
    let mut over = left.iter().filter(|is_left| **is_left).count().saturating_sub(LEFT);
    let mut left = left.into_iter();
    known.retain(|_| {
        let goes = over > 0 && left.next().unwrap_or_default();
        over -= usize::from(goes);
        !goes
    });
    known.drain(..known.len().saturating_sub(MOST_WAYS));
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::ctrl::{DestType, REROUTE_ATTEMPT, route};

    fn route(circuit: &str, egress: bool) -> Route {
        Route {
            circuit_id: circuit.to_owned(),
            egress: egress.then(|| route::Egress {
                binding: "edge".into(),
                address: "E".into(),
                destination: "t1".into(),
                peer_data: [(1003, "key".into())].into(),
            }),
            forwards: vec![route::Forward {
                src_address: "I".into(),
                dst_address: "E".into(),
                dst_type: DestType::End.into(),
            }],
            timeout: 10_000_000_000,
            ..Route::default()
        }
    }

    #[test]
    fn a_reroute_keeps_the_egress_and_secrets_are_not_kept() {
        let routes = Routes::new(1, 1);
        let owner: ControllerId = "c".into();
        let stands = CancellationToken::new();
        assert!(routes.keep(&owner, route("x", true), &stands));
        let mut moved = route("x", false);
        moved.attempt = REROUTE_ATTEMPT;
        moved.forwards[0].dst_address = "l2".into();
        assert!(routes.keep(&owner, moved, &stands));
        let kept = routes.of("c");
        assert_eq!(kept.len(), 1);
        let egress = kept[0].egress.as_ref().unwrap();
        assert!(egress.peer_data.is_empty());
        assert_eq!(
            (egress.destination.as_str(), kept[0].forwards[0].dst_address.as_str()),
            ("t1", "l2")
        );
        assert!(routes.of("other").is_empty());
        stands.cancel();
        assert!(!routes.keep(&owner, route("y", true), &stands));
        assert_eq!(routes.of("c").len(), 1);
    }

    #[test]
    fn a_circuit_that_moved_is_told_whole() {
        let routes = Routes::new(1, 1);
        let (owner, stands): (ControllerId, _) = ("c".into(), CancellationToken::new());
        let way = |from: &str, to: &str, kind: DestType| route::Forward {
            src_address: from.into(),
            dst_address: to.into(),
            dst_type: kind.into(),
        };
        let told = |attempt, forwards| Route { attempt, forwards, ..route("x", false) };
        let (start, link) = (DestType::Start, DestType::Link);
        // It is made, and moves in two steps to another link.
        let made = vec![way("I", "l1", link), way("l1", "I", start)];
        assert!(routes.keep(&owner, told(0, made), &stands));
        for step in [way("l2", "I", start), way("I", "l2", link)] {
            assert!(routes.keep(&owner, told(REROUTE_ATTEMPT, vec![step]), &stands));
        }
        let kept = routes.of("c").remove(0).forwards;
        let expected = [way("l1", "I", start), way("l2", "I", start), way("I", "l2", link)];
        assert_eq!(kept, expected);
        // After many moves the report is still small, and has the ways that count.
        for number in 0..100 {
            let to = format!("a-link-with-a-long-name-{number}");
            for step in [way(&to, "I", start), way("I", &to, link)] {
                assert!(routes.keep(&owner, told(REROUTE_ATTEMPT, vec![step]), &stands));
            }
        }
        let kept = routes.of("c").remove(0).forwards;
        let last = "a-link-with-a-long-name-99";
        assert_eq!(kept.len(), LEFT + 2);
        assert_eq!(kept[LEFT..], [way(last, "I", start), way("I", last, link)]);
        // A router between the ends forgets former pairs of links, too.
        for number in 0..100 {
            let [one, other] = ["one", "other"].map(|it| format!("{it}-link-with-a-name-{number}"));
            let pair = vec![way(&one, &other, link), way(&other, &one, link)];
            assert!(routes.keep(&owner, told(REROUTE_ATTEMPT, pair), &stands));
        }
        let kept = routes.of("c").remove(0).forwards;
        assert_eq!(kept.len(), MOST_WAYS);
        assert_eq!(kept[MOST_WAYS - 1].src_address, "other-link-with-a-name-99");
        // Another attempt at making it begins anew.
        let again = vec![way("I", "l3", link), way("l3", "I", start)];
        assert!(routes.keep(&owner, told(1, again.clone()), &stands));
        assert_eq!(routes.of("c").remove(0).forwards, again);
    }

    #[test]
    fn a_circuit_that_is_taken_down_takes_along_the_routes_that_wait() {
        let routes = Routes::new(1, 1);
        let (first, second) = (routes.begin_wait("x"), routes.begin_wait("x"));
        let other = routes.begin_wait("y");
        routes.end_wait("x", &first);
        routes.take_down("x");
        assert!(second.is_cancelled() && !other.is_cancelled());
        let later = routes.begin_wait("x");
        assert!(!later.is_cancelled(), "a later route of the circuit is set up");
        routes.end_wait("x", &second);
        routes.take_down("x");
        assert!(later.is_cancelled());
        routes.end_wait("y", &other);
        assert!(routes.waiting.lock().is_empty());
    }
}
