//! Role attributes in use (docs/protocol/management-api.md 2.2): lists of texts, filtered by the
//! one symbol `id`. Sort and paging come from the filter text only, not from other query
//! parameters.

use weft_contract::Api;
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Reply, Result, list};
use weft_model::entity::{Identity, PostureCheck, Record, Router, Service};
use weft_model::filter::{Column, PageRules, Selection, Symbols, Type, Value};
use weft_model::{Kind, Meter, Snapshot};

use crate::Controller;

/// The symbols of role attributes: `id` only.
pub(crate) static SYMBOLS: Symbols<(), String> = Symbols {
    kind: "role-attributes",
    id: |attribute| attribute.as_str(),
    shared: &[],
    columns: &[Column::one("id", Type::String, |(), it: &String| Value::text(it.as_str())).public()],
};

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "listEdgeRouterRoleAttributes", &answer::<Router>),
    (Api::Management, "listIdentityRoleAttributes", &answer::<Identity>),
    (Api::Management, "listServiceRoleAttributes", &answer::<Service>),
    (Api::Management, "listPostureCheckRoleAttributes", &answer::<PostureCheck>),
];

async fn answer<T: Record>(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let (kind, snapshot) = (T::KIND, controller.kernel().snapshot());
    let selection = list::selection(&caller, &call.query, &SYMBOLS, &PageRules::ATTRIBUTES)?;
    let effort = selection.effort_of(snapshot.table(kind).count_attributes());
    let request = controller.kernel().scans().asked_by(&caller);
    request.counted(effort, move |meter| page(&snapshot, &selection, kind, meter)).await
}

fn page(snapshot: &Snapshot, selection: &Selection, kind: Kind, meter: &Meter) -> Result<Reply> {
    let attributes: Vec<String> =
        snapshot.table(kind).attributes().map(|(attribute, _)| attribute.to_string()).collect();
    let rows = attributes.iter().map(|it| SYMBOLS.row(&(), it));
    list::answer(selection, &SYMBOLS, rows, meter, |it| Ok(it.as_str()))
}
