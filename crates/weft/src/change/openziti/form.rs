//! The names of OpenZiti's documents: sections, role lists, and what every network has.

/// The sections by their names in OpenZiti's documents, in the order of its exports, each with its
/// name in weft's.
pub(super) const SECTIONS: [(&str, &str); 12] = [
    ("authPolicies", "auth-policies"),
    ("certificateAuthorities", "cas"),
    ("configTypes", "config-types"),
    ("configs", "configs"),
    ("edgeRouterPolicies", "edge-router-policies"),
    ("edgeRouters", "edge-routers"),
    ("externalJwtSigners", "external-jwt-signers"),
    ("identities", "identities"),
    ("postureChecks", "posture-checks"),
    ("serviceEdgeRouterPolicies", "service-edge-router-policies"),
    ("servicePolicies", "service-policies"),
    ("services", "services"),
];

/// The config types that every controller makes itself.
pub(super) const BUILT_IN: [&str; 10] = [
    "host.v1",
    "host.v2",
    "intercept.v1",
    "interfaces.v1",
    "l2.host.v1",
    "l2.intercept.v1",
    "proxy.v1",
    "router.link.v1",
    "ziti-tunneler-client.v1",
    "ziti-tunneler-server.v1",
];

/// The auth policy that every network has: its id and its name.
pub(super) const DEFAULT_POLICY: (&str, &str) = ("default", "Default");

/// The role lists of each kind of policy, each with the section that its roles select from.
pub(super) fn roles_of(section: &str) -> &'static [(&'static str, &'static str)] {
    match section {
        "service-policies" => &[
            ("identityRoles", "identities"),
            ("postureCheckRoles", "posture-checks"),
            ("serviceRoles", "services"),
        ],
        "edge-router-policies" => {
            &[("edgeRouterRoles", "edge-routers"), ("identityRoles", "identities")]
        }
        "service-edge-router-policies" => {
            &[("edgeRouterRoles", "edge-routers"), ("serviceRoles", "services")]
        }
        _ => &[],
    }
}
