//! Connections that wait for a place, in their order of arrival.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use weft_limits::{BoundedTable, Caps, WhenFull, source_of};

use crate::ListenerLimits;
use crate::clock::now;

/// A connection that waits for a place.
pub(crate) struct Waiting {
    pub(crate) socket: TcpStream,
    pub(crate) remote: SocketAddr,
}

/// The connections that wait: some because all places are taken, others because their source has
/// taken all of its places. When the line is full, the oldest connection of the source with the
/// most waiting connections is closed, and the new connection takes its position.
pub(crate) struct Line {
    /// Connections that wait because all places are taken.
    strangers: BoundedTable<u64, Waiting, IpAddr>,
    /// Connections that wait because their source has taken all of its places.
    behind_their_own: BoundedTable<u64, Waiting, IpAddr>,
    per_source: usize,
    /// Most connections that wait behind others of their source.
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
        // A quarter of the places is enough, because only few sources can have all of their places
        // at once.
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

    /// True if a connection waits because all places are taken.
    pub(crate) fn has_strangers(&self) -> bool {
        !self.strangers.is_empty()
    }

    pub(crate) fn push(&mut self, waiting: Waiting) {
        let source = source_of(waiting.remote.ip());
        self.next += 1;
        // There is always room, because another one is removed.
        let _ = self.strangers.insert(self.next, waiting, source, now());
    }

    /// The address of the first connection in the line.
    pub(crate) fn first(&self) -> Option<IpAddr> {
        self.strangers.oldest().map(|(_, waiting)| waiting.remote.ip())
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        self.strangers.pop_oldest().map(|(_, waiting)| waiting)
    }

    /// True if a connection waits behind others of this source.
    pub(crate) fn has_of(&self, peer: IpAddr) -> bool {
        self.behind_their_own.held_by(&source_of(peer)) > 0
    }

    /// True if no more connections can wait behind others of this source.
    pub(crate) fn is_full_for(&self, peer: IpAddr) -> bool {
        let line = &self.behind_their_own;
        line.held_by(&source_of(peer)) >= self.per_source || line.len() >= self.behind
    }

    pub(crate) fn push_behind_its_own(&mut self, waiting: Waiting) {
        let source = source_of(waiting.remote.ip());
        self.next += 1;
        // There is always room, because another one is removed.
        let _ = self.behind_their_own.insert(self.next, waiting, source, now());
    }

    /// The sources of connections that wait behind others of their source.
    pub(crate) fn full_sources(&self) -> Vec<IpAddr> {
        self.behind_their_own.sources().copied().collect()
    }

    /// The address of the first connection of a source.
    pub(crate) fn first_of(&self, source: IpAddr) -> Option<IpAddr> {
        self.behind_their_own.oldest_of(&source).map(|(_, waiting)| waiting.remote.ip())
    }

    pub(crate) fn pop_of(&mut self, peer: IpAddr) -> Option<Waiting> {
        let first = |_| 0;
        let source = source_of(peer);
        let taken = self.behind_their_own.take_of(&source, Duration::ZERO, now(), first);
        taken.map(|(_, waiting)| waiting)
    }
}
