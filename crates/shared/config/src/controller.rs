//! The controller's file (docs/protocol/config.md 4).

mod edge;
mod events;
mod external_tokens;
mod logins;
mod network;
mod router_names;
mod storage;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use edge::{
    EdgeConfig, EnrollmentConfig, IdentityStatusConfig, IdentityStatusSource, JwksFetch, Network,
    OidcTokens, SigningCert,
};
pub use events::{
    EventHandler, EventSink, EventSubscription, FileEvents, QueueEvents, UsageVersion,
};
pub use external_tokens::ExternalTokensConfig;
pub use logins::LoginsConfig;
pub use network::{ControlConfig, ControlDialer, NetworkConfig, PerIdentity};
pub use router_names::{NameRule, RouterNames};
pub use storage::{ClusterConfig, EtcdLogin, Storage};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use weft_identity::IdentitySection;

use crate::debugging::Debugging;
use crate::error::{Error, Examined, Loaded};
use crate::file;
use crate::identity::{self, Required};
use crate::rate_limiter::RateLimiter;
use crate::section::Section;
use crate::web::{self, BindPoint, Side, WebApi, WebServer};
use crate::yaml::{Environment, ProcessEnvironment};

/// A controller's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct ControllerConfig {
    /// The identity of the controller.
    pub identity: IdentitySection,
    /// The storage of the model.
    pub storage: Storage,
    /// Folder for snapshots of the model (`snapshots.folder`); none = the folder of the model.
    pub snapshot_folder: Option<PathBuf>,
    /// Name of the network in SPIFFE ids, without scheme; none = from the certificates.
    pub trust_domain: Option<String>,
    /// Former names of the network, without scheme.
    pub additional_trust_domains: Vec<String>,
    /// Until when the network may go back to OpenZiti (`wayBackUntil`): its controller would know no certificate that is
    /// issued anew meanwhile. None = it stays.
    pub way_back_until: Option<OffsetDateTime>,
    /// Paths and circuits.
    pub network: NetworkConfig,
    /// The control plane.
    pub ctrl: ControlConfig,
    /// Edge APIs; none = a fabric without identities.
    pub edge: Option<EdgeConfig>,
    /// HTTP servers.
    pub web: Vec<WebServer>,
    /// The sinks of events.
    pub events: Vec<EventHandler>,
    /// The check of the store.
    pub store_check: StoreCheck,
    /// Limits on changes.
    pub commands: CommandConfig,
    /// The handling of connect events.
    pub connect_events: ConnectEventsConfig,
    /// Handshakes of all TLS listeners.
    pub tls: TlsConfig,
    /// The data model of routers.
    pub router_data_model: RouterDataModelConfig,
    /// Traces and profiles.
    pub debugging: Debugging,
}

/// The health check of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCheck {
    /// The interval. Default 30s.
    pub interval: Duration,
    /// Time limit of a check. Default 20s.
    pub timeout: Duration,
    /// Wait before the first check. Default 30s.
    pub initial_delay: Duration,
}

/// Limits on changes of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandConfig {
    /// True if changes are limited. Default true.
    pub limited: bool,
    /// Most changes that wait before callers are told to try again. 10..=2^32-1, default 100.
    pub max_queued: u32,
    /// True if changes that are not urgent wait in a queue of their own. Default true.
    pub background: bool,
    /// Length of that queue. 10..=1073741823, default 1000.
    pub background_queue: u32,
    /// True if that queue drops changes when it is full. Default false.
    pub background_drop_when_full: bool,
    /// Delay of urgent changes above which the other changes wait. Default 50ms.
    pub background_delay_threshold: Duration,
}

/// The handling of connect events of routers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectEventsConfig {
    /// Most events of one router that wait. Default 5.
    pub queue_size: u32,
    /// A worker without work ends after this long. Default 30s.
    pub idle_time: Duration,
}

/// Handshakes of all TLS listeners of the process.
#[derive(Debug, Clone, PartialEq)]
pub struct TlsConfig {
    /// Time limit of a handshake. Default 5s.
    pub handshake_timeout: Duration,
    /// Limit on handshakes under way. Off by default; not used by routers.
    pub rate_limiter: RateLimiter,
}

/// The data model of routers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterDataModelConfig {
    /// Changes that are kept for routers that reconnect. At least 10, default 10000.
    pub log_size: u32,
    /// Most changes that wait for one router. Default 1000.
    pub listener_buffer_size: u32,
}

