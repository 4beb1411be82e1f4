//! The entries of a circuit, and its queues for neighbouring routers.
//!
//! A *forwarding entry* is one line of a route: messages from this source go to that destination. A move names new entries before
//! messages use them, and messages that were sent before the move still come by entries that the circuit has left. Both
//! kinds are kept for a while.
//!
//! On a router between the ends, two links with entries to each other are a *pair*. A move to two other links makes a
//! second pair, and no message tells the router when the first pair is out of use. When the first message comes over
//! the new pair, what is queued for the old one moves along; a pair that carries no messages any more is forgotten
//! (`pairs`).

use std::sync::{Arc, Weak};

use smallvec::SmallVec;
use weft_circuit::{HopFlow, HopQueue, Outlet};
use weft_wire::ctrl::REROUTE_ATTEMPT;

/// Most entries that the circuit has left, and most links that its queues led to before, that are remembered.
pub(super) const LEFT: usize = 8;
/// Milliseconds for which an entry that the circuit has left is kept, so that payloads that were sent before the move
/// still pass. Controllers have the routers that sent them forget the circuit 2 s after the move.
pub(super) const LEFT_FOR: u64 = 10_000;
/// Milliseconds for which a new entry waits for its first use. The first step of a move names the entry at every router;
/// only the second step, after all routers have answered, lets messages use it.
pub(super) const AHEAD_FOR: u64 = 60_000;

/// The next place for messages that come from one address.
#[derive(Debug, Clone)]
pub(crate) struct ForwardingEntry {
    /// The address that messages come from.
    pub(crate) source: Arc<str>,
    /// The address that these messages go to.
    pub(crate) destination: Arc<str>,
}

impl ForwardingEntry {
    /// True if both entries have the same source and the same destination.
    pub(in crate::forwarder) fn is(&self, other: &Self) -> bool {
        self.source == other.source && self.destination == other.destination
    }
}

/// The entries of a circuit.
pub(in crate::forwarder) type ForwardingEntries = SmallVec<[ForwardingEntry; 2]>;

/// The queue towards a neighbouring router.
#[derive(Debug)]
pub(super) struct Queue<F> {
    pub(super) link: Arc<str>,
    pub(super) hop: Arc<HopQueue<F>>,
    /// When a route last named an entry to this link.
    pub(super) named: u64,
    /// When the queue was last found to have been used, by the check that runs at intervals.
    pub(super) used: Option<u64>,
}

impl<F> Clone for Queue<F> {
    fn clone(&self) -> Self {
        let (link, hop) = (Arc::clone(&self.link), Arc::clone(&self.hop));
        Self { link, hop, named: self.named, used: self.used }
    }
}

/// The entries and queues of a circuit before a change of its entries.
#[derive(Debug)]
pub(in crate::forwarder) struct Before<F> {
    pub(in crate::forwarder) entries: ForwardingEntries,
    hops: Hops<F>,
    left: Vec<(Arc<str>, u64)>,
    unused: UnusedLinks,
    attempt: u32,
}

/// The queues towards neighbouring routers.
type Hops<F> = SmallVec<[Queue<F>; 2]>;

/// Links that have not carried a message of the circuit since a route first named them.
type UnusedLinks = SmallVec<[Arc<str>; 2]>;

/// The entries and queues of a circuit.
#[derive(Debug)]
pub(super) struct Routes<F> {
    pub(super) entries: ForwardingEntries,
    pub(super) hops: Hops<F>,
    /// Sources of entries that no other entry of the circuit sends to, the oldest first, each with the time until which its
    /// entry is kept.
    pub(super) left: Vec<(Arc<str>, u64)>,
    /// The links that queues of this circuit led to before they were moved to other links, the newest last.
    once: Vec<(Arc<str>, Weak<HopQueue<F>>)>,
    /// Links that a move has named and that have not carried a message of the circuit yet.
    pub(super) unused: UnusedLinks,
    /// The attempt that has set the circuit up; `REROUTE_ATTEMPT` if only moves have named this router.
    pub(super) attempt: u32,
}

