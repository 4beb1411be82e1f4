//! The control half: connections to controllers, requests to them and commands from them.
//!
//! ```text
//!  cluster ──> connect ──> dispatch ──┬──> routes      (circuits through this router)
//!  (which      (dial,      (messages  ├──> terminators (kept over reconnects)
//!   there are)  hello)      sorted)   ├──> validation, inspect
//!                                     ├──> renewal     (certificates)
//!                                     └──> access      (data model, sessions)
//!  accept ──> connect         (controllers that dial this router)
//!  bindings ──> Control ──> circuits, terminators, presence, faults
//! ```
//!
//! Below them all lies [`shared`] with the state of each: the [`targets`] of `cluster`, the tables of
//! [`routes`] and [`terminators`], and the identities that are [`online`].
//!
//! A controller that connects is sent, in this order: the listeners for links if they have changed, the
//! circuits that this router carries for it (see [`routes`]), and the links. The connected identities
//! follow, `access` subscribes to the data model, and terminators that were made at this controller wait
//! to be asked about. A channel that closes fails the requests under way; requests for terminators are
//! sent again.

mod accept;
mod announce;
mod backoff;
mod circuits;
mod cluster;
mod connect;
mod dispatch;
mod faults;
mod hint;
mod inspect;
mod interfaces;
mod links;
mod local;
mod metrics;
mod online;
mod options;
mod presence;
mod renewal;
mod routes;
mod shared;
mod statements;
mod targets;
mod terminators;
mod validation;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) use cluster::first_addresses;
use futures::future::BoxFuture;
pub(crate) use local::Held;
use online::Presence;
pub(crate) use options::{ControlOptions, EdgeAddresses, proxies, proxy};
use parking_lot::Mutex;
use renewal::pending::Renewal;
use routes::state::Routes;
use shared::Core;
pub(crate) use shared::Listens;
use targets::Cluster;
use terminators::table::Terminators;
use tokio::runtime;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_channel::TraceFile;
use weft_client::enroll::CertificateNames;
use weft_e2e::ends::StatementReply;
use weft_identity::LiveIdentity;
use weft_identity::tls::{ClientTls, client_config};
use weft_wire::ctrl::{CircuitConfirmation, Fault};
use weft_wire::{Message, ProtoBody};
use weft_xgress::Role;

use crate::access::AccessHalf;
use crate::controllers::{Controller, Controllers};
use crate::measures::Measures;
use crate::seam::{
    BindingCircuitRequest, CircuitRequest, Control, ControllerId, Data, EndRequest, LinkControl,
    LinkLatency, LinkListener, LinkReport, NewCircuit, Refusal, TerminatorRequest,
    TerminatorUpdate, TunnelCircuitRequest, Unverified,
};

/// Most questions of controllers that are being answered at once.
const SIDE_TASKS: usize = 64;
/// Most lists of controllers that wait to be applied.
const CLUSTER_QUEUE: usize = 64;
/// The interval at which routes are removed whose circuits the data half no longer has, and reports
/// for controllers that do not belong to the network any more.
const HOUSEKEEPING: Duration = Duration::from_secs(60);
/// The interval at which identity files are checked for changes.
const LOOK: Duration = Duration::from_secs(1);

/// The control half. Clones share it.
#[derive(Clone)]
pub(crate) struct ControlHalf(Arc<Core>);

/// The parts of the control half that are made before it.
pub(crate) struct Parts {
    pub(crate) options: ControlOptions,
    /// The file for traced messages.
    pub(crate) trace: Option<TraceFile>,
    pub(crate) identity: Arc<LiveIdentity>,
    pub(crate) names: Option<CertificateNames>,
    pub(crate) controllers: Arc<Controllers>,
    pub(crate) access: AccessHalf,
    pub(crate) runtime: runtime::Handle,
}

impl ControlHalf {
    /// The control half, idle until [`begin`](Self::begin).
    pub(crate) fn new(parts: Parts) -> Result<Self, weft_identity::Error> {
        let Parts { options, trace, identity, names, controllers, access, runtime } = parts;
        let tls =
            Arc::new(client_config(&ClientTls::of_identity(&identity, &[]).to_controllers())?);
        let (cluster_messages, queue) = mpsc::channel(CLUSTER_QUEUE);
        let core = Arc::new(Core {
            tls,
            cluster: Cluster::default(),
            cluster_messages,
            routes: Routes::new(options.route_workers, options.route_queue),
            terminators: Terminators::new(
                options.limiter.clone(),
                options.limited_workers,
                options.limited_queue,
            ),
            presence: Presence::new(options.connect_events_queue),
            renewal: Renewal::new(names),
            side_tasks: Arc::new(Semaphore::new(SIDE_TASKS)),
            drains: AtomicBool::new(false),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            data: OnceLock::new(),
            listens: OnceLock::new(),
            link_listeners: Mutex::default(),
            options,
            trace,
            identity,
            controllers,
            access,
            runtime,
        });
        core.spawn(cluster::run(core.clone(), queue));
        Ok(Self(core))
    }

