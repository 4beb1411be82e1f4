//! The data half of the router, put together: forwarder and bindings behind [`seam::Data`].

mod direct;
mod listening;
mod memory;
mod options;
mod routes;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use direct::direct;
use options::end_options;
pub use options::{DataOptions, EdgeLimits};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weft_channel::TraceFile;
use weft_config::router::DialerBinding;
use weft_limits::Budget;
use weft_metrics::Report;
use weft_tunnel::{InterceptError, Interception};
use weft_wire::ctrl::{ClaimCircuits, Route, Unroute};
use weft_xgress::{Options, Role};

use crate::bindings::edge::{EdgeBinding, EdgeOptions};
use crate::bindings::tunnel::{TunnelBinding, interception};
use crate::forwarder::{Forwarder, ReportIntervals, Timers};
use crate::health;
use crate::link::Links;
use crate::link::datagram::Socket;
use crate::measures::Measures;
use crate::seam::{self, Access, Control, ControllerId, NotObeyed, RouteTicket};

/// The longest time that a client takes to begin a circuit after the controller's answer.
const HANDING_OVER: Duration = Duration::from_secs(2);
/// Longest time for removing rules from the firewall.
const CLEAN_UP: Duration = Duration::from_secs(30);

/// The data half of a router.
pub struct DataHalf {
    this: Weak<Self>,
    forwarder: Arc<Forwarder>,
    edge: Arc<EdgeBinding>,
    tunnel: Arc<TunnelBinding>,
    options: DataOptions,
    control: Arc<dyn Control>,
    listening: Mutex<Vec<Socket>>,
    links: OnceLock<Arc<Links>>,
    stop: CancellationToken,
    /// Cancelled when nothing new is accepted any more.
    draining: CancellationToken,
    tunneling: Mutex<Option<JoinHandle<()>>>,
}

