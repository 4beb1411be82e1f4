//! The control plane: the listener that routers connect to, and what they say and are told.
//!
//! ```text
//! TLS (ALPN ziti-ctrl) -> gate: who is it? -> session: greet, dispatch -> network, domain
//!                                              |
//!                                              +- data model: full state, then changes
//!                                              +- legacy sessions: all, then changes
//! ```
//!
//! - [`gate`]: who may connect; [`dialer`]: routers that are dialed; [`ctrl_listeners`]: where;
//!   [`session`] and [`dispatch`]: one router, and where its messages go;
//! - [`data_model`]: the model that routers decide with; [`legacy`]: opaque sessions; [`ended`]:
//!   what those that end leave with routers;
//! - [`dial`]: circuits for SDKs and tunnelers; [`terminators`]: what routers host;
//! - [`peers`]: what routers hear of each other and of this controller; [`reports`]: what they
//!   report; [`renewal`]: new certificates for them; [`edge_errors`]: refusals in their words.
//!
//! A message acts for the router whose certificate opened the channel, never for an id in it.

pub(crate) mod ctrl_listeners;
pub(crate) mod data_model;
pub(crate) mod dial;
pub(crate) mod dialer;
pub(crate) mod dispatch;
pub(crate) mod edge_errors;
pub(crate) mod ended;
pub(crate) mod gate;
pub(crate) mod legacy;
pub(crate) mod peers;
pub(crate) mod renewal;
pub(crate) mod reports;
pub(crate) mod session;
pub(crate) mod terminators;
mod traffic;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weft_channel::{
    AcceptOptions, ChannelAcceptor, ChannelOptions, ConnectionHandler, HeartbeatOptions,
    ListenerLimits, Listeners, RegisterError, Registration, TlsSource,
};
use weft_config::ControllerConfig;
use weft_identity::LiveIdentity;
use weft_identity::tls::{ClientAuth, ServerTls, server_config};
use weft_model::entity::Router;
use weft_model::{Change, Entity, Kind};
use weft_store::ReadError;
use weft_wire::ctrl::ControllerHello;
use weft_wire::hello::alpn;
use weft_wire::{Capabilities, FrameLimits, Headers, VersionInfo, controller_capability};

pub use data_model::log::LogLimits;
pub use dialer::DialerOptions;

use crate::network::Network;
use crate::{Controller, Notice};
use data_model::Model;
use gate::Gate;
use peers::Peers;

/// Header of hellos and answers: addresses of the APIs, JSON; the second is the older number.
const API_ADDRESSES: [i32; 2] = [2002, 13];

/// Settings of the control plane (docs/protocol/control-plane.md 4, 17, 28).
#[derive(Debug, Clone)]
pub struct ControlOptions {
    /// Heartbeats to routers.
    pub heartbeat: HeartbeatOptions,
    /// Time for a hello.
    pub hello_timeout: Duration,
    /// How long a router may take nothing of what is to be written to it; `None` for ever.
    pub write_timeout: Option<Duration>,
    /// Addresses at which routers are to look for this controller, such as `tls:host:port`. They
    /// keep them over their own configuration; with none they are told nothing.
    pub advertise: Vec<String>,
    /// The address routers are to use for this controller from now on, if it moves.
    pub new_listener: Option<String>,
    /// How many changes of the data model are kept for routers that come back.
    pub log: LogLimits,
    /// Where messages are written down.
    pub trace: Option<weft_channel::TraceFile>,
}

impl Default for ControlOptions {
    fn default() -> Self {
        Self {
            // The countdown begins after twice the limit (docs/protocol/control-plane.md 4).
            heartbeat: HeartbeatOptions {
                grace: Duration::from_secs(60),
                ..HeartbeatOptions::CONTROL
            },
            hello_timeout: Duration::from_secs(5),
            write_timeout: Some(weft_channel::PEER_TIMEOUT),
            advertise: Vec::new(),
            new_listener: None,
            log: LogLimits::default(),
            trace: None,
        }
    }
}

