//! Networks in the form of `ziti ops export` and `ziti ops import`, OpenZiti's own documents
//! (docs/protocol/operations.md 8.9).
//!
//! ```text
//!   weft's document --[ leave ]--> OpenZiti's --[ ziti ops import ]--> a network of OpenZiti
//!   weft's document <--[ enter ]-- OpenZiti's <--[ ziti ops export ]-- a network of OpenZiti
//!         ^
//!         +--[ stay ]-- members that the form has no place for, of entities that are there already
//! ```
//!
//! Both conversions name what gets lost. Entities go by name: an export has no ids.

mod enter;
mod entity;
mod leave;
mod stay;
mod told;

pub(super) use enter::{EntryRemark, enter, is_openziti};
pub(super) use leave::{LeftNetwork, leave};
pub(super) use stay::keep;
pub(super) use told::tell;

/// The sections by their names in OpenZiti's documents, in the order of its exports, each with its
/// name in weft's.
const SECTIONS: [(&str, &str); 12] = [
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
const BUILT_IN: [&str; 10] = [
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
const DEFAULT_POLICY: (&str, &str) = ("default", "Default");

/// True if a text begins like an export of this form in JSON.
pub(super) fn begins_in_json(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let key = (lines.next() == Some("{")).then(|| lines.next()).flatten();
    let key = key.and_then(|line| line.strip_prefix('"')?.split_once("\": [")).map(|(key, _)| key);
    key.is_some_and(|key| SECTIONS.iter().any(|(original, _)| *original == key))
}

/// The role lists of each kind of policy, each with the section that its roles select from.
fn roles_of(section: &str) -> &'static [(&'static str, &'static str)] {
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

#[cfg(test)]
mod tests;