impl DataHalf {
    /// Starts the data half, without any listener.
    pub fn start(
        options: DataOptions,
        control: Arc<dyn Control>,
        access: Arc<dyn Access>,
    ) -> Arc<Self> {
        let timers = Timers::start(&options.threads.first());
        let budget = Budget::new(memory::budget());
        let quiet = options.forwarder.xgress_close_check_interval;
        let forwarder = Forwarder::new(Arc::clone(&control), timers, budget, quiet);
        forwarder.set_router_id(&options.router_id);
        let dialer = |binding| options.dialers.iter().find(|one| one.binding == binding);
        let hosted = dialer(DialerBinding::Edge).map(|one| end_options(&one.options));
        let tunnel = dialer(DialerBinding::Tunnel).map_or(&options.xgress, |one| &one.options);
        let tunnel_end = end_options(tunnel);
        let edge = EdgeBinding::new(
            Arc::clone(&forwarder),
            Arc::clone(&control),
            Arc::clone(&access),
            EdgeOptions {
                router_id: options.router_id.clone(),
                version: options.version.clone(),
                end: hosted.unwrap_or_default(),
                fin_hold: options.fin_hold,
                per_identity: options.per_identity,
                threads: options.threads.clone(),
                control_runtime: options.control_runtime.clone(),
                trace: options.trace.clone(),
                spans: options.spans.clone(),
            },
        );
        let tunnel = TunnelBinding::new(
            &forwarder,
            &control,
            access,
            tunnel_end,
            options.tunnel.as_ref().map_or_else(Options::default, |own| end_options(&own.options)),
            options.forwarder.xgress_user_timeout,
            options.threads.clone(),
        );
        let stop = CancellationToken::new();
        let half = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            forwarder,
            edge,
            tunnel,
            options,
            control,
            listening: Mutex::default(),
            links: OnceLock::new(),
            draining: stop.child_token(),
            tunneling: Mutex::default(),
            stop,
        });
        half.run();
        half
    }

    /// Reports, in a moment, those of these circuits that no client has begun by then.
    fn report_not_begun(&self, circuits: Vec<Arc<str>>) {
        if circuits.is_empty() {
            return;
        }
        let (forwarder, stop) = (Arc::clone(&self.forwarder), self.stop.clone());
        self.options.control_runtime.spawn(async move {
            // An answer that has come is being handed to its client.
            let wait = tokio::time::sleep(HANDING_OVER);
            if stop.run_until_cancelled(wait).await.is_some() {
                forwarder.report_not_begun(&circuits);
            }
        });
    }

    fn run(&self) {
        let runtime = &self.options.control_runtime;
        runtime.spawn(Arc::clone(&self.edge).watch(self.stop.clone()));
        let forwarder = &self.options.forwarder;
        let intervals = ReportIntervals {
            faults: forwarder.fault_tx_interval.unwrap_or_default(),
            idle: forwarder.idle_tx_interval.unwrap_or_default(),
            idle_after: forwarder.idle_circuit_timeout,
        };
        runtime.spawn(Arc::clone(&self.forwarder).report(intervals, self.stop.clone()));
        self.forwarder.measures().book.begin(self.options.usage_interval);
        self.register();
        runtime.spawn(measure(self.this.clone(), self.stop.clone()));
        runtime.spawn(settle(Arc::clone(&self.forwarder), self.stop.clone()));
        runtime.spawn(Arc::clone(&self.forwarder).keep_time(self.stop.clone()));
    }

    /// Starts the tunneler, if the file asks for one. In mode `tproxy` this changes the machine's
    /// firewall; traffic to `controllers` (host and port) is never intercepted.
    ///
    /// # Errors
    /// When clients are to be intercepted and this machine cannot do it.
    pub async fn tunnel(
        &self,
        controllers: watch::Receiver<Vec<(String, u16)>>,
    ) -> Result<(), InterceptError> {
        let Some(options) = self.options.tunnel.clone() else { return Ok(()) };
        // Clients are accepted on one of the threads of circuits, and carried on any of them.
        let runtime = &self.options.threads.first();
        let first = controllers.borrow().clone();
        let interception = match interception(&options, &self.options.router_id, first) {
            Some(wanted) => {
                let starting = runtime.spawn(Interception::start(wanted)).await;
                let gone = |_| InterceptError::Machine("the router is shutting down".to_owned());
                let started = starting.map_err(gone)??;
                runtime.spawn(keep_controllers(
                    Arc::downgrade(&started),
                    controllers,
                    self.stop.clone(),
                ));
                Some(started)
            }
            None => None,
        };
        let (draining, stop) = (self.draining.clone(), self.stop.clone());
        let running = Arc::clone(&self.tunnel).run(options, interception, draining, stop);
        *self.tunneling.lock() = Some(runtime.spawn(running));
        Ok(())
    }

    /// Waits until a router that was shut down has removed its rules from the machine.
    pub async fn gone(&self) {
        let tunneling = self.tunneling.lock().take();
        if let Some(tunneling) = tunneling
            && tokio::time::timeout(CLEAN_UP, tunneling).await.is_err()
        {
            tracing::warn!(
                "rules of the firewall could not all be removed; the next start removes them"
            );
        }
    }

    /// Registers metrics whose values are read when a report is made.
    fn register(&self) {
        let gauge = |of: fn(&Self) -> u64| {
            let this = self.this.clone();
            move || {
                let found = this.upgrade().map_or(0, |this| of(&this));
                i64::try_from(found).unwrap_or(i64::MAX)
            }
        };
        self.forwarder.measures().also(|scope| {
            scope.gauge("edge.connections", gauge(|this| this.edge.connections() as u64));
            scope.gauge("weft.circuits", gauge(|this| this.counts().0 as u64));
            scope.gauge("weft.links", gauge(|this| this.link_count() as u64));
            scope.gauge("weft.buffered_bytes", gauge(Self::budget_used));
            let refused = self.this.clone();
            scope.meter("weft.links.refused", move || {
                refused.upgrade().map_or(0, |this| this.links_refused())
            });
            let name = "pool.link.dialer.busy_workers";
            scope.gauge(name, gauge(|this| this.link_dials().0 as u64));
            let name = "pool.link.dialer.worker_count";
            scope.gauge(name, gauge(|this| this.link_dials().1 as u64));
        });
    }

    /// The number of links that are being dialed, and the most links that may be dialed at the same
    /// time.
    fn link_dials(&self) -> (usize, usize) {
        self.links.get().map_or((0, 0), |links| links.dials())
    }

    /// The links as a health check shows them.
    pub(crate) fn link_details(&self) -> Vec<serde_json::Value> {
        let links = self.links.get().map(|links| links.all_reports()).unwrap_or_default();
        let measured = if links.is_empty() { Report::new() } else { self.measures().read() };
        links.iter().map(|link| health::link_detail(link, &measured)).collect()
    }

    /// The routers at both ends of each link.
    pub(crate) fn link_peers(&self) -> HashMap<String, (String, String)> {
        self.links.get().map(|links| links.ends()).unwrap_or_default()
    }

    /// The file for traced messages.
    pub(crate) fn trace(&self) -> Option<TraceFile> {
        self.options.trace.clone()
    }

    /// The measurements of the router.
    pub(crate) fn measures(&self) -> &Arc<Measures> {
        self.forwarder.measures()
    }

    /// The links, once [`Self::begin_links`] was called.
    pub(crate) fn linking(&self) -> Option<Arc<Links>> {
        self.links.get().cloned()
    }

    /// Cancelled when nothing new is accepted any more.
    pub(crate) fn draining(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// How many links are open.
    #[must_use]
    pub fn link_count(&self) -> usize {
        self.links.get().map_or(0, |links| links.count())
    }

    /// How many routers that opened a link were refused because their hello or certificate was not
    /// accepted.
    #[must_use]
    pub fn links_refused(&self) -> u64 {
        self.links.get().map_or(0, |links| links.refused())
    }

    /// Counts of the messages thrown away since the start.
    #[must_use]
    pub fn dropped_messages(&self) -> seam::Dropped {
        self.forwarder.drops().seen()
    }

    /// Accepts no new connections, circuits or terminators. The terminators of this router are
    /// removed, so that other hosts get new dials; circuits that are up stay.
    pub fn drain(&self) {
        self.draining.cancel();
        self.listening.lock().clear();
        self.edge.drain();
        self.tunnel.host_nothing();
    }

    /// Stops listening, closes SDK connections and gives up the ends of circuits that are left. Their
    /// controllers are told, and tell the routers at the other ends.
    pub fn cut(&self) {
        self.listening.lock().clear();
        self.edge.close_all("the router is shutting down");
        self.forwarder.cut();
    }

    /// The number of circuits whose routes lead to an end on this router or at one of its SDKs. A
    /// circuit counts until its controller unroutes it, even if the end itself is gone.
    #[must_use]
    pub fn ending_here(&self) -> usize {
        self.forwarder.ending_here()
    }

    /// Closes the links, and ends the tasks in the background; [`DataHalf::cut`] comes before.
    pub fn shutdown(&self) {
        if let Some(links) = self.links.get() {
            links.shut_down();
        }
        self.stop.cancel();
    }

    /// How many circuits and ends of circuits there are.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        self.forwarder.counts()
    }

    /// Bytes that circuits hold on this router.
    #[must_use]
    pub fn budget_used(&self) -> u64 {
        self.forwarder.budget().used()
    }

    #[cfg(test)]
    pub(crate) fn edge(&self) -> &Arc<EdgeBinding> {
        &self.edge
    }
}

