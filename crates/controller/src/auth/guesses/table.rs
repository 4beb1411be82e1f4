//! Names and addresses with what they have left, and who waits for which name. Pure: the time is an
//! argument.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use tokio::sync::Notify;
use tokio::time::Instant;
use weft_limits::TokenBucket;

use super::{GuessLimits, Source};

/// Names, and addresses, that are kept.
const KEPT: usize = 100_000;
/// Passwords of a name that may wait for others that are being looked at.
const IN_LINE: usize = 256;
/// Passwords of a name that may wait when it has nothing left.
const LATE: usize = 8;
/// Passwords of all names that may wait.
const ALL_WAITING: usize = 1024;
/// Addresses of a name that are told apart.
const SOURCES: usize = 64;
/// Addresses from which a name was right, and that come first.
const KNOWN: usize = 8;
/// How long after the last wrong password of a name it is forgotten who guessed.
const REMEMBERED: Duration = Duration::from_secs(600);
/// The shortest wait that is asked of somebody.
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// How soon it is looked again whether an address that is busy has something left.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What somebody who waits has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is his turn.
    Go,
    /// It may be his turn at this time, unless something changes.
    At(Instant),
    /// Others come before him.
    Behind,
    /// His place was given to somebody else.
    Displaced,
}

/// What became of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Wrong,
    Neither,
}

/// Wrong passwords that somebody has left, and passwords of his that are being looked at.
#[derive(Debug)]
struct Left {
    /// None if there is no limit.
    tokens: Option<TokenBucket>,
    pending: u32,
}

impl Left {
    /// As many in any minute: some at once, and the others one by one.
    fn new(per_minute: u32, now: Instant) -> Self {
        let burst = (per_minute.saturating_mul(2) / 5).max(1);
        let rate = f64::from(per_minute.saturating_sub(burst).max(1)) / 60.0;
        let tokens = (per_minute > 0).then(|| TokenBucket::new(rate, burst, now.into_std()));
        Self { tokens, pending: 0 }
    }

    fn available(&mut self, now: Instant) -> u32 {
        self.tokens.as_mut().map_or(u32::MAX, |tokens| tokens.available(now.into_std()))
    }

    /// Whether one more may be looked at; all that are might be wrong.
    fn has_room(&mut self, now: Instant) -> bool {
        self.available(now) > self.pending
    }

    /// When there is something left again.
    fn wait(&mut self, now: Instant) -> Duration {
        let wait = self.tokens.as_mut().and_then(|tokens| tokens.wait_for(1, now.into_std()));
        wait.unwrap_or_default()
    }

    fn end(&mut self, verdict: Verdict, now: Instant) {
        self.pending = self.pending.saturating_sub(1);
        if let Some(tokens) = self.tokens.as_mut().filter(|_| verdict == Verdict::Wrong) {
            tokens.try_take(1, now.into_std());
        }
    }

    fn is_like_new(&mut self, now: Instant) -> bool {
        let is_full = self.tokens.as_mut().is_none_or(|tokens| tokens.is_full(now.into_std()));
        self.pending == 0 && is_full
    }
}

/// A place in the line of a name. The lowest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_stranger: bool,
    wrong: u32,
    ticket: u64,
}

#[derive(Debug)]
struct Name {
    left: Left,
    waiting: Vec<(Rank, Option<Source>)>,
    wrong: HashMap<Source, u32>,
    last_wrong: Instant,
    known: Vec<Source>,
    changed: Arc<Notify>,
}

impl Name {
    fn new(limit: u32, now: Instant) -> Self {
        Self {
            left: Left::new(limit, now),
            waiting: Vec::new(),
            wrong: HashMap::new(),
            last_wrong: now,
            known: Vec::new(),
            changed: Arc::default(),
        }
    }

    fn rank(&self, source: Option<Source>, ticket: u64) -> Rank {
        let is_known = source.is_some_and(|source| self.known.contains(&source));
        let wrong = source.and_then(|source| self.wrong.get(&source)).copied();
        Rank { is_stranger: !is_known, wrong: wrong.unwrap_or_default(), ticket }
    }

