//! The applications of a service: `host.v1`, `host.v2` and `ziti-tunneler-server.v1`
//! (docs/protocol/tunnel.md 3.4 to 3.6).

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use weft_proxy::HttpProxy;
use weft_wire::ctrl::TerminatorPrecedence;

use super::check::{self, PortCheck, TerminatorCheck, WrittenHttpCheck};
use super::part::{self, PortRange};
use super::sources::Sources;
use super::written::{ConfigError, Configs, Result, written};
use crate::records::Resolver;
use crate::refusal::shown;
use crate::{
    AddressRule, AppData, CircuitTarget, Identity, Protocol, Reach, Refusal, RefusalCause,
    TargetHost, Template, Translation,
};

pub(super) const HOST_V1: &str = "host.v1";
pub(super) const HOST_V2: &str = "host.v2";
pub(super) const SERVER_V1: &str = "ziti-tunneler-server.v1";

/// Time limit for connecting to an application, unless the config sets one.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for connecting to an application over an SDK: routers wait 5 s for a host's answer.
pub const MOST_CONNECT_TIME: Duration = Duration::from_millis(4500);
/// Most terminators of a service at one host.
const MOST_TERMINATORS: usize = 128;
/// Most health checks of all terminators of a service at one host.
const MOST_CHECKS: usize = 512;
/// Number of routers on which an SDK hosts, unless the config sets one.
const MAX_CONNECTIONS: usize = 3;

/// The terminators of a service, of which those make no checks that have more of them than are left.
fn bounded_checks(mut terminators: Vec<HostConfig>) -> Vec<HostConfig> {
    let mut left = MOST_CHECKS;
    for (index, one) in terminators.iter_mut().enumerate() {
        if let Some(rest) = left.checked_sub(one.checks.len()) {
            left = rest;
            continue;
        }
        let count = one.checks.len();
        let problem = format!(
            "{count} checks (portChecks, httpChecks) are too many, at most {MOST_CHECKS} for all terminators together"
        );
        one.checks.clear();
        one.checks_problem =
            Some(ConfigError::new(HOST_V2, format!("terminators[{index}]"), problem));
    }
    terminators
}

/// The source of one part of the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part<T, Allowed> {
    /// The config sets it.
    Fixed(T),
    /// The dialer sets it, within these limits.
    Forward(Allowed),
}

/// One terminator of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    protocol: Part<Protocol, Vec<Protocol>>,
    address: Part<String, Vec<AddressRule>>,
    translations: Vec<Translation>,
    port: Part<u16, Vec<PortRange>>,
    /// Answers dialers that ask for records of names.
    pub(crate) resolver: Resolver,
    /// Source addresses that dialers may ask for; `None` if the config does not limit them.
    pub allowed_sources: Option<Sources>,
    /// Time limit for connecting.
    pub connect_timeout: Duration,
    /// Number of routers on which an SDK hosts it.
    pub max_connections: usize,
    /// Its cost, if the config sets one.
    pub cost: Option<u16>,
    /// Its precedence, if the config sets one.
    pub precedence: Option<TerminatorPrecedence>,
    /// The template of its instance.
    instance: String,
    /// The proxy to connect through.
    pub proxy: Option<HttpProxy>,
    /// The health checks of the application.
    pub checks: Vec<TerminatorCheck>,
    /// The mistake because of which the checks are not run.
    pub checks_problem: Option<ConfigError>,
    /// The entries of its lists that are left out.
    pub left_out: Vec<ConfigError>,
}

/// The JSON of `host.v1`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HostV1 {
    protocol: Option<Protocol>,
    forward_protocol: Option<bool>,
    allowed_protocols: Option<Vec<Protocol>>,
    address: Option<String>,
    forward_address: Option<bool>,
    allowed_addresses: Option<Vec<String>>,
    forward_address_translations: Option<Vec<WrittenTranslation>>,
    port: Option<u16>,
    forward_port: Option<bool>,
    allowed_port_ranges: Option<Vec<PortRange>>,
    allowed_source_addresses: Option<Vec<String>>,
    listen_options: Option<ListenOptions>,
    proxy: Option<WrittenProxy>,
    port_checks: Option<Vec<PortCheck>>,
    http_checks: Option<Vec<WrittenHttpCheck>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListenOptions {
    connect_timeout: Option<String>,
    connect_timeout_seconds: Option<u32>,
    max_connections: Option<u32>,
    identity: Option<String>,
    bind_using_edge_identity: Option<bool>,
    cost: Option<u16>,
    precedence: Option<TerminatorPrecedence>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenTranslation {
    from: IpAddr,
    to: IpAddr,
    prefix_length: u8,
}

#[derive(Debug, Deserialize)]
struct WrittenProxy {
    r#type: String,
    address: String,
}

/// The JSON of `host.v2`.
#[derive(Debug, Deserialize)]
struct HostV2 {
    terminators: Vec<HostV1>,
}

/// The JSON of `ziti-tunneler-server.v1`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerV1 {
    hostname: String,
    port: u16,
    protocol: Option<Protocol>,
    port_checks: Option<Vec<PortCheck>>,
    http_checks: Option<Vec<WrittenHttpCheck>>,
}

