//! The waiting passwords of a name, and their order.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use tokio::sync::Notify;
use tokio::time::Instant;
use weft_limits::Network;

use super::budget::GuessBudget;
use crate::seat::Seat;

/// Seats of a name whose wrong passwords are counted.
const SEATS: usize = 64;
/// Addresses remembered for a right password, which come first.
const KNOWN: usize = 8;
/// Time after the last wrong password of a name after which its counts are forgotten.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Wrong passwords that reduce the chance of a seat; more count as this many.
const MOST_WRONG: u32 = 8;

/// The lane of a waiting password, which decides the tokens that it draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// For addresses that have sent a right password for the name before.
    Known,
    /// For all other addresses.
    Strangers,
}

/// A waiting password of a name.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: u64,
    pub(super) source: Option<Network>,
    /// The seat of its source.
    pub(super) seat: Option<Seat>,
    /// The draw of its seat; the lowest draw comes first.
    draw: f64,
    /// Other passwords of its seat that asked since the draw.
    pub(super) rivals: u32,
}

impl Waiter {
    /// Whether this password comes before another one. Passwords of one seat have the same draw.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.draw.total_cmp(&other.draw).then(self.ticket.cmp(&other.ticket)).is_lt()
    }
}

/// The tokens of a lane, and its waiting passwords.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) budget: GuessBudget,
    pub(super) waiters: Vec<Waiter>,
    /// The number of the draw; there is a new draw after each turn.
    round: u64,
}

impl Queue {
    fn new(per_minute: u32, now: Instant) -> Self {
        Self { budget: GuessBudget::new(per_minute, now), waiters: Vec::new(), round: 0 }
    }

    /// Removes a waiting password.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<Waiter> {
        let at = self.waiters.iter().position(|waiter| waiter.ticket == ticket)?;
        Some(self.waiters.swap_remove(at))
    }

    pub(super) fn last(&self) -> Option<&Waiter> {
        self.waiters
            .iter()
            .reduce(|last, waiter| if last.is_before(waiter) { waiter } else { last })
    }
}

#[derive(Debug)]
pub(super) struct Line {
    /// Number of the name, which makes the draws of names differ.
    number: u64,
    known_queue: Queue,
    strangers: Queue,
    wrong: HashMap<Seat, u32>,
    last_wrong: Instant,
    known: Vec<Network>,
    pub(super) changed: Arc<Notify>,
}

impl Line {
    /// A line for a name with `per_minute` wrong passwords a minute. A fifth of them, and one at
    /// least, is reserved for known addresses, so that strangers cannot use it up.
    pub(super) fn new(number: u64, per_minute: u32, now: Instant) -> Self {
        let (known, strangers) = match per_minute {
            0 => (0, 0),
            _ => {
                let known = (per_minute / 5).max(1);
                (known, per_minute.saturating_sub(known).max(1))
            }
        };
        Self {
            number,
            known_queue: Queue::new(known, now),
            strangers: Queue::new(strangers, now),
            wrong: HashMap::new(),
            last_wrong: now,
            known: Vec::new(),
            changed: Arc::default(),
        }
    }

    pub(super) fn lane(&self, source: Option<Network>) -> Lane {
        match source.is_some_and(|source| self.known.contains(&source)) {
            true => Lane::Known,
            false => Lane::Strangers,
        }
    }

    pub(super) fn queue(&mut self, lane: Lane) -> &mut Queue {
        match lane {
            Lane::Known => &mut self.known_queue,
            Lane::Strangers => &mut self.strangers,
        }
    }

    /// The lane of a ticket.
    pub(super) fn lane_of(&self, ticket: u64) -> Option<Lane> {
        let is_in = |queue: &Queue| queue.waiters.iter().any(|waiter| waiter.ticket == ticket);
        match (is_in(&self.known_queue), is_in(&self.strangers)) {
            (true, _) => Some(Lane::Known),
            (_, true) => Some(Lane::Strangers),
            _ => None,
        }
    }

    /// The lane whose tokens one more password may draw on: known addresses use their own lane
    /// last.
    pub(super) fn room(&mut self, lane: Lane, now: Instant) -> Option<Lane> {
        if self.strangers.budget.has_room(now) {
            return Some(Lane::Strangers);
        }
        let is_known = lane == Lane::Known && self.known_queue.budget.has_room(now);
        is_known.then_some(Lane::Known)
    }

