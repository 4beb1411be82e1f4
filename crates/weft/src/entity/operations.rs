//! The operations of the tables that the commands on entities call.

use weft_contract::kind::Kind;
use weft_contract::resource::{self, KINDS};
use weft_contract::{Api, Method, Operation, Response};

/// The APIs whose operations the commands call, the usual one first.
pub(crate) const APIS: &[Api] = &[Api::Management, Api::Fabric, Api::Client, Api::Weft];

/// The API that an operation of a kind belongs to.
pub(super) fn api_of(operation: &Operation) -> Api {
    let has = |api: &Api| {
        resource::operations(*api).any(|row| {
            (row.id, row.method, row.path) == (operation.id, operation.method, operation.path)
        })
    };
    APIS.iter().find(|api| has(api)).copied().unwrap_or(Api::Management)
}

/// The operation of a kind with this method on one entity. Settings of a controller are changed and
/// deleted at a path below the entity.
pub(super) fn on_one(kind: &Kind, method: Method) -> Option<&'static Operation> {
    ["/{id}", EFFECTIVE].into_iter().find_map(|below| {
        kind.operations.iter().find(|row| {
            let path = row.path.strip_prefix('/').and_then(|path| path.strip_prefix(kind.plural));
            row.method == method && path == Some(below)
        })
    })
}

/// Path below which settings of controllers are changed.
const EFFECTIVE: &str = "/{id}/effective";

/// The operation that lists the entities belonging to an entity of another kind, at
/// `/<parents>/{id}/<children>`.
pub(super) fn list_below(parent: &Kind, child: &Kind) -> Option<&'static Operation> {
    parent.operations.iter().find(|row| {
        row.method == Method::Get
            && matches!(row.response, Response::List(_))
            && row
                .path
                .strip_prefix('/')
                .and_then(|path| path.strip_prefix(parent.plural))
                .and_then(|path| path.strip_prefix("/{id}/"))
                == Some(child.plural)
    })
}

/// Query parameters of all lists of a kind; each becomes a flag of the command.
pub(super) fn list_parameters(kind: &Kind) -> Vec<&'static str> {
    let below = KINDS.iter().filter_map(|parent| list_below(parent, kind));
    let mut names: Vec<&'static str> =
        kind.list().into_iter().chain(below).flat_map(|row| row.query).copied().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The kind of a collection.
pub(super) fn kind_of(collection: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.plural == collection).or_else(|| match collection {
        "routers" => resource::kind("transit-router"),
        _ => None,
    })
}
