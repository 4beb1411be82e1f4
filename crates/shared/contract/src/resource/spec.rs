//! Descriptions of the APIs, which callers list and fetch
//! (docs/protocol/management-api.md 5).

use crate::entity::detail;
use crate::headers;
use crate::kind::{Column, Kind};
use crate::operation::{Access, Operation, Response, detail as get, list};
use crate::paths::Api;

/// The collection in paths and references.
pub const COLLECTION: &str = "specs";

const PUBLIC: &[u16] = &[200];

/// Operations that both APIs serve, to anybody. The last one answers in YAML to clients that accept
/// it.
pub const SHARED: &[Operation] = &[
    list("listSpecs", "/specs", Access::Public, "specDetail").statuses(PUBLIC),
    get("detailSpec", "/specs/{id}", Access::Public, "specDetail").statuses(PUBLIC),
    get("detailSpecBody", "/specs/{id}/spec", Access::Public, "specBodyDetail")
        .answers(Response::Raw(headers::JSON))
        .statuses(PUBLIC),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "spec",
    plural: COLLECTION,
    aliases: &[],
    about: "a description of an API, for programs",
    api: Api::Management,
    operations: SHARED,
    fields: &[],
    links: &["spec"],
    columns: &[Column { title: "ID", pointer: "/id" }, Column { title: "NAME", pointer: "/name" }],
    ..Kind::PLAIN
};

detail! {
    /// A description of an API, for programs.
    pub struct SpecDetail with Base {
        /// The name of the description.
        pub name: String,
    }
}
