//! Facts about a controller, mostly for any caller: version, protocols, CA certificates,
//! capabilities, the network's JWT, counts.

use std::collections::BTreeMap;

use crate::entity::detail;
use crate::headers;
use crate::operation::{Access, Operation, Response, detail as get, list};
use crate::paths::{CA_CERTIFICATES, VERSION};
use crate::timestamp::Timestamp;

/// Clients can log in by OpenID Connect. SDKs log in in no other way at a controller with this
/// capability.
pub const OIDC_AUTH: &str = "OIDC_AUTH";
/// A login also accepts a certificate signing request.
pub const OIDC_AUTH_WITH_CSR: &str = "OIDC_AUTH_WITH_CSR";
/// The controller is part of a cluster. SDKs ask a controller with this capability for the other
/// members.
pub const HA_CONTROLLER: &str = "HA_CONTROLLER";
/// All capabilities that clients know; a controller must send no others (docs/protocol/auth.md
/// 17.2).
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
    &[get("listSummary", "/summary", Access::AdminOrReadOnly, "listSummaryCounts")
        .statuses(&[200, 401, 429, 503])];

/// Operations of the client API.
pub const CLIENT: &[Operation] =
    &[get("listProtocols", "/protocols", Access::Public, "protocols").statuses(&[200, 429, 503])];

/// Numbers of entities by kind; of edge routers and of services that are not of the fabric only with `.edge`
/// (docs/protocol/management-api.md 7.10).
pub type Summary = BTreeMap<String, u64>;

/// Addresses by protocol.
pub type Protocols = BTreeMap<String, Protocol>;

/// API versions by binding, then by version.
pub type ApiVersions = BTreeMap<String, BTreeMap<String, ApiVersion>>;

detail! {
    /// The version of the controller, and the APIs that it serves.
    // docs/protocol/auth.md 17.2
    pub struct Version {
        /// The addresses of each API, by the name of its binding. `edge` repeats `edge-client` for
        /// old SDKs.
        pub api_versions: ApiVersions,
        /// The time at which the program was built.
        pub build_date: String,
        /// The abilities of the controller that clients have to know, by name; an empty array if
        /// there are none.
        pub capabilities: Vec<String>,
        /// The revision of the program's source.
        pub revision: String,
        /// The version of the programming language's runtime.
        pub runtime_version: String,
        /// The release of OpenZiti that the controller is compatible with, as `vX.Y.Z`. SDKs decide
        /// by it which features to use.
        pub version: String,
        /// Until when the network may go back to OpenZiti, from which it came; left out if it stays.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub way_back_until: Option<Timestamp>,
    }
}

detail! {
    /// The addresses of a version of an API.
    pub struct ApiVersion {
        /// The whole URLs of the API.
        pub api_base_urls: Vec<String>,
        /// The base path of the API.
        pub path: String,
        /// The version of the API, such as `v1`.
        pub version: String,
    }
}

detail! {
    /// The address at which a protocol is served.
    pub struct Protocol {
        /// The address: `host:port`.
        pub address: String,
    }
}

detail! {
    /// A JWT by which a client that knows nothing of the network comes to trust it.
    pub struct NetworkJwt {
        /// The name of the JWT: `default`.
        pub name: String,
        /// The JWT.
        pub token: String,
    }
}
