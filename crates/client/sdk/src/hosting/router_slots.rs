//! The slots of a listener: on which routers it is bound, and which router comes next.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, Refusal};

/// The first wait after a bind was refused.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// The longest such wait. A bind that stood this long counts as a success.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long a router may deny a bind before it refuses the listener for good: its data model may be
/// older than the service session.
const PATIENCE: Duration = Duration::from_secs(10);

/// The routers of a listener, of which only as many are taken as there are slots. `R` is a router.
pub(super) struct RouterSlots<R> {
    most: usize,
    taken: usize,
    routers: HashMap<String, Candidate<R>>,
}

/// A router that the listener may be bound on.
struct Candidate<R> {
    router: R,
    is_listed: bool,
    is_taken: bool,
    failures: u32,
    denials: Denials,
    /// The router is not asked before this time.
    paused_until: Option<Instant>,
    /// The error of a router that refuses the listener for good.
    refusal: Option<Error>,
}

/// How a bind ended.
pub(super) struct Ended<'a> {
    /// True if the listener could be dialed over the router.
    pub(super) was_established: bool,
    /// How long the bind took or stood.
    pub(super) lasted: Duration,
    /// True if the channel to the router is closed; it has a backoff of its own.
    pub(super) is_cut: bool,
    /// The refusal of the router, with the error that the application is told.
    pub(super) refusal: Option<(&'a Refusal, Error)>,
}

impl<R: Clone> RouterSlots<R> {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), taken: 0, routers: HashMap::new() }
    }

    /// These are the routers from now on. A router that is taken stays so until its bind ends. True if they
    /// are others than before.
    pub(super) fn list(&mut self, routers: impl IntoIterator<Item = (String, R)>) -> bool {
        let before = self.names();
        self.routers.values_mut().for_each(|known| known.is_listed = false);
        for (name, router) in routers {
            let known = self.routers.entry(name).or_insert_with(|| Candidate {
                router: router.clone(),
                is_listed: true,
                is_taken: false,
                failures: 0,
                denials: Denials::default(),
                paused_until: None,
                refusal: None,
            });
            known.router = router;
            known.is_listed = true;
        }
        self.routers.retain(|_, known| known.is_listed || known.is_taken);
        before != self.names()
    }

    /// The names of the listed routers.
    fn names(&self) -> HashSet<String> {
        let listed = self.routers.iter().filter(|(_, known)| known.is_listed);
        listed.map(|(name, _)| name.clone()).collect()
    }

    /// The listed routers.
    pub(super) fn listed(&self) -> impl Iterator<Item = &R> {
        self.routers.values().filter(|known| known.is_listed).map(|known| &known.router)
    }

    /// True if no slot is taken.
    pub(super) fn have_none_taken(&self) -> bool {
        self.taken == 0
    }

    /// True if every slot is taken.
    pub(super) fn are_taken(&self) -> bool {
        self.taken >= self.most
    }

    /// True if every listed router is taken.
    pub(super) fn have_all_routers(&self) -> bool {
        self.routers.values().all(|known| known.is_taken)
    }

    /// Takes a slot for a router, if one is free. `distance` is that to a connected router, and `None`
    /// for the others. Of two routers at random the nearer one is taken: listeners in one place do not
    /// all choose the same router.
    pub(super) fn take(
        &mut self,
        now: Instant,
        distance: impl Fn(&R) -> Option<u64>,
    ) -> Option<(String, R)> {
        if self.are_taken() {
            return None;
        }
        let is_free = |known: &Candidate<R>| {
            known.is_listed
                && !known.is_taken
                && known.paused_until.is_none_or(|until| until <= now)
        };
        let free = self.routers.iter_mut().filter(|(_, known)| is_free(known));
        let mut free: Vec<_> = free
            .filter_map(|(name, known)| Some((distance(&known.router)?, name, known)))
            .collect();
        let pick = |count: usize| (count > 0).then(|| rand::random_range(0..count));
        let first = pick(free.len()).map(|at| free.swap_remove(at))?;
        let second = pick(free.len()).map(|at| free.swap_remove(at));
        let (_, name, known) = match second {
            Some(second) if second.0 < first.0 => second,
            _ => first,
        };
        known.is_taken = true;
        self.taken += 1;
        Some((name.clone(), known.router.clone()))
    }

    /// The bind on a router ended, and its slot is free. True if the router refuses the listener for
    /// good from now on; it is asked again after `long`.
    pub(super) fn free(
        &mut self,
        name: &str,
        how: Ended<'_>,
        now: Instant,
        long: Duration,
    ) -> bool {
        let Some(known) = self.routers.get_mut(name).filter(|known| known.is_taken) else {
            return false;
        };
        known.is_taken = false;
        self.taken = self.taken.saturating_sub(1);
        if how.was_established {
            known.denials = Denials::default();
            known.refusal = None;
        }
        known.failures = if how.lasted >= LONGEST_WAIT { 0 } else { known.failures + 1 };
        let mut pause = wait(known.failures);
        let mut is_for_good = false;
        if let Some((refusal, error)) = how.refusal {
            is_for_good = known.denials.take(refusal, now);
            if is_for_good {
                known.refusal = Some(error);
                pause = long;
            }
        }
        known.paused_until = (!how.is_cut || is_for_good).then(|| now + pause);
        if !known.is_listed {
            self.routers.remove(name);
        }
        is_for_good
    }

    /// The next end of a pause, while a slot is free.
    pub(super) fn next_pause_end(&self, now: Instant) -> Option<Instant> {
        let free = self.routers.values().filter(|known| !known.is_taken && known.is_listed);
        let ends = free.filter_map(|known| known.paused_until.filter(|until| *until > now));
        ends.min().filter(|_| !self.are_taken())
    }

    /// The error of one of the routers, if all of them refuse the listener for good.
    pub(super) fn refusal_of_all(&self) -> Option<Error> {
        let mut refusals = self.routers.values().map(|known| known.refusal.clone());
        let first = refusals.next()?;
        first.filter(|_| refusals.all(|refusal| refusal.is_some()))
    }
}

