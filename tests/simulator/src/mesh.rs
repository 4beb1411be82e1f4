//! The world of a run as it really is, whatever controllers believe: routers with their circuits, links, and the
//! circuits as the applications at their ends see them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use weft_channel::ChannelHandle;
use weft_channel::memory::Wire;
use weft_model::Id;
use weft_network::circuits::Circuit;
use weft_wire::Message;
use weft_wire::ctrl::{DestType, Fault, Route};

use crate::journal::Journal;

/// The program that a router is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It reports the circuits that it carries when it connects, keeps reports for a controller that is away, and
    /// reports the links at both of its ends that break.
    Weft,
    /// It does none of these, as the routers of the original.
    Original,
}

/// What the hosts at a router do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// They answer.
    Answers,
    /// They refuse every dial.
    Refuses,
    /// They say nothing for a long time.
    IsSilent,
    /// They take no more circuits for the moment.
    IsFull,
    /// They answer, and close the circuit a moment later.
    HangsUp,
}

/// The connection of a router to a controller.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// Whether the way to the controller is cut.
    pub(crate) is_cut_off: bool,
    pub(crate) channel: Option<ChannelHandle>,
    pub(crate) wire: Option<Wire>,
    /// When the channel was opened, and when the one before was lost.
    pub(crate) connected: Option<Instant>,
    pub(crate) lost: Option<Instant>,
    /// Reports that wait for the controller.
    pub(crate) reports: VecDeque<Message>,
}

impl Connection {
    /// The channel to the controller, while it is open.
    pub(crate) fn open_channel(&self) -> Option<&ChannelHandle> {
        self.channel.as_ref().filter(|channel| !channel.is_closed())
    }
}

/// A router.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// False between its stop and its next start.
    pub(crate) is_up: bool,
    /// Goes up with every start.
    pub(crate) incarnation: u32,
    /// A frozen router handles nothing: no message of a controller, and no payload.
    pub(crate) is_frozen: bool,
    pub(crate) host: Host,
    /// The services whose hosts at it have gone.
    pub(crate) unhosted: BTreeSet<String>,
    /// How long it takes to answer a route that it has set up.
    pub(crate) answers_after: Duration,
    pub(crate) circuits: BTreeMap<String, Held>,
    /// Its connection to each controller.
    pub(crate) connections: Vec<Connection>,
    /// Circuits of payloads that had no next place since the last report, and whether the router carries them.
    pub(crate) faults: BTreeMap<String, bool>,
}

impl Node {
    pub(crate) fn new(kind: Kind, controllers: usize) -> Self {
        Self {
            kind,
            is_up: true,
            incarnation: 1,
            is_frozen: false,
            host: Host::Answers,
            unhosted: BTreeSet::new(),
            answers_after: Duration::ZERO,
            circuits: BTreeMap::new(),
            connections: (0..controllers).map(|_| Connection::default()).collect(),
            faults: BTreeMap::new(),
        }
    }

    fn works(&self) -> bool {
        self.is_up && !self.is_frozen
    }

    /// Whether a controller can have it set up routes.
    fn is_managed(&self, controller: usize) -> bool {
        let connection = self.connections.get(controller).filter(|it| !it.is_cut_off);
        self.works() && connection.is_some_and(|it| it.open_channel().is_some())
    }
}

/// A circuit at a router.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The controller that owns it, and how often the owner has changed.
    pub(crate) owner: usize,
    pub(crate) term: u64,
    /// The next address, by the address that a payload comes from.
    pub(crate) ways: BTreeMap<String, (String, DestType)>,
    /// The ends at this router, and whether their applications are there.
    pub(crate) ends: BTreeMap<String, bool>,
    /// The route as it was told first, for reports.
    pub(crate) route: Route,
    /// The number of the newest attempt.
    pub(crate) attempt: Option<u32>,
    pub(crate) active: Option<Instant>,
    /// Whether the controller has ended it, and it stays for payloads on their way.
    pub(crate) is_leaving: bool,
}

