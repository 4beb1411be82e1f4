//! Links to other routers: `link` (docs/protocol/config.md 5.4).

use std::net::IpAddr;
use std::time::Duration;

use weft_wire::{Address, Scheme};

use super::values;
use crate::address::{self, HostPort};
use crate::channel_options::{ChannelOptions, Heartbeats};
use crate::error::KeyAt;
use crate::section::{Context, Item, Section};
use crate::yaml;

/// Most listeners and dialers that a controller may set.
const MAX_MANAGED: usize = 64;

/// Links to other routers.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// Listeners for other routers.
    pub listeners: Vec<LinkListener>,
    /// Dialers of other routers. Empty = none is dialed.
    pub dialers: Vec<LinkDialer>,
    /// Heartbeats of links.
    pub heartbeats: Heartbeats,
    /// Most payloads that wait to be sent. Default 128.
    pub payload_queue: u32,
    /// Most acks that wait to be sent. Default 64.
    pub ack_queue: u32,
}

/// A listener for other routers.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkListener {
    /// The address to listen on.
    pub bind: Address,
    /// The address that other routers are told. Default `bind`, unless that is every address of this machine.
    pub advertise: Address,
    /// The interface that is reported; none = the one with the address.
    pub bind_interface: Option<String>,
    /// The listener's groups. Default `default`.
    pub groups: Vec<String>,
    /// Options of the channels.
    pub options: ChannelOptions,
}

/// A dialer of other routers.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkDialer {
    /// Name of an interface, or an address of one, from which routers are dialed: `bindInterface`, or
    /// else `bind`.
    pub bind: Option<String>,
    /// Groups; a listener must have one of them. Default `default`.
    pub groups: Vec<String>,
    /// Connections for payloads. 1..=100, default 3.
    pub max_default_connections: u32,
    /// Connections for acks. 0..=100, default 1.
    pub max_ack_connections: u32,
    /// Whether a link to a router older than 1.6.6 has two connections, not one. Default true.
    pub split: bool,
    /// Wait after a link's first connection before its further ones are dialed. Default 3s.
    pub startup_delay: Duration,
    /// Waits between dials of a router that is connected to the controller.
    pub healthy_backoff: Backoff,
    /// Waits between dials of a router that is not connected to the controller.
    pub unhealthy_backoff: Backoff,
    /// Options of the channels.
    pub options: ChannelOptions,
}

/// Waits between dials.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// First wait. 10ms..=24h.
    pub min: Duration,
    /// Longest wait. 10ms..=24h.
    pub max: Duration,
    /// Factor from one wait to the next. 1..=100.
    pub factor: f64,
}

impl Backoff {
    /// Default for routers that are connected to the controller: 5s to 5m by 1.5.
    #[must_use]
    pub fn healthy() -> Self {
        Self { min: Duration::from_secs(5), max: Duration::from_secs(300), factor: 1.5 }
    }

    /// Default for routers that are not: 1m to 1h by 10.
    #[must_use]
    pub fn unhealthy() -> Self {
        Self { min: Duration::from_secs(60), max: Duration::from_secs(3600), factor: 10.0 }
    }

    fn read(section: &Section<'_>, default: &Self) -> Self {
        let bounds = || Duration::from_millis(10)..=Duration::from_secs(24 * 3600);
        let backoff = Self {
            min: section.duration_in("minRetryInterval", default.min, bounds()),
            max: section.duration_in("maxRetryInterval", default.max, bounds()),
            factor: section.number("retryBackoffFactor", default.factor, 1.0..=100.0),
        };
        if backoff.min > backoff.max {
            let show = crate::duration::show_duration;
            let (min, max) = (show(backoff.min), show(backoff.max));
            let text =
                format!("minRetryInterval of {min} is larger than maxRetryInterval value of {max}");
            section.problem("minRetryInterval", text);
        }
        backoff
    }
}

impl LinkConfig {
    /// Reads the settings of a controller: the section as JSON, in which `binding` may be absent. Returns
    /// them with the text of warnings. Variables of this machine are not replaced.
    ///
    /// # Errors
    /// The error names all mistakes.
    pub fn from_managed(json: &str, unresponsive: Duration) -> Result<(Self, String), String> {
        if json.len() > crate::MAX_FILE_BYTES {
            return Err(format!("it is longer than {} bytes", crate::MAX_FILE_BYTES));
        }
        let tree =
            yaml::parse(json).map_err(|error| format!("line {}: {}", error.line, error.message))?;
        if !matches!(tree.root.value, yaml::YamlValue::Map(_)) {
            return Err("it is no object".to_owned());
        }
        let cx = Context::default();
        let root = Section::root(&cx, &tree.root);
        let config = Self::read_as(&root, unresponsive, true);
        drop(root);
        let lines = |found: Vec<KeyAt>| {
            let lines: Vec<String> =
                found.into_iter().map(|one| format!("{}: {}", one.key, one.message)).collect();
            lines.join("; ")
        };
        let mut problems = lines(cx.problems.into_inner());
        if config.listeners.len() + config.dialers.len() > MAX_MANAGED {
            problems =
                format!("there are more than {MAX_MANAGED} listeners and dialers; {problems}");
        }
        match problems.is_empty() {
            true => Ok((config, lines(cx.warnings.into_inner()))),
            false => Err(problems),
        }
    }

