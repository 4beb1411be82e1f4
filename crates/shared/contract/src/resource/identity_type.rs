//! Identity types: they tell people what an identity is for.

use crate::entity::detail;
use crate::kind::{Column, Kind};
use crate::operation::{Access, Operation, detail as get, list};
use crate::paths::Api;

/// The collection in paths and references.
pub const COLLECTION: &str = "identity-types";

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listIdentityTypes", "/identity-types", Access::Authenticated, "identityTypeDetail"),
    get("detailIdentityType", "/identity-types/{id}", Access::Authenticated, "identityTypeDetail"),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "identity-type",
    plural: COLLECTION,
    aliases: &[],
    about: "what sort of thing an identity is",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: &[],
    columns: &[Column { title: "ID", pointer: "/id" }, Column { title: "NAME", pointer: "/name" }],
    ..Kind::PLAIN
};

detail! {
    /// An identity type.
    pub struct IdentityTypeDetail with Base {
        /// The name of the type.
        pub name: String,
    }
}