    /// Starts to connect. `data` carries out the commands of controllers; controllers are told of the
    /// listeners.
    pub(crate) fn begin(&self, data: Arc<dyn Data>, listens: Listens) {
        let core = &self.0;
        core.link_listeners.lock().0.clone_from(&listens.links);
        if core.listens.set(listens).is_err() || core.data.set(data).is_err() {
            return;
        }
        core.access.begin(&core.runtime, &core.tasks, &core.stop);
        core.spawn(terminators::removal::run(core.clone()));
        if core.options.connect_events {
            core.spawn(presence::run(core.clone()));
        }
        if let Some(reports) = core.options.interfaces {
            core.spawn(interfaces::run(core.clone(), reports));
        }
        core.spawn(presence::run_heartbeats(core.clone()));
        core.spawn(renewal::run(core.clone()));
        core.spawn(metrics::run(core.clone()));
        core.spawn(housekeeping(core.clone()));
        core.spawn(follow_identity(core.clone()));
        cluster::begin(core);
    }

    /// Registers the metrics of the control half.
    pub(crate) fn register(&self, measures: &Measures) {
        let gauge = |of: fn(&Core) -> usize| {
            let core = Arc::downgrade(&self.0);
            move || {
                let found = core.upgrade().map_or(0, |core| of(&core));
                i64::try_from(found).unwrap_or(i64::MAX)
            }
        };
        measures.also(|scope| {
            let pool = |what: &str| format!("pool.route.handler.{what}");
            scope.gauge(pool("queue_size"), gauge(|core| core.routes.dial_slots.load().waiting));
            scope.gauge(pool("busy_workers"), gauge(|core| core.routes.dial_slots.load().busy));
            scope.gauge(pool("worker_count"), gauge(|core| core.routes.dial_slots.load().workers));
            let times = self.0.routes.times();
            scope.timer(pool("work_timer"), move |all| times.add_to(all));
            let oversized = self.0.routes.oversized.count();
            scope.meter("weft.routes.refused", move || oversized.get());
            let limiter = |what: &str| format!("ctrl_limiter.{what}");
            scope.gauge(limiter("in_process"), gauge(|core| core.terminators.window().0));
            scope.gauge(limiter("window_size"), gauge(|core| core.terminators.window().1));
            scope.gauge("weft.controllers", gauge(|core| core.controllers.all().len()));
            let identity = Arc::clone(&self.0.identity);
            scope.gauge("weft.certificate.seconds_left", move || renewal::seconds_left(&identity));
        });
    }

    /// Changes the listeners for links, and tells controllers.
    pub(crate) fn set_link_listeners(&self, listeners: Vec<LinkListener>) {
        let core = &self.0;
        // Held until every controller is told, so that no older list follows a newer one.
        let mut now = core.link_listeners.lock();
        *now = (listeners, true);
        for controller in core.controllers.all() {
            announce::of_listeners(core, &controller, &now.0);
        }
    }

    /// The router is about to stop: asks controllers to lead no new circuit over it.
    pub(crate) fn drain(&self) {
        self.0.drains.store(true, Ordering::Release);
        self.0.controllers.all().iter().for_each(|controller| announce::of_the_end(controller));
    }

    /// True if a controller is connected.
    pub(crate) fn is_connected(&self) -> bool {
        !self.0.controllers.all().is_empty()
    }

    /// The number of terminators whose removal no controller has confirmed.
    pub(crate) fn removals(&self) -> usize {
        self.0.terminators.removals()
    }

    /// Checks the identity files at once.
    pub(crate) async fn reload(&self) {
        look_at_identity(&self.0, &mut String::new()).await;
    }

    /// Ends every connection and waits until all tasks have ended.
    pub(crate) async fn shutdown(&self) {
        let core = &self.0;
        core.stop.cancel();
        for controller in core.controllers.all() {
            controller.channel.close("the router stops");
        }
        core.tasks.close();
        core.tasks.wait().await;
        core.access.save();
    }
}

async fn housekeeping(core: Arc<Core>) {
    loop {
        tokio::time::sleep(HOUSEKEEPING).await;
        let known = core.cluster.ids();
        // While no controller is known by its id, any controller of the network may dial this
        // router, so that all reports are kept.
        core.routes.retain_reports(|owner| known.is_empty() || known.contains(owner));
    }
}

/// Uses keys and certificates that change while the router runs.
async fn follow_identity(core: Arc<Core>) {
    // The same error is logged once, not every second.
    let mut complaint = String::new();
    loop {
        tokio::time::sleep(LOOK).await;
        look_at_identity(&core, &mut complaint).await;
    }
}

