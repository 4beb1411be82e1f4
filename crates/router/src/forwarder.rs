//! Circuits and destinations: a message from an address goes where the circuit's route says.
//!
//! A controller commands a route, which is applied whole or undone whole. An end registers under the
//! address that the controller gave it. A sender finds the end once, by circuit and own address, and
//! keeps the reference. Payloads themselves never pass through this table.
//!
//! A path is a list of routers; this router knows its own part of it. Links to other routers are
//! destinations like ends ([`links`]); [`arrivals`] sorts the messages that come over them.
//!
//! Files use each other downwards:
//!
//! ```text
//!  life, setup                          routes that come, circuits that end
//!  arrivals, sdk, pass, links           messages that come
//!  this file                            the tables
//!  destination, circuits_by_link        the entries of the tables
//!  flow                                 the flows of an outlet: ends, queues for SDKs, hops
//!  local                                ends on this router
//!  next, sdk_queue, circuit             a message's next place, and the queues there
//! ```
//!
//! Files below `flow` are generic over the flow that an outlet serves (`F`), and an end asks the
//! tables through [`local::Tables`].

mod arrivals;
mod asked;
mod backlog;
mod circuit;
mod circuits_by_link;
mod closed_links;
mod destination;
mod drops;
mod ends;
mod farewell;
mod fin;
mod flow;
mod head;
mod inspect;
mod life;
mod links;
mod local;
mod next;
mod owner;
mod pass;
mod report;
mod sdk;
mod sdk_queue;
mod setup;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use weft_limits::Budget;

pub(crate) use self::arrivals::{Arrivals, Foreign};
use self::circuits_by_link::CircuitsByLink;
use self::closed_links::ClosedLinks;
use self::destination::Destination;
pub(crate) use self::destination::Link;
use self::drops::Drops;
pub(crate) use self::fin::FIN_HOLD;
use self::flow::Next;
pub(crate) use self::flow::{App, Circuit, DataOutbox, LocalEnd, Outlet, Timers};
use self::life::Lives;
pub(crate) use self::links::BackToHops;
pub(crate) use self::owner::ConnOwner;
pub(crate) use self::report::ReportIntervals;
pub(crate) use self::sdk::SdkCircuit;
pub(crate) use self::setup::SetUp;
use crate::measures::{Measures, Outstanding};
use crate::seam::Control;

/// Tables are split into parts with a lock each, so that whoever looks something up seldom waits for circuits that begin
/// and end.
const SHARDS: usize = 16;

type Shards<T> = [RwLock<HashMap<Arc<str>, T>>; SHARDS];

/// The tables of this router.
pub(crate) struct Forwarder {
    circuits: Shards<Arc<Circuit>>,
    destinations: Shards<Destination>,
    /// Circuits by the links that they go over.
    circuits_by_link: Mutex<CircuitsByLink>,
    /// The life of the circuits.
    lives: Mutex<Lives>,
    /// Notified when `lives` is to be woken earlier than before.
    wake: Notify,
    /// Links that closed lately.
    closed_links: Mutex<ClosedLinks>,
    /// Circuits with payloads that have no next place.
    faults: Mutex<HashSet<Arc<str>>>,
    /// Unknown circuits that came over links since the last report. They are kept apart from
    /// `faults`, so that a router that invents ids cannot fill that table and hide circuits of this
    /// router.
    unknown: Mutex<HashSet<Arc<str>>>,
    control: Arc<dyn Control>,
    timers: Timers,
    budget: Budget,
    drops: Arc<Drops>,
    measures: Arc<Measures>,
    /// The id of this router.
    router_id: OnceLock<String>,
}

impl Forwarder {
    /// `quiet` is the time after which a circuit that its controller has ended counts as quiet.
    pub(crate) fn new(
        control: Arc<dyn Control>,
        timers: Timers,
        budget: Budget,
        quiet: Duration,
    ) -> Arc<Self> {
        let (measures, drops) = (Arc::<Measures>::default(), Arc::<Drops>::default());
        drops.register(&measures);
        Arc::new(Self {
            circuits: Shards::default(),
            destinations: Shards::default(),
            circuits_by_link: Mutex::default(),
            lives: Mutex::new(Lives::new(quiet)),
            wake: Notify::new(),
            closed_links: Mutex::default(),
            faults: Mutex::default(),
            unknown: Mutex::default(),
            control,
            timers,
            budget,
            drops,
            measures,
            router_id: OnceLock::new(),
        })
    }

    /// Sets the id of this router, once.
    pub(crate) fn set_router_id(&self, router_id: &str) {
        let _ = self.router_id.set(router_id.to_owned());
    }

    fn router_id(&self) -> Option<&str> {
        self.router_id.get().map(String::as_str)
    }

    /// The budget of bytes that all circuits together may hold.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Counts of the messages that were thrown away.
    pub(crate) fn drops(&self) -> &Arc<Drops> {
        &self.drops
    }

    /// The measurements of this router.
    pub(crate) fn measures(&self) -> &Arc<Measures> {
        &self.measures
    }

    /// The circuit of this id.
    pub(crate) fn circuit(&self, id: &str) -> Option<Arc<Circuit>> {
        shard(&self.circuits, id).read().get(id).cloned()
    }

    /// Registers an end or a link under an address.
    pub(crate) fn register(&self, address: &str, destination: Destination) {
        shard(&self.destinations, address).write().insert(address.into(), destination);
    }

    /// The destination of this address.
    pub(crate) fn destination(&self, address: &str) -> Option<Destination> {
        shard(&self.destinations, address).read().get(address).cloned()
    }

