//! Limits how often the claim of an SDK that it records a trace is believed.
//!
//! An SDK may name the trace that a dial belongs to, and say that it records that trace. This
//! router, the controller and the host then record the trace too, as far as their samplers believe
//! it. The claim of an SDK therefore counts for some dials per second only; further dials are
//! recorded if the sampler decides so without it.

use std::time::Instant;

use parking_lot::Mutex;
use weft_limits::{BoundedTable, Caps, TokenBucket, WhenFull};
use weft_wire::TraceContext;

/// Dials per second, and most dials at once, that are recorded because of the claims of all SDKs
/// together.
const ALL: u32 = 100;
/// Dials per second, and most dials at once, that are recorded because of the claims of one
/// identity.
const ONE: u32 = 10;
/// Most identities that are remembered; another one replaces the oldest.
const IDENTITIES: usize = 4096;

/// Limits how often the claims of SDKs that they record a trace are believed.
#[derive(Debug, Default)]
pub(super) struct Trust(Mutex<Option<Shares>>);

#[derive(Debug)]
struct Shares {
    all: TokenBucket,
    each: BoundedTable<String, TokenBucket, ()>,
}

impl Shares {
    fn new(now: Instant) -> Self {
        let caps = Caps {
            total: IDENTITIES,
            per_source: IDENTITIES,
            max_age: None,
            when_full: WhenFull::EvictOldest,
        };
        Self { all: TokenBucket::new(ALL.into(), ALL, now), each: BoundedTable::new(caps) }
    }

    fn take(&mut self, identity: &str, now: Instant) -> bool {
        let has_share = match self.each.get_mut(identity, now) {
            Some(share) => share.try_take(1, now),
            None => {
                let mut share = TokenBucket::new(ONE.into(), ONE, now);
                share.try_take(1, now);
                // There is always room, because the oldest entry goes.
                let _ = self.each.insert(identity.to_owned(), share, (), now);
                true
            }
        };
        has_share && self.all.try_take(1, now)
    }
}

impl Trust {
    /// The trace context of an SDK, with its claim to record removed if the limit is reached.
    pub(super) fn judge(&self, told: TraceContext, identity: &str, now: Instant) -> TraceContext {
        let is_sampled = told.is_sampled && {
            let mut shares = self.0.lock();
            shares.get_or_insert_with(|| Shares::new(now)).take(identity, now)
        };
        TraceContext { is_sampled, ..told }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn told(is_sampled: bool) -> TraceContext {
        TraceContext { trace_id: [1; 16], span_id: [2; 8], is_sampled }
    }

    #[test]
    fn an_identity_is_believed_some_times_per_second() {
        let (trust, now) = (Trust::default(), Instant::now());
        let believed = |identity: &str, now| {
            let asked = (0..1000).map(|_| trust.judge(told(true), identity, now));
            asked.filter(|judged| judged.is_sampled).count()
        };
        assert_eq!(believed("mallory", now), ONE as usize);
        assert_eq!(believed("mallory", now), 0);
        assert_eq!(believed("alice", now), ONE as usize, "others have shares of their own");
        assert_eq!(believed("mallory", now + Duration::from_secs(1)), ONE as usize);
    }

    #[test]
    fn many_identities_together_are_believed_no_more_than_all_may() {
        let (trust, now) = (Trust::default(), Instant::now());
        let judged = (0..10_000).map(|n| trust.judge(told(true), &n.to_string(), now));
        assert_eq!(judged.filter(|judged| judged.is_sampled).count(), ALL as usize);
        let held = trust.0.lock().as_ref().unwrap().each.len();
        assert!(held <= IDENTITIES, "{held}");
    }

    #[test]
    fn what_is_not_recorded_takes_no_share_and_ids_stay() {
        let (trust, now) = (Trust::default(), Instant::now());
        for _ in 0..1000 {
            assert_eq!(trust.judge(told(false), "alice", now), told(false));
        }
        assert_eq!(trust.judge(told(true), "alice", now), told(true));
    }
}
