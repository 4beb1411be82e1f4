//! Routers that controllers have confirmed, and hellos that were refused.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// How long the confirmation of a router is valid while no controller can be asked.
const CONFIRMED: Duration = Duration::from_secs(24 * 3600);
/// Most routers whose confirmation is remembered.
const MAX_CONFIRMED: usize = 100_000;

/// Routers that controllers have confirmed, with the fingerprints of their leaf certificates.
#[derive(Debug, Default)]
pub(super) struct Confirmed(Mutex<HashMap<String, (String, Instant)>>);

impl Confirmed {
    /// Notes that a controller has confirmed a router.
    pub(super) fn note(&self, router: &str, fingerprint: &str, now: Instant) {
        let mut known = self.0.lock();
        if known.len() >= MAX_CONFIRMED {
            known.retain(|_, (_, at)| now.duration_since(*at) < CONFIRMED);
        }
        if known.len() < MAX_CONFIRMED {
            known.insert(router.to_owned(), (fingerprint.to_owned(), now));
        }
    }

    /// True if a router with this leaf was confirmed within [`CONFIRMED`].
    pub(super) fn holds(&self, router: &str, fingerprint: &str, now: Instant) -> bool {
        let known = self.0.lock();
        let fresh = |at: Instant| now.duration_since(at) < CONFIRMED;
        known.get(router).is_some_and(|(leaf, at)| leaf == fingerprint && fresh(*at))
    }

    pub(super) fn forget(&self, router: &str) {
        self.0.lock().remove(router);
    }
}

/// Counts hellos that were refused because of their content.
#[derive(Debug, Default)]
pub(super) struct Refused(AtomicU64);

impl Refused {
    pub(super) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn seen(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_holds_for_a_day_and_for_the_same_leaf() {
        let (confirmed, now) = (Confirmed::default(), Instant::now());
        confirmed.note("r2", "aa", now);
        assert!(confirmed.holds("r2", "aa", now + CONFIRMED - Duration::from_secs(1)));
        assert!(!confirmed.holds("r2", "aa", now + CONFIRMED));
        assert!(!confirmed.holds("r2", "bb", now) && !confirmed.holds("r3", "aa", now));
        confirmed.forget("r2");
        assert!(!confirmed.holds("r2", "aa", now));
    }
}
