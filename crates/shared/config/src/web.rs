//! The `web:` section: HTTP servers, their addresses and options (docs/protocol/config.md 3).

mod apis;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use apis::Side;
pub use apis::{ContentPolicy, FileOptions, OidcOptions, WebApi};
use weft_identity::IdentitySection;

use crate::address::HostPort;
use crate::identity::{self, Required};
use crate::section::{Item, Section};

/// One HTTP server.
#[derive(Debug, Clone, PartialEq)]
pub struct WebServer {
    /// Its name.
    pub name: String,
    /// The addresses that it listens on.
    pub bind_points: Vec<BindPoint>,
    /// The APIs that it serves, in the order in which they are asked.
    pub apis: Vec<WebApi>,
    /// Its identity; none = that of the process.
    pub identity: Option<IdentitySection>,
    /// Timeouts and versions.
    pub options: WebOptions,
}

/// An address that a server listens on.
#[derive(Debug, Clone, PartialEq)]
pub enum BindPoint {
    /// At a socket.
    Underlay {
        /// The address to listen on.
        interface: HostPort,
        /// The address that clients are told.
        address: HostPort,
        /// The address that clients are told to use from now on.
        new_address: Option<HostPort>,
    },
    /// A service of the network.
    Overlay {
        /// Identity that binds the service.
        identity: OverlayIdentity,
        /// Name of the service.
        service: String,
        /// Client authentication, as the file has it; the server's own policy is used.
        client_authentication: String,
        /// True if the identity's id is the terminator's instance.
        bind_using_edge_identity: bool,
    },
}

/// The identity an overlay bind point uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverlayIdentity {
    /// An identity file.
    File(PathBuf),
    /// A variable with an identity file in base64.
    Variable(String),
}

/// Timeouts and versions of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebOptions {
    /// Time limit for reading a request. Default 5s.
    pub read_timeout: Duration,
    /// Time limit for writing an answer. Default 10s.
    pub write_timeout: Duration,
    /// Longest time without requests on a connection. Default 5s.
    pub idle_timeout: Duration,
    /// Lowest version of TLS. Versions below 1.2 are accepted in the file and never negotiated.
    pub min_tls: TlsVersion,
    /// Highest version of TLS.
    pub max_tls: TlsVersion,
    /// Other origins whose pages may call the APIs. Default none.
    pub allowed_origins: AllowedOrigins,
}

/// Origins whose pages may call the APIs of a server that is not their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// These origins, in the form of browsers: `scheme://host[:port]` in lower case.
    Named(Vec<String>),
    /// Every origin.
    Any,
}

