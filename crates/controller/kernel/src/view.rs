//! Look-ups in a snapshot by the ids in requests.

use std::sync::Arc;

use weft_model::entity::Record;
use weft_model::{Id, Kind, Snapshot};

/// A snapshot with look-ups by the ids in requests.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a Snapshot);

impl<'a> View<'a> {
    /// A view of a snapshot.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        Self(snapshot)
    }

    /// The snapshot itself.
    pub fn snapshot(self) -> &'a Snapshot {
        self.0
    }

    /// An entity by id.
    pub fn get<T: Record>(self, id: &str) -> Option<&'a Arc<T>> {
        self.0.get(&Id::new(id))
    }

    /// An entity by a unique value; `index` is an index into [`Record::UNIQUE`].
    pub fn unique<T: Record>(self, index: usize, value: &str) -> Option<&'a Arc<T>> {
        self.0.by_unique(index, value)
    }

    /// All entities of a kind, ordered by id.
    pub fn all<T: Record>(self) -> impl DoubleEndedIterator<Item = &'a Arc<T>> {
        self.0.list::<T>()
    }

    /// The entities of a kind with a reference number `link` to `target`, in the order of their
    /// creation.
    pub fn referring<T: Record>(self, link: usize, target: &str) -> Vec<&'a Arc<T>> {
        self.0.referring::<T>(link, &Id::new(target)).collect()
    }

    /// The number of entities of a kind.
    pub fn count(self, kind: Kind) -> usize {
        self.0.table(kind).len()
    }
}
