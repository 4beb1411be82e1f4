//! Small meshes, and the explanations in them.

use proptest::prelude::*;
use weft_model::{Base, Timestamp};

use super::*;
use crate::graph::Graph;

const MIN: u16 = 10;

fn id(name: &str) -> Id {
    Id::new(name)
}

/// Parses a router: `a`; `a:5` has cost 5; `a!` carries no traffic of others.
fn router(text: &str) -> MeshRouter {
    let no_traversal = text.ends_with('!');
    let (name, cost) = text.trim_end_matches('!').split_once(':').unwrap_or((text, "0"));
    MeshRouter { id: id(name.trim_end_matches('!')), cost: cost.parse().unwrap(), no_traversal }
}

/// Parses a link: `ab5` leads from a to b with cost 5; `ab5-` is down.
fn link(at: usize, text: &str) -> MeshLink {
    let cost: u64 = text[2..].trim_end_matches('-').parse().unwrap();
    MeshLink {
        id: format!("l{at}"),
        source: id(&text[..1]),
        destination: id(&text[1..2]),
        static_cost: 1,
        source_latency: 0,
        destination_latency: 0,
        cost,
        down: text.ends_with('-'),
    }
}

fn mesh(routers: &str, links: &str) -> Mesh {
    let links = links.split_whitespace().enumerate().map(|(at, text)| link(at, text));
    Mesh::new(MIN, routers.split_whitespace().map(router).collect(), links.collect())
}

/// Parses a terminator: `t@b` is at b; `t@b+5` has cost 5, `t@b~20` failures, `t@b^` is required,
/// `t@b_` has the precedence failed, `t@b#x` is the instance x, the host of `t@b-` may not host.
fn offer(text: &str) -> Offer {
    let mut terminator = Terminator::default();
    let (name, rest) = text.split_once('@').unwrap();
    terminator.base = Base::new(id(name), Timestamp(0));
    terminator.router_id = id(&rest[..1]);
    let number = |mark: char| {
        let digits = rest.split_once(mark).map_or("", |(_, rest)| rest);
        let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    };
    terminator.cost = number('+');
    terminator.precedence = match rest {
        _ if rest.contains('^') => Precedence::Required,
        _ if rest.contains('_') => Precedence::Failed,
        _ => Precedence::Default,
    };
    terminator.instance_id = rest.split_once('#').map_or("", |(_, instance)| instance).into();
    let failures = number('~');
    let costs = CostParts { circuits: 0, failures: failures.into(), total: failures };
    Offer { terminator: Arc::new(terminator), costs, is_founded: !rest.contains('-') }
}

/// Formats a path as `a b c 42`.
fn shown(mesh: &Mesh, route: &MeshRoute) -> String {
    let names: Vec<String> = mesh.path(route).nodes.iter().map(ToString::to_string).collect();
    format!("{} {}", names.join(" "), route.cost)
}

/// The explanation of each terminator in one line.
fn said(mesh: &Mesh, offers: &str, strategy: TerminatorStrategy, instance: &str) -> Vec<String> {
    let offers: Vec<Offer> = offers.split_whitespace().map(offer).collect();
    let entry = id("a");
    let question = Question { mesh, entry: &entry, strategy, instance, offers: &offers };
    let mut work = WorkBudget::new(1_000_000);
    let lines = explain(&question, &mut work).into_iter().map(|one| {
        let mut line = format!("{} {:?}", one.terminator.base.id, one.verdict);
        for route in &one.routes {
            line.push_str(&format!(" | {}", shown(mesh, route)));
        }
        if let Some((route, by)) = &one.blocked {
            let by = by.iter().map(|it| match it {
                Obstacle::Down(link) => link.id.clone(),
                Obstacle::Closed(router) => router.id.to_string(),
            });
            let by: Vec<String> = by.collect();
            line.push_str(&format!(" | but {} {}", shown(mesh, route), by.join(",")));
        }
        line
    });
    lines.collect()
}

