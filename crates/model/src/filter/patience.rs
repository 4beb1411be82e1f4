//! The end of a search for which nobody waits any more. Tests behind links may be very many, and a thread that
//! makes them cannot be stopped from outside.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Tests between two questions whether somebody still waits.
const TESTS: u32 = 1024;

/// How long a search may go on. Clones share the tests that were counted. The default never ends.
#[derive(Clone, Default)]
pub struct Patience(Option<Arc<Waiting>>);

struct Waiting {
    is_over: Box<dyn Fn() -> bool + Send + Sync>,
    /// The number of tests so far. One thread makes them all, so that the number needs no atomic addition.
    tests: AtomicU32,
    is_given_up: AtomicBool,
}

/// Nobody waits for the list any more: what was found so far is not all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenUp;

impl Patience {
    /// Lets a search go on until the function is true.
    pub fn until(is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let is_over = Box::new(is_over);
        Self(Some(Arc::new(Waiting {
            is_over,
            tests: AtomicU32::new(0),
            is_given_up: AtomicBool::new(false),
        })))
    }

    /// Counts a test. False if the search is given up.
    pub(super) fn lasts(&self) -> bool {
        let Some(waiting) = &self.0 else { return true };
        if waiting.is_given_up.load(Ordering::Relaxed) {
            return false;
        }
        let tests = waiting.tests.load(Ordering::Relaxed);
        waiting.tests.store(tests.wrapping_add(1), Ordering::Relaxed);
        if tests.is_multiple_of(TESTS) && (waiting.is_over)() {
            waiting.is_given_up.store(true, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Fails if the search was given up.
    pub(super) fn check(&self) -> Result<(), GivenUp> {
        match &self.0 {
            Some(waiting) if waiting.is_given_up.load(Ordering::Relaxed) => Err(GivenUp),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Patience(limited)" } else { "Patience(endless)" })
    }
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody waits for the list any more")
    }
}

impl std::error::Error for GivenUp {}
