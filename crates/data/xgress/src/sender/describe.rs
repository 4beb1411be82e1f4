//! The state of a sender, for inspections.

use std::time::Instant;

use super::Sender;
use crate::EndSnapshot;

impl Sender {
    /// Adds its state to `out`.
    pub(crate) fn describe(&self, out: &mut EndSnapshot, now: Instant) {
        let since = |at: Instant| now.saturating_duration_since(at);
        let next = self.first_lost().map(|sent| &sent.payload).or_else(|| self.waiting.front());
        out.window = self.window.size();
        out.on_the_way = self.flight.on_the_way();
        out.unacknowledged = self.flight.bytes();
        out.waiting = self.waiting.len();
        out.lost = self.flight.lost();
        out.next_sent = self.next_sequence();
        out.peer_unread = self.reported;
        out.acknowledged = self.counts.acknowledged;
        out.acknowledged_again = self.counts.acknowledged_again;
        out.copies = self.counts.copies;
        out.since_copy = self.counts.last_copy.map(since);
        out.since_progress = since(self.progress);
        out.timeout = self.timeout();
        out.rtt = self.rtt.smoothed();
        out.blocked_by_window = next.is_some_and(|next| !self.fits(next.cost()));
        out.blocked_by_peer = self.is_blocked_by_peer();
        out.paced_for = self.paced_until.map(|at| at.saturating_duration_since(now));
        out.path = self.window.path();
    }
}
