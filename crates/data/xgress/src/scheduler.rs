//! The order in which a connection serves its flows.
//!
//! Flows with messages are in a ready list. Payload flows are served round robin, a [`QUANTUM`] of
//! bytes each; a flow that overdraws its quantum pays in its next turn, so that in the long run all
//! flows get the same, whatever the size of their payloads. A flow that was served at most 8 KiB of late
//! goes before the others, so that a ping does not wait while fifty transfers have their turn. Acks go
//! first, but while payloads wait they get at most a quarter of the bytes.
//!
//! The scheduler belongs to the writer of one connection. Other threads tell the writer that a flow has
//! become ready; the writer lists the flow here by [`Scheduler::list`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::Crowd;

/// The class of a message: acks go ahead of payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Acks and control messages.
    Ack,
    /// Payloads.
    Payload,
}

/// Bytes that a flow is served in its turn.
pub const QUANTUM: i64 = 32 * 1024;

/// Most bytes in this round and the last one with which a flow counts as sending little.
const SPARSE: u64 = 8 * 1024;

/// Most bytes of acks that may be served ahead of their share.
const ACK_CREDIT: i64 = 16 * 1024;

/// A flow as the scheduler sees it: usually a handle with a lock inside.
pub trait FlowSource {
    /// The message type.
    type Frame;

    /// The next message of a class, with its cost in bytes. With `None` the scheduler forgets the
    /// flow: in the same step, under the same lock, the flow notes that it is not listed any more, so
    /// that the next message for the flow lists it again.
    fn pull(&self, class: Class, now: Instant) -> Option<(Self::Frame, u64)>;

    /// The bytes of payloads that the flow was served. The tally outlives the listing.
    fn tally(&self) -> &Tally;

    /// True if the flow's path is too short for pacing, so that its payloads count in the connection's [`Crowd`].
    fn is_near(&self) -> bool {
        false
    }
}

/// The bytes that a flow was served in the present round of its scheduler and in the last one. Only the
/// connection that serves the flow writes the tally.
#[derive(Debug, Default)]
pub struct Tally {
    round: AtomicU64,
    bytes: AtomicU64,
    before: AtomicU64,
}

impl Tally {
    /// The bytes of this round and the last one.
    fn served(&self, round: u64) -> u64 {
        let bytes = self.bytes.load(Ordering::Relaxed);
        match round.wrapping_sub(self.round.load(Ordering::Relaxed)) {
            0 => bytes.saturating_add(self.before.load(Ordering::Relaxed)),
            1 => bytes,
            _ => 0,
        }
    }

    fn add(&self, round: u64, bytes: u64) {
        let known = self.round.load(Ordering::Relaxed);
        if known == round {
            self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
            return;
        }
        let is_next = round.wrapping_sub(known) == 1;
        let before = if is_next { self.bytes.load(Ordering::Relaxed) } else { 0 };
        self.before.store(before, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.round.store(round, Ordering::Relaxed);
    }
}

/// The ready list of one connection.
#[derive(Debug)]
pub struct Scheduler<S> {
    acks: VecDeque<S>,
    /// Flows with payloads that were served little of late.
    sparse: VecDeque<S>,
    payloads: VecDeque<Listed<S>>,
    /// Flows that wait for room in the crowd, in the order of their turns.
    held: VecDeque<Listed<S>>,
    /// The payloads of all circuits of the connection that are on their way over short paths.
    crowd: Option<Arc<Crowd>>,
    /// A number that goes up when all listed flows could have had a turn.
    round: u64,
    /// Bytes of payloads served in this round.
    served: u64,
    /// Bytes of acks that may be served while payloads wait; each byte of payloads adds a third of a
    /// byte.
    ack_credit: i64,
}

#[derive(Debug)]
struct Listed<S> {
    source: S,
    /// Bytes that the flow may still be served in its turn; negative if it owes bytes.
    deficit: i64,
}

impl<S> Default for Scheduler<S> {
    fn default() -> Self {
        Self {
            acks: VecDeque::new(),
            sparse: VecDeque::new(),
            payloads: VecDeque::new(),
            held: VecDeque::new(),
            crowd: None,
            round: 2,
            served: 0,
            ack_credit: ACK_CREDIT,
        }
    }
}

impl<S: FlowSource> Scheduler<S> {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty list for a connection that holds circuits with short paths back while this crowd is full.
    #[must_use]
    pub fn with_crowd(crowd: Arc<Crowd>) -> Self {
        Self { crowd: Some(crowd), ..Self::default() }
    }

    /// Lists a flow that has messages of a class. A flow is listed once per class, and keeps track of
    /// that itself (see [`FlowSource::pull`]).
    pub fn list(&mut self, class: Class, source: S) {
        match class {
            Class::Ack => self.acks.push_back(source),
            Class::Payload if source.tally().served(self.round) < SPARSE => {
                self.sparse.push_back(source);
            }
            Class::Payload => self.payloads.push_back(Listed { source, deficit: 0 }),
        }
    }

