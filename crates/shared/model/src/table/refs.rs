//! The entities that refer to one entity: nearly always one, in some networks many thousands.

use std::sync::Arc;

use roaring::RoaringBitmap;

/// A set of ordinals that is never empty.
#[derive(Debug, Clone)]
pub(crate) enum Refs {
    One(u32),
    Many(Arc<RoaringBitmap>),
}

impl Refs {
    pub(crate) fn insert(&mut self, ordinal: u32) {
        match self {
            Self::One(one) if *one == ordinal => {}
            Self::One(one) => *self = Self::Many(Arc::new([*one, ordinal].into_iter().collect())),
            Self::Many(set) => {
                Arc::make_mut(set).insert(ordinal);
            }
        }
    }

    /// Removes an ordinal. Returns true if none is left.
    pub(crate) fn remove(&mut self, ordinal: u32) -> bool {
        match self {
            Self::One(one) => *one == ordinal,
            Self::Many(set) => {
                Arc::make_mut(set).remove(ordinal);
                set.is_empty()
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (one, many) = match self {
            Self::One(one) => (Some(*one), None),
            Self::Many(set) => (None, Some(set)),
        };
        one.into_iter().chain(many.into_iter().flat_map(|set| set.iter()))
    }

    pub(crate) fn contains(&self, ordinal: u32) -> bool {
        match self {
            Self::One(one) => *one == ordinal,
            Self::Many(set) => set.contains(ordinal),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::Many(set) => set.len(),
        }
    }

    pub(crate) fn to_set(&self) -> RoaringBitmap {
        match self {
            Self::One(one) => [*one].into_iter().collect(),
            Self::Many(set) => (**set).clone(),
        }
    }
}
