//! The handle of the network: what its parts share, its settings, and who comes and goes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_channel::{Lane, SendError};
use weft_config::controller::NetworkConfig;
use weft_kernel::Kernel;
use weft_kernel::events::{Event, Events, RouterEvent};
use weft_model::Id;
use weft_model::entity::Router;
use weft_paths::costs::Costs;
use weft_paths::graph::Graph;
use weft_paths::links::Links;
use weft_paths::pending::Pending;
use weft_paths::topology::{Topology, Ways, World};
use weft_spans::Spans;
use weft_wire::Message;

use crate::circuits::Circuits;
use crate::clock;
use crate::misreports::{Misreport, Misreports};
use crate::moves::list::Moves;
use crate::reported::Reported;
use crate::routers::{AlreadyConnected, LiveRouter, Routers};
use crate::routes::Waiting;
use crate::used::Used;
use crate::validations::Validations;

/// How often failures of terminators are forgiven.
const FORGIVE_INTERVAL: Duration = Duration::from_secs(60);
/// Digits of circuit ids and addresses.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Characters with which the circuit ids of one run begin.
const RUN_TAG: usize = 4;

/// Settings of the network (docs/protocol/control-plane.md 28).
#[derive(Debug, Clone)]
pub struct NetworkOptions {
    /// How often the network is looked over.
    pub cycle: Duration,
    /// How long routers have to answer a route.
    pub route_timeout: Duration,
    /// Attempts at making a circuit, in all; 0 and 1 are both one.
    pub create_circuit_retries: u32,
    /// Least cost of entering a router.
    pub min_router_cost: u16,
    /// Within this a further connection of a router is refused; zero never refuses.
    pub churn_limit: Duration,
    /// Latency of a link that was not measured.
    pub initial_link_latency: Duration,
    /// How often measured latencies change what paths cost, at most.
    pub latency_interval: Duration,
    /// Share of circuits that are moved to cheaper paths in one cycle; one at least.
    pub smart_reroute_fraction: f64,
    /// Most circuits that are moved to cheaper paths in one cycle.
    pub smart_reroute_cap: u32,
    /// Least gain for which one is moved.
    pub smart_min_cost_delta: u32,
    /// How long a new or reconnected terminator is left alone before its router is asked about it.
    pub validation_age: Duration,
    /// How often routers are asked.
    pub validation_interval: Duration,
    /// How long a circuit is kept that has no path.
    pub without_path: Duration,
    /// How long circuits are kept whose routers do not come back.
    pub lost_circuit_life: Duration,
    /// How long a router that is back may take to tell which circuits it carries before it is
    /// asked.
    pub carried_grace: Duration,
    /// Where spans of circuits that are made go.
    pub spans: Spans,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            cycle: Duration::from_secs(60),
            route_timeout: Duration::from_secs(10),
            create_circuit_retries: 2,
            min_router_cost: 10,
            churn_limit: Duration::from_secs(60),
            initial_link_latency: Duration::from_secs(65),
            latency_interval: Duration::from_secs(5),
            smart_reroute_fraction: 0.02,
            smart_reroute_cap: 4,
            smart_min_cost_delta: 15,
            validation_age: Duration::from_secs(5),
            validation_interval: Duration::from_secs(30),
            without_path: Duration::from_secs(5),
            lost_circuit_life: Duration::from_secs(600),
            carried_grace: Duration::from_secs(10),
            spans: Spans::off(),
        }
    }
}

impl From<&NetworkConfig> for NetworkOptions {
    fn from(config: &NetworkConfig) -> Self {
        Self {
            cycle: config.cycle,
            route_timeout: config.route_timeout,
            create_circuit_retries: config.create_circuit_retries,
            min_router_cost: config.min_router_cost,
            churn_limit: config.router_connect_churn_limit,
            initial_link_latency: config.initial_link_latency,
            smart_reroute_fraction: config.smart_reroute_fraction,
            smart_reroute_cap: config.smart_reroute_cap,
            smart_min_cost_delta: config.smart_min_cost_delta,
            ..Self::default()
        }
    }
}

/// What the network asks about who is logged in.
pub trait Logins: Send + Sync {
    /// Whether a service session is there.
    fn has_session(&self, id: &str) -> bool;

    /// How many sessions there are.
    fn counts(&self) -> LoginCounts;
}

/// How many sessions there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoginCounts {
    /// API sessions.
    pub api_sessions: u64,
    /// Service sessions.
    pub service_sessions: u64,
}

