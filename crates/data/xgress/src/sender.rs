//! The sending half of an end: data of the application until it is acknowledged.
//!
//! Acks are not cumulative: each names its payloads. Every payload in flight therefore keeps its own
//! times, and losses follow from them: a payload is lost if it was sent more than a reorder time before
//! one that arrived. When no ack comes at all, a copy is sent after a time-out to cause one.

mod describe;
mod flight;
mod losses;
mod outgoing;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_limits::{Budget, Grant};
use weft_wire::payload::{Ack, Flags, Payload};

use self::flight::{Flight, Sent};
use self::losses::Doubt;
pub(crate) use self::outgoing::Outgoing;
use self::outgoing::knock_of;
use crate::congestion::Acked;
use crate::rtt::Rtt;
use crate::{CongestionWindow, Crowd, Options, SEND_SLACK};

/// The longest wait of the first time-outs, unless the time-out itself is longer.
const OFTEN: Duration = Duration::from_secs(1);
const OFTEN_TIMES: u32 = 10;
/// Most time-outs that count while the peer answers that its buffer is full: it is asked every 4 s then,
/// unless the time-out itself is longer.
const MAX_KNOCKED: u32 = OFTEN_TIMES + 2;

/// Payloads that wait to be sent or acknowledged.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Payloads that were not sent yet; each gets its sequence number when it is sent.
    waiting: VecDeque<Outgoing>,
    /// Payloads that were sent and are not acknowledged.
    flight: Flight,
    /// Bytes of the payloads that wait and of those in flight, with bookkeeping, drawn from the budget.
    held: Grant,
    /// Transmissions in their order: time, sequence number, and how many times the payload was sent
    /// by then.
    order: VecDeque<(Instant, i32, u32)>,
    /// The time at which the last-sent payload among those that arrived was sent.
    arrived: Option<Instant>,
    /// Acknowledged payloads that were sent more than once; a second ack shows that the copy was
    /// needless.
    copies: BTreeSet<i32>,
    /// Bytes that the peer reports as buffered.
    reported: u32,
    pub(crate) window: CongestionWindow,
    /// The payloads of all circuits of the connection.
    crowd: Option<Arc<Crowd>>,
    rtt: Rtt,
    /// A copy whose ack came sooner than any before.
    doubt: Option<Doubt>,
    /// The time before which nothing may be sent, although payloads wait.
    paced_until: Option<Instant>,
    /// The start of the time-out: the last progress, or the last time-out.
    timer_from: Instant,
    /// Time-outs since the last progress; each doubles the next one.
    expiries: u32,
    /// True if a copy of the oldest payload is to be sent.
    probe: bool,
    /// The time since which the peer's buffer is full and nothing is in flight.
    blocked_since: Option<Instant>,
    /// True if the first payload of all is to be sent once more, empty, to learn if the peer's
    /// buffer is still full. The copy of a payload that arrived long ago is acknowledged and
    /// dropped, so that any number of them fills no buffer.
    knock: bool,
    /// The time of the last ack that acknowledged payloads, or reported that a full buffer still is
    /// full.
    progress: Instant,
    /// True once sequence numbers have run out.
    exhausted: bool,
    /// Counts for inspections.
    counts: Counts,
    options: SenderOptions,
}

/// Counts of payloads since the circuit began.
#[derive(Debug, Default)]
struct Counts {
    acknowledged: u64,
    acknowledged_again: u64,
    copies: u64,
    last_copy: Option<Instant>,
}

#[derive(Debug)]
struct SenderOptions {
    tx_max: u64,
    add: Duration,
    max: Duration,
}

impl Sender {
    pub(crate) fn new(options: &Options, budget: &Budget, now: Instant) -> Self {
        Self {
            waiting: VecDeque::new(),
            flight: Flight::default(),
            held: budget.empty(),
            order: VecDeque::new(),
            arrived: None,
            copies: BTreeSet::new(),
            reported: 0,
            window: CongestionWindow::new(options, now),
            crowd: None,
            rtt: Rtt::new(options),
            doubt: None,
            paced_until: None,
            timer_from: now,
            expiries: 0,
            probe: false,
            blocked_since: None,
            knock: false,
            progress: now,
            exhausted: false,
            counts: Counts::default(),
            options: SenderOptions {
                tx_max: options.tx_max_size,
                add: options.retx_add,
                max: options.retx_max,
            },
        }
    }

