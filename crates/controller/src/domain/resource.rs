//! The resource machinery: what a kind of entity says about itself, and the generic operations
//! made of it. A new resource is one file with the table of its members ([`super::members`]) and its
//! [`Resource`], and one line in [`super::operations`].
//!
//! An operation has two halves. *Prepare* runs on the caller's task and does what is slow or
//! random. *Decide* ([`Resource::merge`], [`Resource::validate`], [`Resource::on_delete`]) is pure
//! and repeatable: the writer runs it on the tip, perhaps more than once.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use weft_contract::{Api, ErrorCode, Kind as ContractKind, Verb};
use weft_kernel::call::{Answer, Handler};
use weft_kernel::decision::Decision;
use weft_kernel::view::View;
use weft_kernel::{Call, Caller, Failure, Reply, convert};
use weft_model::Id;
use weft_model::entity::{Base, OfKind as _};

use super::collection;
use super::context::Context;
use super::members::Members;
use crate::Controller;

/// Which records of its kind the lists of a resource show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// All of them.
    All,
    /// Those that policies can mean.
    Eligible,
    /// Those of which [`Readable::belongs`] and [`Readable::is_visible`] say so: a list has to look
    /// at each.
    Some,
}

/// A kind of entity as the APIs show it.
pub trait Readable: Members {
    /// Its operations, names and links in the contract.
    const KIND: &'static ContractKind;

    /// Whether an entity of the model's kind belongs to this resource at all.
    fn belongs(_record: &Self::Record) -> bool {
        true
    }

    /// Whether this caller sees the record; lists leave out what he does not, reads refuse.
    fn is_visible(_caller: &Caller, _view: View<'_>, _record: &Self::Record) -> bool {
        true
    }

    /// Which records lists show to this caller, where it is known without looking at each.
    fn shown(_caller: &Caller) -> Shown {
        Shown::Some
    }

    /// The record as the API shows it.
    fn detail(context: &Context, record: &Self::Record) -> Self::Detail {
        Self::show(context, record)
    }
}

/// A kind of entity that can be made and changed.
pub trait Resource: Readable {
    /// What is made before an operation is decided; `()` if nothing is slow or random.
    type Prepared: Default + Send + Sync + 'static;

    /// Whether entities of the system cannot be changed.
    const SYSTEM_IS_FIXED: bool = true;
    /// Whether a create with an id that is taken makes the entity last longer.
    const CREATE_RENEWS: bool = false;

    /// The id that the body of a create chooses, for kinds whose ids are not made here.
    fn chosen_id(_body: &Self::Body) -> Option<Result<Id, Failure>> {
        None
    }

    /// Does what is slow or random for create, replace and patch.
    fn prepare<'a>(
        _controller: &'a Controller,
        _caller: &'a Caller,
        _body: &'a Self::Body,
        _verb: Verb,
        _id: &'a Id,
    ) -> BoxFuture<'a, Result<Self::Prepared, Failure>> {
        async { Ok(Self::Prepared::default()) }.boxed()
    }

    /// Whether who asks may touch this entity at all, beyond what the gate says.
    fn guard(_decision: &Decision<'_>, _current: &Self::Record) -> Result<(), Failure> {
        Ok(())
    }

    /// Puts what the body says and what is prepared into the record.
    fn merge(
        record: &mut Self::Record,
        body: &Self::Body,
        _prepared: &Self::Prepared,
        verb: Verb,
    ) -> Result<(), Failure> {
        Self::set(record, body, verb)
    }

    /// Checks the merged record, and puts what comes with it into the decision.
    fn validate(
        _decision: &mut Decision<'_>,
        _before: Option<&Self::Record>,
        _after: &mut Self::Record,
        _prepared: &Self::Prepared,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// Refuses a delete, or puts what goes with it (beyond what references say) into the decision.
    fn on_delete(_decision: &mut Decision<'_>, _record: &Self::Record) -> Result<(), Failure> {
        Ok(())
    }
}

/// The record with this id, if it belongs to the resource.
pub(crate) fn find<'v, R: Readable>(view: View<'v>, id: &str) -> Option<&'v Arc<R::Record>> {
    view.get::<R::Record>(id).filter(|record| R::belongs(record))
}

