//! The circuits of this router as its controllers see them. Pure: nothing is sent here, and no time passes.
//!
//! A circuit has an owner: the controller that has routed it over this router. Reports about the circuit go to its owner,
//! and only its owner moves and ends it. Another controller takes the circuit over by a route of a higher *term*, the
//! number of times that the circuit has changed its controller; controllers of other programs know no terms, so that
//! their circuits stay with the first one.
//!
//! ```text
//!           | a route begins     | is set up | fails                 | unroute               | lost by the data half
//!  unknown  | routing            |           |                       | passed on             |
//!  routing  | routing, one more  | carried   | routing, last: unknown | unknown, all given up | routing
//!  carried  | carried, one more  | carried   | carried               | unknown, all given up | unknown
//! ```
//!
//! In each state, a route and an unroute of a controller that does not own the circuit are refused, unless the term is
//! higher; with a higher term the sender is the owner from then on. A route that was given up has no effect, whenever it
//! ends.

use std::collections::HashMap;

use tokio_util::sync::CancellationToken;
use weft_wire::ctrl::{self, DestType, Route, Unroute};
use weft_xgress::Role;

use crate::seam::ControllerId;

/// Most ways of a circuit that are kept for payloads of former neighbours, to which the circuit sends
/// nothing any more. The data half keeps as many. A controller adopts no route of more than 2 KiB.
const LEFT: usize = 8;

/// Most ways of a circuit that are kept. A router between the ends may be led a circuit over two other links again and
/// again, and does not hear which ways are not used any more.
const MOST_WAYS: usize = 2 * (LEFT + 1);

/// A command about a circuit that another controller owns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the circuit belongs to controller {owner}, not to {sender}")]
pub(super) struct NotOwner {
    owner: ControllerId,
    sender: ControllerId,
}

/// The circuits of this router.
#[derive(Debug, Default)]
pub(super) struct CircuitTable(HashMap<String, Circuit>);

/// A circuit that is routed over this router, or is about to be.
#[derive(Debug)]
struct Circuit {
    owner: ControllerId,
    term: u64,
    /// The route that is in effect; none before the first one is set up.
    route: Option<Route>,
    /// The routes that are being set up, if there are any.
    under_way: Option<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    routes: usize,
    /// Cancelled when the circuit is taken down: its routes that are not complete are given up.
    taken_down: CancellationToken,
}

impl Circuit {
    /// Takes note of a command. The owner may command anything, another controller with a higher term only.
    fn obey(&mut self, sender: &ControllerId, term: u64) -> Result<(), NotOwner> {
        if self.owner != *sender && term <= self.term {
            return Err(NotOwner { owner: self.owner.clone(), sender: sender.clone() });
        }
        (self.owner, self.term) = (sender.clone(), self.term.max(term));
        Ok(())
    }

    /// Whether nothing is known of the circuit any more.
    fn is_over(&self) -> bool {
        self.route.is_none() && self.under_way.is_none()
    }

    /// The route for a report.
    fn carried(&self) -> Option<Route> {
        self.route.as_ref().map(|route| Route { term: self.term, ..route.clone() })
    }
}

impl CircuitTable {
    /// A controller sends a route. The token is cancelled if the circuit is taken down before [`end`](Self::end).
    pub(super) fn begin(
        &mut self,
        sender: &ControllerId,
        route: &Route,
    ) -> Result<CancellationToken, NotOwner> {
        let circuit = match self.0.get_mut(&route.circuit_id) {
            Some(circuit) => circuit,
            None => {
                let (owner, term) = (sender.clone(), route.term);
                let new = Circuit { owner, term, route: None, under_way: None };
                self.0.entry(route.circuit_id.clone()).or_insert(new)
            }
        };
        circuit.obey(sender, route.term)?;
        let under_way = circuit
            .under_way
            .get_or_insert_with(|| UnderWay { routes: 0, taken_down: CancellationToken::new() });
        under_way.routes += 1;
        Ok(under_way.taken_down.clone())
    }

