//! The connection to one controller: dial, hello, run the channel until it closes, dial again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use tokio::time::Instant;
use weft_channel::{
    ChannelOptions, DialError, DialOptions, Established, GroupPolicy, RedialPolicy, Threads,
    TypePolicy, dial,
};
use weft_wire::ctrl::ControllerHello;
use weft_wire::hello::{Hello, HelloResult, alpn, underlay};
use weft_wire::{Address, FrameLimits, controller_capability};

use super::backoff::Backoff;
use super::dispatch::FromController;
use super::shared::Core;
use super::targets::Target;
use super::{announce, routes};
use crate::controllers::Controller;
use crate::link::interfaces;
use crate::seam::ControllerId;

/// The interval at which this router checks whether the controller of a target still has a channel
/// that the controller dialed.
const LOOK: Duration = Duration::from_secs(1);

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("this machine has no interface or address {0} to dial from (ctrl.bind)")]
    Bind(String),
    #[error(
        "the controller at {0} has neither an id in its hello nor a common name in its certificate"
    )]
    Nameless(Address),
    #[error("the hello of the controller at {0} has no version")]
    NoVersion(Address),
    #[error(
        "the controller at {0} does not issue signed service sessions: it is older than 2.0, which \
         this router does not work with"
    )]
    TooOld(Address),
    #[error("already connected to controller {0}")]
    Duplicate(ControllerId),
}

/// Keeps one controller connected until it is removed.
pub(crate) async fn keep_connected(core: Arc<Core>, target: Arc<Target>) {
    tokio::select! {
        () = target.stop.cancelled() => {}
        () = core.stop.cancelled() => {}
        () = keep(&core, &target) => {}
    }
}

async fn keep(core: &Arc<Core>, target: &Arc<Target>) {
    let (mut backoff, mut complaints) = (Backoff::default(), Complaints::default());
    let mut turn = 0;
    loop {
        target.released().await;
        needed(core, target).await;
        let addresses = target.addresses();
        let Some(address) = addresses.get(turn % addresses.len().max(1)).cloned() else { return };
        turn = turn.wrapping_add(1);
        match connect_once(core, target, &address).await {
            Ok((established, controller)) => {
                turn = turn.wrapping_sub(1);
                let registered = Registered::new(core, &controller);
                core.renewal.accepted();
                let since = Instant::now();
                run(core.clone(), established, controller, registered).await;
                backoff.ended_after(since.elapsed());
                if backoff.failures() == 0 {
                    complaints.forget();
                }
            }
            Err(ConnectError::Duplicate(id)) => {
                if let Some(other) = core.cluster.target_of(&id, target) {
                    other.add_addresses(addresses);
                    core.cluster.drop_target(target);
                    return;
                }
                // The former channel of the same controller is closing.
            }
            Err(problem) => {
                if let ConnectError::Dial(DialError::Refused { .. }) = &problem {
                    core.renewal.refused(&core.identity);
                }
                complaints.complain(&problem, backoff.failures());
            }
        }
        tokio::time::sleep(backoff.after_failure(rand::random())).await;
    }
}

/// Waits while the controller has an open channel that it dialed itself; after that this router has
/// to dial the controller.
async fn needed(core: &Core, target: &Arc<Target>) {
    let mut changes = core.controllers.changes();
    while is_here(core, target) {
        // Controllers may meanwhile name the controller that has this address.
        let _ = tokio::time::timeout(LOOK, changes.changed()).await;
    }
}

/// True if the controller of a target has an open channel that it dialed itself. Where only the
/// address of the target is known, every controller that belongs to no other target counts.
fn is_here(core: &Core, target: &Target) -> bool {
    let here = core.controllers.all().into_iter().filter(|one| !one.was_dialed());
    match target.id() {
        Some(id) => here.into_iter().any(|one| one.id == id),
        None => {
            let known = core.cluster.ids();
            here.into_iter().any(|one| !known.contains(&one.id))
        }
    }
}

