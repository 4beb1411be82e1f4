//! The traits by which a kind of entity becomes a resource, and the generic operations made of
//! them. A new resource is one file with the table of its members ([`super::fields`]) and its
//! [`Resource`], and one line in `domain::operations`.
//!
//! An operation has two halves. *Prepare* runs on the caller's task and does the slow and random
//! work. *Decide* ([`Resource::merge`], [`Resource::validate`], [`Resource::on_delete`]) is pure
//! and repeatable: the writer runs it on the tip, perhaps more than once.

use std::sync::Arc;

use weft_contract::{ErrorCode, Kind as ContractKind, Verb};
use weft_kernel::call::{HandlerRow, OperationHandler};
use weft_kernel::decision::Decision;
use weft_kernel::view::View;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};
use weft_model::Id;
use weft_model::entity::{Base, OfKind as _};

use super::collection;
use super::context::Context;
use super::fields::Fields;
use crate::Controller;

/// Which records of its kind the lists of a resource show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedRecords {
    /// All of them.
    All,
    /// The records that policies can select.
    Eligible,
    /// The records that [`Readable::belongs`] and [`Readable::is_visible`] accept: a list has to
    /// look at each record.
    Some,
}

/// A kind of entity as the APIs show it.
pub trait Readable: Fields {
    /// The contract of the kind: its operations, names and links.
    const KIND: &'static ContractKind;

    /// Whether an entity of the model's kind belongs to this resource at all.
    fn belongs(_record: &Self::Record) -> bool {
        true
    }

    /// Whether this caller sees the record. Lists leave out invisible records, and reads refuse
    /// them.
    fn is_visible(_caller: &Caller, _view: View<'_>, _record: &Self::Record) -> bool {
        true
    }

    /// Which records lists show to this caller, if that is known without a look at each record.
    fn shown(_caller: &Caller) -> ListedRecords {
        ListedRecords::Some
    }

    /// The detail of a record, as the API shows it.
    fn detail(context: &Context, record: &Self::Record) -> Self::Detail {
        Self::show(context, record)
    }
}

/// A kind of entity that the API can create, change and delete.
pub trait Resource: Readable {
    /// The result of prepare; `()` if the kind has no slow or random work.
    type Prepared: Default + Send + Sync + 'static;

    /// Whether the API refuses to change entities of the system.
    const SYSTEM_IS_FIXED: bool = true;
    /// Whether a create with the id of an existing entity extends the life of that entity.
    const CREATE_RENEWS: bool = false;

    /// The id that the body of a create chooses; none for kinds whose ids the controller generates.
    fn chosen_id(_body: &Self::Body) -> Option<Result<Id>> {
        None
    }

    /// Does the slow and random work of create, replace and patch.
    fn prepare(
        _controller: &Controller,
        _caller: &Caller,
        _body: &Self::Body,
        _verb: Verb,
        _id: &Id,
    ) -> impl Future<Output = Result<Self::Prepared>> + Send {
        std::future::ready(Ok(Self::Prepared::default()))
    }

    /// Checks whether the caller may change this entity, beyond the permission that the gate asks
    /// for.
    fn guard(_decision: &Decision<'_>, _current: &Self::Record) -> Result<()> {
        Ok(())
    }

    /// Puts the members of the body and the prepared values into the record.
    fn merge(
        record: &mut Self::Record,
        body: &Self::Body,
        _prepared: &Self::Prepared,
        verb: Verb,
    ) -> Result<()> {
        Self::set(record, body, verb)
    }

    /// Checks the merged record, and adds changes of dependent entities to the decision.
    fn validate(
        _decision: &mut Decision<'_>,
        _before: Option<&Self::Record>,
        _after: &mut Self::Record,
        _prepared: &Self::Prepared,
    ) -> Result<()> {
        Ok(())
    }

    /// Refuses a delete, or adds deletes of dependent entities to the decision. The rules of
    /// references to the record apply in any case.
    fn on_delete(_decision: &mut Decision<'_>, _record: &Self::Record) -> Result<()> {
        Ok(())
    }
}

/// The record with this id, if it belongs to the resource.
pub(crate) fn find<'v, R: Readable>(view: View<'v>, id: &str) -> Option<&'v Arc<R::Record>> {
    view.get::<R::Record>(id).filter(|record| R::belongs(record))
}

/// The record whose id a path has; fails if there is none.
pub(crate) fn require<'v, R: Readable>(view: View<'v>, id: &str) -> Result<&'v Arc<R::Record>> {
    find::<R>(view, id).ok_or_else(|| Failure::not_found(R::KIND.name, id))
}

/// The base of a detail: id, times, tags and links.
pub(crate) fn detail_base<R: Readable>(base: &Base) -> weft_contract::Base {
    convert::base(R::KIND.plural, base, R::KIND.links)
}

