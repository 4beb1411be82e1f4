//! The kinds of entities in a database, each with its bucket (docs/protocol/operations.md 14.3).

use weft_model::Entity;

use crate::fields::{Fields, Taken};
use crate::layout::Layout;
use crate::{
    auth_rules, authorities, credentials, identities, policies, posture_checks, routers, services,
    sessions,
};

/// What happens to the entities of a bucket.
pub(crate) enum Fate {
    /// They become entities of weft.
    Taken(fn(&mut Fields<'_, '_>, Layout) -> Taken<Entity>),
    /// They are counted, and need nothing else.
    Counted,
    /// They are counted, and each is a loss, for this reason.
    Lost(&'static str),
}

/// A bucket with entities of one kind.
pub(crate) struct Source {
    /// The name of the bucket in the root bucket.
    pub(crate) bucket: &'static str,
    /// The kind, in losses.
    pub(crate) kind: &'static str,
    /// The kind, in counts.
    pub(crate) name: &'static str,
    pub(crate) fate: Fate,
}

const fn source(
    bucket: &'static str,
    kind: &'static str,
    name: &'static str,
    fate: Fate,
) -> Source {
    Source { bucket, kind, name, fate }
}

/// Every bucket, in the order in which counts are shown.
pub(crate) const SOURCES: &[Source] = &[
    source("identities", "identity", "identities", Fate::Taken(identities::identity)),
    source(
        "authenticators",
        "authenticator",
        "authenticators",
        Fate::Taken(credentials::authenticator),
    ),
    source("enrollments", "enrollment", "enrollments", Fate::Taken(credentials::enrollment)),
    source("mfas", "MFA", "second factors", Fate::Taken(credentials::mfa)),
    source("authPolicies", "auth policy", "auth policies", Fate::Taken(auth_rules::auth_policy)),
    source("cas", "CA", "CAs", Fate::Taken(authorities::ca)),
    source(
        "externalJwtSigners",
        "external JWT signer",
        "external JWT signers",
        Fate::Taken(authorities::ext_jwt_signer),
    ),
    source("revocations", "revocation", "revocations", Fate::Taken(authorities::revocation)),
    source("routers", "router", "routers", Fate::Taken(routers::router)),
    source("services", "service", "services", Fate::Taken(services::service)),
    source("terminators", "terminator", "terminators", Fate::Taken(services::terminator)),
    source("configTypes", "config type", "config types", Fate::Taken(services::config_type)),
    source("configs", "config", "configs", Fate::Taken(services::config)),
    source(
        "servicePolicies",
        "service policy",
        "service policies",
        Fate::Taken(policies::service_policy),
    ),
    source(
        "edgeRouterPolicies",
        "edge router policy",
        "edge router policies",
        Fate::Taken(policies::edge_router_policy),
    ),
    source(
        "serviceEdgeRouterPolicies",
        "service edge router policy",
        "service edge router policies",
        Fate::Taken(policies::service_edge_router_policy),
    ),
    source(
        "postureChecks",
        "posture check",
        "posture checks",
        Fate::Taken(posture_checks::posture_check),
    ),
    source(
        "controllers",
        "controller",
        "controllers",
        Fate::Lost(
            "weft's controllers write entries of their own; the tokens that it signed count until they end",
        ),
    ),
    source("apiSessions", "API session", "API sessions", Fate::Taken(sessions::api_session)),
    source(
        "apiSessionCertificates",
        "certificate of an API session",
        "certificates of API sessions",
        Fate::Counted,
    ),
    source(
        "sessions",
        "service session",
        "service sessions",
        Fate::Taken(sessions::service_session),
    ),
];
