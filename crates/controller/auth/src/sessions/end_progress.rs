//! Figures of sessions that end together: metrics show how far such an end is.

use std::sync::atomic::{AtomicU64, Ordering};

/// Figures of sessions that end together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct EndCounts {
    /// Sessions that are ending and have not ended yet.
    pub to_end: u64,
    /// Sessions that ended so many together that one event told of them, since the start.
    pub ended_together: u64,
    /// Ended sessions of which routers are still to be told.
    pub to_revoke: u64,
    /// Ended sessions of lists, which are kept for routers that know no lists. Such routers are told of them at a pace.
    pub to_revoke_singly: u64,
}

/// How far ends of sessions are.
#[derive(Default)]
pub(super) struct EndProgress {
    to_end: AtomicU64,
    together: AtomicU64,
}

impl EndProgress {
    /// So many sessions are to end.
    pub(super) fn begin(&self, count: usize) {
        self.to_end.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// One event told of so many.
    pub(super) fn told(&self, count: u64) {
        self.together.fetch_add(count, Ordering::Relaxed);
    }

    /// The figures, with the numbers of ended sessions of which all routers, and those that know no lists, are still to be
    /// told.
    pub(super) fn counts(&self, (to_revoke, to_revoke_singly): (u64, u64)) -> EndCounts {
        EndCounts {
            to_end: self.to_end.load(Ordering::Relaxed),
            ended_together: self.together.load(Ordering::Relaxed),
            to_revoke,
            to_revoke_singly,
        }
    }

    /// So many of them have ended.
    pub(super) fn ended(&self, count: usize) {
        self.to_end.fetch_sub(count as u64, Ordering::Relaxed);
    }
}
