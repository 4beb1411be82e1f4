//! Examining everything that is stored, and mending faults.
//!
//! [`Store::load`](crate::Store::load) refuses damage: a controller must not start on damaged data.
//! A running controller has the rows in memory, so that it can go on after a fault, report each,
//! and write the damaged rows again. An [`Examination`] is one read transaction; commits go on
//! meanwhile.

use weft_model::{Entity, Id, Kind};

use crate::{Damage, Head, ReadError, codec};

/// A location in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreLocation {
    /// The row with this key.
    Row(Vec<u8>),
    /// Count and hash of the rows of a kind, by the kind's code.
    Tally(u16),
    /// The kept part of the log.
    Log,
    /// The cold field with this key.
    Cold(Vec<u8>),
    /// The live entity with this key.
    Live(Vec<u8>),
    /// The note with this key.
    Note(Vec<u8>),
}

impl StoreLocation {
    /// Location of an entity's row.
    pub fn row(kind: Kind, id: &Id) -> Self {
        Self::Row(codec::row_key(kind, id))
    }

    /// Kind and id of the entity stored at this location, if the key can be read.
    pub fn entity(&self) -> Option<(Kind, Id)> {
        let (Self::Row(key) | Self::Live(key)) = self else { return None };
        let (code, id) = codec::split_key(key).ok()?;
        Some((Kind::from_code(code)?, Id::new(id)))
    }
}

/// Damage at a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFault {
    /// The location.
    pub location: StoreLocation,
    /// The damage.
    pub damage: Damage,
}

/// A finding of an examination.
#[derive(Debug, Clone, PartialEq)]
pub enum ExaminationItem {
    /// A row whose checksum and fields are right.
    Row(Entity),
    /// A fault.
    Fault(StoredFault),
}

/// A view of everything that is stored, at one revision.
pub trait Examination: Send {
    /// The head at that revision.
    fn head(&self) -> &Head;

    /// Reports every row and every fault. An error means that nothing more can be read.
    fn run(&self, seen: &mut dyn FnMut(ExaminationItem)) -> Result<(), ReadError>;
}

/// A repair at one location.
#[derive(Debug, Clone, PartialEq)]
pub enum Mend {
    /// Writes the entity's row.
    Put(Entity),
    /// Removes the data at this location. A tally is not removed but counted again, as every mending
    /// counts all tallies again.
    Drop(StoreLocation),
}
