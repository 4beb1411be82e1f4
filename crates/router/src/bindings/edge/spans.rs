//! Spans of dials that begin at an SDK.
//!
//! An SDK may say to which trace a dial belongs, and that it records that trace. Whoever says so has
//! this router, the controller and the host record it, too, as far as their samplers believe what
//! they are told. So the word of SDKs counts for some dials per second only; further ones are
//! recorded if the sampler says so without it.

use std::time::{Instant, SystemTime};

use parking_lot::Mutex;
use weft_limits::{BoundedTable, Caps, TokenBucket, WhenFull};
use weft_spans::{Kind, Span, Start, attribute};
use weft_wire::{Message, TraceContext};

use super::EdgeBinding;
use crate::seam::{ApiSession, MadeCircuit, Refusal};

/// Dials per second that all SDKs together have recorded by their own word, and as many at once.
const ALL: u32 = 100;
/// The same of one identity.
const ONE: u32 = 10;
/// Identities that are remembered; a further one takes the place of the oldest.
const IDENTITIES: usize = 4096;

impl EdgeBinding {
    /// When a request came, if anybody wants to know.
    pub(super) fn came(&self) -> Option<SystemTime> {
        self.options.spans.is_on().then(SystemTime::now)
    }

    /// The span of a dial.
    pub(super) fn dial_span(
        &self,
        message: &Message,
        session: &ApiSession,
        since: Option<SystemTime>,
    ) -> Span {
        let spans = &self.options.spans;
        if !spans.is_on() {
            return Span::none();
        }
        let parent = TraceContext::take(&message.headers)
            .map(|told| self.trust.judge(told, &session.identity, Instant::now()));
        let mut span =
            spans.begin(Start { name: "router.dial", kind: Kind::Server, parent, since });
        span.set(attribute::ROUTER_ID, &self.options.router_id);
        span.set(attribute::LISTENER, "edge");
        span.set(attribute::IDENTITY_ID, &session.identity);
        span
    }
}

/// Says in the span of a dial what became of it.
pub(super) fn made(span: &mut Span, circuit: &MadeCircuit) {
    span.event("circuit made");
    span.set(attribute::CIRCUIT_ID, &circuit.id);
    span.set(attribute::CONTROLLER_ID, &*circuit.controller);
}

/// Says in the span of a dial why there is no circuit.
pub(super) fn refused(span: &mut Span, refusal: &Refusal) {
    if let Some(circuit) = &refusal.circuit {
        span.set(attribute::CIRCUIT_ID, circuit);
    }
    span.set(attribute::ERROR_CODE, refusal.code);
    span.fail(&refusal.message);
}

/// How often SDKs are believed that they record a trace.
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
                // There is always room: the oldest goes.
                let _ = self.each.insert(identity.to_owned(), share, (), now);
                true
            }
        };
        has_share && self.all.try_take(1, now)
    }
}

impl Trust {
    /// What an SDK says of its trace, as far as it is believed.
    fn judge(&self, told: TraceContext, identity: &str, now: Instant) -> TraceContext {
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
