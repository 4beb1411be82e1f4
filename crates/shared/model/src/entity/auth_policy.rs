//! Auth policies: the login methods and second factors of identities.

use std::sync::Arc;

use super::{Base, Link, OnDelete, Record};
use crate::row::row;
use crate::{Id, Kind, Timestamp};

row! {
    /// Login by certificate.
    pub struct CertRules {
        /// True if this login is allowed.
        1 => pub allowed: bool,
        /// True if an expired certificate is accepted.
        2 => pub allow_expired_certs: bool,
    }
}

row! {
    /// Login by user name and password.
    pub struct UpdbRules {
        /// True if this login is allowed.
        1 => pub allowed: bool,
        /// Fewest characters of a password; at least [`AuthPolicy::MIN_PASSWORD_LENGTH`].
        2 => pub min_password_length: u32,
        /// True if a password needs a character that is neither letter nor digit.
        3 => pub require_special_char: bool,
        /// True if a password needs a digit.
        4 => pub require_number_char: bool,
        /// True if a password needs upper and lower case.
        5 => pub require_mixed_case: bool,
        /// Number of wrong passwords in a row that lock the password; 0: never.
        6 => pub max_attempts: u32,
        /// Minutes for which the password is locked; 0: until the identity is enabled.
        7 => pub lockout_duration_minutes: u32,
    }
}

row! {
    /// Login by a token of an external signer.
    pub struct ExtJwtRules {
        /// True if this login is allowed.
        1 => pub allowed: bool,
        /// Signers whose tokens are accepted; empty: all.
        2 => pub allowed_signers: Vec<Id>,
    }
}

row! {
    /// Second factors.
    pub struct SecondaryRules {
        /// True if a one-time code is required.
        1 => pub require_totp: bool,
        /// Signer whose token is required besides the login.
        2 => pub require_ext_jwt_signer: Option<Id>,
    }
}

row! {
    /// An auth policy (docs/protocol/auth.md 8).
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
        /// Second factors.
        6 => pub secondary: SecondaryRules,
    }
}

impl AuthPolicy {
    /// Id of the policy that every network has.
    pub const DEFAULT_ID: &'static str = "default";
    /// Smallest `min_password_length`.
    pub const MIN_PASSWORD_LENGTH: u32 = 5;

    /// The policy that every network has (docs/protocol/auth.md 8.2).
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
    const LINKS: &'static [Link] = &[
        Link::new("primary.extJwt.allowedSigners", Kind::ExtJwtSigner, OnDelete::Refuse),
        Link::new("secondary.requireExtJwtSigner", Kind::ExtJwtSigner, OnDelete::Refuse),
    ];

    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        self.ext_jwt.allowed_signers.iter().for_each(|id| each(0, id));
        if let Some(id) = &self.secondary.require_ext_jwt_signer {
            each(1, id);
        }
    }
}
