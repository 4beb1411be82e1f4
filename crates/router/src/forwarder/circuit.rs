//! A circuit on this router: who owns it, and where what comes from an address goes.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::RwLock;
use smallvec::SmallVec;

use super::{Destination, LocalEnd, SdkCircuit};
use crate::seam::ControllerId;

/// A circuit.
#[derive(Debug)]
pub(crate) struct Circuit {
    /// Its id.
    pub(crate) id: Arc<str>,
    /// The controller that made it.
    pub(crate) owner: ControllerId,
    ended: AtomicBool,
    /// Milliseconds since the process began when something was forwarded last.
    active: AtomicU64,
    hops: RwLock<SmallVec<[Hop; 2]>>,
}

/// What comes from one address.
#[derive(Debug, Clone)]
pub(crate) struct Hop {
    /// The address it comes from.
    pub(crate) source: Arc<str>,
    /// The address it goes to.
    pub(crate) destination: Arc<str>,
}

impl Circuit {
    pub(crate) fn new(id: &str, owner: ControllerId) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            owner,
            ended: AtomicBool::new(false),
            active: AtomicU64::new(coarse_now()),
            hops: RwLock::default(),
        })
    }

    /// Something was forwarded.
    pub(crate) fn touch(&self) {
        let now = coarse_now();
        // Most calls fall into the same second: a read is cheaper than a write that other cores see.
        if now - self.active.load(Ordering::Relaxed).min(now) >= 1000 {
            self.active.store(now, Ordering::Relaxed);
        }
    }

    /// How long nothing was forwarded, to a second.
    pub(crate) fn idle(&self) -> Duration {
        Duration::from_millis(coarse_now().saturating_sub(self.active.load(Ordering::Relaxed)))
    }

    /// The circuit is over. True for the first who says so.
    pub(crate) fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Where what comes from this address goes.
    pub(crate) fn next(&self, source: &str) -> Option<Arc<str>> {
        let hops = self.hops.read();
        hops.iter().find(|hop| &*hop.source == source).map(|hop| Arc::clone(&hop.destination))
    }

    /// Adds hops; one that is there already leads elsewhere from now on. Returns what was there
    /// before, to undo.
    pub(crate) fn set_hops(&self, new: &[Hop]) -> SmallVec<[Hop; 2]> {
        let mut hops = self.hops.write();
        let before = hops.clone();
        for hop in new {
            match hops.iter_mut().find(|known| known.source == hop.source) {
                Some(known) => known.destination = Arc::clone(&hop.destination),
                None => hops.push(hop.clone()),
            }
        }
        before
    }

    /// Puts back what [`Self::set_hops`] returned.
    pub(crate) fn restore_hops(&self, before: SmallVec<[Hop; 2]>) {
        *self.hops.write() = before;
    }

    /// All addresses of the circuit on this router.
    pub(crate) fn addresses(&self) -> SmallVec<[Arc<str>; 2]> {
        self.hops.read().iter().map(|hop| Arc::clone(&hop.source)).collect()
    }
}

/// A destination that is looked up once and kept. It is not kept alive: two ends that lead to each
/// other would never be dropped.
#[derive(Debug, Default)]
pub(crate) struct Cached(OnceLock<Target>);

#[derive(Debug)]
enum Target {
    Local(Weak<LocalEnd>),
    Sdk(Weak<SdkCircuit>),
}

impl Cached {
    /// The destination, looked up by `find` if it is not known yet; `None` if there is none, or if
    /// it is gone.
    pub(crate) fn get(&self, find: impl FnOnce() -> Option<Destination>) -> Option<Destination> {
        match self.0.get() {
            Some(Target::Local(end)) => end.upgrade().map(Destination::Local),
            Some(Target::Sdk(end)) => end.upgrade().map(Destination::Sdk),
            None => {
                let found = find()?;
                let _ = self.0.set(match &found {
                    Destination::Local(end) => Target::Local(Arc::downgrade(end)),
                    Destination::Sdk(end) => Target::Sdk(Arc::downgrade(end)),
                });
                Some(found)
            }
        }
    }
}

/// Milliseconds since the first call.
fn coarse_now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(source: &str, destination: &str) -> Hop {
        Hop { source: source.into(), destination: destination.into() }
    }

    #[test]
    fn hops_are_replaced_by_source_and_can_be_put_back() {
        let circuit = Circuit::new("c", "ctrl".into());
        assert!(circuit.set_hops(&[hop("a", "b"), hop("b", "a")]).is_empty());
        let before = circuit.set_hops(&[hop("a", "link")]);
        assert_eq!(circuit.next("a").as_deref(), Some("link"));
        assert_eq!(circuit.next("b").as_deref(), Some("a"));
        circuit.restore_hops(before);
        assert_eq!(circuit.next("a").as_deref(), Some("b"));
        assert_eq!(circuit.next("x"), None);
    }

    #[test]
    fn a_circuit_ends_once() {
        let circuit = Circuit::new("c", "ctrl".into());
        assert!(circuit.end() && !circuit.end() && circuit.has_ended());
    }
}
