//! When something that failed is tried again: not at once by everybody who comes, and later the more
//! often it failed.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::failure::Failure;

/// The first pause and the longest.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// How long the failure of somebody else is waited for.
const SOON: Duration = Duration::from_millis(500);

/// Tries of one thing.
#[derive(Debug, Default)]
pub(super) struct Backoff(Mutex<Option<Trouble>>, Condvar);

#[derive(Debug)]
struct Trouble {
    /// Failures since it last worked.
    failures: u32,
    /// Not before.
    next: Instant,
    is_full: bool,
    reason: String,
}

impl Trouble {
    fn failure(&self) -> Failure {
        if self.is_full { Failure::Full } else { Failure::Unavailable(self.reason.clone()) }
    }
}

impl Backoff {
    /// Whether it may be tried now; if not, why the last try failed.
    pub(super) fn check(&self, now: Instant) -> Result<(), Failure> {
        let trouble = self.0.lock();
        match trouble.as_ref().filter(|trouble| now < trouble.next) {
            None => Ok(()),
            Some(trouble) => Err(trouble.failure()),
        }
    }

    /// What a failure is due to: one that only says that somebody else failed before is what he met.
    pub(super) fn cause(&self, failure: Failure) -> Failure {
        if !matches!(failure, Failure::Broken) {
            return failure;
        }
        let mut trouble = self.0.lock();
        // He takes note as soon as he is back.
        self.1.wait_while_for(&mut trouble, |trouble| trouble.is_none(), SOON);
        trouble.as_ref().map_or(failure, Trouble::failure)
    }

    /// How long it is not tried.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        let trouble = self.0.lock();
        trouble.as_ref().map_or(Duration::ZERO, |it| it.next.saturating_duration_since(now))
    }

    /// It failed.
    pub(super) fn failed(&self, failure: &Failure, now: Instant) {
        let mut trouble = self.0.lock();
        let failures = trouble.as_ref().map_or(0, |trouble| trouble.failures);
        let pause = SHORTEST.saturating_mul(1 << failures.min(16)).min(LONGEST);
        *trouble = Some(Trouble {
            failures: failures.saturating_add(1),
            next: now + pause,
            is_full: matches!(failure, Failure::Full),
            reason: failure.reason(),
        });
        self.1.notify_all();
    }

    /// It worked.
    pub(super) fn succeeded(&self) {
        *self.0.lock() = None;
    }

    /// Takes note of how a try ended. What says nothing of the disk changes nothing.
    pub(super) fn note<T>(&self, done: Result<&T, &Failure>) {
        match done {
            Ok(_) => self.succeeded(),
            // What somebody else met is noted by him.
            Err(Failure::Broken) => {}
            Err(failure) if failure.breaks() => self.failed(failure, Instant::now()),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_it_broken_is_told_what_broke_it() {
        let backoff = Backoff::default();
        std::thread::scope(|scope| {
            let told = scope.spawn(|| backoff.cause(Failure::Broken));
            backoff.failed(&Failure::Full, Instant::now());
            assert!(matches!(told.join().unwrap(), Failure::Full));
        });
        assert!(matches!(backoff.cause(Failure::InUse), Failure::InUse));
        backoff.succeeded();
        assert!(matches!(backoff.cause(Failure::Broken), Failure::Broken));
    }

    #[test]
    fn tries_come_later_and_later_and_at_once_after_one_that_worked() {
        let (backoff, now) = (Backoff::default(), Instant::now());
        assert!(backoff.check(now).is_ok());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            backoff.failed(&Failure::Full, now);
            assert!(matches!(backoff.check(now), Err(Failure::Full)));
            pauses.push(backoff.pause(now).as_millis());
            assert!(backoff.check(now + backoff.pause(now)).is_ok());
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.succeeded();
        assert!(backoff.check(now).is_ok());
    }
}
