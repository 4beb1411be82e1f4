use std::collections::BTreeMap;

use weft_model::Timestamp;
use weft_wire::ctrl::RouterLink;

use super::*;

/// Routers whose states a test sets.
#[derive(Default)]
struct Routers(Mutex<BTreeMap<Id, (u16, bool)>>);

impl World for Routers {
    fn router(&self, id: &Id) -> Option<(u16, bool)> {
        self.0.lock().get(id).copied()
    }

    fn routers(&self) -> Vec<Id> {
        self.0.lock().keys().cloned().collect()
    }
}

struct Bed {
    routers: Routers,
    links: Links,
    topology: Topology,
}

impl Bed {
    fn new(latency_interval: Duration) -> Self {
        let pending = Arc::new(Pending::default());
        Self {
            routers: Routers::default(),
            links: Links::telling(Arc::clone(&pending)),
            topology: Topology::new(10, latency_interval, pending),
        }
    }

    fn router(&self, id: &str, now: Option<u16>) {
        match now {
            Some(cost) => self.routers.0.lock().insert(Id::new(id), (cost, false)),
            None => self.routers.0.lock().remove(&Id::new(id)),
        };
        self.topology.pending().router(&Id::new(id));
    }

    fn link(&self, id: &str, from: &str, to: &str) {
        let link = RouterLink {
            id: id.into(),
            dest_router_id: to.into(),
            iteration: 1,
            ..RouterLink::default()
        };
        self.links.report(&Id::new(from), &link, Duration::from_millis(50), Timestamp(0));
    }

    fn measure(&self, link: &str, router: &str, millis: u64) {
        self.links.measured(&Id::new(router), [(link, millis * 1_000_000)].into_iter());
    }

    fn version(&self) -> u64 {
        self.topology.current(&self.routers, &self.links).version()
    }

    fn path(&self, from: &str, to: &str) -> Option<(Vec<String>, u32)> {
        let paths_from = self.topology.paths_from(&self.routers, &self.links, &Id::new(from));
        let path = paths_from.path(&Id::new(to))?;
        assert_eq!(Some(path.cost), paths_from.cost(&Id::new(to)));
        // The tree agrees with the graph.
        let found = paths_from.graph().path(&Id::new(from), &Id::new(to));
        assert_eq!(found.as_ref(), Some(&path));
        Some((path.links, path.cost))
    }
}

fn over(links: &[&str], cost: u32) -> Option<(Vec<String>, u32)> {
    Some((links.iter().map(|id| (*id).to_owned()).collect(), cost))
}

/// The paths a - b - d and, at a higher cost, a - c - d.
fn diamond(latency_interval: Duration) -> Bed {
    let bed = Bed::new(latency_interval);
    for (router, cost) in [("a", 0), ("b", 0), ("c", 20), ("d", 0)] {
        bed.router(router, Some(cost));
    }
    for (id, from, to) in [("ab", "a", "b"), ("bd", "b", "d"), ("ac", "a", "c"), ("cd", "d", "c")] {
        bed.link(id, from, to);
    }
    bed
}

#[test]
fn what_comes_and_goes_counts_at_once() {
    let bed = diamond(Duration::from_secs(1_000));
    assert_eq!(bed.path("a", "d"), over(&["ab", "bd"], 2 * 101 + 20));
    bed.links.fault("bd", 0);
    assert_eq!(bed.path("a", "d"), over(&["ac", "cd"], 2 * 101 + 30));
    bed.link("b2", "d", "b");
    assert_eq!(bed.path("a", "d"), over(&["ab", "b2"], 222));
    bed.links.change("b2", Some(200), None);
    assert_eq!(bed.path("a", "d"), over(&["ac", "cd"], 232));
    bed.links.change("b2", Some(1), Some(true));
    assert_eq!(bed.path("a", "d"), over(&["ac", "cd"], 232));
    bed.router("c", None);
    assert_eq!(bed.path("a", "d"), None);
    bed.links.change("b2", None, Some(false));
    bed.router("b", Some(300));
    assert_eq!(bed.path("a", "d"), over(&["ab", "b2"], 512));
    bed.router("c", Some(0));
    assert_eq!(bed.path("a", "d"), over(&["ac", "cd"], 222));
    assert_eq!(bed.path("d", "a"), over(&["cd", "ac"], 222));
    bed.router("a", None);
    assert_eq!((bed.path("a", "d"), bed.path("d", "a")), (None, None));
    // A link that is reported before its routers connect is used once they do.
    bed.link("ae", "a", "e");
    bed.router("e", Some(0));
    bed.router("a", Some(0));
    assert_eq!(bed.path("e", "d"), over(&["ae", "ac", "cd"], 333));
}

