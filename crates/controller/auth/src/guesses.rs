//! Limits how fast passwords may be guessed. The counts are kept in memory only, and are bounded.
//!
//! Each name and each address has a number of wrong passwords a minute (10 and 100 by default);
//! right passwords cost nothing. When none are left, the next password waits, for 8 s at most. A
//! sender that would have to wait longer is told to come back shortly before its turn.
//!
//! A fifth of a name's passwords is reserved for addresses that sent a right password before.
//! Strangers cannot use it up, so that an owner at a known address is not delayed. Strangers draw
//! lots for each turn, one lot for each address. Beside N guessing addresses, an owner at a new
//! address has a turn after N + 1 intervals (of 10 s by default) on average at most, and sooner
//! because wrong passwords make the lots of the others worse. An address of IPv6 stands for its /64,
//! and the sources of a /48 have three lots together (`seat::Seat`).

mod budget;
mod line;
mod table;
#[cfg(test)]
mod tests;
mod verdict;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use line::Lane;
use parking_lot::Mutex;
use table::{GuessTable, PATIENCE, RetryReason, Step};
use tokio::sync::Notify;
use tokio::time::Instant;
use weft_kernel::GuessLimits;
use weft_limits::Network;

use crate::guesses::verdict::Verdict;

/// The counts of wrong passwords, by name and by address. Clones share them.
#[derive(Debug, Clone)]
pub struct Guesses(Arc<Mutex<GuessTable>>);

impl Guesses {
    /// Empty counts.
    pub fn new(limits: GuessLimits) -> Self {
        Self(Arc::new(Mutex::new(GuessTable::new(limits))))
    }

    /// Waits until a password for a name may be checked; the error is the time after which to try
    /// again.
    pub async fn attempt(
        &self,
        name: &str,
        from: Option<IpAddr>,
    ) -> Result<PasswordAttempt, Duration> {
        let source = from.map(Network::of);
        let (ticket, changed) = self.0.lock().join(name, source, Instant::now())?;
        let mut attempt = PasswordAttempt {
            guesses: self.clone(),
            name: name.into(),
            source,
            ticket,
            from: None,
            // A request that is cancelled during its check counts as wrong, so that guessing by
            // cancelled requests is not free.
            verdict: Verdict::Wrong,
        };
        let why = match tokio::time::timeout(PATIENCE, attempt.called(&changed)).await {
            Ok(Some(from)) => {
                attempt.from = Some(from);
                return Ok(attempt);
            }
            Ok(None) => RetryReason::Lost,
            Err(_) => RetryReason::Later,
        };
        Err(self.0.lock().retry_after(name, source, why, Instant::now()))
    }
}

/// The right to check one password. Dropping it counts the password as wrong, unless
/// [`right`](Self::right) or [`neither`](Self::neither) was called.
#[derive(Debug)]
#[must_use]
pub struct PasswordAttempt {
    guesses: Guesses,
    name: Arc<str>,
    source: Option<Network>,
    ticket: u64,
    /// The lane whose tokens the password draws on; none before its turn.
    from: Option<Lane>,
    verdict: Verdict,
}

impl PasswordAttempt {
    /// Waits for the turn, and returns the lane to draw on; none if another password took its
    /// place.
    async fn called(&self, changed: &Notify) -> Option<Lane> {
        loop {
            let mut again = std::pin::pin!(changed.notified());
            again.as_mut().enable();
            let step = self.guesses.0.lock().step(&self.name, self.ticket, Instant::now());
            match step {
                Step::Go(from) => return Some(from),
                Step::Displaced => return None,
                Step::Behind => again.await,
                Step::At(time) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(time) => {}
                        () = again => {}
                    }
                }
            }
        }
    }

    /// Whether the sender's address sent a right password for the name before.
    pub fn is_of_known(&self) -> bool {
        matches!(self.from, Some(Lane::Known))
    }

    /// Notes that the password was right.
    pub fn right(mut self) {
        self.verdict = Verdict::Right;
    }

    /// Notes that the password was not checked.
    pub fn neither(mut self) {
        self.verdict = Verdict::Neither;
    }
}

impl Drop for PasswordAttempt {
    fn drop(&mut self) {
        let mut table = self.guesses.0.lock();
        match self.from {
            Some(from) => {
                table.end(&self.name, (self.source, from), self.verdict, Instant::now());
            }
            None => table.leave(&self.name, self.ticket),
        }
    }
}
