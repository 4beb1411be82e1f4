//! Pairs of links on a router between the ends of a circuit.
//!
//! A move may give the circuit a new pair of links. What waits for the former links moves along with the first
//! message over the new pair, and a former pair is forgotten once nothing has come over it for a while.

use std::sync::Arc;

use weft_circuit::HopFlow;
use weft_wire::Message;
use weft_wire::payload::{Flags, PayloadView, content_type};

use super::routes::{AHEAD_FOR, ForwardingEntry, LEFT, LEFT_FOR, Routes};

/// Two links with entries to each other.
type Pair = [Arc<str>; 2];

/// Whether a message comes from the host's end; `None` for a control message, which does not say.
pub(in crate::forwarder) fn comes_from_host(
    content_type: i32,
    view: &PayloadView<'_>,
) -> Option<bool> {
    (content_type != content_type::CONTROL).then(|| view.flags.has(Flags::ORIGINATOR))
}

/// As [`comes_from_host`], for a message in a queue.
fn direction(message: &Message) -> Option<bool> {
    PayloadView::of(message).ok().and_then(|view| comes_from_host(message.content_type, &view))
}

impl<F: HopFlow> Routes<F> {
    /// True if the link has carried no message of the circuit since a move named it.
    pub(super) fn is_fresh(&self, link: &str) -> bool {
        self.unused.iter().any(|unused| **unused == *link)
    }

    /// Handles the first message over a link that a move has named. The message tells which of the new links leads to
    /// which end. Messages that are queued for a former link, or for a link that the circuit now uses in the other
    /// direction, move to the queue for their direction. Control messages that wait for former links are dropped,
    /// because they name no direction.
    pub(super) fn comes_over(&mut self, link: &str, comes_from_host: bool) {
        let Some(pair) = self.pair_of(link) else {
            // The route of the other direction has not come yet, or an end of the circuit is on this router.
            if self.next(link).is_some_and(|to| self.hop(to).is_none()) {
                self.unused.retain(|unused| **unused != *link);
            }
            return;
        };
        self.unused.retain(|unused| !pair.contains(unused));
        let [Some(back), Some(on)] = pair.each_ref().map(|link| self.hop(link).cloned()) else {
            return;
        };
        let to = |direction| if direction == comes_from_host { &on } else { &back };
        for queue in &self.hops {
            let is_former = !pair.contains(&queue.link);
            let goes = |message: &Message| match direction(message) {
                Some(direction) => !Arc::ptr_eq(to(direction), &queue.hop),
                None => is_former,
            };
            let taken = queue.hop.take_out(goes);
            for direction in [false, true] {
                let of_it = taken.select(|message| self::direction(message) == Some(direction));
                to(direction).put_first(of_it);
            }
        }
    }

    /// The pair that a link belongs to, with this link first.
    fn pair_of(&self, link: &str) -> Option<Pair> {
        let to = self.next(link)?;
        let back = self.next(to).filter(|back| ***back == *link && *back != to)?;
        let are_links = self.hop(link).is_some() && self.hop(to).is_some();
        are_links.then(|| [Arc::clone(back), Arc::clone(to)])
    }

    fn pairs(&self) -> Vec<Pair> {
        let pairs = self.hops.iter().filter_map(|queue| self.pair_of(&queue.link));
        pairs.filter(|[one, other]| one < other).collect()
    }

    /// Notes which queues were used since the last call.
    fn look(&mut self, now: u64) {
        for queue in self.hops.iter_mut().filter(|queue| queue.hop.was_used()) {
            queue.used = Some(now);
        }
    }

    /// When a pair was last found used, and when a route last named it.
    fn times(&self, pair: &Pair) -> (Option<u64>, u64) {
        let queues = || self.hops.iter().filter(|queue| pair.contains(&queue.link));
        let used = queues().filter_map(|queue| queue.used).max();
        (used, queues().map(|queue| queue.named).max().unwrap_or_default())
    }

    /// Forgets pairs that carry no messages any more, while the circuit uses another one. A pair that a move has named
    /// and not used yet is kept for [`AHEAD_FOR`], as a single entry is.
    pub(super) fn forget_pairs(&mut self, now: u64) {
        self.look(now);
        let pairs = self.pairs();
        let is_used = |pair: &Pair| self.times(pair).0 == Some(now);
        let newest = self.hops.iter().map(|queue| queue.named).max().unwrap_or_default();
        if pairs.len() < 2 || !pairs.iter().any(is_used) || now < newest + LEFT_FOR {
            return;
        }
        let is_old = |pair: &&Pair| {
            let (used, named) = self.times(pair);
            !is_used(pair)
                && now >= named + AHEAD_FOR
                && used.is_none_or(|used| now >= used + LEFT_FOR)
        };
        let old: Vec<Pair> = pairs.iter().filter(is_old).cloned().collect();
        old.iter().for_each(|pair| self.forget_pair(pair));
    }

    /// Keeps the present pair and [`LEFT`] others. Of the pairs that `new` does not name, those go first that have not
    /// been used for the longest time.
    pub(super) fn forget_surplus_pairs(&mut self, new: &[ForwardingEntry], now: u64) {
        self.look(now);
        let is_named = |pair: &Pair| new.iter().any(|entry| pair.contains(&entry.source));
        let mut pairs = self.pairs();
        let over = pairs.len().saturating_sub(LEFT + 1);
        pairs.retain(|pair| !is_named(pair));
        pairs.sort_by_key(|pair| self.times(pair));
        pairs.iter().take(over).for_each(|pair| self.forget_pair(pair));
    }

    fn forget_pair(&mut self, pair: &Pair) {
        self.entries.retain(|entry| !pair.contains(&entry.source));
        self.left.retain(|(source, _)| !pair.contains(source));
        self.unused.retain(|unused| !pair.contains(unused));
        self.close_unused_hops();
    }
}
