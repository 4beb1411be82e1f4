//! The payloads that the circuits of one connection have on their way together, over short paths.
//!
//! A path below 1 ms is not paced: a circuit keeps the machines of such a path at work by several payloads on its way.
//! Many circuits of one connection need no more than that together. Bytes beyond wait in the sockets of the path,
//! where a ping waits behind them, and leave the caches of the processors. A [`Scheduler`](crate::Scheduler) therefore
//! holds such circuits back while [`MOST`] bytes of its connection are on their way.
//!
//! Half of that is on the way while a flow that sends little shares the connection ([`Crowd::share`]): its payloads wait
//! half as long in the sockets, for a tenth of the throughput of the others.
//!
//! A payload counts from its sending until its ack, but for two spans at most ([`SPAN`]: 4 to 8 ms in all). A peer that
//! acknowledges nothing delays the other circuits of the connection by no more than that.
//!
//! Circuits over longer paths are paced and do not count. They look at the empty path at the same times, which are
//! counted from the beginning of the crowd.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes on the way, with bookkeeping, at which a crowd is full.
const MOST: u64 = 512 * 1024;

/// The same while a flow that sends little shares the connection.
const MOST_SHARED: u64 = 256 * 1024;

/// How long a connection counts as shared after a payload of such a flow.
const SHARED: Duration = Duration::from_millis(100);

/// The unit of time in which payloads are counted: those of the present span and of the last one count.
const SPAN: Duration = Duration::from_millis(4);

/// The spans that are kept; more than two, so that a late ack finds no other span's bytes.
const SPANS: usize = 4;

/// The bytes that the circuits of one connection have on their way over short paths.
pub struct Crowd {
    began: Instant,
    /// For each span its number, in the upper half, and its bytes that are not acknowledged, in the lower half.
    spans: [AtomicU64; SPANS],
    /// True while a scheduler holds circuits back.
    holds: AtomicBool,
    /// The end of the time in which the connection counts as shared, in microseconds since `began`.
    shared_until: AtomicU64,
    /// Called when circuits that are held back may go on.
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Crowd {
    /// An empty crowd. `wake` is called when there is room again for circuits that a scheduler holds back.
    #[must_use]
    pub fn new(now: Instant, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            began: now,
            spans: std::array::from_fn(|_| AtomicU64::new(0)),
            holds: AtomicBool::new(false),
            shared_until: AtomicU64::new(0),
            wake: Box::new(wake),
        }
    }

    /// The time from which circuits count their turns of looking at the empty path.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// True if circuits with short paths have to wait.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        let span = self.span(now);
        let is_shared = self.micros(now) < self.shared_until.load(Ordering::Relaxed);
        let most = if is_shared { MOST_SHARED } else { MOST };
        [span, span.wrapping_sub(1)].map(|span| self.bytes(span)).iter().sum::<u64>() >= most
    }

    /// A flow that sends little was served beside others.
    pub(crate) fn share(&self, now: Instant) {
        self.shared_until.store(self.micros(now + SHARED), Ordering::Relaxed);
    }

    /// A scheduler holds circuits back. Returns the time at which the oldest bytes stop to count.
    pub(crate) fn hold(&self, now: Instant) -> Instant {
        self.holds.store(true, Ordering::Relaxed);
        let micros = now.saturating_duration_since(self.began).as_micros() % SPAN.as_micros();
        now + SPAN - Duration::from_micros(micros as u64)
    }

    /// A payload is sent.
    pub(crate) fn sent(&self, bytes: u64, now: Instant) {
        let span = self.span(now);
        self.change(span, |known| known.unwrap_or(0).saturating_add(bytes).min(u32::MAX.into()));
    }

    /// A payload that was sent at this time is acknowledged.
    pub(crate) fn arrived(&self, bytes: u64, sent_at: Instant, now: Instant) {
        let span = self.span(sent_at);
        if self.bytes(span) > 0 {
            self.change(span, |known| known.unwrap_or(0).saturating_sub(bytes));
        }
        if self.holds.load(Ordering::Relaxed)
            && !self.is_full(now)
            && self.holds.swap(false, Ordering::Relaxed)
        {
            (self.wake)();
        }
    }

    fn span(&self, at: Instant) -> u32 {
        (self.micros(at) / SPAN.as_micros() as u64) as u32
    }

    fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began).as_micros() as u64
    }

    fn bytes(&self, span: u32) -> u64 {
        let word = self.spans[span as usize % SPANS].load(Ordering::Relaxed);
        if word >> 32 == u64::from(span) { word & u64::from(u32::MAX) } else { 0 }
    }

    /// Changes the bytes of a span; `None` are those of a span that has none yet.
    fn change(&self, span: u32, change: impl Fn(Option<u64>) -> u64) {
        let slot = &self.spans[span as usize % SPANS];
        let next = |word: u64| {
            let known = (word >> 32 == u64::from(span)).then_some(word & u64::from(u32::MAX));
            Some(u64::from(span) << 32 | change(known))
        };
        // The closure always has a value.
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

impl std::fmt::Debug for Crowd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crowd").field("spans", &self.spans).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn what_is_acknowledged_makes_room_and_wakes_whoever_waits() {
        let (now, woken) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&woken);
        let crowd = Crowd::new(now, move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        (0..4).for_each(|_| crowd.sent(MOST / 4, now));
        assert!(crowd.is_full(now) && crowd.is_full(now + 5 * MILLI));
        crowd.arrived(1, now, now + MILLI);
        assert!(!crowd.is_full(now + MILLI));
        assert_eq!(woken.load(Ordering::Relaxed), 0, "nobody waits");
        crowd.sent(1, now + MILLI);
        crowd.hold(now + MILLI);
        crowd.arrived(MOST / 4, now, now + 2 * MILLI);
        crowd.arrived(MOST / 4, now, now + 2 * MILLI);
        assert_eq!(woken.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn half_as_much_is_on_the_way_while_a_flow_that_sends_little_shares_the_connection() {
        let now = Instant::now();
        let crowd = Crowd::new(now, || {});
        crowd.sent(MOST_SHARED, now);
        assert!(!crowd.is_full(now));
        crowd.share(now);
        assert!(crowd.is_full(now) && crowd.is_full(now + MILLI));
        let later = now + SHARED;
        crowd.sent(MOST_SHARED, later);
        assert!(!crowd.is_full(later));
    }

    #[test]
    fn a_peer_that_acknowledges_nothing_holds_others_back_for_two_spans_at_most() {
        let now = Instant::now();
        let crowd = Crowd::new(now, || {});
        for round in 0..1000 {
            let at = now + round * 9 * MILLI;
            assert!(!crowd.is_full(at), "{round}");
            crowd.sent(10 * MOST, at);
            assert!(crowd.is_full(at));
            let until = crowd.hold(at);
            assert!(until > at && until <= at + SPAN);
            // An ack that comes late takes nothing away from younger payloads.
            crowd.arrived(10 * MOST, now, at);
            assert!(round == 0 || crowd.is_full(at));
            assert!(!crowd.is_full(at + 2 * SPAN));
        }
    }
}