/// The network. Clones are the same network.
#[derive(Clone)]
pub struct Network(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) kernel: Kernel,
    pub(crate) logins: Arc<dyn Logins>,
    pub(crate) options: NetworkOptions,
    pub(crate) routers: Routers,
    /// Held while a router comes or goes, so that what the end of one connection takes away is
    /// nothing that the next one told.
    pub(crate) coming_or_going: Mutex<()>,
    pub(crate) links: Links,
    pub(crate) topology: Topology,
    pub(crate) circuits: Circuits,
    pub(crate) moves: Moves,
    pub(crate) costs: Costs,
    pub(crate) misreports: Misreports,
    pub(crate) shows: crate::inspect::Shows,
    pub(crate) reported: Reported,
    pub(crate) used: Used,
    pub(crate) texts: crate::texts::Texts,
    pub(crate) waiting: Waiting,
    pub(crate) pieces: crate::adopt::Pieces,
    pub(crate) validations: Validations,
    pub(crate) events: Events,
    /// Begins the ids of circuits of this run.
    pub(crate) run: String,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").field("circuits", &self.0.circuits.len()).finish_non_exhaustive()
    }
}

impl World for Inner {
    fn router(&self, id: &Id) -> Option<(u16, bool)> {
        let live = self.routers.get(id.as_str())?;
        let snapshot = self.kernel.snapshot();
        let router = snapshot.get::<Router>(id).filter(|router| !router.disabled)?;
        // Who answers no routes, or stops, carries nothing new for others.
        Some((router.cost, router.no_traversal || live.is_left_alone(clock::now())))
    }

    fn routers(&self) -> Vec<Id> {
        self.routers.all().iter().map(|router| router.id.clone()).collect()
    }
}

/// The network as long as somebody else keeps it.
#[derive(Clone)]
pub struct WeakNetwork(Weak<Inner>);

impl WeakNetwork {
    /// The network, if it is still there.
    pub fn upgrade(&self) -> Option<Network> {
        self.0.upgrade().map(Network)
    }
}

impl Network {
    /// A network without routers, with its housekeeping. Stops with [`Network::stop`].
    pub fn start(kernel: Kernel, logins: Arc<dyn Logins>, options: NetworkOptions) -> Self {
        let run = base62(u128::from_le_bytes(kernel.ids().bytes()));
        let pending = Arc::new(Pending::default());
        let (min_cost, interval) = (options.min_router_cost, options.latency_interval);
        let without_path = options.without_path;
        let network = Self(Arc::new(Inner {
            options,
            routers: Routers::default(),
            coming_or_going: Mutex::default(),
            links: Links::telling(Arc::clone(&pending)),
            topology: Topology::new(min_cost, interval, pending),
            circuits: Circuits::default(),
            moves: Moves::new(without_path),
            costs: Costs::default(),
            misreports: Misreports::default(),
            shows: Default::default(),
            reported: Reported::default(),
            used: Used::default(),
            texts: crate::texts::Texts::default(),
            waiting: Waiting::default(),
            pieces: crate::adopt::Pieces::default(),
            validations: Validations::default(),
            events: Events::default(),
            run: run.chars().take(RUN_TAG).collect(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            kernel,
            logins,
        }));
        network.spawn(network.clone().forgive());
        network.spawn(network.clone().measure());
        network.spawn(network.clone().look_over());
        network.spawn(network.clone().move_circuits());
        network.spawn(network.clone().validate_terminators());
        network
    }

    /// Ends the housekeeping and closes the channels of all routers.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        for router in self.0.routers.all() {
            router.channel.close("the controller is stopping");
        }
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// The same network, as long as somebody else keeps it.
    pub fn weak(&self) -> WeakNetwork {
        WeakNetwork(Arc::downgrade(&self.0))
    }

    /// Its settings.
    pub fn options(&self) -> &NetworkOptions {
        &self.0.options
    }

    /// What happens in it.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// The routers that are connected.
    pub fn routers(&self) -> &Routers {
        &self.0.routers
    }

    /// The links.
    pub fn links(&self) -> &Links {
        &self.0.links
    }

    /// The circuits.
    pub fn circuits(&self) -> &Circuits {
        &self.0.circuits
    }

