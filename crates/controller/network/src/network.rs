//! The handle of the network: shared state and settings.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::future::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_channel::{Lane, SendError};
use weft_config::controller::{NetworkConfig, PerIdentity};
use weft_kernel::Kernel;
use weft_kernel::events::Events;
use weft_model::Id;
use weft_model::entity::Router;
use weft_paths::costs::Costs;
use weft_paths::graph::Graph;
use weft_paths::links::Links;
use weft_paths::pending::Pending;
use weft_paths::topology::{ShortestPaths, Topology, World};
use weft_spans::Spans;
use weft_wire::Message;
use weft_wire::ctrl::Unroute;

use crate::adoption::shared::Adoption;
use crate::circuits::Circuits;
use crate::clock;
use crate::create::Hosts;
use crate::elsewhere::shared::Elsewhere;
use crate::full::Full;
use crate::ids::{TAG, base62};
use crate::misreports::{Misreport, Misreports};
use crate::moves::list::Moves;
use crate::ownership::shared::Ownership;
use crate::presence::shared::SharedMachine;
use crate::reported::Reported;
use crate::routers::{LiveRouter, Routers};
use crate::routes::PendingAttempts;
use crate::standing::machine::Machine;
use crate::unroutes::UnrouteDelivery;
use crate::used::UseCounts;

/// The interval at which failures of terminators are forgiven.
const FORGIVE_INTERVAL: Duration = Duration::from_secs(60);
/// Settings of the network (docs/protocol/control-plane.md 28).
#[derive(Debug, Clone)]
pub struct NetworkOptions {
    /// The interval at which [`Network`] looks over all circuits.
    pub cycle: Duration,
    /// How long routers have to answer a route.
    pub route_timeout: Duration,
    /// Attempts at making a circuit, in all; 0 and 1 are both one.
    pub create_circuit_retries: u32,
    /// Least cost of entering a router.
    pub min_router_cost: u16,
    /// Within this time after a router connected, a further connection of it is refused; zero never
    /// refuses.
    pub churn_limit: Duration,
    /// The latency of a link that was not measured yet.
    pub initial_link_latency: Duration,
    /// The shortest interval at which measured latencies change the costs of paths.
    pub latency_interval: Duration,
    /// The share of circuits that one cycle moves to cheaper paths; one circuit at least.
    pub smart_reroute_fraction: f64,
    /// Most circuits that one cycle moves to cheaper paths.
    pub smart_reroute_cap: u32,
    /// The least gain for which a circuit is moved.
    pub smart_min_cost_delta: u32,
    /// How long after a terminator was made, or its router connected, the router is asked whether
    /// it still hosts it.
    pub validation_age: Duration,
    /// The interval at which routers are asked.
    pub validation_interval: Duration,
    /// How long the router of a terminator has for removing it after a dial has found that its host
    /// may not host the service any more.
    pub unfounded_life: Duration,
    /// How long a circuit without a path is kept.
    pub without_path: Duration,
    /// How long a circuit is kept if none of its routers is connected.
    pub lost_circuit_life: Duration,
    /// How long a router has after it connected to report its circuits; then it is asked for them, again and again
    /// at this interval while it does not answer.
    pub carried_grace: Duration,
    /// How long routers may take to connect after a start of the controller. A router that was
    /// without a controller for long may come late.
    pub return_time: Duration,
    /// What each identity may fill.
    pub per_identity: PerIdentity,
    /// The recorder for the spans of new circuits.
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
            unfounded_life: Duration::from_secs(60),
            without_path: Duration::from_secs(5),
            lost_circuit_life: Duration::from_secs(3600),
            carried_grace: Duration::from_secs(3),
            return_time: Duration::from_secs(75),
            per_identity: PerIdentity::default(),
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
            per_identity: config.per_identity,
            ..Self::default()
        }
    }
}

/// The network's questions about sessions.
pub trait Logins: Send + Sync {
    /// Whether a service session exists.
    fn has_session(&self, id: &str) -> bool;

    /// How many sessions there are.
    fn counts(&self) -> LoginCounts;
}

/// Numbers of sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoginCounts {
    /// API sessions.
    pub api_sessions: u64,
    /// Service sessions.
    pub service_sessions: u64,
    /// API sessions that end together with others, and have not ended yet.
    pub to_end: u64,
    /// API sessions that ended so many together that one event told of them, since the start.
    pub ended_together: u64,
    /// Ended API sessions of which routers are still to be told.
    pub to_revoke: u64,
    /// Ended API sessions that are kept in lists for routers that know no lists.
    pub to_revoke_singly: u64,
}

