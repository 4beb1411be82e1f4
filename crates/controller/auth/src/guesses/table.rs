//! Names and addresses with the wrong passwords that are left, and the waiting passwords of each
//! name. Pure: the time is an argument.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use tokio::sync::Notify;
use tokio::time::Instant;
use weft_kernel::GuessLimits;
use weft_limits::Network;

use super::budget::GuessBudget;
use super::line::{Lane, Line};
use crate::guesses::verdict::Verdict;

/// Longest wait for a turn; the API answers every request within 10 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);
/// Names, and addresses, that are kept.
const KEPT: usize = 100_000;
/// Passwords of a name that may wait, in each lane, for others that are being checked.
const IN_LINE: usize = 256;
/// Passwords of a name that may wait while the name has no wrong passwords left, one of each seat.
const LATE: usize = 8;
/// Most waiting passwords of all names: this many of strangers, and as many of known addresses.
const ALL_WAITING: usize = 1024;
/// Shortest wait that a refused sender is told.
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// A sender that is told to come back is told a time this long before its turn.
const AHEAD: Duration = Duration::from_secs(4);
/// The interval at which a busy address is checked for tokens.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The state of a waiting password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The password may be checked now, with a token of this lane.
    Go(Lane),
    /// The password may be checked at this time, unless the table changes.
    At(Instant),
    /// Other passwords come first.
    Behind,
    /// Another password took its place.
    Displaced,
}

/// Why a sender has to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryReason {
    /// The sender's turn comes after the longest time that a password may wait ([`PATIENCE`]).
    Later,
    /// Passwords with better draws have all places for the next turn.
    Lost,
}

#[derive(Debug)]
pub(super) struct GuessTable {
    limits: GuessLimits,
    names: HashMap<Arc<str>, Line>,
    sources: HashMap<Network, GuessBudget>,
    waiting: Waiting,
    tickets: u64,
    /// A secret, so that nobody can predict draws.
    seed: RandomState,
}

/// Number of waiting passwords.
#[derive(Debug, Default)]
struct Waiting {
    known: usize,
    strangers: usize,
}

impl Waiting {
    fn of(&mut self, lane: Lane) -> &mut usize {
        match lane {
            Lane::Known => &mut self.known,
            Lane::Strangers => &mut self.strangers,
        }
    }
}

impl GuessTable {
    pub(super) fn new(limits: GuessLimits) -> Self {
        Self {
            limits,
            names: HashMap::new(),
            sources: HashMap::new(),
            waiting: Waiting::default(),
            tickets: 0,
            seed: RandomState::new(),
        }
    }

    /// Takes a place in the line of a name. Returns the number of the place and the notification
    /// that wakes it; the error is the time after which to try again.
    pub(super) fn join(
        &mut self,
        name: &str,
        source: Option<Network>,
        now: Instant,
    ) -> Result<(u64, Arc<Notify>), Duration> {
        self.make_room(now);
        self.tickets += 1;
        let ticket = self.tickets;
        let of_source = source.map_or(Duration::ZERO, |source| self.source(source, now).wait(now));
        let limit = self.limits.per_name;
        let line = self.names.entry(name.into());
        let line = line.or_insert_with(|| Line::new(ticket, limit, now));
        let lane = line.lane(source);
        let wait = line.wait(lane, now).max(of_source);
        if wait > PATIENCE {
            return Err(self.retry_after(name, source, RetryReason::Later, now));
        }
        let mut waiter = line.waiter(&self.seed, ticket, source);
        let queue = line.queue(lane);
        let is_late = !wait.is_zero();
        let of_seat = |it: &&mut super::line::Waiter| source.is_some() && it.seat == waiter.seat;
        let rival = queue.waiters.iter_mut().find(of_seat).filter(|_| is_late);
        let goes = match rival {
            // Each password of one seat has the same chance.
            Some(rival) => {
                rival.rivals = rival.rivals.saturating_add(1);
                waiter.rivals = rival.rivals;
                let chance = u64::from(rival.rivals) + 1;
                let hash = self.seed.hash_one((ticket, "rivals"));
                hash.is_multiple_of(chance).then_some(rival.ticket)
            }
            None => {
                let most = if is_late { LATE } else { IN_LINE };
                let is_full = queue.waiters.len() >= most || *self.waiting.of(lane) >= ALL_WAITING;
                let last = queue.last().filter(|last| waiter.is_before(last));
                match (is_full, last.map(|last| last.ticket)) {
                    (true, Some(last)) => Some(last),
                    (true, None) => None,
                    (false, _) => Some(ticket),
                }
            }
        };
        let Some(goes) = goes else {
            return Err(self.retry_after(name, source, RetryReason::Lost, now));
        };
        *self.waiting.of(lane) += 1;
        if queue.remove(goes).is_some() {
            *self.waiting.of(lane) -= 1;
        }
        queue.waiters.push(waiter);
        line.changed.notify_waiters();
        Ok((ticket, Arc::clone(&line.changed)))
    }