impl Held {
    /// Takes note of a command; false if it is not obeyed. The owner may command anything, another controller with a
    /// higher term only. Routers of the original obey everybody, and report to the first controller.
    pub(crate) fn obey(&mut self, kind: Kind, controller: usize, term: u64) -> bool {
        if kind == Kind::Weft {
            if self.owner != controller && term <= self.term {
                return false;
            }
            (self.owner, self.term) = (controller, self.term.max(term));
        }
        true
    }

    /// The report that an end of it is gone. Routers of weft say in which attempt it was set up.
    pub(crate) fn fault(&self, kind: Kind, circuit: &str, by_dialer: bool) -> Fault {
        let fault = Fault::circuit(by_dialer, circuit);
        match self.attempt.filter(|_| kind == Kind::Weft) {
            Some(attempt) => fault.in_attempt(attempt),
            None => fault,
        }
    }

    /// Whether an end that its ways lead to is gone.
    pub(crate) fn lacks_an_end(&self) -> bool {
        let mut to = self.ways.values().filter(|(_, kind)| *kind != DestType::Link);
        to.any(|(address, _)| self.ends.get(address) != Some(&true))
    }
}

/// A link, which `dialer` dials.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) dialer: String,
    pub(crate) peer: String,
    pub(crate) iteration: u32,
    pub(crate) is_up: bool,
    /// Whether the cable between the routers is there: a link is dialed again while it is.
    pub(crate) is_plugged: bool,
}

impl Link {
    /// A link that is up.
    pub(crate) fn new(dialer: &str, peer: &str) -> Self {
        let (dialer, peer) = (dialer.to_owned(), peer.to_owned());
        Self { dialer, peer, iteration: 1, is_up: true, is_plugged: true }
    }

    pub(crate) fn other(&self, router: &str) -> &str {
        if self.dialer == router { &self.peer } else { &self.dialer }
    }
}

/// A circuit as the applications at its ends see it.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    /// The controller that made it.
    pub(crate) owner: usize,
    /// The router of each end with its incarnation, and the address of the end; the dialer's first.
    pub(crate) ends: [(String, u32, String); 2],
    /// Whether an application, or the loss of a router at an end, has ended it.
    pub(crate) is_over: bool,
    /// Since when payloads cannot go from end to end, and since when they could if the circuit was moved.
    pub(crate) broken: Option<Instant>,
    pub(crate) movable: Option<Instant>,
    /// Since when payloads cannot go from end to end and no other path is there. Short times in which they can do not
    /// count: a controller may not hear of them.
    pub(crate) stranded: Option<Instant>,
    /// When the circuit was last without a path for so long that it may be ended.
    pub(crate) was_stranded: Option<Instant>,
    /// Since when it is not stranded.
    pub(crate) is_well: Option<Instant>,
}

impl Life {
    /// A circuit that has just been made.
    pub(crate) fn new(owner: usize, ends: [(String, u32, String); 2]) -> Self {
        let (broken, movable, stranded, was_stranded, is_well) = (None, None, None, None, None);
        Self { owner, ends, is_over: false, broken, movable, stranded, was_stranded, is_well }
    }
}

/// How long a circuit without a path is kept at least.
const KEPT: Duration = Duration::from_secs(4);
/// A path that is there for a shorter time may be overlooked: while a router is not heard, others are asked for its
/// links at intervals.
const NOTICED: Duration = Duration::from_secs(6);
/// How long after the end of such a time a circuit may be ended for it: the controller may not have noticed earlier.
const LATE: Duration = Duration::from_secs(30);
/// How long after it has connected a router may hear of what has happened while it was away.
const CATCHES_UP: Duration = Duration::from_secs(20);

/// The world.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) routers: BTreeMap<String, Node>,
    pub(crate) links: BTreeMap<String, Link>,
    pub(crate) lives: BTreeMap<String, Life>,
    /// When the sessions of the dialers at a router ended last at a controller.
    pub(crate) sessions_ended: BTreeMap<(String, usize), Instant>,
    /// The first rule that was broken.
    pub(crate) violation: Option<String>,
    journal: Journal,
}

impl World {
    /// A world without routers.
    pub(crate) fn new(journal: Journal) -> Self {
        let (routers, links, lives) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let sessions_ended = BTreeMap::new();
        Self { routers, links, lives, sessions_ended, violation: None, journal }
    }