/// The network. Clones share it.
#[derive(Clone)]
pub struct Network(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) kernel: Kernel,
    pub(crate) logins: Arc<dyn Logins>,
    pub(crate) options: NetworkOptions,
    pub(crate) routers: Routers,
    pub(crate) presence: SharedMachine,
    pub(crate) links: Links,
    pub(crate) topology: Topology,
    pub(crate) circuits: Circuits,
    pub(crate) moves: Moves,
    pub(crate) costs: Costs,
    pub(crate) misreports: Misreports,
    pub(crate) shows: crate::inspect::Shows,
    pub(crate) reported: Reported,
    pub(crate) used: UseCounts,
    /// The standing of terminators.
    pub(crate) standing: Mutex<Machine>,
    pub(crate) hosts: Hosts,
    pub(crate) full: Full,
    pub(crate) away: crate::away::Away,
    pub(crate) texts: crate::texts::Texts,
    pub(crate) waiting: PendingAttempts,
    pub(crate) adoption: Adoption,
    pub(crate) events: Events,
    pub(crate) ownership: Ownership,
    pub(crate) elsewhere: Elsewhere,
    runtime: tokio::runtime::Handle,
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
        // A router that answers no routes, or drains, gets no new paths through it.
        Some((router.cost, router.no_traversal || live.is_left_alone(clock::now())))
    }

    fn routers(&self) -> Vec<Id> {
        self.routers.all().iter().map(|router| router.id.clone()).collect()
    }
}

/// A network that this handle does not keep alive.
#[derive(Clone)]
pub struct WeakNetwork(Weak<Inner>);

impl WeakNetwork {
    /// The network, if it still exists.
    pub fn upgrade(&self) -> Option<Network> {
        self.0.upgrade().map(Network)
    }
}