    fn source(&mut self, source: Network, now: Instant) -> &mut GuessBudget {
        let limit = self.limits.per_address;
        self.sources.entry(source).or_insert_with(|| GuessBudget::new(limit, now))
    }

    /// The state of a waiting password.
    pub(super) fn step(&mut self, name: &str, ticket: u64, now: Instant) -> Step {
        let Some(line) = self.names.get_mut(name) else { return Step::Displaced };
        let Some(lane) = line.lane_of(ticket) else { return Step::Displaced };
        let Some(from) = line.room(lane, now) else {
            let next = line.next(lane, now);
            return next.map_or(Step::Behind, |next| Step::At(now + next.max(LOOK_AGAIN)));
        };
        let sources = &mut self.sources;
        let mut has_room = |source: Option<Network>| {
            source.and_then(|it| sources.get_mut(&it)).is_none_or(|left| left.has_room(now))
        };
        let mut known = line.queue(Lane::Known).waiters.iter();
        if lane == Lane::Strangers && known.any(|it| has_room(it.source)) {
            return Step::Behind;
        }
        let queue = line.queue(lane);
        let Some(own) = queue.waiters.iter().find(|waiter| waiter.ticket == ticket) else {
            return Step::Displaced;
        };
        let mut before = queue.waiters.iter().filter(|waiter| waiter.is_before(own));
        if before.any(|waiter| has_room(waiter.source)) {
            return Step::Behind;
        }
        let source = own.source;
        if !has_room(source) {
            let budget = source.and_then(|source| self.sources.get_mut(&source));
            let wait = budget.map_or(LOOK_AGAIN, |budget| budget.wait(now).max(LOOK_AGAIN));
            return Step::At(now + wait);
        }
        queue.remove(ticket);
        *self.waiting.of(lane) -= 1;
        line.draw_again(&self.seed, lane);
        line.queue(from).budget.pending += 1;
        line.changed.notify_waiters();
        if let Some(source) = source {
            self.source(source, now).pending += 1;
        }
        Step::Go(from)
    }

    /// Gives up a place.
    pub(super) fn leave(&mut self, name: &str, ticket: u64) {
        let Some(line) = self.names.get_mut(name) else { return };
        let Some(lane) = line.lane_of(ticket) else { return };
        line.queue(lane).remove(ticket);
        *self.waiting.of(lane) -= 1;
        line.changed.notify_waiters();
    }

    /// Ends the check of a password.
    pub(super) fn end(
        &mut self,
        name: &str,
        (source, from): (Option<Network>, Lane),
        verdict: Verdict,
        now: Instant,
    ) {
        if let Some(line) = self.names.get_mut(name) {
            line.queue(from).budget.end(verdict, now);
            line.changed.notify_waiters();
            match (verdict, source) {
                (Verdict::Right, Some(source)) => line.know(&self.seed, source),
                (Verdict::Wrong, Some(source)) => line.count(&self.seed, source, now),
                _ => {}
            }
        }
        if let Some(budget) = source.and_then(|source| self.sources.get_mut(&source)) {
            budget.end(verdict, now);
        }
    }

    /// The time after which the sender should come back, shortly before a turn: the next turn, or
    /// the one after it if others have the places for the next ([`RetryReason::Lost`]).
    pub(super) fn retry_after(
        &mut self,
        name: &str,
        source: Option<Network>,
        why: RetryReason,
        now: Instant,
    ) -> Duration {
        let of_source = source.and_then(|source| self.sources.get_mut(&source));
        let of_source = of_source.map_or(Duration::ZERO, |budget| budget.wait(now));
        let of_name = self.names.get_mut(name).map_or((Duration::ZERO, Duration::ZERO), |line| {
            let lane = line.lane(source);
            (line.wait(lane, now), line.interval())
        });
        let next = of_name.0.max(of_source);
        let wait = match why {
            RetryReason::Later => next.saturating_sub(AHEAD),
            RetryReason::Lost => next + of_name.1.saturating_sub(AHEAD),
        };
        wait.max(LEAST_WAIT)
    }

    /// Makes room in full tables. Entries that are like new are forgotten first. If that is not
    /// enough, names without waiting passwords go: those to which no known address belongs, then
    /// all. Addresses of which no password is being checked go, too.
    fn make_room(&mut self, now: Instant) {
        if self.names.len() >= KEPT {
            self.names.retain(|_, it| it.is_used() || !it.is_like_new(now));
        }
        if self.names.len() >= KEPT {
            self.names.retain(|_, it| it.is_used() || it.is_somebodys());
        }
        if self.names.len() >= KEPT {
            self.names.retain(|_, it| it.is_used());
        }
        if self.sources.len() >= KEPT {
            self.sources.retain(|_, it| !it.is_like_new(now));
        }
        if self.sources.len() >= KEPT {
            self.sources.retain(|_, it| it.pending > 0);
        }
    }
}