/// A noted change is seen by the task that noted it, even while other tasks make a version of
/// it.
#[test]
fn what_was_noted_is_seen_whoever_makes_the_version() {
    let bed = diamond(Duration::ZERO);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let bed = &bed;
            scope.spawn(move || {
                for turn in 0..300 {
                    let id = format!("x{thread}");
                    bed.router(&id, Some(0));
                    bed.link(&format!("l{thread}-{turn}"), &id, "a");
                    assert!(bed.path(&id, "d").is_some());
                    bed.links.take_of(&Id::new(&id));
                    assert!(bed.path(&id, "d").is_none());
                    bed.router(&id, None);
                    assert!(!bed.topology.current(&bed.routers, &bed.links).has(&Id::new(&id)));
                }
            });
        }
    });
}

#[test]
fn nothing_new_makes_no_version() {
    let bed = diamond(Duration::ZERO);
    let version = bed.version();
    assert_eq!(bed.version(), version);
    bed.measure("ab", "a", 51);
    bed.measure("ab", "b", 51);
    assert_eq!(bed.version(), version, "too small to count");
    bed.measure("ab", "a", 10);
    assert_eq!(bed.version(), version + 1);
    let first = bed.topology.current(&bed.routers, &bed.links);
    assert!(Arc::ptr_eq(&first, &bed.topology.current(&bed.routers, &bed.links)), "it is shared");
}

#[test]
fn avoided_routers_are_on_no_path() {
    let bed = diamond(Duration::ZERO);
    let around = |avoided: &[&str]| {
        let paths_from = bed.topology.paths_from(&bed.routers, &bed.links, &Id::new("a"));
        let avoided: Vec<Id> = avoided.iter().map(|id| Id::new(id)).collect();
        paths_from.path_around(&Id::new("d"), &avoided).map(|path| (path.links, path.cost))
    };
    assert_eq!(around(&["b"]), over(&["ac", "cd"], 232));
    assert_eq!(around(&["c", "nobody"]), over(&["ab", "bd"], 222));
    assert_eq!(around(&["b", "c"]), None);
    bed.links.fault("cd", 0);
    assert_eq!(around(&["b"]), None, "of a version that is over");
    assert_eq!(around(&["a", "d"]), over(&["ab", "bd"], 222), "the ends are on every path");
}

#[test]
fn latencies_make_few_versions() {
    let bed = diamond(Duration::from_secs(1_000));
    bed.version();
    bed.measure("ac", "a", 1);
    assert_eq!(bed.path("a", "d"), over(&["ac", "cd"], 52 + 101 + 30), "the first counts at once");
    let version = bed.version();
    for millis in [0, 100, 200] {
        bed.measure("ab", "a", millis);
        bed.measure("bd", "b", millis);
        assert_eq!(bed.version(), version);
    }
    // A change that counts at once does not make latencies count.
    bed.links.fault("cd", 0);
    assert_eq!(bed.path("a", "d"), over(&["ab", "bd"], 222));
    assert_eq!(bed.version(), version + 1);
    let bed = diamond(Duration::from_millis(1));
    bed.measure("ab", "a", 200);
    let deadline = Instant::now() + Duration::from_secs(60);
    bed.version();
    bed.measure("ac", "a", 1);
    while bed.path("a", "d") != over(&["ac", "cd"], 52 + 101 + 30) {
        assert!(Instant::now() < deadline);
    }
}

/// Searches for paths do not wait for changes that are not due.
#[test]
fn latencies_that_are_not_due_hold_nobody_up() {
    let bed = diamond(Duration::from_secs(1_000));
    bed.measure("ab", "a", 1);
    let version = bed.version();
    bed.measure("ab", "a", 200);
    let _made_by_another = bed.topology.making.lock();
    assert_eq!(bed.version(), version);
}

#[test]
fn a_network_that_everybody_left_is_empty() {
    let bed = diamond(Duration::ZERO);
    assert_eq!(bed.topology.current(&bed.routers, &bed.links).connected(), 4);
    bed.routers.0.lock().clear();
    bed.topology.pending().everything();
    assert_eq!(bed.topology.current(&bed.routers, &bed.links).connected(), 0);
    assert_eq!(bed.path("a", "d"), None);
}

#[test]
fn numbers_of_routers_that_are_gone_are_given_again() {
    let bed = diamond(Duration::ZERO);
    for number in 0..3 * SPARE_NUMBERS {
        let id = format!("x{number}");
        bed.router(&id, Some(0));
        bed.link(&format!("l{number}"), &id, "a");
        assert_eq!(bed.path(&id, "d").unwrap().0.len(), 3);
        bed.router(&id, None);
        bed.links.take_of(&Id::new(&id));
    }
    let graph = bed.topology.current(&bed.routers, &bed.links);
    assert!(graph.size() <= SPARE_NUMBERS + 16, "{}", graph.size());
    assert_eq!(bed.path("a", "d"), over(&["ab", "bd"], 222));
    bed.topology.pending().everything();
    assert_eq!(bed.path("a", "d"), over(&["ab", "bd"], 222));
}