impl Network {
    /// Starts a network without routers, and its background tasks. Stops with [`Network::stop`].
    pub fn start(kernel: Kernel, logins: Arc<dyn Logins>, options: NetworkOptions) -> Self {
        let run = base62(u128::from_le_bytes(kernel.ids().bytes()));
        let pending = Arc::new(Pending::default());
        let (min_cost, interval) = (options.min_router_cost, options.latency_interval);
        let (without_path, unfounded_life) = (options.without_path, options.unfounded_life);
        let presence = SharedMachine::new(options.churn_limit, options.carried_grace);
        let adoption = Adoption::new(options.return_time);
        let ownership = Ownership::new(&kernel.settings().id, &run[..TAG]);
        let network = Self(Arc::new(Inner {
            options,
            routers: Routers::default(),
            presence,
            links: Links::telling(Arc::clone(&pending)),
            topology: Topology::new(min_cost, interval, pending),
            circuits: Circuits::default(),
            moves: Moves::new(without_path),
            costs: Costs::default(),
            misreports: Misreports::default(),
            shows: Default::default(),
            reported: Reported::default(),
            used: UseCounts::default(),
            standing: Mutex::new(Machine::new(unfounded_life)),
            hosts: Hosts::default(),
            full: Full::new(clock::now()),
            away: crate::away::Away::default(),
            texts: crate::texts::Texts::default(),
            waiting: PendingAttempts::default(),
            adoption,
            events: kernel.events().clone(),
            ownership,
            elsewhere: Elsewhere::default(),
            runtime: tokio::runtime::Handle::current(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            kernel,
            logins,
        }));
        network.spawn(network.clone().forgive());
        network.spawn(network.clone().attend());
        network.spawn(network.clone().measure());
        network.spawn(network.clone().look_over());
        network.spawn(network.clone().move_circuits());
        network.spawn(network.clone().look_at_paths());
        network.spawn(network.clone().validate_terminators());
        network.spawn(network.clone().write_held());
        network
    }

    /// Ends the background tasks and closes the channels of all routers.
    pub async fn stop(&self) {
        // A router that has connected by then is among the closed ones.
        self.refuse_routers();
        self.0.stop.cancel();
        for router in self.0.routers.all() {
            router.channel.close("the controller is stopping");
        }
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// A handle that does not keep the network alive.
    pub fn weak(&self) -> WeakNetwork {
        WeakNetwork(Arc::downgrade(&self.0))
    }

    /// Its settings.
    pub fn options(&self) -> &NetworkOptions {
        &self.0.options
    }

    /// The events of the network.
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
        // A future that awaits the task would hold it twice: once as it was given, once as it is awaited.
        self.0.tasks.spawn(task.with_cancellation_token_owned(self.0.stop.clone()));
    }

    /// As [`Network::spawn`], also from a thread outside of the runtime.
    pub(crate) fn spawn_on_runtime(&self, task: impl Future<Output = ()> + Send + 'static) {
        let _runtime = self.0.runtime.enter();
        self.spawn(task);
    }

    /// Sends a message to a router if it is connected and its channel has room. Otherwise the
    /// message is lost, which peers expect of faults.
    pub fn tell(&self, router: &str, lane: Lane, message: Message) {
        let Some(live) = self.0.routers.get(router) else { return };
        match live.channel.try_send_on(lane, message) {
            Ok(()) | Err(SendError::Closed(_)) => {}
            Err(problem) => {
                tracing::debug!(router, %problem, "a message to a router was not sent and is lost")
            }
        }
    }

    /// Tells a router to take a circuit down. The unroute waits while the router's channel has no room: it may come
    /// after later messages, but never after a later route of the circuit. False if too many unroutes wait for the
    /// router; it asks about the circuit when it finds it idle.
    pub(crate) fn tell_over(&self, router: &str, unroute: &Unroute) -> bool {
        let Some(live) = self.0.routers.get(router) else { return true };
        let told = live.unroutes.tell(&live.channel, unroute);
        if told == UnrouteDelivery::BeginToSend {
            self.spawn_on_runtime(async move { live.unroutes.send(&live.channel).await });
        }
        told != UnrouteDelivery::No
    }

    /// The graph of connected routers and usable links, in which paths are found. The graph is
    /// shared.
    pub fn graph(&self) -> Arc<Graph> {
        self.0.topology.current(&*self.0, &self.0.links)
    }

    /// The cheapest paths from a router.
    pub fn ways(&self, from: &Id) -> ShortestPaths {
        self.0.topology.paths_from(&*self.0, &self.0.links, from)
    }

    /// Notes that a router connected, disconnected, or has a changed entity.
    pub fn router_changed(&self, router: &Id) {
        self.0.topology.pending().router(router);
    }

    /// Notes that a router drains: its circuits stay, and no new path leads through it.
    pub fn on_drains(&self, router: &LiveRouter) {
        if router.begins_to_drain() {
            tracing::info!(router = %router.id, "a router drains: new circuits avoid it");
            self.router_changed(&router.id);
        }
    }

    /// Notes that any number of routers changed.
    pub fn everything_changed(&self) {
        self.0.topology.pending().everything();
    }

    /// Handles the deletion of a router.
    pub fn router_deleted(&self, router: &Id) {
        self.router_changed(router);
        self.0.links.forget(router);
        self.0.misreports.forget(router);
        self.0.reported.forget(router);
    }

    /// Counts a refused report of a router.
    pub(crate) fn refuse(&self, router: &LiveRouter, kind: Misreport, what: &str) {
        self.0.misreports.count(&router.id, kind, 1, what);
    }

    /// Whether the id of a circuit says that a controller of the network has made it: a router must not choose such an id.
    pub fn is_id_of_controller(&self, circuit: &str) -> bool {
        self.0.ownership.is_of_controller(circuit)
    }

    /// A new id for a circuit of this run.
    pub(crate) fn new_circuit_id(&self) -> String {
        format!("{}{}", self.0.ownership.run(), &self.new_address()[2 * TAG..])
    }

    /// Whether only a circuit of this run can have this id.
    pub(crate) fn is_of_this_run(&self, circuit: &str) -> bool {
        self.0.ownership.is_of_this_run(circuit)
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

    /// The cost of a terminator beyond its own cost, from failures and circuits.
    pub fn dynamic_cost(&self, terminator: &Id) -> u16 {
        self.0.costs.of(terminator)
    }

    /// Handles the deletion of a terminator.
    pub(crate) fn terminator_deleted(&self, terminator: &Id) {
        self.0.costs.forget(terminator);
        self.0.used.forget_terminator(terminator);
    }
}
