//! Edge functions of a router: `edge`, and the names for its certificates: `csr`
//! (docs/protocol/config.md 5.8).

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::address::HostPort;
use crate::section::Section;

/// Edge functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterEdgeConfig {
    /// The file of the data model. Default the path of the configuration file with `.proto.gzip`.
    pub db: PathBuf,
    /// The interval at which the data model is written. At least 30s, default 30s.
    pub db_save_interval: Duration,
    /// The interval at which sessions in use are reported. 10s..=60s, default 60s.
    pub heartbeat_interval: Duration,
    /// Sessions that one request checks. Default 1000.
    pub session_validate_chunk: u32,
    /// Shortest wait between such requests. Default 250ms.
    pub session_validate_min_interval: Duration,
    /// Longest wait between such requests. Default 1500ms.
    pub session_validate_max_interval: Duration,
    /// A proxy to the controller's API.
    pub api_proxy: Option<ApiProxy>,
    /// What each identity may fill.
    pub per_identity: EdgePerIdentity,
}

/// What each identity may fill at a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgePerIdentity {
    /// Most channels of an identity; the connections of a program are one channel. 1..=65536, default 512.
    pub max_channels: u32,
    /// Most listeners of an identity, over all of its channels. 1..=50000, default 25000.
    pub max_listeners: u32,
}

impl Default for EdgePerIdentity {
    /// Room for some hundred programs with one identity, and for all terminators that an identity may have by default.
    fn default() -> Self {
        Self { max_channels: 512, max_listeners: 25_000 }
    }
}

impl EdgePerIdentity {
    fn read(section: &Section<'_>) -> Self {
        let default = Self::default();
        Self {
            max_channels: section.int("maxChannels", default.max_channels, 1..=65_536),
            max_listeners: section.int("maxListeners", default.max_listeners, 1..=50_000),
        }
    }
}

/// A proxy to the controller's API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiProxy {
    /// The address to listen on.
    pub listener: HostPort,
    /// The address of the API.
    pub upstream: HostPort,
}

/// The names for the router's certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsrConfig {
    /// Country.
    pub country: String,
    /// State or province.
    pub province: String,
    /// Locality.
    pub locality: String,
    /// Organization.
    pub organization: String,
    /// Organizational unit.
    pub organizational_unit: String,
    /// Names.
    pub sans: CsrSans,
}

/// Names in certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsrSans {
    /// Host names.
    pub dns: Vec<String>,
    /// Addresses.
    pub ip: Vec<IpAddr>,
    /// Mail addresses.
    pub email: Vec<String>,
    /// URIs.
    pub uri: Vec<String>,
}

impl RouterEdgeConfig {
    pub(super) fn read(section: &Section<'_>, path: &Path) -> Self {
        let db = section.text("db").filter(|db| !db.is_empty());
        let db = db.map_or_else(|| default_db(path), PathBuf::from);
        section.describe("db", "path", "path of the file with .proto.gzip", "");
        section.in_effect("db", db.display().to_string());
        let proxy = section.section("apiProxy");
        Self {
            db,
            db_save_interval: seconds(section, "dbSaveIntervalSeconds", 30, 30, u64::MAX, 30),
            heartbeat_interval: seconds(section, "heartbeatIntervalSeconds", 60, 10, 60, 60),
            session_validate_chunk: section.int("sessionValidateChunkSize", 1000, 1..=1_000_000),
            session_validate_min_interval: section
                .duration("sessionValidateMinInterval", Duration::from_millis(250)),
            session_validate_max_interval: section
                .duration("sessionValidateMaxInterval", Duration::from_millis(1500)),
            api_proxy: proxy.is_present().then(|| api_proxy(&proxy)).flatten(),
            per_identity: EdgePerIdentity::read(&section.section("perIdentity")),
        }
    }
}

fn default_db(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".proto.gzip");
    name.into()
}

/// Reads a number of whole seconds; a fixed number replaces a value outside of the bounds.
fn seconds(
    section: &Section<'_>,
    key: &'static str,
    default: u64,
    low: u64,
    high: u64,
    otherwise: u64,
) -> Duration {
    let asked: u64 = section.int(key, default, 0..=31_536_000);
    let allowed = if high > 31_536_000 {
        format!("at least {low}, else {otherwise}")
    } else {
        format!("{low}..{high}, else {otherwise}")
    };
    section.describe(key, "integer", default.to_string(), allowed);
    if (low..=high).contains(&asked) {
        return Duration::from_secs(asked);
    }
    section.warn(key, format!("{asked} is out of bounds, {otherwise} is used"));
    section.in_effect(key, otherwise.to_string());
    Duration::from_secs(otherwise)
}

fn api_proxy(section: &Section<'_>) -> Option<ApiProxy> {
    for key in ["listener", "upstream"] {
        if !section.has(key) {
            section.problem(key, format!("required value [edge.apiProxy.{key}] is missing"));
        }
    }
    Some(ApiProxy {
        listener: section.host_port("listener")?,
        upstream: section.host_port("upstream")?,
    })
}

impl CsrConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        section.any_case();
        let text = |key: &'static str| section.text(key).unwrap_or_default();
        let sans = section.section("sans");
        sans.any_case();
        Self {
            country: text("country"),
            province: text("province"),
            locality: text("locality"),
            organization: text("organization"),
            organizational_unit: text("organizationalUnit"),
            sans: CsrSans {
                dns: sans.texts("dns"),
                ip: addresses(&sans),
                email: sans.texts("email"),
                uri: uris(&sans),
            },
        }
    }
}

fn addresses(sans: &Section<'_>) -> Vec<IpAddr> {
    let mut out = Vec::new();
    for text in sans.texts("ip") {
        match text.parse() {
            Ok(address) => out.push(address),
            Err(_) => sans.problem(
                "ip",
                format!("invalid SAN IP address encountered in configuration file: {text}"),
            ),
        }
    }
    out
}

fn uris(sans: &Section<'_>) -> Vec<String> {
    let uris = sans.texts("uri");
    if uris.iter().any(|uri| uri.to_ascii_lowercase().starts_with("spiffe:")) {
        sans.warn("uri", "the controller sets the SPIFFE id of a router, and leaves this one out");
    }
    for uri in &uris {
        let bad = |c: char| c.is_whitespace() || c.is_control() || !c.is_ascii();
        if uri.is_empty() || uri.contains(bad) {
            let text = format!("invalid SAN URI encountered in configuration file: {uri}");
            sans.problem("uri", text);
        }
    }
    uris
}
