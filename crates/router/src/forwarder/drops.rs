//! Counts of the messages that this router threw away, shown in inspections, in metrics and in the
//! log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_xgress::Pushed;

use crate::measures::Measures;
use crate::seam::Dropped;

/// The counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    full: AtomicU64,
    repeated: AtomicU64,
    malformed: AtomicU64,
    no_way: AtomicU64,
    foreign: AtomicU64,
    stuck: AtomicU64,
}

impl Drops {
    /// Counts a message that a queue dropped. A queued message is not counted.
    pub(super) fn pushed(&self, pushed: Pushed) {
        match pushed {
            Pushed::Queued => {}
            Pushed::Duplicate => {
                self.repeated.fetch_add(1, Ordering::Relaxed);
            }
            Pushed::Dropped => {
                self.full.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts a message of a circuit that did not follow its encoding.
    pub(super) fn malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a message that came over a link without a route of its circuit.
    pub(super) fn foreign(&self) {
        self.foreign.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a message of a circuit without a next place.
    pub(super) fn no_way(&self) {
        self.no_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a circuit that was ended because it stopped the other circuits of an SDK.
    pub(super) fn stuck(&self) {
        self.stuck.fetch_add(1, Ordering::Relaxed);
    }

    /// Registers the counts as metrics.
    pub(super) fn register(self: &Arc<Self>, measures: &Measures) {
        measures.also(|scope| {
            let mut count = |name: &'static str, of: fn(&Dropped) -> u64| {
                let drops = Arc::clone(self);
                scope.meter(name, move || of(&drops.seen()));
            };
            count("xgress.dropped_payloads", |seen| seen.full);
            count("faults.circuit", |seen| seen.no_way);
            count("weft.dropped.malformed", |seen| seen.malformed);
            count("weft.dropped.foreign", |seen| seen.foreign);
            let (drops, ends) = (Arc::clone(self), Arc::clone(&measures.ends.duplicates));
            let name = "xgress.payload_duplicates";
            scope.meter(name, move || drops.seen().repeated.wrapping_add(ends.get()));
        });
    }

    /// All counts.
    pub(crate) fn seen(&self) -> Dropped {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Dropped {
            full: count(&self.full),
            repeated: count(&self.repeated),
            malformed: count(&self.malformed),
            no_way: count(&self.no_way),
            foreign: count(&self.foreign),
            stuck: count(&self.stuck),
        }
    }
}