    /// Runs a task until it ends or the network stops.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.0.stop.clone();
        self.0.tasks.spawn(async move {
            let _ = stop.run_until_cancelled(task).await;
        });
    }

    /// Registers a router that has connected. One whose place it takes is treated as gone.
    pub fn connected(&self, router: &Arc<LiveRouter>) -> Result<(), AlreadyConnected> {
        let _one_by_one = self.0.coming_or_going.lock();
        let former = self.0.routers.register(Arc::clone(router), self.0.options.churn_limit)?;
        if let Some(former) = former {
            former.channel.close("the router has connected anew");
            self.lost(&former);
            self.0.validations.forget(&former.id);
        }
        self.router_changed(&router.id);
        self.0.pieces.forget_report(&router.id);
        self.0.kernel.online().put_router(&router.id, router.connection, router.facts());
        let (router, at) = (router.id.clone(), router.connected_at);
        self.0.events.tell(Event::Router(RouterEvent { at, router, online: true }));
        Ok(())
    }

    /// A router has gone; nothing happens if another connection has taken its place. True if it
    /// was the one.
    pub fn disconnected(&self, router: &Arc<LiveRouter>) -> bool {
        let _one_by_one = self.0.coming_or_going.lock();
        let current = self.0.routers.unregister(router);
        if current {
            self.lost(router);
            self.0.validations.forget(&router.id);
            self.0.reported.forget(&router.id);
            let (online, id) = (self.0.kernel.online(), &router.id);
            online.remove_router(id, router.connection);
            if self.0.kernel.snapshot().get::<Router>(id).is_none() {
                online.forget(id.as_str());
            }
            let at = self.0.kernel.now();
            let router = router.id.clone();
            self.0.events.tell(Event::Router(RouterEvent { at, router, online: false }));
        }
        current
    }

    /// Sends to a router if it is connected and has room; a message that finds none is lost, as
    /// the peers expect it of unroutes and faults.
    pub fn tell(&self, router: &str, lane: Lane, message: Message) {
        let Some(live) = self.0.routers.get(router) else { return };
        match live.channel.try_send_on(lane, message) {
            Ok(()) | Err(SendError::Closed(_)) => {}
            // Many circuits can end at once; what is lost here a router asks for again when it
            // finds the circuit idle.
            Err(problem) => tracing::debug!(router, %problem, "message not sent"),
        }
    }

    /// The connected routers and usable links as they are now, for finding paths. All share it.
    pub fn graph(&self) -> Arc<Graph> {
        self.0.topology.current(&*self.0, &self.0.links)
    }

    /// The cheapest ways from a router, as they are now.
    pub fn ways(&self, from: &Id) -> Ways {
        self.0.topology.ways(&*self.0, &self.0.links, from)
    }

    /// A router came or went, or its entity was changed.
    pub fn router_changed(&self, router: &Id) {
        self.0.topology.pending().router(router);
    }

    /// A router is about to stop: what goes over it stays, and nothing new leads through it.
    pub fn on_drains(&self, router: &LiveRouter) {
        if router.begins_to_drain() {
            tracing::info!(router = %router.id, "router stops: no new circuits go through it");
            self.router_changed(&router.id);
        }
    }

    /// Any router may be another one now.
    pub fn everything_changed(&self) {
        self.0.topology.pending().everything();
    }

    /// A router was deleted.
    pub fn router_deleted(&self, router: &Id) {
        self.router_changed(router);
        self.0.pieces.forget_report(router);
        self.0.links.forget(router);
        self.0.misreports.forget(router);
        self.0.reported.forget(router);
    }

    /// Counts a report of a router that is not the router's to make.
    pub(crate) fn refuse(&self, router: &LiveRouter, kind: Misreport, what: &str) {
        self.0.misreports.count(&router.id, kind, 1, what);
    }

    /// A new id for a circuit of this run.
    pub(crate) fn new_circuit_id(&self) -> String {
        format!("{}{}", self.0.run, &self.new_address()[RUN_TAG..])
    }

    /// Whether an id can only be that of a circuit of this run.
    pub(crate) fn is_of_this_run(&self, circuit: &str) -> bool {
        circuit.starts_with(&self.0.run)
    }

    /// A new address of an end of a circuit.
    pub fn new_address(&self) -> String {
        base62(u128::from_le_bytes(self.0.kernel.ids().bytes()))
    }

    async fn forgive(self) {
        let mut ticks = tokio::time::interval(FORGIVE_INTERVAL);
        loop {
            ticks.tick().await;
            self.0.costs.forgive(clock::now());
        }
    }

    /// What a terminator costs now, beyond its own cost.
    pub fn dynamic_cost(&self, terminator: &Id) -> u16 {
        self.0.costs.of(terminator)
    }

    /// A terminator was deleted.
    pub(crate) fn terminator_deleted(&self, terminator: &Id) {
        self.0.costs.forget(terminator);
        self.0.used.forget_terminator(terminator);
    }
}

/// 22 digits.
fn base62(mut number: u128) -> String {
    let mut digits = [b'0'; 22];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(number % 62) as usize];
        number /= 62;
    }
    digits.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_digits_and_letters() {
        assert_eq!(base62(0), "0".repeat(22));
        assert_eq!(base62(61), format!("{}z", "0".repeat(21)));
        assert_eq!(base62(u128::MAX), "7n42DGM5Tflk9n8mt7Fhc7");
    }
}
