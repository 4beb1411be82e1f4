//! Routers and circuits as they are, whatever the controller knows of them.

use std::collections::BTreeMap;

use weft_paths::path::Path;
use weft_wire::ctrl::route::Forward;

use super::*;

/// How a router tells which circuits it carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// It reports them.
    Weft,
    /// It answers when it is asked.
    Original,
    /// It never answers, and only asks about idle circuits.
    Silent,
}

/// A router.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) kind: Kind,
    /// Its connection: the number, and since when.
    pub(super) connection: Option<(u64, Instant)>,
    /// Whether it has named all its circuits over this connection.
    pub(super) has_told: bool,
    /// How often it has started.
    pub(super) incarnation: u32,
    /// The routes that it has.
    pub(super) routes: BTreeMap<String, Route>,
}

/// A link between two routers, the first of which dials.
#[derive(Debug)]
pub(super) struct PlayedLink {
    pub(super) ends: [usize; 2],
    pub(super) is_up: bool,
    /// Whether the controller knows it.
    pub(super) is_known: bool,
}

/// A circuit in the table of the controller.
#[derive(Clone, Debug)]
pub(super) struct TableCircuit {
    pub(super) path: Path,
    pub(super) is_whole: bool,
    pub(super) has_ends: bool,
    pub(super) made_at: Instant,
    pub(super) routed_at: Instant,
}

/// What is on its way.
#[derive(Clone, Debug)]
pub(super) enum Mail {
    /// A router names circuits, part after part. The circuits that it has to name are known once the first part is.
    Parts { of: (usize, u64), parts: Vec<Vec<Route>>, expected: Option<BTreeSet<String>> },
    /// A part that the router should not have sent.
    Stray((usize, u64), Vec<Route>),
    /// A router is asked for its circuits.
    Question(usize, u64),
    /// A router asks whether a circuit is still wanted.
    Confirmation((usize, u64), String),
    /// A router reports the end of a circuit.
    End((usize, u64), String),
    /// The driver looks at a path.
    Look(Arc<str>),
    /// The driver removes a circuit.
    Remove(Arc<str>),
    /// A circuit had left a router.
    Left(Id, Arc<str>),
    /// A path is looked for, to which a circuit may move.
    Plan(String, MoveReason),
    /// All routers of a path, with their incarnations, have their routes.
    Settle(String, Path, Vec<u32>, bool),
}

pub(super) fn id(router: usize) -> Id {
    Id::new(&format!("r{router}"))
}

pub(super) fn index(router: &Id) -> usize {
    router.as_str()[1..].parse().unwrap()
}

/// Links of all routers with each other; two of them have two.
pub(super) fn links(routers: usize) -> BTreeMap<String, PlayedLink> {
    let pairs = (0..routers).flat_map(|one| (one + 1..routers).map(move |other| [one, other]));
    let pairs = pairs.map(|ends| (format!("l{}{}", ends[0], ends[1]), ends));
    let link = |ends| PlayedLink { ends, is_up: true, is_known: false };
    pairs.chain([("m01".into(), [0, 1])]).map(|(id, ends)| (id, link(ends))).collect()
}

/// The routes of a circuit over a path.
pub(super) fn routes(circuit: &str, path: &Path) -> Vec<(usize, Route)> {
    let (ingress, egress) = (format!("I{circuit}"), format!("E{circuit}"));
    let addresses: Vec<&String> =
        std::iter::once(&ingress).chain(&path.links).chain([&egress]).collect();
    let kind = |address: &str| match address {
        _ if address == ingress => DestType::Start,
        _ if address == egress => DestType::End,
        _ => DestType::Link,
    };
    let way = |from: &str, to: &str| Forward {
        src_address: from.to_owned(),
        dst_address: to.to_owned(),
        dst_type: kind(to).into(),
    };
    let pairs = addresses.windows(2).zip(&path.nodes);
    let route = |(pair, router): (&[&String], &Id)| {
        let forwards = vec![way(pair[0], pair[1]), way(pair[1], pair[0])];
        let circuit_id = circuit.to_owned();
        // Some routes are longer than others.
        let is_long = index(router) == 0 && circuit > "c7";
        let tags = is_long.then(|| ("hostId".to_owned(), "x".repeat(80))).into_iter().collect();
        (index(router), Route { circuit_id, forwards, tags, ..Route::default() })
    };
    pairs.map(route).collect()
}

/// Whether a route leads to an end of this kind.
pub(super) fn leads_to(route: &Route, kind: DestType) -> bool {
    route.forwards.iter().any(|way| way.dst_type() == kind)
}
