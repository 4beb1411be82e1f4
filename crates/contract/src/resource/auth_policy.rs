//! Authentication policies: how identities may log in (protocol: auth 8).

use crate::entity::detail;
use crate::kind::{Column, Kind};
use crate::operation::{Access, Operation, detail as get, list};
use crate::permission::{Action, Subject};

/// The collection in paths and references.
pub const COLLECTION: &str = "auth-policies";
/// Id of the policy of identities that name none.
pub const DEFAULT_ID: &str = "default";

const READ: Access = Access::Permission(Subject::AuthPolicy, Action::Read);

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listAuthPolicies", "/auth-policies", READ, "authPolicyDetail"),
    get("detailAuthPolicy", "/auth-policies/{id}", READ, "authPolicyDetail"),
];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "auth-policy",
    plural: COLLECTION,
    aliases: &["authentication-policy", "authentication-policies"],
    about: "how identities may log in",
    operations: MANAGEMENT,
    fields: &[],
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

detail! {
    /// An authentication policy.
    pub struct AuthPolicyDetail with Base {
        /// The name.
        pub name: String,
        /// First factors.
        pub primary: Primary,
        /// What must come with the first factor.
        pub secondary: Secondary,
    }
}

detail! {
    /// First factors.
    pub struct Primary {
        /// Certificates.
        pub cert: PrimaryCert,
        /// JWTs of external signers.
        pub ext_jwt: PrimaryExtJwt,
        /// Passwords.
        pub updb: PrimaryUpdb,
    }
}

detail! {
    /// Login by certificate.
    pub struct PrimaryCert {
        /// Even with an expired one.
        pub allow_expired_certs: bool,
        /// Whether it is allowed.
        pub allowed: bool,
    }
}

detail! {
    /// Login by JWT.
    pub struct PrimaryExtJwt {
        /// Whether it is allowed.
        pub allowed: bool,
        /// Of which signers; empty is all.
        pub allowed_signers: Vec<String>,
    }
}

detail! {
    /// Login by password.
    pub struct PrimaryUpdb {
        /// Whether it is allowed.
        pub allowed: bool,
        /// How long too many wrong ones lock the identity; 0 is until it is enabled.
        pub lockout_duration_minutes: i64,
        /// How many are too many; 0 is never.
        pub max_attempts: i64,
        /// Least characters.
        pub min_password_length: i64,
        /// Both cases.
        pub require_mixed_case: bool,
        /// A digit.
        pub require_number_char: bool,
        /// Something else.
        pub require_special_char: bool,
    }
}

detail! {
    /// What must come with the first factor.
    pub struct Secondary {
        /// A JWT of this signer.
        pub require_ext_jwt_signer: Option<String>,
        /// A TOTP code.
        pub require_totp: bool,
    }
}
