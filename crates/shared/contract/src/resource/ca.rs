//! Third-party certificate authorities
//! (docs/protocol/auth.md 14; docs/protocol/management-api.md 7.7).

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::body::{Body, FieldType};
use crate::json::{ListOrNull, Tags};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, CHANGE_STATUSES, Operation, Request, Response, action, detail as get,
};
use crate::paths::Api;
use crate::permission::{Action, Subject};
use crate::word::Word;
use crate::{collection, headers};

/// The collection in paths and references.
pub const COLLECTION: &str = "cas";
/// The form of the names of identities that enroll by themselves, for a CA that names none.
pub const DEFAULT_NAME_FORMAT: &str = "[caName]-[commonName]";

const fn access(action: Action) -> Access {
    Access::Permission(Subject::Ca, action)
}

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::CAS.list("listCas"),
    collection::CAS.create::<CaBody>("createCa"),
    collection::CAS.get("detailCa"),
    collection::CAS.replace::<CaBody>("updateCa"),
    collection::CAS.patch::<CaBody>("patchCa"),
    collection::CAS.delete("deleteCa"),
    get("getCaJwt", "/cas/{id}/jwt", access(Action::Read), "string")
        .answers(Response::Raw(headers::JWT)),
    action("verifyCa", "/cas/{id}/verify", access(Action::Update))
        .request(Request::Text)
        .statuses(CHANGE_STATUSES),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "ca",
    plural: COLLECTION,
    aliases: &["certificate-authority"],
    about: "a certificate authority of somebody else, whose certificates identities may show",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: CaBody::FIELDS,
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "VERIFIED", pointer: "/isVerified" },
        Column { title: "TOKEN", pointer: "/verificationToken" },
        Column { title: "LOGIN", pointer: "/isAuthEnabled" },
        Column { title: "OTT", pointer: "/isOttCaEnrollmentEnabled" },
        Column { title: "AUTO", pointer: "/isAutoCaEnrollmentEnabled" },
    ],
    ..Kind::PLAIN
};

/// The part of a certificate that holds the external id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum ClaimLocation {
    /// The common name of the subject.
    #[default]
    CommonName,
    /// A URI among the alternative names.
    SanUri,
    /// An e-mail address among the alternative names.
    SanEmail,
}

impl Word for ClaimLocation {}

/// The values of that part that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum ClaimMatcher {
    /// Every value.
    #[default]
    All,
    /// Values with a prefix.
    Prefix,
    /// Values with a suffix.
    Suffix,
    /// URIs with a scheme.
    Scheme,
}

impl Word for ClaimMatcher {}

/// The part of a value that is the external id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum ClaimParser {
    /// The whole value.
    #[default]
    None,
    /// The parts between separators.
    Split,
}

impl Word for ClaimParser {}

members! {
    /// The members of a CA that callers set.
    body CaBody;
    /// A CA outside of the network, whose certificates the network may accept.
    detail CaDetail with Base;

    /// The certificate of the CA, as PEM. Set when the CA is created.
    Create cert_pem: String, shown "The certificate of the CA, as PEM.";
    /// The rule by which a certificate of the CA gives the external id of an identity; without it
    /// an identity is found by the fingerprint of its certificate.
    Optional external_id_claim: ExternalIdClaimBody;
    /// The rule by which a certificate of the CA gives the external id of an identity; null if
    /// there is none.
    Shown external_id_claim: Option<ExternalIdClaimDetail>;
    /// The SHA-1 of the CA's certificate, in hex.
    Shown fingerprint: String;
    /// The form of the names of identities that enroll by themselves, with `[caName]`, `[caId]`,
    /// `[commonName]`, `[requestedName]` and `[identityId]`; `[caName]-[commonName]` if it is empty.
    Replace identity_name_format: String,
        shown "The form of the names of identities that enroll by themselves.";
    /// The role attributes of identities that enroll by themselves.
    Both identity_roles: Vec<String>,
        shown "The role attributes of such identities; null if there are none." as ListOrNull<String>;
    /// Whether identities may log in with certificates of the CA.
    Both is_auth_enabled: bool, shown;
    /// Whether a certificate of the CA may enroll a new identity by itself.
    Both is_auto_ca_enrollment_enabled: bool, shown;
    /// Whether a certificate of the CA may enroll an identity that has an enrollment for this CA.
    Both is_ott_ca_enrollment_enabled: bool, shown;
    /// Whether the operator has proved that he has the key of the CA.
    Shown is_verified: bool;
    /// The name of the CA; unique among CAs.
    Both name: String, shown "The name of the CA.";
    /// Labels of the CA.
    Optional tags: Tags;
    /// The common name that a certificate of the CA must have to verify the CA.
    Shown verification_token: String;
}

members! {
    /// The rule by which a certificate gives an external id. All members are set, or none.
    body ExternalIdClaimBody;
    /// The rule by which a certificate gives an external id.
    detail ExternalIdClaimDetail;

    /// The place of the external id among the values that are found, from 0.
    Optional index: i64 as FieldType::Integer { min: 0, max: u32::MAX as i64 },
        shown "The place of the external id among the values, from 0.";
    /// The part of the certificate that holds the external id.
    Optional location: ClaimLocation, shown;
    /// The values of that part that count: all, or those with a prefix, a suffix or a scheme.
    Optional matcher: ClaimMatcher, shown;
    /// The prefix, suffix or scheme of values that count.
    Optional matcher_criteria: String, shown;
    /// The part of a value that is the external id: all of it, or a piece between separators.
    Optional parser: ClaimParser, shown;
    /// The separator of the pieces, for the parser `SPLIT`.
    Optional parser_criteria: String, shown;
}