    pub(crate) fn works(&self, router: &str) -> bool {
        self.routers.get(router).is_some_and(Node::works)
    }

    pub(crate) fn held(&self, router: &str, circuit: &str) -> Option<&Held> {
        self.routers.get(router)?.circuits.get(circuit)
    }

    /// The ways of a circuit at all routers that have it, as text.
    pub(crate) fn ways(&self, circuit: &str) -> String {
        let held = self.routers.iter().filter_map(|(id, it)| Some((id, it.circuits.get(circuit)?)));
        held.map(|(id, held)| format!("{id}: {:?}\n", held.ways)).collect()
    }

    /// How often each router has started.
    pub(crate) fn incarnations(&self) -> BTreeMap<String, u32> {
        self.routers.iter().map(|(id, node)| (id.clone(), node.incarnation)).collect()
    }

    /// Checks a circuit that a controller has just made, for a dial that began at this time, when routers had started so
    /// often.
    pub(crate) fn check_made(
        &self,
        owner: usize,
        circuit: &Circuit,
        begun: Instant,
        incarnations: &BTreeMap<String, u32>,
    ) -> Result<(), String> {
        let nodes: Vec<&str> = circuit.path.nodes.iter().map(Id::as_str).collect();
        let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else {
            return Err(format!("circuit {} has no path", circuit.id));
        };
        let ended = self.sessions_ended.get(&((*first).to_owned(), owner));
        if ended.is_some_and(|at| *at > begun) {
            return Err(format!("circuit {} is made for a session that has ended", circuit.id));
        }
        let has_restarted = |id: &str| {
            self.routers.get(id).map(|it| it.incarnation) != incarnations.get(id).copied()
        };
        let attempt = |id: &str| {
            let held = self.held(id, &circuit.id).filter(|held| !held.ways.is_empty());
            held.and_then(|held| held.attempt)
        };
        let newest = nodes.iter().filter_map(|id| attempt(id)).max();
        let is_set =
            |id: &str| has_restarted(id) || (attempt(id).is_some() && attempt(id) == newest);
        match nodes.iter().find(|id| !is_set(id)) {
            Some(id) => Err(format!("{id} has not set up circuit {} to {last}", circuit.id)),
            None => Ok(()),
        }
    }

    /// The links at a router.
    pub(crate) fn links_of(&self, router: &str) -> Vec<String> {
        let at = self.links.iter().filter(|(_, it)| it.dialer == router || it.peer == router);
        at.map(|(id, _)| id.clone()).collect()
    }

    /// Where a payload of a circuit goes that comes to a router from an address: the address, and the router behind it
    /// if it is a link that is up.
    pub(crate) fn next(&self, router: &str, circuit: &str, from: &str) -> Step {
        let Some(held) = self.held(router, circuit) else { return Step::Unknown };
        match held.ways.get(from) {
            None => Step::Nowhere,
            Some((to, DestType::Link)) => match self.links.get(to).filter(|link| link.is_up) {
                Some(link) => Step::Over(to.clone(), link.other(router).to_owned()),
                None => Step::Waits,
            },
            Some((to, _)) if held.ends.contains_key(to) => Step::Arrived,
            Some(_) => Step::Nowhere,
        }
    }

    /// Whether payloads go from one end of a circuit to the other one.
    fn carries(&self, circuit: &str, from: &(String, u32, String)) -> bool {
        let (mut router, mut address) = (from.0.clone(), from.2.clone());
        for _ in 0..self.routers.len() + 1 {
            if !self.works(&router) {
                return false;
            }
            match self.next(&router, circuit, &address) {
                Step::Arrived => return true,
                Step::Over(link, next) => (router, address) = (next, link),
                Step::Nowhere | Step::Waits | Step::Unknown => return false,
            }
        }
        false
    }

    /// Whether a controller hears neither router at these ends, although it has a channel to one of them.
    fn is_hidden(&self, controller: usize, ends: [&(String, u32, String); 2]) -> bool {
        let nodes = || ends.into_iter().filter_map(|(router, ..)| self.routers.get(router));
        let has_channel = |node: &Node| {
            node.connections.get(controller).is_some_and(|it| it.open_channel().is_some())
        };
        !nodes().any(|node| node.is_managed(controller)) && nodes().any(has_channel)
    }