impl HostConfig {
    /// The terminators that a service's configs describe; empty without a config for hosts.
    /// `host.v2` comes before `host.v1`, and that before the oldest form.
    ///
    /// # Errors
    /// When the config has a mistake; nothing of it is hosted then.
    pub fn read(configs: &Configs) -> Result<Vec<Self>> {
        if let Some(config) = written::<HostV2>(configs, HOST_V2)? {
            let count = config.terminators.len();
            if count > MOST_TERMINATORS {
                let problem = format!("{count} are too many, at most {MOST_TERMINATORS}");
                return Err(ConfigError::new(HOST_V2, "terminators", problem));
            }
            let terminators = config.terminators.into_iter().enumerate();
            let read = terminators.map(|(index, one)| {
                Self::from_v1(HOST_V2, one)
                    .map_err(|error| error.within(&format!("terminators[{index}]")))
            });
            return read.collect::<Result<_>>().map(bounded_checks);
        }
        if let Some(config) = written::<HostV1>(configs, HOST_V1)? {
            return Ok(vec![Self::from_v1(HOST_V1, config)?]);
        }
        let Some(config) = written::<ServerV1>(configs, SERVER_V1)? else { return Ok(Vec::new()) };
        let v1 = HostV1 {
            protocol: Some(config.protocol.unwrap_or(Protocol::Tcp)),
            address: Some(config.hostname),
            port: Some(config.port),
            port_checks: config.port_checks,
            http_checks: config.http_checks,
            ..HostV1::default()
        };
        Ok(vec![Self::from_v1(SERVER_V1, v1)?])
    }

    /// A terminator with one fixed destination.
    #[must_use]
    pub fn fixed(protocol: Protocol, host: impl Into<String>, port: u16) -> Self {
        Self {
            protocol: Part::Fixed(protocol),
            address: Part::Fixed(host.into()),
            translations: Vec::new(),
            port: Part::Fixed(port),
            resolver: Resolver::new(Vec::new()),
            allowed_sources: None,
            connect_timeout: CONNECT_TIMEOUT,
            max_connections: MAX_CONNECTIONS,
            cost: None,
            precedence: None,
            instance: String::new(),
            proxy: None,
            checks: Vec::new(),
            checks_problem: None,
            left_out: Vec::new(),
        }
    }

