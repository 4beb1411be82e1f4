//! Third-party certificate authorities
//! (docs/protocol/auth.md 14; docs/protocol/management-api.md 7.7).

use crate::body::{Body, FieldType};
use crate::entity::words;
use crate::headers;
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, CHANGE_STATUSES, Operation, Request, Response, action, create, delete, detail as get,
    list, patch, replace,
};
use crate::permission::{Action, Subject};

/// The collection in paths and references.
pub const COLLECTION: &str = "cas";
/// Name of an identity that enrolls by itself, when the CA does not say.
pub const DEFAULT_NAME_FORMAT: &str = "[caName]-[commonName]";

const fn access(action: Action) -> Access {
    Access::Permission(Subject::Ca, action)
}

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listCas", "/cas", access(Action::Read), "caDetail"),
    create::<CaBody>("createCa", "/cas", access(Action::Create)),
    get("detailCa", "/cas/{id}", access(Action::Read), "caDetail"),
    replace::<CaBody>("updateCa", "/cas/{id}", access(Action::Update)),
    patch::<CaBody>("patchCa", "/cas/{id}", access(Action::Update)),
    delete("deleteCa", "/cas/{id}", access(Action::Delete)),
    get("getCaJwt", "/cas/{id}/jwt", access(Action::Read), "string")
        .answers(Response::Raw(headers::JWT)),
    action("verifyCa", "/cas/{id}/verify", access(Action::Update))
        .request(Request::Text)
        .statuses(CHANGE_STATUSES),
];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "ca",
    plural: COLLECTION,
    aliases: &["certificate-authority"],
    about: "a certificate authority of somebody else, whose certificates identities may show",
    operations: MANAGEMENT,
    fields: CaBody::FIELDS,
    links: &[],
    role_attributes: None,
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "VERIFIED", pointer: "/isVerified" },
        Column { title: "TOKEN", pointer: "/verificationToken" },
        Column { title: "LOGIN", pointer: "/isAuthEnabled" },
        Column { title: "OTT", pointer: "/isOttCaEnrollmentEnabled" },
        Column { title: "AUTO", pointer: "/isAutoCaEnrollmentEnabled" },
    ],
};

words! {
    /// The place of the external id in a certificate.
    pub enum ClaimLocation {
        /// The common name of the subject.
        CommonName = "COMMON_NAME",
        /// A URI among the alternative names.
        SanUri = "SAN_URI",
        /// An e-mail address among the alternative names.
        SanEmail = "SAN_EMAIL",
    }
}

words! {
    /// Which of several values is meant.
    pub enum ClaimMatcher {
        /// Every value.
        All = "ALL",
        /// Values with a prefix.
        Prefix = "PREFIX",
        /// Values with a suffix.
        Suffix = "SUFFIX",
        /// URIs with a scheme.
        Scheme = "SCHEME",
    }
}

words! {
    /// The part of a value that is the external id.
    pub enum ClaimParser {
        /// All of it.
        None = "NONE",
        /// The parts between separators.
        Split = "SPLIT",
    }
}

members! {
    /// The members of a CA that callers set.
    body CaBody;
    /// A CA.
    detail CaDetail with Base;

    /// Its certificate, PEM; when it is made.
    Create cert_pem: String, shown "Its certificate, PEM.";
    /// How the external id of an identity is read from a certificate.
    Optional external_id_claim: ExternalIdClaimBody;
    /// How the external id of an identity is read from a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown external_id_claim: Option<ExternalIdClaimDetail>;
    /// SHA-1 of its certificate, hex.
    Shown fingerprint: String;
    /// Names of identities that enroll by themselves; takes [caName], [caId], [commonName],
    /// [requestedName] and [identityId].
    Replace identity_name_format: String, shown "Names of identities that enroll by themselves.";
    /// Role attributes of identities that enroll by themselves.
    Both identity_roles: Vec<String>, shown;
    /// Whether its certificates may log in.
    Both is_auth_enabled: bool, shown;
    /// Whether its certificates may enroll by themselves.
    Both is_auto_ca_enrollment_enabled: bool, shown;
    /// Whether its certificates may enroll with a ticket.
    Both is_ott_ca_enrollment_enabled: bool, shown;
    /// Whether possession of its key was proved.
    Shown is_verified: bool;
    /// The name; unique among CAs.
    Both name: String, shown "The name.";
    /// Labels.
    Optional tags: Tags;
    /// The common name of the certificate that proves it.
    Shown verification_token: String;
}

members! {
    /// How an external id is read from a certificate. All members are there, or none.
    body ExternalIdClaimBody;
    /// How an external id is read from a certificate.
    detail ExternalIdClaimDetail;

    /// Which of several results is meant, from 0.
    Optional index: i64 as FieldType::Integer { min: 0, max: u32::MAX as i64 },
        shown "Which of several results is meant.";
    /// The place of the external id in a certificate.
    Optional location: ClaimLocation, shown;
    /// Which values are meant.
    Optional matcher: ClaimMatcher, shown;
    /// Prefix, suffix or scheme.
    Optional matcher_criteria: String, shown;
    /// The part of a value that is the external id.
    Optional parser: ClaimParser, shown;
    /// The separator.
    Optional parser_criteria: String, shown;
}