/// Handles the POST to the collection.
pub(crate) async fn create<R: Resource>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    let body: R::Body = call.decode(Verb::Create)?;
    let chosen = R::chosen_id(&body).transpose()?;
    let id = chosen.unwrap_or_else(|| controller.kernel().ids().entity());
    let prepared = R::prepare(&controller, &caller, &body, Verb::Create, &id).await?;
    let answer = Reply::created(R::KIND.plural, id.as_str());
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let mut record = R::Record::default();
            *record.base_mut() = Base::new(id.clone(), decision.now());
            if let Some(taken) = decision.tip().get::<R::Record>(&id) {
                if !R::CREATE_RENEWS {
                    return Err(Failure::field("id", "id must be unique", id.as_str()));
                }
                record.base_mut().created_at = taken.base().created_at;
            }
            R::merge(&mut record, &body, &prepared, Verb::Create)?;
            finish::<R>(decision, None, record, &prepared)
        })
        .await?;
    answer
}

/// Handles the PUT to an entity.
pub(crate) async fn replace<R: Resource>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    change::<R>(controller, caller, call, Verb::Replace).await
}

/// Handles the PATCH of an entity.
pub(crate) async fn patch<R: Resource>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    change::<R>(controller, caller, call, Verb::Patch).await
}

async fn change<R: Resource>(
    controller: Controller,
    caller: Caller,
    call: Call,
    verb: Verb,
) -> Result<Reply> {
    let id = Id::parse(call.id(0)).map_err(|_| Failure::not_found(R::KIND.name, call.id(0)))?;
    if require::<R>(View::of(&controller.kernel().snapshot()), id.as_str()).is_err() {
        // Another controller may have made it: the writer answers for all of them.
        let id = id.clone();
        let decide =
            move |decision: &mut Decision<'_>| require::<R>(decision.view(), id.as_str()).map(drop);
        controller.kernel().decide(&caller, decide).await?;
    }
    let body: R::Body = call.decode(verb)?;
    let prepared = R::prepare(&controller, &caller, &body, verb, &id).await?;
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let current = Arc::clone(require::<R>(decision.view(), id.as_str())?);
            if current.base().is_system && R::SYSTEM_IS_FIXED {
                return Err(ErrorCode::EntityCanNotBeUpdated.into());
            }
            R::guard(decision, &current)?;
            let mut record = match verb {
                Verb::Patch => (*current).clone(),
                _ => {
                    let mut fresh = R::Record::default();
                    let Base { created_at, is_system, .. } = *current.base();
                    let base = Base::new(id.clone(), decision.now());
                    *fresh.base_mut() = Base { created_at, is_system, ..base };
                    R::keep(&current, &mut fresh);
                    fresh
                }
            };
            R::merge(&mut record, &body, &prepared, verb)?;
            record.base_mut().updated_at = decision.now();
            finish::<R>(decision, Some(&current), record, &prepared)
        })
        .await?;
    Reply::empty()
}

/// Applies the rules of all kinds, then the rules of the resource, and puts the record.
fn finish<R: Resource>(
    decision: &mut Decision<'_>,
    before: Option<&R::Record>,
    mut record: R::Record,
    prepared: &R::Prepared,
) -> Result<()> {
    R::validate(decision, before, &mut record, prepared)?;
    decision.put_checked(record)
}

/// Handles the DELETE of an entity.
pub(crate) async fn delete<R: Resource>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    let id = call.id(0).to_owned();
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let record = Arc::clone(require::<R>(decision.view(), &id)?);
            R::guard(decision, &record)?;
            let may_go = R::Record::KIND == weft_model::Kind::Terminator;
            if record.base().is_system && R::SYSTEM_IS_FIXED && !may_go {
                return Err(ErrorCode::EntityCanNotBeDeleted.into());
            }
            R::on_delete(decision, &record)?;
            decision.delete(R::Record::KIND, record.id())
        })
        .await?;
    Reply::empty()
}

/// Handles the GET of an entity.
pub(crate) async fn detail<R: Readable>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    let context = controller.context(&caller);
    let record = require::<R>(context.view(), call.id(0))?;
    if !R::is_visible(&caller, context.view(), record) {
        return Err(Failure::unauthorized("the entity is not for this caller"));
    }
    Reply::detail(&R::detail(&context, record))
}

/// Handles the GET of the collection.
pub(crate) async fn list<R: Readable>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    collection::collection::<R>(controller, caller, call).await
}

/// The generic operations of a resource.
pub(crate) fn handlers<R: Resource>() -> Vec<HandlerRow<Controller>> {
    let kind = R::KIND;
    let rows: [(_, &'static dyn OperationHandler<Controller>); 6] = [
        (kind.list(), &list::<R>),
        (kind.create(), &create::<R>),
        (kind.detail(), &detail::<R>),
        (kind.replace(), &replace::<R>),
        (kind.patch(), &patch::<R>),
        (kind.delete(), &delete::<R>),
    ];
    rows.into_iter().filter_map(|(row, handler)| Some((kind.api, row?.id, handler))).collect()
}
