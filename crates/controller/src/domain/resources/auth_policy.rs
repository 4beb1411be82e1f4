//! Authentication policies (protocol: auth 8). They can be read; the default one is seeded.

use weft_contract::Kind as ContractKind;
use weft_contract::resource::auth_policy::{
    self as contract, AuthPolicyDetail, Primary, PrimaryCert, PrimaryExtJwt, PrimaryUpdb, Secondary,
};
use weft_model::Id;
use weft_model::entity::AuthPolicy;
use weft_model::filter::{Table, Type, Value};

use crate::domain::convert;
use crate::domain::resource::{Readable, detail_base};
use crate::domain::symbols::{maybe, symbols};
use crate::domain::view::Context;

/// The resource.
pub(crate) struct AuthPolicies;

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
    Column::one("primary.updb.maxAttempts", Type::Int, |_, it| {
        Value::Int(it.updb.max_attempts.into())
    })
    .public(),
    Column::one("primary.extJwt.allowed", Type::Bool, |_, it| Value::Bool(it.ext_jwt.allowed))
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
