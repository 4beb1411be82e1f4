//! The window of the original (docs/protocol/data-plane.md 7.7), for files that set its figures.
//!
//! The window grows with acknowledged payloads and shrinks when many had to be sent again. It
//! ignores the round-trip time, and therefore fills the queues of the path up to `txPortalMaxSize`.

use std::time::Instant;

use super::control::{Acked, Congestion, SentMark};
use crate::{Options, PathState};

#[derive(Debug)]
pub(super) struct Original {
    window: u64,
    min: u64,
    max: u64,
    /// Acknowledged payloads per increase, and the part of their bytes that it adds.
    increase_thresh: u32,
    increase_scale: f64,
    /// Payloads sent again per decrease, and the part of the window that it leaves.
    retx_thresh: u32,
    retx_scale: f64,
    /// Bytes acknowledged since the last decrease.
    accumulator: u64,
    acknowledged: u32,
    again: u32,
}

impl Original {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            window: options.tx_start_size,
            min: options.tx_min_size,
            max: options.tx_max_size,
            increase_thresh: options.tx_increase_thresh,
            increase_scale: options.tx_increase_scale,
            retx_thresh: options.tx_retx_thresh,
            retx_scale: options.tx_retx_scale,
            accumulator: 0,
            acknowledged: 0,
            again: 0,
        }
    }

    fn increase(&mut self) {
        let more = (self.accumulator as f64 * self.increase_scale) as u64;
        self.window = self.window.saturating_add(more).min(self.max);
    }

    fn decrease(&mut self) {
        self.accumulator = 0;
        self.window = ((self.window as f64 * self.retx_scale) as u64).max(self.min);
    }
}

impl Congestion for Original {
    fn window(&self) -> u64 {
        self.window
    }

    fn path(&self) -> PathState {
        PathState { phase: "original", ..PathState::default() }
    }

    fn on_sent(&mut self, _: u64, _: u64, again: bool, _: Instant) -> SentMark {
        self.again += u32::from(again);
        if again && self.again >= self.retx_thresh {
            self.again = 0;
            self.decrease();
        }
        SentMark::default()
    }

    fn on_acked(&mut self, acked: &Acked, _: Instant) {
        self.accumulator = self.accumulator.saturating_add(acked.bytes);
        self.acknowledged = self.acknowledged.saturating_add(acked.payloads as u32);
        // An ack of many payloads counts all of them; the threshold is met once, and the rest is
        // kept.
        if self.acknowledged >= self.increase_thresh {
            self.acknowledged = self.acknowledged.saturating_sub(self.increase_thresh.max(1));
            self.increase();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WindowKind;

    fn acked(payloads: u64, bytes: u64) -> Acked {
        Acked { payloads, bytes, newest: SentMark::default(), rtt: None, in_flight: 0 }
    }

    fn original() -> Original {
        Original::new(&Options {
            window: WindowKind::Original,
            tx_start_size: 100_000,
            tx_min_size: 40_000,
            tx_max_size: 200_000,
            tx_increase_thresh: 4,
            tx_increase_scale: 0.5,
            tx_retx_thresh: 2,
            tx_retx_scale: 0.5,
            ..Options::default()
        })
    }

    #[test]
    fn grows_by_what_was_acknowledged_up_to_its_largest() {
        let (mut window, now) = (original(), Instant::now());
        window.on_acked(&acked(3, 30_000), now);
        assert_eq!(window.window(), 100_000);
        window.on_acked(&acked(1, 10_000), now);
        assert_eq!(window.window(), 120_000);
        // Acknowledged bytes add up until the next payload is sent.
        window.on_acked(&acked(4, 40_000), now);
        assert_eq!(window.window(), 160_000);
        window.on_acked(&acked(4, 40_000), now);
        assert_eq!(window.window(), 200_000);
    }

    #[test]
    fn shrinks_when_much_is_sent_again_down_to_its_smallest() {
        let (mut window, now) = (original(), Instant::now());
        window.on_acked(&acked(4, 10_000), now);
        window.on_sent(1, 0, false, now);
        window.on_sent(1, 0, true, now);
        assert_eq!(window.window(), 105_000);
        window.on_sent(1, 0, true, now);
        assert_eq!(window.window(), 52_500);
        for _ in 0..2 {
            window.on_sent(1, 0, true, now);
        }
        assert_eq!(window.window(), 40_000);
        window.on_acked(&acked(4, 10_000), now);
        assert_eq!(window.window(), 45_000, "what was acknowledged before the loss is forgotten");
    }

    #[test]
    fn what_a_file_says_is_taken_as_it_is() {
        let start = Options {
            window: WindowKind::Original,
            tx_start_size: 64 << 20,
            tx_max_size: 16 << 20,
            ..Options::default()
        };
        let mut window = Original::new(&start);
        assert_eq!(window.window(), 64 << 20);
        window.on_acked(&acked(28, 1), Instant::now());
        assert_eq!(window.window(), 16 << 20);
        let every = Options { tx_increase_thresh: 0, tx_retx_thresh: 0, ..start };
        let mut window = Original::new(&every);
        window.on_sent(1, 0, true, Instant::now());
        assert_eq!(window.window(), 48 << 20, "a threshold of 0 is met each time");
    }
}
