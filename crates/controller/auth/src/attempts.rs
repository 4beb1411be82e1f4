//! Limits how fast codes of second factors may be guessed (docs/protocol/auth.md 11.3). The counts
//! are kept in memory only, and are bounded.
//!
//! Codes of an identity are checked one after the other, with a pause after wrong ones, so that
//! codes sent at once are answered no sooner than codes sent one by one. The pause is at most 5 s,
//! and holds for right codes too.
//!
//! Only few codes may wait. They wait in lanes, which have turns one after the other: for sources
//! from which a right code of the identity came before, for sources that have had no turn yet, and
//! for all others, whose turns go round by source (`queue::Lane`). Whoever has only the password thus
//! keeps no owner out, from however many sources: the owner has every third turn at a known source,
//! and at a new one a turn before any source has a second one.
//!
//! A pause alone does not stop a guesser: with five valid codes in a million at any time, a guess
//! every 5 s finds one within days. After many wrong codes, a right code therefore counts only
//! together with another right code of the same session ([`CodeAttempt::believes`]). A guesser is left
//! with one chance in 8000 a day.

#[cfg(test)]
mod crowds;
mod guesser;
mod known;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use known::KnownSources;
use parking_lot::Mutex;
use queue::{Lane, Queue, Step};
use tokio::time::Instant;
use weft_model::Id;

pub use self::guesser::Guesser;

/// Longest wait for a turn; the API answers every request within 10 s.
const PATIENCE: Duration = Duration::from_secs(8);
/// Most waiting codes of all identities: this many in lanes that anybody can fill who has a first
/// factor, and as many in the others. Each of them holds a place among the requests of the web
/// server.
const ALL_WAITING: usize = 128;
/// Most queues that are kept; above that, unused queues are forgotten.
const QUEUES: usize = 100_000;

/// The kind of a code, judged by its form. Wrong codes of one kind do not delay codes of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeKind {
    /// Six digits.
    Totp,
    /// Any other form.
    Recovery,
}

impl CodeKind {
    /// The kind of a code.
    pub fn of(code: &str) -> Self {
        let is_totp = code.len() == 6 && code.bytes().all(|byte| byte.is_ascii_digit());
        if is_totp { Self::Totp } else { Self::Recovery }
    }
}

/// The queues of all identities. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Attempts(Arc<Mutex<Queues>>);

#[derive(Debug, Default)]
struct Queues {
    by_owner: HashMap<(Id, CodeKind), Queue>,
    known: KnownSources,
    waiting: WaitingCodes,
    tickets: u64,
}

/// Number of waiting codes.
#[derive(Debug, Default)]
struct WaitingCodes {
    strangers: usize,
    others: usize,
}

impl WaitingCodes {
    fn of(&mut self, lane: Lane) -> &mut usize {
        if lane.is_for_strangers() { &mut self.strangers } else { &mut self.others }
    }
}

impl Attempts {
    /// Waits until a code of this kind may be checked; the error is the time after which to try
    /// again.
    pub async fn attempt(&self, guesser: Guesser, kind: CodeKind) -> Result<CodeAttempt, Duration> {
        let queued = self.join(guesser, kind, Instant::now())?;
        match tokio::time::timeout(PATIENCE, queued.called()).await {
            Ok(true) => {}
            _ => return Err(self.wait_of(&queued.key, Instant::now())),
        }
        Ok(CodeAttempt { queued, verdict: Verdict::Wrong })
    }

    fn join(&self, guesser: Guesser, kind: CodeKind, now: Instant) -> Result<QueuedCode, Duration> {
        let key = (guesser.identity.clone(), kind);
        let mut held = self.0.lock();
        let queues = &mut *held;
        queues.make_room(&key, now);
        let queue = queues.by_owner.entry(key.clone()).or_insert_with(|| Queue::new(now));
        let wait = queue.wait(now);
        let lane = queue.lane(&guesser, queues.known.has(&guesser, now), now);
        let waiting = queues.waiting.of(lane);
        if *waiting >= ALL_WAITING && !queue.is_free(now) && !queue.is_full(lane) {
            return Err(wait);
        }
        let ticket = queues.tickets;
        let displaced = queue.join(&guesser, lane, ticket).map_err(|_| wait)?;
        let changed = queue.changed();
        *waiting += 1;
        *waiting -= usize::from(displaced);
        queues.tickets += 1;
        drop(held);
        Ok(QueuedCode { attempts: self.clone(), key, guesser, lane, ticket, changed })
    }

