//! How fast somebody may guess a code (docs/protocol/auth.md 11.3). Class Memory, bounded.
//!
//! Codes of an identity are looked at one after the other, and after wrong ones with a pause in
//! between, so that codes sent at once are answered no sooner than codes sent one by one. The pause
//! is at most 5 s, for right codes too; few may wait for it, and who has sent the fewest wrong codes
//! comes first, so that whoever guesses waits behind the owner and not in front of him.
//!
//! A pause alone does not stop a guesser: with five codes of a million right at a time, a guess every
//! 5 s finds one within days. After many wrong codes a right one therefore counts only with another
//! right one from the same session ([`Turn::believes`]). That leaves one chance in 8000 a day.

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
/// Codes that wait, of all identities. Each holds one of the places of the web server.
const ALL_WAITING: usize = 128;
/// Queues that are kept; beyond that those that nobody uses are forgotten.
const QUEUES: usize = 100_000;

/// What kind of code it seems to be. Wrong ones of one kind do not hold up the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeKind {
    /// Six digits.
    Totp,
    /// Anything else.
    Recovery,
}

impl CodeKind {
    /// What kind a code is of.
    pub fn of(code: &str) -> Self {
        let is_totp = code.len() == 6 && code.bytes().all(|byte| byte.is_ascii_digit());
        if is_totp { Self::Totp } else { Self::Recovery }
    }
}

/// Who sends a code.
#[derive(Debug, Clone)]
pub struct Guesser {
    /// Whose code it is to be.
    pub identity: Id,
    /// In which session.
    pub session: Id,
    /// From where.
    pub source: Option<IpAddr>,
    /// The session has given a right code before.
    pub(crate) is_proven: bool,
}

/// The queues of all identities. Clones are the same queues.
#[derive(Debug, Clone, Default)]
pub struct Attempts(Arc<Mutex<Queues>>);

#[derive(Debug, Default)]
struct Queues {
    by_owner: HashMap<(Id, CodeKind), Queue>,
    waiting: usize,
    tickets: u64,
}

impl Attempts {
    /// Waits until a code of this kind may be looked at; or says when to try again.
    pub async fn turn(&self, guesser: Guesser, kind: CodeKind) -> Result<Turn, Duration> {
        let place = self.join(guesser, kind, Instant::now())?;
        match tokio::time::timeout(PATIENCE, place.called()).await {
            Ok(true) => {}
            _ => return Err(self.wait_of(&place.key, Instant::now())),
        }
        Ok(Turn { place, verdict: Verdict::Wrong })
    }

    fn join(&self, guesser: Guesser, kind: CodeKind, now: Instant) -> Result<Place, Duration> {
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
        Ok(Place { attempts: self.clone(), key, guesser, ticket, changed })
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

/// A place in a queue; given up when dropped.
#[derive(Debug)]
struct Place {
    attempts: Attempts,
    key: (Id, CodeKind),
    guesser: Guesser,
    ticket: u64,
    changed: Arc<tokio::sync::Notify>,
}

impl Place {
    /// Waits for the turn; false if somebody else got the place.
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

    /// Does something with the queue of the place.
    fn with_queue<T>(&self, act: impl FnOnce(&mut Queue) -> T) -> Option<T> {
        self.attempts.0.lock().by_owner.get_mut(&self.key).map(act)
    }
}

impl Drop for Place {
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

/// What became of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
    Neither,
}

/// The turn of a code. The next comes when it is dropped; then the code counts as wrong, unless it
/// was said to be something else.
#[derive(Debug)]
#[must_use]
pub struct Turn {
    place: Place,
    verdict: Verdict,
}

impl Turn {
    /// Whether a right code may be believed. After many wrong ones it takes two different right
    /// ones, shortly after each other, from one session.
    pub fn believes(&self, code: &str) -> bool {
        let session = &self.place.guesser.session;
        let now = Instant::now();
        self.place.with_queue(|queue| queue.believes(session, code, now)).unwrap_or(false)
    }

    /// The code was right.
    pub fn right(mut self) {
        self.verdict = Verdict::Right;
    }

    /// The code was neither right nor wrong.
    pub fn neither(mut self) {
        self.verdict = Verdict::Neither;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (guesser, verdict, now) = (&self.place.guesser, self.verdict, Instant::now());
        let is_doubted = self.place.with_queue(|queue| {
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
            tracing::warn!(%identity, ?source, "many wrong codes: somebody may be guessing");
        }
    }
}
