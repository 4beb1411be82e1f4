//! Changes of the model: complete rows, replayable without knowing any rule.
//!
//! An operation decides on a [`ChangeSet`]; the store makes the change set durable, a snapshot applies
//! it, and the log keeps it. A change set lists every cascading change.

use std::sync::Arc;

use bytes::Bytes;
use prost::Enumeration;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::choice::Choice;
use crate::row::{Row, row};
use crate::{ColdField, Entity, Id, Kind, RowError, Timestamp};

/// One changed row.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The entity is created, or replaced as a whole.
    Put(Entity),
    /// The entity is removed, with its cold fields.
    Delete(Kind, Id),
    /// A cold field of an entity is set or removed: a value that is too large to hold in memory and
    /// is read from the store on demand.
    Cold {
        /// The entity's kind.
        kind: Kind,
        /// Id of the entity.
        id: Id,
        /// The field.
        field: ColdField,
        /// The value; `None` removes it.
        value: Option<Bytes>,
    },
}

impl Change {
    /// The changes that create or replace an entity: one for each of its cold fields, and one for the
    /// rest.
    pub fn apart(entity: impl Into<Entity>) -> Vec<Self> {
        let mut entity = entity.into();
        let (kind, id) = (entity.kind(), entity.id().clone());
        let mut cold = Vec::new();
        entity.take_cold(&mut |field, value| {
            cold.push(Self::Cold { kind, id: id.clone(), field, value: Some(value) });
        });
        cold.insert(0, Self::Put(entity));
        cold
    }

    /// The kind of the changed entity.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Put(entity) => entity.kind(),
            Self::Delete(kind, _) | Self::Cold { kind, .. } => *kind,
        }
    }

    /// The changed entity.
    pub fn id(&self) -> &Id {
        match self {
            Self::Put(entity) => entity.id(),
            Self::Delete(_, id) | Self::Cold { id, .. } => id,
        }
    }
}

/// Kind of author of a change (docs/protocol/management-api.md 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(i32)]
pub enum AuthorKind {
    /// The controller itself.
    Controller = 0,
    /// An identity.
    Identity = 1,
    /// The holder of a certificate that belongs to no identity yet.
    Cert = 2,
    /// A router.
    Router = 3,
    /// Unknown: the holder of a ticket.
    Unattributed = 4,
}

impl Choice for AuthorKind {}

row! {
    /// Author of a change.
    pub struct Author {
        /// Kind of author.
        1 => pub kind: AuthorKind,
        /// Id of the identity, router or controller.
        2 => pub id: Id,
        /// Name of the author.
        3 => pub name: Arc<str>,
    }
}

row! {
    /// Request that caused a change.
    pub struct Cause {
        /// The operation.
        1 => pub operation: Arc<str>,
        /// `rest`, `ctrl.channel`, `controller`.
        2 => pub source_type: Arc<str>,
        /// `edge`, `fabric`, ...
        3 => pub source_auth: Arc<str>,
        /// Method of the request.
        4 => pub method: Arc<str>,
        /// The local address of the connection.
        5 => pub local: Arc<str>,
        /// The remote address of the connection.
        6 => pub remote: Arc<str>,
        /// The trace id of the request.
        7 => pub trace_id: Arc<str>,
    }
}

/// The changes of one operation, of which all happen or none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChangeSet {
    /// The changed rows, referenced entities before those that refer to them, as routers need them.
    pub changes: Vec<Change>,
    /// Author of the changes.
    pub author: Author,
    /// Request that caused the changes.
    pub cause: Cause,
    /// Time of the changes.
    pub at: Timestamp,
    /// The format that stored data may have from here on; 0 if it stays as it is.
    pub format: u32,
}

row! {
    struct StoredChange {
        1 => pub kind: u16,
        2 => pub id: Id,
        3 => pub version: u16,
        4 => pub row: Option<Bytes>,
        5 => pub cold: Option<ColdField>,
    }
}

row! {
    struct StoredChangeSet {
        1 => pub changes: Vec<StoredChange>,
        2 => pub author: Author,
        3 => pub cause: Cause,
        4 => pub at: Timestamp,
        5 => pub format: u32,
    }
}

impl ChangeSet {
    /// A change set without a named author: the controller's own.
    pub fn of(changes: impl IntoIterator<Item = Change>) -> Self {
        Self { changes: changes.into_iter().collect(), ..Self::default() }
    }

    /// Adds the creation or replacement of an entity.
    pub fn put(&mut self, entity: impl Into<Entity>) -> &mut Self {
        self.changes.push(Change::Put(entity.into()));
        self
    }

    /// Adds the creation or replacement of an entity, with its cold fields as changes of their own.
    pub fn put_apart(&mut self, entity: impl Into<Entity>) -> &mut Self {
        self.changes.extend(Change::apart(entity));
        self
    }

    /// Adds the deletion of an entity.
    pub fn delete(&mut self, kind: Kind, id: Id) -> &mut Self {
        self.changes.push(Change::Delete(kind, id));
        self
    }

    /// True if there are no changes, and the format stays.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.format == 0
    }

    /// Approximate size in the log, in bytes.
    pub fn size(&self) -> usize {
        const FRAME: usize = 64;
        let size = |change: &Change| match change {
            Change::Put(entity) => entity.to_row().len(),
            Change::Delete(..) => 0,
            Change::Cold { value, .. } => value.as_ref().map_or(0, Bytes::len),
        };
        self.changes.iter().map(|change| FRAME + size(change)).sum()
    }

    /// Encodes the change set for the log.
    pub fn to_bytes(&self) -> Vec<u8> {
        let changes = self.changes.iter().map(|change| {
            let (version, row, cold) = match change {
                Change::Put(entity) => {
                    (entity.kind().row_version(), Some(entity.to_row().into()), None)
                }
                Change::Delete(..) => (0, None, None),
                Change::Cold { field, value, .. } => (0, value.clone(), Some(*field)),
            };
            let (kind, id) = (change.kind().code(), change.id().clone());
            StoredChange { kind, id, version, row, cold }
        });
        StoredChangeSet {
            changes: changes.collect(),
            author: self.author.clone(),
            cause: self.cause.clone(),
            at: self.at,
            format: self.format,
        }
        .to_bytes()
    }

    /// Decodes a change set from the log.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RowError> {
        let StoredChangeSet { changes, author, cause, at, format } =
            StoredChangeSet::from_bytes(bytes)?;
        let changes = changes.into_iter().map(|change| {
            let kind = Kind::from_code(change.kind).ok_or(RowError::UnknownKind(change.kind))?;
            Ok(match (change.cold, change.row) {
                (Some(field), value) => Change::Cold { kind, id: change.id, field, value },
                (None, Some(row)) => Change::Put(Entity::from_row(kind, change.version, &row)?),
                (None, None) => Change::Delete(kind, change.id),
            })
        });
        let changes = changes.collect::<Result<_, RowError>>()?;
        Ok(Self { changes, author, cause, at, format })
    }
}
