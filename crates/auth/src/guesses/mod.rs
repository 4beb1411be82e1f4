//! How fast somebody may guess passwords. Class Memory, bounded.
//!
//! Wrong passwords use up what a name and an address have (by default 10 and 100 a minute); right
//! ones cost nothing. When nothing is left the next password waits until there is something again,
//! 8 s at most; who would wait for longer is told to come back shortly before.
//!
//! A fifth of what a name has is for addresses alone that gave a right password before: strangers
//! cannot use it up, so that an owner who comes from one waits for nobody. Strangers draw lots for
//! each turn, one for an address: beside N addresses that guess, an owner at a new address has a
//! turn after N + 1 intervals on average at most (of 10 s by default), and sooner as the wrong
//! passwords of the others make their lots worse.

mod left;
mod line;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod verdict;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use weft_kernel::GuessLimits;

use crate::guesses::source::Source;
use crate::guesses::verdict::Verdict;
use line::Lane;
use table::{Again, PATIENCE, Step, Table};

/// What was guessed by whom. Clones are the same.
#[derive(Debug, Clone)]
pub struct Guesses(Arc<Mutex<Table>>);

impl Guesses {
    /// Nobody has guessed yet.
    pub fn new(limits: GuessLimits) -> Self {
        Self(Arc::new(Mutex::new(Table::new(limits))))
    }

    /// Waits until a password for a name may be looked at; or says when to try again.
    pub async fn turn(&self, name: &str, from: Option<IpAddr>) -> Result<Turn, Duration> {
        let source = from.map(Source::of);
        let (ticket, changed) = self.0.lock().join(name, source, Instant::now())?;
        let mut turn = Turn {
            guesses: self.clone(),
            name: name.into(),
            source,
            ticket,
            from: None,
            // Nobody learns what became of a request that was given up while it was looked at, and
            // nobody gets it for nothing.
            verdict: Verdict::Wrong,
        };
        let why = match tokio::time::timeout(PATIENCE, turn.called(&changed)).await {
            Ok(Some(from)) => {
                turn.from = Some(from);
                return Ok(turn);
            }
            Ok(None) => Again::Lost,
            Err(_) => Again::Later,
        };
        Err(self.0.lock().again(name, source, why, Instant::now()))
    }
}

/// The turn of a password. Unless said otherwise it was wrong.
#[derive(Debug)]
#[must_use]
pub struct Turn {
    guesses: Guesses,
    name: Arc<str>,
    source: Option<Source>,
    ticket: u64,
    /// What it draws on; none before it is called.
    from: Option<Lane>,
    verdict: Verdict,
}

impl Turn {
    /// Waits for it, and answers what it draws on; none if somebody else got the place.
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

    /// The password was right.
    pub fn right(mut self) {
        self.verdict = Verdict::Right;
    }

    /// The password was not looked at.
    pub fn neither(mut self) {
        self.verdict = Verdict::Neither;
    }
}

impl Drop for Turn {
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
