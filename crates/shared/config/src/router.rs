//! The router's file (docs/protocol/config.md 5).

mod ctrl;
mod dialers;
mod dns;
mod edge;
mod endpoints;
mod forwarder;
mod health;
mod ingress;
mod link;
mod listeners;
mod shown;
mod transport;
mod tunnel;
mod values;

use std::path::Path;
use std::time::Duration;

pub use ctrl::{CtrlConfig, CtrlListener};
pub use dialers::{DialerBinding, XgressDialer};
pub use edge::{ApiProxy, CsrConfig, CsrSans, EdgePerIdentity, RouterEdgeConfig};
pub use endpoints::{ControllerEndpoint, ControllerEndpoints, EndpointsFile};
pub use forwarder::ForwarderConfig;
pub use health::{ConnectEvents, HealthChecks, InterfaceDiscovery, MetricsConfig};
pub use ingress::{IngressAddress, IngressKind, IngressListener};
pub use link::{Backoff, LinkConfig, LinkDialer, LinkListener};
pub use listeners::{EdgeListener, Listener};
pub use transport::{DtlsOptions, TransportConfig, WssOptions};
pub use tunnel::{
    DnsUnanswerable, DnsUpstreamMode, ProxiedService, ProxyProtocol, TunnelMode, TunnelOptions,
};
use weft_identity::IdentitySection;

use crate::address::HostPort;
use crate::controller::TlsConfig;
use crate::debugging::Debugging;
use crate::error::{Error, Examined, Loaded};
use crate::file;
use crate::identity::{self, Required};
use crate::section::Section;
use crate::web::{self, Side, WebServer};
use crate::yaml::{Environment, ProcessEnvironment};

/// A router's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct RouterConfig {
    /// The identity of the router.
    pub identity: IdentitySection,
    /// The connections to controllers.
    pub ctrl: CtrlConfig,
    /// Links to other routers.
    pub link: LinkConfig,
    /// The dialers of applications, by binding. Empty = services are not terminated.
    pub dialers: Vec<XgressDialer>,
    /// The listeners for clients.
    pub listeners: Vec<Listener>,
    /// Edge functions; none = a router of the fabric only.
    pub edge: Option<RouterEdgeConfig>,
    /// The names for certificates: the root `csr`, or else `edge.csr`. None = the router can
    /// neither enroll nor renew.
    pub csr: Option<CsrConfig>,
    /// Circuits in the router.
    pub forwarder: ForwarderConfig,
    /// Health checks.
    pub health_checks: HealthChecks,
    /// Reports of metrics.
    pub metrics: MetricsConfig,
    /// Events of connecting identities.
    pub connect_events: ConnectEvents,
    /// Reports of network interfaces.
    pub interface_discovery: InterfaceDiscovery,
    /// Settings of transports.
    pub transport: TransportConfig,
    /// HTTP servers.
    pub web: Vec<WebServer>,
    /// Handshakes of all TLS listeners.
    pub tls_handshake_timeout: Duration,
    /// The proxy for dials to controllers and routers.
    pub proxy: Option<ProxyConfig>,
    /// Config types that a controller may send; `all` = any. Empty = none.
    pub managed_config: Vec<String>,
    /// True if operations for debugging are offered.
    pub enable_debug_ops: bool,
    /// Traces and profiles.
    pub debugging: Debugging,
}

/// An HTTP proxy for dials to controllers and routers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyConfig {
    /// The address of the proxy.
    pub address: HostPort,
    /// User name and password.
    pub credentials: Option<(String, String)>,
}

impl RouterConfig {
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
        file::examine(text, path, environment, file::Kind::Router, |root| Self::read(root, path))
    }

    pub(crate) fn read(root: &Section<'_>, path: &Path) -> Self {
        let identity = root.section("identity");
        if !identity.is_present() {
            root.problem("identity", "identity section not found");
        }
        root.ignore(&["plugins"]);
        let edge = root.section("edge");
        let edge_config = edge.is_present().then(|| RouterEdgeConfig::read(&edge, path));
        let managed = root.section("managedConfig");
        let forwarder = ForwarderConfig::read(&root.section("forwarder"));
        let config = Self {
            identity: if identity.is_present() {
                identity::read(&identity, Required::Client)
            } else {
                IdentitySection::default()
            },
            ctrl: CtrlConfig::read(root, path),
            link: LinkConfig::read(&root.section("link"), forwarder.unresponsive_link_timeout),
            dialers: dialers::read(root),
            listeners: listeners::read(root, edge_config.is_some()),
            csr: csr(root, &edge),
            edge: edge_config,
            forwarder,
            health_checks: HealthChecks::read(&root.section("healthChecks")),
            metrics: MetricsConfig::read(&root.section("metrics")),
            connect_events: ConnectEvents::read(&root.section("connectEvents")),
            interface_discovery: InterfaceDiscovery::read(&root.section("interfaceDiscovery")),
            transport: TransportConfig::read(&root.section("transport")),
            web: web::read(root, Side::Router),
            tls_handshake_timeout: TlsConfig::read(&root.section("tls"), false).handshake_timeout,
            proxy: proxy(&root.section("proxy")),
            managed_config: allowed(&managed),
            enable_debug_ops: root.flag("enableDebugOps", false),
            debugging: Debugging::read(root, Side::Router),
        };
        shown::check(&config, &identity);
        config
    }

    /// True if a controller may send a config of this type.
    #[must_use]
    pub fn allows_managed(&self, config_type: &str) -> bool {
        self.managed_config.iter().any(|allowed| {
            let versioned = || {
                let version = config_type.strip_prefix(allowed.as_str())?.strip_prefix(".v")?;
                let digits = !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit());
                (allowed == "router.link" && digits).then_some(())
            };
            allowed == "all" || allowed == config_type || versioned().is_some()
        })
    }
}

/// Types of configs that a controller may send.
fn allowed(section: &Section<'_>) -> Vec<String> {
    let items = section.list_or("allow", "[managedConfig/allow] must be a list");
    let names: Vec<String> = items.iter().filter_map(crate::section::Item::text).collect();
    section.describe("allow", "list of strings", "[]", "config types, all");
    section.in_effect("allow", format!("[{}]", names.join(", ")));
    names
}

fn csr(root: &Section<'_>, edge: &Section<'_>) -> Option<CsrConfig> {
    let own = root.section("csr");
    let of_edge = edge.section("csr");
    if own.is_present() && of_edge.is_present() {
        edge.warn("csr", "the root section `csr` is used instead");
        of_edge.allow_unknown();
    }
    let section = if own.is_present() { &own } else { &of_edge };
    section.is_present().then(|| CsrConfig::read(section))
}

fn proxy(section: &Section<'_>) -> Option<ProxyConfig> {
    if !section.is_present() {
        return None;
    }
    let kind = section.required_text("type", "proxy configuration does not specify proxy type");
    section.describe("type", "word", "", "http, none");
    let username = section.text("username").unwrap_or_default();
    let password = section.text("password").unwrap_or_default();
    let credentials = (!username.is_empty()).then_some((username, password));
    match kind.as_str() {
        "http" if !section.has("address") => {
            section.problem("address", "no address specified for http proxy");
            None
        }
        "http" => Some(ProxyConfig { address: section.host_port("address")?, credentials }),
        "none" => {
            section.ignore(&["address"]);
            None
        }
        "" => None,
        other => {
            let text = format!("invalid proxy type {other}, use http or none");
            section.unknown_word("type", text, &["http", "none"]);
            section.ignore(&["address"]);
            None
        }
    }
}