/// What the log says of attempts that failed.
#[derive(Debug, Default)]
struct Complaints {
    /// The problems that were logged as warnings since the last connection that lasted.
    told: Vec<String>,
}

impl Complaints {
    /// Most problems that are told apart.
    const MOST: usize = 8;

    /// Whether a warning is due: for a problem that the log does not have yet, and for every 60th failure.
    fn wants_warning(&mut self, problem: &str, failures: u32) -> bool {
        let is_new = self.told.len() < Self::MOST && !self.told.iter().any(|one| one == problem);
        if is_new {
            self.told.push(problem.to_owned());
        }
        is_new || (failures > 0 && failures.is_multiple_of(60))
    }

    /// Logs a failure as a warning if one is due, otherwise at the level debug.
    fn complain(&mut self, problem: &ConnectError, failures: u32) {
        if self.wants_warning(&problem.to_string(), failures) {
            tracing::warn!(%problem, failures, "cannot connect to a controller");
        } else {
            tracing::debug!(%problem, failures, "cannot connect to a controller");
        }
    }

    fn forget(&mut self) {
        self.told.clear();
    }
}

async fn connect_once(
    core: &Arc<Core>,
    target: &Arc<Target>,
    address: &Address,
) -> Result<(Established, Arc<Controller>), ConnectError> {
    let bind = match &core.options.bind {
        // Looked up each time, because an interface may get another address.
        Some(bind) => {
            let found = interfaces::address_of(bind);
            Some(found.ok_or_else(|| ConnectError::Bind(bind.clone()))?)
        }
        None => None,
    };
    let established = dial(DialOptions { bind, ..dial_options(core, address) }).await?;
    let peer = established.peer();
    let result = HelloResult { success: true, text: String::new(), headers: peer.headers.clone() };
    let said = ControllerHello::from_result(&result);
    if !said.capabilities.has(controller_capability::JWT_LEGACY_SESSIONS) {
        return Err(ConnectError::TooOld(address.clone()));
    }
    let version = said.version.ok_or_else(|| ConnectError::NoVersion(address.clone()))?;
    let id = peer.id.clone().or_else(|| common_name(&established));
    let id: ControllerId = id.ok_or_else(|| ConnectError::Nameless(address.clone()))?.into();
    core.controllers.give_way(&id).await;
    let controller = Arc::new(Controller {
        last_ping: Arc::default(),
        id: id.clone(),
        channel: established.handle(),
        capabilities: said.capabilities,
        version: version.release(),
        address: address.to_string(),
    });
    if !core.controllers.add(controller.clone()) {
        return Err(ConnectError::Duplicate(id));
    }
    target.set_id(id);
    Ok((established, controller))
}

fn common_name(established: &Established) -> Option<String> {
    let leaf = established.peer().leaf()?.clone();
    let leaf = weft_identity::Certificate::from_der(leaf).ok()?;
    leaf.common_name().map(str::to_owned)
}

/// The options of the channel with a controller.
pub(super) fn channel_options(core: &Core, label: String) -> ChannelOptions {
    ChannelOptions {
        heartbeat: Some(core.options.heartbeat),
        write_timeout: core.options.write_timeout,
        frames: FrameLimits::MODEL,
        // The whole data model may be larger than the budget that all SDKs share.
        frame_memory: None,
        threads: Some(Threads::of(core.runtime.clone())),
        ..ChannelOptions::control(label)
    }
}

