//! Records the routes that routers were told for a circuit, and derives the routes that a new path
//! needs. Pure.
//!
//! Routers add a new route to those that they know: payloads from an address go to the last
//! destination that was named for that address. A route that was not answered may or may not be in
//! effect.

use weft_model::Id;
use weft_paths::path::Path;
use weft_wire::ctrl::route::Forward;

use super::super::circuits::Circuit;
use super::super::routes;

/// A route that a router may have been told: payloads from one address go to another.
#[derive(Debug, PartialEq)]
struct KnownRoute {
    from: String,
    to: String,
    is_certain: bool,
}

/// The routes that each router may have been told for a circuit. There are few routers.
#[derive(Debug, Default)]
pub(crate) struct KnownRoutes {
    routers: Vec<(Id, Vec<KnownRoute>)>,
    /// Whether other routes than those of the circuit's path are known.
    has_others: bool,
}

/// The routes to send, in two steps: first the new ones, then those that replace others.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) new: Vec<(Id, Vec<Forward>)>,
    pub(super) changing: Vec<(Id, Vec<Forward>)>,
}

impl Steps {
    /// All routers in the steps.
    pub(super) fn routers(&self) -> Vec<&Id> {
        let mut routers: Vec<&Id> =
            self.new.iter().chain(&self.changing).map(|(router, _)| router).collect();
        routers.sort_unstable();
        routers.dedup();
        routers
    }
}

impl KnownRoutes {
    fn of(&self, router: &Id) -> Option<&Vec<KnownRoute>> {
        self.routers.iter().find(|(it, _)| it == router).map(|(_, ways)| ways)
    }

    /// Changes the routes that a router may have been told.
    fn change(&mut self, router: &Id, change: impl FnOnce(&mut Vec<KnownRoute>)) {
        match self.routers.iter_mut().find(|(it, _)| it == router) {
            Some((_, ways)) => change(ways),
            None => {
                let mut ways = Vec::new();
                change(&mut ways);
                self.routers.push((router.clone(), ways));
            }
        }
    }

    /// Adds the routes of the circuit's path: certain for routers that have not lost them.
    pub(super) fn add_path(&mut self, circuit: &Circuit, is_certain: impl Fn(&Id) -> bool) {
        for (router, hops) in routes::hops(&circuit.path, &circuit.ingress, &circuit.egress) {
            let is_certain = is_certain(router);
            self.change(router, |ways| {
                hops.iter().for_each(|hop| note(ways, hop.from, hop.to, is_certain));
            });
        }
    }

    /// Notes that a router is being told these routes.
    pub(super) fn told(&mut self, router: &Id, forwards: &[Forward]) {
        self.has_others = true;
        self.change(router, |ways| {
            forwards.iter().for_each(|it| note(ways, &it.src_address, &it.dst_address, false));
        });
    }

    /// Notes that a router has set these routes up.
    pub(super) fn confirmed(&mut self, router: &Id, forwards: &[Forward]) {
        self.change(router, |ways| {
            for forward in forwards {
                ways.retain(|way| way.from != forward.src_address || way.to == forward.dst_address);
                note(ways, &forward.src_address, &forward.dst_address, true);
            }
        });
    }

    /// How many routes are known.
    pub(super) fn len(&self) -> usize {
        self.routers.iter().map(|(_, ways)| ways.len()).sum()
    }

    /// Notes that each router may have lost its routes.
    pub(super) fn doubt(&mut self) {
        let ways = self.routers.iter_mut().flat_map(|(_, ways)| ways);
        ways.for_each(|way| way.is_certain = false);
    }

    /// Routers that may have routes of the circuit and are not on a path.
    pub(super) fn beside(&self, path: &Path) -> Vec<Id> {
        let routers = self.routers.iter().map(|(router, _)| router);
        routers.filter(|router| !path.nodes.contains(router)).cloned().collect()
    }

