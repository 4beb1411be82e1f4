//! The waiting codes of one identity, and the counts of its wrong codes. Pure: the time is an
//! argument.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use tokio::sync::Notify;
use tokio::time::Instant;
use weft_limits::TokenBucket;
use weft_model::Id;

use super::Guesser;

/// Pause after the first wrong code; each further wrong code doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Shortest wait that a refused sender is told.
pub(super) const LEAST_WAIT: Duration = Duration::from_secs(1);
/// Time after the last wrong code after which the pauses are forgotten.
const REMEMBERED: Duration = Duration::from_secs(300);
/// Most waiting codes of an identity, at most one of each session.
const WAITING: usize = 4;
/// Most sessions and addresses whose wrong codes are counted for an identity.
const PARTIES: usize = 64;
/// Wrong codes that do not count against a session that has sent a right one before.
const CREDIT: u32 = 3;
/// Wrong codes after which a single right code is not accepted, and the time after which one wrong
/// code is forgotten.
const DOUBTED_AFTER: u32 = 30;
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

/// A party whose wrong codes are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Party {
    Session(Id),
    Source(IpAddr),
}

/// A place in the queue.
#[derive(Debug)]
struct Waiting {
    ticket: u64,
    wrong: u32,
    session: Id,
}

impl Waiting {
    /// The rank of a waiting code; the lowest comes first. It counts wrong codes, then the age of
    /// the session (ids of sessions sort by age). A guesser that opens a session for each guess
    /// thus comes behind older sessions.
    fn rank(&self) -> (u32, &Id) {
        (self.wrong, &self.session)
    }
}

/// A right code that still needs a second one.
#[derive(Debug)]
struct Half {
    session: Id,
    code: String,
    at: Instant,
}

#[derive(Debug)]
pub(super) struct Queue {
    waiting: Vec<Waiting>,
    /// Whether a code is being checked.
    busy: bool,
    /// The earliest time of the next check.
    next: Instant,
    in_a_row: u32,
    last_wrong: Instant,
    by_party: HashMap<Party, u32>,
    /// Tokens of trust, which wrong codes use up.
    trust: TokenBucket,
    half: Option<Half>,
    changed: Arc<Notify>,
}

impl Queue {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            waiting: Vec::new(),
            busy: false,
            next: now,
            in_a_row: 0,
            last_wrong: now,
            by_party: HashMap::new(),
            trust: TokenBucket::every(FORGIVEN_EVERY, DOUBTED_AFTER, now.into_std()),
            half: None,
            changed: Arc::default(),
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

    /// The wrong codes that count against a sender. A session that has shown only the first factor
    /// also has those of its address.
    fn wrong_of(&self, guesser: &Guesser) -> u32 {
        let count = |party: &Party| self.by_party.get(party).copied().unwrap_or_default();
        let own = count(&Party::Session(guesser.session.clone()));
        if guesser.is_proven {
            return own.saturating_sub(CREDIT);
        }
        let source = guesser.source.map_or(0, |source| count(&Party::Source(source)));
        own.saturating_add(source).saturating_add(1)
    }

    /// Takes a place; true if another code was displaced for it.
    pub(super) fn join(&mut self, guesser: &Guesser, ticket: u64) -> Result<bool, Full> {
        if self.waiting.iter().any(|other| other.session == guesser.session) {
            return Err(Full);
        }
        let session = guesser.session.clone();
        let new = Waiting { ticket, wrong: self.wrong_of(guesser), session };
        let is_full = self.waiting.len() >= WAITING;
        if is_full {
            let last = (0..self.waiting.len()).max_by_key(|at| self.waiting[*at].rank());
            match last.filter(|at| self.waiting[*at].rank() > new.rank()) {
                Some(last) => drop(self.waiting.swap_remove(last)),
                None => return Err(Full),
            }
        }
        self.waiting.push(new);
        self.changed.notify_waiters();
        Ok(is_full)
    }

    /// The state of a waiting code.
    pub(super) fn step(&mut self, ticket: u64, now: Instant) -> Step {
        if !self.waiting.iter().any(|it| it.ticket == ticket) {
            return Step::Displaced;
        }
        let first = (0..self.waiting.len()).min_by_key(|at| self.waiting[*at].rank());
        let Some(first) = first.filter(|at| self.waiting[*at].ticket == ticket && !self.busy)
        else {
            return Step::Behind;
        };
        if now < self.next {
            return Step::At(self.next);
        }
        self.waiting.swap_remove(first);
        self.busy = true;
        Step::Go
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
            self.by_party.clear();
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.last_wrong = now;
        let doublings = self.in_a_row.saturating_sub(1).min(10);
        self.next = now + (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE);
        let source = guesser.source.map(Party::Source);
        for party in [Party::Session(guesser.session.clone())].into_iter().chain(source) {
            self.count(party);
        }
        self.trust.try_take(1, now.into_std()) && self.trust.available(now.into_std()) == 0
    }

    fn count(&mut self, party: Party) {
        if self.by_party.len() >= PARTIES && !self.by_party.contains_key(&party) {
            let least = self.by_party.iter().min_by_key(|(_, count)| **count);
            if let Some(least) = least.map(|(party, _)| party.clone()) {
                self.by_party.remove(&least);
            }
        }
        let count = self.by_party.entry(party).or_default();
        *count = count.saturating_add(1);
    }

    /// Forgets the pauses after a right code, and the wrong codes of its sender.
    pub(super) fn right(&mut self, guesser: &Guesser) {
        self.in_a_row = 0;
        self.by_party.remove(&Party::Session(guesser.session.clone()));
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