    /// The end of a route that was begun with this token: `done` is the route if it was set up. False if the circuit was
    /// taken down meanwhile.
    pub(super) fn end(
        &mut self,
        id: &str,
        taken_down: &CancellationToken,
        done: Option<Route>,
    ) -> bool {
        // An unroute cancels the routes first, so that the circuit of this id is the same one.
        let circuit = self.0.get_mut(id).filter(|_| !taken_down.is_cancelled());
        let Some(circuit) = circuit else { return false };
        let routes = circuit.under_way.as_ref().map_or(0, |under_way| under_way.routes);
        match &mut circuit.under_way {
            Some(under_way) if routes > 1 => under_way.routes -= 1,
            _ => circuit.under_way = None,
        }
        if let Some(route) = done {
            keep(&mut circuit.route, route);
        }
        if circuit.is_over() {
            self.0.remove(id);
        }
        true
    }

    /// A controller ends a circuit: its routes that are under way are given up.
    pub(super) fn unroute(
        &mut self,
        sender: &ControllerId,
        unroute: &Unroute,
    ) -> Result<(), NotOwner> {
        let id = &unroute.circuit_id;
        let Some(circuit) = self.0.get_mut(id) else { return Ok(()) };
        circuit.obey(sender, unroute.term)?;
        let under_way = self.0.remove(id).and_then(|circuit| circuit.under_way);
        under_way.iter().for_each(|under_way| under_way.taken_down.cancel());
        Ok(())
    }

    /// The route of a circuit is in effect no more. Routes that are under way go on.
    pub(super) fn forget(&mut self, id: &str) {
        let Some(circuit) = self.0.get_mut(id) else { return };
        circuit.route = None;
        if circuit.is_over() {
            self.0.remove(id);
        }
    }

    /// The controller that owns a circuit; none if the circuit is not known.
    pub(super) fn owner(&self, id: &str) -> Option<&ControllerId> {
        self.0.get(id).map(|circuit| &circuit.owner)
    }

    /// The circuits with a route in effect and none under way.
    pub(super) fn settled(&self) -> Vec<String> {
        let settled = self.0.iter().filter(|(_, circuit)| circuit.under_way.is_none());
        settled.map(|(id, _)| id.clone()).collect()
    }

    /// The routes of a controller's circuits, for a report.
    pub(super) fn of(&self, owner: &str) -> Vec<Route> {
        let of_owner = self.0.values().filter(|circuit| *circuit.owner == *owner);
        of_owner.filter_map(Circuit::carried).collect()
    }

