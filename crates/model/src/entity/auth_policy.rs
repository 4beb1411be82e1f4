//! Authentication policies: which methods an identity may log in with, and what else it needs.

use std::sync::Arc;

use super::{Base, Link, OnDelete, Record, named, record};
use crate::{Id, Kind, Timestamp, row::row};

row! {
    /// Login by certificate.
    pub struct CertRules {
        /// Whether it is allowed.
        1 => pub allowed: bool,
        /// Whether the certificate may have expired.
        2 => pub allow_expired_certs: bool,
    }
}

row! {
    /// Login by user name and password.
    pub struct UpdbRules {
        /// Whether it is allowed.
        1 => pub allowed: bool,
        /// Shortest password, at least 5.
        2 => pub min_password_length: u32,
        /// Whether a password needs a special character.
        3 => pub require_special_char: bool,
        /// Whether a password needs a digit.
        4 => pub require_number_char: bool,
        /// Whether a password needs upper and lower case.
        5 => pub require_mixed_case: bool,
        /// After how many wrong passwords the identity is disabled; 0 means never.
        6 => pub max_attempts: u32,
        /// For how long; 0 means until it is enabled again.
        7 => pub lockout_duration_minutes: u32,
    }
}

row! {
    /// Login by a token of another issuer.
    pub struct ExtJwtRules {
        /// Whether it is allowed.
        1 => pub allowed: bool,
        /// By which signers; none means all.
        2 => pub allowed_signers: Vec<Id>,
    }
}

row! {
    /// What is needed besides the login.
    pub struct SecondaryRules {
        /// Whether a one-time code is needed.
        1 => pub require_totp: bool,
        /// The signer whose token is needed.
        2 => pub require_ext_jwt_signer: Option<Id>,
    }
}

row! {
    /// An authentication policy (protocol: auth 8).
    pub struct AuthPolicy {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// Login by certificate.
        3 => pub cert: CertRules,
        /// Login by password.
        4 => pub updb: UpdbRules,
        /// Login by token.
        5 => pub ext_jwt: ExtJwtRules,
        /// What else is needed.
        6 => pub secondary: SecondaryRules,
    }
}

impl AuthPolicy {
    /// The id of the policy that every network has.
    pub const DEFAULT_ID: &'static str = "default";
    /// The shortest `min_password_length`.
    pub const MIN_PASSWORD_LENGTH: u32 = 5;

    /// The policy that every network has (protocol: auth 8.2).
    pub fn default_policy(now: Timestamp) -> Self {
        Self {
            base: Base { is_system: true, ..Base::new(Id::new(Self::DEFAULT_ID), now) },
            name: "Default".into(),
            cert: CertRules { allowed: true, allow_expired_certs: true },
            updb: UpdbRules {
                allowed: true,
                min_password_length: Self::MIN_PASSWORD_LENGTH,
                ..UpdbRules::default()
            },
            ext_jwt: ExtJwtRules { allowed: true, allowed_signers: Vec::new() },
            secondary: SecondaryRules::default(),
        }
    }
}

impl Record for AuthPolicy {
    record!(AuthPolicy);
    named!();

    const LINKS: &'static [Link] = &[
        Link::new("primary.extJwt.allowedSigners", Kind::ExtJwtSigner, OnDelete::Refuse),
        Link::new("secondary.requireExtJwtSigner", Kind::ExtJwtSigner, OnDelete::Refuse),
    ];

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        self.ext_jwt.allowed_signers.iter().for_each(|id| each(0, id));
        if let Some(id) = &self.secondary.require_ext_jwt_signer {
            each(1, id);
        }
    }
}
