//! Reads auth policies: which logins and second factors an identity may use or needs.

use weft_model::Entity;
use weft_model::entity::{AuthPolicy, CertRules, ExtJwtRules, SecondaryRules, UpdbRules};

use crate::fields::{Fields, Taken};
use crate::layout::Layout;

/// Reads an auth policy.
pub(crate) fn auth_policy(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let name = fields.name()?;
    let policy = AuthPolicy {
        base: fields.base()?,
        name,
        cert: CertRules {
            allowed: fields.flag("primary.cert.allowed", true),
            allow_expired_certs: fields.flag("primary.cert.allowExpiredCerts", true),
        },
        updb: password_rules(fields),
        ext_jwt: ExtJwtRules {
            allowed: fields.flag("primary.extJwt.allowed", true),
            allowed_signers: fields.ids("primary.extJwt.allowedSigners")?,
        },
        secondary: SecondaryRules {
            require_totp: fields.flag("secondary.requireTotp", false),
            require_ext_jwt_signer: fields.id("secondary.requireExtJwtSigner"),
        },
    };
    Ok(policy.into())
}

fn password_rules(fields: &mut Fields<'_, '_>) -> UpdbRules {
    let least = i64::from(AuthPolicy::MIN_PASSWORD_LENGTH);
    let mut number = |field, default| {
        let number = fields.number_within(field, default, i64::from(u32::MAX));
        u32::try_from(number).unwrap_or_default()
    };
    let min_password_length = number("primary.updb.minPasswordLength", least);
    let max_attempts = number("primary.updb.maxAttempts", 5);
    let lockout_duration_minutes = number("primary.updb.lockoutDurationMinutes", 0);
    UpdbRules {
        allowed: fields.flag("primary.updb.allowed", true),
        min_password_length: min_password_length.max(AuthPolicy::MIN_PASSWORD_LENGTH),
        require_special_char: fields.flag("primary.updb.requireSpecialChar", false),
        require_number_char: fields.flag("primary.updb.requireNumberChar", false),
        require_mixed_case: fields.flag("primary.updb.requireMixedCase", false),
        max_attempts,
        lockout_duration_minutes,
    }
}
