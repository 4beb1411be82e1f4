//! Revocations made by an administrator
//! (docs/protocol/auth.md 16; docs/protocol/management-api.md 7.8). The id is what is revoked; a
//! second one makes the first last longer and cover more.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use weft_contract::resource::revocation as contract;
use weft_contract::resource::revocation::{
    RevocationBody, RevocationDetail, RevocationType as TypeWord,
};
use weft_contract::{Kind as ContractKind, Verb};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, convert};
use weft_model::Id;
use weft_model::entity::{Identity, Revocation, RevocationType};
use weft_model::filter::{Table, Type, Value};

use crate::Controller;
use crate::domain::context::Context;
use crate::domain::resource::{Readable, Resource, detail_base};
use crate::domain::symbols::{at, symbols};

/// The resource.
pub(crate) struct Revocations;

static SYMBOLS: Table<Context, Revocation> = symbols!("revocations", Revocation {
    Column::one("expiresAt", Type::Time, |_, it| at(it.expires_at)).public(),
    Column::one("type", Type::String, |_, it| Value::text(it.revocation_type.as_str())).public(),
    Column::one("issuedBefore", Type::Time, |_, it| it.issued_before.map_or(Value::Null, at))
        .public(),
});

impl Readable for Revocations {
    type Record = Revocation;
    type Detail = RevocationDetail;

    const KIND: &'static ContractKind = &contract::KIND;
    const SYMBOLS: &'static Table<Context, Revocation> = &SYMBOLS;

    fn detail(_context: &Context, record: &Revocation) -> RevocationDetail {
        RevocationDetail {
            base: detail_base::<Self>(&record.base),
            expires_at: convert::time(record.expires_at),
            r#type: TypeWord::parse(record.revocation_type.as_str()).unwrap_or_default(),
        }
    }
}

impl Resource for Revocations {
    type Body = RevocationBody;
    /// How long any token lives.
    type Prepared = Duration;

    const CREATE_RENEWS: bool = true;

    fn chosen_id(body: &RevocationBody) -> Option<Result<Id, Failure>> {
        Some(id_of(body))
    }

    fn prepare<'a>(
        controller: &'a Controller,
        _caller: &'a Caller,
        _body: &'a RevocationBody,
        _verb: Verb,
        _id: &'a Id,
    ) -> BoxFuture<'a, Result<Duration, Failure>> {
        let longest = controller.settings().durations.longest_token;
        async move { Ok(longest) }.boxed()
    }

    fn merge(
        record: &mut Revocation,
        body: &RevocationBody,
        longest: &Duration,
        _verb: Verb,
    ) -> Result<(), Failure> {
        let word = body.revocation_type.unwrap_or_default();
        record.revocation_type = RevocationType::parse(word.as_str()).unwrap_or_default();
        let now = record.base.updated_at;
        record.expires_at = now.plus(*longest);
        record.issued_before = (record.revocation_type == RevocationType::Identity).then_some(now);
        if let Some(tags) = &body.tags {
            record.base.tags = convert::from_tags(tags);
        }
        Ok(())
    }

    fn validate(
        decision: &mut Decision<'_>,
        _before: Option<&Revocation>,
        after: &mut Revocation,
        _longest: &Duration,
    ) -> Result<(), Failure> {
        let id = &after.base.id;
        let taken = decision.tip().get::<Revocation>(id);
        if taken.is_some_and(|taken| taken.revocation_type != after.revocation_type) {
            return Err(Failure::field("id", "id must be unique", id.as_str()));
        }
        let is_of_identity = after.revocation_type == RevocationType::Identity;
        if is_of_identity && decision.tip().get::<Identity>(id).is_none() {
            return Err(Failure::not_found("identity", id.as_str()));
        }
        Ok(())
    }
}

/// What is revoked: a UUID, or an identity.
fn id_of(body: &RevocationBody) -> Result<Id, Failure> {
    let text = body.id.as_deref().unwrap_or_default();
    if text.trim().is_empty() {
        return Err(Failure::field("id", "id is required", text));
    }
    let is_token = body.revocation_type.unwrap_or_default() != TypeWord::Identity;
    if is_token && uuid::Uuid::try_parse(text).is_err() {
        return Err(Failure::field("id", "must be a UUID for this type", text));
    }
    convert::id_field("id", text)
}