    /// Reads the section. `unresponsive` is the longest silence of a link where the section sets none.
    pub(super) fn read(section: &Section<'_>, unresponsive: Duration) -> Self {
        Self::read_as(section, unresponsive, false)
    }

    fn read_as(section: &Section<'_>, unresponsive: Duration, managed: bool) -> Self {
        let heartbeats = section.section("heartbeats");
        let default =
            Heartbeats { close_unresponsive: Some(unresponsive), ..Heartbeats::default() };
        Self {
            listeners: section
                .list("listeners")
                .iter()
                .filter_map(|item| listener(item, managed))
                .collect(),
            dialers: section
                .list("dialers")
                .iter()
                .filter_map(|item| dialer(item, managed))
                .collect(),
            heartbeats: Heartbeats::read(&heartbeats, &default),
            payload_queue: section.int("payloadSenderQueueSize", 128, 1..=1_000_000),
            ack_queue: section.int("ackSenderQueueSize", 64, 1..=1_000_000),
        }
    }
}

fn is_transport(section: &Section<'_>, list: &str, managed: bool) -> bool {
    if managed && !section.has("binding") {
        return true;
    }
    let binding =
        section.required_text("binding", &format!("[link/{list}] must provide [binding]"));
    if binding == "transport" || binding.is_empty() {
        return true;
    }
    let text = format!("no factory registered for binding {binding:?}, use `transport`");
    section.problem("binding", text);
    section.allow_unknown();
    false
}

fn listener(item: &Item<'_>, managed: bool) -> Option<LinkListener> {
    let section = item.section_or("[link/listeners] must express a map")?;
    if !is_transport(&section, "listeners", managed) {
        return None;
    }
    if !section.has("bind") {
        section.problem("bind", "missing 'bind' address in listener config");
    }
    let bind = section.address("bind");
    let advertise = match (&bind, section.text("advertise")) {
        (Some(bind), Some(text)) => advertised(&section, bind.scheme, &text),
        (Some(bind), None) if !section.has("advertise") => unadvertised(&section, bind),
        _ => None,
    };
    section.describe("bind", "address", "", "required");
    section.describe(
        "advertise",
        "address or host:port",
        "bind",
        "required if bind is every address",
    );
    let bind_interface = section.text("bindInterface").filter(|name| !name.is_empty());
    section.describe("bindInterface", "interface", "that of bind", "");
    let groups = values::groups(&section);
    let options = ChannelOptions::read_long(&section.section("options"));
    Some(LinkListener { bind: bind?, advertise: advertise?, bind_interface, groups, options })
}

/// An address, or host and port with the protocol of `bind`.
fn advertised(section: &Section<'_>, scheme: Scheme, text: &str) -> Option<Address> {
    if let Ok(HostPort { host, port }) = text.parse() {
        return Some(Address { scheme, host, port });
    }
    match address::parse(text) {
        Ok(address) => Some(address),
        Err(reason) => {
            let text = format!("error parsing 'advertise' address in listener config ({reason})");
            section.problem("advertise", text);
            None
        }
    }
}

/// `bind`, which is what other routers are told of a listener without `advertise`. They cannot dial it if it
/// means every address of this machine.
fn unadvertised(section: &Section<'_>, bind: &Address) -> Option<Address> {
    let host = bind.host.parse::<IpAddr>();
    if bind.host.is_empty() || host.is_ok_and(|address| address.is_unspecified()) {
        let text = format!(
            "missing: other routers cannot dial {bind}; write `advertise: <host>:{}`",
            bind.port
        );
        section.problem("advertise", text);
        return None;
    }
    section.warn("advertise", format!("missing: other routers are told `bind`, {bind}"));
    Some(bind.clone())
}

fn dialer(item: &Item<'_>, managed: bool) -> Option<LinkDialer> {
    let section = item.section_or("[link/dialers] must express a map")?;
    if !is_transport(&section, "dialers", managed) {
        return None;
    }
    // Without split a link is one connection, unless numbers are given.
    let split = section.flag("split", true);
    let (default, ack) = if split { (3, 1) } else { (1, 0) };
    let (bind, interface) = (section.text("bind"), section.text("bindInterface"));
    section.describe("bind", "interface or IP", "", "");
    section.describe("bindInterface", "interface or IP", "", "wins over bind");
    let bind = interface.filter(|name| !name.is_empty()).or(bind);
    Some(LinkDialer {
        bind: bind.filter(|bind| !bind.is_empty()),
        groups: values::groups(&section),
        max_default_connections: section.int("maxDefaultConnections", default, 1..=100),
        max_ack_connections: section.int("maxAckConnections", ack, 0..=100),
        split,
        startup_delay: section.duration("startupDelay", Duration::from_secs(3)),
        healthy_backoff: Backoff::read(&section.section("healthyDialBackoff"), &Backoff::healthy()),
        unhealthy_backoff: Backoff::read(
            &section.section("unhealthyDialBackoff"),
            &Backoff::unhealthy(),
        ),
        options: ChannelOptions::read_long(&section.section("options")),
    })
}