async fn look_at_identity(core: &Arc<Core>, complaint: &mut String) {
    let identity = core.identity.clone();
    match tokio::task::spawn_blocking(move || identity.reload_if_changed()).await {
        Ok(Ok(true)) => {
            complaint.clear();
            core.access.identity_changed();
            let now = core.link_listeners.lock();
            for controller in core.controllers.all().iter().filter(|it| it.is_of_weft()) {
                announce::of_listeners(core, controller, &now.0);
            }
            drop(now);
            tracing::info!("new certificates are in use");
        }
        Ok(Err(problem)) if problem.to_string() != *complaint => {
            *complaint = problem.to_string();
            tracing::warn!(
                %problem,
                "the changed identity files cannot be used; the former certificates stay in \
                 use"
            );
        }
        _ => {}
    }
}

impl Control for ControlHalf {
    fn create_circuit(
        &self,
        request: CircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>> {
        let core = self.0.clone();
        Box::pin(async move { circuits::for_sdk(&core, request).await })
    }

    fn create_tunnel_circuit(
        &self,
        request: TunnelCircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>> {
        let core = self.0.clone();
        Box::pin(async move { circuits::for_tunnel(&core, request).await })
    }

    fn state_end(&self, request: EndRequest) -> BoxFuture<'static, StatementReply> {
        let core = self.0.clone();
        Box::pin(async move { statements::ask(&core, request).await })
    }

    fn create_binding_circuit(
        &self,
        request: BindingCircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>> {
        let core = self.0.clone();
        Box::pin(async move { circuits::for_binding(&core, request).await })
    }

    fn create_terminator(
        &self,
        request: TerminatorRequest,
    ) -> BoxFuture<'static, Result<(), Refusal>> {
        terminators::create(&self.0, request)
    }

    fn update_terminator(&self, id: &str, update: TerminatorUpdate) {
        terminators::update(&self.0, id, update);
    }

    fn remove_terminators(&self, ids: Vec<String>) {
        self.0.terminators.remove(ids);
    }

    fn health_event(&self, id: &str, healthy: bool) {
        terminators::health(&self.0, id, healthy);
    }

    fn circuit_ended(&self, owner: &ControllerId, circuit: &str, end: Role, attempt: Option<u32>) {
        routes::on_ended(&self.0, owner, circuit, end, attempt);
    }

    fn forward_faults(&self, owner: Option<&ControllerId>, circuits: Vec<String>) {
        let told = match owner {
            Some(owner) => self.0.controllers.get(owner).into_iter().collect(),
            None => self.0.controllers.all(),
        };
        tell(&told, &Fault::forward(owner.is_some(), &circuits).to_message());
    }

    fn is_connected(&self, controller: &ControllerId) -> bool {
        self.0.controllers.get(controller).is_some()
    }

    fn idle_circuits(&self, owner: &ControllerId, circuits: Vec<(String, Duration)>) {
        let Some(controller) = self.0.controllers.get(owner) else { return };
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let confirmation = CircuitConfirmation {
            circuit_ids: circuits.iter().map(|(id, _)| id.clone()).collect(),
            idle_times: circuits.into_iter().map(|(id, time)| (id, nanos(time))).collect(),
        };
        tell(&[controller], &confirmation.to_message());
    }

    fn circuits_taken(&self, former: &ControllerId, circuits: Vec<String>) {
        if let Some(controller) = self.0.controllers.get(former) {
            routes::tell_taken(&self.0, &controller, circuits);
        }
    }

    fn link_fault(&self, link: &str, iteration: u32) {
        links::fault(&self.0, &Fault::link(link, iteration));
    }

    fn validate_service_sessions(&self, controller: &ControllerId, ids: Vec<String>) {
        self.0.spawn(presence::validate_service_sessions(self.0.clone(), controller.clone(), ids));
    }

    fn identity_connections(&self, identity: &str, connections: usize) {
        self.0.presence.set(identity, connections);
    }
}

impl LinkControl for ControlHalf {
    fn verify_router(
        &self,
        id: &str,
        fingerprint: &str,
    ) -> BoxFuture<'static, Result<(), Unverified>> {
        Box::pin(links::verify(self.0.clone(), id.to_owned(), fingerprint.to_owned()))
    }

    fn controller_changes(&self) -> watch::Receiver<u64> {
        self.0.controllers.changes()
    }

    fn link_up(&self, link: LinkReport) {
        links::up(&self.0, link);
    }

    fn link_connections(&self, link: LinkReport) {
        links::connections(&self.0, &link);
    }

    fn link_duplicate(&self, link: &str, iteration: u32) {
        links::fault(&self.0, &Fault::link_duplicate(link, iteration));
    }

    fn link_latencies(&self, measured: Vec<LinkLatency>) {
        links::latencies(&self.0, measured);
    }
}

/// Sends a message whose loss does no harm, because it is repeated.
fn tell(controllers: &[Arc<Controller>], message: &Message) {
    for controller in controllers {
        if let Err(problem) = controller.channel.try_send(message.clone()) {
            tracing::debug!(controller = %controller.id, %problem, "a report was not sent to a controller");
        }
    }
}