impl From<&ControllerConfig> for ControlOptions {
    fn from(config: &ControllerConfig) -> Self {
        let ctrl = &config.ctrl;
        let heartbeats = &ctrl.router_heartbeats;
        let entries = config.router_data_model.log_size as usize;
        Self {
            heartbeat: HeartbeatOptions {
                send_interval: heartbeats.send_interval,
                check_interval: heartbeats.check_interval,
                close_unresponsive: heartbeats.close_unresponsive,
                grace: heartbeats.close_unresponsive.unwrap_or_default() * 2,
            },
            hello_timeout: ctrl.options.connect_timeout,
            write_timeout: ctrl.options.write_timeout,
            advertise: ctrl.advertise_address.iter().map(ToString::to_string).collect(),
            new_listener: ctrl.new_listener.as_ref().map(ToString::to_string),
            log: LogLimits { entries, ..LogLimits::default() },
            trace: None,
        }
    }
}

/// The control plane of a controller.
#[derive(Clone)]
pub struct ControlPlane(Arc<Plane>);

/// What the parts of the control plane share.
pub(crate) struct Plane {
    pub(crate) controller: Controller,
    pub(crate) network: Network,
    pub(crate) options: ControlOptions,
    pub(crate) model: Arc<Model>,
    pub(crate) peers: Peers,
    pub(crate) sessions: Arc<legacy::Book>,
    stop: CancellationToken,
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ControlPlane({:?})", self.0.network)
    }
}

impl ControlPlane {
    /// Prepares everything that routers are answered with. Connections are taken by
    /// [`ControlPlane::listen`].
    pub async fn start(network: Network, options: ControlOptions) -> Result<Self, ReadError> {
        let controller = network.controller().clone();
        let (model, changes) = Model::load(controller.clone(), options.log).await?;
        let (sessions, following) = legacy::Book::open(controller.clone());
        network.spawn(following);
        let plane = Self(Arc::new(Plane {
            controller,
            sessions,
            options,
            model: Arc::clone(&model),
            peers: Peers::default(),
            stop: CancellationToken::new(),
            network: network.clone(),
        }));
        network.spawn(model.follow(changes));
        network.spawn(plane.0.clone().follow_routers());
        network.spawn(plane.0.clone().tell_peers());
        Ok(plane)
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.0.network
    }

    /// Takes routers on an address, next to other protocols that are registered there.
    pub async fn listen(
        &self,
        listeners: &Listeners,
        bind: &str,
        limits: ListenerLimits,
        tls: TlsSource,
    ) -> Result<Registration, RegisterError> {
        listeners.listen(bind, limits, &[alpn::CTRL], tls, self.acceptor()).await
    }

    /// What turns TLS connections of routers into channels.
    pub fn acceptor(&self) -> Arc<dyn ConnectionHandler> {
        let options = AcceptOptions {
            hello_timeout: self.0.options.hello_timeout,
            vouches: true,
            ..AcceptOptions::default()
        };
        Arc::new(ChannelAcceptor::new(Gate(Arc::clone(&self.0)), options))
    }

    /// The TLS settings of the listener: the identity's certificates, and every router must show
    /// one of its own, which the gate judges.
    pub fn tls(identity: &Arc<LiveIdentity>) -> weft_identity::Result<TlsSource> {
        let alpn = [alpn::CTRL.as_bytes()];
        let settings = ServerTls { alpn: &alpn, client_auth: ClientAuth::Require };
        let config = Arc::new(server_config(identity, &settings)?);
        Ok(Arc::new(move || Some(Arc::clone(&config))))
    }

    /// Refuses further connections. The channels there are close with the network.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// The index of the data model that routers are told.
    pub fn model_index(&self) -> u64 {
        self.0.model.index()
    }
}

