//! The wait of a client for an answer, and what it is told when its time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The wait of a client for an answer. It ends at the time limit of the request, and the operation goes on.
/// Every change begins here, so that no client is told that nothing was changed while something is. Clones share
/// the wait.
#[derive(Debug, Clone, Default)]
pub struct Wait(Arc<AtomicU8>);

/// The client waits, and no change was begun.
const WAITING: u8 = 0;
/// The client waits, and a change was begun.
const BEGUN: u8 = 1;
/// The client does not wait any more, and was told that nothing was changed.
const OVER: u8 = 2;
/// The client does not wait any more, and was told that a change was begun.
const UNKNOWN: u8 = 3;

impl Wait {
    /// Begins the only change of an operation. False if the client does not wait any more: the change must not
    /// be made.
    #[must_use]
    pub fn begin(&self) -> bool {
        self.step(WAITING, BEGUN)
    }

    /// Begins a change of an operation that may make several, or decides one again. False if the client was told
    /// that nothing was changed: the change must not be made.
    #[must_use]
    pub fn go_on(&self) -> bool {
        self.begin() || self.0.load(Ordering::Acquire) != OVER
    }

    /// Notes that the change that was begun is not made.
    pub fn take_back(&self) {
        // Once the wait is over it stays over.
        if !self.step(BEGUN, WAITING) {
            self.step(UNKNOWN, OVER);
        }
    }

    /// Ends the wait. True if nothing was begun: nothing is changed any more.
    #[must_use]
    pub fn end(&self) -> bool {
        let over = |now| if matches!(now, BEGUN | UNKNOWN) { UNKNOWN } else { OVER };
        let before =
            self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| Some(over(now)));
        !matches!(before, Ok(BEGUN | UNKNOWN))
    }

    /// Whether the client does not wait any more.
    pub fn is_over(&self) -> bool {
        matches!(self.0.load(Ordering::Acquire), OVER | UNKNOWN)
    }

    fn step(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_begun_while_the_client_waits() {
        let wait = Wait::default();
        assert!(wait.begin() && !wait.begin());
        wait.take_back();
        assert!(wait.clone().begin());
        assert!(!wait.end(), "a change was begun");
        wait.take_back();
        assert!(!wait.begin());
        let wait = Wait::default();
        assert!(wait.end() && !wait.begin() && !wait.go_on());
    }

    #[test]
    fn changes_follow_one_that_was_begun() {
        let wait = Wait::default();
        assert!(wait.go_on() && wait.go_on() && !wait.begin() && !wait.is_over());
        assert!(!wait.end() && wait.is_over(), "a change was begun");
        assert!(wait.go_on(), "its client was told that something may be changed");
    }
}
