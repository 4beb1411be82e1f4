//! Revocations made by an administrator (docs/protocol/auth.md 16; docs/protocol/management-api.md
//! 7.8). The id names the revoked thing: a token, an API session or an identity. A second
//! revocation of the same id extends the first one in time and scope.

use std::time::Duration;

use weft_contract::resource::revocation as contract;
use weft_contract::resource::revocation::{
    RevocationBody, RevocationDetail, RevocationType as TypeWord,
};
use weft_contract::{Kind as ContractKind, Verb};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Result, convert};
use weft_model::Id;
use weft_model::entity::{Identity, Revocation, RevocationType};

use crate::Controller;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{Readable, Resource};
use crate::domain::resources::identity_state::extend;
use crate::domain::values::word;

/// The resource.
pub(crate) struct Revocations;

fields! {
    Revocations of Revocation, set by RevocationBody, shown as RevocationDetail,
    searched as "revocations";

    tags;
    expires_at { merged, shown, searched }
    revocation_type { merged, shown as r#type by word, searched as "type" }
    issued_before { merged, searched }
    sessions { kept }
    read id, revocation_type;
}

impl Readable for Revocations {
    const KIND: &'static ContractKind = &contract::KIND;
}

impl Resource for Revocations {
    /// The longest life of a token.
    type Prepared = Duration;

    const CREATE_RENEWS: bool = true;

    fn chosen_id(body: &RevocationBody) -> Option<Result<Id>> {
        Some(id_of(body))
    }

    async fn prepare(
        controller: &Controller,
        _caller: &Caller,
        _body: &RevocationBody,
        _verb: Verb,
        _id: &Id,
    ) -> Result<Duration> {
        Ok(controller.kernel().settings().durations.longest_token)
    }

    fn merge(
        record: &mut Revocation,
        body: &RevocationBody,
        longest: &Duration,
        verb: Verb,
    ) -> Result<()> {
        record.revocation_type = convert::choice(body.revocation_type.unwrap_or_default());
        let now = record.base.updated_at;
        record.expires_at = now.plus(*longest);
        record.issued_before = (record.revocation_type == RevocationType::Identity).then_some(now);
        Self::set(record, body, verb)
    }

    fn validate(
        decision: &mut Decision<'_>,
        _before: Option<&Revocation>,
        after: &mut Revocation,
        _longest: &Duration,
    ) -> Result<()> {
        let id = &after.base.id;
        let taken = decision.tip().get::<Revocation>(id);
        if taken.is_some_and(|taken| taken.revocation_type != after.revocation_type) {
            return Err(Failure::field("id", "id must be unique", id.as_str()));
        }
        let is_of_identity = after.revocation_type == RevocationType::Identity;
        if is_of_identity && decision.tip().get::<Identity>(id).is_none() {
            return Err(Failure::not_found("identity", id.as_str()));
        }
        if is_of_identity {
            after.issued_before = Some(decision.latest_issue());
        }
        if let Some(taken) = taken {
            extend(after, taken);
        }
        Ok(())
    }
}

/// The id of a revocation: a UUID, or the id of an identity.
fn id_of(body: &RevocationBody) -> Result<Id> {
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
