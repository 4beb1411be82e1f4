//! Authentication policies: how identities may log in (docs/protocol/auth.md 8).

use crate::body::{Body, FieldType};
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{Access, Operation, create, delete, detail as get, list, patch, replace};
use crate::permission::{Action, Subject};

/// The collection in paths and references.
pub const COLLECTION: &str = "auth-policies";
/// Id of the policy of identities that name none.
pub const DEFAULT_ID: &str = "default";

const fn access(action: Action) -> Access {
    Access::Permission(Subject::AuthPolicy, action)
}

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listAuthPolicies", "/auth-policies", access(Action::Read), "authPolicyDetail"),
    create::<AuthPolicyBody>("createAuthPolicy", "/auth-policies", access(Action::Create)),
    get("detailAuthPolicy", "/auth-policies/{id}", access(Action::Read), "authPolicyDetail"),
    replace::<AuthPolicyBody>("updateAuthPolicy", "/auth-policies/{id}", access(Action::Update)),
    patch::<AuthPolicyBody>("patchAuthPolicy", "/auth-policies/{id}", access(Action::Update)),
    delete("deleteAuthPolicy", "/auth-policies/{id}", access(Action::Delete)),
];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "auth-policy",
    plural: COLLECTION,
    aliases: &["authentication-policy", "authentication-policies"],
    about: "how identities may log in",
    operations: MANAGEMENT,
    fields: AuthPolicyBody::FIELDS,
    links: &[],
    role_attributes: None,
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "CERT", pointer: "/primary/cert/allowed" },
        Column { title: "PASSWORD", pointer: "/primary/updb/allowed" },
        Column { title: "JWT", pointer: "/primary/extJwt/allowed" },
        Column { title: "TOTP", pointer: "/secondary/requireTotp" },
    ],
};

members! {
    /// What can be said of an authentication policy.
    body AuthPolicyBody;
    /// An authentication policy.
    detail AuthPolicyDetail with Base;

    /// The name; unique among authentication policies.
    Both name: String, shown "The name.";
    /// First factors.
    Both primary: PrimaryBody, shown as Primary;
    /// What must come with the first factor.
    Both secondary: SecondaryBody, shown as Secondary;
    /// Labels.
    Optional tags: Tags;
}

members! {
    /// First factors.
    body PrimaryBody;
    /// First factors.
    detail Primary;

    /// Certificates.
    Both cert: PrimaryCertBody, shown as PrimaryCert;
    /// JWTs of external signers.
    Both ext_jwt: PrimaryExtJwtBody, shown as PrimaryExtJwt;
    /// Passwords.
    Both updb: PrimaryUpdbBody, shown as PrimaryUpdb;
}

members! {
    /// Login by certificate.
    body PrimaryCertBody;
    /// Login by certificate.
    detail PrimaryCert;

    /// Even with an expired one.
    Both allow_expired_certs: bool, shown;
    /// Whether it is allowed.
    Both allowed: bool, shown;
}

members! {
    /// Login by JWT.
    body PrimaryExtJwtBody;
    /// Login by JWT.
    detail PrimaryExtJwt;

    /// Whether it is allowed.
    Both allowed: bool, shown;
    /// Of which signers; empty is all.
    Both allowed_signers: Vec<String> => "external-jwt-signers", shown;
}

/// A number that is stored as one without sign; less than nothing is nothing.
const COUNT: FieldType = FieldType::Integer { min: i64::MIN, max: u32::MAX as i64 };

members! {
    /// Login by password.
    body PrimaryUpdbBody;
    /// Login by password.
    detail PrimaryUpdb;

    /// Whether it is allowed.
    Both allowed: bool, shown;
    /// Minutes that too many wrong ones lock the identity; 0 is until it is enabled.
    Both lockout_duration_minutes: i64 as COUNT,
        shown "How long too many wrong ones lock the identity; 0 is until it is enabled.";
    /// How many are too many; 0 is never.
    Both max_attempts: i64 as COUNT, shown;
    /// Least characters; fewer than 5 are 5.
    Both min_password_length: i64 as COUNT, shown "Least characters.";
    /// Both cases.
    Both require_mixed_case: bool, shown;
    /// A digit.
    Both require_number_char: bool, shown;
    /// Something else.
    Both require_special_char: bool, shown;
}

members! {
    /// What must come with the first factor.
    body SecondaryBody;
    /// What must come with the first factor.
    detail Secondary;

    /// A JWT of this signer; empty is none.
    Optional require_ext_jwt_signer: String => "external-jwt-signers",
        shown "A JWT of this signer." as Option<String>;
    /// A TOTP code.
    Both require_totp: bool, shown;
}
