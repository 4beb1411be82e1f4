//! Sessions by the ordinal of their identity.
//!
//! Every router that connects is told the sessions of most identities, in the order of the
//! ordinals; thousands of routers may read 100,000 sessions each. The fields of a session that such
//! a read needs are in one row, and the rows are side by side in memory.

use std::sync::Arc;

use roaring::RoaringBitmap;
use smallvec::SmallVec;
use weft_wire::edge_ctrl::EncodedApiSession;

use super::announced::AnnouncedSession;

/// One session.
#[derive(Clone)]
pub(super) struct Row {
    /// The session's number among all sessions that were ever added.
    pub(super) number: u64,
    pub(super) encoded: EncodedApiSession,
    pub(super) told: Arc<AnnouncedSession>,
}

impl Row {
    pub(super) fn new(told: Arc<AnnouncedSession>) -> Self {
        Self { number: told.number, encoded: told.encoded.clone(), told }
    }
}

/// The sessions of one identity, in the order of their numbers. Most identities have a single one.
type Shelf = SmallVec<[Row; 1]>;

#[derive(Default)]
pub(super) struct Shelves {
    shelves: Vec<Shelf>,
    /// The ordinals of shelves that are not empty.
    filled: RoaringBitmap,
}

impl Shelves {
    /// The sessions of an identity.
    pub(super) fn at(&self, ordinal: u32) -> &[Row] {
        self.shelves.get(ordinal as usize).map_or(&[], SmallVec::as_slice)
    }

    /// The ordinals of identities that have sessions.
    pub(super) fn filled(&self) -> &RoaringBitmap {
        &self.filled
    }

    /// Adds a session behind the earlier ones, or replaces the one with its number.
    pub(super) fn put(&mut self, ordinal: u32, row: Row) {
        let at = ordinal as usize;
        if self.shelves.len() <= at {
            self.shelves.resize_with(at + 1, Shelf::new);
        }
        let shelf = &mut self.shelves[at];
        match shelf.binary_search_by_key(&row.number, |other| other.number) {
            Ok(same) => shelf[same] = row,
            Err(place) => shelf.insert(place, row),
        }
        self.filled.insert(ordinal);
    }

    /// Removes a session.
    pub(super) fn remove(&mut self, ordinal: u32, number: u64) {
        let Some(shelf) = self.shelves.get_mut(ordinal as usize) else { return };
        shelf.retain(|other| other.number != number);
        if shelf.is_empty() {
            *shelf = Shelf::new();
            self.filled.remove(ordinal);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