    /// The next message to write. `None` if no flow is ready.
    pub fn next(&mut self, now: Instant) -> Option<S::Frame> {
        if (self.ack_credit > 0 || !self.has_payloads())
            && let Some(frame) = self.next_ack(now)
        {
            return Some(frame);
        }
        self.next_payload(now).or_else(|| self.next_ack(now))
    }

    /// The next ack, for a connection that carries nothing else.
    pub fn next_ack(&mut self, now: Instant) -> Option<S::Frame> {
        while let Some(source) = self.acks.pop_front() {
            let Some((frame, cost)) = source.pull(Class::Ack, now) else { continue };
            // Flows that are held back could not be served instead.
            if !self.sparse.is_empty() || !self.payloads.is_empty() {
                self.ack_credit -= cost as i64;
            }
            self.acks.push_back(source);
            return Some(frame);
        }
        None
    }

    /// True if nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.acks.is_empty() && !self.has_payloads()
    }

    /// The number of flows with payloads.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.sparse.len() + self.payloads.len() + self.held.len()
    }

    /// The time at which [`next`](Self::next) is to be called again although no flow was listed since; `None` if no
    /// flow is held back.
    #[must_use]
    pub fn held_until(&self, now: Instant) -> Option<Instant> {
        let crowd = self.crowd.as_ref().filter(|_| !self.held.is_empty())?;
        Some(crowd.hold(now))
    }

    fn has_payloads(&self) -> bool {
        !self.sparse.is_empty() || self.has_busy()
    }

    /// True if flows are listed that send much.
    fn has_busy(&self) -> bool {
        !self.payloads.is_empty() || !self.held.is_empty()
    }

    /// Takes all flows out, when the connection closes.
    pub fn drain(&mut self) -> impl Iterator<Item = (Class, S)> + '_ {
        let payloads = self.held.drain(..).chain(self.payloads.drain(..));
        let payloads = payloads.map(|listed| listed.source);
        let payloads = self.sparse.drain(..).chain(payloads).map(|source| (Class::Payload, source));
        self.acks.drain(..).map(|source| (Class::Ack, source)).chain(payloads)
    }

    fn next_payload(&mut self, now: Instant) -> Option<S::Frame> {
        if let Some(frame) = self.next_sparse(now) {
            return Some(frame);
        }
        loop {
            self.hold_or_release(now);
            let flow = self.payloads.front_mut()?;
            if flow.deficit <= 0 {
                // The turn begins, or the flow owes more than a turn gives.
                flow.deficit += QUANTUM;
                if flow.deficit <= 0 {
                    self.payloads.rotate_left(1);
                    continue;
                }
            }
            let Some((frame, cost)) = flow.source.pull(Class::Payload, now) else {
                self.payloads.pop_front();
                continue;
            };
            flow.source.tally().add(self.round, cost);
            flow.deficit -= cost as i64;
            let over = flow.deficit <= 0;
            if over {
                self.payloads.rotate_left(1);
            }
            self.count(cost);
            return Some(frame);
        }
    }

    /// Takes flows with short paths out of turn while the crowd is full, and puts the first of them back in front,
    /// between two turns, when there is room.
    fn hold_or_release(&mut self, now: Instant) {
        let Some(crowd) = &self.crowd else { return };
        if !crowd.is_full(now) {
            let is_between = self.payloads.front().is_none_or(|flow| flow.deficit <= 0);
            if is_between && let Some(flow) = self.held.pop_front() {
                self.payloads.push_front(flow);
            }
            return;
        }
        while self.payloads.front().is_some_and(|flow| flow.source.is_near()) {
            self.held.extend(self.payloads.pop_front());
        }
    }

    /// The next payload of a flow that sends little. A flow that sends more takes turns with the
    /// others from then on.
    fn next_sparse(&mut self, now: Instant) -> Option<S::Frame> {
        while let Some(source) = self.sparse.pop_front() {
            let Some((frame, cost)) = source.pull(Class::Payload, now) else { continue };
            source.tally().add(self.round, cost);
            let served = source.tally().served(self.round);
            if served < SPARSE {
                if let Some(crowd) = self.crowd.as_ref().filter(|_| self.has_busy()) {
                    crowd.share(now);
                }
                self.sparse.push_back(source);
            } else {
                // The flow has used this much of its turn.
                self.payloads.push_back(Listed { source, deficit: QUANTUM - served as i64 });
            }
            self.count(cost);
            return Some(frame);
        }
        None
    }

    fn count(&mut self, cost: u64) {
        self.ack_credit = (self.ack_credit + cost as i64 / 3).min(ACK_CREDIT);
        self.served += cost;
        // A round counts all listed flows: if many small flows could end it, they would never count as
        // busy.
        if self.served >= QUANTUM as u64 * self.flows().max(1) as u64 {
            self.served = 0;
            self.round += 1;
        }
    }
}

#[cfg(test)]
#[path = "scheduler/tests.rs"]
mod tests;