impl seam::Data for DataHalf {
    fn begin(
        &self,
        from: &ControllerId,
        route: &Route,
    ) -> Result<Box<dyn seam::BegunRoute>, NotObeyed> {
        self.begin_route(from, route)
    }

    fn retract(&self, route: &RouteTicket) {
        self.forwarder.retract(route);
    }

    fn unroute(&self, from: &ControllerId, unroute: &Unroute) -> Result<(), NotObeyed> {
        self.forwarder.unroute(from, unroute)
    }

    fn claim(&self, from: &ControllerId, claim: &ClaimCircuits) -> Vec<Route> {
        let routes = self.forwarder.claim(from, claim);
        // What was reported of them when the connection ended waits for the former owner. One that is connected has lost
        // etcd only, and answers still.
        let former: ControllerId = claim.controller.as_str().into();
        if former != *from && !self.control.is_connected(&former) {
            self.report_not_begun(self.forwarder.not_begun(&former));
        }
        routes
    }

    fn end_gone(&self, asked: &ControllerId, circuit: &str, end: Role) {
        self.forwarder.end_gone(asked, circuit, end);
    }

    fn disconnected(&self, controller: &ControllerId) {
        self.report_not_begun(self.forwarder.not_begun(controller));
    }

    fn has_destination(&self, address: &str) -> bool {
        self.forwarder.destination(address).is_some()
    }

