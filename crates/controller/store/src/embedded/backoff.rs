//! A growing pause between tries after a failure, shared by all callers.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::failure::Failure;

/// Shortest and longest pause.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Longest wait for the cause of a failure that another caller met.
const SOON: Duration = Duration::from_millis(500);

/// The state of the tries of one operation.
#[derive(Debug, Default)]
pub(super) struct Backoff(Mutex<Option<Trouble>>, Condvar);

#[derive(Debug)]
struct Trouble {
    /// Failures since the last success.
    failures: u32,
    /// Time of the next try.
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
    /// An error, the last failure, if the pause is not over.
    pub(super) fn check(&self, now: Instant) -> Result<(), Failure> {
        let trouble = self.0.lock();
        match trouble.as_ref().filter(|trouble| now < trouble.next) {
            None => Ok(()),
            Some(trouble) => Err(trouble.failure()),
        }
    }

    /// The cause of a failure. For [`Failure::Broken`] it is the failure of the caller that met the
    /// error.
    pub(super) fn cause(&self, failure: Failure) -> Failure {
        if !matches!(failure, Failure::Broken) {
            return failure;
        }
        let mut trouble = self.0.lock();
        // That caller notes its failure when its call returns.
        self.1.wait_while_for(&mut trouble, |trouble| trouble.is_none(), SOON);
        trouble.as_ref().map_or(failure, Trouble::failure)
    }

    /// The rest of the pause.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        let trouble = self.0.lock();
        trouble.as_ref().map_or(Duration::ZERO, |it| it.next.saturating_duration_since(now))
    }

    /// Notes a failure.
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

    /// Notes a success.
    pub(super) fn succeeded(&self) {
        *self.0.lock() = None;
    }

    /// Notes the result of a try. Failures that have another cause than the disk change nothing.
    pub(super) fn note<T>(&self, done: Result<&T, &Failure>) {
        match done {
            Ok(_) => self.succeeded(),
            // The caller that met the error notes it.
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