#[test]
fn networks_are_explained() {
    use TerminatorStrategy::{Random, SmartRouting, Sticky, Weighted};
    // Routers, links, terminators, strategy, expected explanations.
    let table: [(&str, &str, &str, TerminatorStrategy, &[&str]); 14] = [
        // A terminator on the router where the circuit begins.
        ("a", "", "t@a", SmartRouting, &["t Chosen | a 0"]),
        // Two paths: the dearer one is shown with its cost.
        ("a b c", "ab5 ac5 cb9", "t@b", SmartRouting, &["t Chosen | a b 15 | a c b 34"]),
        // Parallel links give paths of their own, the cheapest first.
        ("a b", "ab5 ab7 ab6", "t@b", SmartRouting, &["t Chosen | a b 15 | a b 16 | a b 17"]),
        // At most three other paths.
        (
            "a b",
            "ab1 ab2 ab3 ab4 ab5",
            "t@b",
            SmartRouting,
            &["t Chosen | a b 11 | a b 12 | a b 13 | a b 14"],
        ),
        // Costs of terminator, failures and path add up.
        (
            "a b c",
            "ab5 ac5",
            "t@b+3 u@c s@b~20",
            SmartRouting,
            &["u Chosen | a c 15", "t Dearer(3) | a b 15", "s Dearer(20) | a b 15"],
        ),
        // Precedence comes before cost.
        (
            "a b c",
            "ab1 ac900",
            "t@b u@c^ v@b_",
            SmartRouting,
            &[
                "u Chosen | a c 910",
                "t Precedence(Required) | a b 11",
                "v Precedence(Required) | a b 11",
            ],
        ),
        // A router that is not connected, one without link, another instance, and a host without
        // its right.
        (
            "a b c",
            "ab1",
            "t@b u@c v@x w@b#i s@a-",
            SmartRouting,
            &["t Chosen | a b 11", "u NoPath", "v Offline", "s Unfounded", "w OtherInstance"],
        ),
        // Obstacles on the only path, or on a cheaper one, are named.
        ("a b", "ab1-", "t@b", SmartRouting, &["t NoPath | but a b 11 l0"]),
        (
            "a b! c",
            "ab1 bc1",
            "t@c u@b",
            SmartRouting,
            &["u Chosen | a b 11", "t NoPath | but a b c 22 b"],
        ),
        ("a b c", "ab1- ac5 cb5", "t@b", SmartRouting, &["t Chosen | a c b 30 | but a b 11 l0"]),
        // The cost of entering a router, at least the least cost.
        (
            "a b:50 c:3",
            "ab1 ac1",
            "t@b u@c",
            SmartRouting,
            &["u Chosen | a c 11", "t Dearer(40) | a b 51"],
        ),
        // Random choice: evenly and without dynamic costs, or weighted.
        ("a b", "ab5", "t@b u@b~20", Random, &["t Chance(0.5) | a b 15", "u Chance(0.5) | a b 15"]),
        (
            "a b",
            "ab5",
            "t@b u@b~30 v@b_",
            Weighted,
            &[
                "t Chance(0.75) | a b 15",
                "u Chance(0.25) | a b 15",
                "v Precedence(Default) | a b 15",
            ],
        ),
        // A client without an earlier terminator gets the cheapest one.
        ("a b", "ab5", "t@b+1 u@b", Sticky, &["u Chosen | a b 15", "t Dearer(1) | a b 15"]),
    ];
    for (routers, links, offers, strategy, wanted) in table {
        let said = said(&mesh(routers, links), offers, strategy, "");
        assert_eq!(said, wanted, "{routers} / {links} / {offers}");
    }
}

#[test]
fn an_instance_can_be_asked_for() {
    let said = said(&mesh("a", ""), "t@a#x u@a", TerminatorStrategy::SmartRouting, "x");
    assert_eq!(said, ["t Chosen | a 0", "u OtherInstance"]);
}

#[test]
fn nothing_is_said_from_a_router_that_is_away() {
    let said = said(&mesh("b", ""), "t@b", TerminatorStrategy::SmartRouting, "");
    assert_eq!(said, ["t NoPath"]);
}

#[test]
fn steps_say_what_a_path_is_made_of() {
    let mesh = mesh("a b:50 c", "ab5 bc7");
    let tree = mesh.tree(&id("a"), false).unwrap();
    let route = tree.route(&id("c")).unwrap();
    let steps: Vec<_> = mesh
        .steps(&route)
        .map(|it| (&*it.link.id, it.router.id.as_str(), it.router_cost))
        .collect();
    assert_eq!(steps, [("l0", "b", 50), ("l1", "c", 10)]);
    assert_eq!(route.cost, 5 + 50 + 7 + 10);
}

#[test]
fn a_search_that_takes_too_long_is_cut_and_says_so() {
    let mesh = mesh("a b c", "ab5 ac5 cb9");
    let route = mesh.tree(&id("a"), false).unwrap().route(&id("b")).unwrap();
    let mut work = WorkBudget::new(1);
    assert!(mesh.others(&route, 3, &mut work).is_empty());
    assert!(work.is_cut());
}

