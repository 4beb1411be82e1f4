//! What this router threw away, counted where it happens, shown on request and in the log.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use weft_xgress::Pushed;

use crate::{measures::Measures, seam::Dropped};

/// Counts since the start.
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
    /// Notes what a queue did with a message.
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

    /// A message of a circuit did not follow its encoding.
    pub(super) fn malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }

    /// A message came over a link that its circuit does not come over.
    pub(super) fn foreign(&self) {
        self.foreign.fetch_add(1, Ordering::Relaxed);
    }

    /// A message of a circuit had no way on.
    pub(super) fn no_way(&self) {
        self.no_way.fetch_add(1, Ordering::Relaxed);
    }

    /// A circuit was ended because it stopped an SDK's others.
    pub(super) fn stuck(&self) {
        self.stuck.fetch_add(1, Ordering::Relaxed);
    }

    /// Registers what was thrown away.
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

    /// All of it.
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
