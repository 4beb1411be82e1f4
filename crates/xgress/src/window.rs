//! How much may be unacknowledged.
//!
//! The adaptive window is twice what is on its way when the circuit is used fully without queues:
//! the highest delivery rate of the last round trips times the smallest round-trip time. More only
//! fills queues; less leaves the circuit idle. There is no pacing: acks and the pull of the writer
//! are the clock.

use std::time::{Duration, Instant};

use crate::{Options, WindowKind};

/// The adaptive window never gets smaller: it covers the jitter of a busy machine.
const FLOOR: u64 = 128 * 1024;

/// The adaptive window at first, at most.
const START: u64 = 256 * 1024;

/// Round trips whose delivery rate is remembered.
const MEMORY: usize = 8;

/// The start-up ends after so many round trips in which the rate did not grow by a quarter.
const FLAT_ROUNDS: u32 = 2;

/// A payload's view of deliveries when it was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentMark {
    /// Bytes delivered when it was sent.
    delivered: u64,
    /// When the last of them was.
    delivered_at: Instant,
    /// The application was the bottleneck then.
    idle: bool,
}

/// The window of a sender.
#[derive(Debug)]
pub enum Window {
    /// So many bytes, always.
    Fixed(u64),
    /// After delivery rate and round-trip time.
    Adaptive(Box<Adaptive>),
}

impl Window {
    /// The window that the options ask for.
    #[must_use]
    pub fn new(options: &Options, now: Instant) -> Self {
        match options.window {
            WindowKind::Fixed(size) => Self::Fixed(size.min(options.tx_max_size)),
            WindowKind::Adaptive => Self::Adaptive(Box::new(Adaptive::new(options, now))),
        }
    }

    /// Bytes that may be unacknowledged.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Fixed(size) => *size,
            Self::Adaptive(adaptive) => adaptive.size(),
        }
    }

    /// A payload is sent: what it must remember for its ack.
    pub(crate) fn mark(&mut self, nothing_in_flight: bool, now: Instant) -> SentMark {
        match self {
            Self::Fixed(_) => SentMark { delivered: 0, delivered_at: now, idle: false },
            Self::Adaptive(adaptive) => adaptive.mark(nothing_in_flight, now),
        }
    }

    /// There was room in the window and nothing to send.
    pub(crate) fn ran_dry(&mut self, in_flight: u64) {
        if let Self::Adaptive(adaptive) = self {
            adaptive.idle_until = adaptive.delivered + in_flight;
        }
    }

    /// Payloads were lost, found out now.
    pub(crate) fn on_lost(&mut self, payloads: u64) {
        if let Self::Adaptive(adaptive) = self {
            adaptive.lost += payloads;
        }
    }

    /// An ack took `payloads` of together `bytes` out of flight; `newest` is the mark of the one
    /// sent last.
    pub(crate) fn on_delivered(
        &mut self,
        payloads: u64,
        bytes: u64,
        newest: SentMark,
        min_rtt: Option<Duration>,
        now: Instant,
    ) {
        if let Self::Adaptive(adaptive) = self {
            adaptive.on_delivered(payloads, bytes, newest, min_rtt, now);
        }
    }
}

/// The adaptive window.
#[derive(Debug)]
pub struct Adaptive {
    min: u64,
    max: u64,
    /// The window while starting up; afterwards the last one computed.
    size: u64,
    /// Still doubling per round trip.
    starting: bool,
    /// Bytes delivered so far, and when the last of them was.
    delivered: u64,
    delivered_at: Instant,
    /// Deliveries up to here were limited by the application.
    idle_until: u64,
    /// The round trip ends when a payload is acknowledged that was sent at or after this.
    round_ends: u64,
    /// The highest rate of each of the last round trips, bytes per second; the newest first.
    rates: [u64; MEMORY],
    /// The rate to beat during start-up, and the round trips that did not.
    rate_to_beat: u64,
    flat_rounds: u32,
    /// This round trip saw a sample that the application did not limit.
    round_was_busy: bool,
    /// Payloads delivered and lost in this round trip.
    arrived: u64,
    lost: u64,
    /// What losses leave of the window, 1 without.
    share: f64,
}

impl Adaptive {
    fn new(options: &Options, now: Instant) -> Self {
        let max = options.tx_max_size.max(1);
        let min = options.tx_min_size.max(FLOOR).min(max);
        Self {
            min,
            max,
            size: options.tx_start_size.min(START).clamp(min, max),
            starting: true,
            delivered: 0,
            delivered_at: now,
            idle_until: 0,
            round_ends: 0,
            rates: [0; MEMORY],
            rate_to_beat: 0,
            flat_rounds: 0,
            round_was_busy: false,
            arrived: 0,
            lost: 0,
            share: 1.0,
        }
    }

    fn size(&self) -> u64 {
        ((self.size as f64 * self.share) as u64).clamp(self.min, self.max)
    }

    fn mark(&mut self, nothing_in_flight: bool, now: Instant) -> SentMark {
        if nothing_in_flight {
            // Time without anything under way says nothing about the circuit.
            self.delivered_at = now;
        }
        SentMark {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            idle: self.delivered < self.idle_until,
        }
    }

