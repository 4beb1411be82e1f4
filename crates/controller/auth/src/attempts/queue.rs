//! The waiting codes of one identity, and the counts of its wrong codes. Pure: the time is an
//! argument.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use tokio::sync::Notify;
use tokio::time::Instant;
use weft_limits::{Network, TokenBucket};
use weft_model::Id;

use super::guesser::Guesser;
use crate::seat::Seat;

/// Pause after the first wrong code; each further wrong code doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Shortest wait that a refused sender is told.
pub(super) const LEAST_WAIT: Duration = Duration::from_secs(1);
/// Time after the last wrong code after which the pauses are forgotten.
const REMEMBERED: Duration = Duration::from_secs(300);
/// Most waiting codes in a lane of an identity, at most one of each session.
const PLACES: usize = 4;
/// Most seats of an identity whose last turns are remembered; above that the one goes whose last
/// turn is the longest ago.
pub(super) const SEATS: usize = 256;
/// Most sessions whose wrong codes are counted for an identity.
const SESSIONS: usize = 64;
/// Wrong codes that reduce the chance of a session; more count as this many.
const MOST_WRONG: u32 = 8;
/// Wrong codes after which a single right code is not accepted, and the time after which one wrong
/// code is forgotten.
pub(super) const DOUBTED_AFTER: u32 = 30;
const FORGIVEN_EVERY: Duration = Duration::from_secs(3600);
/// Longest time between two right codes that confirm each other.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(120);

/// The state of a waiting code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The code may be checked now.
    Go,
    /// The code may be checked at this time, unless the queue changes.
    At(Instant),
    /// Other codes come first.
    Behind,
    /// Another code took its place.
    Displaced,
}

/// The queue has no place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// The lane of a waiting code. The lanes in which codes wait have turns one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// For the session that has sent a right code and needs a second one.
    Confirming,
    /// For sources from which a right code of the identity came before, and for sessions that have
    /// sent one.
    Known,
    /// For sources whose seat has had no turn.
    New,
    /// For all others.
    Others,
}

/// Number of lanes.
pub(super) const LANES: usize = 4;

impl Lane {
    /// Whether somebody who has only the first factor can put codes into the lane from any source.
    pub(super) fn is_for_strangers(self) -> bool {
        matches!(self, Self::New | Self::Others)
    }
}

/// A place in the queue.
#[derive(Debug)]
struct Waiting {
    ticket: u64,
    lane: Lane,
    seat: Option<Seat>,
    source: Option<Network>,
    session: Id,
}

/// The order of codes in a lane; the lowest comes first. The seat comes first whose last turn is
/// the longest ago. Seats without a turn draw lots, and so do the sources of a seat and the
/// sessions of a source. The age of a session counts nowhere: whoever opens sessions in advance
/// gains nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    last_turn: u64,
    seat: u64,
    source: u64,
    session: u64,
}

/// A right code that still needs a second one.
#[derive(Debug)]
struct Half {
    session: Id,
    code: String,
    at: Instant,
}

#[derive(Debug)]
pub(super) struct Queue<S = RandomState> {
    waiting: Vec<Waiting>,
    /// Whether a code is being checked.
    busy: bool,
    /// The earliest time of the next check.
    next: Instant,
    in_a_row: u32,
    last_wrong: Instant,
    /// The number of turns so far.
    turns: u64,
    /// The last turn of each lane. There are new draws after each turn of a lane, and not sooner,
    /// so that asking again gives no better one.
    lanes: [u64; LANES],
    /// The last turn of each seat.
    seats: HashMap<Option<Seat>, u64>,
    wrong_of_sessions: HashMap<Id, u32>,
    /// Tokens of trust, which wrong codes use up.
    trust: TokenBucket,
    half: Option<Half>,
    changed: Arc<Notify>,
    /// A secret, so that nobody can predict draws.
    secret: S,
}

impl Queue {
    pub(super) fn new(now: Instant) -> Self {
        Self::with_secret(RandomState::new(), now)
    }
}

