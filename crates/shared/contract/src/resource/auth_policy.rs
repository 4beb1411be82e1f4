//! Auth policies: how identities may log in (docs/protocol/auth.md 8).

use crate::body::{Body, FieldType};
use crate::collection;
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::Operation;
use crate::paths::Api;

/// The collection in paths and references.
pub const COLLECTION: &str = "auth-policies";
/// Id of the auth policy of identities that name none.
pub const DEFAULT_ID: &str = "default";

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::AUTH_POLICIES.list("listAuthPolicies"),
    collection::AUTH_POLICIES.create::<AuthPolicyBody>("createAuthPolicy"),
    collection::AUTH_POLICIES.get("detailAuthPolicy"),
    collection::AUTH_POLICIES.replace::<AuthPolicyBody>("updateAuthPolicy"),
    collection::AUTH_POLICIES.patch::<AuthPolicyBody>("patchAuthPolicy"),
    collection::AUTH_POLICIES.delete("deleteAuthPolicy"),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "auth-policy",
    plural: COLLECTION,
    aliases: &["authentication-policy", "authentication-policies"],
    about: "how identities may log in",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: AuthPolicyBody::FIELDS,
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "CERT", pointer: "/primary/cert/allowed" },
        Column { title: "PASSWORD", pointer: "/primary/updb/allowed" },
        Column { title: "JWT", pointer: "/primary/extJwt/allowed" },
        Column { title: "TOTP", pointer: "/secondary/requireTotp" },
    ],
    ..Kind::PLAIN
};

members! {
    /// The members of an auth policy that callers set.
    body AuthPolicyBody;
    /// An auth policy: how the identities that have it log in.
    detail AuthPolicyDetail with Base;

    /// The name of the policy; unique among auth policies.
    Both name: String, shown "The name of the policy.";
    /// The rules for first factors: certificates, JWTs and passwords.
    Both primary: PrimaryBody, shown as Primary;
    /// The rules for second factors.
    Both secondary: SecondaryBody, shown as Secondary;
    /// Labels of the policy.
    Optional tags: Tags;
}

members! {
    /// The rules for first factors.
    body PrimaryBody;
    /// The rules for first factors.
    detail Primary;

    /// The rules for logins with a certificate.
    Both cert: PrimaryCertBody, shown as PrimaryCert;
    /// The rules for logins with a JWT of an external signer.
    Both ext_jwt: PrimaryExtJwtBody, shown as PrimaryExtJwt;
    /// The rules for logins with a username and a password.
    Both updb: PrimaryUpdbBody, shown as PrimaryUpdb;
}

members! {
    /// The rules for logins with a certificate.
    body PrimaryCertBody;
    /// The rules for logins with a certificate.
    detail PrimaryCert;

    /// Whether an expired certificate is accepted.
    Both allow_expired_certs: bool, shown;
    /// Whether identities may log in with a certificate.
    Both allowed: bool, shown;
}

members! {
    /// The rules for logins with a JWT of an external signer.
    body PrimaryExtJwtBody;
    /// The rules for logins with a JWT of an external signer.
    detail PrimaryExtJwt;

    /// Whether identities may log in with a JWT.
    Both allowed: bool, shown;
    /// The signers whose JWTs are accepted; an empty list accepts all signers.
    Both allowed_signers: Vec<String> => "external-jwt-signers", shown;
}

/// A number that is stored without sign; a negative number is stored as 0.
const COUNT: FieldType = FieldType::Integer { min: i64::MIN, max: u32::MAX as i64 };

members! {
    /// The rules for logins with a username and a password.
    body PrimaryUpdbBody;
    /// The rules for logins with a username and a password.
    detail PrimaryUpdb;

    /// Whether identities may log in with a password.
    Both allowed: bool, shown;
    /// The time for which a password is locked after too many wrong ones, in minutes; 0 locks the
    /// password until the identity is enabled.
    Both lockout_duration_minutes: i64 as COUNT,
        shown "Minutes for which too many wrong passwords lock it; 0 is until it is enabled.";
    /// The number of wrong passwords in a row that lock the password; 0 never locks it. Other ways
    /// to log in stay.
    Both max_attempts: i64 as COUNT, shown;
    /// The least number of characters of a password; a number below 5 counts as 5.
    Both min_password_length: i64 as COUNT, shown "The least number of characters of a password.";
    /// Whether a password needs upper and lower case letters.
    Both require_mixed_case: bool, shown;
    /// Whether a password needs a digit.
    Both require_number_char: bool, shown;
    /// Whether a password needs a character that is neither a letter nor a digit.
    Both require_special_char: bool, shown;
}

members! {
    /// The rules for second factors.
    body SecondaryBody;
    /// The rules for second factors.
    detail Secondary;

    /// The external signer whose JWT is needed besides the first factor; empty if no JWT is
    /// needed.
    Optional require_ext_jwt_signer: String => "external-jwt-signers",
        shown "The external signer whose JWT is needed, too; null if none is." as Option<String>;
    /// Whether a TOTP code is needed besides the first factor.
    Both require_totp: bool, shown;
}
