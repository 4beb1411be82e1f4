//! The `web:` section: HTTP servers, their addresses and APIs (docs/protocol/config.md 3).

use std::{
    path::{Component, Path, PathBuf},
    time::Duration,
};

use weft_identity::IdentitySection;

use crate::{
    address::HostPort,
    identity::{self, Required},
    section::{Item, Section},
};

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

/// An API of a server with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebApi {
    /// `edge-client`.
    EdgeClient,
    /// `edge-management`.
    EdgeManagement,
    /// `edge-oidc`.
    EdgeOidc(OidcOptions),
    /// `fabric`.
    Fabric,
    /// `health-checks`.
    HealthChecks,
    /// `metrics`.
    Metrics {
        /// PEM file with the only client certificate that may read metrics; none = every client
        /// may.
        scrape_cert: Option<PathBuf>,
        /// True if samples have timestamps.
        include_timestamps: bool,
    },
    /// `spa` or `zac`: files of a single page application.
    Files(FileOptions),
}

/// Options of a single page application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOptions {
    /// The first segment of the path.
    pub path: String,
    /// Folder with the files. It existed when the configuration was read.
    pub location: PathBuf,
    /// File of the folder that is sent for every path without a file.
    pub index_file: String,
    /// True if `/assets` at the root is the same as below the path: consoles that were built
    /// without a base path ask there.
    pub assets_at_root: bool,
}

impl WebApi {
    /// The binding's name in the file.
    #[must_use]
    pub fn binding(&self) -> &'static str {
        match self {
            Self::EdgeClient => "edge-client",
            Self::EdgeManagement => "edge-management",
            Self::EdgeOidc(_) => "edge-oidc",
            Self::Fabric => "fabric",
            Self::HealthChecks => "health-checks",
            Self::Metrics { .. } => "metrics",
            Self::Files(options) if options.assets_at_root => "zac",
            Self::Files(_) => "spa",
        }
    }
}

/// Options of the OIDC provider. Empty lists = the built-in ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OidcOptions {
    /// URIs at which logins may end.
    pub redirect_uris: Vec<String>,
    /// URIs at which logouts may end.
    pub post_logout_uris: Vec<String>,
    /// The secret for state; none = a random one at each start.
    pub secret: Option<String>,
    /// Host names to be used for a wildcard certificate.
    pub allowed_hostnames: Vec<String>,
}

/// The program whose file is read, which determines the APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// A controller, with or without the section `edge`.
    Controller { edge: bool },
    /// A router.
    Router,
}

impl Side {
    /// The bindings of APIs that the program serves.
    fn bindings(self) -> &'static [&'static str] {
        match self {
            Self::Controller { edge: true } => &[
                "edge-client",
                "edge-management",
                "edge-oidc",
                "fabric",
                "health-checks",
                "metrics",
                "spa",
                "zac",
            ],
            Self::Controller { edge: false } => {
                &["fabric", "health-checks", "metrics", "spa", "zac"]
            }
            Self::Router => &["health-checks", "metrics"],
        }
    }
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
        apis: apis.iter().filter_map(|item| api(item, side)).collect(),
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
    let origins: Vec<_> = origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
    for origin in origins.iter().filter(|origin| !is_origin(origin)) {
        let text = format!(
            "`{origin}` is no origin; write it as browsers do, such as \
             https://console.example:8443, without a path and without the usual port"
        );
        section.problem(KEY, text);
    }
    AllowedOrigins::Named(origins)
}

fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://").map(|rest| (rest, ":443"));
    let rest = rest.or_else(|| text.strip_prefix("http://").map(|rest| (rest, ":80")));
    rest.is_some_and(|(host, usual)| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        !host.is_empty() && host.bytes().all(is_part) && !host.ends_with(usual)
    })
}