impl<S: BuildHasher> Queue<S> {
    pub(super) fn with_secret(secret: S, now: Instant) -> Self {
        Self {
            waiting: Vec::new(),
            busy: false,
            next: now,
            in_a_row: 0,
            last_wrong: now,
            turns: 0,
            lanes: [0; LANES],
            seats: HashMap::new(),
            wrong_of_sessions: HashMap::new(),
            trust: TokenBucket::every(FORGIVEN_EVERY, DOUBTED_AFTER, now.into_std()),
            half: None,
            changed: Arc::default(),
            secret,
        }
    }

    /// The notification that wakes all waiting codes.
    pub(super) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// Whether a new queue could take the place of this one.
    pub(super) fn is_like_new(&self, now: Instant) -> bool {
        let is_quiet = self.in_a_row == 0 || now >= self.last_wrong + REMEMBERED;
        !self.is_used() && is_quiet && self.trust.is_full(now.into_std())
    }

    /// Whether a code waits or is being checked.
    pub(super) fn is_used(&self) -> bool {
        self.busy || !self.waiting.is_empty()
    }

    /// Whether a new code would be checked at once.
    pub(super) fn is_free(&self, now: Instant) -> bool {
        !self.is_used() && now >= self.next
    }

    /// The time after which to try again if the queue has no place.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now).max(LEAST_WAIT)
    }

    /// The lane of a code. `is_known` says whether a right code of the identity came from the
    /// source before.
    pub(super) fn lane(&self, guesser: &Guesser, is_known: bool, now: Instant) -> Lane {
        let confirms =
            |half: &Half| half.session == guesser.session && now < half.at + CONFIRMED_WITHIN;
        match self.half.as_ref().is_some_and(confirms) {
            true => Lane::Confirming,
            false if is_known || guesser.is_proven => Lane::Known,
            false if self.seats.contains_key(&self.seat(guesser)) => Lane::Others,
            false => Lane::New,
        }
    }

    fn seat(&self, guesser: &Guesser) -> Option<Seat> {
        guesser.source.map(|source| Seat::of(Network::of(source), &self.secret))
    }

    /// Whether all places of a lane are taken, so that a new code takes the place of another one
    /// or gets none.
    pub(super) fn is_full(&self, lane: Lane) -> bool {
        self.waiting.iter().filter(|other| other.lane == lane).count() >= PLACES
    }

    /// Takes a place in a lane; true if another code of the lane was displaced for it.
    pub(super) fn join(
        &mut self,
        guesser: &Guesser,
        lane: Lane,
        ticket: u64,
    ) -> Result<bool, Full> {
        if self.waiting.iter().any(|other| other.session == guesser.session) {
            return Err(Full);
        }
        let is_full = self.is_full(lane);
        self.waiting.push(Waiting {
            ticket,
            lane,
            seat: self.seat(guesser),
            source: guesser.source.map(Network::of),
            session: guesser.session.clone(),
        });
        let last = self.last(lane).filter(|_| is_full);
        let displaced = last.map(|last| self.waiting.swap_remove(last).ticket);
        if displaced == Some(ticket) {
            return Err(Full);
        }
        self.changed.notify_waiters();
        Ok(is_full)
    }

    fn rank(&self, of: &Waiting) -> Rank {
        let round = self.lanes[of.lane as usize];
        let wrong = self.wrong_of_sessions.get(&of.session).copied().unwrap_or_default();
        Rank {
            last_turn: self.seats.get(&of.seat).copied().unwrap_or_default(),
            seat: self.secret.hash_one((round, of.seat)),
            source: self.secret.hash_one((round, of.source)),
            session: self.draw((round, &of.session), wrong),
        }
    }

    /// A draw. Each wrong code makes it four times less likely that a session comes first.
    fn draw(&self, what: impl Hash, wrong: u32) -> u64 {
        let even = (self.secret.hash_one(what) as f64 + 1.0) / (u64::MAX as f64 + 2.0);
        // With exponentially distributed draws, the chance of each to be the lowest is proportional
        // to its weight. The bits of numbers that are not negative have the order of the numbers.
        (even.ln() * f64::from(4_u32.pow(wrong.min(MOST_WRONG)))).abs().to_bits()
    }

    /// The code that comes next.
    fn first(&self) -> Option<usize> {
        (0..self.waiting.len()).min_by_key(|at| {
            let it = &self.waiting[*at];
            (self.lanes[it.lane as usize], it.lane, self.rank(it))
        })
    }

    /// The code that gives way in a lane. Each seat has a place before any seat has a second one.
    fn last(&self, lane: Lane) -> Option<usize> {
        let own = (0..self.waiting.len()).filter(|at| self.waiting[*at].lane == lane);
        own.max_by_key(|at| {
            let (it, rank) = (&self.waiting[*at], self.rank(&self.waiting[*at]));
            let same_seat = self.waiting.iter().filter(|o| (o.lane, o.seat) == (lane, it.seat));
            (same_seat.filter(|other| self.rank(other) < rank).count(), rank)
        })
    }

    /// The state of a waiting code.
    pub(super) fn step(&mut self, ticket: u64, now: Instant) -> Step {
        if !self.waiting.iter().any(|it| it.ticket == ticket) {
            return Step::Displaced;
        }
        let first = self.first().filter(|at| self.waiting[*at].ticket == ticket && !self.busy);
        let Some(first) = first else { return Step::Behind };
        if now < self.next {
            return Step::At(self.next);
        }
        let Waiting { lane, seat, .. } = self.waiting.swap_remove(first);
        self.busy = true;
        self.turns += 1;
        self.lanes[lane as usize] = self.turns;
        self.note_turn(seat);
        Step::Go
    }

    fn note_turn(&mut self, seat: Option<Seat>) {
        if self.seats.len() >= SEATS && !self.seats.contains_key(&seat) {
            let oldest = self.seats.iter().min_by_key(|(_, turn)| **turn).map(|(seat, _)| *seat);
            oldest.and_then(|oldest| self.seats.remove(&oldest));
        }
        self.seats.insert(seat, self.turns);
    }

    /// Gives up a place or a turn; true if it was a place.
    pub(super) fn leave(&mut self, ticket: u64) -> bool {
        let own = self.waiting.iter().position(|it| it.ticket == ticket);
        if let Some(own) = own {
            self.waiting.swap_remove(own);
        }
        self.changed.notify_waiters();
        own.is_some()
    }

    /// Ends a turn.
    pub(super) fn end(&mut self) {
        self.busy = false;
    }

    /// Counts a wrong code. True if from now on a single right code is not accepted.
    pub(super) fn wrong(&mut self, guesser: &Guesser, now: Instant) -> bool {
        if now >= self.last_wrong + REMEMBERED {
            self.in_a_row = 0;
            self.seats.clear();
            self.wrong_of_sessions.clear();
            self.note_turn(self.seat(guesser));
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.last_wrong = now;
        let doublings = self.in_a_row.saturating_sub(1).min(10);
        self.next = now + (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE);
        self.count(&guesser.session);
        self.trust.try_take(1, now.into_std()) && self.trust.available(now.into_std()) == 0
    }

    fn count(&mut self, session: &Id) {
        let counts = &mut self.wrong_of_sessions;
        if counts.len() >= SESSIONS && !counts.contains_key(session) {
            let least = counts.iter().min_by_key(|(_, count)| **count);
            if let Some(least) = least.map(|(session, _)| session.clone()) {
                counts.remove(&least);
            }
        }
        let count = counts.entry(session.clone()).or_default();
        *count = count.saturating_add(1);
    }

    /// Forgets the pauses after a right code, and the wrong codes of its sender.
    pub(super) fn right(&mut self, guesser: &Guesser) {
        self.in_a_row = 0;
        self.wrong_of_sessions.remove(&guesser.session);
        self.half = None;
    }

    /// Whether a right code is accepted; if not, it is remembered to confirm the next one.
    pub(super) fn believes(&mut self, session: &Id, code: &str, now: Instant) -> bool {
        if self.trust.available(now.into_std()) > 0 {
            return true;
        }
        let is_second = self.half.as_ref().is_some_and(|half| {
            half.session == *session && half.code != code && now < half.at + CONFIRMED_WITHIN
        });
        if !is_second {
            self.half = Some(Half { session: session.clone(), code: code.to_owned(), at: now });
        }
        is_second
    }
}
