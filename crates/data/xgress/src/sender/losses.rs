//! Which transmission of a payload arrived, and which payloads are lost.

use std::time::{Duration, Instant};

use super::Sender;
use super::flight::Sent;

/// Most copies that are remembered, to notice that both arrived.
const MAX_COPIES: usize = 256;

/// A copy of a payload was acknowledged sooner than the shortest round trip takes: either its first transmission arrived
/// very late, or the path has become shorter.
#[derive(Debug)]
pub(super) struct Doubt {
    /// The time at which the copy was sent, and the round-trip time if the copy arrived.
    pub(super) copied: Instant,
    pub(super) rtt: Duration,
    /// The end of the doubt: until then, late acks of what was sent first would have come.
    pub(super) until: Instant,
}

impl Sender {
    /// Doubts that the first transmission arrived, if it looks so only because the ack came soon after the copy. Any ack
    /// of a payload that was sent once, before the copy, ends the doubt: late acks of what was sent first come together.
    pub(super) fn weigh(&mut self, sent: &Sent, arrived: Instant, stamp: u16, now: Instant) {
        if sent.sends == 1 {
            self.doubt.take_if(|doubt| sent.first_sent < doubt.copied);
        } else if arrived < sent.last_sent && stamp != sent.first_stamp {
            let until = now + self.rtt.reorder_time();
            let rtt = now.saturating_duration_since(sent.last_sent);
            self.doubt = Some(Doubt { copied: sent.last_sent, rtt, until });
        }
    }

    /// The copy did arrive: no late acks came. The path is shorter than it was, mostly because a queue is gone.
    pub(super) fn settle(&mut self, doubt: &Doubt, now: Instant) {
        self.rtt.shorter(doubt.rtt, now);
        self.arrived = Some(self.arrived.map_or(doubt.copied, |at| at.max(doubt.copied)));
        self.find_losses();
    }

    /// The time at which the acknowledged transmission of a payload was sent. The stamp in the ack
    /// tells the first transmission from the last copy. If the stamp is that of neither, the last copy
    /// counts, unless its ack came sooner than after the shortest round trip.
    pub(super) fn which_arrived(&self, sent: &Sent, stamp: u16, now: Instant) -> Instant {
        if sent.sends == 1 || sent.first_stamp == stamp {
            return sent.first_sent;
        }
        let possible = self.rtt.min().unwrap_or_default();
        if sent.last_stamp == stamp || now.saturating_duration_since(sent.last_sent) >= possible {
            return sent.last_sent;
        }
        sent.first_sent
    }

    pub(super) fn remember_copy(&mut self, sequence: i32) {
        if self.copies.len() == MAX_COPIES {
            self.copies.pop_first();
        }
        self.copies.insert(sequence);
    }

    pub(super) fn acked_again(&mut self, sequence: i32, now: Instant) {
        self.rtt.duplicate();
        self.counts.acknowledged_again += 1;
        if self.copies.remove(&sequence) {
            self.rtt.was_only_late(now);
        }
    }

    /// Marks payloads as lost that were sent more than a reorder time before one that arrived.
    pub(super) fn find_losses(&mut self) {
        let Some(arrived) = self.arrived else { return };
        let reorder = self.rtt.reorder_time();
        let mut found = 0;
        while let Some(&(at, sequence, sends)) = self.order.front() {
            let current = self.flight.get(sequence).is_some_and(|sent| sent.sends == sends);
            if current {
                if at + reorder >= arrived {
                    break;
                }
                found += u64::from(self.flight.mark_lost(sequence));
            }
            self.order.pop_front();
        }
        if found > 0 {
            self.window.control().on_lost(found);
        }
    }
}
