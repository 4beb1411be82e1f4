//! Looking at everything that is stored, and mending it.
//!
//! [`Store::load`](crate::Store::load) refuses damage: a controller must not start on it. A running
//! controller has the rows in memory, so it can go on after a fault, name each, and write again
//! what is wrong. [`Examination`] is one read transaction: it goes on while others write.

use weft_model::{Entity, Id, Kind};

use crate::{Damage, Head, ReadError, codec};

/// Where something is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The row under a key.
    Row(Vec<u8>),
    /// The count and hash of the rows of a kind, by its number.
    Tally(u16),
    /// The kept part of the log.
    Log,
    /// The cold field under a key.
    Cold(Vec<u8>),
    /// The live entity under a key.
    Live(Vec<u8>),
    /// The note under a key.
    Note(Vec<u8>),
}

impl Place {
    /// Where the row of an entity is.
    pub fn row(kind: Kind, id: &Id) -> Self {
        Self::Row(codec::row_key(kind, id))
    }

    /// The entity that is stored there, if the key can be read.
    pub fn entity(&self) -> Option<(Kind, Id)> {
        let (Self::Row(key) | Self::Live(key)) = self else { return None };
        let (code, id) = codec::split_key(key).ok()?;
        Some((Kind::from_code(code)?, Id::new(id)))
    }
}

/// Something stored that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFault {
    /// Where it is.
    pub place: Place,
    /// What is wrong.
    pub damage: Damage,
}

/// What an examination comes upon.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// A row that is in order in itself.
    Row(Entity),
    /// A fault.
    Fault(StoredFault),
}

/// Everything that is stored at one revision.
pub trait Examination: Send {
    /// Where the log stood.
    fn head(&self) -> &Head;

    /// Goes through everything. Fails only where nothing more can be read.
    fn run(&self, seen: &mut dyn FnMut(Seen)) -> Result<(), ReadError>;
}

/// How something stored is mended.
#[derive(Debug, Clone, PartialEq)]
pub enum Mend {
    /// The row of an entity is written as this.
    Put(Entity),
    /// What is stored there is removed. Of a tally nothing is removed: all of them are made anew
    /// with every mending.
    Drop(Place),
}
