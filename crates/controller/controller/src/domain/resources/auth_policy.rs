//! Authentication policies (docs/protocol/auth.md 8; docs/protocol/management-api.md 7.7). Every
//! network has the default policy, which can be changed but not deleted.

use weft_contract::resource::auth_policy as contract;
use weft_contract::resource::auth_policy::{
    AuthPolicyBody, AuthPolicyDetail, Primary, PrimaryBody, PrimaryCert, PrimaryCertBody,
    PrimaryExtJwt, PrimaryExtJwtBody, PrimaryUpdb, PrimaryUpdbBody, Secondary, SecondaryBody,
};
use weft_contract::{ErrorCode, Kind as ContractKind, Verb};
use weft_kernel::decision::Decision;
use weft_kernel::{Failure, Result};
use weft_model::entity::{
    AuthPolicy, CertRules, ExtJwtRules, ExtJwtSigner, OfKind as _, SecondaryRules, UpdbRules,
};

use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{Readable, Resource};
use crate::domain::values::{Show, Take as _};

/// The resource.
pub(crate) struct AuthPolicies;

const SIGNERS: &str = "primary.extJwt.allowedSigners";
const SECOND_SIGNER: &str = "secondary.requireExtJwtSigner";

fields! {
    AuthPolicies of AuthPolicy, set by AuthPolicyBody, shown as AuthPolicyDetail,
    searched as "auth-policies";

    tags;
    name { set, shown, searched }
    search "primary.cert.allowed" in cert.allowed;
    search "primary.cert.allowExpiredCerts" in cert.allow_expired_certs;
    search "primary.updb.allowed" in updb.allowed;
    search "primary.updb.minPasswordLength" in updb.min_password_length;
    search "primary.updb.requireSpecialChar" in updb.require_special_char;
    search "primary.updb.requireNumberChar" in updb.require_number_char;
    search "primary.updb.requireMixedCase" in updb.require_mixed_case;
    search "primary.updb.maxAttempts" in updb.max_attempts;
    search "primary.updb.lockoutDurationMinutes" in updb.lockout_duration_minutes;
    search "primary.extJwt.allowed" in ext_jwt.allowed;
    search "primary.extJwt.allowedSigners" in ext_jwt.allowed_signers;
    search "secondary.requireTotp" in secondary.require_totp;
    search "secondary.requireExtJwtSigner" in secondary.require_ext_jwt_signer;
    cert { merged }
    updb { merged }
    ext_jwt { merged }
    secondary { merged, shown }
    read primary, secondary;
    show primary by |_, it| Primary {
        cert: it.cert.show(),
        ext_jwt: it.ext_jwt.show(),
        updb: it.updb.show(),
    };
}

impl Show<PrimaryCert> for CertRules {
    fn show(&self) -> PrimaryCert {
        let Self { allowed, allow_expired_certs } = self;
        PrimaryCert { allow_expired_certs: *allow_expired_certs, allowed: *allowed }
    }
}

impl Show<PrimaryExtJwt> for ExtJwtRules {
    fn show(&self) -> PrimaryExtJwt {
        let Self { allowed, allowed_signers } = self;
        PrimaryExtJwt { allowed: *allowed, allowed_signers: allowed_signers.show() }
    }
}

impl Show<PrimaryUpdb> for UpdbRules {
    fn show(&self) -> PrimaryUpdb {
        let Self {
            allowed,
            min_password_length,
            require_special_char,
            require_number_char,
            require_mixed_case,
            max_attempts,
            lockout_duration_minutes,
        } = self;
        PrimaryUpdb {
            allowed: *allowed,
            lockout_duration_minutes: lockout_duration_minutes.show(),
            max_attempts: max_attempts.show(),
            min_password_length: min_password_length.show(),
            require_mixed_case: *require_mixed_case,
            require_number_char: *require_number_char,
            require_special_char: *require_special_char,
        }
    }
}

impl Show<Secondary> for SecondaryRules {
    fn show(&self) -> Secondary {
        let Self { require_totp, require_ext_jwt_signer } = self;
        Secondary {
            require_ext_jwt_signer: require_ext_jwt_signer.show(),
            require_totp: *require_totp,
        }
    }
}

impl Readable for AuthPolicies {
    const KIND: &'static ContractKind = &contract::KIND;
}

