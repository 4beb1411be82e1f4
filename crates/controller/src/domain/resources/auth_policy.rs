//! Authentication policies (docs/protocol/auth.md 8; docs/protocol/management-api.md 7.7). The
//! default one is seeded; it can be changed, and is never deleted.

use weft_contract::resource::auth_policy as contract;
use weft_contract::resource::auth_policy::{
    AuthPolicyBody, AuthPolicyDetail, Primary, PrimaryBody, PrimaryCert, PrimaryExtJwt,
    PrimaryUpdb, PrimaryUpdbBody, Secondary, SecondaryBody,
};
use weft_contract::{ErrorCode, Kind as ContractKind, Verb};
use weft_kernel::decision::Decision;
use weft_kernel::{Failure, convert};
use weft_model::Id;
use weft_model::entity::{AuthPolicy, ExtJwtSigner, Record, SecondaryRules, UpdbRules};
use weft_model::filter::{Table, Type, Value};

use crate::domain::context::Context;
use crate::domain::resource::{Readable, Resource, detail_base, nothing_prepared};
use crate::domain::symbols::{each, maybe, symbols};

/// The resource.
pub(crate) struct AuthPolicies;

const SIGNERS: &str = "primary.extJwt.allowedSigners";
const SECOND_SIGNER: &str = "secondary.requireExtJwtSigner";

static SYMBOLS: Table<Context, AuthPolicy> = symbols!("auth-policies", AuthPolicy {
    Column::one("name", Type::String, |_, it| Value::text(&it.name)).public(),
    Column::one("primary.cert.allowed", Type::Bool, |_, it| Value::Bool(it.cert.allowed)).public(),
    Column::one("primary.cert.allowExpiredCerts", Type::Bool, |_, it| {
        Value::Bool(it.cert.allow_expired_certs)
    })
    .public(),
    Column::one("primary.updb.allowed", Type::Bool, |_, it| Value::Bool(it.updb.allowed)).public(),
    Column::one("primary.updb.minPasswordLength", Type::Int, |_, it| {
        Value::Int(it.updb.min_password_length.into())
    })
    .public(),
    Column::one("primary.updb.requireSpecialChar", Type::Bool, |_, it| {
        Value::Bool(it.updb.require_special_char)
    })
    .public(),
    Column::one("primary.updb.requireNumberChar", Type::Bool, |_, it| {
        Value::Bool(it.updb.require_number_char)
    })
    .public(),
    Column::one("primary.updb.requireMixedCase", Type::Bool, |_, it| {
        Value::Bool(it.updb.require_mixed_case)
    })
    .public(),
    Column::one("primary.updb.maxAttempts", Type::Int, |_, it| {
        Value::Int(it.updb.max_attempts.into())
    })
    .public(),
    Column::one("primary.updb.lockoutDurationMinutes", Type::Int, |_, it| {
        Value::Int(it.updb.lockout_duration_minutes.into())
    })
    .public(),
    Column::one("primary.extJwt.allowed", Type::Bool, |_, it| Value::Bool(it.ext_jwt.allowed))
        .public(),
    Column::set("primary.extJwt.allowedSigners", Type::String, |_, it, visit| {
        each(&it.ext_jwt.allowed_signers, visit)
    })
    .public(),
    Column::one("secondary.requireTotp", Type::Bool, |_, it| {
        Value::Bool(it.secondary.require_totp)
    })
    .public(),
    Column::one("secondary.requireExtJwtSigner", Type::String, |_, it| {
        maybe(&it.secondary.require_ext_jwt_signer)
    })
    .public(),
});

impl Readable for AuthPolicies {
    type Record = AuthPolicy;
    type Detail = AuthPolicyDetail;

    const KIND: &'static ContractKind = &contract::KIND;
    const SYMBOLS: &'static Table<Context, AuthPolicy> = &SYMBOLS;

    fn detail(_context: &Context, record: &AuthPolicy) -> AuthPolicyDetail {
        AuthPolicyDetail {
            base: detail_base::<Self>(&record.base),
            name: record.name.to_string(),
            primary: Primary {
                cert: PrimaryCert {
                    allow_expired_certs: record.cert.allow_expired_certs,
                    allowed: record.cert.allowed,
                },
                ext_jwt: PrimaryExtJwt {
                    allowed: record.ext_jwt.allowed,
                    allowed_signers: convert::ids(&record.ext_jwt.allowed_signers),
                },
                updb: PrimaryUpdb {
                    allowed: record.updb.allowed,
                    lockout_duration_minutes: record.updb.lockout_duration_minutes.into(),
                    max_attempts: record.updb.max_attempts.into(),
                    min_password_length: record.updb.min_password_length.into(),
                    require_mixed_case: record.updb.require_mixed_case,
                    require_number_char: record.updb.require_number_char,
                    require_special_char: record.updb.require_special_char,
                },
            },
            secondary: Secondary {
                require_ext_jwt_signer: record
                    .secondary
                    .require_ext_jwt_signer
                    .as_ref()
                    .map(Id::to_string),
                require_totp: record.secondary.require_totp,
            },
        }
    }
}

