//! Role attributes in use (protocol: management-api 2.2): lists of texts, filtered by the one
//! symbol `id`. Only what stands inside the filter sorts and pages them.

use futures::FutureExt as _;
use weft_contract::Api;
use weft_contract::envelope::Pagination;
use weft_model::Kind;
use weft_model::filter::{Column, PageRules, Table, Type, Value};

use crate::Controller;
use crate::domain::call::{Answer, Call, Handler, Reply};
use crate::domain::caller::Caller;
use crate::domain::list;
use crate::failure::Failure;

static SYMBOLS: Table<(), String> = Table {
    kind: "role-attributes",
    id: |attribute| attribute.as_str(),
    columns: &[Column::one("id", Type::String, |(), it: &String| Value::text(it.as_str())).public()],
};

/// The operations.
pub(crate) const HANDLERS: &[(Api, &str, Handler)] = &[
    (Api::Management, "listEdgeRouterRoleAttributes", |controller, caller, call| {
        answer(controller, caller, call, Kind::Router)
    }),
    (Api::Management, "listIdentityRoleAttributes", |controller, caller, call| {
        answer(controller, caller, call, Kind::Identity)
    }),
    (Api::Management, "listServiceRoleAttributes", |controller, caller, call| {
        answer(controller, caller, call, Kind::Service)
    }),
    (Api::Management, "listPostureCheckRoleAttributes", |controller, caller, call| {
        answer(controller, caller, call, Kind::PostureCheck)
    }),
];

fn answer(controller: Controller, _caller: Caller, call: Call, kind: Kind) -> Answer {
    async move { page(&controller, &call, kind) }.boxed()
}

fn page(controller: &Controller, call: &Call, kind: Kind) -> Result<Reply, Failure> {
    let snapshot = controller.snapshot();
    let attributes: Vec<String> =
        snapshot.table(kind).attributes().map(|(attribute, _)| attribute.to_string()).collect();
    let selection = list::selection(&call.query, &SYMBOLS, &PageRules::ATTRIBUTES)?;
    let listed = selection.run_by_id(attributes.iter().map(|it| SYMBOLS.row(&(), it)));
    let pagination = Pagination {
        limit: listed.page.stated_limit(),
        offset: listed.page.offset as i64,
        total_count: listed.total as i64,
    };
    let rows: Vec<&str> = listed.rows.iter().map(|row| row.record().as_str()).collect();
    Reply::list(&rows, pagination, vec!["id".into()])
}
