//! The terminators of an identity at routers that are away: they do not count for what it may have.
//!
//! A router that is lost keeps its terminators, which are dialed again when the router is back. If these terminators
//! counted, a host that goes to another router would find its limit used up. To find their number, all terminators of
//! the host have to be looked at. That is done only when a host has reached its limit, and the number is kept for a
//! moment; it is dropped when a router connects, because it may have counted that router as away. The number of
//! terminators that do not count is at most the limit itself, so that a host that moves between routers has at most
//! twice its limit.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::Id;

/// How long a figure is kept.
const KEPT: Duration = Duration::from_secs(2);
/// Most identities whose figures are kept.
const MAX_KEPT: usize = 1024;

/// The moment at which a figure was counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountVersion {
    pub(crate) at: Instant,
    /// How many connections of routers there were until then.
    pub(crate) connections: u64,
}

impl CountVersion {
    /// Whether a figure of this moment is good now.
    fn is_good(self, now: Self) -> bool {
        now.at.saturating_duration_since(self.at) < KEPT && self.connections == now.connections
    }
}

/// The figures that are kept, with the moment at which they were counted.
#[derive(Debug, Default)]
pub(crate) struct Away(Mutex<HashMap<Id, (CountVersion, u64)>>);

impl Away {
    /// The number of terminators of a host that are away: the kept number, or the result of `count` if none is kept.
    pub(crate) fn of(&self, host: &Id, now: CountVersion, count: impl FnOnce() -> u64) -> u64 {
        self.known(host, now).unwrap_or_else(|| {
            let count = count();
            self.note(host, count, now);
            count
        })
    }

    fn known(&self, host: &Id, now: CountVersion) -> Option<u64> {
        let known = self.0.lock().get(host).copied();
        known.filter(|(counted, _)| counted.is_good(now)).map(|(_, count)| count)
    }

    fn note(&self, host: &Id, count: u64, now: CountVersion) {
        let mut known = self.0.lock();
        if known.len() >= MAX_KEPT {
            known.retain(|_, (counted, _)| counted.is_good(now));
        }
        if known.len() < MAX_KEPT {
            known.insert(host.clone(), (now, count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn figures_are_kept_for_a_moment_and_of_a_limited_number_of_identities() {
        let (away, begun) = (Away::default(), clock::now());
        let id = |n: usize| Id::new(&n.to_string());
        let after = |time| CountVersion { at: begun + time, connections: 5 };
        (0..2 * MAX_KEPT).for_each(|n| away.note(&id(n), 7, after(Duration::ZERO)));
        assert_eq!(away.0.lock().len(), MAX_KEPT);
        assert_eq!(away.known(&id(0), after(KEPT / 2)), Some(7));
        assert_eq!(away.known(&id(0), after(KEPT)), None);
        assert_eq!(away.of(&id(9_999), after(KEPT), || 8), 8);
        assert_eq!(away.of(&id(9_999), after(KEPT), || 9), 8, "it is kept");
        assert_eq!(away.0.lock().len(), 1, "those of before are forgotten");
        let connected = CountVersion { connections: 6, ..after(KEPT) };
        assert_eq!(away.of(&id(9_999), connected, || 0), 0, "a router came back");
    }
}