/// The same for an id in a path.
pub(crate) fn require<'v, R: Readable>(
    view: View<'v>,
    id: &str,
) -> Result<&'v Arc<R::Record>, Failure> {
    find::<R>(view, id).ok_or_else(|| Failure::not_found(R::KIND.name, id))
}

/// The base of a detail of this resource.
pub(crate) fn detail_base<R: Readable>(base: &Base) -> weft_contract::Base {
    convert::base(R::KIND.plural, base, R::KIND.links)
}

/// POST to the collection.
pub(crate) fn create<R: Resource>(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let body: R::Body = call.decode(Verb::Create)?;
        let chosen = R::chosen_id(&body).transpose()?;
        let id = chosen.unwrap_or_else(|| controller.ids().entity());
        let prepared = R::prepare(&controller, &caller, &body, Verb::Create, &id).await?;
        let answer = Reply::created(R::KIND.plural, id.as_str());
        controller
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
    .boxed()
}

/// PUT to an entity.
pub(crate) fn replace<R: Resource>(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move { change::<R>(controller, caller, call, Verb::Replace).await }.boxed()
}

/// PATCH of an entity.
pub(crate) fn patch<R: Resource>(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move { change::<R>(controller, caller, call, Verb::Patch).await }.boxed()
}

async fn change<R: Resource>(
    controller: Controller,
    caller: Caller,
    call: Call,
    verb: Verb,
) -> Result<Reply, Failure> {
    let id = Id::parse(call.id(0)).map_err(|_| Failure::not_found(R::KIND.name, call.id(0)))?;
    require::<R>(View::of(&controller.snapshot()), id.as_str())?;
    let body: R::Body = call.decode(verb)?;
    let prepared = R::prepare(&controller, &caller, &body, verb, &id).await?;
    controller
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

/// The rules of every kind, then those of the resource, then the put.
fn finish<R: Resource>(
    decision: &mut Decision<'_>,
    before: Option<&R::Record>,
    mut record: R::Record,
    prepared: &R::Prepared,
) -> Result<(), Failure> {
    R::validate(decision, before, &mut record, prepared)?;
    decision.put_checked(record)
}

/// DELETE of an entity.
pub(crate) fn delete<R: Resource>(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let id = call.id(0).to_owned();
        controller
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
    .boxed()
}

/// GET of an entity.
pub(crate) fn detail<R: Readable>(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let context = controller.context(&caller);
        let record = require::<R>(context.view(), call.id(0))?;
        if !R::is_visible(&caller, context.view(), record) {
            return Err(Failure::unauthorized("the entity is not for this caller"));
        }
        Reply::detail(&R::detail(&context, record))
    }
    .boxed()
}

/// GET of the collection.
pub(crate) fn list<R: Readable>(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move { collection::collection::<R>(controller, caller, call).await }.boxed()
}

/// The operations of a resource, ready for the table of handlers.
pub(crate) trait AnyResource: Send + Sync {
    /// API, operation and handler of everything that is generic.
    fn handlers(&self) -> Vec<(Api, &'static str, Handler<Controller>)>;
}

/// [`AnyResource`] out of a [`Resource`] of an API.
pub(crate) struct Of<R>(Api, std::marker::PhantomData<fn() -> R>);

impl<R> Of<R> {
    /// Of the management API.
    pub(crate) const NEW: Self = Self(Api::Management, std::marker::PhantomData);
    /// Of the fabric API.
    pub(crate) const FABRIC: Self = Self(Api::Fabric, std::marker::PhantomData);
}

type Row = Option<&'static weft_contract::Operation>;

fn rows(
    api: Api,
    rows: impl IntoIterator<Item = (Row, Handler<Controller>)>,
) -> Vec<(Api, &'static str, Handler<Controller>)> {
    let known = rows.into_iter().filter_map(|(row, handler)| Some((row?, handler)));
    known.map(|(row, handler)| (api, row.id, handler)).collect()
}

impl<R: Resource> AnyResource for Of<R> {
    fn handlers(&self) -> Vec<(Api, &'static str, Handler<Controller>)> {
        let kind = R::KIND;
        let generic = [
            (kind.list(), list::<R> as Handler<Controller>),
            (kind.create(), create::<R>),
            (kind.detail(), detail::<R>),
            (kind.replace(), replace::<R>),
            (kind.patch(), patch::<R>),
            (kind.delete(), delete::<R>),
        ];
        rows(self.0, generic)
    }
}
