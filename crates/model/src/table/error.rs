//! Why a change does not fit the entities that are there.

use std::sync::Arc;

use crate::{Id, Kind};

/// Why a change does not fit the entities that are there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Another entity of the kind has the name.
    #[error("{kind} {holder} already has the name {name:?}")]
    DuplicateName {
        /// The kind.
        kind: Kind,
        /// The name wanted twice.
        name: Arc<str>,
        /// Who has it.
        holder: Id,
    },
    /// Another entity of the kind has a value that must be unique.
    #[error("{kind} {holder} already has the same {field}")]
    DuplicateValue {
        /// The kind.
        kind: Kind,
        /// The field that must be unique.
        field: &'static str,
        /// The value wanted twice.
        value: Arc<str>,
        /// Who has it.
        holder: Id,
    },
    /// An entity names another one that is not there.
    #[error("{field} of {kind} {id} names {to} {target}, which does not exist")]
    MissingReference {
        /// The kind of the entity.
        kind: Kind,
        /// The entity.
        id: Id,
        /// The field.
        field: &'static str,
        /// The kind it names.
        to: Kind,
        /// The id it names.
        target: Id,
    },
    /// An entity is deleted although another one names it.
    #[error("{kind} {id} cannot be deleted: {field} of {by} {referrer} names it")]
    StillReferenced {
        /// The kind of the deleted entity.
        kind: Kind,
        /// The deleted entity.
        id: Id,
        /// The kind that names it.
        by: Kind,
        /// The entity that names it.
        referrer: Id,
        /// The field.
        field: &'static str,
    },
    /// An entity that is not there is deleted or gets a cold field.
    #[error("there is no {kind} {id}")]
    NotFound {
        /// The kind.
        kind: Kind,
        /// The id.
        id: Id,
    },
    /// The entity has no id.
    #[error("a {0} without id")]
    NoId(Kind),
    /// Entities of this kind are not kept in snapshots.
    #[error("{0} is not kept in snapshots")]
    NotInSnapshots(Kind),
}