    /// The addresses on this router at which a circuit begins or ends.
    pub(super) fn ends_of(&self, id: &str) -> Vec<(String, Role)> {
        let route = self.0.get(id).and_then(|circuit| circuit.route.as_ref());
        let ways = route.into_iter().flat_map(|route| &route.forwards);
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
    pub(super) fn get(&self, id: &str) -> Option<(ControllerId, Route)> {
        let circuit = self.0.get(id)?;
        Some((circuit.owner.clone(), circuit.carried()?))
    }

    /// All circuits with owners and routes, for inspection.
    pub(super) fn all(&self) -> Vec<(ControllerId, Route)> {
        let one = |circuit: &Circuit| Some((circuit.owner.clone(), circuit.carried()?));
        self.0.values().filter_map(one).collect()
    }
}

/// Keeps a route that was set up, without its secrets. A route that moves the circuit has no egress and names only new
/// ways: the other ways stay. Another attempt at making the circuit replaces the earlier ones.
fn keep(known: &mut Option<Route>, mut route: Route) {
    route.context = None;
    route.timeout = 0;
    if let Some(egress) = &mut route.egress {
        egress.peer_data.clear();
    }
    let Some(known) = known else {
        *known = Some(route);
        return;
    };
    if route.is_reroute() {
        add(&mut known.forwards, route.forwards);
    } else {
        known.forwards = route.forwards;
    }
    if route.egress.is_some() {
        known.egress = route.egress;
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
    use weft_wire::ctrl::{DestType, REROUTE_ATTEMPT, route};

    use super::*;

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

    fn id(controller: &str) -> ControllerId {
        controller.into()
    }

    fn unroute(circuit: &str, term: u64) -> Unroute {
        Unroute { circuit_id: circuit.to_owned(), now: true, term }
    }

    /// Sets a route up at once.
    fn set_up(table: &mut CircuitTable, by: &str, route: Route) -> bool {
        let circuit = route.circuit_id.clone();
        match table.begin(&id(by), &route) {
            Ok(taken_down) => table.end(&circuit, &taken_down, Some(route)),
            Err(_) => false,
        }
    }

    #[test]
    fn a_reroute_keeps_the_egress_and_secrets_are_not_kept() {
        let mut table = CircuitTable::default();
        assert!(set_up(&mut table, "c", route("x", true)));
        let mut moved = route("x", false);
        moved.attempt = REROUTE_ATTEMPT;
        moved.forwards[0].dst_address = "l2".into();
        assert!(set_up(&mut table, "c", moved));
        let kept = table.of("c");
        assert_eq!(kept.len(), 1);
        let egress = kept[0].egress.as_ref().unwrap();
        assert!(egress.peer_data.is_empty());
        assert_eq!(
            (egress.destination.as_str(), kept[0].forwards[0].dst_address.as_str()),
            ("t1", "l2")
        );
        assert!(table.of("other").is_empty());
    }

    #[test]
    fn a_circuit_that_moved_is_told_whole() {
        let mut table = CircuitTable::default();
        let way = |from: &str, to: &str, kind: DestType| route::Forward {
            src_address: from.into(),
            dst_address: to.into(),
            dst_type: kind.into(),
        };
        let told = |attempt, forwards| Route { attempt, forwards, ..route("x", false) };
        let (start, link) = (DestType::Start, DestType::Link);
        // It is made, and moves in two steps to another link.
        let made = vec![way("I", "l1", link), way("l1", "I", start)];
        assert!(set_up(&mut table, "c", told(0, made)));
        for step in [way("l2", "I", start), way("I", "l2", link)] {
            assert!(set_up(&mut table, "c", told(REROUTE_ATTEMPT, vec![step])));
        }
        let kept = table.of("c").remove(0).forwards;
        let expected = [way("l1", "I", start), way("l2", "I", start), way("I", "l2", link)];
        assert_eq!(kept, expected);
        // After many moves the report is still small, and has the ways that count.
        for number in 0..100 {
            let to = format!("a-link-with-a-long-name-{number}");
            for step in [way(&to, "I", start), way("I", &to, link)] {
                assert!(set_up(&mut table, "c", told(REROUTE_ATTEMPT, vec![step])));
            }
        }
        let kept = table.of("c").remove(0).forwards;
        let last = "a-link-with-a-long-name-99";
        assert_eq!(kept.len(), LEFT + 2);
        assert_eq!(kept[LEFT..], [way(last, "I", start), way("I", last, link)]);
        // A router between the ends forgets former pairs of links, too.
        for number in 0..100 {
            let [one, other] = ["one", "other"].map(|it| format!("{it}-link-with-a-name-{number}"));
            let pair = vec![way(&one, &other, link), way(&other, &one, link)];
            assert!(set_up(&mut table, "c", told(REROUTE_ATTEMPT, pair)));
        }
        let kept = table.of("c").remove(0).forwards;
        assert_eq!(kept.len(), MOST_WAYS);
        assert_eq!(kept[MOST_WAYS - 1].src_address, "other-link-with-a-name-99");
        // Another attempt at making it begins anew.
        let again = vec![way("I", "l3", link), way("l3", "I", start)];
        assert!(set_up(&mut table, "c", told(1, again.clone())));
        assert_eq!(table.of("c").remove(0).forwards, again);
    }

    #[test]
    fn a_circuit_that_is_taken_down_takes_along_the_routes_that_are_under_way() {
        let mut table = CircuitTable::default();
        let c = id("c");
        let [x, y] = ["x", "y"].map(|circuit| route(circuit, true));
        let (first, second) = (table.begin(&c, &x).unwrap(), table.begin(&c, &x).unwrap());
        let other = table.begin(&c, &y).unwrap();
        assert!(table.end("x", &first, None));
        table.unroute(&c, &unroute("x", 0)).unwrap();
        assert!(second.is_cancelled() && !other.is_cancelled());
        let later = table.begin(&c, &x).unwrap();
        assert!(!later.is_cancelled(), "a later route of the circuit is set up");
        assert!(!table.end("x", &second, Some(x.clone())), "it was given up");
        assert!(table.of("c").is_empty());
        assert!(table.end("x", &later, Some(x)));
        assert!(table.end("y", &other, None));
        assert_eq!(table.of("c").len(), 1);
        table.forget("x");
        assert!(table.0.is_empty());
    }

    #[test]
    fn a_circuit_has_one_owner_until_another_controller_has_a_higher_term() {
        let mut table = CircuitTable::default();
        let term = |term| Route { term, ..route("x", true) };
        assert!(set_up(&mut table, "a", term(0)));
        // The controller of another program, or one that has lost the circuit.
        assert!(!set_up(&mut table, "b", term(0)));
        assert!(table.unroute(&id("b"), &unroute("x", 0)).is_err());
        assert_eq!(table.owner("x"), Some(&id("a")));
        // It takes the circuit over.
        assert!(set_up(&mut table, "b", term(1)));
        assert_eq!(table.owner("x"), Some(&id("b")));
        assert_eq!((table.of("a").len(), table.of("b")[0].term), (0, 1));
        assert!(!set_up(&mut table, "a", term(0)) && !set_up(&mut table, "a", term(1)));
        assert!(table.unroute(&id("a"), &unroute("x", 1)).is_err());
        // The owner need not name its term.
        assert!(set_up(&mut table, "b", term(0)));
        assert_eq!(table.of("b")[0].term, 1);
        let refused = table.unroute(&id("a"), &unroute("x", 0)).unwrap_err();
        assert_eq!(refused.to_string(), "the circuit belongs to controller b, not to a");
        table.unroute(&id("a"), &unroute("x", 2)).unwrap();
        assert_eq!(table.owner("x"), None);
    }

    /// Whatever happens in whatever order: a circuit is known while a route of it is in effect or under way, a route
    /// that was given up leaves nothing, and the term of a circuit never goes down.
    #[test]
    fn circuits_are_known_as_long_as_they_have_routes() {
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut table = CircuitTable::default();
        let mut under_way: Vec<(String, CancellationToken)> = Vec::new();
        for _ in 0..50_000 {
            let (circuit, by) = (format!("x{}", next(4)), id(["a", "b", "c"][next(3) as usize]));
            let before = table.0.get(&circuit).map(|it| (it.owner.clone(), it.term));
            let term = next(3) + before.as_ref().map_or(0, |(_, term)| *term).saturating_sub(1);
            let may = before.as_ref().is_none_or(|(owner, of)| *owner == by || term > *of);
            match next(5) {
                0 | 1 => {
                    let begun = table.begin(&by, &Route { term, ..route(&circuit, true) });
                    assert_eq!(begun.is_ok(), may, "{before:?} {by} {term}");
                    under_way.extend(begun.map(|token| (circuit.clone(), token)));
                }
                2 if !under_way.is_empty() => {
                    let at = next(under_way.len() as u64) as usize;
                    let (circuit, token) = under_way.swap_remove(at);
                    let done = (next(2) == 0).then(|| route(&circuit, true));
                    assert_eq!(table.end(&circuit, &token, done), !token.is_cancelled());
                }
                3 => {
                    assert_eq!(table.unroute(&by, &unroute(&circuit, term)).is_ok(), may);
                    assert_eq!(table.owner(&circuit).is_some(), !may && before.is_some());
                }
                _ => table.forget(&circuit),
            }
            under_way.retain(|(_, token)| !token.is_cancelled());
            for (id, it) in &table.0 {
                let routes = under_way.iter().filter(|(of, _)| of == id).count();
                assert_eq!(it.under_way.as_ref().map_or(0, |under_way| under_way.routes), routes);
                assert!(!it.is_over(), "{it:?}");
            }
            assert!(under_way.iter().all(|(id, _)| table.0.contains_key(id)));
            let after = table.0.get(&circuit).map_or(u64::MAX, |it| it.term);
            assert!(before.is_none_or(|(_, term)| term <= after));
        }
    }
}