    fn routes_of(&self, owner: &ControllerId) -> Vec<Route> {
        self.forwarder.routes_of(owner)
    }

    fn taken_from(&self, controller: &ControllerId) -> Vec<Arc<str>> {
        self.forwarder.taken_from(controller)
    }

    fn routes(&self) -> Vec<(ControllerId, Route)> {
        self.forwarder.routes()
    }

    fn route_of(&self, circuit: &str) -> Option<Route> {
        self.forwarder.route_of(circuit)
    }

    fn vouches(&self, binding: &str, terminator: &str) -> bool {
        match binding {
            "edge" => self.edge.hosts(terminator),
            "tunnel" => self.tunnel.hosts(terminator),
            // An address can always be dialed.
            other => direct(other).is_some(),
        }
    }

    fn open_session_tokens(&self) -> Vec<String> {
        self.edge.open_session_tokens()
    }

    fn peers(&self, from: &seam::ControllerId, news: Vec<seam::PeerReport>) {
        if let Some(links) = self.links.get() {
            links.peers(from, news);
        }
    }

    fn link_faulted(&self, link: &str, iteration: u32) {
        if let Some(links) = self.links.get() {
            links.faulted(link, iteration);
        }
    }

    fn links(&self) -> Vec<seam::LinkReport> {
        self.links.get().map(|links| links.reports()).unwrap_or_default()
    }

    fn inspect_links(&self) -> serde_json::Value {
        self.links.get().map(|links| links.inspect()).unwrap_or_default()
    }

    fn inspect_links_of(&self, ids: &HashSet<&str>) -> serde_json::Map<String, serde_json::Value> {
        self.links.get().map(|links| links.inspect_some(ids)).unwrap_or_default()
    }

    fn inspect_ends(&self, circuit: &str) -> serde_json::Map<String, serde_json::Value> {
        self.forwarder.inspect_ends(circuit)
    }

    fn inspect_sdk_circuits(&self) -> serde_json::Map<String, serde_json::Value> {
        self.forwarder.inspect_sdk_circuits()
    }

    fn dropped(&self) -> seam::Dropped {
        self.forwarder.drops().seen()
    }

    fn measured(&self) -> Report {
        self.measures().read()
    }

    fn take_measured(&self, age: Duration) -> seam::Measured {
        seam::Measured {
            report: self.measures().read(),
            latencies: self.links.get().map(|links| links.latencies()).unwrap_or_default(),
            usage: self.measures().book.due(age),
        }
    }

    fn reports_lost(&self, count: u64) {
        self.measures().lost_reports.add(count);
    }
}

/// Brings rates up to date at every interval, and measures the queues of links and the ends of
/// circuits.
async fn measure(data: Weak<DataHalf>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(weft_metrics::TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let Some(data) = data.upgrade() else { return };
        let now = weft_circuit::now();
        if let Some(links) = data.links.get() {
            links.look_at_queues(now);
        }
        data.forwarder.look_at_ends();
        data.measures().tick(now);
    }
}

/// Excludes the addresses of controllers from interception, as they become known.
async fn keep_controllers(
    interception: Weak<Interception>,
    mut controllers: watch::Receiver<Vec<(String, u16)>>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            changed = controllers.changed() => if changed.is_err() { return },
        }
        let Some(interception) = interception.upgrade() else { return };
        interception.set_controllers(controllers.borrow_and_update().clone());
    }
}

/// Writes the bytes that circuits carried into the book, whenever an interval is over.
async fn settle(forwarder: Arc<Forwarder>, stop: CancellationToken) {
    loop {
        // At most a minute, so that a clock that was set is noticed soon.
        let wait = forwarder.measures().book.left().min(Duration::from_secs(60));
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        forwarder.settle();
    }
}

impl std::fmt::Debug for DataHalf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataHalf").field("forwarder", &self.forwarder).finish_non_exhaustive()
    }
}