    /// True if the application may write more.
    pub(crate) fn has_room(&self) -> bool {
        let full = self.held.bytes() >= self.window.size() + SEND_SLACK as u64;
        let short = self.held.budget().free() == 0 && self.held.bytes() > 0;
        !full && !short
    }

    /// True if a payload has not been sent yet.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes data of the application.
    pub(crate) fn push(&mut self, payload: Outgoing) {
        self.held.grow_anyway(payload.cost());
        self.waiting.push_back(payload);
    }

    /// Takes a payload that goes before all unsent ones.
    pub(crate) fn push_front(&mut self, payload: Outgoing) {
        self.held.grow_anyway(payload.cost());
        self.waiting.push_front(payload);
    }

    /// The next payload to send.
    pub(crate) fn transmit(&mut self, role: Flags, stamp: u16, now: Instant) -> Option<Payload> {
        if std::mem::take(&mut self.knock) {
            self.blocked_since = Some(now);
            return Some(knock_of(role, stamp));
        }
        if std::mem::take(&mut self.probe) && !self.flight.is_empty() {
            return self.send_again(self.flight.oldest(), role, stamp, now);
        }
        let lost = self.flight.first_lost();
        let bytes =
            match (lost.and_then(|sequence| self.flight.get(sequence)), self.waiting.front()) {
                (Some(sent), _) => sent.payload.cost(),
                (None, None) => {
                    let on_the_way = self.flight.on_the_way();
                    if on_the_way < self.window.size() {
                        self.window.control().on_idle(on_the_way);
                    }
                    return None;
                }
                (None, Some(_)) if !self.flight.has_slot() => return None,
                (None, Some(next)) if self.peer_takes(next) => next.cost(),
                (None, Some(_)) => {
                    self.note_block(now);
                    return None;
                }
            };
        if !self.fits(bytes) {
            return None;
        }
        self.paced_until = self.window.next_send().filter(|at| *at > now);
        if self.paced_until.is_some() {
            return None;
        }
        match lost {
            Some(sequence) => self.send_again(sequence, role, stamp, now),
            None => self.send_first(role, stamp, now),
        }
    }

    /// True if [`transmit`](Self::transmit) has to be called.
    pub(crate) fn is_ready(&self) -> bool {
        self.knock || self.probe || (self.paced_until.is_none() && self.may_send())
    }

    /// True if the window and the peer allow another payload.
    fn may_send(&self) -> bool {
        if let Some(sent) = self.first_lost() {
            return self.fits(sent.payload.cost());
        }
        self.waiting.front().filter(|_| self.flight.has_slot()).is_some_and(|next| {
            // The end is blocked with nothing in flight, and has to notice that once, to begin its
            // wait.
            let unseen = self.flight.is_empty() && self.blocked_since.is_none();
            unseen || (self.peer_takes(next) && self.fits(next.cost()))
        })
    }

