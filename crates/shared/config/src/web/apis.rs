//! The APIs of an HTTP server: `apis` of an entry of `web` (docs/protocol/config.md 3).

use std::path::{Component, Path, PathBuf};

use super::origins;
use crate::section::{Item, Section};

/// Longest policy for an application, in bytes: many proxies refuse headers above 8 KiB.
const MAX_POLICY: usize = 4096;
/// Most origins of `connectTo`: the policy goes into every answer.
const MAX_CONNECT: usize = 60;

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
    /// What browsers let the application do.
    pub policy: ContentPolicy,
}

/// The `Content-Security-Policy` of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentPolicy {
    /// The policy that weft makes. The application may connect to these origins, too.
    Made(Vec<String>),
    /// The policy of the file, instead.
    Given(String),
}

impl Default for ContentPolicy {
    fn default() -> Self {
        Self::Made(Vec::new())
    }
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

/// Reads an API; none if the file names one that its program does not serve.
pub(super) fn read(item: &Item<'_>, side: Side) -> Option<WebApi> {
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
        policy: policy(options),
    };
    check_location(options, &files);
    Some(WebApi::Files(files))
}

/// Settings of weft only: the original sends no policy with files.
fn policy(options: &Section<'_>) -> ContentPolicy {
    const KEY: &str = "contentSecurityPolicy";
    const CONNECT: &str = "connectTo";
    let origins = origins(options, CONNECT);
    let bytes: usize = origins.iter().map(String::len).sum();
    if origins.len() > MAX_CONNECT || bytes > MAX_POLICY {
        let reason = format!(
            "has at most {MAX_CONNECT} origins, with {MAX_POLICY} bytes in all, and not {} with {bytes}",
            origins.len()
        );
        options.problem(CONNECT, reason);
    }
    let Some(text) = options.text(KEY) else { return ContentPolicy::Made(origins) };
    // A text of several lines in the file is one line of the header.
    let text = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() || text.len() > MAX_POLICY {
        let reason =
            format!("a policy has 1 to {MAX_POLICY} bytes; without the key weft makes one");
        options.problem(KEY, reason);
    } else if text.bytes().any(|byte| !matches!(byte, b' '..=b'~')) {
        options.problem(KEY, "a policy has no other characters than those of ASCII");
    }
    if !origins.is_empty() {
        let reason = format!("has no effect beside {KEY}; name the origins there, in connect-src");
        options.warn(CONNECT, reason);
    }
    ContentPolicy::Given(text)
}

/// Checks that the folder exists: otherwise the mistake would be noticed only when the application
/// is opened.
fn check_location(options: &Section<'_>, files: &FileOptions) {
    let FileOptions { location, index_file, .. } = files;
    if location.as_os_str().is_empty() || options.is_alone() {
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
