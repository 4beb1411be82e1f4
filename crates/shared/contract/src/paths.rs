//! The API of a request path, and the older spellings of paths that clients still send.
//!
//! (docs/protocol/management-api.md 1; docs/protocol/auth.md 1.1.) Several APIs share a listener. A
//! request goes to the first of them, in the order of the configuration, that claims its path. A
//! path that none claims goes to the client API, or to the last API if the client API is not bound.

use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::word::Word;

/// The path of the CA certificates, below the base path and at the root.
pub const CA_CERTIFICATES: &str = "/.well-known/est/cacerts";
/// The path of the version, below the base path and at the root.
pub const VERSION: &str = "/version";
/// The description of an API in OpenAPI 2.0, below its base path; raw JSON.
pub const DESCRIPTION: &str = "/swagger.json";
/// The path of the description in OpenAPI 3.1.
pub const DESCRIPTION_3: &str = "/openapi.json";
/// The path of a page that shows the description, below the base path.
pub const BROWSE: &str = "/docs";

/// An API, by the name of its binding in the configuration file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Api {
    /// The API for applications and tunnelers.
    #[default]
    #[strum(serialize = "edge-client")]
    Client,
    /// The API for administrators.
    #[strum(serialize = "edge-management")]
    Management,
    /// Login by OpenID Connect.
    #[strum(serialize = "edge-oidc")]
    Oidc,
    /// The API for the mesh: routers, links and circuits.
    Fabric,
    /// Health checks, for load balancers.
    #[strum(serialize = "health-checks")]
    Health,
    /// Metrics, for Prometheus.
    Metrics,
    /// weft's own API: whole networks as documents. Every listener with the management API serves
    /// it.
    Weft,
}

impl Word for Api {}

impl Api {
    /// The path below which the operations of the API are.
    #[must_use]
    pub const fn base(self) -> &'static str {
        match self {
            Self::Client => "/edge/client/v1",
            Self::Management => "/edge/management/v1",
            Self::Oidc => "/oidc",
            Self::Fabric => "/fabric/v1",
            Self::Health => "/health-checks/v1",
            Self::Metrics => "/metrics",
            Self::Weft => "/weft/v1",
        }
    }

    /// Whether this API answers a request path.
    #[must_use]
    pub fn claims(self, path: &str) -> bool {
        match self {
            Self::Client | Self::Management => {
                below(self.base(), path).is_some()
                    || matches!(path, "/" | VERSION | CA_CERTIFICATES)
            }
            Self::Health => path.starts_with("/health-checks"),
            Self::Fabric | Self::Oidc | Self::Metrics | Self::Weft => {
                below(self.base(), path).is_some()
            }
        }
    }

    /// The path below the base path; a path that is not below the base path is unchanged.
    fn strip(self, path: &str) -> &str {
        match (self, path) {
            (Self::Client | Self::Management, "/") => VERSION,
            (Self::Client, _) => client_path(path),
            _ => below(self.base(), path).unwrap_or(path),
        }
    }
}

/// Decides which of the APIs bound to a listener, in the order of the configuration, answers a
/// path, and where in that API it is.
#[must_use]
pub fn dispatch<'p>(path: &'p str, bound: &[Api]) -> Option<(Api, &'p str)> {
    let api = bound
        .iter()
        .find(|api| api.claims(path))
        .or_else(|| bound.iter().find(|api| **api == Api::Client))
        .or(bound.last())?;
    Some((*api, api.strip(path)))
}

/// The path below the client API, for every spelling that clients of any age use.
fn client_path(path: &str) -> &str {
    match below(Api::Client.base(), path).or_else(|| below("/edge/v1", path)) {
        Some("/") => VERSION,
        Some(rest) => rest,
        None => path,
    }
}

/// The rest of a path after the prefix, at least `/`; none if the path is not below it.
fn below<'p>(prefix: &str, path: &'p str) -> Option<&'p str> {
    match path.strip_prefix(prefix)? {
        "" => Some("/"),
        rest if rest.starts_with('/') => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &[Api] = &[Api::Management, Api::Client, Api::Oidc, Api::Health];

    fn go<'p>(path: &'p str, bound: &[Api]) -> (Api, &'p str) {
        dispatch(path, bound).unwrap()
    }

    #[test]
    fn base_paths_decide() {
        assert_eq!(go("/edge/management/v1/services", BOTH), (Api::Management, "/services"));
        assert_eq!(go("/edge/client/v1/services", BOTH), (Api::Client, "/services"));
        assert_eq!(go("/oidc/authorize", BOTH), (Api::Oidc, "/authorize"));
        assert_eq!(go("/health-checks", BOTH).0, Api::Health);
        assert_eq!(go("/edge/management/v1", BOTH), (Api::Management, "/"));
    }

    #[test]
    fn the_first_in_the_configuration_answers_shared_paths() {
        for path in ["/", "/version"] {
            assert_eq!(go(path, BOTH), (Api::Management, VERSION));
            assert_eq!(go(path, &[Api::Client, Api::Management]), (Api::Client, VERSION));
        }
        assert_eq!(go(CA_CERTIFICATES, BOTH), (Api::Management, CA_CERTIFICATES));
    }

    #[test]
    fn old_spellings_reach_the_client_api() {
        for path in ["/authenticate", "/edge/v1/authenticate", "/edge/client/v1/authenticate"] {
            assert_eq!(go(path, BOTH), (Api::Client, "/authenticate"));
        }
        let only = &[Api::Client];
        assert_eq!(go(CA_CERTIFICATES, only), (Api::Client, CA_CERTIFICATES));
        assert_eq!(go("/edge/client/v1", only), (Api::Client, VERSION));
    }

    #[test]
    fn what_nobody_claims_stays_unknown() {
        assert_eq!(go("/edge/client/v1x", BOTH), (Api::Client, "/edge/client/v1x"));
        assert_eq!(go("/edge/management/services", BOTH).0, Api::Client);
        assert_eq!(go("/services", &[Api::Management]), (Api::Management, "/services"));
        assert_eq!(dispatch("/", &[]), None);
    }

    #[test]
    fn bindings_have_names() {}
}
