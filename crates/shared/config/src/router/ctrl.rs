//! The connections to controllers: `ctrl` (docs/protocol/config.md 5.3).

use std::path::{Path, PathBuf};
use std::time::Duration;

use weft_wire::Address;

use super::values;
use crate::address;
use crate::channel_options::{ChannelOptions, Heartbeats};
use crate::rate_limiter::RateLimiter;
use crate::section::{Item, Section};

/// The connections to controllers.
#[derive(Debug, Clone, PartialEq)]
pub struct CtrlConfig {
    /// The addresses of controllers. The endpoints file comes first; empty = only that file is
    /// used.
    pub endpoints: Vec<Address>,
    /// Name of an interface, or an address of one, from which controllers are dialed.
    pub bind: Option<String>,
    /// How long a controller may take for what has no time limit of its own: its answer to a request, or a dial of it
    /// unless the options of channels set `connectTimeout`. Also how long a controller may be silent while a circuit
    /// is asked for. At least 30ms, default 5s.
    pub default_request_timeout: Duration,
    /// The process ends if no controller was reached within this time after the start; none =
    /// never. Default 30s.
    pub startup_timeout: Option<Duration>,
    /// Options of the channels.
    pub options: ChannelOptions,
    /// Heartbeats to controllers.
    pub heartbeats: Heartbeats,
    /// Limit on requests that wait, such as those for terminators.
    pub rate_limiter: RateLimiter,
    /// The file for addresses that a controller sent. Default `endpoints.yml` beside the file.
    pub endpoints_file: PathBuf,
    /// Listeners for controllers that dial this router.
    pub listeners: Vec<CtrlListener>,
}

/// A listener for controllers that dial this router.
#[derive(Debug, Clone, PartialEq)]
pub struct CtrlListener {
    /// The address to listen on.
    pub bind: Address,
    /// The address that controllers are told. Default `bind`.
    pub advertise: Address,
    /// Read and checked, without effect: controllers are told addresses.
    pub bind_interface: Option<String>,
    /// The listener's groups. Default `default`.
    pub groups: Vec<String>,
    /// Options of the channels.
    pub options: ChannelOptions,
}

impl CtrlConfig {
    pub(super) fn read(root: &Section<'_>, path: &Path) -> Self {
        let section = root.section("ctrl");
        if !root.has("ctrl") {
            root.problem("ctrl", "required section [ctrl] not found");
        }
        section.ignore(&["ha"]);
        let options = section.section("options");
        // Heartbeats among the channel options count if the section of their own does not set them.
        let beside = Heartbeats::read(&options, &Heartbeats::default());
        let limiter = section.section("rateLimiter");
        let file = section.text("endpointsFile").filter(|path| !path.is_empty());
        let file = file.map_or_else(|| values::beside(path, "endpoints.yml"), PathBuf::from);
        let usual = "endpoints.yml beside the file";
        section.describe("endpointsFile", "path", usual, "");
        section.in_effect("endpointsFile", file.display().to_string());
        let bind = section.text("bind").filter(|bind| !bind.is_empty());
        section.describe("bind", "interface or IP", "", "");
        let least = Duration::from_millis(30);
        let patience =
            section.duration_above_zero("defaultRequestTimeout", Duration::from_secs(5), least);
        Self {
            endpoints: endpoints(&section),
            bind,
            default_request_timeout: patience,
            startup_timeout: section.duration_or_never("startupTimeout", Duration::from_secs(30)),
            options: channels(&options, patience),
            heartbeats: Heartbeats::read(&section.section("heartbeats"), &beside),
            rate_limiter: RateLimiter::read(&limiter, &RateLimiter::with_sizes(1, 250), 5, 1000),
            endpoints_file: file,
            listeners: section.list("listeners").iter().filter_map(listener).collect(),
        }
    }
}

/// The options of channels to controllers; `patience` is the time limit of a dial where they set none.
fn channels(options: &Section<'_>, patience: Duration) -> ChannelOptions {
    let read = ChannelOptions::read(options);
    if options.has("connectTimeout") || options.has("connectTimeoutMs") {
        return read;
    }
    let connect_timeout = patience.min(Duration::from_secs(60));
    options.in_effect("connectTimeout", crate::duration::show_duration(connect_timeout));
    ChannelOptions { connect_timeout, ..read }
}

fn endpoints(section: &Section<'_>) -> Vec<Address> {
    const NO_HOST: &str = "the host of the controller is missing, expected tls:<host>:<port>";
    let single = section.text("endpoint");
    section.describe("endpoint", "address", "", "this or endpoints");
    let several = section.texts("endpoints");
    section.describe("endpoints", "list of addresses", "", "this or endpoint");
    if section.has("endpoint") {
        if section.has("endpoints") {
            section.warn("endpoints", "`endpoint` is used and `endpoints` ignored");
            section.in_effect("endpoints", "");
        }
        return match single.map(|text| address::parse(&text)) {
            Some(Ok(address)) if address.host.is_empty() => {
                section.problem("endpoint", NO_HOST);
                Vec::new()
            }
            Some(Ok(address)) => vec![address],
            Some(Err(reason)) => {
                section.problem("endpoint", format!("cannot parse [ctrl/endpoint] ({reason})"));
                Vec::new()
            }
            None => Vec::new(),
        };
    }
    if several.is_empty() {
        return Vec::new();
    }
    section
        .list_or("endpoints", "cannot parse [ctrl/endpoints], must be list")
        .iter()
        .filter_map(|item| {
            let address = item.address()?;
            if address.host.is_empty() {
                item.problem(NO_HOST);
                return None;
            }
            Some(address)
        })
        .collect()
}

fn listener(item: &Item<'_>) -> Option<CtrlListener> {
    let section = item.section()?;
    if !section.has("bind") {
        section.problem("bind", "missing 'bind' address in ctrl listener config");
    }
    let bind = section.address("bind");
    let advertise =
        if section.has("advertise") { section.address("advertise") } else { bind.clone() };
    section.describe("bind", "address", "", "required");
    section.describe("advertise", "address", "bind", "");
    let bind_interface = section.text("bindInterface").filter(|name| !name.is_empty());
    section.describe("bindInterface", "interface", "that of bind", "");
    let groups = values::groups(&section);
    let options = ChannelOptions::read_lenient(&section.section("options"));
    Some(CtrlListener { bind: bind?, advertise: advertise?, bind_interface, groups, options })
}
