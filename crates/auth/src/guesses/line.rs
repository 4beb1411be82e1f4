//! Who waits for a name, and who comes first.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::left::Left;
use crate::guesses::source::Source;

/// Addresses of a name that are told apart.
const SOURCES: usize = 64;
/// Addresses from which a name was right, and that come first.
const KNOWN: usize = 8;
/// How long after the last wrong password of a name it is forgotten who guessed.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Wrong passwords that make somebody's chance smaller; more count as so many.
const MOST_WRONG: u32 = 8;

/// Who waits, and what he draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Addresses from which the name was right before.
    Known,
    Strangers,
}

/// A place in the line of a name.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) ticket: u64,
    pub(super) source: Option<Source>,
    /// What its source has drawn: the lowest comes first.
    draw: f64,
    /// Others of its source that asked since it was drawn.
    pub(super) rivals: u32,
}

impl Place {
    /// Whether it comes before another one. Those of one source have the same draw.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.draw.total_cmp(&other.draw).then(self.ticket.cmp(&other.ticket)).is_lt()
    }
}

/// What those of one lane have, and who waits for it.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) left: Left,
    pub(super) places: Vec<Place>,
    /// Counts the draws: there is a new one when somebody had his turn.
    round: u64,
}

impl Queue {
    fn new(per_minute: u32, now: Instant) -> Self {
        Self { left: Left::new(per_minute, now), places: Vec::new(), round: 0 }
    }

    /// Takes a place out.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<Place> {
        let at = self.places.iter().position(|place| place.ticket == ticket)?;
        Some(self.places.swap_remove(at))
    }

    pub(super) fn last(&self) -> Option<&Place> {
        self.places.iter().reduce(|last, place| if last.is_before(place) { place } else { last })
    }
}

#[derive(Debug)]
pub(super) struct Line {
    /// Makes the draws of names differ.
    number: u64,
    known_queue: Queue,
    strangers: Queue,
    wrong: HashMap<Source, u32>,
    last_wrong: Instant,
    known: Vec<Source>,
    pub(super) changed: Arc<Notify>,
}

impl Line {
    /// The line of a name that may be guessed so often a minute. A fifth of it, at least one, is for
    /// known addresses alone: strangers cannot use it up.
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

    pub(super) fn lane(&self, source: Option<Source>) -> Lane {
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

    /// Where a ticket waits.
    pub(super) fn lane_of(&self, ticket: u64) -> Option<Lane> {
        let is_in = |queue: &Queue| queue.places.iter().any(|place| place.ticket == ticket);
        match (is_in(&self.known_queue), is_in(&self.strangers)) {
            (true, _) => Some(Lane::Known),
            (_, true) => Some(Lane::Strangers),
            _ => None,
        }
    }

    /// On what one more may draw: known addresses keep their own for when there is nothing else.
    pub(super) fn room(&mut self, lane: Lane, now: Instant) -> Option<Lane> {
        if self.strangers.left.has_room(now) {
            return Some(Lane::Strangers);
        }
        let is_known = lane == Lane::Known && self.known_queue.left.has_room(now);
        is_known.then_some(Lane::Known)
    }

    /// When there is something left again; zero if there is.
    pub(super) fn wait(&mut self, lane: Lane, now: Instant) -> Duration {
        let strangers = self.strangers.left.wait(now);
        match lane {
            Lane::Strangers => strangers,
            Lane::Known => strangers.min(self.known_queue.left.wait(now)),
        }
    }

    /// When something comes of what is used up; none if there is something of everything.
    pub(super) fn next(&mut self, lane: Lane, now: Instant) -> Option<Duration> {
        let strangers = self.strangers.left.wait(now);
        let known = match lane {
            Lane::Known => self.known_queue.left.wait(now),
            Lane::Strangers => Duration::ZERO,
        };
        [strangers, known].into_iter().filter(|wait| !wait.is_zero()).min()
    }

    /// How long it takes from one turn to the next when there is nothing left.
    pub(super) fn interval(&self) -> Duration {
        self.strangers.left.interval()
    }

    /// A place, not in the line yet.
    pub(super) fn place(&self, seed: &RandomState, ticket: u64, source: Option<Source>) -> Place {
        let round = match self.lane(source) {
            Lane::Known => self.known_queue.round,
            Lane::Strangers => self.strangers.round,
        };
        let draw = self.draw(seed, round, (ticket, source));
        Place { ticket, source, draw, rivals: 0 }
    }

    /// A draw that belongs to the source for as long as the round lasts, so that nobody gets a
    /// better one by asking again. Each wrong password makes a source four times less likely to
    /// come before another one.
    fn draw(&self, seed: &RandomState, round: u64, (ticket, source): (u64, Option<Source>)) -> f64 {
        let hash = match source {
            Some(source) => seed.hash_one((self.number, round, source)),
            None => seed.hash_one((self.number, round, ticket)),
        };
        let even = (hash as f64 + 1.0) / (u64::MAX as f64 + 2.0);
        let wrong = source.and_then(|source| self.wrong.get(&source)).copied().unwrap_or_default();
        // The least of such values is of each with a probability in proportion to its weight.
        -even.ln() * f64::from(4_u32.pow(wrong.min(MOST_WRONG)))
    }

    /// Draws anew for all that wait in a lane: one of them had his turn.
    pub(super) fn draw_again(&mut self, seed: &RandomState, lane: Lane) {
        let round = self.queue(lane).round + 1;
        let mut places = std::mem::take(&mut self.queue(lane).places);
        for place in &mut places {
            place.draw = self.draw(seed, round, (place.ticket, place.source));
            place.rivals = 0;
        }
        let queue = self.queue(lane);
        (queue.round, queue.places) = (round, places);
    }

    pub(super) fn count(&mut self, source: Source, now: Instant) {
        if now >= self.last_wrong + REMEMBERED {
            self.wrong.clear();
        }
        self.last_wrong = now;
        if self.wrong.len() >= SOURCES && !self.wrong.contains_key(&source) {
            let least = self.wrong.iter().min_by_key(|(_, count)| **count).map(|(it, _)| *it);
            least.and_then(|least| self.wrong.remove(&least));
        }
        let count = self.wrong.entry(source).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn know(&mut self, source: Source) {
        self.wrong.remove(&source);
        self.known.retain(|known| *known != source);
        if self.known.len() >= KNOWN {
            self.known.remove(0);
        }
        self.known.push(source);
    }

    pub(super) fn is_used(&self) -> bool {
        let is_used = |queue: &Queue| queue.left.pending > 0 || !queue.places.is_empty();
        is_used(&self.known_queue) || is_used(&self.strangers)
    }

    /// Whether forgetting it changes nothing.
    pub(super) fn is_like_new(&mut self, now: Instant) -> bool {
        let is_full =
            self.known_queue.left.is_like_new(now) && self.strangers.left.is_like_new(now);
        is_full && self.known.is_empty()
    }

    /// Whether somebody was right.
    pub(super) fn is_somebodys(&self) -> bool {
        !self.known.is_empty()
    }
}
