//! Connections that have no place yet, in the order they came.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use weft_limits::{BoundedTable, Caps, WhenFull, source_of};

use crate::ListenerLimits;

/// A connection that has no place yet.
pub(crate) struct Waiting {
    pub(crate) socket: TcpStream,
    pub(crate) remote: SocketAddr,
}

/// Those who wait because all places are taken, and those whose own source has taken all that it
/// may. Whoever comes when there is no room takes that of the oldest of the source that has most,
/// which is closed.
pub(crate) struct Line {
    strangers: BoundedTable<u64, Waiting, IpAddr>,
    behind_their_own: BoundedTable<u64, Waiting, IpAddr>,
    per_source: usize,
    /// How many may wait behind others of their sources.
    behind: usize,
    next: u64,
}

impl Line {
    pub(crate) fn new(limits: &ListenerLimits) -> Self {
        let per_source = limits.pending_per_source.max(1);
        let of = |total: usize| {
            BoundedTable::new(Caps {
                total: total.max(1),
                per_source,
                max_age: None,
                when_full: WhenFull::EvictOldest,
            })
        };
        // Few sources can have all that they may at once.
        let behind = per_source.max(limits.pending / 4);
        Self {
            strangers: of(limits.pending),
            behind_their_own: of(behind),
            per_source,
            behind,
            next: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.has_strangers() && self.behind_their_own.is_empty()
    }

    /// Whether somebody waits because all places are taken.
    pub(crate) fn has_strangers(&self) -> bool {
        !self.strangers.is_empty()
    }

    pub(crate) fn push(&mut self, waiting: Waiting) {
        let source = source_of(waiting.remote.ip());
        self.next += 1;
        // There is always room, for somebody makes it.
        let _ = self.strangers.insert(self.next, waiting, source, Instant::now());
    }

    /// The address of the first.
    pub(crate) fn first(&self) -> Option<IpAddr> {
        self.strangers.oldest().map(|(_, waiting)| waiting.remote.ip())
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        self.strangers.pop_oldest().map(|(_, waiting)| waiting)
    }

    /// Whether somebody waits behind others of this one's source.
    pub(crate) fn has_of(&self, peer: IpAddr) -> bool {
        self.behind_their_own.held_by(&source_of(peer)) > 0
    }

    /// Whether no more can wait behind others of this one's source.
    pub(crate) fn is_full_for(&self, peer: IpAddr) -> bool {
        let line = &self.behind_their_own;
        line.held_by(&source_of(peer)) >= self.per_source || line.len() >= self.behind
    }

    pub(crate) fn push_behind_its_own(&mut self, waiting: Waiting) {
        let source = source_of(waiting.remote.ip());
        self.next += 1;
        // The same.
        let _ = self.behind_their_own.insert(self.next, waiting, source, Instant::now());
    }

    /// The sources of those who wait behind others of theirs.
    pub(crate) fn full_sources(&self) -> Vec<IpAddr> {
        self.behind_their_own.sources().copied().collect()
    }

    /// The address of the first of a source.
    pub(crate) fn first_of(&self, source: IpAddr) -> Option<IpAddr> {
        self.behind_their_own.oldest_of(&source).map(|(_, waiting)| waiting.remote.ip())
    }

    pub(crate) fn pop_of(&mut self, peer: IpAddr) -> Option<Waiting> {
        let first = |_| 0;
        let source = source_of(peer);
        let taken = self.behind_their_own.take_of(&source, Duration::ZERO, Instant::now(), first);
        taken.map(|(_, waiting)| waiting)
    }
}
