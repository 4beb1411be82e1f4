//! Routers that controllers have confirmed, and those that were accepted without an answer.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long the confirmation of a router is valid while no controller can be asked.
const CONFIRMED: Duration = Duration::from_secs(24 * 3600);
/// Most routers whose confirmation is remembered.
const MAX_CONFIRMED: usize = 100_000;
/// Most routers that are accepted without an answer and wait for one.
const MAX_UNASKED: usize = 100_000;
/// How long a late refusal is remembered, for a link whose hello was accepted just before it.
const REFUSED: Duration = Duration::from_secs(60);

/// Stands for every leaf certificate of a router that was removed.
const ANY: &str = "";

/// A router's id, and the fingerprint of the leaf certificate that it has shown.
pub(in crate::link) type Shown = (String, String);

/// The answer about a router that was accepted without one.
#[derive(Debug, Clone, Copy)]
enum Later {
    /// No controller has answered yet.
    Awaited,
    /// A controller has refused the router, at this time.
    Refused(Instant),
}

/// Routers that controllers have confirmed, with the fingerprints of their leaf certificates.
#[derive(Debug, Default)]
pub(in crate::link) struct Confirmed {
    known: HashMap<String, (String, Instant)>,
    unasked: HashMap<Shown, Later>,
}

impl Confirmed {
    /// Notes that a controller has confirmed a router.
    pub(super) fn note(&mut self, router: &str, leaf: &str, now: Instant) {
        self.unasked.remove(&shown(router, leaf));
        self.unasked.remove(&shown(router, ANY));
        if self.known.len() >= MAX_CONFIRMED {
            self.known.retain(|_, (_, at)| now.duration_since(*at) < CONFIRMED);
        }
        if self.known.len() < MAX_CONFIRMED {
            self.known.insert(router.to_owned(), (leaf.to_owned(), now));
        }
    }

    /// True if a router with this leaf was confirmed within [`CONFIRMED`].
    pub(in crate::link) fn holds(&self, router: &str, leaf: &str, now: Instant) -> bool {
        let fresh = |at: Instant| now.saturating_duration_since(at) < CONFIRMED;
        self.known.get(router).is_some_and(|(known, at)| known == leaf && fresh(*at))
    }

    /// Accepts a router that no controller was asked about, if its confirmation holds. The router waits
    /// for an answer then.
    pub(in crate::link) fn accept_unasked(
        &mut self,
        router: &str,
        leaf: &str,
        now: Instant,
    ) -> bool {
        if !self.holds(router, leaf, now) || self.unasked.len() >= MAX_UNASKED {
            return false;
        }
        self.unasked.insert(shown(router, leaf), Later::Awaited);
        true
    }

    /// Has controllers asked about a router that was confirmed before. False if too many wait for an answer.
    pub(super) fn ask_again(&mut self, router: &str, leaf: &str) -> bool {
        let has_room = self.unasked.len() < MAX_UNASKED;
        if has_room {
            self.unasked.insert(shown(router, leaf), Later::Awaited);
        }
        has_room
    }

    /// The routers that wait for an answer. Refusals of more than [`REFUSED`] ago are forgotten.
    pub(in crate::link) fn awaited(&mut self, now: Instant) -> Vec<Shown> {
        self.unasked.retain(|_, later| match later {
            Later::Awaited => true,
            Later::Refused(at) => now.saturating_duration_since(*at) < REFUSED,
        });
        let waits = |(_, later): &(&Shown, &Later)| matches!(later, Later::Awaited);
        self.unasked.iter().filter(waits).map(|(shown, _)| shown.clone()).collect()
    }

    /// Notes that a controller refused a router with this leaf. Its confirmation is void; that of
    /// another leaf stays, because any router can claim the id. True if the router had been accepted
    /// without an answer.
    pub(super) fn refuse(&mut self, router: &str, leaf: &str, now: Instant) -> bool {
        let later = self.unasked.get_mut(&shown(router, leaf));
        let waited = later.as_ref().is_some_and(|later| matches!(later, Later::Awaited));
        if let Some(later) = later {
            *later = Later::Refused(now);
        }
        if self.known.get(router).is_some_and(|(known, _)| known == leaf) {
            self.void(router, leaf, now);
        }
        waited
    }

    /// True if the router was refused, or removed from the network, since it was confirmed or accepted
    /// without an answer.
    pub(super) fn was_refused(&self, router: &str, leaf: &str) -> bool {
        let is_refused = |later: Option<&Later>| matches!(later, Some(Later::Refused(_)));
        [leaf, ANY].iter().any(|leaf| is_refused(self.unasked.get(&shown(router, leaf))))
    }

    /// Voids what was confirmed of a router, which was removed from the network.
    pub(super) fn forget(&mut self, router: &str, now: Instant) {
        self.void(router, ANY, now);
    }

    fn void(&mut self, router: &str, leaf: &str, now: Instant) {
        if self.known.remove(router).is_some() && self.unasked.len() < MAX_UNASKED {
            self.unasked.insert(shown(router, leaf), Later::Refused(now));
        }
    }
}

fn shown(router: &str, leaf: &str) -> Shown {
    (router.to_owned(), leaf.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_holds_for_a_day_and_for_the_same_leaf() {
        let (mut confirmed, now) = (Confirmed::default(), Instant::now());
        confirmed.note("r2", "aa", now);
        assert!(confirmed.holds("r2", "aa", now + CONFIRMED - Duration::from_secs(1)));
        assert!(!confirmed.holds("r2", "aa", now + CONFIRMED));
        assert!(!confirmed.holds("r2", "bb", now) && !confirmed.holds("r3", "aa", now));
        confirmed.forget("r2", now);
        assert!(!confirmed.holds("r2", "aa", now) && confirmed.was_refused("r2", "aa"));
        assert!(confirmed.was_refused("r2", "former leaf") && !confirmed.was_refused("r3", "aa"));
        confirmed.note("r2", "aa", now);
        assert!(!confirmed.was_refused("r2", "aa"));
    }

    #[test]
    fn a_refused_leaf_voids_no_confirmation_of_another() {
        let (mut confirmed, now) = (Confirmed::default(), Instant::now());
        confirmed.note("r2", "aa", now);
        assert!(!confirmed.refuse("r2", "bb", now));
        assert!(confirmed.holds("r2", "aa", now));
        confirmed.refuse("r2", "aa", now);
        assert!(!confirmed.holds("r2", "aa", now));
    }

    #[test]
    fn who_was_accepted_without_an_answer_waits_for_one() {
        let (mut confirmed, now) = (Confirmed::default(), Instant::now());
        assert!(!confirmed.accept_unasked("r2", "aa", now));
        confirmed.note("r2", "aa", now);
        confirmed.note("r3", "cc", now);
        assert!(confirmed.accept_unasked("r2", "aa", now));
        assert!(confirmed.accept_unasked("r3", "cc", now));
        // A confirmation of another leaf is no answer.
        confirmed.note("r2", "bb", now);
        assert_eq!(confirmed.awaited(now).len(), 2);
        confirmed.note("r3", "cc", now);
        assert_eq!(confirmed.awaited(now), [shown("r2", "aa")]);
        assert!(confirmed.refuse("r2", "aa", now) && !confirmed.refuse("r2", "aa", now));
        assert!(confirmed.was_refused("r2", "aa") && confirmed.holds("r2", "bb", now));
        assert!(confirmed.awaited(now + REFUSED).is_empty() && !confirmed.was_refused("r2", "aa"));
    }
}
