//! Authentication policies: how identities may log in (docs/protocol/auth.md 8).

use crate::body::{Body, FieldType, body};
use crate::entity::detail;
use crate::json::Tags;
use crate::kind::{Column, Kind};
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

body! {
    /// What can be said of an authentication policy.
    pub struct AuthPolicyBody {
        /// The name; unique among authentication policies.
        Both "name" name: String,
        /// First factors.
        Both "primary" primary: PrimaryBody,
        /// What must come with the first factor.
        Both "secondary" secondary: SecondaryBody,
        /// Labels.
        Optional "tags" tags: Tags,
    }
    nested { primary, secondary }
}

body! {
    /// First factors.
    pub struct PrimaryBody {
        /// Certificates.
        Both "cert" cert: PrimaryCertBody,
        /// JWTs of external signers.
        Both "extJwt" ext_jwt: PrimaryExtJwtBody,
        /// Passwords.
        Both "updb" updb: PrimaryUpdbBody,
    }
    nested { cert, ext_jwt, updb }
}

body! {
    /// Login by certificate.
    pub struct PrimaryCertBody {
        /// Even with an expired one.
        Both "allowExpiredCerts" allow_expired_certs: bool,
        /// Whether it is allowed.
        Both "allowed" allowed: bool,
    }
}

body! {
    /// Login by JWT.
    pub struct PrimaryExtJwtBody {
        /// Whether it is allowed.
        Both "allowed" allowed: bool,
        /// Of which signers; empty is all.
        Both "allowedSigners" allowed_signers: Vec<String> => "external-jwt-signers",
    }
}

/// A number that is stored as one without sign; less than nothing is nothing.
const COUNT: FieldType = FieldType::Integer { min: i64::MIN, max: u32::MAX as i64 };

body! {
    /// Login by password.
    pub struct PrimaryUpdbBody {
        /// Whether it is allowed.
        Both "allowed" allowed: bool,
        /// Minutes that too many wrong ones lock the identity; 0 is until it is enabled.
        Both "lockoutDurationMinutes" lockout_duration_minutes: i64 as COUNT,
        /// How many are too many; 0 is never.
        Both "maxAttempts" max_attempts: i64 as COUNT,
        /// Least characters; fewer than 5 are 5.
        Both "minPasswordLength" min_password_length: i64 as COUNT,
        /// Both cases.
        Both "requireMixedCase" require_mixed_case: bool,
        /// A digit.
        Both "requireNumberChar" require_number_char: bool,
        /// Something else.
        Both "requireSpecialChar" require_special_char: bool,
    }
}

body! {
    /// What must come with the first factor.
    pub struct SecondaryBody {
        /// A JWT of this signer; empty is none.
        Optional "requireExtJwtSigner" require_ext_jwt_signer: String => "external-jwt-signers",
        /// A TOTP code.
        Both "requireTotp" require_totp: bool,
    }
}

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
