//! The state that the modules of the control plane share, and its settings.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weft_auth::Auth;
use weft_channel::{ChannelOptions, HeartbeatOptions};
use weft_config::ControllerConfig;
use weft_contract::Word as _;
use weft_network::Network;
use weft_wire::ctrl::ControllerHello;
use weft_wire::{Capabilities, FrameLimits, Headers, VersionInfo, controller_capability};

use crate::controllers::shared::Controllers;
use crate::data_model::RouterModel;
use crate::data_model::log::LogLimits;
use crate::peers::Peers;
use crate::standstill::Standstill;

/// Headers of hellos and answers with the addresses of the APIs, as JSON; the second number is the
/// older one.
const API_ADDRESSES: [i32; 2] = [2002, 13];

/// Settings of the control plane (docs/protocol/control-plane.md 4, 17, 28).
#[derive(Debug, Clone)]
pub struct ControlOptions {
    /// Heartbeats to routers.
    pub heartbeat: HeartbeatOptions,
    /// Time limit for a hello.
    pub hello_timeout: Duration,
    /// How long a router may accept none of the bytes to be written to it; `None` for ever.
    pub write_timeout: Option<Duration>,
    /// Addresses at which routers should reach this controller, such as `tls:host:port`. Routers
    /// prefer them to their own configuration. If empty, routers are told nothing.
    pub advertise: Vec<String>,
    /// The address that routers should use from now on, if this controller moves.
    pub new_listener: Option<String>,
    /// Limits on the kept changes of the data model.
    pub log: LogLimits,
    /// The file for traced messages.
    pub trace: Option<weft_channel::TraceFile>,
}

impl Default for ControlOptions {
    fn default() -> Self {
        Self {
            // A router has this limit three times until its first answer (docs/protocol/control-plane.md 4).
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

/// The state that the modules of the control plane share.
pub struct Plane {
    /// The part for logins, and the kernel below it.
    pub auth: Auth,
    /// The network.
    pub network: Network,
    /// Its settings.
    pub options: ControlOptions,
    /// The data model of routers.
    pub model: Arc<RouterModel>,
    /// News for routers about each other.
    pub peers: Peers,
    /// Decides which router is told of which sessions.
    pub(crate) sessions: Arc<crate::legacy::Book>,
    /// The channels between this controller and the others.
    pub(crate) controllers: Controllers,
    pub(crate) stop: CancellationToken,
    /// Whether this controller stood still a moment ago.
    pub(crate) standstill: Standstill,
}

impl Plane {
    /// The capabilities of this controller. Only working ones are listed.
    pub fn capabilities() -> Capabilities {
        Capabilities::NONE
            .with(controller_capability::CREATE_TERMINATOR_V2)
            .with(controller_capability::SINGLE_ROUTER_LINK_SOURCE)
            .with(controller_capability::CREATE_CIRCUIT_V2)
            .with(controller_capability::ROUTER_DATA_MODEL)
            .with(controller_capability::GROUPED_CTRL_CHAN)
            .with(controller_capability::JWT_LEGACY_SESSIONS)
            .with(controller_capability::ADOPTS_CIRCUITS)
            .with(controller_capability::STATES_ENDS)
            .with(controller_capability::TAKES_INDEXES)
    }

    /// The headers about this controller in a hello or its answer.
    pub fn headers(&self) -> Headers {
        let mut headers = Headers::new();
        let version = Some(self.version());
        ControllerHello { version, capabilities: Self::capabilities() }.write(&mut headers);
        let apis = self.auth.kernel().settings().addresses.apis.iter();
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
    pub fn version(&self) -> VersionInfo {
        let build = &self.auth.kernel().settings().build;
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
}