impl<F> Default for Routes<F> {
    fn default() -> Self {
        Self {
            entries: ForwardingEntries::new(),
            hops: Hops::new(),
            left: Vec::new(),
            once: Vec::new(),
            unused: UnusedLinks::new(),
            attempt: REROUTE_ATTEMPT,
        }
    }
}

impl<F: HopFlow> Routes<F> {
    /// The address that messages from `source` go to.
    pub(super) fn next(&self, source: &str) -> Option<&Arc<str>> {
        let entry = self.entries.iter().find(|entry| &*entry.source == source);
        entry.map(|entry| &entry.destination)
    }

    /// The queue for a link.
    pub(super) fn hop(&self, link: &str) -> Option<&Arc<HopQueue<F>>> {
        self.hops.iter().find(|queue| *queue.link == *link).map(|queue| &queue.hop)
    }

    /// The queue that led to a link before a reroute moved it to another one.
    pub(super) fn hop_once_of(&self, link: &str) -> Option<Arc<HopQueue<F>>> {
        self.once.iter().rev().find(|(id, _)| **id == *link).and_then(|(_, hop)| hop.upgrade())
    }

    /// Forgets all entries and queues. Returns the entries.
    pub(super) fn clear(&mut self) -> ForwardingEntries {
        self.hops.drain(..).for_each(|queue| queue.hop.close());
        self.unused.clear();
        self.attempt = REROUTE_ATTEMPT;
        std::mem::take(&mut self.entries)
    }

    /// Adds entries; see [`Circuit::set_entries`](super::Circuit::set_entries).
    pub(super) fn set(
        &mut self,
        new: &[ForwardingEntry],
        attempt: u32,
        outlet: impl Fn(&str) -> Option<Arc<Outlet<F>>>,
        now: u64,
    ) -> Before<F> {
        let is_reroute = attempt == REROUTE_ATTEMPT;
        let Self { entries, hops, left, unused, .. } = &*self;
        let before = Before {
            entries: entries.clone(),
            hops: hops.clone(),
            left: left.clone(),
            unused: unused.clone(),
            attempt: self.attempt,
        };
        if !is_reroute {
            self.attempt = attempt;
        }
        for entry in new {
            if let Some(outlet) = outlet(&entry.destination) {
                self.lead_to(entry, new, &outlet, now);
            }
            match self.entries.iter_mut().find(|known| known.source == entry.source) {
                Some(known) => known.destination = Arc::clone(&entry.destination),
                None => {
                    if is_reroute {
                        self.unused.push(Arc::clone(&entry.source));
                    }
                    self.entries.push(entry.clone());
                }
            }
        }
        self.note_left_entries(new, now);
        let Self { unused, entries, .. } = self;
        unused.retain(|unused| entries.iter().any(|entry| entry.source == *unused));
        before
    }

    /// Puts back what [`set`](Self::set) has changed.
    pub(super) fn restore(
        &mut self,
        before: Before<F>,
        outlet: impl Fn(&str) -> Option<Arc<Outlet<F>>>,
    ) {
        let Before { entries, hops, left, unused, attempt } = before;
        let added = std::mem::replace(&mut self.hops, hops);
        let is_kept =
            |hop: &Arc<HopQueue<F>>| self.hops.iter().any(|kept| Arc::ptr_eq(&kept.hop, hop));
        added.iter().filter(|queue| !is_kept(&queue.hop)).for_each(|queue| queue.hop.close());
        for queue in &self.hops {
            if let Some(outlet) = outlet(&queue.link) {
                queue.hop.move_to(&outlet);
            }
        }
        (self.entries, self.left, self.unused) = (entries, left, unused);
        self.attempt = attempt;
    }