    /// The addresses from which payloads may come to routers, whatever routes are in effect.
    fn reached<'a>(&'a self, circuit: &'a Circuit) -> Vec<(&'a Id, &'a str)> {
        let first = circuit.path.first().map(|router| (router, circuit.ingress.as_str()));
        let last = circuit.path.last().map(|router| (router, circuit.egress.as_str()));
        let mut open: Vec<_> = first.into_iter().chain(last).collect();
        let mut reached = Vec::new();
        while let Some(next) = open.pop() {
            if reached.contains(&next) {
                continue;
            }
            reached.push(next);
            let (router, address) = next;
            let ways = self.of(router).into_iter().flatten().filter(|way| way.from == address);
            for way in ways {
                let behind = self.routers.iter().filter(|(other, ways)| {
                    other != router && ways.iter().any(|it| it.from == way.to)
                });
                open.extend(behind.map(|(other, _)| (other, way.to.as_str())));
            }
        }
        reached
    }

    /// The steps by which a circuit takes a path. A route that replaces another one waits for the second step, unless
    /// no payload can come where it holds: the routes of a try that failed are replaced before payloads take the path.
    pub(super) fn steps(&self, circuit: &Circuit, path: &Path) -> Steps {
        let mut steps = Steps::default();
        // Of a circuit that is known in part, nobody knows all routes.
        let reached = (self.has_others && circuit.is_whole).then(|| self.reached(circuit));
        let is_reached = |router, address| {
            reached.as_ref().is_none_or(|reached| reached.contains(&(router, address)))
        };
        for (router, hops) in routes::hops(path, &circuit.ingress, &circuit.egress) {
            let known = self.of(router).map_or(&[][..], Vec::as_slice);
            let (mut new, mut changing) = (Vec::new(), Vec::new());
            for hop in hops {
                let mut same = known.iter().filter(|way| way.from == hop.from);
                let replaces = same.clone().any(|way| way.to != hop.to);
                if replaces && is_reached(router, hop.from) {
                    changing.push(Forward::from(hop));
                } else if replaces || !same.any(|way| way.is_certain) {
                    new.push(Forward::from(hop));
                }
            }
            for (step, forwards) in [(&mut steps.new, new), (&mut steps.changing, changing)] {
                if !forwards.is_empty() {
                    step.push((router.clone(), forwards));
                }
            }
        }
        steps
    }
}

fn note(ways: &mut Vec<KnownRoute>, from: &str, to: &str, is_certain: bool) {
    match ways.iter_mut().find(|way| way.from == from && way.to == to) {
        Some(way) => way.is_certain |= is_certain,
        None => ways.push(KnownRoute { from: from.to_owned(), to: to.to_owned(), is_certain }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuits::sample as circuit;

    type Said<'a> = Vec<(&'a str, Vec<(&'a str, &'a str)>)>;

    fn said(step: &[(Id, Vec<Forward>)]) -> Said<'_> {
        step.iter()
            .map(|(router, all)| {
                let all = all.iter().map(|it| (&*it.src_address, &*it.dst_address));
                (router.as_str(), all.collect())
            })
            .collect()
    }

    #[test]
    fn routers_hear_what_they_do_not_know_and_no_more() {
        let before = circuit("c", &["a", "b", "c", "d"], &["ab", "bc", "cd"]);
        let after = circuit("c", &["a", "b", "x", "d"], &["ab", "bx", "xd"]).path;
        let mut known = KnownRoutes::default();
        known.add_path(&before, |_| true);
        let steps = known.steps(&before, &after);
        let new = vec![
            ("b", vec![("bx", "ab")]),
            ("x", vec![("bx", "xd"), ("xd", "bx")]),
            ("d", vec![("xd", "E")]),
        ];
        assert_eq!(said(&steps.new), new, "a hears nothing");
        let changing = vec![("b", vec![("ab", "bx")]), ("d", vec![("E", "xd")])];
        assert_eq!(said(&steps.changing), changing);
        assert_eq!(steps.routers(), [&Id::new("b"), &Id::new("d"), &Id::new("x")]);
        // One of the routers has lost its routes, and it is not known which.
        let mut known = KnownRoutes::default();
        known.add_path(&before, |_| false);
        let again = known.steps(&before, &before.path);
        assert_eq!((again.new.len(), again.changing.len()), (4, 0));
        let all = known.steps(&before, &after);
        let mut known = KnownRoutes::default();
        known.add_path(&before, |router| router.as_str() != "c");
        assert_eq!(said(&known.steps(&before, &before.path).new)[0].0, "c");
        assert_eq!(said(&all.new)[0], ("a", vec![("I", "ab"), ("ab", "I")]));
    }

    #[test]
    fn what_may_have_been_heard_is_said_again() {
        let before = circuit("c", &["a", "b"], &["l1"]);
        let after = circuit("c", &["a", "b"], &["l2"]).path;
        let mut known = KnownRoutes::default();
        known.add_path(&before, |_| true);
        let steps = known.steps(&before, &after);
        for (router, forwards) in &steps.new {
            known.told(router, forwards);
        }
        known.confirmed(&steps.new[0].0, &steps.new[0].1);
        let (router, forwards) = &steps.changing[0];
        known.told(router, forwards);
        let next = known.steps(&before, &after);
        assert_eq!(said(&next.new), [("b", vec![("l2", "E")])], "a has said that it knows");
        assert_eq!(said(&next.changing), [("a", vec![("I", "l2")]), ("b", vec![("E", "l2")])]);
        // The circuit goes back to its former path, whose routes router a may have replaced.
        let back = known.steps(&before, &before.path);
        assert_eq!(said(&back.changing), [("a", vec![("I", "l1")])]);
        assert!(back.new.is_empty());
        let (router, forwards) = &back.changing[0];
        known.confirmed(router, forwards);
        assert!(known.steps(&before, &before.path).changing.is_empty());
        assert!(known.beside(&before.path).is_empty());
    }
}