fn api(item: &Item<'_>, side: Side) -> Option<WebApi> {
    let section = item.section_or("error parsing api configuration: not a map")?;
    let binding = section.required_text("binding", "binding is required");
    let options = section.section("options");
    let edge = side == Side::Controller { edge: true };
    let controller = side != Side::Router;
    let api = match binding.as_str() {
        "health-checks" => Some(WebApi::HealthChecks),
        "edge-client" if edge => Some(WebApi::EdgeClient),
        "edge-management" if edge => Some(WebApi::EdgeManagement),
        "edge-oidc" if edge => Some(WebApi::EdgeOidc(oidc(&options))),
        "fabric" if controller => Some(WebApi::Fabric),
        "metrics" => Some(metrics(&options)),
        "spa" | "zac" if controller => files(&options, &binding),
        "" => None,
        _ => {
            let reason = match binding.as_str() {
                "edge-client" | "edge-management" | "edge-oidc" if controller => {
                    "; it needs the section `edge`"
                }
                _ if side == Side::Router => "; a router serves `health-checks` and `metrics`",
                _ => "",
            };
            let text = format!("invalid binding {binding}{reason}");
            section.unknown_word("binding", text, side.bindings());
            None
        }
    };
    let reads = |api: &WebApi| {
        matches!(api, WebApi::EdgeOidc(_) | WebApi::Metrics { .. } | WebApi::Files(_))
    };
    if !api.as_ref().is_some_and(reads) {
        // Generated files have `options: {}` and more where nothing is read.
        options.allow_unknown();
    }
    api
}

fn oidc(options: &Section<'_>) -> OidcOptions {
    let mut allowed_hostnames = options.texts("allowedHostnames");
    for name in &mut allowed_hostnames {
        if name.contains(['*', '?']) {
            let text = format!("must be exact hostnames, not patterns: {name:?}");
            options.problem("allowedHostnames", text);
        }
        if name.chars().any(char::is_uppercase) {
            options.warn("allowedHostnames", format!("`{name}` is taken in lower case"));
            *name = name.to_lowercase();
        }
    }
    OidcOptions {
        redirect_uris: options.texts("redirectURIs"),
        post_logout_uris: options.texts("postLogoutURIs"),
        secret: options.text("secret").map(|text| text.trim().to_owned()).filter(|s| !s.is_empty()),
        allowed_hostnames,
    }
}

fn metrics(options: &Section<'_>) -> WebApi {
    let scrape_cert = options.text("scrapeCert").filter(|path| !path.is_empty());
    if scrape_cert.is_none() {
        options.warn(
            "scrapeCert",
            "without scrapeCert every client that reaches the port can read metrics",
        );
    }
    WebApi::Metrics {
        scrape_cert: scrape_cert.map(PathBuf::from),
        include_timestamps: options.flag("includeTimestamps", false),
    }
}

fn files(options: &Section<'_>, binding: &str) -> Option<WebApi> {
    let is_console = binding == "zac";
    let required = |key: &'static str| {
        let missing = format!("{key} must be supplied in the {binding} options");
        options.required_text(key, &missing).trim().to_owned()
    };
    let path = if is_console && !options.has("path") { "zac".to_owned() } else { required("path") };
    if path.contains(['/', '\\']) {
        let text = format!("path must not contain path separators in the {binding} options");
        options.problem("path", text);
    } else if matches!(path.as_str(), "." | "..") {
        options.problem("path", format!("`{path}` is no path; name a word, such as `console`"));
    }
    let location = required("location");
    let index_file = options.text("indexFile").map(|name| name.trim().to_owned());
    let index_file = index_file.filter(|name| !name.is_empty());
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if index_file.as_ref().is_some_and(|name| !Path::new(name).components().all(is_plain)) {
        options.problem("indexFile", "must be the name of a file in the location");
    }
    let files = FileOptions {
        path,
        location: location.into(),
        index_file: index_file.unwrap_or_else(|| "index.html".to_owned()),
        assets_at_root: is_console,
    };
    check_location(options, &files);
    Some(WebApi::Files(files))
}

/// Checks that the folder exists: otherwise the mistake would be noticed only when the application
/// is opened.
fn check_location(options: &Section<'_>, files: &FileOptions) {
    let FileOptions { location, index_file, .. } = files;
    if location.as_os_str().is_empty() {
        return;
    }
    let shown = location.display();
    match std::fs::metadata(location) {
        Ok(found) if !found.is_dir() => {
            options.problem("location", format!("{shown} is not a directory"));
        }
        Err(error) => {
            let text = format!(
                "the directory {shown} cannot be read: {error}; name the one with the files"
            );
            options.problem("location", text);
        }
        Ok(_) if !location.join(index_file).is_file() => {
            let key = if options.has("indexFile") { "indexFile" } else { "location" };
            options.warn(key, format!("there is no file {index_file} in {shown} yet"));
        }
        Ok(_) => {}
    }
}