impl Plane {
    /// What this controller can do. Nothing is in here that does not work.
    pub(crate) fn capabilities() -> Capabilities {
        Capabilities::NONE
            .with(controller_capability::CREATE_TERMINATOR_V2)
            .with(controller_capability::SINGLE_ROUTER_LINK_SOURCE)
            .with(controller_capability::CREATE_CIRCUIT_V2)
            .with(controller_capability::ROUTER_DATA_MODEL)
            .with(controller_capability::GROUPED_CTRL_CHAN)
            .with(controller_capability::JWT_LEGACY_SESSIONS)
            .with(controller_capability::ADOPTS_CIRCUITS)
    }

    /// What a hello or its answer says of this controller.
    pub(crate) fn headers(&self) -> Headers {
        let mut headers = Headers::new();
        let version = Some(self.version());
        ControllerHello { version, capabilities: Self::capabilities() }.write(&mut headers);
        let apis = self.controller.settings().addresses.apis.iter();
        let apis = apis.map(|(api, urls)| {
            let urls = urls.iter().map(|url| serde_json::json!({"url": url, "version": "v1"}));
            (api.as_str().to_owned(), urls.collect())
        });
        let apis = serde_json::Value::Object(apis.collect()).to_string();
        for key in API_ADDRESSES {
            headers.set_str(key, &apis);
        }
        headers
    }

    /// Settings of the channel with a router.
    pub(crate) fn channel_options(&self, label: String) -> ChannelOptions {
        ChannelOptions {
            heartbeat: Some(self.options.heartbeat),
            frames: FrameLimits::FROM_ROUTER,
            sends: FrameLimits::MODEL,
            write_timeout: self.options.write_timeout,
            ..ChannelOptions::control(label)
        }
    }

    /// The version in hellos.
    pub(crate) fn version(&self) -> VersionInfo {
        let build = &self.controller.settings().build;
        VersionInfo {
            version: build.version.clone(),
            revision: build.revision.clone(),
            build_date: build.build_date.clone(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Closes the channels of routers that were deleted, disabled or are to enroll again
    /// (docs/protocol/control-plane.md 2.3, docs/protocol/edge-control-plane.md 17.2).
    async fn follow_routers(self: Arc<Self>) {
        let (_, mut changes) = self.controller.subscribe();
        while let Some(notice) = changes.next().await {
            match notice {
                Notice::Change(published) => {
                    let changes = published.changes.iter().flat_map(|set| &set.changes);
                    for change in changes {
                        match change {
                            Change::Put(Entity::Router(router)) => self.recheck(router),
                            Change::Delete(Kind::Router, id) => self.router_deleted(id),
                            _ => {}
                        }
                    }
                }
                Notice::Resync(snapshot) => {
                    self.network.everything_changed();
                    for live in self.network.routers().all() {
                        match snapshot.get::<Router>(&live.id) {
                            Some(router) => self.recheck(router),
                            None => self.router_deleted(&live.id),
                        }
                    }
                }
            }
        }
    }

    /// A router was changed: whoever was refused for a moment is cut off, and whoever would be
    /// refused now.
    fn recheck(&self, router: &Router) {
        let id = &router.base.id;
        self.network.router_changed(id);
        let Some(live) = self.network.routers().get(id.as_str()) else { return };
        let snapshot = self.controller.snapshot();
        let may_stay = !router.disabled
            && router.fingerprint.is_some()
            && gate::admitted(&snapshot, id.as_str(), |known| live.stands_on(known)).is_ok();
        if !may_stay {
            // Before its channel is closed, which still writes what was queued: later nobody could
            // tell it.
            self.network.end_circuits_at(id);
            live.channel.close("the router was disabled, or has to show another certificate");
        }
    }

    fn router_deleted(&self, id: &weft_model::Id) {
        self.network.end_circuits_at(id);
        if let Some(live) = self.network.routers().get(id.as_str()) {
            live.channel.close("the router was deleted");
        }
        self.network.router_deleted(id);
        self.peers.changed(id);
    }
}
