//! Routers as they are, whatever the controller knows of them: their circuits, and the links between them.

use std::collections::{BTreeMap, BTreeSet};

use weft_model::Timestamp;
use weft_wire::ctrl::LinkConnState;

use super::*;

/// A router.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub(super) id: Id,
    /// Whether it reports its circuits, and all its links that break, by itself.
    pub(super) is_weft: bool,
    /// Whether it says at each connection which links it has.
    pub(super) lists_links: bool,
    /// Whether data may go over it.
    pub(super) may_carry: bool,
    /// Whether it answers heartbeats.
    pub(super) answers: bool,
    /// The circuits that it carries.
    pub(super) circuits: BTreeSet<String>,
}

/// A link.
#[derive(Debug)]
pub(super) struct PlayedLink {
    pub(super) source: usize,
    pub(super) destination: usize,
    pub(super) iteration: u32,
    pub(super) is_up: bool,
}

/// A connection, as the controller has it.
#[derive(Clone, Debug)]
pub(super) struct PlayedConnection {
    pub(super) router: usize,
    pub(super) since: Instant,
    pub(super) is_dialed: bool,
    pub(super) is_closed: bool,
}

/// A circuit of the controller: its router, and since when it goes over the router.
#[derive(Clone, Debug)]
pub(super) struct KnownCircuit {
    pub(super) router: usize,
    pub(super) since: Instant,
}

/// What is on its way.
#[derive(Clone, Debug)]
pub(super) enum Mail {
    /// The handler of a connection has noticed its end.
    Ended(Connection),
    /// A router names circuits, part after part.
    Parts {
        of: Connection,
        source: Source,
        parts: Vec<Vec<String>>,
    },
    /// The first of these parts is handled.
    Handled {
        of: Connection,
        source: Source,
        expected: Option<HashSet<String>>,
        parts: Vec<Vec<String>>,
    },
    CircuitsQuestion(Connection),
    CircuitsUnanswered(Connection),
    /// A router reports the end of a circuit.
    CircuitFault(Connection, String),
    /// A router that dialed links reports them.
    LinkReport {
        of: Connection,
        is_first: bool,
        links: Vec<(String, u32)>,
    },
    /// A router reports a broken link.
    LinkFault(Connection, String, u32),
    Judge(Connection, HashSet<Id>),
    LinksQuestion(Connection, Instant, Vec<Arc<Link>>),
    LinksAnswer(Connection, Instant, Vec<Arc<Link>>, HashSet<String>),
    LinksUnanswered(Connection),
}

/// Links of all routers with each other: each dials those with higher numbers, and the last one the first.
pub(super) fn links(routers: usize) -> BTreeMap<String, PlayedLink> {
    let pairs = (0..routers).flat_map(|one| (one + 1..routers).map(move |other| (one, other)));
    let pairs = pairs.chain([(routers - 1, 0)]);
    let link = |(source, destination)| {
        let link = PlayedLink { source, destination, iteration: 1, is_up: true };
        (format!("l{source}{destination}"), link)
    };
    pairs.map(link).collect()
}

/// A link in the table of the controller.
pub(in crate::presence) fn link(
    id: &str,
    source: &Id,
    destination: &Id,
    iteration: u32,
) -> Arc<Link> {
    Arc::new(Link {
        id: id.into(),
        source: source.clone(),
        destination: destination.clone(),
        protocol: "tls".into(),
        address: String::new(),
        iteration,
        static_cost: 1,
        source_latency: 0,
        destination_latency: 0,
        counted: 1,
        down: false,
        connections: LinkConnState::default(),
        since: Timestamp(0),
    })
}
