//! Limits how fast codes of second factors may be guessed (docs/protocol/auth.md 11.3). The counts
//! are kept in memory only, and are bounded.
//!
//! Codes of an identity are checked one after the other, with a pause after wrong ones, so that
//! codes sent at once are answered no sooner than codes sent one by one. The pause is at most 5 s,
//! and holds for right codes too. Only few codes may wait, and the sender of the fewest wrong codes
//! comes first, so that a guesser waits behind the owner.
//!
//! A pause alone does not stop a guesser: with five valid codes in a million at any time, a guess
//! every 5 s finds one within days. After many wrong codes, a right code therefore counts only
//! together with another right code of the same session ([`CodeAttempt::believes`]). A guesser is left
//! with one chance in 8000 a day.

mod queue;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;
use weft_model::Id;

use queue::{Queue, Step};

/// Longest wait for a turn; the API answers every request within 10 s.
const PATIENCE: Duration = Duration::from_secs(8);
/// Most waiting codes of all identities. Each of them holds a place among the requests of the web
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

/// The sender of a code.
#[derive(Debug, Clone)]
pub struct Guesser {
    /// The identity whose second factor the code is for.
    pub identity: Id,
    /// The session in which the code is sent.
    pub session: Id,
    /// The address from which the code is sent.
    pub source: Option<IpAddr>,
    /// Whether the session has sent a right code before.
    pub(crate) is_proven: bool,
}

/// The queues of all identities. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Attempts(Arc<Mutex<Queues>>);

#[derive(Debug, Default)]
struct Queues {
    by_owner: HashMap<(Id, CodeKind), Queue>,
    waiting: usize,
    tickets: u64,
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
        if queues.waiting >= ALL_WAITING && !queue.is_free(now) {
            return Err(wait);
        }
        let ticket = queues.tickets;
        let displaced = queue.join(&guesser, ticket).map_err(|_| wait)?;
        let changed = queue.changed();
        queues.tickets += 1;
        queues.waiting += 1;
        queues.waiting -= usize::from(displaced);
        drop(held);
        Ok(QueuedCode { attempts: self.clone(), key, guesser, ticket, changed })
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
            queues.waiting -= 1;
        }
        step
    }

    /// Runs `act` on the queue of the place.
    fn with_queue<T>(&self, act: impl FnOnce(&mut Queue) -> T) -> Option<T> {
        self.attempts.0.lock().by_owner.get_mut(&self.key).map(act)
    }
}

impl Drop for QueuedCode {
    fn drop(&mut self) {
        let mut queues = self.attempts.0.lock();
        let Some(queue) = queues.by_owner.get_mut(&self.key) else { return };
        let waited = queue.leave(self.ticket);
        let is_over = queue.is_like_new(Instant::now());
        queues.waiting -= usize::from(waited);
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
        let (guesser, verdict, now) = (&self.queued.guesser, self.verdict, Instant::now());
        let is_doubted = self.queued.with_queue(|queue| {
            queue.end();
            match verdict {
                Verdict::Right => queue.right(guesser),
                Verdict::Wrong => return queue.wrong(guesser, now),
                Verdict::Neither => {}
            }
            false
        });
        if is_doubted == Some(true) {
            let (identity, source) = (&guesser.identity, guesser.source);
            tracing::warn!(%identity, ?source, "many wrong codes of a second factor: from now on two right codes are needed");
        }
    }
}