/// A random mesh of six routers, and the graph of the same routers for dials.
fn any_mesh() -> impl Strategy<Value = (Mesh, Graph)> {
    let routers = prop::collection::vec((0u16..50, prop::bool::weighted(0.2)), 6);
    let links = prop::collection::vec((0usize..6, 0usize..6, 0u64..200, any::<bool>()), 0..20);
    (routers, links).prop_map(|(routers, links)| {
        let name = |at: usize| id(&format!("r{at}"));
        let mut graph = Graph::new(MIN);
        let routers = routers.into_iter().enumerate().map(|(at, (cost, no_traversal))| {
            graph.add_router(&name(at), cost, no_traversal);
            MeshRouter { id: name(at), cost, no_traversal }
        });
        let routers = routers.collect();
        let links = links.into_iter().enumerate().map(|(at, (from, to, cost, down))| {
            let made = MeshLink {
                source: name(from),
                destination: name(to),
                cost,
                down,
                ..link(at, "ab0")
            };
            if !down {
                graph.add_link(&made.id, &made.source, &made.destination, cost);
            }
            made
        });
        (Mesh::new(MIN, routers, links.collect()), graph)
    })
}

proptest! {
    /// The explained path is the one that a dial takes.
    #[test]
    fn the_cheapest_path_is_that_of_a_dial((mesh, graph) in any_mesh()) {
        let tree = mesh.tree(&id("r0"), false).unwrap();
        for to in (0..6).map(|at| id(&format!("r{at}"))) {
            let own = tree.route(&to).map(|route| mesh.path(&route));
            let dialed = graph.path(&id("r0"), &to);
            prop_assert_eq!(own, dialed);
        }
    }

    /// Other paths are sorted, distinct, use no router twice and nothing closed, and their cost is
    /// the sum of their parts.
    #[test]
    fn other_paths_are_paths((mesh, _) in any_mesh()) {
        let tree = mesh.tree(&id("r0"), false).unwrap();
        let Some(best) = tree.route(&id("r5")) else { return Ok(()) };
        let routes: Vec<MeshRoute> = std::iter::once(best.clone())
            .chain(mesh.others(&best, 20, &mut WorkBudget::new(usize::MAX)))
            .collect();
        for pair in routes.windows(2) {
            prop_assert!(pair[0].cost <= pair[1].cost);
        }
        for (at, route) in routes.iter().enumerate() {
            prop_assert!(!routes[..at].contains(route));
            prop_assert!(mesh.obstacles(route).is_empty());
            let path = mesh.path(route);
            let mut nodes = path.nodes.clone();
            nodes.sort_unstable();
            nodes.dedup();
            prop_assert_eq!(nodes.len(), path.nodes.len());
            let sum: u64 = mesh.steps(route).map(|it| it.link.cost + u64::from(it.router_cost)).sum();
            prop_assert_eq!(sum, route.cost);
        }
    }

    /// The probabilities are the frequencies of the choices of dials.
    #[test]
    fn chances_are_those_of_a_dial(costs in prop::collection::vec(0u16..200, 2..6)) {
        let mesh = mesh("a b", "ab5");
        let text: Vec<String> =
            costs.iter().enumerate().map(|(at, cost)| format!("t{at}@b+{cost}")).collect();
        let offers: Vec<Offer> = text.iter().map(|text| offer(text)).collect();
        let strategy = TerminatorStrategy::Weighted;
        let entry = id("a");
        let question = Question { mesh: &mesh, entry: &entry, strategy, instance: "", offers: &offers };
        let explained = explain(&question, &mut WorkBudget::new(1000));
        let candidates: Vec<Candidate> = explained.iter().map(|one| Candidate {
            terminator: Arc::clone(&one.terminator),
            path_cost: u32::try_from(one.routes[0].cost).unwrap(),
            was_tried: false,
            dynamic_cost: one.dynamic_cost,
        }).collect();
        const TRIES: u64 = 1000;
        for one in &explained {
            let Verdict::Chance(share) = one.verdict else { panic!("{:?}", one.verdict) };
            let taken = (0..TRIES).filter(|step| {
                let random = step * (u64::MAX / TRIES);
                let chosen = choose(strategy, candidates.clone(), None, random).unwrap();
                chosen.terminator.base.id == one.terminator.base.id
            });
            let often = taken.count() as f64 / TRIES as f64;
            prop_assert!((often - share).abs() < 0.01, "{often} {share}");
        }
    }
}
