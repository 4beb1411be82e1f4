//! Entities that are constants: identity types (protocol: management-api 8).

use futures::FutureExt as _;
use weft_contract::entity::{Base, links};
use weft_contract::envelope::Pagination;
use weft_contract::resource::identity::{IdentityTypeDetail, TYPE_COLLECTION};
use weft_contract::{Api, Timestamp};
use weft_model::filter::{Column, PageRules, Table, Type, Value};

use crate::Controller;
use crate::domain::call::{Answer, Call, Handler, Reply};
use crate::domain::caller::Caller;
use crate::domain::{convert, list, seeds};
use crate::failure::Failure;

static SYMBOLS: Table<(), String> = Table {
    kind: "identity-types",
    id: |it| it.as_str(),
    columns: &[
        Column::one("id", Type::String, |(), it: &String| Value::text(it.as_str())).public(),
        Column::one("name", Type::String, |(), it: &String| Value::text(it.as_str())).public(),
    ],
};

/// The operations.
pub(crate) const HANDLERS: &[(Api, &str, Handler)] = &[
    (Api::Management, "listIdentityTypes", list_types),
    (Api::Management, "detailIdentityType", detail_type),
];

fn shown(name: &str, at: Timestamp) -> IdentityTypeDetail {
    IdentityTypeDetail {
        base: Base {
            links: links(TYPE_COLLECTION, name, &[]),
            created_at: at,
            id: name.to_owned(),
            updated_at: at,
            ..Base::default()
        },
        name: name.to_owned(),
    }
}

/// When the network began: its types are as old as its default auth policy.
fn began(controller: &Controller) -> Timestamp {
    use weft_model::entity::AuthPolicy;
    let snapshot = controller.snapshot();
    let policy = snapshot.get::<AuthPolicy>(&AuthPolicy::DEFAULT_ID.into());
    policy.map_or(Timestamp::ZERO, |policy| convert::time(policy.base.created_at))
}

fn list_types(controller: Controller, _caller: Caller, call: Call) -> Answer {
    async move {
        let mut types: Vec<String> =
            seeds::IDENTITY_TYPES.iter().map(|name| (*name).to_owned()).collect();
        types.sort_unstable();
        let selection = list::selection(&call.query, &SYMBOLS, &PageRules::LIST)?;
        let listed = selection.run_by_id(types.iter().map(|it| SYMBOLS.row(&(), it)));
        let at = began(&controller);
        let details: Vec<_> = listed.rows.iter().map(|row| shown(row.record(), at)).collect();
        let pagination = Pagination {
            limit: listed.page.stated_limit(),
            offset: listed.page.offset as i64,
            total_count: listed.total as i64,
        };
        let names = SYMBOLS.public_names().map(str::to_owned).collect();
        Reply::list(&details, pagination, names)
    }
    .boxed()
}

fn detail_type(controller: Controller, _caller: Caller, call: Call) -> Answer {
    async move {
        let found = seeds::IDENTITY_TYPES.iter().find(|name| **name == call.id(0));
        let name = found.ok_or_else(|| Failure::not_found("identity type", call.id(0)))?;
        Reply::detail(&shown(name, began(&controller)))
    }
    .boxed()
}