impl Default for AllowedOrigins {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

impl Default for WebOptions {
    fn default() -> Self {
        Self {
            read_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(5),
            min_tls: TlsVersion::V1_2,
            max_tls: TlsVersion::V1_3,
            allowed_origins: AllowedOrigins::default(),
        }
    }
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// 1.0, never negotiated.
    V1_0,
    /// 1.1, never negotiated.
    V1_1,
    /// 1.2.
    V1_2,
    /// 1.3.
    V1_3,
}

/// Reads the servers of a file.
pub(crate) fn read(root: &Section<'_>, side: Side) -> Vec<WebServer> {
    root.list("web").iter().filter_map(|item| server(item, side)).collect()
}

fn server(item: &Item<'_>, side: Side) -> Option<WebServer> {
    let section = item.section()?;
    let name = if section.has("name") {
        let name = section.text_or("name", "name is required to be a string").unwrap_or_default();
        section.describe("name", "string", "", "required");
        if name.is_empty() {
            section.problem("name", "name must not be empty");
        }
        name
    } else {
        section.problem("name", "name is required");
        String::new()
    };
    if !section.has("bindPoints") {
        section.problem("bindPoints", "bindPoints is required");
    }
    let points = section.list_or("bindPoints", "bindPoints must be an array");
    if section.has("bindPoints") && points.is_empty() {
        section.problem("bindPoints", "no bindPoint specified, must specify at least one");
    }
    if !section.has("apis") {
        section.problem("apis", "apis section is required");
    }
    let apis = section.list_or("apis", "apis section must be an array");
    if section.has("apis") && apis.is_empty() {
        section.problem("apis", "no APIs specified, must specify at least one");
    }
    let identity = section.section("identity");
    let identity = identity.is_present().then(|| identity::read(&identity, Required::Full));
    Some(WebServer {
        name,
        bind_points: points.iter().filter_map(bind_point).collect(),
        apis: apis.iter().filter_map(|item| apis::read(item, side)).collect(),
        identity,
        options: options(&section.section("options")),
    })
}

fn bind_point(item: &Item<'_>) -> Option<BindPoint> {
    let section = item.section()?;
    if section.has("identity") {
        return overlay(&section.section("identity"));
    }
    let interface = checked(&section, "interface", "interface");
    let address = checked(&section, "address", "advertise");
    let new_address =
        if section.has("newAddress") { checked(&section, "newAddress", "new") } else { None };
    Some(BindPoint::Underlay { interface: interface?, address: address?, new_address })
}

/// Host and port, both required; the messages use the words of the original.
fn checked(section: &Section<'_>, key: &'static str, what: &str) -> Option<HostPort> {
    let text = if section.has(key) { section.text(key) } else { Some(String::new()) };
    let required = if key == "newAddress" { "" } else { "required" };
    section.describe(key, "host:port", "", required);
    let text = text?;
    let reason = match text.parse::<HostPort>() {
        _ if text.trim().is_empty() => "must not be an empty string or unspecified".to_owned(),
        Ok(address) if address.host.is_empty() => "host must be specified".to_owned(),
        Ok(address) if address.port == 0 => "invalid port, must 1-65535".to_owned(),
        Ok(address) => return Some(address),
        Err(reason) => format!("could not split host and port: {reason}"),
    };
    section.problem(key, format!("invalid {what} address [{text}]: {reason}"));
    None
}

fn overlay(section: &Section<'_>) -> Option<BindPoint> {
    let options = section.section("listenOptions");
    let client_authentication = section.text("tlsClientAuthenticationPolicy").unwrap_or_default();
    let bind_using_edge_identity = options.flag("bindUsingEdgeIdentity", false);
    let service =
        section.required_text("service", "service must be supplied when using an identity binding");
    let identity = match (section.text("file"), section.text("env")) {
        (Some(file), _) if !file.is_empty() => OverlayIdentity::File(file.into()),
        (_, Some(name)) if !name.is_empty() => OverlayIdentity::Variable(name),
        _ => {
            section.problem("file", "no identity configured: file or env required");
            return None;
        }
    };
    Some(BindPoint::Overlay { identity, service, client_authentication, bind_using_edge_identity })
}

fn options(section: &Section<'_>) -> WebOptions {
    const VERSIONS: [(&str, TlsVersion); 4] = [
        ("TLS1.0", TlsVersion::V1_0),
        ("TLS1.1", TlsVersion::V1_1),
        ("TLS1.2", TlsVersion::V1_2),
        ("TLS1.3", TlsVersion::V1_3),
    ];
    let default = WebOptions::default();
    let timeout = |key: &'static str, default| {
        let time = section.duration(key, default);
        if time.is_zero() {
            section.problem(key, format!("value [0s] for {key} too low, must be positive"));
        }
        time
    };
    let options = WebOptions {
        read_timeout: timeout("readTimeout", default.read_timeout),
        write_timeout: timeout("writeTimeout", default.write_timeout),
        idle_timeout: timeout("idleTimeout", default.idle_timeout),
        min_tls: section.choice("minTLSVersion", &VERSIONS, default.min_tls),
        max_tls: section.choice("maxTLSVersion", &VERSIONS, default.max_tls),
        allowed_origins: allowed_origins(section),
    };
    if options.min_tls > options.max_tls {
        section
            .problem("minTLSVersion", "minTLSVersion must be less than or equal to maxTLSVersion");
    } else if options.max_tls < TlsVersion::V1_2 {
        section.problem("maxTLSVersion", "versions below TLS1.2 are not spoken");
    }
    options
}

/// A setting of weft only: the original lets pages of any origin call.
fn allowed_origins(section: &Section<'_>) -> AllowedOrigins {
    const KEY: &str = "allowedOrigins";
    let origins = section.texts(KEY);
    if origins.iter().any(|origin| origin == "*") {
        if origins.len() > 1 {
            section.problem(KEY, "`*` is every origin; name it alone");
        }
        return AllowedOrigins::Any;
    }
    AllowedOrigins::Named(named(section, KEY, &origins))
}

/// A list of origins, in the form of browsers.
fn origins(section: &Section<'_>, key: &'static str) -> Vec<String> {
    named(section, key, &section.texts(key))
}

fn named(section: &Section<'_>, key: &'static str, origins: &[String]) -> Vec<String> {
    let origins: Vec<_> = origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
    for origin in origins.iter().filter(|origin| !is_origin(origin)) {
        let text = format!(
            "`{origin}` is no origin; write it as browsers do, such as \
             https://console.example:8443, without a path and without the usual port"
        );
        section.problem(key, text);
    }
    origins
}

fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://").map(|rest| (rest, ":443"));
    let rest = rest.or_else(|| text.strip_prefix("http://").map(|rest| (rest, ":80")));
    rest.is_some_and(|(host, usual)| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        !host.is_empty() && host.bytes().all(is_part) && !host.ends_with(usual)
    })
}