    /// Takes an ack. True if it acknowledged any payload.
    pub(crate) fn on_ack(&mut self, ack: &Ack, now: Instant) -> bool {
        self.rtt.forget_reordering(now);
        let (mut payloads, mut bytes) = (0, 0);
        let mut newest: Option<Sent> = None;
        for &sequence in &ack.sequences {
            let Some(sent) = self.take(sequence) else {
                self.acked_again(sequence, now);
                continue;
            };
            self.leaves_crowd(&sent, now);
            payloads += 1;
            bytes += sent.payload.cost();
            if sent.sends > 1 {
                self.remember_copy(sequence);
            }
            let arrived = self.which_arrived(&sent, ack.stamp, now);
            self.weigh(&sent, arrived, ack.stamp, now);
            self.arrived = Some(self.arrived.map_or(arrived, |at| at.max(arrived)));
            if newest.as_ref().is_none_or(|n| sent.last_sent >= n.last_sent) {
                newest = Some(sent);
            }
        }
        self.reported = ack.recv_buffer_size;
        if self.knock || self.blocked_since.is_some() {
            // A peer that reports its buffer is alive, however slowly it reads.
            self.progress = now;
            self.expiries = self.expiries.min(MAX_KNOCKED);
        }
        (self.knock, self.blocked_since) = (false, None);
        let Some(newest) = newest else { return false };
        let rtt = (newest.sends == 1).then(|| now.saturating_duration_since(newest.first_sent));
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt, now);
        }
        self.rtt.acknowledged(payloads);
        self.counts.acknowledged += payloads;
        let (newest, in_flight) = (newest.mark, self.flight.on_the_way());
        self.window.control().on_acked(&Acked { payloads, bytes, newest, rtt, in_flight }, now);
        if self.paced_until.is_some() {
            self.paced_until = self.window.next_send().filter(|at| *at > now);
        }
        self.progress = now;
        self.timer_from = now;
        self.expiries = 0;
        self.probe = false;
        self.find_losses();
        true
    }

    /// The time at which [`on_timeout`](Self::on_timeout) has to be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let paced = self.paced_until.filter(|_| self.may_send());
        let doubt = self.doubt.as_ref().map(|doubt| doubt.until);
        [paced, doubt, self.silent_at()].into_iter().flatten().min()
    }

    /// The time at which nothing has been heard for too long.
    fn silent_at(&self) -> Option<Instant> {
        // Lost payloads are sent again without a time-out, unless the window is full of lost
        // payloads.
        let waits = self.flight.lost() == 0 || self.flight.on_the_way() > 0;
        if !self.flight.is_empty() && !self.probe && waits {
            return Some(self.timer_from + self.timeout());
        }
        self.blocked_since.map(|since| since + self.timeout())
    }

    /// Handles the passing of time: goes on sending, sends one copy, or asks about a full buffer.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.paced_until = self.paced_until.filter(|at| *at > now);
        if let Some(doubt) = self.doubt.take_if(|doubt| doubt.until <= now) {
            self.settle(&doubt, now);
        }
        if self.silent_at().is_none_or(|at| now < at) {
            return;
        }
        self.timer_from = now;
        self.expiries += 1;
        match self.blocked_since.take() {
            Some(_) if self.flight.is_empty() => self.knock = true,
            _ => self.probe = true,
        }
    }

    /// The first hop has changed or was lost: all payloads that went there are sent again. This is
    /// no sign of congestion.
    pub(crate) fn path_changed(&mut self, now: Instant) {
        self.flight.mark_all_lost();
        self.rtt.path_changed();
        self.window.control().on_path_changed(now);
        (self.paced_until, self.doubt) = (None, None);
        self.timer_from = now;
        self.expiries = 0;
    }

    /// Drops everything that waits or is in flight.
    pub(crate) fn clear(&mut self) {
        self.waiting = VecDeque::new();
        self.flight.clear();
        self.order = VecDeque::new();
        (self.paced_until, self.doubt) = (None, None);
        (self.probe, self.knock, self.blocked_since) = (false, false, None);
        self.held.shrink(u64::MAX);
    }

    /// Frees the memory that nothing is in.
    pub(crate) fn trim(&mut self) {
        self.waiting.shrink_to_fit();
        self.flight.trim();
        self.order.shrink_to_fit();
    }

    /// The number of payloads and notes for which there is memory.
    pub(crate) fn capacity(&self) -> usize {
        let notes = self.order.capacity() + self.copies.len();
        self.waiting.capacity() + self.flight.capacity() + notes
    }

    /// The sequence number of the next payload that is sent for the first time.
    pub(crate) fn next_sequence(&self) -> i32 {
        self.flight.next_sequence()
    }

    /// True if nothing waits and nothing is in flight.
    pub(crate) fn is_drained(&self) -> bool {
        self.waiting.is_empty() && self.flight.is_empty()
    }

    /// True if data waits or is in flight.
    pub(crate) fn has_data(&self) -> bool {
        self.flight.data() > 0 || self.waiting.iter().any(|payload| !payload.data.is_empty())
    }

    /// True if only one payload without data is left in flight.
    pub(crate) fn only_mark_left(&self) -> bool {
        self.waiting.is_empty() && self.flight.data() == 0 && self.flight.count() <= 1
    }

    /// The time of the last progress.
    pub(crate) fn last_progress(&self) -> Instant {
        self.progress
    }

    /// True once sequence numbers have run out: nothing more can be sent on this circuit.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Bytes in flight, with bookkeeping.
    pub(crate) fn unacked(&self) -> u64 {
        self.flight.bytes()
    }

    /// The number of payloads in flight.
    pub(crate) fn unacked_payloads(&self) -> usize {
        self.flight.count()
    }

    /// True if a payload waits because the peer has no room.
    pub(crate) fn is_blocked_by_peer(&self) -> bool {
        self.waiting.front().is_some_and(|next| !self.peer_takes(next))
    }

    /// The smoothed round-trip time.
    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// True if this number of bytes still fits the window. One payload alone always does.
    fn fits(&self, bytes: u64) -> bool {
        let on_the_way = self.flight.on_the_way();
        on_the_way == 0 || on_the_way + bytes <= self.window.size()
    }

    /// True if the peer has room for a new payload, by its report.
    fn peer_takes(&self, next: &Outgoing) -> bool {
        let len = next.data.len();
        let reported = u64::from(self.reported);
        // A peer that has received nothing yet has nothing buffered, whatever it reports.
        let may_be_full = reported > 0 && self.next_sequence() > 0;
        let most = self.options.tx_max.min(self.window.outstanding());
        !may_be_full || self.flight.data() + reported + len as u64 <= most
    }

    fn note_block(&mut self, now: Instant) {
        if self.flight.is_empty() && self.blocked_since.is_none() {
            self.blocked_since = Some(now);
        }
    }

    fn send_first(&mut self, role: Flags, stamp: u16, now: Instant) -> Option<Payload> {
        let sequence = self.next_sequence();
        if sequence == i32::MAX {
            self.exhausted = true;
            return None;
        }
        let outgoing = self.waiting.pop_front()?;
        if self.flight.is_empty() {
            self.timer_from = now;
        }
        let payload = outgoing.payload(sequence, role, stamp);
        let (bytes, on_the_way) = (outgoing.cost(), self.flight.on_the_way());
        let mark = self.window.control().on_sent(bytes, on_the_way, false, now);
        self.joins_crowd(bytes, now);
        self.flight.push(Sent {
            payload: outgoing,
            first_sent: now,
            first_stamp: stamp,
            last_sent: now,
            last_stamp: stamp,
            sends: 1,
            mark,
        });
        self.order.push_back((now, sequence, 1));
        self.blocked_since = None;
        Some(payload)
    }

    fn send_again(
        &mut self,
        sequence: i32,
        role: Flags,
        stamp: u16,
        now: Instant,
    ) -> Option<Payload> {
        let bytes = self.flight.get(sequence)?.payload.cost();
        let mark = self.window.control().on_sent(bytes, self.flight.on_the_way(), true, now);
        self.joins_crowd(bytes, now);
        let sent = self.flight.again(sequence, stamp, mark, now)?;
        let sends = sent.sends;
        let payload = sent.payload.payload(sequence, role | Flags::RETRANSMIT, stamp);
        self.order.push_back((now, sequence, sends));
        self.timer_from = now;
        self.counts.copies += 1;
        self.counts.last_copy = Some(now);
        Some(payload)
    }

    /// The circuit sends over the connection of this crowd from now on.
    pub(crate) fn join(&mut self, crowd: &Arc<Crowd>) {
        if self.crowd.as_ref().is_none_or(|known| !Arc::ptr_eq(known, crowd)) {
            self.crowd = Some(Arc::clone(crowd));
            self.window.control().on_joined(crowd.began());
        }
    }

    fn joins_crowd(&self, bytes: u64, now: Instant) {
        if let Some(crowd) = self.crowd.as_ref().filter(|_| self.window.is_near()) {
            crowd.sent(bytes, now);
        }
    }

    fn leaves_crowd(&self, sent: &Sent, now: Instant) {
        if let Some(crowd) = self.crowd.as_ref().filter(|_| self.window.is_near()) {
            crowd.arrived(sent.payload.cost(), sent.last_sent, now);
        }
    }

    /// Takes an acknowledged payload out of flight.
    fn take(&mut self, sequence: i32) -> Option<Sent> {
        let sent = self.flight.take(sequence)?;
        self.held.shrink(sent.payload.cost());
        Some(sent)
    }

    /// The first lost payload.
    fn first_lost(&self) -> Option<&Sent> {
        self.flight.first_lost().and_then(|sequence| self.flight.get(sequence))
    }

    /// The time-out. Each expiry doubles it: the first ten up to [`OFTEN`], so that a path that comes back
    /// after some seconds is soon noticed; the later ones without that limit, so that a path that has been
    /// away for long is tried less often.
    fn timeout(&self) -> Duration {
        let first = self.rtt.timeout() + self.options.add;
        let often = first.saturating_mul(1 << self.expiries.min(16)).min(OFTEN.max(first));
        let rarely = often.saturating_mul(1 << self.expiries.saturating_sub(OFTEN_TIMES).min(16));
        if self.options.max.is_zero() { rarely } else { rarely.min(self.options.max) }
    }
}

#[cfg(test)]
#[path = "sender/tests.rs"]
mod tests;