    fn from_v1(config: &'static str, v1: HostV1) -> Result<Self> {
        let options = v1.listen_options.unwrap_or_default();
        let allowed = v1.allowed_addresses.unwrap_or_default();
        let allowed: Vec<_> = allowed.iter().filter_map(|text| AddressRule::parse(text)).collect();
        // Records are answered for allowed names, whether or not addresses are forwarded.
        let resolver = Resolver::new(allowed.clone());
        let checks = check::checks(
            config,
            v1.port_checks.unwrap_or_default(),
            v1.http_checks.unwrap_or_default(),
        );
        let (checks, checks_problem) = match checks {
            Ok(checks) => (checks, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        let sources = v1.allowed_source_addresses.map(|texts| Sources::read(config, &texts));
        let (sources, left_out) = sources.unzip();
        let of = |name, forward: Option<bool>| (config, name, forward.unwrap_or_default());
        let port = part(
            of("port", v1.forward_port),
            v1.port,
            ("allowedPortRanges", v1.allowed_port_ranges.unwrap_or_default()),
        )?;
        Ok(Self {
            protocol: part(
                of("protocol", v1.forward_protocol),
                v1.protocol,
                ("allowedProtocols", v1.allowed_protocols.unwrap_or_default()),
            )?,
            address: part(
                of("address", v1.forward_address),
                v1.address.filter(|address| !address.is_empty()),
                ("allowedAddresses", allowed),
            )?,
            translations: translations(config, v1.forward_address_translations)?,
            port,
            resolver,
            allowed_sources: sources,
            connect_timeout: options.connect_timeout(config)?,
            max_connections: options
                .max_connections
                .map_or(MAX_CONNECTIONS, |most| (most as usize).max(1)),
            cost: options.cost,
            precedence: options.precedence,
            instance: if options.bind_using_edge_identity.unwrap_or_default() {
                crate::template::NAME.to_owned()
            } else {
                options.identity.unwrap_or_default()
            },
            proxy: v1.proxy.map(|proxy| http_proxy(config, &proxy)).transpose()?,
            checks,
            checks_problem,
            left_out: left_out.unwrap_or_default(),
        })
    }

    /// The instance of the terminator; empty if the template has a mistake.
    #[must_use]
    pub fn instance(&self, identity: &Identity) -> String {
        match Template::new(&self.instance, identity) {
            // There is no client yet whose values could fill the template.
            Ok(template) => template.constant().unwrap_or(&self.instance).to_owned(),
            Err(problem) => {
                tracing::warn!(%problem, "listenOptions.identity has a mistake and is not used");
                String::new()
            }
        }
    }

    /// The destination of a circuit with this application data (docs/protocol/tunnel.md 9.1).
    ///
    /// # Errors
    /// When the dialer asks for a destination that is not allowed, or leaves out a required part.
    pub fn target(&self, data: &AppData) -> std::result::Result<CircuitTarget, Refusal> {
        let protocol = match &self.protocol {
            Part::Fixed(protocol) => *protocol,
            Part::Forward(allowed) => {
                let asked = data.required("dst_protocol")?;
                let known = Protocol::from_str(asked).ok().filter(|known| allowed.contains(known));
                known.ok_or_else(|| {
                    let asked = shown(asked);
                    Refusal::other(format!("protocol '{asked}' is not in allowed protocols"))
                })?
            }
        };
        let host = match &self.address {
            Part::Fixed(address) => fixed(address),
            Part::Forward(allowed) => data.host(allowed, &self.translations)?,
        };
        let port = match &self.port {
            Part::Fixed(port) => *port,
            Part::Forward(ranges) => {
                let asked = data.required("dst_port")?;
                let refused = || {
                    let asked = shown(asked);
                    let message = format!("port {asked} is not in allowed port ranges");
                    Refusal::new(RefusalCause::PortNotAllowed, message)
                };
                let port: u16 = asked.parse().map_err(|_| refused())?;
                if !ranges.iter().any(|range| range.contains(port)) {
                    return Err(refused());
                }
                port
            }
        };
        Ok(CircuitTarget { protocol, host, port })
    }

    /// True if dialers choose the host.
    pub(crate) fn forwards_address(&self) -> bool {
        matches!(self.address, Part::Forward(_))
    }
}

/// The host that the operator has set; an address may be in brackets.
fn fixed(address: &str) -> TargetHost {
    let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bare.unwrap_or(address).parse() {
        Ok(address) => TargetHost::Address(address),
        Err(_) => TargetHost::Name(address.to_owned(), Reach::Any),
    }
}

fn part<T, A>(
    (config, name, forward): (&'static str, &str, bool),
    fixed: Option<T>,
    (list, allowed): (&str, Vec<A>),
) -> Result<Part<T, Vec<A>>> {
    if forward {
        if allowed.is_empty() {
            let problem = format!("no value is allowed, although the {name} is forwarded");
            return Err(ConfigError::new(config, list, problem));
        }
        return Ok(Part::Forward(allowed));
    }
    fixed.map(Part::Fixed).ok_or_else(|| ConfigError::new(config, name, "is missing"))
}

fn translations(
    config: &'static str,
    written: Option<Vec<WrittenTranslation>>,
) -> Result<Vec<Translation>> {
    let read = |(index, one): (usize, WrittenTranslation)| {
        Translation::new(one.from, one.to, one.prefix_length).ok_or_else(|| {
            let member = format!("forwardAddressTranslations[{index}]");
            ConfigError::new(config, member, "`from` and `to` must both be IPv4, or both IPv6")
        })
    };
    written.unwrap_or_default().into_iter().enumerate().map(read).collect()
}

fn http_proxy(config: &'static str, written: &WrittenProxy) -> Result<HttpProxy> {
    if written.r#type != "http" {
        let problem = format!("`{}` is not offered, only http is", written.r#type);
        return Err(ConfigError::new(config, "proxy.type", problem));
    }
    let wrong = || {
        let problem = format!("`{}` must be <host>:<port>", written.address);
        ConfigError::new(config, "proxy.address", problem)
    };
    let (host, port) = written.address.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    if host.is_empty() {
        return Err(wrong());
    }
    Ok(HttpProxy { host, port, credentials: None, named_by: "`proxy` of the config" })
}

impl ListenOptions {
    fn connect_timeout(&self, config: &'static str) -> Result<Duration> {
        if let Some(text) = &self.connect_timeout {
            return part::duration(config, "listenOptions.connectTimeout", text);
        }
        let seconds = self.connect_timeout_seconds.filter(|seconds| *seconds > 0);
        Ok(seconds.map_or(CONNECT_TIMEOUT, |seconds| Duration::from_secs(u64::from(seconds))))
    }
}

#[cfg(test)]
mod tests;