    /// Forgets the sources from which right codes of an identity came, as its second factor is
    /// gone.
    pub fn forget(&self, identity: &Id) {
        self.0.lock().known.forget(identity);
    }

    fn wait_of(&self, key: &(Id, CodeKind), now: Instant) -> Duration {
        let queues = self.0.lock();
        queues.by_owner.get(key).map_or(queue::LEAST_WAIT, |queue| queue.wait(now))
    }
}

impl Queues {
    fn make_room(&mut self, key: &(Id, CodeKind), now: Instant) {
        if self.by_owner.len() < QUEUES || self.by_owner.contains_key(key) {
            return;
        }
        self.by_owner.retain(|_, queue| !queue.is_like_new(now));
        if self.by_owner.len() >= QUEUES {
            self.by_owner.retain(|_, queue| queue.is_used());
        }
    }
}

/// A place in a queue. Dropping it gives the place up.
#[derive(Debug)]
struct QueuedCode {
    attempts: Attempts,
    key: (Id, CodeKind),
    guesser: Guesser,
    lane: Lane,
    ticket: u64,
    changed: Arc<tokio::sync::Notify>,
}

impl QueuedCode {
    /// Waits for the turn; false if another code displaced this one.
    async fn called(&self) -> bool {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.step(Instant::now()) {
                Step::Go => return true,
                Step::Displaced => return false,
                Step::Behind => changed.await,
                Step::At(time) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(time) => {}
                        () = changed => {}
                    }
                }
            }
        }
    }

    fn step(&self, now: Instant) -> Step {
        let mut queues = self.attempts.0.lock();
        let queue = queues.by_owner.get_mut(&self.key);
        let step = queue.map_or(Step::Displaced, |queue| queue.step(self.ticket, now));
        if matches!(step, Step::Go) {
            *queues.waiting.of(self.lane) -= 1;
        }
        step
    }

    /// Runs `act` on the queue of the place.
    fn with_queue<T>(&self, act: impl FnOnce(&mut Queue) -> T) -> Option<T> {
        self.attempts.0.lock().by_owner.get_mut(&self.key).map(act)
    }

    /// Ends the turn that the place led to. True if from now on a single right code is not
    /// accepted.
    fn end(&self, verdict: Verdict, now: Instant) -> bool {
        let mut held = self.attempts.0.lock();
        let queues = &mut *held;
        if verdict == Verdict::Right {
            queues.known.note(&self.guesser, now);
        }
        let Some(queue) = queues.by_owner.get_mut(&self.key) else { return false };
        queue.end();
        match verdict {
            Verdict::Right => queue.right(&self.guesser),
            Verdict::Wrong => return queue.wrong(&self.guesser, now),
            Verdict::Neither => {}
        }
        false
    }
}

impl Drop for QueuedCode {
    fn drop(&mut self) {
        let mut queues = self.attempts.0.lock();
        let Some(queue) = queues.by_owner.get_mut(&self.key) else { return };
        let waited = queue.leave(self.ticket);
        let is_over = queue.is_like_new(Instant::now());
        *queues.waiting.of(self.lane) -= usize::from(waited);
        if is_over {
            queues.by_owner.remove(&self.key);
        }
    }
}

/// The result of checking a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
    Neither,
}

/// The right to check one code. The next code is checked when it is dropped. The code then counts as wrong
/// unless [`right`](Self::right) or [`neither`](Self::neither) was called.
#[derive(Debug)]
#[must_use]
pub struct CodeAttempt {
    queued: QueuedCode,
    verdict: Verdict,
}

impl CodeAttempt {
    /// Whether a right code may be accepted. After many wrong codes, an identity needs two
    /// different right codes from one session, shortly after each other.
    pub fn believes(&self, code: &str) -> bool {
        let session = &self.queued.guesser.session;
        let now = Instant::now();
        self.queued.with_queue(|queue| queue.believes(session, code, now)).unwrap_or(false)
    }

    /// Notes that the code was right.
    pub fn right(mut self) {
        self.verdict = Verdict::Right;
    }

    /// Notes that the code was not judged, or that its change failed for another reason.
    pub fn neither(mut self) {
        self.verdict = Verdict::Neither;
    }
}

impl Drop for CodeAttempt {
    fn drop(&mut self) {
        if self.queued.end(self.verdict, Instant::now()) {
            let guesser = &self.queued.guesser;
            let (identity, source) = (&guesser.identity, guesser.source);
            tracing::warn!(%identity, ?source, "many wrong codes of a second factor: from now on two right codes are needed");
        }
    }
}