fn dial_options(core: &Core, address: &Address) -> DialOptions {
    let options = &core.options;
    let mut hello = Hello::new(options.router_id.clone());
    announce::hello(core).write(&mut hello.headers);
    let channel = channel_options(core, format!("ctrl {address}"));
    let dial = DialOptions::new(address.clone(), core.tls.clone(), alpn::CTRL, hello, channel);
    // The channel ends with its default connection, whose messages are lost with it. The data model,
    // sessions, circuits and terminators are announced again on the next channel.
    let group = GroupPolicy {
        types: vec![
            TypePolicy::new(underlay::CTRL_DEFAULT, 1, 1),
            TypePolicy::new(underlay::CTRL_HIGH, 1, 0),
        ],
        min_total: 1,
        redial: Some(RedialPolicy { survive: false, ..RedialPolicy::CONTROL }),
        ..GroupPolicy::control_dialer(true)
    };
    let proxy = options.proxy.clone();
    DialOptions { timeout: options.connect_timeout, proxy, group: Some(group), ..dial }
}

/// Runs a channel until it closes.
pub(super) async fn run(
    core: Arc<Core>,
    established: Established,
    controller: Arc<Controller>,
    registered: Registered,
) {
    let behaviour = FromController { core: core.clone(), controller: controller.clone() };
    let chain = established.peer().certificates.clone();
    // Called before anything is read, because the first messages of the controller are about this
    // connection.
    connected(&core, &controller, &chain);
    if let Some(trace) = &core.trace {
        trace.follow(&established.handle());
    }
    let channel = established.start(Arc::new(behaviour));
    tracing::info!(
        controller = %controller.id,
        address = %controller.address,
        "connected to controller"
    );
    let reason = channel.closed().await;
    if core.stop.is_cancelled() {
        tracing::debug!(
            controller = %controller.id, %reason,
            "the connection to a controller ended"
        );
    } else {
        tracing::warn!(
            controller = %controller.id, %reason,
            "the connection to a controller ended"
        );
    }
    drop(registered);
}

/// The controller is connected; its channel is about to run.
fn connected(core: &Arc<Core>, controller: &Arc<Controller>, chain: &[CertificateDer<'static>]) {
    // The listeners and the keys may have changed since this router's hello, while the controller was not among
    // the connected ones yet.
    let listeners = core.link_listeners.lock();
    if listeners.1 || controller.is_of_weft() {
        announce::of_listeners(core, controller, &listeners.0);
    }
    drop(listeners);
    // After the listeners, because the circuits may fill the lane.
    routes::on_connected(core, controller);
    if core.drains.load(Ordering::Acquire) {
        announce::of_the_end(controller);
    }
    core.access.connected(controller, chain);
    core.presence.tell_all(&controller.id);
    core.terminators.on_connected(&controller.id);
}

/// Removes a controller from the tables when dropped, also if its task is aborted.
pub(super) struct Registered {
    core: Arc<Core>,
    controller: Arc<Controller>,
}

impl Registered {
    /// For a controller that was added to the tables.
    pub(super) fn new(core: &Arc<Core>, controller: &Arc<Controller>) -> Self {
        Self { core: core.clone(), controller: controller.clone() }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.controller.channel.close("the router is not connected to this controller any more");
        if self.core.controllers.remove(&self.controller) {
            self.core.data.get().iter().for_each(|data| data.disconnected(&self.controller.id));
        }
        self.core.access.disconnected(&self.controller.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first failure after a connection that lasted was not logged, because the end of the connection counts as
    /// a failure, too.
    #[test]
    fn the_log_has_every_cause_once_and_then_every_60th_failure() {
        let mut complaints = Complaints::default();
        assert!(complaints.wants_warning("Connection refused", 1));
        assert!(!complaints.wants_warning("Connection refused", 2));
        assert!(complaints.wants_warning("router is disabled", 3));
        assert!(!complaints.wants_warning("Connection refused", 4));
        assert!(!complaints.wants_warning("router is disabled", 59));
        assert!(complaints.wants_warning("router is disabled", 60));
        complaints.forget();
        assert!(complaints.wants_warning("Connection refused", 1));
        // Causes that are all different do not fill the log, nor memory.
        let due =
            (1..=50).filter(|at| complaints.wants_warning(&format!("cause {at}"), *at)).count();
        assert_eq!(due, Complaints::MOST - 1);
    }
}
