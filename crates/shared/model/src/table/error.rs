//! Conflicts of a change with existing entities.

use std::sync::Arc;

use crate::{Id, Kind};

/// Why a change cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Another entity of the kind has the name.
    #[error("{kind} {holder} already has the name {name:?}")]
    DuplicateName {
        /// The kind.
        kind: Kind,
        /// The name.
        name: Arc<str>,
        /// Id of the other entity.
        holder: Id,
    },
    /// Another entity of the kind has the same value in a unique field.
    #[error("{kind} {holder} already has the same {field}")]
    DuplicateValue {
        /// The kind.
        kind: Kind,
        /// The unique field.
        field: &'static str,
        /// The value.
        value: Arc<str>,
        /// Id of the other entity.
        holder: Id,
    },
    /// An entity refers to an entity that does not exist.
    #[error("{field} of {kind} {id} names {to} {target}, which does not exist")]
    MissingReference {
        /// The kind of the entity.
        kind: Kind,
        /// Id of the entity.
        id: Id,
        /// The field.
        field: &'static str,
        /// Kind of the missing entity.
        to: Kind,
        /// Id of the missing entity.
        target: Id,
    },
    /// A deleted entity is still referred to.
    #[error("{kind} {id} cannot be deleted: {field} of {by} {referrer} names it")]
    StillReferenced {
        /// The kind of the deleted entity.
        kind: Kind,
        /// Id of the deleted entity.
        id: Id,
        /// Kind of the entity that still refers.
        by: Kind,
        /// Id of the entity that still refers.
        referrer: Id,
        /// The field.
        field: &'static str,
    },
    /// An entity that does not exist is deleted or gets a cold field.
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
    /// Snapshots do not keep entities of this kind.
    #[error("{0} is not kept in snapshots")]
    NotInSnapshots(Kind),
}