    fn count(&mut self, source: Source, now: Instant) {
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

    fn know(&mut self, source: Source) {
        self.wrong.remove(&source);
        self.known.retain(|known| *known != source);
        if self.known.len() >= KNOWN {
            self.known.remove(0);
        }
        self.known.push(source);
    }

    fn is_used(&self) -> bool {
        self.left.pending > 0 || !self.waiting.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct Table {
    limits: GuessLimits,
    names: HashMap<Arc<str>, Name>,
    sources: HashMap<Source, Left>,
    waiting: usize,
    tickets: u64,
}

impl Table {
    pub(super) fn new(limits: GuessLimits) -> Self {
        Self { limits, names: HashMap::new(), sources: HashMap::new(), waiting: 0, tickets: 0 }
    }

    /// Takes a place in the line of a name: its number, and what is told when something changes;
    /// or says when to try again.
    pub(super) fn join(
        &mut self,
        name: &str,
        source: Option<Source>,
        now: Instant,
    ) -> Result<(u64, Arc<Notify>), Duration> {
        self.make_room(now);
        let is_late = source.is_some_and(|source| self.source(source, now).available(now) == 0);
        let limit = self.limits.per_name;
        let line = self.names.entry(name.into()).or_insert_with(|| Name::new(limit, now));
        let is_late = is_late || line.left.available(now) == 0;
        let places = if is_late { LATE } else { IN_LINE };
        let rank = line.rank(source, self.tickets);
        let last = line.waiting.iter().map(|(rank, _)| *rank).max();
        if line.waiting.len() >= places || self.waiting >= ALL_WAITING {
            let Some(last) = last.filter(|last| *last > rank) else {
                return Err(self.wait(name, source, now));
            };
            line.waiting.retain(|(rank, _)| *rank != last);
            self.waiting -= 1;
        }
        line.waiting.push((rank, source));
        line.changed.notify_waiters();
        self.waiting += 1;
        self.tickets += 1;
        Ok((rank.ticket, Arc::clone(&line.changed)))
    }

    fn source(&mut self, source: Source, now: Instant) -> &mut Left {
        let limit = self.limits.per_address;
        self.sources.entry(source).or_insert_with(|| Left::new(limit, now))
    }

    /// What the holder of a place has to do now.
    pub(super) fn step(&mut self, name: &str, ticket: u64, now: Instant) -> Step {
        let Some(line) = self.names.get_mut(name) else { return Step::Displaced };
        let own = line.waiting.iter().find(|(rank, _)| rank.ticket == ticket).copied();
        let Some((own, source)) = own else { return Step::Displaced };
        if !line.left.has_room(now) {
            return match line.left.available(now) {
                0 => Step::At(now + line.left.wait(now).max(LOOK_AGAIN)),
                _ => Step::Behind,
            };
        }
        let sources = &mut self.sources;
        let mut has_room = |source: Option<Source>| {
            source.and_then(|it| sources.get_mut(&it)).is_none_or(|left| left.has_room(now))
        };
        let mut before = line.waiting.iter().filter(|(rank, _)| *rank < own);
        if before.any(|(_, source)| has_room(*source)) {
            return Step::Behind;
        }
        if !has_room(source) {
            let left = source.and_then(|source| self.sources.get_mut(&source));
            let wait = left.map_or(LOOK_AGAIN, |left| left.wait(now).max(LOOK_AGAIN));
            return Step::At(now + wait);
        }
        line.waiting.retain(|(rank, _)| *rank != own);
        self.waiting -= 1;
        line.left.pending += 1;
        line.changed.notify_waiters();
        if let Some(source) = source {
            self.source(source, now).pending += 1;
        }
        Step::Go
    }

    /// Gives up a place.
    pub(super) fn leave(&mut self, name: &str, ticket: u64) {
        let Some(line) = self.names.get_mut(name) else { return };
        let places = line.waiting.len();
        line.waiting.retain(|(rank, _)| rank.ticket != ticket);
        self.waiting -= places - line.waiting.len();
        line.changed.notify_waiters();
    }

    /// A password was looked at.
    pub(super) fn end(
        &mut self,
        name: &str,
        source: Option<Source>,
        verdict: Verdict,
        now: Instant,
    ) {
        if let Some(line) = self.names.get_mut(name) {
            line.left.end(verdict, now);
            line.changed.notify_waiters();
            match (verdict, source) {
                (Verdict::Right, Some(source)) => line.know(source),
                (Verdict::Wrong, Some(source)) => line.count(source, now),
                _ => {}
            }
        }
        if let Some(left) = source.and_then(|source| self.sources.get_mut(&source)) {
            left.end(verdict, now);
        }
    }

    /// When to try again.
    pub(super) fn wait(&mut self, name: &str, source: Option<Source>, now: Instant) -> Duration {
        let of_name = self.names.get_mut(name).map_or(Duration::ZERO, |line| line.left.wait(now));
        let of_source = source.and_then(|source| self.sources.get_mut(&source));
        let of_source = of_source.map_or(Duration::ZERO, |left| left.wait(now));
        of_name.max(of_source).max(LEAST_WAIT)
    }

    /// Forgets those of whom there is nothing to remember, and if that is not enough those whom
    /// nobody waits for.
    fn make_room(&mut self, now: Instant) {
        if self.names.len() >= KEPT {
            self.names.retain(|_, it| it.is_used() || !it.left.is_like_new(now));
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
