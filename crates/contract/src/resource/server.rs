//! Facts about a controller, mostly for any caller: version, protocols, CA certificates,
//! capabilities, the network's JWT, counts.

use std::collections::BTreeMap;

use crate::entity::detail;
use crate::headers;
use crate::operation::{Access, Operation, Response, detail as get, list};
use crate::paths::{CA_CERTIFICATES, VERSION};

/// The controller can log in by OpenID Connect. SDKs that see it use nothing else.
pub const OIDC_AUTH: &str = "OIDC_AUTH";
/// A login also accepts a certificate signing request.
pub const OIDC_AUTH_WITH_CSR: &str = "OIDC_AUTH_WITH_CSR";
/// The controller is part of a cluster. SDKs that see it ask for the other members.
pub const HA_CONTROLLER: &str = "HA_CONTROLLER";
/// All capabilities that clients know; others must not be sent (docs/protocol/auth.md 17.2).
pub const CAPABILITIES: &[&str] = &[OIDC_AUTH, HA_CONTROLLER, OIDC_AUTH_WITH_CSR];

const PUBLIC: &[u16] = &[200];

/// Operations that both APIs serve.
pub const SHARED: &[Operation] = &[
    get("listRoot", "/", Access::Public, "version").statuses(PUBLIC),
    get("listVersion", VERSION, Access::Public, "version").statuses(PUBLIC),
    get("listWellKnownCas", CA_CERTIFICATES, Access::Public, "string")
        .answers(Response::Raw(headers::PKCS7))
        .statuses(PUBLIC),
    list("listEnumeratedCapabilities", "/enumerated-capabilities", Access::Public, "capabilities")
        .unpaged()
        .statuses(PUBLIC),
    list(
        "listEnumeratedRouterCapabilities",
        "/enumerated-router-capabilities",
        Access::Authenticated,
        "routerCapabilities",
    )
    .unpaged()
    .statuses(&[200, 401, 429, 503]),
    list("listNetworkJWTs", "/network-jwts", Access::Public, "networkJWT")
        .unpaged()
        .statuses(&[200, 400, 429]),
];

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] =
    &[get("listSummary", "/summary", Access::Admin, "listSummaryCounts")
        .statuses(&[200, 401, 429, 503])];

/// Operations of the client API.
pub const CLIENT: &[Operation] =
    &[get("listProtocols", "/protocols", Access::Public, "protocols").statuses(&[200, 429, 503])];

/// Entities by kind; the key of edge routers is `routers.edge`
/// (docs/protocol/management-api.md 7.10).
pub type Summary = BTreeMap<String, u64>;

/// Addresses by protocol.
pub type Protocols = BTreeMap<String, Protocol>;

/// API versions by binding, then by version.
pub type ApiVersions = BTreeMap<String, BTreeMap<String, ApiVersion>>;

detail! {
    /// Version of the controller and of its APIs.
    // docs/protocol/auth.md 17.2
    pub struct Version {
        /// Where each bound API is. `edge` repeats `edge-client`: old SDKs look there.
        pub api_versions: ApiVersions,
        /// When the program was built.
        pub build_date: String,
        /// From [`CAPABILITIES`]; the array itself must be there.
        pub capabilities: Vec<String>,
        /// Revision of the source.
        pub revision: String,
        /// Version of the language runtime.
        pub runtime_version: String,
        /// `vX.Y.Z`; SDKs compare it to choose features.
        pub version: String,
    }
}

detail! {
    /// Where one version of an API is.
    pub struct ApiVersion {
        /// Full addresses.
        pub api_base_urls: Vec<String>,
        /// The base path.
        pub path: String,
    }
}

detail! {
    /// Where a protocol is spoken.
    pub struct Protocol {
        /// `host:port`.
        pub address: String,
    }
}

detail! {
    /// A JWT that lets anybody trust this network.
    pub struct NetworkJwt {
        /// `default`.
        pub name: String,
        /// The JWT.
        pub token: String,
    }
}