    /// Notes which entries the circuit has left by `new`: those whose source no entry sends to any more. The latest [`LEFT`]
    /// of them are kept. Older ones are forgotten, because their payloads have arrived by then.
    fn note_left_entries(&mut self, new: &[ForwardingEntry], now: u64) {
        let left = self.left_entries();
        let is_named = |source: &Arc<str>| new.iter().any(|entry| entry.source == *source);
        self.left.retain(|(source, _)| left.contains(source) && !is_named(source));
        for source in left {
            if self.left.iter().all(|(known, _)| *known != source) {
                let kept = if is_named(&source) { AHEAD_FOR } else { LEFT_FOR };
                self.left.push((source, now + kept));
            }
        }
        let over = self.left.len().saturating_sub(LEFT);
        let Self { left, entries, .. } = self;
        for (source, _) in left.drain(..over) {
            entries.retain(|entry| entry.source != source);
        }
    }

    /// True if the time is over for which some entry that the circuit has left is kept.
    pub(super) fn has_old_way(&self, now: u64) -> bool {
        self.left.iter().any(|(_, until)| now >= *until)
    }

    /// Forgets entries that the circuit has left, or that were never used, when their time is over.
    pub(super) fn forget_old_entries(&mut self, now: u64) {
        let (left, is_left) = (std::mem::take(&mut self.left), self.left_entries());
        let (old, young): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, until)| now >= *until);
        self.left = young;
        let is_old = |entry: &Arc<str>| old.iter().any(|(source, _)| source == entry);
        self.entries.retain(|entry| !(is_old(&entry.source) && is_left.contains(&entry.source)));
        self.close_unused_hops();
    }

    /// Closes the queues to which no entry leads.
    pub(super) fn close_unused_hops(&mut self) {
        let Self { hops, entries, .. } = self;
        hops.retain(|queue| {
            let is_used = entries.iter().any(|entry| entry.destination == queue.link);
            if !is_used {
                queue.hop.close();
            }
            is_used
        });
    }

    /// The sources of entries from neighbours that are sent no messages.
    fn left_entries(&self) -> Vec<Arc<str>> {
        let is_left =
            |entry: &&ForwardingEntry| self.entries.iter().all(|to| to.destination != entry.source);
        self.entries.iter().filter(is_left).map(|entry| Arc::clone(&entry.source)).collect()
    }

    /// Makes the queue of an entry over a link, or moves the queue of the entry that it replaces to that
    /// link.
    fn lead_to(
        &mut self,
        entry: &ForwardingEntry,
        new: &[ForwardingEntry],
        outlet: &Arc<Outlet<F>>,
        now: u64,
    ) {
        if let Some(queue) = self.hops.iter_mut().find(|queue| queue.link == entry.destination) {
            queue.named = now;
            return queue.hop.move_to(outlet);
        }
        let former = self.entries.iter().find(|known| known.source == entry.source);
        let former = former.map(|known| Arc::clone(&known.destination));
        let is_left = |link: &Arc<str>| new.iter().all(|entry| entry.destination != *link);
        let moved = former.filter(is_left).and_then(|link| {
            self.hops.iter_mut().find(|queue| queue.link == link).map(|queue| (link, queue))
        });
        let Some((link, queue)) = moved else {
            let (link, hop) = (Arc::clone(&entry.destination), HopQueue::new(Arc::clone(outlet)));
            self.hops.push(Queue { link, hop, named: now, used: None });
            return;
        };
        queue.hop.move_to(outlet);
        let hop = Arc::downgrade(&queue.hop);
        (queue.link, queue.named) = (Arc::clone(&entry.destination), now);
        if self.once.len() >= LEFT {
            self.once.remove(0);
        }
        self.once.push((Arc::clone(&link), hop));
        // Messages that still come by other entries of this direction go on over the same link.
        for other in self.entries.iter_mut().filter(|other| other.destination == link) {
            other.destination = Arc::clone(&entry.destination);
        }
    }
}