/// The denials of one router since its last bind that was established.
#[derive(Debug, Default)]
struct Denials {
    since: Option<Instant>,
}

impl Denials {
    /// Takes a refusal. True if the router refuses the listener for good.
    fn take(&mut self, refusal: &Refusal, now: Instant) -> bool {
        if refusal.is_stale_session() || !refusal.is_final() {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        !refusal.may_pass() || now.saturating_duration_since(since) >= PATIENCE
    }
}

/// The wait after this many failures in a row.
pub(super) fn wait(failures: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use weft_wire::edge::{ErrorCode, RetryHint};

    use super::*;

    fn refusal(code: ErrorCode, hint: RetryHint) -> Refusal {
        Refusal { code: Some(code.0), retry_hint: hint.0, ..Refusal::default() }
    }

    #[test]
    fn a_router_may_deny_a_bind_for_a_while() {
        let denied = refusal(ErrorCode::ACCESS_DENIED, RetryHint::DEFAULT);
        let busy = refusal(ErrorCode::INTERNAL, RetryHint::TOO_BUSY);
        let (start, mut denials) = (Instant::now(), Denials::default());
        assert!(!denials.take(&denied, start));
        assert!(!denials.take(&denied, start + PATIENCE / 2));
        assert!(denials.take(&denied, start + PATIENCE));
        // Another refusal begins the time anew.
        assert!(!denials.take(&busy, start + PATIENCE));
        assert!(!denials.take(&denied, start + PATIENCE));
        for never in [
            refusal(ErrorCode::ACCESS_DENIED, RetryHint::NOT_RETRIABLE),
            refusal(ErrorCode::INVALID_INSTANCE_ID, RetryHint::DEFAULT),
        ] {
            assert!(Denials::default().take(&never, start));
        }
    }

    fn routers(count: u64) -> impl Iterator<Item = (String, u64)> {
        (0..count).map(|number| (format!("r{number}"), number))
    }

    fn lost() -> Ended<'static> {
        let lasted = Duration::from_secs(60);
        Ended { was_established: true, lasted, is_cut: true, refusal: None }
    }

