//! The connection to one controller: dial, hello, run the channel until it closes, dial again.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use weft_channel::{
    ChannelOptions, DialError, DialOptions, Established, GroupPolicy, RedialPolicy, TypePolicy,
    dial,
};
use weft_wire::{
    Address, Capabilities, FrameLimits, controller_capability,
    ctrl::{ControllerHello, CtrlChanListeners, Listener, Listeners, RouterHello},
    hello::{Hello, HelloResult, alpn, underlay},
    router_capability,
};

use super::{Core, backoff::Backoff, dispatch::FromController};
use crate::{controllers::Controller, link::interfaces, seam::ControllerId};

/// The interval at which a router checks if a controller that has dialed it is the one of a target.
const LOOK: Duration = Duration::from_secs(1);

/// The capabilities that this router announces; only those that work.
pub(crate) fn capabilities() -> Capabilities {
    Capabilities::NONE
        .with(router_capability::MULTI_CHANNEL)
        .with(router_capability::BIND_SUCCESS)
        .with(router_capability::ROUTER_DATA_MODEL)
}

/// A controller to be connected to.
#[derive(Debug)]
pub(crate) struct Target {
    state: Mutex<TargetState>,
    /// Cancelled to end the connection and all attempts.
    pub(crate) stop: CancellationToken,
}

#[derive(Debug)]
struct TargetState {
    /// The id, known after the first connection or from a list of controllers.
    id: Option<ControllerId>,
    addresses: Vec<Address>,
}

impl Target {
    /// A target with these addresses.
    pub(crate) fn new(id: Option<ControllerId>, addresses: Vec<Address>) -> Arc<Self> {
        let state = Mutex::new(TargetState { id, addresses });
        Arc::new(Self { state, stop: CancellationToken::new() })
    }

    pub(crate) fn id(&self) -> Option<ControllerId> {
        self.state.lock().id.clone()
    }

    pub(crate) fn set_id(&self, id: ControllerId) {
        self.state.lock().id = Some(id);
    }

    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.state.lock().addresses.clone()
    }

    pub(crate) fn set_addresses(&self, addresses: Vec<Address>) {
        self.state.lock().addresses = addresses;
    }

    /// Adds addresses of the same controller.
    pub(crate) fn add_addresses(&self, more: Vec<Address>) {
        let addresses = &mut self.state.lock().addresses;
        for address in more {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
}

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
    let mut backoff = Backoff::default();
    let mut turn = 0;
    loop {
        needed(core, target).await;
        let addresses = target.addresses();
        let Some(address) = addresses.get(turn % addresses.len().max(1)).cloned() else { return };
        turn = turn.wrapping_add(1);
        match connect_once(core, target, &address).await {
            Ok((established, controller)) => {
                backoff.succeeded();
                turn = turn.wrapping_sub(1);
                let ended = Ended::new(core, &controller);
                run(core.clone(), established, controller, ended).await;
            }
            Err(ConnectError::Duplicate(id)) => {
                if let Some(other) = core.cluster.target_of(&id, target) {
                    other.add_addresses(addresses);
                    core.cluster.drop_target(target);
                    return;
                }
                // The former channel of the same controller is closing.
            }
            Err(problem) => complain(&problem, backoff.failures()),
        }
        tokio::time::sleep(backoff.after_failure(rand::random())).await;
    }
}

/// Waits until the controller has to be dialed, which is not the case while it has dialed this
/// router.
async fn needed(core: &Core, target: &Arc<Target>) {
    let mut changes = core.controllers.changes();
    while is_here(core, target) {
        // Controllers may meanwhile name the controller that has this address.
        let _ = tokio::time::timeout(LOOK, changes.changed()).await;
    }
}

/// True if the controller has dialed this router. A target of which only the address is known may be
/// any controller without a target.
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

/// Logs the first failure in a row, and later ones at growing intervals.
fn complain(problem: &ConnectError, failures: u32) {
    if failures == 0 || failures.is_multiple_of(60) {
        tracing::warn!(%problem, failures, "cannot connect to a controller");
    } else {
        tracing::debug!(%problem, failures, "cannot connect to a controller");
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

/// The hello of this router to controllers.
pub(super) fn said(core: &Core) -> RouterHello {
    let controllers = core.listens.get().map(|listens| listens.controllers.clone());
    RouterHello {
        version: Some(core.options.version.clone()),
        capabilities: capabilities(),
        listeners: listeners(&core.link_listeners.lock().0),
        ctrl_chan_listeners: CtrlChanListeners { listeners: controllers.unwrap_or_default() },
    }
}

/// The options of the channel with a controller.
pub(super) fn channel_options(core: &Core, label: String) -> ChannelOptions {
    ChannelOptions {
        heartbeat: Some(core.options.heartbeat),
        write_timeout: core.options.write_timeout,
        frames: FrameLimits::MODEL,
        // The whole data model may be larger than the budget that all SDKs share.
        frame_memory: None,
        runtime: Some(core.runtime.clone()),
        ..ChannelOptions::control(label)
    }
}

/// The listeners for links, as controllers are told of them.
pub(super) fn listeners(listeners: &[crate::seam::LinkListener]) -> Listeners {
    let listener = |one: &crate::seam::LinkListener| Listener {
        address: one.address.clone(),
        protocol: one.protocol.clone(),
        groups: one.groups.clone(),
        local_binding: one.local_binding.clone(),
    };
    Listeners { listeners: listeners.iter().map(listener).collect() }
}

fn dial_options(core: &Core, address: &Address) -> DialOptions {
    let options = &core.options;
    let mut hello = Hello::new(options.router_id.clone());
    said(core).write(&mut hello.headers);
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
    ended: Ended,
) {
    let behaviour = FromController { core: core.clone(), controller: controller.clone() };
    let chain = established.peer().certificates.clone();
    // Called before anything is read, because the first messages of the controller are about this
    // connection.
    core.connected(&controller, &chain);
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
    drop(ended);
}

/// Removes a controller from the tables when dropped, also if its task is aborted.
pub(super) struct Ended {
    core: Arc<Core>,
    controller: Arc<Controller>,
}

impl Ended {
    /// For a controller that was added to the tables.
    pub(super) fn new(core: &Arc<Core>, controller: &Arc<Controller>) -> Self {
        Self { core: core.clone(), controller: controller.clone() }
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.controller.channel.close("the router is not connected to this controller any more");
        self.core.controllers.remove(&self.controller);
        self.core.disconnected(&self.controller);
    }
}