/// Reads `wayBackUntil`.
fn way_back(root: &Section<'_>) -> Option<OffsetDateTime> {
    let text = root.text("wayBackUntil").filter(|text| !text.is_empty())?;
    let read = OffsetDateTime::parse(&text, &Rfc3339);
    if read.is_err() {
        let problem = format!("{text:?} is no time, which is written as 2026-01-09T12:00:00Z");
        root.problem("wayBackUntil", problem);
    }
    read.ok()
}

impl ControllerConfig {
    /// Reads a file, with the variables of the process.
    ///
    /// # Errors
    /// When it cannot be read, is not YAML, or its contents are not acceptable.
    pub fn from_path(path: &Path) -> Result<Loaded<Self>, Error> {
        Self::examine_path(path)?.accept()
    }

    /// Reads a file to its end, with the variables of the process, whatever mistakes it has.
    ///
    /// # Errors
    /// When it cannot be read or is not YAML.
    pub fn examine_path(path: &Path) -> Result<Examined<Self>, Error> {
        Self::examine(&file::read(path)?, path, &ProcessEnvironment)
    }

    /// Reads the text of a file. The path is used in messages, and for defaults in the same folder.
    ///
    /// # Errors
    /// When it is not YAML, or its contents are not acceptable.
    pub fn from_str(
        text: &str,
        path: &Path,
        environment: &dyn Environment,
    ) -> Result<Loaded<Self>, Error> {
        Self::examine(text, path, environment)?.accept()
    }

    /// Reads the text of a file to its end, whatever mistakes it has.
    ///
    /// # Errors
    /// When it is not YAML.
    pub fn examine(
        text: &str,
        path: &Path,
        environment: &dyn Environment,
    ) -> Result<Examined<Self>, Error> {
        file::examine(text, path, environment, file::Kind::Controller, Self::read)
    }

    pub(crate) fn read(root: &Section<'_>) -> Self {
        let identity = root.section("identity");
        if !root.has("identity") {
            root.problem("identity", "identity section not found");
        }
        let edge = root.section("edge");
        let side = Side::Controller { edge: edge.is_present() };
        let mut config = Self {
            identity: if identity.is_present() {
                identity::read(&identity, Required::Client)
            } else {
                IdentitySection::default()
            },
            storage: Storage::read(root),
            snapshot_folder: root
                .section("snapshots")
                .text("folder")
                .filter(|folder| !folder.is_empty())
                .map(PathBuf::from),
            trust_domain: root
                .text("trustDomain")
                .map(|name| domain(&name))
                .filter(|d| !d.is_empty()),
            additional_trust_domains: root
                .texts("additionalTrustDomains")
                .iter()
                .map(|name| domain(name))
                .collect(),
            way_back_until: way_back(root),
            network: NetworkConfig::read(&root.section("network")),
            ctrl: ControlConfig::read(root),
            edge: edge.is_present().then(|| EdgeConfig::read(&edge)),
            web: web::read(root, side),
            events: events::read(&root.section("events")),
            store_check: StoreCheck::read(&root.section("healthChecks").section("boltCheck")),
            commands: CommandConfig::read(root),
            connect_events: ConnectEventsConfig::read(&root.section("connectEvents")),
            tls: TlsConfig::read(&root.section("tls"), true),
            router_data_model: RouterDataModelConfig::read(&root.section("routerDataModel")),
            debugging: Debugging::read(root, side),
        };
        // An extension of examples, and sinks for metrics of early releases.
        root.ignore(&["example", "metrics"]);
        config.check(root);
        config.bind_oidc();
        config
    }

    /// Adds the OIDC provider to the server of the client API at `edge.api.address`, or else to all servers of the client
    /// API, unless the file names the provider somewhere or switches this off.
    fn bind_oidc(&mut self) {
        let Some(edge) = self.edge.as_ref().filter(|edge| edge.auto_bind_oidc) else { return };
        let is_oidc = |api: &WebApi| matches!(api, WebApi::EdgeOidc(_));
        if self.web.iter().any(|server| server.apis.iter().any(is_oidc)) {
            return;
        }
        let is_client = |server: &WebServer| server.apis.contains(&WebApi::EdgeClient);
        let is_named = |server: &WebServer| {
            let own = edge.api_address.as_ref();
            server.bind_points.iter().any(|point| {
                matches!(point, BindPoint::Underlay { address, .. } if Some(address) == own)
            })
        };
        let named = self.web.iter().any(|server| is_client(server) && is_named(server));
        for server in &mut self.web {
            if is_client(server) && (is_named(server) || !named) {
                server.apis.push(WebApi::EdgeOidc(web::OidcOptions::default()));
            }
        }
    }

