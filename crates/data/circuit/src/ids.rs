//! The choice of connection ids on a channel between a router and an SDK.
//!
//! Each side chooses from a range of its own (docs/protocol/sdk.md 7.1). An id is used again as late as
//! possible, because messages about its last use may still be under way.

use std::ops::RangeInclusive;

use crate::sync::atomic::{AtomicU32, Ordering};

/// The ids of one side of a channel.
#[derive(Debug)]
pub struct ConnIds {
    range: RangeInclusive<u32>,
    next: AtomicU32,
}

impl ConnIds {
    /// The ids of this range, from the first one on.
    #[must_use]
    pub fn new(range: RangeInclusive<u32>) -> Self {
        Self { next: AtomicU32::new(*range.start()), range }
    }

    /// The next id that is not in use. Some id of the range must be free.
    #[must_use]
    pub fn choose(&self, is_used: impl Fn(u32) -> bool) -> u32 {
        let (first, last) = (*self.range.start(), *self.range.end());
        loop {
            let next = |id: u32| Some(if id >= last { first } else { id + 1 });
            let id = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            let id = id.unwrap_or(first);
            if !is_used(id) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_round_and_leave_out_those_in_use() {
        let ids = ConnIds::new(1..=4);
        let chosen = std::array::from_fn(|_| ids.choose(|id| id == 2));
        assert_eq!(chosen, [1, 3, 4, 1, 3]);
        let last = ConnIds::new(u32::MAX - 1..=u32::MAX);
        assert_eq!(
            std::array::from_fn(|_| last.choose(|_| false)),
            [u32::MAX - 1, u32::MAX, u32::MAX - 1]
        );
    }
}
