//! The terminators of an identity at routers that are away: they do not count for what it may have.
//!
//! A router that is lost keeps its terminators, which are dialed again when it is back. If they counted, a host that
//! goes to another router would find its own limit used up. They are counted when a host has reached its limit, which is
//! rare, and the figure is kept for a moment, because to count them means to look at all terminators of the host.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::entity::Terminator;
use weft_model::{Id, Kind, Snapshot};

use crate::clock;
use crate::full::Filled;
use crate::network::Network;

/// How long a figure is kept.
const KEPT: Duration = Duration::from_secs(2);
/// Most identities whose figures are kept.
const MAX_KEPT: usize = 1024;

/// The figures that are kept, with the time at which they were counted.
#[derive(Debug, Default)]
pub(crate) struct Away(Mutex<HashMap<Id, (Instant, u64)>>);

impl Away {
    fn known(&self, host: &Id, now: Instant) -> Option<u64> {
        let known = self.0.lock().get(host).copied();
        known.filter(|(at, _)| now.saturating_duration_since(*at) < KEPT).map(|(_, count)| count)
    }

    fn note(&self, host: &Id, count: u64, now: Instant) {
        let mut known = self.0.lock();
        if known.len() >= MAX_KEPT {
            known.retain(|_, (at, _)| now.saturating_duration_since(*at) < KEPT);
        }
        if known.len() < MAX_KEPT {
            known.insert(host.clone(), (now, count));
        }
    }
}

impl Network {
    /// The number of terminators of a host that do not count for its limit. Counted only if the host has reached that.
    pub(crate) fn terminators_away(&self, snapshot: &Snapshot, host: &Id) -> u64 {
        let limit = Filled::Terminators.limit(snapshot, host, self.0.options.per_identity).most;
        let all = snapshot.table(Kind::Terminator).count_referrers(Terminator::HOST, host);
        if host.is_empty() || all < limit {
            return 0;
        }
        let now = clock::now();
        if let Some(count) = self.0.away.known(host, now) {
            return count;
        }
        let terminators = snapshot.referring::<Terminator>(Terminator::HOST, host);
        let at_routers = terminators.map(|terminator| terminator.router_id.as_str());
        let is_away = |router: &&str| self.0.routers.get(router).is_none();
        let count = at_routers.filter(is_away).count() as u64;
        self.0.away.note(host, count, now);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_kept_for_a_moment_and_of_a_limited_number_of_identities() {
        let (away, begun) = (Away::default(), clock::now());
        let id = |n: usize| Id::new(&n.to_string());
        (0..2 * MAX_KEPT).for_each(|n| away.note(&id(n), 7, begun));
        assert_eq!(away.0.lock().len(), MAX_KEPT);
        assert_eq!(away.known(&id(0), begun + KEPT / 2), Some(7));
        assert_eq!(away.known(&id(0), begun + KEPT), None);
        away.note(&id(9_999), 8, begun + KEPT);
        assert_eq!((away.0.lock().len(), away.known(&id(9_999), begun + KEPT)), (1, Some(8)));
    }
}