    /// Whether a controller could lead a circuit from one router to another.
    fn has_managed_path(&self, controller: usize, from: &str, to: &str) -> bool {
        let is_managed =
            |router: &str| self.routers.get(router).is_some_and(|node| node.is_managed(controller));
        let (mut seen, mut open) = (BTreeSet::from([from.to_owned()]), vec![from.to_owned()]);
        if !is_managed(from) || !is_managed(to) {
            return false;
        }
        while let Some(router) = open.pop() {
            if router == to {
                return true;
            }
            let links = self.links.values().filter(|link| link.is_up);
            let at = links.filter(|link| link.dialer == router || link.peer == router);
            let next = at.map(|link| link.other(&router)).filter(|next| is_managed(next));
            for next in next.map(str::to_owned).collect::<Vec<_>>() {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        false
    }

    /// Takes note of how all circuits are now.
    pub(crate) fn look(&mut self, now: Instant) {
        let ids: Vec<String> = self.lives.keys().cloned().collect();
        for id in ids {
            let Some(mut life) = self.lives.remove(&id) else { continue };
            life.is_over |= life.ends.iter().any(|(router, incarnation, _)| {
                self.routers.get(router).is_none_or(|node| node.incarnation != *incarnation)
            });
            let [near, far] = &life.ends;
            let carries = self.carries(&id, near) && self.carries(&id, far);
            let could = self.has_managed_path(life.owner, &near.0, &far.0);
            let since = |is: bool, before: Option<Instant>| is.then(|| before.unwrap_or(now));
            life.broken = since(!carries, life.broken);
            life.movable = since(!carries && could, life.movable);
            // Nobody tells the controller that the path is back while it hears neither end, and it may not have noticed
            // that it does not hear one of them.
            let is_hidden = life.stranded.is_some() && self.is_hidden(life.owner, [near, far]);
            let is_stranded = (!carries && !could) || is_hidden;
            life.is_well = since(!is_stranded, life.is_well);
            if is_stranded {
                let began = *life.stranded.get_or_insert(now);
                if now.duration_since(began) >= KEPT {
                    life.was_stranded = Some(now);
                }
            } else if life.is_well.is_some_and(|since| now.duration_since(since) >= NOTICED) {
                life.stranded = None;
            }
            self.lives.insert(id, life);
        }
    }

    /// Handles that a controller ends a circuit at a router where an application is. It has to have a reason, unless the
    /// application is that of a failed attempt to make the circuit.
    pub(crate) fn ended_by_controller(
        &mut self,
        controller: usize,
        router: &str,
        circuit: &str,
        now: Instant,
    ) {
        self.look(now);
        self.journal.note(format!("controller {controller} ends circuit {circuit} at {router}"));
        let held = self.held(router, circuit);
        let is_there = |address: &str| held.is_some_and(|it| it.ends.get(address) == Some(&true));
        let is_here = |(at, _, address): &(String, u32, String)| at == router && is_there(address);
        let life = self.lives.get(circuit).filter(|life| life.ends.iter().any(is_here));
        let Some(life) = life else { return };
        let connection = self.routers.get(router).and_then(|it| it.connections.get(controller));
        let connected = connection.and_then(|it| it.connected.zip(it.lost));
        let catches_up = connected.filter(|(at, _)| now.duration_since(*at) < CATCHES_UP);
        let ended = catches_up.map_or(now, |(_, lost)| lost);
        let is_late = |at: Instant| ended.saturating_duration_since(at) < LATE;
        if !life.is_over && !life.was_stranded.is_some_and(is_late) {
            let text = format!("circuit {circuit} is ended at {router} without a reason: {life:?}");
            self.violation.get_or_insert(text);
        }
        if let Some(life) = self.lives.get_mut(circuit) {
            life.is_over = true;
        }
    }
}

/// The next step of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is at the other end.
    Arrived,
    /// Over this link, to this router.
    Over(String, String),
    /// Its link is away, or the router handles nothing.
    Waits,
    /// The router knows no next place.
    Nowhere,
    /// The router does not know the circuit.
    Unknown,
}
