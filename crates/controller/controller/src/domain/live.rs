//! Kinds that live in memory tables and not in snapshots: sessions, circuits, links. Their lists
//! and details work like those of every other kind.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use weft_kernel::call::QueryParameters;
use weft_kernel::{Call, Caller, Failure, Reply, Result, list};
use weft_model::Meter;
use weft_model::filter::{PageRules, Selection, Symbols};

use super::context::Context;
use crate::Controller;

/// A kind that lives in memory.
pub(crate) trait InMemoryKind: Sized + 'static {
    /// The record of the table.
    type Record: Send + Sync + 'static;
    /// The answer to a read.
    type Detail: Serialize;

    /// The word for the kind in messages.
    const NAME: &'static str;
    /// The symbols of the kind in filters.
    const SYMBOLS: &'static Symbols<Context, Self::Record>;

    /// The number of records, or about that.
    fn count(context: &Context) -> usize;

    /// All records, in any order.
    fn all(context: &Context) -> Vec<Arc<Self::Record>>;

    /// The record with this id.
    fn find(context: &Context, id: &str) -> Option<Arc<Self::Record>>;

    /// The record as the API shows it.
    fn detail(context: &Context, record: &Self::Record) -> Result<Self::Detail>;
}

/// The record that a path names; fails if there is none.
pub(crate) fn require<L: InMemoryKind>(context: &Context, id: &str) -> Result<Arc<L::Record>> {
    L::find(context, id).ok_or_else(|| Failure::not_found(L::NAME, id))
}

/// What other controllers have of a kind, as their parts of a list.
pub(crate) struct OtherParts<R> {
    /// The first records of each in the order of the list, as many as the page may need.
    pub(crate) records: Vec<Arc<R>>,
    /// The number of their further matches.
    pub(crate) more: u64,
    /// The controllers that did not answer.
    pub(crate) missing: Vec<String>,
}

impl<R> Default for OtherParts<R> {
    fn default() -> Self {
        Self { records: Vec::new(), more: 0, missing: Vec::new() }
    }
}

/// Handles the GET of all records.
pub(crate) async fn list<L: InMemoryKind>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    let selection = selection::<L>(&caller, &call.query)?;
    list_with::<L>(&controller, &caller, selection, OtherParts::default()).await
}

/// Filter, sort and page of a request.
pub(crate) fn selection<L: InMemoryKind>(
    caller: &Caller,
    query: &QueryParameters,
) -> Result<Selection> {
    list::selection(caller, query, L::SYMBOLS, &PageRules::LIST)
}

/// A list of the records of this controller, for another one that waits until then.
pub(crate) async fn own_page<L: InMemoryKind>(
    controller: &Controller,
    caller: &Caller,
    selection: Selection,
    until: Instant,
) -> Result<Reply> {
    let context = controller.context(caller);
    let request = controller.kernel().scans().asked_by(caller).until(until);
    let effort = selection.effort_of(L::count(&context));
    request
        .counted(effort, move |meter| page::<L>(&context, &selection, &L::all(&context), meter))
        .await
}

/// A list of the records of this controller and of others.
pub(crate) async fn list_with<L: InMemoryKind>(
    controller: &Controller,
    caller: &Caller,
    selection: Selection,
    others: OtherParts<L::Record>,
) -> Result<Reply> {
    let context = controller.context(caller);
    let request = controller.kernel().scans().asked_by(caller);
    let OtherParts { records, more, missing } = others;
    let effort = selection.effort_of(L::count(&context) + records.len());
    // A thread that serves others does not even gather very many records.
    let listed = move |meter: &Meter| {
        let mut all = L::all(&context);
        all.extend(records.iter().cloned());
        page::<L>(&context, &selection, &all, meter)
    };
    Ok(request.counted(effort, listed).await?.with_more(more, missing))
}

/// A page of these records.
fn page<L: InMemoryKind>(
    context: &Context,
    selection: &Selection,
    found: &[Arc<L::Record>],
    meter: &Meter,
) -> Result<Reply> {
    let id = L::SYMBOLS.id;
    let mut found: Vec<_> = found.iter().collect();
    // Two controllers may list the same record for a moment, while it changes its owner: the first one counts.
    found.sort_by(|one, other| id(one).cmp(id(other)));
    found.dedup_by(|one, other| id(one) == id(other));
    let rows = found.into_iter().map(|it| L::SYMBOLS.row(context, &**it));
    list::answer(selection, L::SYMBOLS, rows, meter, |record| L::detail(context, record))
}

/// Handles the GET of one record.
pub(crate) async fn detail<L: InMemoryKind>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    let context = controller.context(&caller);
    let record = require::<L>(&context, call.id(0))?;
    Reply::detail(&L::detail(&context, &record)?)
}