impl Resource for AuthPolicies {
    const SYSTEM_IS_FIXED: bool = false;

    type Prepared = ();

    fn merge(
        record: &mut AuthPolicy,
        body: &AuthPolicyBody,
        _prepared: &(),
        verb: Verb,
    ) -> Result<()> {
        Self::set(record, body, verb)?;
        if let Some(primary) = &body.primary {
            set_primary(record, primary)?;
        }
        if let Some(secondary) = &body.secondary {
            set_secondary(&mut record.secondary, secondary)?;
        }
        let least = AuthPolicy::MIN_PASSWORD_LENGTH;
        record.updb.min_password_length = record.updb.min_password_length.max(least);
        Ok(())
    }

    fn validate(
        decision: &mut Decision<'_>,
        _before: Option<&AuthPolicy>,
        after: &mut AuthPolicy,
        _prepared: &(),
    ) -> Result<()> {
        for signer in &after.ext_jwt.allowed_signers {
            decision.require::<ExtJwtSigner>(SIGNERS, signer)?;
        }
        if let Some(signer) = &after.secondary.require_ext_jwt_signer {
            decision.require::<ExtJwtSigner>(SECOND_SIGNER, signer)?;
        }
        Ok(())
    }

    fn on_delete(decision: &mut Decision<'_>, record: &AuthPolicy) -> Result<()> {
        if !record.base.is_system {
            return Ok(());
        }
        // The refusal for a policy in use names its identities, which helps more than "the default
        // cannot be deleted": it comes first.
        decision.delete(AuthPolicy::KIND, &record.base.id)?;
        Err(ErrorCode::EntityCanNotBeDeleted.into())
    }
}

fn set_primary(record: &mut AuthPolicy, body: &PrimaryBody) -> Result<()> {
    let PrimaryBody { cert, ext_jwt, updb } = body;
    if let Some(PrimaryCertBody { allowed, allow_expired_certs }) = cert {
        set(&mut record.cert.allowed, *allowed);
        set(&mut record.cert.allow_expired_certs, *allow_expired_certs);
    }
    if let Some(PrimaryExtJwtBody { allowed, allowed_signers }) = ext_jwt {
        set(&mut record.ext_jwt.allowed, *allowed);
        if let Some(signers) = allowed_signers {
            record.ext_jwt.allowed_signers = signers.take(SIGNERS)?;
        }
    }
    if let Some(updb) = updb {
        set_updb(&mut record.updb, updb)?;
    }
    Ok(())
}

fn set_updb(rules: &mut UpdbRules, body: &PrimaryUpdbBody) -> Result<()> {
    let PrimaryUpdbBody {
        allowed,
        lockout_duration_minutes,
        max_attempts,
        min_password_length,
        require_mixed_case,
        require_number_char,
        require_special_char,
    } = body;
    set(&mut rules.allowed, *allowed);
    set(&mut rules.require_mixed_case, *require_mixed_case);
    set(&mut rules.require_number_char, *require_number_char);
    set(&mut rules.require_special_char, *require_special_char);
    let minutes = count("lockoutDurationMinutes", *lockout_duration_minutes)?;
    set(&mut rules.lockout_duration_minutes, minutes);
    set(&mut rules.max_attempts, count("maxAttempts", *max_attempts)?);
    set(&mut rules.min_password_length, count("minPasswordLength", *min_password_length)?);
    Ok(())
}

/// A count from a body; negative numbers count as 0.
fn count(name: &str, given: Option<i64>) -> Result<Option<u32>> {
    let Some(given) = given else { return Ok(None) };
    u32::try_from(given.max(0)).map(Some).map_err(|_| {
        let reason = format!("must be at most {}", u32::MAX);
        Failure::field(&format!("primary.updb.{name}"), reason, given.to_string())
    })
}

fn set_secondary(rules: &mut SecondaryRules, body: &SecondaryBody) -> Result<()> {
    let SecondaryBody { require_ext_jwt_signer, require_totp } = body;
    set(&mut rules.require_totp, *require_totp);
    if let Some(signer) = require_ext_jwt_signer {
        rules.require_ext_jwt_signer = signer.take(SECOND_SIGNER)?;
    }
    Ok(())
}

fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}
