//! Lists of entities: filter, sort, paging, roles, and visibility for the caller.
//!
//! Lists of entities in snapshots are searched by index ([`Selection::search`]). Lists of other
//! records (sessions, links, circuits) look at every record.

use std::sync::Arc;

use roaring::RoaringBitmap;
use serde::Serialize;
use weft_contract::headers;
use weft_kernel::list::{self, role_filter, selection};
use weft_kernel::{Call, Caller, Failure, QueryParameters, Reply, Result};
use weft_model::entity::OfKind as _;
use weft_model::filter::{Listed, PageRules, Row, Selection, Source};
use weft_model::{Entity, Meter};

use super::context::Context;
use super::resource::{self, ListedRecords, Readable};
use crate::Controller;

/// Longest explanation of a search, in characters.
const MAX_EXPLAINED: usize = 1000;

/// Finds the entities that belong to a parent, by ordinal. The work is counted while it is done.
pub(crate) type Members<P> = fn(&Context, &P, &QueryParameters, &Meter) -> Result<RoaringBitmap>;

/// The list of all entities of a resource that the caller sees.
pub(crate) async fn collection<R: Readable>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    let context = controller.context(&caller);
    let within = match role_filter(&call.query)? {
        None => None,
        Some((roles, semantic)) => {
            let table = context.snapshot().table(R::Record::KIND);
            let named = (roles.attributes.len() + roles.ids.len()) as u64;
            let effort = named.saturating_mul(table.units_of_set());
            let find = move |context: &Context, meter: &Meter| {
                let snapshot = context.snapshot();
                Ok(snapshot.counted_with_roles(R::Record::KIND, &roles, semantic, meter)?)
            };
            Some(selected(&context, &caller, effort, find).await?)
        }
    };
    search::<R, _>(context, caller, call, within, R::detail).await
}

/// Entities that policies or roles select, found in the caller's turn if that takes long. The effort is an estimate, and
/// decides where the work begins; what is charged is counted.
async fn selected(
    context: &Context,
    caller: &Caller,
    effort: u64,
    find: impl Fn(&Context, &Meter) -> Result<RoaringBitmap> + Send + 'static,
) -> Result<RoaringBitmap> {
    let (context, request) =
        (context.clone(), context.controller().kernel().scans().asked_by(caller));
    request.counted(effort, move |meter| find(&context, meter)).await
}

/// A list below an entity: `members` finds the entities of `Child` that belong to the parent.
pub(crate) async fn nested<P: Readable, C: Readable>(
    controller: Controller,
    caller: Caller,
    call: Call,
    members: Members<P::Record>,
) -> Result<Reply> {
    let context = controller.context(&caller);
    let Some(parent) = resource::find::<P>(context.view(), call.id(0)).cloned() else {
        if call.row.statuses.contains(&404) {
            return Err(Failure::not_found(P::KIND.name, call.id(0)));
        }
        return search::<C, _>(context, caller, call, Some(RoaringBitmap::new()), C::detail).await;
    };
    let effort = context.snapshot().effort_of_selecting(C::Record::KIND);
    let query = call.query.clone();
    let find = move |context: &Context, meter: &Meter| members(context, &parent, &query, meter);
    let found = selected(&context, &caller, effort, find).await?;
    search::<C, _>(context, caller, call, Some(found), C::detail).await
}

/// A page of the entities of a resource, or of those in a set. Uses an index if the filter allows
/// one.
pub(crate) async fn search<R: Readable, D: Serialize>(
    context: Context,
    caller: Caller,
    call: Call,
    within: Option<RoaringBitmap>,
    detail: impl Fn(&Context, &R::Record) -> D + Send + 'static,
) -> Result<Reply> {
    let selection = selection(&caller, &call.query, R::SYMBOLS, &PageRules::LIST)?;
    let effort = selection.effort(&source::<R>(&context, &caller, within.clone()));
    let request = context.controller().kernel().scans().asked_by(&caller);
    let page = move |meter: &Meter| {
        let source = source::<R>(&context, &caller, within.clone());
        let (listed, trace) = selection.search(source, meter)?;
        tracing::debug!(list = R::KIND.plural, %trace, "listed");
        let reply = list::reply(&listed, R::SYMBOLS, meter, |it| Ok(detail(&context, it)))?;
        if call.query.get(headers::EXPLAIN) != Some("true") {
            return Ok(reply);
        }
        let trace = trace.to_string();
        let shown: String = trace.escape_default().take(MAX_EXPLAINED).collect();
        Ok(reply.with_header(headers::EXPLAINED, shown))
    };
    request.counted(effort, page).await
}

/// The records that the list of a resource selects from.
fn source<'c, R: Readable>(
    context: &'c Context,
    caller: &'c Caller,
    within: Option<RoaringBitmap>,
) -> Source<'c, impl Fn(&'c Entity) -> Option<Row<'c, Context, R::Record>>> {
    let view = context.view();
    let table = view.snapshot().table(R::Record::KIND);
    let shown = R::shown(caller);
    let within = match shown {
        ListedRecords::Eligible if table.eligible().len() < table.len() as u64 => {
            let eligible = &**table.eligible();
            Some(within.map_or_else(|| eligible.clone(), |within| within & eligible))
        }
        _ => within,
    };
    let row = move |entity: &'c Entity| {
        let record = entity.get::<R::Record>()?;
        let is_shown = || R::belongs(record) && R::is_visible(caller, view, record);
        debug_assert!(
            shown == ListedRecords::Some || is_shown(),
            "{} is not to be seen",
            record.id()
        );
        (shown != ListedRecords::Some || is_shown()).then(|| R::SYMBOLS.row(context, &**record))
    };
    Source { table, within, all_have_rows: shown != ListedRecords::Some, row }
}

/// The records of a page, out of these candidates, which have to be sorted by id.
pub(crate) fn select<'c, R: Readable>(
    context: &'c Context,
    caller: &Caller,
    selection: &Selection,
    candidates: impl Iterator<Item = &'c Arc<R::Record>>,
    meter: &Meter,
) -> Result<Listed<Row<'c, Context, R::Record>>> {
    let rows = candidates
        .filter(|record| R::belongs(record) && R::is_visible(caller, context.view(), record))
        .map(|record| R::SYMBOLS.row(context, record));
    Ok(selection.run_by_id(rows, meter)?)
}

/// A list that looks at so many candidates, in the caller's turn if that takes long.
pub(crate) async fn in_turn<R: Readable>(
    context: Context,
    caller: Caller,
    call: Call,
    candidates: usize,
    list: impl Fn(&Context, &Caller, &Selection, &Meter) -> Result<Reply> + Send + 'static,
) -> Result<Reply> {
    let selection = selection(&caller, &call.query, R::SYMBOLS, &PageRules::LIST)?;
    let request = context.controller().kernel().scans().asked_by(&caller);
    let effort = selection.effort_of(candidates);
    request.counted(effort, move |meter| list(&context, &caller, &selection, meter)).await
}

#[cfg(test)]
mod tests;