    /// True if an end of a circuit has this address, and is not closed.
    pub(crate) fn has_open_end(&self, address: &str) -> bool {
        match self.destination(address) {
            Some(Destination::Local(end)) => !end.is_closed(),
            // An end at an SDK is removed once the SDK has closed it.
            Some(Destination::Sdk(_)) => true,
            Some(Destination::Link(_)) | None => false,
        }
    }

    /// The link of this id.
    pub(crate) fn link(&self, id: &str) -> Option<Arc<Link>> {
        match shard(&self.destinations, id).read().get(id) {
            Some(Destination::Link(link)) => Some(Arc::clone(link)),
            _ => None,
        }
    }

    /// The next place of messages from one address of a circuit.
    fn next_of(&self, circuit: &Circuit, source: &str) -> Option<Next> {
        let address = circuit.next(source)?;
        match self.destination(&address) {
            Some(Destination::Local(end)) => Some(Next::Local(end)),
            Some(Destination::Sdk(end)) => Some(Next::Sdk(end)),
            // Messages for a link that is away wait for its return, or for another link.
            Some(Destination::Link(_)) | None => circuit.hop(&address).map(Next::Link),
        }
    }

    /// Updates the index after the links of a circuit changed from `before` to some of `links`. A link that has closed
    /// stays in the index, because the circuit waits for its return.
    fn goes_over(&self, circuit: &Arc<Circuit>, before: &[Arc<str>], links: &[Arc<Link>]) {
        if *circuit.links() == *before {
            return;
        }
        self.circuits_by_link.lock().follow(circuit, before, links);
    }

    /// Adds the links of a change to the index. The former ones stay until [`Self::goes_over`].
    fn goes_also_over(&self, circuit: &Arc<Circuit>, links: &[Arc<Link>]) {
        if !links.is_empty() {
            self.circuits_by_link.lock().follow(circuit, &[], links);
        }
    }

    /// Writes the bytes that circuits carried since the last call into the book.
    pub(crate) fn settle(&self) {
        for shard in &self.circuits {
            let circuits: Vec<Arc<Circuit>> = shard.read().values().cloned().collect();
            for circuit in circuits {
                circuit.carried.settle(&circuit.id);
            }
        }
    }

    /// Measures the ends on this router: unacknowledged bytes, and full windows.
    pub(crate) fn look_at_ends(&self) {
        let mut all = Outstanding::default();
        for shard in &self.destinations {
            let local = |one: &Destination| match one {
                Destination::Local(end) => Some(Arc::clone(end)),
                Destination::Sdk(_) | Destination::Link(_) => None,
            };
            let ends: Vec<Arc<LocalEnd>> = shard.read().values().filter_map(local).collect();
            for end in ends {
                all += end.outstanding();
            }
        }
        self.measures.ends.looked_at(all);
    }

    /// Gives up all ends of circuits on this router, which is reported to their controllers. The ends at
    /// SDKs end with the connections of the SDKs.
    pub(crate) fn cut(&self) {
        for shard in &self.destinations {
            let local = |one: &Destination| match one {
                Destination::Local(end) => Some(Arc::clone(end)),
                Destination::Sdk(_) | Destination::Link(_) => None,
            };
            let ends: Vec<Arc<LocalEnd>> = shard.read().values().filter_map(local).collect();
            ends.iter().for_each(|end| end.abort());
        }
    }

    /// The number of circuits whose routes lead to an end on this router or at one of its SDKs. A
    /// circuit counts until its controller unroutes it, even if the end itself is gone.
    pub(crate) fn ending_here(&self) -> usize {
        let ends_here = |circuit: &&Arc<Circuit>| !circuit.ends().is_empty();
        self.circuits.iter().map(|shard| shard.read().values().filter(ends_here).count()).sum()
    }

    /// How many circuits and ends there are.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let circuits = self.circuits.iter().map(|shard| shard.read().len()).sum();
        let ends = self.destinations.iter().map(|shard| shard.read().len()).sum();
        (circuits, ends)
    }

    /// Removes a destination that `is` recognises; another one under its address stays.
    fn withdraw(&self, address: &str, is: impl Fn(&Destination) -> bool) {
        let mut shard = shard(&self.destinations, address).write();
        if shard.get(address).is_some_and(is) {
            shard.remove(address);
        }
    }

    /// Ends a destination that was dialed for a route which could not be set up. The host is told;
    /// the controller learns of the route's failure instead.
    pub(crate) fn give_up(&self, address: &str) {
        if let Some(end) = self.take_destination(address) {
            end.withdrawn();
        }
    }

    fn take_destination(&self, address: &str) -> Option<Destination> {
        shard(&self.destinations, address).write().remove(address)
    }

    fn take_destinations(&self, circuit: &Arc<Circuit>, at: &[Arc<str>]) -> Vec<Destination> {
        at.iter()
            .filter_map(|address| {
                let mut shard = shard(&self.destinations, address).write();
                // Another circuit's end can only be registered under an address of this circuit by
                // a mistake of a controller; such an end stays.
                let is_own =
                    |end: &Destination| end.circuit().is_some_and(|of| Arc::ptr_eq(of, circuit));
                let own = shard.get(address).is_some_and(is_own);
                if own { shard.remove(address) } else { None }
            })
            .collect()
    }
}

fn shard<'a, T>(shards: &'a Shards<T>, key: &str) -> &'a RwLock<HashMap<Arc<str>, T>> {
    let hash = key.bytes().fold(0_usize, |hash, byte| hash.wrapping_mul(31) ^ usize::from(byte));
    let [first, ..] = shards;
    shards.get(hash % SHARDS).unwrap_or(first)
}

impl std::fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (circuits, ends) = self.counts();
        f.debug_struct("Forwarder").field("circuits", &circuits).field("ends", &ends).finish()
    }
}
