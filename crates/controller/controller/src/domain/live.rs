//! Kinds that live in memory tables and not in snapshots: sessions, circuits, links. Their lists
//! and details work like those of every other kind.

use std::sync::Arc;

use serde::Serialize;
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

/// Handles the GET of all records.
pub(crate) async fn list<L: InMemoryKind>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    let context = controller.context(&caller);
    let selection = list::selection(&caller, &call.query, L::SYMBOLS, &PageRules::LIST)?;
    let request = controller.kernel().scans().asked_by(&caller);
    let effort = selection.effort_of(L::count(&context));
    // A thread that serves others does not even gather very many records.
    let listed = move |meter: &Meter| page::<L>(&context, &selection, &L::all(&context), meter);
    request.counted(effort, listed).await
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
    found.sort_unstable_by(|one, other| id(one).cmp(id(other)));
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