    /// Checks values of different sections against each other.
    fn check(&self, root: &Section<'_>) {
        check_domains(root, "trustDomain", self.trust_domain.as_slice());
        check_domains(root, "additionalTrustDomains", &self.additional_trust_domains);
        if self.storage.cluster.is_some() && self.ctrl.advertise_address.is_none() {
            root.problem("ctrl", "[ctrl/options/advertiseAddress] is required with `cluster`");
        }
        let Some(edge) = &self.edge else { return };
        let Some(api) = &edge.api_address else { return };
        let served = self.web.iter().filter(|server| server.apis.contains(&WebApi::EdgeClient));
        let mut points = served.flat_map(|server| &server.bind_points);
        let is_api = |point: &BindPoint| matches!(point, BindPoint::Underlay { address, .. } if address == api);
        if !points.any(is_api) {
            root.problem(
                "edge",
                format!(
                    "could not find [edge.api.address] value [{api}] as a bind point address of any \
                     web server with the API edge-client"
                ),
            );
        }
    }
}

impl Default for StoreCheck {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            timeout: Duration::from_secs(20),
            initial_delay: Duration::from_secs(30),
        }
    }
}

impl StoreCheck {
    fn read(section: &Section<'_>) -> Self {
        let usual = Self::default();
        Self {
            interval: section.duration("interval", usual.interval),
            timeout: section.duration("timeout", usual.timeout),
            initial_delay: section.duration("initialDelay", usual.initial_delay),
        }
    }
}

impl CommandConfig {
    fn read(root: &Section<'_>) -> Self {
        let command = root.section("command");
        let older = root.section("commandRateLimiter");
        let newer = command.section("rateLimiter");
        let limiter = if newer.is_present() { &newer } else { &older };
        if newer.is_present() && older.is_present() {
            root.warn("commandRateLimiter", "command.rateLimiter is used instead");
            older.allow_unknown();
        }
        let background = command.section("background");
        Self {
            limited: limiter.flag("enabled", true),
            max_queued: limiter.int("maxQueued", 100, 10..=i64::from(u32::MAX)),
            background: background.flag("enabled", true),
            background_queue: background.int("queueSize", 1000, 10..=1_073_741_823),
            background_drop_when_full: background.flag("dropWhenFull", false),
            background_delay_threshold: background
                .duration("delayThreshold", Duration::from_millis(50)),
        }
    }
}

impl ConnectEventsConfig {
    fn read(section: &Section<'_>) -> Self {
        section.ignore(&["minWorkers", "maxWorkers"]);
        Self {
            queue_size: section.int("queueSize", 5, 1..=1_000_000),
            idle_time: section.duration("idleTime", Duration::from_secs(30)),
        }
    }
}

impl TlsConfig {
    pub(crate) fn read(section: &Section<'_>, limited: bool) -> Self {
        let handshake_timeout = section.duration("handshakeTimeout", Duration::from_secs(5));
        let handshake_timeout =
            if handshake_timeout.is_zero() { Duration::from_secs(5) } else { handshake_timeout };
        let mut default = RateLimiter { enabled: false, ..RateLimiter::with_sizes(5, 2500) };
        default.window.timeout = handshake_timeout + Duration::from_secs(2);
        let rate_limiter = if limited {
            RateLimiter::read(&section.section("rateLimiter"), &default, 5, 10_000)
        } else {
            default
        };
        Self { handshake_timeout, rate_limiter }
    }
}

impl RouterDataModelConfig {
    fn read(section: &Section<'_>) -> Self {
        section.ignore(&["enabled"]);
        Self {
            log_size: section.int("logSize", 10_000, 10..=i64::from(u32::MAX)),
            listener_buffer_size: section.int("listenerBufferSize", 1000, 0..=i64::from(u32::MAX)),
        }
    }
}

/// Notes trust domains with characters that no SPIFFE id has.
fn check_domains(root: &Section<'_>, key: &'static str, names: &[String]) {
    let is_domain = |name: &String| {
        name.len() <= 255
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
    };
    for name in names.iter().filter(|name| !is_domain(name)) {
        let text =
            format!("{name:?} is no trust domain: letters, digits, `.`, `-` and `_` are allowed");
        root.problem(key, text);
    }
}

/// A trust domain without scheme and path.
fn domain(text: &str) -> String {
    let bare = text.strip_prefix("spiffe://").unwrap_or(text);
    bare.split('/').next().unwrap_or_default().to_owned()
}