    /// The time until a lane has a token; zero if it has one.
    pub(super) fn wait(&mut self, lane: Lane, now: Instant) -> Duration {
        let strangers = self.strangers.budget.wait(now);
        match lane {
            Lane::Strangers => strangers,
            Lane::Known => strangers.min(self.known_queue.budget.wait(now)),
        }
    }

    /// The time until an empty lane gets a token; none if no lane is empty.
    pub(super) fn next(&mut self, lane: Lane, now: Instant) -> Option<Duration> {
        let strangers = self.strangers.budget.wait(now);
        let known = match lane {
            Lane::Known => self.known_queue.budget.wait(now),
            Lane::Strangers => Duration::ZERO,
        };
        [strangers, known].into_iter().filter(|wait| !wait.is_zero()).min()
    }

    /// The time between two turns when no tokens are left.
    pub(super) fn interval(&self) -> Duration {
        self.strangers.budget.interval()
    }

    /// A waiting password that is not in the line yet.
    pub(super) fn waiter(
        &self,
        seed: &RandomState,
        ticket: u64,
        source: Option<Network>,
    ) -> Waiter {
        let round = match self.lane(source) {
            Lane::Known => self.known_queue.round,
            Lane::Strangers => self.strangers.round,
        };
        let seat = source.map(|source| Seat::of(source, seed));
        let draw = self.draw(seed, round, (ticket, seat));
        Waiter { ticket, source, seat, draw, rivals: 0 }
    }

    /// The draw of a seat. It stays the same for a round, so that asking again gives no better
    /// one. Each wrong password makes a seat four times less likely to come first.
    fn draw(&self, seed: &RandomState, round: u64, (ticket, seat): (u64, Option<Seat>)) -> f64 {
        let hash = match seat {
            Some(seat) => seed.hash_one((self.number, round, seat)),
            None => seed.hash_one((self.number, round, ticket)),
        };
        let even = (hash as f64 + 1.0) / (u64::MAX as f64 + 2.0);
        let wrong = seat.and_then(|seat| self.wrong.get(&seat)).copied().unwrap_or_default();
        // With exponentially distributed draws, the chance of each to be the lowest is proportional
        // to its weight.
        -even.ln() * f64::from(4_u32.pow(wrong.min(MOST_WRONG)))
    }

    /// Makes a new draw for a lane, after one of its passwords had a turn.
    pub(super) fn draw_again(&mut self, seed: &RandomState, lane: Lane) {
        let round = self.queue(lane).round + 1;
        let mut waiters = std::mem::take(&mut self.queue(lane).waiters);
        for place in &mut waiters {
            place.draw = self.draw(seed, round, (place.ticket, place.seat));
            place.rivals = 0;
        }
        let queue = self.queue(lane);
        (queue.round, queue.waiters) = (round, waiters);
    }

    /// Counts a wrong password of a source.
    pub(super) fn count(&mut self, seed: &RandomState, source: Network, now: Instant) {
        let seat = Seat::of(source, seed);
        if now >= self.last_wrong + REMEMBERED {
            self.wrong.clear();
        }
        self.last_wrong = now;
        if self.wrong.len() >= SEATS && !self.wrong.contains_key(&seat) {
            let least = self.wrong.iter().min_by_key(|(_, count)| **count).map(|(it, _)| *it);
            least.and_then(|least| self.wrong.remove(&least));
        }
        let count = self.wrong.entry(seat).or_default();
        *count = count.saturating_add(1);
    }

    /// Notes that a source sent a right password.
    pub(super) fn know(&mut self, seed: &RandomState, source: Network) {
        self.wrong.remove(&Seat::of(source, seed));
        self.known.retain(|known| *known != source);
        if self.known.len() >= KNOWN {
            self.known.remove(0);
        }
        self.known.push(source);
    }

    pub(super) fn is_used(&self) -> bool {
        let is_used = |queue: &Queue| queue.budget.pending > 0 || !queue.waiters.is_empty();
        is_used(&self.known_queue) || is_used(&self.strangers)
    }

    /// Whether a new line could take the place of this one.
    pub(super) fn is_like_new(&self, now: Instant) -> bool {
        let is_full =
            self.known_queue.budget.is_like_new(now) && self.strangers.budget.is_like_new(now);
        is_full && self.known.is_empty()
    }

    /// Whether a right password was sent for the name before.
    pub(super) fn is_somebodys(&self) -> bool {
        !self.known.is_empty()
    }
}