    /// Takes slots until none is left; the names.
    fn take_all(slots: &mut RouterSlots<u64>, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| slots.take(now, |router| Some(*router)).map(|(name, _)| name))
            .collect()
    }

    #[test]
    fn only_as_many_routers_as_there_are_slots_are_taken() {
        let (mut slots, now) = (RouterSlots::new(3), Instant::now());
        assert!(slots.take(now, |_| Some(0)).is_none());
        assert!(slots.list(routers(200)) && !slots.list(routers(200)));
        assert!(slots.take(now, |_| None).is_none(), "none is connected");
        let first = take_all(&mut slots, now);
        assert_eq!((first.len(), slots.are_taken(), slots.have_all_routers()), (3, true, false));
        assert!(!slots.free(&first[0], lost(), now, LONGEST_WAIT));
        let connected = |router: &u64| (format!("r{router}") != first[0]).then_some(*router);
        let (next, _) = slots.take(now, connected).unwrap();
        assert!(!first.contains(&next));
        assert!(slots.take(now, connected).is_none());
    }

    #[test]
    fn listeners_choose_different_routers_and_rather_near_ones() {
        let now = Instant::now();
        let mut taken = [0; 10];
        for _ in 0..1000 {
            let mut slots = RouterSlots::new(1);
            slots.list(routers(10));
            let (_, router) = slots.take(now, |router| Some(*router)).unwrap();
            taken[usize::try_from(router).unwrap()] += 1;
        }
        assert!(taken[..5].iter().sum::<i32>() > taken[5..].iter().sum());
        assert!(taken[..9].iter().all(|count| *count > 0), "{taken:?}");
    }

    #[test]
    fn a_router_that_fails_is_asked_again_after_a_pause_and_is_forgotten_when_it_goes() {
        let (mut slots, now) = (RouterSlots::new(2), Instant::now());
        slots.list(routers(1));
        let failed = || Ended {
            was_established: false,
            lasted: Duration::ZERO,
            is_cut: false,
            refusal: None,
        };
        assert_eq!(take_all(&mut slots, now), ["r0"]);
        assert_eq!(slots.next_pause_end(now), None);
        slots.free("r0", failed(), now, LONGEST_WAIT);
        assert!(take_all(&mut slots, now).is_empty());
        let end = slots.next_pause_end(now).unwrap();
        assert_eq!((end, take_all(&mut slots, end).len()), (now + FIRST_WAIT, 1));
        // The controller does not list the router any more.
        assert!(slots.list(Vec::new()));
        assert!(slots.listed().next().is_none() && slots.have_all_routers());
        slots.free("r0", failed(), end, LONGEST_WAIT);
        assert!(slots.routers.is_empty() && slots.taken == 0);
    }

    #[test]
    fn the_listener_is_over_once_all_routers_refuse_it_for_good() {
        let (mut slots, now) = (RouterSlots::new(3), Instant::now());
        let long = Duration::from_secs(60);
        slots.list(routers(2));
        assert_eq!(take_all(&mut slots, now).len(), 2);
        let never = refusal(ErrorCode::ACCESS_DENIED, RetryHint::NOT_RETRIABLE);
        let refused = || {
            let error = Error::Closed("never".to_owned());
            Ended { refusal: Some((&never, error)), was_established: false, ..lost() }
        };
        assert!(slots.free("r0", refused(), now, long));
        assert_eq!(slots.next_pause_end(now), Some(now + long));
        assert!(slots.refusal_of_all().is_none());
        assert!(slots.free("r1", refused(), now, long));
        assert!(slots.refusal_of_all().is_some());
        slots.list(routers(3));
        assert!(slots.refusal_of_all().is_none(), "another one may take it");
    }
}
