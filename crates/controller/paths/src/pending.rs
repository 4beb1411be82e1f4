//! Notes changes since the last version of the graph.

use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashSet;
use parking_lot::Mutex;
use weft_model::Id;

/// Above this many changes, everything is looked up again.
const MAX_NOTED: usize = 200_000;

/// Two routers whose link changed, the lower id first.
pub(crate) type Pair = (Id, Id);

pub(crate) fn pair(one: &Id, other: &Id) -> Pair {
    if one <= other { (one.clone(), other.clone()) } else { (other.clone(), one.clone()) }
}

/// Changes since the last version of the graph.
#[derive(Debug, Default)]
pub struct Pending {
    noted: Mutex<Noted>,
    /// Whether a change is noted that counts at once.
    pub(crate) is_urgent: AtomicBool,
    /// Whether a latency is noted.
    pub(crate) has_latencies: AtomicBool,
}

#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// Whether everything may have changed.
    pub(crate) all: bool,
    pub(crate) routers: HashSet<Id>,
    pub(crate) links: HashSet<Pair>,
    pub(crate) latencies: HashSet<Pair>,
}

impl Pending {
    /// Notes a change between two routers other than a latency.
    pub fn link(&self, one: &Id, other: &Id) {
        self.note(&self.is_urgent, |noted| {
            noted.links.insert(pair(one, other));
        });
    }

    /// Notes a latency between two routers that changed enough to count.
    pub fn latency(&self, one: &Id, other: &Id) {
        self.note(&self.has_latencies, |noted| {
            noted.latencies.insert(pair(one, other));
        });
    }

    /// Notes that a router connected, disconnected, or changed.
    pub fn router(&self, router: &Id) {
        self.note(&self.is_urgent, |noted| {
            noted.routers.insert(router.clone());
        });
    }

    /// Notes that everything may have changed.
    pub fn everything(&self) {
        self.note(&self.is_urgent, |noted| *noted = Noted { all: true, ..Noted::default() });
    }

    fn note(&self, flag: &AtomicBool, note: impl FnOnce(&mut Noted)) {
        let mut noted = self.noted.lock();
        note(&mut noted);
        flag.store(true, Ordering::Release);
        if noted.routers.len() + noted.links.len() + noted.latencies.len() > MAX_NOTED {
            *noted = Noted { all: true, ..Noted::default() };
            self.is_urgent.store(true, Ordering::Release);
        }
    }

    /// Takes the noted changes; latencies only if they are due.
    pub(crate) fn take(&self, with_latencies: bool) -> Noted {
        let mut noted = self.noted.lock();
        self.is_urgent.store(false, Ordering::Release);
        let mut taken = std::mem::take(&mut *noted);
        if with_latencies || taken.all {
            self.has_latencies.store(false, Ordering::Release);
        } else {
            std::mem::swap(&mut noted.latencies, &mut taken.latencies);
        }
        taken
    }
}