    fn on_delivered(
        &mut self,
        payloads: u64,
        bytes: u64,
        newest: SentMark,
        min_rtt: Option<Duration>,
        now: Instant,
    ) {
        self.delivered += bytes;
        self.delivered_at = now;
        self.arrived += payloads;
        let Some(min_rtt) = min_rtt else { return };
        let round_is_over = newest.delivered >= self.round_ends;
        if round_is_over {
            self.end_round();
        }
        self.take_rate(newest, min_rtt, now);
        if self.starting {
            self.size = (self.size + bytes).min(self.max);
        } else {
            let rate = self.rates.iter().copied().max().unwrap_or(0);
            let on_the_way = u128::from(rate) * min_rtt.as_nanos() / 1_000_000_000;
            self.size = u64::try_from(on_the_way * 2).unwrap_or(u64::MAX).clamp(self.min, self.max);
        }
    }

    fn take_rate(&mut self, newest: SentMark, min_rtt: Duration, now: Instant) {
        // Acks that arrive in a clump are not faster than light.
        let took = now.saturating_duration_since(newest.delivered_at).max(min_rtt);
        let bytes = self.delivered.saturating_sub(newest.delivered);
        let nanos = took.as_nanos().max(1);
        let rate = u64::try_from(u128::from(bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX);
        // An idle application may show a higher rate, never a lower one.
        let best = self.rates.iter().copied().max().unwrap_or(0);
        if newest.idle && rate <= best {
            return;
        }
        self.round_was_busy |= !newest.idle;
        self.rates[0] = self.rates[0].max(rate);
    }

    fn end_round(&mut self) {
        self.round_ends = self.delivered;
        self.judge_losses();
        if !std::mem::take(&mut self.round_was_busy) {
            return;
        }
        let best = self.rates.iter().copied().max().unwrap_or(0);
        if best >= self.rate_to_beat + self.rate_to_beat / 4 {
            self.rate_to_beat = best;
            self.flat_rounds = 0;
        } else {
            self.flat_rounds += 1;
        }
        if self.flat_rounds >= FLAT_ROUNDS {
            self.starting = false;
        }
        self.rates.rotate_right(1);
        self.rates[0] = 0;
    }

    /// More than 2 % lost in a round trip: somebody's queue is full.
    fn judge_losses(&mut self) {
        let (arrived, lost) = (std::mem::take(&mut self.arrived), std::mem::take(&mut self.lost));
        if lost * 50 > arrived + lost {
            self.share = (self.share * 0.7).max(0.01);
            self.starting = false;
        } else {
            self.share = (self.share * 1.1).min(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PAYLOAD: u64 = 32 * 1024;

    /// A circuit that carries `rate` bytes per second and takes `rtt` without queues, always as
    /// full as the window allows. Returns the window after `seconds`.
    fn run(window: &mut Window, rate: u64, rtt: Duration, seconds: u64) -> u64 {
        let start = Instant::now();
        let mut now = start;
        let mut sent = std::collections::VecDeque::new();
        let mut in_flight = 0;
        let mut link_free = start;
        while now < start + Duration::from_secs(seconds) {
            while in_flight + PAYLOAD <= window.size() {
                let mark = window.mark(in_flight == 0, now);
                link_free =
                    link_free.max(now) + Duration::from_nanos(PAYLOAD * 1_000_000_000 / rate);
                sent.push_back((mark, link_free + rtt));
                in_flight += PAYLOAD;
            }
            let (mark, arrives) = sent.pop_front().unwrap();
            now = arrives;
            in_flight -= PAYLOAD;
            window.on_delivered(1, PAYLOAD, mark, Some(rtt), now);
        }
        window.size()
    }

    #[test]
    fn settles_at_twice_what_is_on_its_way() {
        for (rate, rtt) in [(20_000_000u64, 50 * MS), (50_000_000, 20 * MS), (10_000_000, 40 * MS)]
        {
            let mut window = Window::new(&Options::default(), Instant::now());
            let size = run(&mut window, rate, rtt, 5);
            let ideal = rate * rtt.as_millis() as u64 / 1000 * 2;
            assert!(size > ideal * 7 / 10 && size < ideal * 13 / 10, "{size} of {ideal}");
        }
    }

    #[test]
    fn keeps_its_bounds() {
        let mut window = Window::new(&Options::default(), Instant::now());
        assert_eq!(run(&mut window, 1_000_000, MS, 3), FLOOR);
        let mut window = Window::new(&Options::default(), Instant::now());
        assert_eq!(run(&mut window, 1_000_000_000, 100 * MS, 5), 4 << 20);
        let tiny = Options { tx_max_size: 20_000, ..Options::default() };
        assert_eq!(Window::new(&tiny, Instant::now()).size(), 20_000);
    }

    #[test]
    fn losses_shrink_it_and_peace_restores_it() {
        let now = Instant::now();
        let mut window = Window::new(&Options::default(), now);
        let before = run(&mut window, 50_000_000, 50 * MS, 3);
        let round = |window: &mut Window, lost| {
            window.on_lost(lost);
            let mark = window.mark(false, now);
            window.on_delivered(20, 20 * PAYLOAD, mark, Some(50 * MS), now + 50 * MS);
        };
        round(&mut window, 5);
        let after = window.size();
        assert!(after < before * 8 / 10, "{after} of {before}");
        (0..10).for_each(|_| round(&mut window, 0));
        let Window::Adaptive(adaptive) = &window else { unreachable!() };
        assert!((adaptive.share - 1.0).abs() < 1e-9);
    }
}