impl Resource for AuthPolicies {
    type Body = AuthPolicyBody;
    const SYSTEM_IS_FIXED: bool = false;

    nothing_prepared!();

    fn keep(current: &AuthPolicy, fresh: &mut AuthPolicy) {
        fresh.base.is_system = current.base.is_system;
    }

    fn merge(
        record: &mut AuthPolicy,
        body: &AuthPolicyBody,
        _prepared: &(),
        _verb: Verb,
    ) -> Result<(), Failure> {
        if let Some(name) = &body.name {
            record.name = name.as_str().into();
        }
        if let Some(primary) = &body.primary {
            set_primary(record, primary)?;
        }
        if let Some(secondary) = &body.secondary {
            set_secondary(&mut record.secondary, secondary)?;
        }
        if let Some(tags) = &body.tags {
            record.base.tags = convert::from_tags(tags);
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
    ) -> Result<(), Failure> {
        for signer in &after.ext_jwt.allowed_signers {
            decision.require::<ExtJwtSigner>(SIGNERS, signer)?;
        }
        if let Some(signer) = &after.secondary.require_ext_jwt_signer {
            decision.require::<ExtJwtSigner>(SECOND_SIGNER, signer)?;
        }
        Ok(())
    }

    fn on_delete(decision: &mut Decision<'_>, record: &AuthPolicy) -> Result<(), Failure> {
        if !record.base.is_system {
            return Ok(());
        }
        // Who uses it is the better answer, if somebody does.
        decision.delete(AuthPolicy::KIND, &record.base.id)?;
        Err(ErrorCode::EntityCanNotBeDeleted.into())
    }
}

fn set_primary(record: &mut AuthPolicy, body: &PrimaryBody) -> Result<(), Failure> {
    if let Some(cert) = &body.cert {
        set(&mut record.cert.allowed, cert.allowed);
        set(&mut record.cert.allow_expired_certs, cert.allow_expired_certs);
    }
    if let Some(ext_jwt) = &body.ext_jwt {
        set(&mut record.ext_jwt.allowed, ext_jwt.allowed);
        if let Some(signers) = &ext_jwt.allowed_signers {
            record.ext_jwt.allowed_signers = convert::id_set(SIGNERS, signers)?;
        }
    }
    if let Some(updb) = &body.updb {
        set_updb(&mut record.updb, updb)?;
    }
    Ok(())
}

fn set_updb(rules: &mut UpdbRules, body: &PrimaryUpdbBody) -> Result<(), Failure> {
    set(&mut rules.allowed, body.allowed);
    set(&mut rules.require_mixed_case, body.require_mixed_case);
    set(&mut rules.require_number_char, body.require_number_char);
    set(&mut rules.require_special_char, body.require_special_char);
    let numbers = [
        ("lockoutDurationMinutes", body.lockout_duration_minutes),
        ("maxAttempts", body.max_attempts),
        ("minPasswordLength", body.min_password_length),
    ];
    for (name, given) in numbers {
        let Some(given) = given else { continue };
        // Less than nothing is nothing.
        let number = u32::try_from(given.max(0)).map_err(|_| {
            let reason = format!("must be at most {}", u32::MAX);
            Failure::field(&format!("primary.updb.{name}"), reason, given.to_string())
        })?;
        match name {
            "lockoutDurationMinutes" => rules.lockout_duration_minutes = number,
            "maxAttempts" => rules.max_attempts = number,
            _ => rules.min_password_length = number,
        }
    }
    Ok(())
}

fn set_secondary(rules: &mut SecondaryRules, body: &SecondaryBody) -> Result<(), Failure> {
    set(&mut rules.require_totp, body.require_totp);
    match body.require_ext_jwt_signer.as_deref().map(str::trim) {
        Some("") => rules.require_ext_jwt_signer = None,
        Some(id) => rules.require_ext_jwt_signer = Some(convert::id_field(SECOND_SIGNER, id)?),
        None => {}
    }
    Ok(())
}

fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}
